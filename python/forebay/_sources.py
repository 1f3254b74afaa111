"""What can be opened: paths, tables and arrays, as users write them and as _forebay takes them."""

from __future__ import annotations

import os
import reprlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

from . import _columns, _forebay

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[int, int, str], object]


def is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def folder(value: Any, name: str) -> str:
    """An option that is a path."""
    if not is_path(value):
        raise TypeError(f"{name}: a path is a str or os.PathLike, not {type(value).__name__}")
    return os.fsdecode(value)


def _path(value: Any) -> bytes:
    if isinstance(value, bytes) or not is_path(value):
        raise TypeError(f"a path is a str or os.PathLike, not {type(value).__name__}")
    text = os.fsencode(value)
    if not text:
        raise ValueError("the path is empty")
    return text


_ENDINGS = (".parquet", ".pq", ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".arrow", ".arrows", ".feather", ".ipc", ".csv", ".tsv", ".gz")


def _names_a_file(value: Any) -> bool:
    """Lists in a mapping may be columns of texts as well: is this a path for sure?"""
    return is_path(value) and (not isinstance(value, str) or os.sep in value or value.lower().endswith(_ENDINGS))


def paths_of(source: Any) -> list[tuple[str | None, bytes]] | None:
    """Named paths, or None when `source` is data and no path."""
    if is_path(source):
        return [(None, _path(source))]
    if isinstance(source, Mapping):
        lists = {name: list(value) for name, value in source.items() if isinstance(value, (list, tuple)) and value and all(map(_names_a_file, value))}
        paths = [name for name, value in source.items() if name in lists or is_path(value)]
        if not paths or (len(paths) < len(source) and len(paths) == len(lists)):  # lists of texts beside other columns are columns
            return None
        if len(paths) != len(source):
            other = next(name for name in source if name not in paths)
            raise TypeError(f"a mapping holds paths or arrays, not both: {paths[0]!r} is a path and {other!r} a {type(source[other]).__name__}")
        for name in source:
            if not isinstance(name, str):
                raise TypeError(f"a source is named by a str, not {type(name).__name__}: {name!r}")
        return [(name, _path(item)) for name, value in source.items() for item in lists.get(name, [value])]
    if hasattr(source, "__arrow_c_stream__"):
        return None
    if isinstance(source, (bytes, bytearray)):
        raise TypeError("a path is a str or os.PathLike, not bytes")
    if isinstance(source, (Sequence, set, frozenset)) or (isinstance(source, Iterator) and not hasattr(source, "columns")):
        if isinstance(source, (set, frozenset)):
            raise TypeError("a set has no order, and the order of the files matters: pass a list")
        items = list(source)
        for i, item in enumerate(items):
            if not is_path(item):
                raise TypeError(
                    f"item {i} of the list is a {type(item).__name__}: of several tables in memory, make one (pandas.concat, polars.concat)"
                    if hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")
                    else f"item {i} of the list is {reprlib.repr(item)}, of type {type(item).__name__}: a list is of paths, each a str or "
                    "os.PathLike; values are opened as a dict, {'x': values}"
                )
        if not items:
            raise ValueError("the list of paths is empty")
        return [(None, _path(item)) for item in items]
    return None


def _explain(source: Any) -> TypeError:
    kind = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    if hasattr(source, "collect"):
        return TypeError(f"a {kind} is not computed yet: pass .collect()")
    if hasattr(source, "columns") and hasattr(source, "dtypes"):
        return TypeError(
            f"this {kind} does not speak the Arrow PyCapsule interface (__arrow_c_stream__; pandas does from 2.2 on, with pyarrow): "
            "upgrade it, or pass a dict of arrays, {name: frame[name].to_numpy() for name in frame.columns}"
        )
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return TypeError(f"a {kind} has no column name: pass {{'x': array}}")
    return TypeError(
        f"forebay.open() takes a path, a list of paths, a mapping of names to directories, an object with __arrow_c_stream__ "
        f"or a dict of arrays, not {kind}"
    )


def anchored(path: Any) -> Any:
    """The path as it is now, for a process that may work elsewhere."""
    path = os.fspath(path)
    return os.path.join(os.getcwdb() if isinstance(path, bytes) else os.getcwd(), path)


def dtype_names(dtypes: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Columns and the names of their dtypes, as the library spells them."""
    if dtypes is None:
        return []
    if not isinstance(dtypes, Mapping):
        raise TypeError(f"dtypes= is a mapping of columns to dtypes, such as {{'uid': str}}, not {type(dtypes).__name__}")
    words = {str: "str", bytes: "bytes", int: "int64", float: "float64", bool: "bool"}
    said = []
    for column, dtype in dtypes.items():
        if not isinstance(column, str):
            raise TypeError(f"dtypes=: a column is a str, not {type(column).__name__}: {column!r}")
        name = words.get(dtype) if isinstance(dtype, type) else dtype
        if name is None and isinstance(dtype, type):
            name = getattr(dtype, "__name__", None)  # numpy.int64
        if not isinstance(name, str):
            kind = getattr(name, "kind", "")
            name = "str" if kind in ("U", "O", "T") else "bytes" if kind == "S" else getattr(name, "name", None)  # a numpy.dtype
        if not isinstance(name, str):
            raise TypeError(f"dtypes=: {column!r} is said to be {dtype!r}; use str, a NumPy dtype, or the name of one")
        said.append((column, name.removesuffix("_") if name in ("str_", "bool_") else name))
    return said


def _arrow_stream(source: Any) -> Any:
    """The table as an Arrow stream. pandas reads long numbers of text as Python's own integers, which no Arrow type holds."""
    try:
        return source.__arrow_c_stream__()
    except OverflowError as error:
        large = [name for name in getattr(source, "columns", ()) if str(source[name].dtype) == "object" and any(_is_large(v) for v in source[name])]
        if not large:
            raise
        raise ValueError(
            f"column {large[0]!r} holds integers of more than 64 bits: where they are text, such as '0' and '1' one after the other, read them as "
            f"text, pandas.read_csv(…, dtype={{{large[0]!r}: str}}), or open the file itself with dtypes={{{large[0]!r}: str}}"
        ) from error


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def open_memory(source: Any) -> _forebay.Dataset:
    if hasattr(source, "__arrow_c_stream__"):
        return _forebay.open_arrow(_arrow_stream(source))
    names = getattr(getattr(source, "dtype", None), "names", None)
    if names:  # a structured array
        source = {name: source[name] for name in names}
    if not isinstance(source, Mapping):
        raise _explain(source)
    return _forebay.open_columns(*_columns.specify(source))


def _show_progress() -> Progress:
    """Progress on a terminal, silence in a pipe."""
    start = time.monotonic()
    tty = sys.stderr is not None and sys.stderr.isatty()

    def show(done: int, total: int, what: str) -> None:
        if tty and (time.monotonic() - start > 0.3 or done == total):
            end = "\n" if done == total else ""
            print(f"\r\033[K{what}: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)

    return show


def progress_of(progress: bool | Progress | None) -> Progress | None:
    if progress is True:
        return _show_progress()
    if callable(progress):
        return progress
    if progress in (None, False):
        return None
    raise TypeError(f"progress is True, False or a callable, not {type(progress).__name__}")
