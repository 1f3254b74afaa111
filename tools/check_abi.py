#!/usr/bin/env python3
"""Do programs that were compiled against the kept headers (tests/abi/headers) still run with the library as it is?

    tools/check_abi.py CC [LIBRARY]        each break as a line; exit 1 when there is one
    tools/check_abi.py CC LIBRARY --keep   the headers and symbols as they are become the ones that are kept: after an addition. Refused where they
                                           break programs; --break keeps them nevertheless, before a release that says so
    tools/check_abi.py --growing           the structs that may get fields, each with its header
    tools/check_abi.py CC --headers=DIR    the headers in another folder against the kept ones

* A field stays where it was, with its type. A struct that says its size or has a stride (GROWS) may get fields, behind its old end alone: not in
  what was padding, which programs do not clear. Every other struct stays as it is.
* An enumerator keeps its value; a new one has a value of its own, behind the others. Counts of them are no part of the ABI.
* A macro that is a number keeps it: it is in programs. Those that say a version change with it.
* A function keeps its declaration, its symbol and the symbol's version.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT, NOW = ROOT / "tests/abi/headers", ROOT / "include"
SYMBOLS = ROOT / "tests/abi/symbols"
STRIDED = {"fby_output", "fby_op", "fby_make", "fby_after", "fby_moments", "fby_mix_source"}  # a stride is beside each array of them
LENT = {"fby_option"}  # only ever pointed to, and never an array
COUNTS = re.compile(r"_COUNT$|^FBY_OPTION_SETS$")
VERSIONS = re.compile(r"^FBY_(STATE_)?VERSION")


def headers(folder):
    """{public header: its text without comments and continued lines}"""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((folder / "forebay").glob("*.h")) if path.name not in ("arrow.h", "dlpack.h")}
    return {name: re.sub(r"[ \t]+", " ", re.sub(r"/\*.*?\*/", "", text.replace("\\\n", " "), flags=re.S)) for name, text in texts.items()}


def code(folder):
    return "\n".join(headers(folder).values())


def structs(text):
    """{struct: {field: its declaration}}; those of unions stand among the struct's own."""
    found = {}
    for match in re.finditer(r"typedef struct (\w+) \{\n(.*?)\n\} \1;", text, re.S):
        fields = {}
        for statement in re.sub(r"\bunion \{|\}", ";", match[2]).split(";"):
            words = re.match(r"\s*((?:const |unsigned |struct )*\w+)\s*(.*\S)", statement, re.S)
            if not words:
                continue
            for part in words[2].split(","):
                name = re.search(r"(\w+)\s*((?:\[\w+\])*)\s*$", part)
                fields[name[1]] = re.sub(r"\s+", "", words[1] + part[: name.start()] + name[2])
        found[match[1]] = fields
    return found


def enumerators(folder, cc):
    """Names, as the preprocessor leaves them: lists are macros."""
    done = subprocess.run([cc, "-E", "-P", "-I", folder, "-"], input="#include <forebay/forebay.h>\n", capture_output=True, text=True, check=True).stdout
    names = []
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", done, re.S):
        names += re.findall(r"\b(FBY_\w+)", body)
    return names


def constants(text):
    """Names of the macros that are numbers."""
    return [name for name in re.findall(r"(?m)^#define (FBY_\w+) (?:\(|U?INT|\d)", text) if not VERSIONS.search(name)]


def functions(text):
    flat = re.sub(r"\s+", " ", re.sub(r"(?m)^#.*$", "", text))
    found = {}
    for match in re.finditer(r"FBY_API ([^;{]*?\b(fby_\w+)\([^;]*?\));", flat):
        found[match[2]] = match[1]
    for match in re.finditer(r"typedef ([^;{]*?\(\*(fby_\w+)\)\([^;]*?\));", flat):
        found[match[2]] = match[1]
    return found


def measure(cc, folder, fields, names):
    """Sizes, offsets and values as the compiler has them."""
    lines = ["#include <forebay/forebay.h>", "#include <stdio.h>", "int main(void) {"]
    for struct, members in fields.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        lines += [f'printf("{struct}.{m} %zu %zu\\n", offsetof({struct}, {m}), sizeof((({struct} *)0)->{m}));' for m in members]
    lines += [f'printf("{name} %lld\\n", (long long){name});' for name in names]
    with tempfile.TemporaryDirectory() as work:
        source, program = Path(work, "measure.c"), Path(work, "measure")
        source.write_text("\n".join([*lines, "return 0; }"]), encoding="utf-8")
        subprocess.run([cc, "-std=gnu17", "-I", str(folder), str(source), "-o", str(program)], check=True)
        out = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: tuple(map(int, line.split()[1:])) for line in out.splitlines()}


def grows(struct, fields):
    return struct in STRIDED or struct in LENT or next(iter(fields.items()), None) == ("size", "size_t")


def compare_structs(before, after, was, now):
    wrong = []
    for struct, fields in before.items():
        if struct not in after:
            wrong.append(f"{struct} is gone")
            continue
        for name, declared in fields.items():
            key = f"{struct}.{name}"
            if name not in after[struct]:
                wrong.append(f"{key} is gone")
            elif after[struct][name] != declared:
                wrong.append(f"{key} was {declared} and is {after[struct][name]}")
            elif was[key] != now[key]:
                wrong.append(f"{key} was {was[key][1]} bytes at {was[key][0]} and is {now[key][1]} at {now[key][0]}")
        new = [name for name in after[struct] if name not in fields]
        if grows(struct, fields):
            wrong += [f"{struct}.{name} is new and lies at {now[f'{struct}.{name}'][0]}: before the old end, {was[struct][0]}"
                      for name in new if now[f"{struct}.{name}"][0] < was[struct][0]]  # fmt: skip
        elif new or was[struct] != now[struct]:
            wrong.append(f"{struct} has no size and no stride, and was changed" + (f": {', '.join(new)}" if new else ""))
    return wrong


def check_headers(cc, kept, current):
    texts = code(kept), code(current)
    before, after = map(structs, texts)
    names = [enumerators(folder, cc) + constants(text) for text, folder in zip(texts, (kept, current))]
    was, now = measure(cc, kept, before, names[0]), measure(cc, current, after, names[1])
    wrong = compare_structs(before, after, was, now)
    for name in names[0]:
        if not COUNTS.search(name) and was[name] != now.get(name):
            wrong.append(f"{name} was {was[name][0]} and is {now[name][0] if name in now else 'gone'}")
    old, new = map(functions, texts)
    for name, declared in old.items():
        if new.get(name) != declared:
            wrong.append(f"{name} was {declared!r} and is {new.get(name, 'gone')!r}")
    fields = sum(len(members.keys() - before.get(struct, {}).keys()) for struct, members in after.items())
    added = f"{len(new.keys() - old.keys())} declarations and {fields} fields are not kept yet"
    return wrong, added


def symbols(library):
    """Defined symbols with their versions, as lines."""
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[2].replace("@@", "@") for line in out.splitlines() if line.split()[1] != "A")


def keep(library):
    shutil.rmtree(KEPT, ignore_errors=True)
    shutil.copytree(NOW, KEPT)
    SYMBOLS.write_text("\n".join(symbols(library)) + "\n", encoding="utf-8")
    if shutil.which("abidw"):  # what abidiff compares with, too
        subprocess.run([ROOT / "tools/abidiff.sh", library, "--keep"], check=True)


def growing():
    """(header, struct) of those that may get fields and are not only lent."""
    for header, text in headers(NOW).items():
        for struct, fields in structs(text).items():
            if grows(struct, fields) and struct not in LENT:
                yield header, struct


def main():
    if sys.argv[1] == "--growing":
        print("\n".join(f"{header} {struct}" for header, struct in growing()))
        return 0
    cc, rest = sys.argv[1], [arg for arg in sys.argv[2:] if not arg.startswith("--")]
    other = next((arg.partition("=")[2] for arg in sys.argv if arg.startswith("--headers=")), NOW)
    wrong, added = check_headers(cc, KEPT, Path(other))
    if rest:
        there = set(symbols(rest[0]))
        wrong += [f"the library does not have the symbol {name}" for name in SYMBOLS.read_text(encoding="utf-8").split() if name not in there]
    if "--keep" in sys.argv:
        if wrong and "--break" not in sys.argv:
            wrong.append("nothing is kept: programs would break (--break keeps it nevertheless)")
        else:
            keep(rest[0])
            wrong = []
    print("\n".join([*wrong, f"check_abi: {len(structs(code(KEPT)))} structs, {len(functions(code(KEPT)))} declarations, {len(wrong)} breaks; {added}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
