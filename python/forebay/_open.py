"""`forebay.open`: what a source is, and the data set it becomes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _columns, _forebay
from ._advice import advised
from ._dataset import Dataset, Path, Progress, _progress
from ._sizes import count

_IO_ENGINES = ("auto", "threads", "uring", "mmap", "null")


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _path(value: Any) -> bytes:
    if isinstance(value, bytes) or not _is_path(value):
        raise TypeError(f"a path is a str or os.PathLike, not {type(value).__name__}")
    text = os.fsencode(value)
    if not text:
        raise ValueError("the path is empty")
    return text


_ENDINGS = (".parquet", ".pq", ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".csv", ".tsv", ".gz")


def _names_a_file(value: Any) -> bool:
    """Lists in a mapping may be columns of texts as well: is this a path for sure?"""
    return _is_path(value) and (not isinstance(value, str) or os.sep in value or value.lower().endswith(_ENDINGS))


def _sources(source: Any) -> list[tuple[str | None, bytes]] | None:
    """Named paths, or None when `source` is data and no path."""
    if _is_path(source):
        return [(None, _path(source))]
    if isinstance(source, Mapping):
        lists = {name: list(value) for name, value in source.items() if isinstance(value, (list, tuple)) and value and all(map(_names_a_file, value))}
        paths = [name for name, value in source.items() if name in lists or _is_path(value)]
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
        paths = [(None, _path(item)) for item in source]
        if not paths:
            raise ValueError("the list of paths is empty")
        return paths
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


@advised(words={"fill_missing": 'write missing_columns="fill"'})
def open(  # noqa: A001 (the name users expect)
    source: Any,
    *,
    ids: Iterable[str] | None = None,
    id_column: str | None = None,
    missing_ids: str = "error",
    source_column: str | None = None,
    cache_dir: Path | None = None,
    threads: int | None = None,
    io: str = "auto",
    immutable: bool = False,
    verify_crc: bool = False,
    missing_columns: str = "error",
    progress: bool | Progress | None = None,
    table: str | None = None,
    axis: int | str = 0,
    axes: int = 1,
    single: bool = False,
    stored_values: bool = False,
    missing_sources: str = "error",
    external: Path | Iterable[Path] | None = None,
    dtypes: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open files, or data in memory, as one table.

    Parameters
    ----------
    source : path, list of paths, mapping, table, or dict of arrays
        A path is a file, a directory (every readable file below it), a glob ("basins/*.parquet") or a pattern
        ("data/{region}/{gauge_id}.parquet", whose parts become string columns). A list keeps its order. A mapping
        {name: directory} (or file, glob, pattern, or a list of them) adds a string column with the name.
        A table is anything with ``__arrow_c_stream__``: pandas, polars, pyarrow, DuckDB. A dict of arrays holds NumPy arrays or buffers with the same
        number of rows; (n, d1, d2) arrays become fixed-size lists, datetime64 timestamps, masked values missing.
    ids : iterable of str, optional
        Open only the files with these ids.
    id_column : str, optional
        Which part of the pattern the ids are; by default the last one, without a pattern the file's name without extension.
    missing_ids : {"error", "skip"}
        An id without a file: refused, or left out and counted in ``ds.notes``.
    source_column : str, optional
        Name of the column with a mapping's names; "source" by default.
    cache_dir : path, optional
        Where the index cache lives; by default $FOREBAY_CACHE, $XDG_CACHE_HOME/forebay or ~/.cache/forebay. "" = no cache.
    threads : int, optional
        For reading metadata.
    io : {"auto", "threads", "uring", "mmap", "null"}
        How files are read. "mmap" needs `immutable`; "null" reads nothing, for timing.
    immutable : bool
        The files will not change while they are open.
    verify_crc : bool
        Check page checksums where the writer stored them.
    missing_columns : {"error", "fill"}
        A column that some files lack: an error when it is used, or null in the rows of those files.
    progress : bool or callable, optional
        True: a line on a terminal. A callable gets (done, total, what) at most about ten times a second; what it
        raises ends the open.

    table : str, optional
        HDF5: which data sets are the table's columns. The path of a data set: those that share its length; of a group: only what
        is below it. By default the table with the most bytes; the others are in ``ds.notes``.
    axis : int or str
        HDF5: the axis that runs over rows, by number or by the name of a dimension ("time").
    axes : int
        HDF5: so many leading axes run over rows together (see :meth:`Dataset.cells`).
    single : bool
        HDF5: the table is the one data set that `table` names.
    stored_values : bool
        HDF5: leave values as stored; by default _FillValue, missing_value and what is outside of valid_range (valid_min, valid_max) are
        missing, scale_factor and add_offset are applied.
    missing_sources : {"error", "fill"}
        HDF5: where a file that values come from is not there (a virtual data set's source, external raw data), opening fails, or the data
        set's fill value stands in its place.
    external : path or list of paths, optional
        HDF5: folders with files that others may name in links, virtual data sets and external raw data, or "anywhere". By default those below
        the folder of the file that names them and below the directory that it was found in.
    dtypes : mapping, optional
        CSV and TSV: types of columns, ``{"uid": str, "x": "float32"}``; by default a column's type follows from its values, and numbers that would
        lose leading zeros, plus signs or digits are text. str, bool, a NumPy dtype, or the name of one; a value that does not fit is a DataError
        with its line when it is read. Of every format: bytes for text that is not UTF-8.

    Returns
    -------
    Dataset

    Raises
    ------
    FileNotFoundError, PermissionError, OSError
        As :class:`forebay.ReadError`.
    FormatError, UnsupportedError, SchemaError
        For a damaged file, one that is refused by name, an id without a file.
    ValueError, TypeError
        For arguments that do not fit.
    """
    if isinstance(source, Dataset):
        raise TypeError("this is an open Dataset already")
    if missing_ids not in ("error", "skip"):
        raise ValueError(f"missing_ids={missing_ids!r}: use 'error' or 'skip'")
    if missing_columns not in ("error", "fill"):
        raise ValueError(f"missing_columns={missing_columns!r}: use 'error' or 'fill'")
    if io not in _IO_ENGINES:
        raise ValueError(f"io={io!r}: use one of {', '.join(map(repr, _IO_ENGINES))}")
    if missing_sources not in ("error", "fill"):
        raise ValueError(f"missing_sources={missing_sources!r}: use 'error' or 'fill'")
    if isinstance(source, Iterator) and not hasattr(source, "__arrow_c_stream__"):
        source = list(source)
    paths = _sources(source)
    if paths is None:
        unused = [
            name
            for name, given in (
                ("ids", ids is not None), ("id_column", id_column is not None), ("missing_ids", missing_ids != "error"), ("source_column", source_column is not None),
                ("cache_dir", cache_dir is not None), ("immutable", immutable), ("verify_crc", verify_crc), ("missing_columns", missing_columns != "error"),
                ("table", table is not None), ("axis", axis != 0), ("axes", axes != 1), ("single", single), ("stored_values", stored_values),
                ("missing_sources", missing_sources != "error"),
                ("external", external is not None),
                ("dtypes", bool(dtypes)),
            )
            if given
        ]  # fmt: skip
        if unused:
            raise ValueError(f"{unused[0]}= is about files, and the source is in memory")
        return Dataset(_in_memory(source), None)

    id_list = None
    if ids is not None:
        if isinstance(ids, str):
            raise TypeError(f"ids is a list of str: write ids=[{ids!r}]")
        id_list = [str(item) if isinstance(item, str) else item for item in ids]
        for item in id_list:
            if not isinstance(item, str):
                raise TypeError(f"an id is a str, not {type(item).__name__}: {item!r}")
    cache = None if cache_dir is None else os.fsdecode(cache_dir)
    cache = _anchored(cache) if cache else cache
    n_threads = 0 if threads is None else count(threads, "threads", 1, 4096)
    folders = None if external is None else [os.fsdecode(item) for item in ([external] if isinstance(external, (str, os.PathLike)) else external)]
    said = _dtypes(dtypes)
    callback = _progress(progress)
    core = _forebay.open_files(
        paths, id_list, id_column, source_column, cache, n_threads, _IO_ENGINES.index(io), immutable, verify_crc, missing_columns == "fill", callback,
        table, axis if isinstance(axis, str) else None, 0 if isinstance(axis, str) else count(axis, "axis", 0, 31), count(axes, "axes", 1, 32),
        single, stored_values, missing_ids == "skip", missing_sources == "fill", folders, said,
    )  # fmt: skip
    if isinstance(source, Mapping):
        kept: Any = {name: _anchored(value) if _is_path(value) else [_anchored(item) for item in value] for name, value in source.items()}
    else:
        kept = _anchored(source) if _is_path(source) else [_anchored(item) for item in source]
    options: dict[str, Any] = {
        "ids": id_list, "id_column": id_column, "missing_ids": missing_ids, "source_column": source_column, "cache_dir": cache, "threads": threads, "io": io,
        "immutable": immutable, "verify_crc": verify_crc, "missing_columns": missing_columns,
        "table": table, "axis": axis, "axes": axes, "single": single, "stored_values": stored_values,
        "missing_sources": missing_sources,
        "external": folders,
        "dtypes": dict(said),
    }  # fmt: skip
    return Dataset(core, (kept, options))


def _anchored(path: Any) -> Any:
    """The path as it is now, for a process that may work elsewhere."""
    path = os.fspath(path)
    return os.path.join(os.getcwdb() if isinstance(path, bytes) else os.getcwd(), path)


def _dtypes(dtypes: Mapping[str, Any] | None) -> list[tuple[str, str]]:
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


def _in_memory(source: Any) -> _forebay.Dataset:
    if hasattr(source, "__arrow_c_stream__"):
        return _forebay.open_arrow(source.__arrow_c_stream__())
    names = getattr(getattr(source, "dtype", None), "names", None)
    if names:  # a structured array
        source = {name: source[name] for name in names}
    if not isinstance(source, Mapping):
        raise _explain(source)
    return _forebay.open_columns(*_columns.specify(source))


def reopen(source: Any, options: dict[str, Any]) -> Dataset:
    return open(source, **options)
