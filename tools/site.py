#!/usr/bin/env python3
"""Makes the site of the documentation, build-docs/site, with MkDocs: `make docs`.

The pages in git link to headers, programs and folders of the repository. Here each of these becomes a page too, so that every link leads somewhere
inside the site, and MkDocs can check them all: a link or an anchor that leads nowhere fails.

    build-docs/pages/index.md          README.md
    build-docs/pages/**/*.md           the other pages, where they lie in the repository
    build-docs/pages/**/notebook.md    notebooks: their text and their code
    build-docs/pages/source/….md       files that pages link to, as code; folders, as lists
    build-docs/pages/reference/        python.md, from docstrings by mkdocstrings; c.md and c/, from the public headers by c_reference.py
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import c_reference

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build-docs/pages"
LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
LANGUAGES = {".h": "c", ".c": "c", ".py": "python", ".f90": "fortran", ".R": "r", ".jl": "julia", ".toml": "toml", ".yaml": "yaml", ".sh": "bash"}
TEXTS = {*LANGUAGES, ".txt", ".in", ".csv", ".yml", ".pyi", ".cmake", ".map", ".tsv", ".cff"}
LIST = re.compile(r"\s*([*-]|\d+\.) ")
HEADER = re.compile(r"include/forebay/(\w+)\.h$")


def tracked():
    """Files that git knows, or would."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in out.splitlines() if (ROOT / name).is_file()}


class Site:
    """Pages as they are gathered."""

    def __init__(self):
        self.files = tracked()
        self.folders = {str(parent) for name in self.files for parent in Path(name).parents if str(parent) != "."}
        self.sources = set()

    def place(self, target):
        """Where a file or folder of the repository is in the site; None when it has no place there."""
        if target == "README.md":
            return "index.md"
        if target in self.files and (header := HEADER.match(target)):
            return f"reference/c/{header[1]}.md"
        if target in self.folders:
            return f"{target}/README.md" if f"{target}/README.md" in self.files else self.source(target)
        path = Path(target)
        if path.suffix == ".ipynb" and target in self.files:
            return str(path.with_suffix(".md"))
        if target not in self.files or not (path.suffix in {*TEXTS, ".md", ".png", ".svg"} or path.name in ("LICENSE", "Makefile", "Containerfile")):
            return None
        return target if target.endswith((".md", ".png", ".svg")) else self.source(target)

    def source(self, target):
        self.sources.add(target)
        return f"source/{target}.md"

    def rewrite(self, name, text):
        """A page's text with links for the site; `name` is its place in the repository."""
        here = os.path.dirname(self.place(name) if name in self.files else name)

        def link(found):
            path, hash, anchor = found[2].partition("#")
            if re.match(r"[a-z]+:", found[2]) or not path:
                return found[0]
            to = self.place(os.path.normpath(os.path.join(os.path.dirname(name), path)))
            return found[0] if to is None else found[1] + os.path.relpath(to, here or ".") + hash + anchor + found[3]

        out, fence = [], False
        for line in text.splitlines():
            fence ^= line.lstrip().startswith("```")
            if not fence:
                # A list that follows a line of text begins a list for GitHub; for Python-Markdown it needs a blank line.
                if out and LIST.match(line) and out[-1].strip() and not LIST.match(out[-1]) and not line.startswith(" ") and not out[-1].startswith(" "):
                    out.append("")
                line = LINK.sub(link, line)
            out.append(line)
        return "\n".join(out) + "\n"

    def write(self, place, text):
        path = PAGES / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def gather(self):
        shutil.rmtree(PAGES, ignore_errors=True)
        for name in sorted(self.files):
            if name.endswith(".md") and not name.startswith((".github/", "tests/")):
                self.write(self.place(name), self.rewrite(name, (ROOT / name).read_text(encoding="utf-8")))
            elif name.endswith(".ipynb"):
                self.write(self.place(name), self.rewrite(name, self.notebook(name)))
            elif name.endswith((".png", ".svg", ".css")) and name.startswith("docs/"):
                (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, PAGES / name)
        self.reference()
        for target in sorted(self.sources):
            self.write(f"source/{target}.md", self.folder(target) if target in self.folders else self.code(target))

    def notebook(self, name):
        """Its cells as a page; the outputs are those of whoever runs it."""
        cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells]
        return "\n\n".join(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text for cell, text in zip(cells, texts)) + "\n"

    def code(self, target):
        text = (ROOT / target).read_text(encoding="utf-8", errors="replace")
        return f"# {target}\n\n````{LANGUAGES.get(Path(target).suffix, 'text')}\n{text.rstrip()}\n````\n"

    def folder(self, target):
        names = sorted(name for name in self.files if name.startswith(target + "/"))
        here = os.path.dirname(f"source/{target}")
        pages = {name: self.place(name) for name in names if name in self.sources or name.endswith(".md")}  # what other pages lead to, too
        return f"# {target}\n\n" + "".join(f"* [{name}]({os.path.relpath(pages[name], here)})\n" if name in pages else f"* {name}\n" for name in names)

    def reference(self):
        headers = {Path(name).stem: name for name in self.files if HEADER.match(name)}
        reference = c_reference.Reference({stem: (ROOT / name).read_text(encoding="utf-8") for stem, name in headers.items()})
        self.write("reference/c.md", reference.index())
        for stem, name in headers.items():
            self.write(self.place(name), reference.page(stem, os.path.relpath(self.source(name), "reference/c")))
        modules = ["forebay", "forebay.torch", "forebay.lightning", "forebay.jax", "forebay.numpy", "forebay.mpi", "forebay.ray"]
        self.write("reference/python.md", "# Python\n\n" + "".join(f"## {module}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
                   f"      show_root_toc_entry: false\n\n" for module in modules))


def main():
    Site().gather()
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # which says when the theme's pinned version ends
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # with --quiet, --strict would not see warnings
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print("\n".join(line for line in done.stdout.splitlines() if line.strip() and not line.startswith("INFO")))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
