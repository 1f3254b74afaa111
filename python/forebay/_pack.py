"""Packing: a data set written anew, shuffled, in files of one size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Union

from . import _forebay, _options
from ._advice import advised
from ._dataset import Dataset
from ._dataset import open as open_dataset
from ._sources import progress_of


class Pack(NamedTuple):
    """What :func:`pack` did, or, with `dry_run`, would do."""

    rows: int
    files: int
    rows_per_file: int
    batch: int
    """Rows of a record batch or row group."""
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
    """It went on where another call had stopped."""
    source_contents: str
    """Of the source, as ``state["contents"]`` has it."""
    rows_hash: str | None
    """With `verify`, the sum of the hashes of all rows."""
    expected_bytes: int | None
    """With `dry_run`, about, of the pack's files."""
    expected_seconds: float | None
    """With `dry_run`, about, that packing takes; None where the folder cannot be written."""


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
) -> Pack:
    """Write a data set anew into a folder, shuffled, in files of one size that every tool reads.

    Row d of the pack, counted over its files in order, is the d-th sample of ``source.rows().loader(shuffle="full", seed=seed, streams=1)``. The bytes
    of the files depend on the source and on these options, but neither on `memory` nor on `threads`. Until all of it is written nothing in the
    folder has a final name; the same call goes on with it, whatever stopped the one before.

    Parameters
    ----------
    source : Dataset, or what :func:`open` takes
    to : path
        A folder that is not there, is empty, or holds what an unfinished pack of the same source and options left.
    shuffle : {"full", "none"}
        All rows mixed, or as they are.
    seed : int
    format : {"arrow", "parquet"}
        Arrow IPC files, whose rows are used in place, or Parquet.
    codec : {"auto", "none", "lz4", "zstd", "snappy"}
        "auto" is none for Arrow and zstd for Parquet; "snappy" is for Parquet alone.
    batch : int, optional
        Rows of a record batch or row group; by default about 4 MiB of them, at most 65,536.
    rows_per_file : int, optional
        By default about 256 MiB of them.
    columns : str or list of str, optional
        Top-level columns; by default all.
    memory : str or int, optional
        What packing may hold ("8GiB"); by default half of what the process may take.
    threads : int, optional
        For writing; by default the CPUs this process may use.
    verify : bool
        Read source and pack again, and compare the sums of 128-bit hashes of their rows: a DataError if they differ.
    dry_run : bool
        Say what would be done, how large it would be and about how long it would take, and leave nothing behind. A batch is tried, and how fast
        the disk is.
    progress : bool or callable, optional
        As of :func:`open`: rows moved so far, of how many, and what is done with them.

    Examples
    --------
    >>> fb.pack("basins/*.parquet", "packed", seed=7, memory="8GiB")
    >>> loader = fb.open("packed").rows().loader({"x": ["prcp", "tmax"]}, batch_size=512)

    Raises
    ------
    ValueError
        For an option that does not fit, and a folder that holds something else, a finished pack, or one that is being written.
    UnsupportedError
        For a column whose type is not written, by name.
    ChangedError
        For an unfinished pack of a source that has changed, and a file that changes meanwhile.
    BudgetError, ReadError
        For memory that is too small; for files that cannot be read or written, a full disk among the reasons.
    """
    given = dict(locals())
    dataset = source if isinstance(source, Dataset) else open_dataset(source)
    options = _options.plain("pack", given)
    return Pack(**_forebay.pack(dataset._core, to, {**options, "progress": progress_of(progress)}))
