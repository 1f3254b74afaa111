#!/usr/bin/env python3
"""Options are data: the tables of the library (<forebay/options.h>) against the headers, the Python package and the docs.

    tools/options.py build/libforebay.so            say where they disagree; exit 1 when they do
    tools/options.py build/libforebay.so --write    write the tables of docs/, and what is missing of Python's signatures

* Each field of an option struct has a row, and each row a field.
* Each option that the tables give to Python is an argument, with its default, of the function that takes it, and is in its documentation; each argument
  is an option, or one of Python's own (PYTHON_OWN).
* Tables of docs/ between `<!-- options: loader -->` and `<!-- end of options -->` are those of the library; of several sets, one table.
* docs/tuning.md has a row for each key of the sets loader and open. What one gains and costs is written by hand; --write begins with its help.
"""
import ast
import ctypes
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPES = ["bool", "u32", "u64", "int", "i64", "double", "bytes", "choice", "text", "path", "texts", "paths", "chars", "other"]
IN_FILE, IN_PYTHON, ORDER = 1, 2, 4
# Where a set's options are arguments in Python: file, class, function.
PYTHON = {
    "open": ("_dataset.py", None, "open"), "windows": ("_dataset.py", "Dataset", "windows"), "groups": ("_dataset.py", "Dataset", "groups"),
    "select": ("_samples.py", "Samples", "select"), "split": ("_samples.py", "Samples", "split"),
    "oversample": ("_samples.py", "Samples", "oversample"), "resample": ("_samples.py", "Samples", "resample"),
    "lookup": ("_lookup.py", "Lookup", "__init__"), "fit": ("_fit.py", None, "fit"), "pipeline": ("_pipeline.py", None, "pipeline"),
    "loader": ("_loader.py", "Loader", "__init__"), "pack": ("_pack.py", None, "pack"), "mix": ("_mix.py", None, "mix"),
    "ragged": ("_outputs.py", "Column", "ragged"), "padded": ("_outputs.py", "Column", "padded"), "bits": ("_make_encode.py", "Encodings", "bits"),
    "one_hot": ("_make_encode.py", "Encodings", "one_hot"), "ngrams": ("_make_columns.py", None, "ngrams"),
    "symmetric": ("_make_sample.py", "SampleOperations", "symmetric"), "crop": ("_make_sample.py", "SampleOperations", "crop"),
    "sequence_mask": ("_make_sample.py", "SampleOperations", "sequence_mask"),
    "spec_augment": ("_make_sample.py", "SampleOperations", "spec_augment"), "map": ("_make_encode.py", "Encodings", "map"),
    "group_channels": ("_make_columns.py", None, "group_channels"),
}
# What is Python's alone: the data themselves, words for several options, and what is done with batches once they are in Python.
PYTHON_OWN = {
    "open": {"source"}, "select": {"ids", "on", "key"}, "lookup": {"table", "dtypes"}, "fit": {"data", "by"}, "pipeline": {"path"},
    "pack": {"source", "to"}, "ngrams": {"columns", "dtype"}, "symmetric": {"count", "count_of"}, "map": {"mapping"},
    "group_channels": {"key", "order", "features", "aggregates", "count", "keys", "positions"},
    "loader": {"samples", "epoch", "drop_last", "framework", "device", "as_"},
}
WORDS_ALONE = {"op", "make", "channel", "after"}
KEY = {"make_standardize": "standardize"}  # of an output in pipeline files, where a set has another name
HEADERS = ["dataset.h", "lookup.h", "samples.h", "transform.h", "make.h", "pipeline.h", "loader.h", "pack.h", "mix.h"]
BEGIN, END = re.compile(r"<!-- options: ([\w ]+) -->\n"), "<!-- end of options -->"


class Option(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("field", ctypes.c_char_p), ("type", ctypes.c_int), ("flags", ctypes.c_uint32), ("offset", ctypes.c_size_t),
        ("also", ctypes.c_size_t), ("least", ctypes.c_int64), ("most", ctypes.c_uint64), ("choices", ctypes.POINTER(ctypes.c_char_p)),
        ("fallback", ctypes.c_char_p), ("form", ctypes.c_char_p), ("help", ctypes.c_char_p),
    ]


def tables(path):
    """{set: (struct, [row as dict])}"""
    lib = ctypes.CDLL(str(path))
    lib.fby_option_at.restype = ctypes.POINTER(Option)
    lib.fby_option_at.argtypes = [ctypes.c_int, ctypes.c_size_t]
    lib.fby_option_set_name.restype = lib.fby_option_set_struct.restype = ctypes.c_char_p
    found, which = {}, 0
    while name := lib.fby_option_set_name(which):
        rows, i = [], 0
        while at := lib.fby_option_at(which, i):
            o, words = at.contents, []
            while o.choices and o.choices[len(words)]:
                words.append(o.choices[len(words)].decode())
            row = {field: getattr(o, field) for field, _ in Option._fields_}
            row = {field: value.decode() if isinstance(value, bytes) else value for field, value in row.items()}
            rows.append({**row, "type": TYPES[o.type], "choices": words})
            i += 1
        found[name.decode()] = (lib.fby_option_set_struct(which).decode(), rows)
        which += 1
    return found


def struct_fields(struct):
    """Names of a struct's fields, as its header has them; sizes and strides aside."""
    for header in HEADERS:
        text = (ROOT / "include/forebay" / header).read_text(encoding="utf-8")
        if body := re.search(r"typedef struct %s \{\n(.*?)\n\} %s;" % (struct, struct), text, re.S):
            code = re.sub(r"/\*.*?\*/", "", body[1], flags=re.S)
            names = []
            for statement in code.split(";"):
                for part in statement.split(",") if statement.strip() != "size_t size" else ():
                    if match := re.search(r"(\w+)\s*(\[\w+\])?\s*$", part.strip()):
                        names.append(match[1])
            return [name for name in names if not re.fullmatch(r"(output|op|make|after|moments|source)_size", name)]
    raise SystemExit(f"tools/options.py: no header has {struct}")


def check_structs(found):
    wrong, rows_of = [], {}
    for name, (struct, rows) in found.items():
        if name in WORDS_ALONE:
            continue
        rows_of.setdefault(struct, []).extend(rows)
    for struct, rows in rows_of.items():
        fields, named = struct_fields(struct), {row["field"] for row in rows}
        covered = named | {prefix + row[word] for row in rows if row["also"] for prefix in ("n_", "has_") for word in ("field", "name")}
        wrong += [f"{struct}.{name} is in no table of src/options" for name in fields if name not in covered]
        wrong += [f"src/options: {struct} has no field {name}" for name in sorted(named) if name not in fields]
    return wrong


# --- Python -----------------------------------------------------------------------------------------------------------------------


def find(where):
    """(path, source, the function's node, the node whose documentation it is)"""
    file, owner, name = where
    path = ROOT / "python/forebay" / file
    source = path.read_text(encoding="utf-8")
    body = ast.parse(source).body
    documented = None
    if owner:
        documented = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner)
        body = documented.body
    function = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == name][-1]
    return path, source, function, documented if name == "__init__" else function


def arguments(function):
    a = function.args
    out = {arg.arg: default for arg, default in zip(a.kwonlyargs, a.kw_defaults)}
    positional = a.posonlyargs + a.args
    out.update(zip([arg.arg for arg in positional], [None] * (len(positional) - len(a.defaults)) + a.defaults))
    out.pop("self", None)
    return out


def python_default(row):
    """What stands in the signature for an option of a plain type."""
    if row["type"] == "bool":
        return False
    if row["type"] == "choice":
        return row["fallback"]
    if row["type"] == "text" and row["fallback"] == "nothing":
        return ""
    return int(row["fallback"]) if re.fullmatch(r"-?\d+", row["fallback"]) else None


def plain(row):
    return row["form"] is None and row["type"] != "other"


def check_python(found):
    wrong = []
    for name, where in PYTHON.items():
        path, _, function, documented = find(where)
        given, text = arguments(function), ast.get_docstring(documented) or ""
        place = f"{path.relative_to(ROOT)}: {where[2]}()"
        rows = [row for row in found[name][1] if row["flags"] & IN_PYTHON]
        for row in rows:
            if row["name"] not in given:
                wrong.append(f"{place} has no argument {row['name']}, an option of {name}")
                continue
            default = given[row["name"]]
            value = None if default is None else ast.literal_eval(default)
            if plain(row) and value not in (python_default(row), None, ()):
                wrong.append(f"{place}: {row['name']}={value!r}, and the library's default is {python_default(row)!r}")
            if not re.search(r"(?m)^\s*(\w+, )*%s(, \w+)* :" % row["name"], text):
                wrong.append(f"{place} says nothing of {row['name']}")
        known = {row["name"] for row in rows} | PYTHON_OWN.get(name, set())
        wrong += [f"{place}: the argument {arg} is no option of {name}" for arg in given if arg not in known]
    return wrong


def annotation(row):
    kinds = {"bool": "bool", "choice": "str", "text": "str | None", "path": "str | os.PathLike[str] | None", "texts": "Iterable[str] | None",
             "paths": "Iterable[str] | None", "double": "float | None", "bytes": "str | int | None"}
    return kinds.get(row["type"], "int" if python_default(row) is not None else "int | None")


def write_python(found):
    """Arguments that are missing of signatures, and their line of documentation."""
    for name, where in PYTHON.items():
        for row in found[name][1]:
            path, source, function, documented = find(where)
            if not row["flags"] & IN_PYTHON or not plain(row) or row["name"] in arguments(function):
                continue
            lines = source.splitlines(keepends=True)
            doc = documented.body[0]
            after = (i for i in range(doc.lineno, doc.end_lineno) if re.fullmatch(r"\s*(Returns|Raises|Examples|Attributes)\n", lines[i]))
            end = next(after, doc.end_lineno - 1)
            while not lines[end - 1].strip():
                end -= 1
            indent = " " * doc.col_offset
            kind = annotation(row).replace(" | None", ", optional")
            lines.insert(end, f"{indent}{row['name']} : {kind}\n{indent}    {row['help'][0].upper()}{row['help'][1:]}.\n")
            last = (function.args.kw_defaults or function.args.defaults)[-1]
            shift = 1 if end < last.end_lineno - 1 else 0
            at = lines[last.end_lineno - 1 + shift]
            indent = " " * (len(at) - len(at.lstrip()))
            text = f",\n{indent}{row['name']}: {annotation(row)} = {python_default(row)!r}"
            lines[last.end_lineno - 1 + shift] = at[: last.end_col_offset] + text + at[last.end_col_offset :]
            path.write_text("".join(lines), encoding="utf-8")


# --- docs -------------------------------------------------------------------------------------------------------------------------


def value_text(row):
    if row["form"]:
        return row["form"]
    at_least = f", at least {row['least']}" if row["least"] and row["type"] != "bytes" else ""
    at_least += f", at most {row['most']:,}" if 0 < row["most"] < 2**32 - 1 and row["type"] != "chars" else ""
    kinds = {"bool": "true or false", "double": "a number above 0" if row["least"] else "a number", "bytes": "a size such as `8GiB`",
             "text": "a text", "path": "a path", "texts": "a text, or a list of them", "paths": "a path, or a list of them"}
    if row["type"] == "choice":
        return ", ".join(row["choices"])
    return kinds.get(row["type"], "a whole number" + at_least)


def doc_table(names, found):
    """Of one set, or of several with the key that each stands under."""
    several = len(names) > 1
    head = [*["in"] * several, "key", "value", "without it", "what it is"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name in names:
        first = {}  # of the rows that a form fills together
        for row in found[name][1]:
            if row["flags"] & IN_FILE:
                first.setdefault(row["name"], row)
        for row in first.values():
            mark = " *" if name == "loader" and row["flags"] & ORDER else ""
            cells = [*[f"`{KEY.get(name, name)}`"] * several, f"`{row['name']}`{mark}", value_text(row), row["fallback"], row["help"]]
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def docs(found, write):
    wrong, used = [], set()
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        out, at = "", 0
        for match in BEGIN.finditer(text):
            end = text.index(END, match.end())
            used.update(match[1].split())
            out += text[at : match.end()] + doc_table(match[1].split(), found)
            at = end
        out += text[at:]
        if out != text and write:
            path.write_text(out, encoding="utf-8")
        elif out != text:
            wrong.append(f"{path.relative_to(ROOT)}: its tables of options are older than the library's: tools/options.py LIBRARY --write")
    missing = [name for name, (_, rows) in found.items() if name not in used and any(row["flags"] & IN_FILE for row in rows)]
    return wrong + [f"docs: no table has the options of {name}" for name in missing]


def tuning(found, write):
    path = ROOT / "docs/tuning.md"
    lines, wrong = path.read_text(encoding="utf-8").splitlines(keepends=True), []
    for name, heading in (("loader", "## Options of a loader\n"), ("open", "## Options of opening\n")):
        begin = next(i for i in range(lines.index(heading), len(lines)) if lines[i].startswith("|"))
        end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))
        said = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in lines[begin:end])))
        for row in {row["name"]: row for row in found[name][1] if row["flags"] & IN_FILE and row["name"] not in said}.values():
            wrong.append(f"docs/tuning.md: no row for {row['name']}, an option of {name}")
            order = ("yes | " if row["flags"] & ORDER else "no | ") if name == "loader" else ""
            lines.insert(end, f"| `{row['name']}` | {order}{row['help']} | |\n")
    if write:
        path.write_text("".join(lines), encoding="utf-8")
    return [] if write else wrong


def main():
    found = tables(Path(sys.argv[1]).resolve())
    write = "--write" in sys.argv[2:]
    if write:
        write_python(found)
    wrong = check_structs(found) + check_python(found) + docs(found, write) + tuning(found, write)
    print("\n".join(wrong + [f"options: {sum(len(rows) for _, rows in found.values())} rows of {len(found)} sets, {len(wrong)} disagreements"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
