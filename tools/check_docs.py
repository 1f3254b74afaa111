#!/usr/bin/env python3
"""What every reader relies on, checked:

* each FBY_API function of include/forebay has a documentation comment, of its own or of the group it stands in (lines
  that follow each other without a blank line), or a comment at the end of its line; it, or the comment at the top of the
  header, says which threads may call it ("Threads:"), whether it waits ("Blocks:"), since when it is there ("Since:"), and, where it
  returns a status, with which errors;
* each source file starts with a comment that says what it is;
* one that begins with #! can be run;
* no source file is longer than MAX_LINES, and no line of one than MAX_COLUMNS;
* no private struct has more than MAX_FIELDS fields: what belongs together becomes a struct inside it;
* relative links and anchors' files in *.md exist;
* the version is the same in the header, the Python package, CITATION.cff and the packages of distributions, and CHANGELOG.md has a heading for it;
* no marker of unfinished work (MARKERS) is left in a source file.

Exit 1 when something is wrong, each finding as file:line.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import c_reference

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 650
MAX_COLUMNS = 160
MAX_FIELDS = 40
OWNERSHIP = re.compile(r"[Oo]wned|[Oo]wnership|borrowed|belongs|reference|unref|close\(\)")
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
CODE_FOLDERS = ["include", "src", "cli", "helper", "examples", "fuzz", "python", "tests", "bench", "tools"]
CODE_SUFFIXES = {".c", ".h", ".py", ".pyi", ".sh"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
COMMENT_START = {".c": "/*", ".h": "/*", ".py": ('"""', "#", "r'''", 'r"""', "'''"), ".pyi": ('"""', "#"), ".sh": "#"}

findings = []


def finding(path, line, text):
    findings.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def check_public_header(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    top = next(number for number, line in enumerate(lines) if "*/" in line)
    count = 0
    for number, line in enumerate(lines):
        if not re.match(r"\s*FBY_API\b", line):
            continue
        count += 1
        above = number
        while above > 0 and lines[above - 1].strip() and not lines[above - 1].rstrip().endswith("*/"):
            above -= 1
        documented = above > 0 and lines[above - 1].rstrip().endswith("*/")
        begin = above
        while documented and begin > 0 and "/*" not in lines[begin - 1]:
            begin -= 1
        said = "\n".join(lines[: top + 1] + lines[max(begin - 1, 0) : above] + [line])
        wanted = ["Threads:", "Blocks:", "Since:", *(["FBY_E_"] if "FBY_API fby_status fby_" in line else [])]
        for what in wanted:
            if what not in said:
                finding(path, number + 1, f"{what} is said nowhere: {line.strip()}")
        declared = "\n".join(lines[number:]).partition(";")[0]
        own = "\n".join(lines[max(begin - 1, 0) : above] + [line])
        if re.search(r"\bfby_(dataset|samples|lookup|loader|batch|pipeline) \*\*", declared) and not OWNERSHIP.search(own):
            finding(path, number + 1, f"whose *out is, is not said: {line.strip()}")
    text = "\n".join(lines)
    for name in c_reference.undocumented(text):
        at = re.search(rf"^FBY_API\b[^;(]*\b{name}\(", text, re.MULTILINE)
        finding(path, 1 + text.count("\n", 0, at.end()), f"undocumented: {name}")
    return count


def check_code(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        finding(path, len(lines), f"{len(lines)} lines, more than {MAX_LINES}: look for the seam")
    for number, line in enumerate(lines, 1):
        if MARKERS.search(line):
            finding(path, number, "marker of unfinished work")
        if len(line) > MAX_COLUMNS:
            finding(path, number, f"{len(line)} columns, more than {MAX_COLUMNS}: wrap it")
    first = text.lstrip()
    if first.startswith("#!"):
        if not os.access(path, os.X_OK):
            finding(path, 1, "begins with #! and cannot be run: chmod +x")
        first = first.split("\n", 1)[-1].lstrip()
    if first and not first.startswith(COMMENT_START[path.suffix]):
        finding(path, 1, "no comment at the top that says what the file is")


def structs(text):
    """Line and number of fields of each struct of a C file. One inside another counts as one field, and for itself."""
    text = c_reference.NO_CODE.sub(lambda found: "\n" * found.group().count("\n"), text)
    for start in re.finditer(r"\bstruct\b[^;{}()=]*\{", text):
        depth, own = 1, []
        for c in text[start.end() :]:
            depth += (c in "{(") - (c in "})")
            if depth == 0:
                break
            if depth == 1 and c not in "})":
                own.append(c)
        yield text.count("\n", 0, start.start()) + 1, sum(d.count(",") + 1 for d in "".join(own).split(";") if d.strip())


def check_structs(path):
    for line, fields in structs(path.read_text(encoding="utf-8")):
        if fields > MAX_FIELDS:
            finding(path, line, f"a struct of {fields} fields, more than {MAX_FIELDS}: who owns which of them?")


def check_links(path):
    in_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if in_code:
            continue
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (path.parent / target.split("#")[0]).exists():
                finding(path, number, f"broken link: {target}")


def check_version():
    places = {"include/forebay/base.h": r'FBY_VERSION_STRING "([^"]+)"', "python/forebay/__init__.py": r'__version__ = "([^"]+)"',
              "CITATION.cff": r"(?m)^version: (\S+)", "debian/changelog": r"\Aforebay \(([^)]+)-\d+\)",
              "packaging/conda-forge/recipe.yaml": r'version: "([^"]+)"', "packaging/spack/package.py": r'version\("([^"]+)"'}
    found = {name: re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))[1] for name, pattern in places.items()}
    version = found["include/forebay/base.h"]
    for name, said in found.items():
        if said != version:
            finding(ROOT / name, 1, f"the version is {said}, and {version} in include/forebay/base.h")
    if not re.search(rf"(?m)^## (Unreleased|{re.escape(version)}\b)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")):
        finding(ROOT / "CHANGELOG.md", 1, f"no heading for version {version}, and none for what is not released")


def tracked(pattern):
    """Files git knows or would know: not those of build folders and virtual environments."""
    try:
        out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern], cwd=ROOT,
                             capture_output=True, text=True, check=True).stdout
        return [ROOT / name for name in out.splitlines() if (ROOT / name).is_file()]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        return [p for p in ROOT.rglob(pattern) if not re.search(r"/(build[^/]*|\.venv|\.demo)/", str(p))]


def main():
    functions = sum(check_public_header(p) for p in sorted((ROOT / "include/forebay").glob("*.h")))
    files = 0
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in CODE_SUFFIXES and path.is_file() and "__pycache__" not in path.parts:
                files += 1
                check_code(path)
                if path.suffix in (".c", ".h") and folder in ("src", "cli", "helper", "python"):
                    check_structs(path)
    check_version()
    pages = tracked("*.md")
    for path in pages:
        check_links(path)
    for text in findings:
        print(text)
    print(f"check_docs: {functions} public functions, {files} files, {len(pages)} pages, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
