"""Packing: a data set written anew, shuffled, in files of one size; whole, or task by task."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, NamedTuple, Union

from . import _forebay, _options, _output_rows
from ._advice import advised, unknown_argument
from ._dataset import Dataset
from ._dataset import open as open_dataset
from ._loader import Loader
from ._mix import Mix
from ._pipeline import Pipeline
from ._samples import Samples
from ._sources import progress_of


class Pack(NamedTuple):
    """What :func:`pack` did, or, with `dry_run`, would do."""

    rows: int
    files: int
    rows_per_file: int
    batch: int
    """Rows of a record batch, row group or chunk."""
    source_bytes: int
    """Of the source, as stored."""
    decoded_bytes: int
    """About, of the columns in memory."""
    scratch_bytes: int
    """About, what lay in the folder meanwhile, beside the pack."""
    written_bytes: int
    passes: int
    buckets: int
    """That the rows were scattered into; 0 without a shuffle."""
    resumed: bool
    """It went on where another call had stopped; of a task: some of it, or all, was complete."""
    source_contents: str
    """Of the source, as ``state["contents"]`` has it."""
    rows_hash: str | None
    """With `verify`, the sum of the hashes of all rows."""
    expected_bytes: int | None
    """With `dry_run`, about, of the pack's files."""
    expected_seconds: float | None
    """With `dry_run`, about, that packing takes; None where the folder cannot be written."""
    keys: int | None
    """With `by`, how many values the key has."""
    note: str | None
    """Columns that no reader has and so are not packed; what the source's files say of themselves and their columns, and the pack does not: they do not
    say the same, or a pack cannot. With ``units="first"``, units that are the first file's alone."""


@advised()
def pack(
    source: Any,
    to: Union[str, "os.PathLike[str]"],
    *,
    shuffle: str = "full",
    seed: int = 0,
    format: str = "arrow",  # noqa: A002 (the word of the command)
    codec: str = "auto",
    batch: int | None = None,
    rows_per_file: int | None = None,
    columns: str | Iterable[str] | None = None,
    memory: str | int | None = None,
    threads: int | None = None,
    verify: bool = False,
    dry_run: bool = False,
    progress: bool | Callable[[int, int, str], Any] | None = None,
    outputs: Any = None,
    by: str | None = None,
    units: str = "same",
) -> Pack:
    """Write a data set anew into a folder, shuffled, in files of one size that every tool reads.

    Row d of the pack, counted over its files in order, is the d-th sample of ``source.rows().loader(shuffle="full", seed=seed, streams=1)``. The bytes
    of the files depend on the source and on these options, but neither on `memory` nor on `threads`. Until all of it is written nothing in the
    folder has a final name; the same call goes on with it, whatever stopped the one before.

    Parameters
    ----------
    source : Dataset, or what :func:`open` takes; Samples, with `outputs`
        Samples of a pipeline file (``fb.pipeline("basins.yaml")["train"]``) have outputs already.
    to : path
        A folder that is not there, is empty, or holds what an unfinished pack of the same source and options left.
    shuffle : {"full", "none"}
        All rows mixed, or as they are.
    seed : int
    format : {"arrow", "parquet", "hdf5"}
        Arrow IPC files, whose rows are used in place, Parquet, or HDF5: numbers, text and arrays of numbers, without nulls.
    codec : {"auto", "none", "lz4", "zstd", "snappy", "gzip"}
        "auto" is none for Arrow and HDF5 and zstd for Parquet; "snappy" is for Parquet alone, "gzip" for HDF5 alone.
    batch : int, optional
        Rows of a record batch, row group or chunk; by default about 4 MiB of them, at most 65,536.
    rows_per_file : int, optional
        By default about 256 MiB of them.
    columns : str or list of str, optional
        Top-level columns; by default all.
    memory : str or int, optional
        What packing may hold ("8GiB"); by default half of what the process may take.
    threads : int, optional
        Tasks at a time; by default the CPUs this process may use.
    verify : bool
        Read source and pack again, and compare the sums of 128-bit hashes of their rows: a DataError if they differ.
    dry_run : bool
        Say what would be done, how large it would be and about how long it would take, and leave nothing behind. A batch is tried, and how fast
        the disk is.
    progress : bool or callable, optional
        As of :func:`open`: rows moved so far, of how many, and what is done with them.
    outputs : dict, list of str or str, optional
        As of a loader: what it would give of each sample is packed, in place of rows. An output becomes a column of its name: one number, an array
        (fixed-size lists), a list where it varies in length, or text. Padded ones are lists, which a loader of the pack pads again. What would be
        drawn anew in every epoch is refused by name.
    by : str, optional
        A column, or one of the `outputs`, of integers, booleans or text: each of its values has files of its own, ``part-VALUE-00000.arrow`` and so on,
        and with a shuffle its rows are mixed only with each other. Every row needs a value, and the column
        has at most 65,536 different ones.
    units : {"same", "first"}
        Where the source's files state other units, or calendars, of a column: an error, or those of the first file hold of all ("degC" in one, "celsius"
        in another). Numbers stay as they are; `note` names what the others state otherwise.

    Examples
    --------
    >>> fb.pack("basins/*.parquet", "packed", seed=7, memory="8GiB")
    >>> loader = fb.open("packed").rows().loader({"x": ["prcp", "tmax"]}, batch_size=512)

    >>> windows = fb.open("basins/*.parquet").windows(365, time="date", step="1 day")
    >>> fb.pack(windows, "ready", outputs={"x": ["prcp", "tmax"], "y": fb.col("flow").at(364)})
    >>> loader = fb.open("ready").rows().loader(["x", "y"], batch_size=256)

    Raises
    ------
    ValueError
        For an option that does not fit, and a folder that holds something else, a finished pack, or one that is being written.
    UnsupportedError
        For a column whose type is not written, by name; for HDF5 without the helper program; for an output that would be drawn anew in every epoch.
    ChangedError
        For an unfinished pack of a source that has changed, and a file that changes meanwhile.
    DataError
        For a null, or a text with a NUL in it, that would go to HDF5; for what `verify` found.
    SchemaError
        For a key that is no column; for a column that has other units in another file (see `units`), or with `stored_values` another scale.
    BudgetError, ReadError
        For memory that is too small; for files that cannot be read or written, a full disk among the reasons.
    """
    given = dict(locals())
    core, made = _taken(source, outputs)
    return Pack(**_forebay.pack(core, to, _plain(given), made))


PHASES = tuple(_forebay.pack_phases())


class PackTask(NamedTuple):
    """Task k of the n of a phase: what :func:`pack_tasks` lists and :func:`pack_task` runs."""

    phase: str
    """"plan", "scatter", "write", "verify" or "finish"."""
    k: int
    n: int
    rows: int
    """That it moves."""
    bytes_in: int
    """About, that it reads."""
    bytes_out: int
    """About, that it writes, before they are compressed."""
    inputs: tuple[str, ...]
    """Paths of the source's files, and names in the target folder."""
    outputs: tuple[str, ...]
    """Names in the target folder."""

    @property
    def name(self) -> str:
        """As the command has it: "scatter:3"."""
        return f"{self.phase}:{self.k}"


def _taken(source: Any, outputs: Any) -> tuple[Any, Any]:
    """The data set, and what is packed in place of its rows: None, or outputs, samples and a text that says what made them."""
    source = opened(source)
    if isinstance(source, Samples):
        if outputs is None:
            outputs = source._file_outputs()
        if outputs is None:
            raise TypeError("pack() of samples needs outputs={…}: what of each sample is packed")
    else:
        if outputs is None:
            return source._core, None
        source = source.rows()
    if isinstance(outputs, Sized) and len(outputs) == 0:
        raise ValueError("outputs= is empty: there is nothing to pack")
    rows = source._rows_of(outputs)
    return source.dataset._core, (_output_rows.cores(rows[0]), source._core, source._text())


def opened(source: Any) -> Dataset | Samples:
    """What is packed; opened, where paths name it."""
    if isinstance(source, Mix):
        raise _forebay.UnsupportedError("pack() of a mixture: pack each source, and mix the packs")
    _refuse_what_holds_samples(source)
    return source if isinstance(source, (Dataset, Samples)) else open_dataset(source)


def _refuse_what_holds_samples(source: Any) -> None:
    """Samples are packed: name them where something is given that has some, or several."""
    if isinstance(source, Pipeline):
        names = source.splits
        samples = f"pipeline[{names[0]!r}]" if names else "pipeline.samples"
        raise TypeError(f"pack() of a pipeline: pack {'one of its splits' if names else 'its samples'}, fb.pack({samples}, to)")
    if isinstance(source, Loader):
        raise TypeError("pack() of a loader: pack its samples, and what it gives of them: fb.pack(loader.dataset, to, outputs={…})")
    if isinstance(source, Mapping) and any(isinstance(part, (Samples, Dataset)) for part in source.values()):
        name = next(iter(source))
        raise TypeError(f"pack() of a dict of samples: pack each into a folder of its own, fb.pack(splits[{name!r}], to, outputs={{…}})")


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    columns = given.get("columns")
    if isinstance(columns, Sized) and len(columns) == 0:
        raise ValueError("columns= is empty: name some, or leave it out for all")
    return {**_options.plain("pack", given), "progress": progress_of(given.get("progress"))}


def _known(function: str, options: Mapping[str, Any]) -> dict[str, Any]:
    names = {option["name"] for option in _options.table("pack")}
    for name in options:
        if name not in names:
            raise unknown_argument(function, name, sorted(names))
    return _plain(options)


def pack_tasks(source: Any, to: Union[str, "os.PathLike[str]"], **options: Any) -> list[PackTask]:
    """The tasks that a pack is made by, phase after phase.

    Tasks of one phase are independent of each other, and need all of the phases before. How many there are depends on the source, the options and
    `memory`, which is a task's here (by default 4 GiB): every machine lists the same. Once the plan is written in the folder, it decides.

    Parameters
    ----------
    source, to, **options
        As of :func:`pack`, and the same for every call about one pack.

    Examples
    --------
    >>> for task in fb.pack_tasks("basins/*.parquet", "packed", seed=7, memory="8GiB"):
    ...     fb.pack_task("basins/*.parquet", "packed", task, seed=7, memory="8GiB")
    """
    given = _known("pack_tasks", options)
    core, made = _taken(source, options.get("outputs"))
    return [PackTask(**task) for task in _forebay.pack_tasks(core, to, given, made)]


def pack_task(source: Any, to: Union[str, "os.PathLike[str]"], task: "PackTask | str", **options: Any) -> Pack:
    """Run one task of a pack. Any number of processes may do so at a time, on machines that see the same source and the same folder.

    The bytes of the pack are those that :func:`pack` writes. A task that is complete does nothing, and one that was stopped is run again.

    Parameters
    ----------
    source, to, **options
        As of :func:`pack`, and the same for every call about one pack. `memory` is what this task may hold, by default 4 GiB.
    task : PackTask or str
        "scatter:3": a phase and a number.

    Raises
    ------
    ValueError
        For a task that there is not, and one whose phase needs another to be run first, by name.
    UnsupportedError
        For a table in memory, which other processes do not have.
    """
    name = task if isinstance(task, str) else task.name
    phase, _, k = name.partition(":")
    if phase not in PHASES or not k.isdecimal():
        raise ValueError(f"task={name!r}: a phase ({', '.join(PHASES)}), a colon and a number are expected")
    given = _known("pack_task", options)
    core, made = _taken(source, options.get("outputs"))
    return Pack(**_forebay.pack_task(core, to, given, made, phase, int(k)))
