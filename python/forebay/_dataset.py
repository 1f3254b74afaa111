"""Data sets: opening them, looking at them, cutting samples out of them, and taking them as Arrow or NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from . import _contents, _forebay, _options, _read, _samples
from ._advice import DATASET_WORDS, GROUP_WORDS, OPEN_WORDS, TORCH_SAMPLES, WINDOW_WORDS, Known, advised, refuse_torch
from ._contents import Attributes, Contents
from ._files import Block, Chunk, File, Lazy
from ._loader import Loader
from ._samples import Samples
from ._schema import Schema
from ._sizes import count, format_bytes, format_count, size_bytes
from ._sources import Path, Progress, anchored, dtype_names, folder, is_path, open_memory, paths_of, progress_of



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

    def read(self, *, memory: int | str | None = None) -> dict[str, Any]:
        """As :meth:`Dataset.read`, these columns."""
        return self.dataset.read(self._names, memory=memory)

    def __repr__(self) -> str:
        return f"<forebay.Selection of {', '.join(map(_forebay.printable, self.columns))}: {len(self):,} rows>"


class Dataset(_Exports, Known):
    """Many files, or a table in memory, seen as one immutable table: made by :func:`forebay.open`.

    ``print(ds)`` describes it, ``len(ds)`` is its number of rows, ``pyarrow.table(ds)`` reads it, ``ds.rows().loader(…)`` trains from it.
    A pickled data set is its sources and options, and is opened again by unpickling; one in memory cannot be pickled.
    """

    _names = None
    _other_words = DATASET_WORDS

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

    def __getitem__(self, key: Any) -> NoReturn:
        name = key if isinstance(key, str) else "x"
        raise TypeError(
            f"a data set holds no values: ds.read({name!r})[{name!r}] is a column as a NumPy array, ds.rows().loader({name!r}, batch_size=512) gives batches, "
            "pyarrow.table(ds) is all of it"
        )

    @property
    def schema(self) -> Schema:
        """The columns with their types, those of many files joined. Columns from a path's pattern or a mapping's names come first."""
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
        return Lazy(self._info["files"], lambda i: File(**self._core.file(i)))

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks in order, as :class:`forebay.Block`."""
        return Lazy(self._info["blocks"], lambda i: Block(**self._core.block(i)))

    @property
    def notes(self) -> list[str]:
        """Remarks on the files, as sentences: "12 files lack the column 'snow'"."""
        return self._core.notes()

    @property
    def identity(self) -> str:
        """A hash (32 hex digits) of what the order of samples depends on: names, rows per block, schema."""
        return self._info["identity"]

    @property
    def fingerprint(self) -> str:
        """A hash (32 hex digits) of identity, sizes, times and metadata, which changes when a file does."""
        return self._info["fingerprint"]

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks as they are stored (compressed)."""
        return self._info["stored_bytes"]

    @property
    def open_stats(self) -> dict[str, Any]:
        """What opening took: files, files_from_cache, metadata_bytes_read, open_ns, cache_written."""
        return {key: self._info[key] for key in ("files", "files_from_cache", "metadata_bytes_read", "open_ns", "cache_written")}

    def chunk(self, file: int, group: int, column: str, *, pages: bool = False) -> Chunk:
        """How one column of one row group is stored.

        Parameters
        ----------
        file, group : int
        column : str
            Dotted path of a field that holds values.
        pages : bool
            Also read the page headers, from the file.
        """
        return Chunk(**self._core.chunk(count(file, "file"), count(group, "group", 0, 2**32 - 1), column, pages))

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
        """Select top-level columns, for Arrow and NumPy: ``pyarrow.table(ds.select(["a", "b"]))``.

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
        """Samples that are single rows."""
        return Samples(self)

    @advised(words=WINDOW_WORDS)
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
        """Samples that are windows of `input` + `output` consecutive rows of a series.

        Parameters
        ----------
        input, output : int
            Rows of the two parts. Outputs of a loader say which rows they take: ``fb.col("prcp").steps(0, 365)``.
        stride : int
            Rows between the starts of consecutive windows. The first window starts with its series.
        by : str or sequence of str
            What a series is: "file", or a column (or several) whose runs of equal values within a file are the series.
        time : str, optional
            A column of times or numbers. A series ends where it does not increase by `step`, or, without a step, does not increase.
            Without it, windows may go over gaps: where rows have a date or a timestamp, a warning says so.
        step : str, timedelta, numpy.timedelta64 or int, optional
            In words, "1 day", "6 hours", "10 min", "30 s", "20 ms", "us", "ns"; an int is in the column's own unit (days for dates,
            nanoseconds for timestamp[ns]).
        drop_missing : str or list of str
            Leave out windows with a missing value (null, NaN) in any of these columns.
        threads : int, optional
            For reading these columns, which is done once, here.
        progress : bool or callable, optional
            As of :func:`forebay.open`.

        Raises
        ------
        SchemaError, UnsupportedError
            For a column that is not there, or cannot be a key or a time.
        ValueError
            When no series is as long as a window, for rows of a shuffled pack without `time`, and for arguments that do not fit.
        """
        return _samples.windows(self, locals())

    @advised(words=GROUP_WORDS)
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
        """Samples that are groups: runs of rows within a file that have the same `key`, runs of `rows` rows, or those that an index table lists.

        Parameters
        ----------
        key : str or sequence of str, optional
            The key's column, which is scanned; with `table` a column of the table, for selecting by it later. With several columns,
            ``ds.groups(("run", "event"))``, a group is a run of rows that are equal in all of them; to select samples, name one.
        rows : int, optional
            In place of a key: groups of so many rows, from each file's first row; its last group has what is left. Nothing is read.
        table : path, Dataset, or what :func:`forebay.open` takes; optional
            An index table with one row for each group, in any order. The data are not read. Rows for files that are not in the data set are
            ignored; rows of the data between groups are in no sample. Groups that overlap are an error.
        first, last : str
            With `table`: its columns with the first and the last row of a group, counted from 0 in its file. The last row belongs to the group.
        file : str, optional
            With `table`: its column that says in which file a group is, by the value of the pattern's part of the same name
            ("train/batch_{batch_id}.parquet"), or by the file's name with or without extension. Or a file name made of the column's value:
            ``file="batch_{batch_id}.parquet"``. Not needed for a single file.
        file_by : {"name", "position"}
            "position": the column holds the place of the file in ``ds.files``.
        threads : int, optional
            For reading the key or the table, which is done once, here.
        progress : bool or callable, optional
            As of :func:`forebay.open`.

        Raises
        ------
        SchemaError, UnsupportedError
            For a column that is not there, or cannot be a key.
        DataError
            For a row without a key; for a group of the table that reaches beyond its file or overlaps another.
        ValueError
            When no row of the table is for a file of the data set, and for arguments that do not fit.
        """
        return _samples.groups(self, locals())

    def cells(self, axes: int) -> Samples:
        """Samples that are cells of N-d data sets: one for each place on their first `axes` axes (files × long × short).

        Data sets with fewer axes are repeated along those they lack: one label a file becomes one label a cell.
        The files are opened again for it; ``cells(3).dataset`` is that data set.
        """
        if self._origin is None:
            raise ValueError("cells are cut from HDF5 files, and this data set is in memory")
        source, options = self._origin
        return Samples(open(source, **{**options, "axes": count(axes, "axes", 1, 32), "axis": 0}))

    def loader(self, outputs: Any = None, **options: Any) -> Loader:
        """Short for ``ds.rows().loader(outputs, …)``, with the parameters of :class:`forebay.Loader`."""
        return self.rows().loader(outputs, **options)

    def contents(self, file: int = 0) -> Contents:
        """What a file holds beyond its table.

        Of HDF5 and NetCDF-4: every group and data set by path, how they are stored, their attributes. Of Parquet and Arrow: "/", whose
        attributes are the file's key-value metadata, and the columns that have such of their own (pyarrow's ``field.metadata``), as do fields
        inside of them: "/s.x" of a struct, "/l[]" the elements of a list, "/l[].x" of a list of structs, "/m[].value" of a map.

        Raises
        ------
        UnsupportedError
            For other files, which hold nothing beyond their table.
        """
        return Contents(*self._core.contents(count(file, "file")))

    @property
    def attrs(self) -> Attributes:
        """The attributes of the first file's root group, or its key-value metadata; ``ds.contents()["/x"].attributes`` has a column's."""
        return self.contents()["/"].attributes

    def read(self, columns: str | Iterable[str] | None = None, *, file: int = 0, memory: int | str | None = None) -> Any:
        """Read whole columns, or any one data set of an HDF5 file, as NumPy arrays.

        Parameters
        ----------
        columns : str or list of str, optional
            Names or dotted paths; by default every column that can be a tensor. A str that begins with a slash is the path of a data set of an
            HDF5 file, whether it is part of the table or not.
        file : int
            With such a path: the number of the file in ``ds.files``.
        memory : int or str, optional
            What the result, and reading it, may hold; by default the data set's `memory`, or half of what the process may take.

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
        BudgetError
            When the result needs more than `memory`, with the bytes that would do.
        ImportError
            Without NumPy.
        """
        bytes_ = self._memory if memory is None else size_bytes(memory, "memory")
        if isinstance(columns, str) and columns.startswith("/"):
            return self._read_array(columns, count(file, "file"), bytes_)
        return _read.read(self, columns, bytes_)

    @property
    def _memory(self) -> int | None:
        """As it was given to open()."""
        return self._origin[1].get("memory") if self._origin else None

    def _read_array(self, path: str, file: int, memory: int | None) -> Any:
        """One data set whole, as stored: what ``h5py.File(name)[path][()]`` gives."""
        item = self.contents(file)[path]
        if item.kind != "array":
            raise ValueError(f"{path!r} is a {item.kind}, not a data set")
        if item.dtype is not None and 0 in item.shape:
            return _contents.array_of(item, None)
        origin = self._origin[1] if self._origin else {}
        said = {name: origin[name] for name in ("missing_sources", "external") if name in origin}
        name = self.files[file].path
        with open(name, table=item.path, single=True, axes=_contents.row_axes(item), stored_values=True, cache_dir="", memory=memory, **said) as table:
            return _contents.array_of(item, table)

    @staticmethod
    def _side_table(table: Any) -> "Dataset":
        """A table beside the data, as users name it: a data set, or what :func:`forebay.open` takes."""
        return table if isinstance(table, Dataset) else open(table)

    # ---- life ----

    def close(self) -> None:
        """Close it. Loaders, streams and batches made from it stay valid; closing twice does nothing."""
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
        return (reopen, self._origin)


@advised(words=OPEN_WORDS)
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
    memory: int | str | None = None,
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
        Which placeholder of the path the ids are of; by default the last one, without any the file's name without extension.
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
    memory : int or str, optional
        What opening may hold, such as "2GiB", and each of these over the data set: finding samples, a lookup, :func:`forebay.fit`, :meth:`read`, an
        Arrow stream. By default half of what the process may take. A loader has a budget of its own.

    Returns
    -------
    Dataset

    Raises
    ------
    FileNotFoundError, PermissionError, OSError
        As :class:`forebay.ReadError`.
    FormatError, UnsupportedError, SchemaError
        For a damaged file, one that is refused by name, an id without a file.
    BudgetError
        For a file that needs more than `memory`, with the bytes that would do.
    ValueError, TypeError
        For arguments that do not fit.
    """
    given = dict(locals())
    if isinstance(source, Dataset):
        raise TypeError("this is an open Dataset already")
    options = _options.plain("open", given)
    if isinstance(source, Iterator) and not hasattr(source, "__arrow_c_stream__"):
        source = list(source)
    paths = paths_of(source)
    if paths is None:
        unused = [word for word in _options.changed("open", given) if word not in ("threads", "io", "progress", "memory")]
        if unused:
            raise ValueError(f"{unused[0]}= is about files, and the source is in memory")
        return Dataset(open_memory(source), None)

    if ids is not None:
        if isinstance(ids, str):
            raise TypeError(f"ids is a list of str: write ids=[{ids!r}]")
        for item in options["ids"]:
            if not isinstance(item, str):
                raise TypeError(f"an id is a str, not {type(item).__name__}: {item!r}")
    if cache_dir is not None:
        options["cache_dir"] = anchored(cache_dir) if folder(cache_dir, "cache_dir") else ""
    if external is not None:
        options["external"] = tuple(folder(item, "external") for item in options["external"])
    forms = {
        **({"dimension": axis} if isinstance(axis, str) else {"sample_axis": count(axis, "axis", 0, 31)}),
        "dtypes": dtype_names(dtypes), "progress": progress_of(progress),
    }  # fmt: skip
    core = _forebay.open_files(paths, {**options, **forms})
    if isinstance(source, Mapping):
        kept: Any = {name: anchored(value) if is_path(value) else [anchored(item) for item in value] for name, value in source.items()}
    else:
        kept = anchored(source) if is_path(source) else [anchored(item) for item in source]
    again = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    return Dataset(core, (kept, {**again, "axis": axis, "dtypes": dict(forms["dtypes"])}))


def reopen(source: Any, options: dict[str, Any]) -> Dataset:
    return open(source, **options)
