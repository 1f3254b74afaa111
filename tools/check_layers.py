#!/usr/bin/env python3
"""Who may include whom, as data, checked against every C file of the tree and every file of the Python package.

    tools/check_layers.py            print each violation as file:line and the rule; exit 1 when there is one
    tools/check_layers.py --graph    print the table of what each module may include, and what it does include

Of C it reads #include lines, and looks for calls that have one home. It does not run the preprocessor, so an include inside #if counts as well.
Of Python it reads import statements; those under TYPE_CHECKING are for annotations, and free.
"""
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Tiers from the bottom. A module may include itself, include/forebay, and every module of a lower tier.
TIERS = [
    ["base"],
    ["options", "trace", "budget", "block", "pool"],
    ["io", "codec"],
    ["format"],
    ["write"],
    ["dataset", "transform", "plan"],
    ["read"],
    ["samples"],
    ["batch", "cache"],
    ["loader"],
    ["tables"],
    ["pipeline"],
    ["pack"],
]
# Exceptions, all of them narrower than the tiers say.
ONLY = {"plan": ["base"]}  # a pure function of counts: no I/O, no clock, no threads

# Folders outside src/, and the headers of src/ they may include. None: any, they test or measure the inside.
USERS = {"cli": [], "examples": [], "python": [], "helper": ["format/hdf5/client/protocol.h"], "tests": None, "fuzz": None,
         "bench": None}

# Modules of a lower tier that are imported where they are used: programs that never ask for them start without them.
IMPORTED_LATER = {"_report"}

# The files of python/forebay, from the bottom. One may import those of lower tiers, at its top.
PYTHON_TIERS = [
    ["_forebay"],  # the extension
    ["_advice", "_columns", "_html", "_idle", "_log", "_nvml", "_ops", "_ranks", "_rivals", "_sizes", "_states", "_versions"],
    ["_compare", "_options", "_race"],
    ["_class_map", "_files", "_report", "_schema", "_sequences", "_sources", "_state", "_torch_memory", "_trace", "_transform", "_values", "_write"],
    ["_batch", "_contents", "_make_encode", "_make_lookup", "_make_sample", "_make_select"],
    ["_device", "_outputs", "_pytrees", "_step"],
    ["_hints", "_output_rows", "_read"],
    ["_delivery"],
    ["_loader"],
    ["_samples"],
    ["_dataset"],
    ["_lookup", "_mix"],
    ["_fit", "_make_columns", "_pipeline"],
    ["_bench", "_diagnose", "_forwarding", "_pack"],
    ["jax", "lightning", "mpi", "numpy", "ray", "torch"],
    ["__init__"],
]

# Headers of other libraries: (pattern, folders that may include it, why).
FOREIGN = [
    (r"Python\.h|structmember\.h", ["python"], "the C core knows nothing of Python"),
    (r"cuda.*\.h|nvml\.h", [], "CUDA is the framework's"),
    (r"hdf5.*\.h|H5.*\.h", ["helper"], "libhdf5 runs in the helper program only"),
    (r"liburing.*|linux/io_uring\.h", ["src/io"], "engines live in src/io"),
    (r"libdeflate\.h", ["src/codec", "src/format", "src/write", "tests", "bench"], "gzip is a codec; a page's checksum is the format's"),
    (r"(zstd|lz4.*|snappy-c|zlib)\.h|brotli/.*", ["src/codec", "tests", "bench"], "one codec, one file of src/codec"),
    (r"(blosc|lzf|libaec|szlib)\.h", ["src/codec", "tests", "bench"], "one filter of HDF5, one file of src/codec"),
    (r"xxhash\.h", ["src/base", "bench"], "hashing is base/hash.h"),
    (r"yaml\.h", ["src/pipeline"], "YAML is read and written in one module"),
    (r"jansson\.h", ["cli"], "JSON is output of the command"),
    (r"cmocka\.h", ["tests"], "test framework"),
    (r"threads\.h", [], "pthread: threads.h is optional in C17"),
]
# Calls that have one home in src/: (pattern, folders that may call, why). Tests, fuzzers and benchmarks may call what they like.
CALLS = [
    (r"(->|\.)(decode_panel|decode_arrow|locate)\s*\(|\bfby__locate\s*\(|\bfby__\w+_(decode_panel|decode_arrow|locate)\b",
     ["src/read", "src/format"], "blocks are located and decoded by the reader"),
]
PRIVATE = re.compile(r"(^|[/_])(internal|impl|state)\.h$")  # shared by the files of one module only
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed_modules():
    allowed, below = {}, []
    for tier in TIERS:
        for module in tier:
            allowed[module] = list(ONLY.get(module, below))
        below = below + tier
    return allowed


def sources():
    for top in ["include", "src", *USERS]:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".c", ".h") and path.is_file():
                yield path.relative_to(ROOT)


def check(path, target, angle, allowed):
    """The rule that `#include target` in path breaks, or None. Returns (rule, module included)."""
    parts = path.parts
    where = "/".join(parts[:2]) if parts[0] == "src" else parts[0]
    for pattern, folders, why in FOREIGN:
        if re.fullmatch(pattern, target):
            if where not in folders:
                return f"<{target}> may be included in {', '.join(folders) or 'no folder'} only: {why}", None
            return None, None
    if target.startswith("forebay/"):
        if not angle:
            return f'write #include <{target}>: public headers are included as users include them', None
        return None, None
    if angle:
        return None, None  # the C library and the kernel
    head = target.split("/")[0]
    if parts[0] == "include":
        return "public headers include only the C library and <forebay/…>", None
    if "/" not in target or not (ROOT / "src" / head).is_dir():
        # A neighbour, named from the file's own folder or from the folder above it.
        tops = [ROOT / path.parent, ROOT / parts[0]]
        if any((top / target).is_file() for top in tops):
            return None, None
        return f'"{target}" is no file beside it; inside src/ write "module/header.h"', None
    if parts[0] == "src":
        own = parts[1]
        if own not in allowed:
            return f"src/{own} has no place in TIERS of tools/check_layers.py: give it one", None
        if head == own:
            return None, None
        if head not in allowed[own]:
            return f"{own} may include only {', '.join(allowed[own]) or 'nothing of src/'}", head
        if PRIVATE.search(target):
            return f"{target} is private to {head}", head
        return None, head
    users = USERS[parts[0]]
    if users is not None and target not in users:
        return f"{parts[0]}/ may include only {', '.join(['<forebay/…>', *users])}", None
    return None, None


def check_calls(path, line):
    where = "/".join(path.parts[:2])
    if path.parts[0] != "src":
        return None
    return next((why for pattern, folders, why in CALLS if where not in folders and re.search(pattern, line)), None)


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def package_imports(node, at_top=True):
    """(line, module, whether it is imported at the file's top) of every import from the package, annotations' aside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.level or (child.module or "").partition(".")[0] == "forebay"):
            module = (child.module or "").removeprefix("forebay").lstrip(".")
            for name in [module] if module else [alias.name for alias in child.names]:
                yield child.lineno, name, at_top
        elif isinstance(child, ast.Import):
            for alias in child.names:
                if alias.name.partition(".")[0] == "forebay":
                    yield child.lineno, alias.name.partition(".")[2] or "__init__", at_top
        elif not is_type_checking(child):
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from package_imports(child, at_top and not function)


def check_package(folder, tiers):
    """Violations in a folder of Python files, as (file, line, rule); and how many imports there are."""
    tier = {module: i for i, names in enumerate(tiers) for module in names}
    found, n = [], 0
    for path in sorted(folder.glob("*.py")):
        if path.stem not in tier:
            found.append((path, 1, f"{path.stem} has no place in PYTHON_TIERS of tools/check_layers.py: give it one"))
            continue
        for line, module, at_top in package_imports(ast.parse(path.read_text(encoding="utf-8"))):
            n += 1
            if tier.get(module, len(tiers)) >= tier[path.stem]:
                found.append((path, line, f"{path.stem} may not import {module}: it stands in no lower tier"))
            elif not at_top and module not in IMPORTED_LATER:
                found.append((path, line, f"{module} is imported inside a function: import it at the top"))
    return found, n


def main():
    allowed = allowed_modules()
    found = {module: set() for module in allowed}
    violations = count = 0
    for path in sources():
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            rule = check_calls(path, line)
            if rule:
                violations += 1
                print(f"{path}:{number}: {line.strip()}: {rule}")
            match = INCLUDE.match(line)
            if not match:
                continue
            count += 1
            rule, module = check(path, match[2], match[1] == "<", allowed)
            if module and path.parts[1] in found:
                found[path.parts[1]].add(module)
            if rule:
                violations += 1
                print(f"{path}:{number}: {line.strip()}: {rule}")
    found_python, n = check_package(ROOT / "python/forebay", PYTHON_TIERS)
    for path, number, rule in found_python:
        print(f"{path.relative_to(ROOT)}:{number}: {rule}")
    violations += len(found_python)
    count += n
    if "--graph" in sys.argv[1:]:
        print(f"{'module':10} {'may include':66} includes")
        for module, names in allowed.items():
            print(f"{module:10} {' '.join(names):66} {' '.join(sorted(found[module])) or '-'}")
    print(f"check_layers: {count} includes and imports, {violations} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
