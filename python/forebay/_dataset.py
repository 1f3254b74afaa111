"""Data sets: looking at them, samples of them, and taking them as Arrow or NumPy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Union

from . import _forebay, _samples
from ._advice import TORCH_SAMPLES, advised, refuse_torch
from ._samples import Samples
from ._schema import Schema
from ._sizes import count, format_bytes, format_count

if TYPE_CHECKING:
    from ._contents import Attributes, Contents
    from ._loader import Loader

Path = Union[str, "os.PathLike[str]"]
Progress = Callable[[int, int, str], object]


class File(NamedTuple):
    """One file: path as opened, name relative to the data set's root, format, sizes, and its blocks [first_block, first_block + n_blocks)."""

    path: str
    name: str
    format: str
    size_bytes: int
    rows: int
    groups: int
    first_block: int
    n_blocks: int


class Block(NamedTuple):
    """One block, the unit of reading: rows [row_begin, row_end) of a file's row group; first_row is its place in the data set."""

    file: int
    group: int
    row_begin: int
    row_end: int
    first_row: int
    stored_bytes: int


class Chunk(NamedTuple):
    """One column of one row group. -1 (and page_version 0) means: not known without reading the pages."""

    codec: str
    encodings: list[str]
    n_values: int
    compressed_bytes: int
    uncompressed_bytes: int
    n_pages: int
    n_dictionary_values: int
    null_count: int
    page_version: int
    has_offset_index: bool
    has_crc: bool


T = TypeVar("T")


class _Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when asked for: 10,000 files cost nothing until they are looked at."""

    __slots__ = ("_n", "_make")

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n, self._make = n, make

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self._make(i) for i in range(*key.indices(self._n))]
        i = count(key, "index", -sys.maxsize)
        if not -self._n <= i < self._n:
            raise IndexError(f"index {i} is out of range: there are {self._n}")
        return self._make(i % self._n)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._n))

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:10]]
        if self._n > 10:
            shown.append(f"… and {self._n - 10:,} more")
        return "[" + ",\n ".join(shown) + "]"


class _Exports:
    """What Dataset and Selection share: the Arrow PyCapsule interface and read(), of `_names` (None = all columns)."""

    _core: _forebay.Dataset
    _names: list[str] | None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an arrow_array_stream capsule: ``pyarrow.table(ds)``, ``polars.DataFrame(ds)``, DuckDB.

        `requested_schema` is not used: the consumer casts. The stream keeps the data set open.

        Raises
        ------
        SchemaError
            When files disagree about a column's type, or lack it.
        """
        return self._core.export_stream(self._names)

    def __arrow_c_schema__(self) -> object:
        """The schema as an arrow_schema capsule: ``pyarrow.schema(ds)``."""
        return self._core.export_schema(self._names)


class Selection(_Exports):
    """Some columns of a data set, for Arrow and NumPy: made by :meth:`Dataset.select`."""

    def __init__(self, dataset: "Dataset", columns: list[str]) -> None:
        self.dataset = dataset
        self._core, self._names = dataset._core, columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the selected columns, in order."""
        return tuple(self._names or ())

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self) -> dict[str, Any]:
        """As :meth:`Dataset.read`, these columns."""
        return self.dataset.read(self._names)

    def __repr__(self) -> str:
        return f"<forebay.Selection of {', '.join(map(_forebay.printable, self.columns))}: {len(self):,} rows>"


class Dataset(_Exports):
    """Many files, or a table in memory, seen as one immutable table: made by :func:`forebay.open`.

    ``print(ds)`` shows it, ``len(ds)`` is its rows, ``pyarrow.table(ds)`` reads it, ``ds.rows().loader(…)`` trains from it.
    It pickles as its sources and options and is opened again on the other side; one in memory does not pickle.
    """

    _names = None

    def __init__(self, core: _forebay.Dataset, origin: tuple | None) -> None:
        self._core = core
        self._origin = origin
        self._info = core.info()
        self._schema: Schema | None = None

    # ---- what it is ----

    def __len__(self) -> int:
        refuse_torch(TORCH_SAMPLES.format(what="data sets", name="ds.rows()"))
        return self._info["rows"]

    def __bool__(self) -> bool:
        return True  # a data set without rows is still one

    @property
    def schema(self) -> Schema:
        """The columns with their types; of many files the joined ones. Pattern and source columns come first."""
        if self._schema is None:
            self._schema = Schema(self._core.schema())
        return self._schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the top-level columns; ``ds.schema.paths`` has the dotted ones."""
        return self.schema.names

    @property
    def files(self) -> Sequence[File]:
        """The files in order, as :class:`forebay.File`."""
        return _Lazy(self._info["files"], lambda i: File(*self._core.file(i)))

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks in order, as :class:`forebay.Block`."""
        return _Lazy(self._info["blocks"], lambda i: Block(*self._core.block(i)))

    @property
    def notes(self) -> list[str]:
        """What is odd about it, as sentences: "12 files lack the column 'snow'"."""
        return self._core.notes()

    @property
    def identity(self) -> str:
        """32 hex digits of what the order depends on: names, rows per block, schema."""
        return self._info["identity"]

    @property
    def fingerprint(self) -> str:
        """32 hex digits of identity, sizes, times and metadata: changes when a file does."""
        return self._info["fingerprint"]

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks as stored (compressed)."""
        return self._info["stored_bytes"]

    @property
    def open_stats(self) -> dict[str, Any]:
        """How the open went: files, files_from_cache, metadata_bytes_read, open_ns, cache_written."""
        return {key: self._info[key] for key in ("files", "files_from_cache", "metadata_bytes_read", "open_ns", "cache_written")}

    def chunk(self, file: int, group: int, column: str, *, pages: bool = False) -> Chunk:
        """How one column of one row group is stored.

        Parameters
        ----------
        file, group : int
        column : str
            Dotted path of a field that holds values.
        pages : bool
            Also read the page headers (this reads the file).
        """
        return Chunk(*self._core.chunk(count(file, "file"), count(group, "group", 0, 2**32 - 1), column, pages))

    def __repr__(self) -> str:
        if self._core.closed:
            return "<forebay.Dataset, closed>"
        info = self._info
        head = f"{format_count(info['rows'])} rows × {format_count(len(self.schema))} columns"
        parts = []
        if info["files"]:
            first = self.files[0]
            parts.append(f"{format_count(info['files'])} {first.format} file{'s' * (info['files'] != 1)}")
        parts.append(f"{format_count(info['blocks'])} block{'s' * (info['blocks'] != 1)}")
        parts.append(f"{format_bytes(info['stored_bytes'])} stored")
        codecs = self._codecs()
        if codecs:
            parts.append(codecs)
        lines = [f"<forebay.Dataset: {head}>", "  " + ", ".join(parts)]
        if info["files"] and self.files[0].path:
            lines.append(f"  {_forebay.printable(self.files[0].path)}" + (" …" if info["files"] > 1 else ""))
        lines += ["  " + line for line in self.schema._text(60).splitlines()]
        notes = self.notes
        lines += [f"  note: {note}" for note in notes[:5]]
        if len(notes) > 5:
            lines.append(f"  … and {len(notes) - 5} more notes")
        return "\n".join(lines)

    def _codecs(self) -> str:
        """Codecs of the first row group, of the first columns: enough to say what the files are like."""
        names: dict[str, None] = {}
        for path in self.schema.paths[:64]:
            try:
                codec = self.chunk(0, 0, path).codec
            except _forebay.Error:
                continue  # a pattern's column, or a table in memory: stored nowhere
            if codec:
                names.setdefault(codec)
        return ", ".join(names)

    # ---- taking it ----

    def select(self, columns: str | Iterable[str]) -> Selection:
        """Some top-level columns, for Arrow and NumPy: ``pyarrow.table(ds.select(["a", "b"]))``.

        Raises
        ------
        SchemaError
            For a name that is no column.
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if name not in self.columns:
                self._core.export_schema([name])  # says why
        return Selection(self, names)

    def rows(self) -> Samples:
        """Samples that are the rows."""
        return Samples(self)

    @advised()
    def windows(
        self,
        input: int,
        output: int = 0,
        *,
        stride: int = 1,
        by: str | Iterable[str] = "file",
        time: str | None = None,
        step: Any = None,
        drop_missing: str | Iterable[str] = (),
        threads: int | None = None,
        progress: bool | Progress | None = None,
    ) -> Samples:
        """Samples that are windows: `input` + `output` consecutive rows of one series.

        Parameters
        ----------
        input, output : int
            Rows of both parts. Outputs of the loader say which they take: ``fb.col("prcp").steps(0, 365)``.
        stride : int
            Rows from one window's start to the next one's; the first window begins with its series.
        by : str or sequence of str
            What a series is: "file", or a column whose runs of equal values are the series (within a file); of several columns, runs of rows that
            are equal in all.
        time : str, optional
            A column of times or numbers; a series ends where it does not go on by `step`, or, without a step, does not rise.
        step : int, timedelta or numpy.timedelta64, optional
            An int counts the column's own units (days of dates, nanoseconds of timestamp[ns]).
        drop_missing : str or list of str
            Windows that touch a missing value (null, NaN) of these columns are left out.
        threads : int, optional
            For reading the columns named above, which is done once, here.
        progress : bool or callable, optional
            As of :func:`forebay.open`.

        Raises
        ------
        SchemaError, UnsupportedError
            For a column that is not there, or cannot be a key or a time.
        ValueError
            When no series is as long as a window, and for options that do not fit.
        """
        return _samples.windows(self, input, output, stride, by, time, step, drop_missing, threads, _progress(progress))

    @advised()
    def groups(
        self,
        key: str | Iterable[str] | None = None,
        *,
        rows: int | None = None,
        table: Any = None,
        first: str | None = None,
        last: str | None = None,
        file: str | None = None,
        file_by: str = "name",
        threads: int | None = None,
        progress: bool | Progress | None = None,
    ) -> Samples:
        """Samples that are groups: runs of rows with equal values of the column `key`, within a file; of `rows` rows each; or those that an index
        table lists.

        Parameters
        ----------
        key : str or sequence of str, optional
            The column of the key: of the data, which is scanned for it; with `table` a column of the table, for selecting by it later. Of several
            columns, ``ds.groups(("run", "event"))``, a group is a run of rows that are equal in all; to select by it, name one of them.
        rows : int, optional
            In place of a key: groups of so many rows from a file's first row on, the last one of what is left. Nothing is read.
        table : path, Dataset, or what :func:`forebay.open` takes; optional
            An index table, one row a group. The data are not read. Rows of files that are not in the data set are left out; rows between
            groups are in none. Groups need not be sorted; groups that overlap are an error.
        first, last : str
            With `table`: its columns with the first and the last row of a group in its file, counted from 0. The last row is in the group.
        file : str, optional
            With `table`: its column that says in which file a group is. Its value is that of the pattern's part of the same name
            ("train/batch_{batch_id}.parquet"), or the file's name with or without extension; or write a name made of the column:
            ``file="batch_{batch_id}.parquet"``. Not needed for a single file.
        file_by : {"name", "position"}
            "position": `file` holds the place of the file in ``ds.files`` instead.
        threads : int, optional
            For reading the key or the table, which is done once, here.
        progress : bool or callable, optional
            As of :func:`forebay.open`.

        Raises
        ------
        SchemaError, UnsupportedError
            For a column that is not there, or cannot be a key.
        DataError
            For a row without a key; for a group of the table that lies beyond its file or overlaps another.
        ValueError
            When no row of the table is of a file of the data set, and for options that do not fit.
        """
        return _samples.groups(self, key, rows, table, first, last, file, file_by, threads, _progress(progress))

    def cells(self, axes: int) -> Samples:
        """Samples that are cells of N-d data sets: rows run over the first `axes` axes together (files × long × short).

        Data sets of lower rank are repeated along the axes they lack: one label a file becomes a label a cell.
        The files are opened again this way; ``cells(3).dataset`` is that data set.
        """
        if self._origin is None:
            raise ValueError("cells are cut from HDF5 files, and this data set is in memory")
        from ._open import open

        source, options = self._origin
        return Samples(open(source, **{**options, "axes": count(axes, "axes", 1, 32), "axis": 0}))

    def loader(self, outputs: Any = None, **options: Any) -> "Loader":
        """Short for ``ds.rows().loader(outputs, …)``; the parameters are those of :class:`forebay.Loader`."""
        return self.rows().loader(outputs, **options)

    def contents(self, file: int = 0) -> "Contents":
        """What an HDF5 or NetCDF-4 file holds: every group and data set by path, how it is stored, attributes.

        Raises
        ------
        UnsupportedError
            For a Parquet file, which holds nothing beyond its table.
        """
        from ._contents import Contents

        return Contents(*self._core.contents(count(file, "file")))

    @property
    def attrs(self) -> "Attributes":
        """The attributes of the first file's root group; ``ds.contents()["/x"].attributes`` has a data set's."""
        return self.contents()["/"].attributes

    def read(self, columns: str | Iterable[str] | None = None, *, file: int = 0) -> Any:
        """Columns whole, or any one data set of an HDF5 file, as NumPy.

        Parameters
        ----------
        columns : str or list of str, optional
            Names or dotted paths; by default every column that can be a tensor. A str that begins with a slash is the path of a data set
            of an HDF5 file, part of the table or not.
        file : int
            With such a path: of which file.

        Returns
        -------
        array
            For a path with a slash: the data set as stored, in its own shape.
        dict of name to array, in file order, shape (rows, …)
            Numbers and bools in their own dtype; missing floats are NaN, and a column of others in which values are missing is a
            numpy.ma.MaskedArray. Timestamps and dates are datetime64, durations timedelta64, missing ones NaT. Strings are an
            object array of str, binaries of bytes, missing ones None. Lists are :class:`forebay.Ragged` of NumPy arrays.

        Raises
        ------
        SchemaError, UnsupportedError
            For a name that is no column, or a type that cannot be a tensor.
        ImportError
            Without NumPy.
        """
        if isinstance(columns, str) and columns.startswith("/"):
            from ._contents import read_array

            return read_array(self, columns, count(file, "file"))
        from ._read import read

        return read(self, columns)

    # ---- life ----

    def close(self) -> None:
        """Give it up; loaders, streams and batches made from it stay valid. Twice is fine."""
        self._core.close()

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._core.closed

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self):
        if self._origin is None:
            raise TypeError(
                "a data set in memory does not pickle: open it in the process that uses it, or write it to a Parquet file and open that"
            )
        from ._open import reopen

        return (reopen, self._origin)


def _show_progress() -> Progress:
    """Progress on a terminal, silence in a pipe."""
    start = time.monotonic()
    tty = sys.stderr is not None and sys.stderr.isatty()

    def show(done: int, total: int, what: str) -> None:
        if tty and (time.monotonic() - start > 0.3 or done == total):
            end = "\n" if done == total else ""
            print(f"\r\033[K{what}: {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)

    return show


def _progress(progress: bool | Progress | None) -> Progress | None:
    if progress is True:
        return _show_progress()
    if callable(progress):
        return progress
    if progress in (None, False):
        return None
    raise TypeError(f"progress is True, False or a callable, not {type(progress).__name__}")
