"""Loaders: epochs of shuffled batches."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _delivery, _forebay, _hints, _options, _state, _trace, _transform
from ._advice import LOADER_ATTRIBUTES, LOADER_WORDS, TORCH_LOADER, Known, advised, outside, refuse_torch
from ._batch import checked_device, to_device
from ._device import Mover
from ._delivery import OutputInfo, SourceInfo
from ._forebay import printable
from ._log import log
from ._ranks import detected_rank, local_world_size
from ._sizes import count, memory as parse_memory, part as parse_part, superbatch as parse_superbatch
from ._torch_memory import TorchMemory
from ._write import write_yaml

if TYPE_CHECKING:
    from ._mix import Mix
    from ._report import Report
    from ._samples import Samples

_SHUFFLE = {True: "superbatch", False: "none", None: "none"}

# Threads must be gone before the interpreter is: what still runs at exit is closed then. What is called when a loader goes is not Python, as
# a WeakSet's would be: in that, a KeyboardInterrupt is lost.
_live: "set[weakref.ref[_forebay.Loader]]" = set()
_owner_pid = os.getpid()


@atexit.register
def _close_all() -> None:
    if os.getpid() == _owner_pid:
        for alive in list(_live):
            if (core := alive()) is not None:
                core.close_at_exit()
        _transform.join_all()


class Loader(Known):
    """Epochs of shuffled batches from samples, inside a memory budget: made by ``samples.loader(…)``.

    Each ``iter()`` begins the next epoch, ``break`` ends it. An epoch counts as begun when its first batch is taken: another ``iter()`` before that
    begins the same epoch. One epoch runs at a time; ``len()`` is the exact number of batches in the current epoch, or in the next one.
    ``state_dict()`` and ``load_state_dict()`` stop and resume exactly, at any batch (the protocol of torchdata's StatefulDataLoader).
    Threads of the library read and decode ahead, without worker processes. Close a loader, use it as a context manager, or drop it.
    A pickled loader is its specification (data set and options): unpickling makes a new loader that begins with `epoch`.

    Parameters
    ----------
    samples : Samples or Mix
    outputs : dict, list of str or str, optional
        What a batch holds: {name: output}, where an output is a column name (shape (B,)), a list of names (stacked, shape (B, n)),
        ``fb.col(…)``, ``fb.sample_index()``, ``fb.row_index()``, ``fb.n_rows()``, ``fb.segment_ids()``, ``fb.is_repeat()`` or ``fb.source()``. A list of
        names delivers each column under its own name. By default every column that can be a tensor. Of a mixture: for all sources, or
        {source: outputs} with the same names for each.
    batch_size : int
        Samples in a batch of this rank. With `batch_elements` it is the most of them, and optional.
    shuffle : bool or {"superbatch", "full", "block"}
        True = "superbatch": blocks in random order, samples mixed within superbatches. "full": one uniform permutation.
        "block": blocks in random order, rows in file order. False: file order.
    seed : int
        The same data, seed, epoch and sampling options give the same batches, on any machine and with any number of threads.
    epoch : int, optional
        Number of the first epoch; 0 by default.
    memory : str or int, optional
        The memory budget, "8GiB" or a number of bytes: everything that the loader holds at once, except batches that the program holds.
        "70%" is a share of what is available to this loader when it is made; "all" holds everything, so that nothing is read twice, and is
        refused with its size where that is not available; columns of lists and strings are read once for it, when the loader is made.
        By default enough for two superbatches (with several ranks, each rank's share of them), but at most half of the free memory as the
        machine, control groups, RLIMIT_AS and RLIMIT_DATA leave it, which the ranks of a host share. ``report().memory_limit`` names the limit.
    superbatch : str or int, optional
        How much is mixed at once: "50 blocks", "100000 samples", "256MiB" (as stored), or a number of samples.
    streams : int, optional
        Into how many equal parts the order of an epoch is cut, of which each rank gets whole ones; 8 by default. The order depends on it: keep it
        when the number of ranks changes.
    threads : int, optional
        By default the CPUs that the process may use.
    rank, world_size : int, optional
        By default read at the first iter() from torch.distributed, jax.distributed or Ray Train, else from what torchrun, MPI or srun put into
        the environment, else from mpi4py.
    part : str, optional
        Make an epoch of a part of the files: "1000 files" (the last part has what is left), or "1/10" (ten parts with as equal numbers of files
        as possible). All files come once before parts are drawn anew. The superbatch is then by default the whole part. "1000 keys" makes parts
        of keys (see `part_key`), which may all lie in one file.
    part_key : str, optional
        The column of the keys that parts are made of, by the value in a sample's first row; read once, here. With "1000 keys" it is by default
        the key of the samples; with "1/10" it makes the tenths of keys instead of files.
    diversity_files : int, optional
        At least so many distinct files in every full batch over all ranks. Blocks are cut into slices for it, no smaller than needed, which are
        mixed in place of the blocks; ``report().reads_per_block`` says how often each block is read.
    max_superbatch_batches : int, optional
        At most so many consecutive batches from one superbatch.
    warmup : bool
        Begin every epoch with smaller superbatches (an eighth, a quarter and a half of `superbatch`), so that the first batch comes early and the
        first ones mix fewer files. False: the first batch waits until the whole first superbatch is there, and mixes as later ones do.
    batch_elements : int, optional
        Fill each batch with whole samples (groups, windows) up to so many rows in total, but at least one sample, in the order of `shuffle`.
    bucket_samples : int, optional
        Put groups of similar length into a batch: so many samples of the shuffled order are sorted by length and cut into batches, which are
        shuffled. With this option or `batch_elements`, the order depends on the number of ranks.
    tail : {"auto", "keep", "drop", "wrap", "uneven"}
        What becomes of the last, shorter batch. "auto" keeps it in one process and fills it with repeats in several ("wrap"; ``fb.is_repeat()``
        marks them). "uneven" delivers every sample once over all ranks, some of which then have one batch fewer: for loops in which no rank waits
        for another.
    drop_last : bool, optional
        True means tail="drop", False tail="keep".
    prefetch : int, optional
        How many batches are kept ready; 8 by default.
    framework : {"torch", "numpy", "buffer"}, optional
        What tensors are. By default torch when the program has imported it, else NumPy, else :class:`forebay.Tensor`.
    device : str, int or torch.device, optional
        "cuda", "cuda:1", …: batches are copied there beside the program's kernels, from pinned memory. Needs torch.
    as_ : {"dict", "tuple", "namedtuple"}
        What a batch is: a :class:`forebay.Batch` (a dict), a tuple in the order of the outputs, or a namedtuple.
    transform : callable, optional
        A function of yours that is called with every batch (as `as_` and `framework` make it, before `device`) and returns what iterating then
        gives: any object except None. It runs on one background thread, in order, ahead of the program. An exception of it is raised at its batch
        and ends the epoch. See "Your own code" in operations.md.
    transform_prefetch : int, optional
        How many results of `transform` are kept ready; 2 by default.
    check : bool
        Call the transform once now, on the first samples in file order, as :meth:`check` does, so that one that never works is refused when the
        loader is made. No epoch begins, and order and state do not change. With False it is first called in the first epoch.
    slow_next_ms : int, optional
        A wait for a batch that is longer, 50 by default, is logged as a warning (logger "forebay") with its cause; first batches of epochs are not.
    slow_next_share : float, optional
        The same as a share of the mean step, in place of slow_next_ms: 0.1 warns of waits above a tenth of the time between two batches.

    Raises
    ------
    SchemaError, UnsupportedError
        For a column that is not there, or cannot be a tensor.
    BudgetError
        When `memory` is too small; the message has the smallest that would do.
    ValueError, TypeError
        For options that do not fit; ArgumentError (a ValueError), from what it raised, for a transform that fails on the first samples.

    While iterating, DataError (such as a missing value in an integer output without fill_missing()), ReadError, FormatError and ChangedError are
    raised at the batch they belong to and end the epoch.

    Examples
    --------
    >>> loader = ds.rows().loader({"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512, memory="8GiB")
    >>> for batch in loader:
    ...     model(batch["x"])
    """

    _other_words = LOADER_ATTRIBUTES

    @advised("loader", LOADER_WORDS)
    def __init__(
        self,
        samples: "Samples | Mix",
        outputs: Any = None,
        *,
        batch_size: int | None = None,
        shuffle: bool | str | None = True,
        seed: int = 0,
        epoch: int | None = None,
        memory: str | int | None = None,
        superbatch: str | int | None = None,
        streams: int | None = None,
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        part: str | None = None,
        part_key: str | None = None,
        diversity_files: int | None = None,
        max_superbatch_batches: int | None = None,
        warmup: bool = True,
        batch_elements: int | None = None,
        bucket_samples: int | None = None,
        tail: str = "auto",
        drop_last: bool | None = None,
        prefetch: int | None = None,
        framework: str | None = None,
        device: Any = None,
        as_: str = "dict",
        transform: Callable[[Any], Any] | None = None,
        transform_prefetch: int | None = None,
        check: bool = True,
        slow_next_ms: int | None = None,
        slow_next_share: float | None = None,
    ) -> None:
        self._options = {name: value for name, value in locals().items() if name not in ("self", "samples", "outputs")}
        self._samples = samples
        self._given_outputs = outputs
        options = _options.plain("loader", self._options)
        if not isinstance(shuffle, (bool, str, type(None))) or shuffle not in (*_SHUFFLE, "superbatch", "full", "block", "none"):
            raise ValueError(f"shuffle={shuffle!r}: use True, False, 'superbatch', 'full' or 'block'")
        if drop_last is not None:
            if tail != "auto":
                raise ValueError(f"drop_last={drop_last!r} and tail={tail!r} both say what becomes of the last batch: give one of them")
            options["tail"] = "drop" if _options.switch(drop_last, "drop_last") else "keep"
        if as_ not in ("dict", "tuple", "namedtuple"):
            raise ValueError(f"as_={as_!r}: use 'dict', 'tuple' or 'namedtuple'")
        if (rank is None) != (world_size is None):
            raise ValueError("rank= and world_size= go together: give both or none")
        if rank is not None:
            world_size = count(world_size, "world_size", 1, 2**32 - 1)
            rank = count(rank, "rank", 0, world_size - 1)
        if batch_size is None and batch_elements is None:
            raise TypeError("a loader needs batch_size=, samples a batch, or batch_elements=, rows a batch")
        forms = {
            "shuffle": _SHUFFLE.get(shuffle, shuffle), "no_warmup": not _options.switch(warmup, "warmup"),
            **parse_memory(memory), **parse_superbatch(superbatch), **parse_part(part, part_key),
        }  # fmt: skip
        self._rows_by_source = samples._rows_of(outputs)
        self._rows = self._rows_by_source[0]
        self._arguments: dict[str, Any] = {**options, **forms}
        self._has_parts = part is not None
        # Where the next iter() begins, and whether that is also where the loader stands: until then the core knows better.
        self._next = (0 if epoch is None else count(epoch, "epoch", 0, 2**64 - 1), 0)
        self._moved = True
        self._begun: tuple[int, int] | None = None  # where the last iter() began, if anything was left there
        self._loaded: dict[str, Any] | None = None  # the last state loaded
        self._epoch: int | None = None
        self._framework = _delivery.choose_framework("torch" if framework is None and device is not None else framework)
        if device is not None and self._framework != "torch":
            raise ValueError(f"device={device!r} needs torch tensors, not framework={framework!r}")
        self._mover = None if device is None else Mover(checked_device(device))
        self._as = as_
        self._transform = _transform.checked(transform)
        self._spans_before = _trace.totals()
        self._torch_memory = TorchMemory()
        self._thread: threading.Thread | None = None  # of the transform, in the last epoch begun
        self._rank_given = rank is not None
        self._rank = (rank, world_size) if rank is not None else detected_rank()
        self._open()
        try:
            if self._warns:
                self._say_what_is_odd()
            if self._transform is not None and check:
                batch = _transform.tried(self._transform, self._first_batch(), self._outputs)
                if self._mover is not None:
                    to_device(batch, self._mover.device)
        except BaseException:  # a warning may be an error
            self._core.close()
            raise

    _warns = True

    def _say_what_is_odd(self) -> None:
        for text in self._core.notes():
            warnings.warn(text, stacklevel=outside())
        if self._rows is None:
            for source in self._samples._each:
                _hints.warn_left_out(source.dataset)

    def _open(self) -> None:
        core = self._samples._open_loader(
            self._rows_by_source,
            {
                **self._arguments, "rank": self._rank[0], "world_size": self._rank[1], "local_world_size": local_world_size(self._rank[1]) or None,
                "transform_pulled": self._transform is not None,
            },
        )
        try:
            if "memory_bytes" in self._arguments:
                _hints.warn_of_limit(self._arguments["memory_bytes"], core.report())
            rows = {row.name: row for row in self._rows or ()}
            infos = _delivery.describe(core.outputs(), rows, self._samples._source_names)
            schema = self._samples._each[0].dataset.schema
            core.configure(**_delivery.configuration(infos, rows, schema, self._framework, self._as))
        except BaseException:
            core.close()
            raise
        self._core, self._outputs = core, infos
        self._counted = core.counts()  # of the epoch that runs or comes next, when it was last asked for
        _live.add(weakref.ref(core, _live.discard))

    # ---- iterating ----

    def __iter__(self) -> Iterator[Any]:
        self._refuse_workers()
        self._find_rank()
        iterator = self._begin(self._comes())
        if self._mover is None:
            return iterator
        if self._transform is None:  # one may begin copies that nobody waits for
            self._mover.pin(self._core)
        return map(functools.partial(_moved, self._core, self._mover), iterator)

    def _untouched(self) -> bool:
        """Has an epoch begun whose first batch is still to be taken?"""
        return self._begun is not None and not self._moved and not self._core.taken

    def _comes(self) -> tuple[int, int]:
        """Epoch and batch where the next iter() begins."""
        return self._begun if self._begun is not None and self._untouched() else self._next

    def _begin(self, where: tuple[int, int], follow: bool = False) -> Any:
        """Begin an epoch at a batch; its iterator. `follow`: the iterator that there is, which has given nothing, gives this epoch's batches."""
        begun = self._core.epochs_begun
        if self._has_parts and self._epoch is not None and not self._moved and (left := _hints.cut_short(self._core, self._epoch)):
            warnings.warn(left, stacklevel=outside())
        if self._has_parts and self._epoch is None and where == (0, 0) and (again := _hints.begun_again(self.state_dict())):
            warnings.warn(again, stacklevel=outside())
        self._torch_memory.note(self._epoch)
        iterator = self._core.begin(*where, follow)
        if self._transform is not None and self._core.epochs_begun != begun:  # else it goes on as it is, and its thread with it
            self._thread = _transform.start(self._core, self._transform, *where)
        if self._epoch is None and log.isEnabledFor(logging.INFO):
            mixing = self._core.report()["mixing"]
            if mixing:
                log.info("%s", mixing)
        self._epoch, self._next, self._moved = where[0], (where[0] + 1, 0), False
        self._begun = where if where[1] < self._core.counts()[0] else None
        return iterator

    def _find_rank(self) -> None:
        """The rank may have become known since the loader was made: torch.distributed was initialised."""
        if self._rank_given or self._epoch is not None:
            return
        found = detected_rank()
        if found != self._rank and not self._core.closed:
            self._core.close()
            self._rank = found
            self._open()
            if self._loaded is not None:
                stands = self._stand(self._loaded)
                if self._next == (self._loaded["epoch"], self._loaded["batch"]):
                    self._next = stands

    @staticmethod
    def _refuse_workers() -> None:
        data = sys.modules.get("torch.utils.data")
        info = data.get_worker_info() if data is not None and hasattr(data, "get_worker_info") else None
        if info is not None:
            raise _forebay.StateError(
                "this is a worker process of a torch DataLoader: every worker would deliver the whole epoch. A Forebay loader reads ahead in "
                "threads of its own and yields whole batches: iterate it directly. A dataset of yours that holds a loader needs DataLoader(num_workers=0)"
            )

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter()`` begin this epoch; where a state was loaded in the middle of this very epoch, it goes on there.

        An iterator that has given no batch yet gives this epoch's too.
        """
        epoch = count(epoch, "epoch", 0, 2**64 - 1)
        comes, untouched = self._comes(), self._untouched()
        if self._loaded is not None and epoch != comes[0] and (self._moved or untouched):
            warnings.warn(
                f"set_epoch({epoch}) leaves the state that was just loaded (epoch {comes[0]}, batch {comes[1]}): begin the loop over "
                "epochs where the state says", stacklevel=outside(),
            )  # fmt: skip
            self._loaded = None
        if untouched and epoch == comes[0]:
            return
        held = self._core.held
        if epoch != self._next[0]:
            self._next = (epoch, 0)
        self._moved = True
        if untouched and held and not self._core.closed:
            self._begin(self._next, follow=True)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, as a small dict of plain values, for ``torch.save`` or ``json.dump``.

        It counts the batches that the program has taken, not those read ahead. After the last batch of an epoch, but before the loop has ended,
        it says that nothing is left of that epoch.
        """
        core = self._core.state()
        if self._moved:
            core["epoch"], core["batch"] = self._next
        return _state.to_dict(core, len(self._samples._each))

    def load_state_dict(self, state: Any) -> None:
        """Continue where a state was taken: the next ``iter()`` gives the rest of that epoch, bit for bit.

        Threads, memory, prefetch, outputs and framework may have changed; so may the number of ranks, as long as the global batch
        (``batch_size`` times ranks) is the same. Iterators that this loader has given out end.

        Parameters
        ----------
        state : dict
            What ``state_dict()`` gave.

        Raises
        ------
        ChangedError
            When the data changed; the message says what did.
        ValueError
            When seed, shuffle, superbatch, streams, part, diversity, batch_elements, bucket_samples, tail or global batch
            differ (the message has both values), or for what is no state.
        """
        core = _state.from_dict(state)
        self._find_rank()
        self._next = self._stand(core)
        self._loaded, self._moved = core, True

    def _kept(self) -> Callable[[], None]:
        """What puts the loader back to where it stands now, however it is used until then."""
        state, loaded, epoch = self.state_dict(), self._loaded, self._epoch

        def restore() -> None:
            self.load_state_dict(state)
            self._loaded, self._epoch = loaded, epoch

        return restore

    def _stand(self, state: dict[str, Any]) -> tuple[int, int]:
        """Stand where a state says, in the core; epoch and batch of that, which with an uneven tail may be of a rank that has one batch more."""
        self._core.set_state(state)
        stands = self._core.state()
        return stands["epoch"], stands["batch"]

    def _at(self, batch: int) -> "Loader":
        """Make the next ``iter()`` begin at a batch of the epoch that comes next."""
        self._next, self._moved = (self._comes()[0], batch), True
        return self

    def _counts(self) -> tuple[int, int]:
        if not self._core.closed:
            self._counted = self._core.count_of(self._next[0]) if self._moved else self._core.counts()
        return self._counted

    def __len__(self) -> int:
        refuse_torch(TORCH_LOADER)
        return self._counts()[0]

    def __bool__(self) -> bool:
        return True

    # ---- looking ----

    @property
    def dataset(self) -> "Any":
        """The samples, or the mixture; ``len(loader.dataset)`` is their number over all ranks."""
        return self._samples

    @property
    def batch_size(self) -> int | None:
        """Samples a batch of this rank; with `batch_elements` the most of them, None when that was not given."""
        return self._arguments.get("batch_size")

    @property
    def epoch(self) -> int | None:
        """The current epoch, or the last one that ran; None before the first."""
        return self._epoch

    @property
    def samples_per_epoch(self) -> int:
        """Samples that this rank gets in the current epoch, or in the next one."""
        return self._counts()[1]

    def sources(self, epoch: int | None = None) -> dict[str, SourceInfo]:
        """What an epoch has of each source of a mixture: by default the current epoch, or the last one that ran; before the first, that one.

        Of a loader of one data set it is empty.
        """
        which = count(epoch, "epoch", 0, 2**64 - 1) if epoch is not None else self._next[0] if self._epoch is None else self._epoch
        found = self._core.sources(which) if self._samples._source_names is not None else []
        return {source.pop("name"): SourceInfo(**source) for source in found}

    @property
    def parts(self) -> int:
        """Epochs until every file or key came once: 1 without `part`."""
        return self._core.report()["parts"]

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._rank[0]

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._rank[1]

    @property
    def framework(self) -> str:
        """'torch', 'numpy' or 'buffer'."""
        return self._framework

    @property
    def outputs(self) -> dict[str, OutputInfo]:
        """Name to dtype, shape and layout of every output."""
        return dict(self._outputs)

    def to_yaml(self, path: "str | os.PathLike[str]") -> None:
        """Write data, samples, outputs and options as a pipeline file, for ``fb.pipeline(path)``, ``forebay plan`` and C.

        Paths to data below the file's directory become relative to it, others absolute. Lookup tables and moments that outputs use are written
        with their values.

        Raises
        ------
        ValueError
            For what a file cannot hold: data in memory, `transform`, weights of single samples, splits of splits.
        """
        write_yaml(self, path)

    def report(self) -> "Report":
        """Where the time went so far; ``print()`` it."""
        from ._report import Report

        spans, values = _trace.since(self._spans_before), self._core.report()
        self._torch_memory.note(self._epoch)
        values["epochs"] = self._torch_memory.added(values["epochs"])
        return Report.from_dict({**values, "spans": {name: {"calls": calls, "ns": ns} for name, (calls, ns) in spans.items()}})

    def check(self) -> Any:
        """Make one batch now, transform included, and return it, to find errors that every batch would raise before a long run.

        The batch has the first samples in file order and comes from a loader of its own: one block is read, no epoch begins, and later batches do
        not change. The transform is called once, on the calling thread.
        """
        batch = self._first_batch()
        if self._transform is not None:
            batch = _transform.once(self._transform, batch)
        return batch if self._mover is None else to_device(batch, self._mover.device)

    def _first_batch(self) -> Any:
        """A batch of the first samples in file order, from a loader of its own."""
        options = {name: self._options[name] for name in ("memory", "threads", "as_", "batch_elements")}
        options["memory"] = None if options["memory"] == "all" else options["memory"]  # this loader holds it
        options.update(batch_size=self.batch_size, shuffle=False, rank=0, world_size=1, prefetch=1, framework=self._framework)
        with Twin(self._samples, self._given_outputs, **options) as loader:
            return next(iter(loader))

    def __repr__(self) -> str:
        if "_core" not in self.__dict__ or self._core.closed:
            return f"<forebay.Loader, {'closed' if '_core' in self.__dict__ else 'not made'}>"
        elements = self._options["batch_elements"]
        size = f"up to {elements:,} rows" if elements is not None else f"{self.batch_size:,}"
        lines = [f"<forebay.Loader: {len(self):,} batches of {size} from {len(self._samples):,} samples>"]
        shown = {printable(name): name for name in self._outputs}
        width = max(map(len, shown))
        for text, name in shown.items():
            info = self._outputs[name]
            shape = ["B" if i == 0 and not info.ragged else "…" if n < 0 else str(n) for i, n in enumerate(info.shape)]
            kind = "strings" if info.text else f"{info.dtype} {'ragged ' * info.ragged}({', '.join(shape)})"
            taken = _hints.steps_text(self._samples, info.steps)
            lines.append(f"  {text:<{width}}  {kind}{taken}")
        return "\n".join(lines)

    def __getitem__(self, _: Any) -> Any:
        raise TypeError("a loader is iterated, not indexed: next(iter(loader)) is the first batch of an epoch; samples.take([0]) chooses samples by number")

    # ---- life ----

    def close(self) -> None:
        """Stop the threads and free all memory except that of batches still held. A thread that waits for a batch gets StateError.

        A running call of the transform is waited for. Closing twice does nothing.
        """
        self._core.close()
        if self._mover is not None:
            self._mover.finish()
        if self._thread not in (None, threading.current_thread()):  # a call of the transform may close
            self._thread.join()

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._core.closed

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self):
        options = dict(self._options)
        if self._transform is not None:
            options["transform"] = _transform.Carried(self._transform)
        return (_rebuild, (self._samples, self._given_outputs, options))


class Twin(Loader):
    """A loader of another's samples and outputs, made for a moment: what there is to say of them was said."""

    _warns = False


def _moved(core: Any, mover: Mover, batch: Any) -> Any:
    """A batch on its device, and the time that took."""
    mover.keep_up()  # which is the program's own work: its GPU's
    began = time.perf_counter_ns()
    batch = mover(batch)
    core.transferred(time.perf_counter_ns() - began)
    return batch


def _rebuild(samples: Any, outputs: Any, options: dict[str, Any]) -> Loader:
    if isinstance(options.get("transform"), _transform.Carried):
        options = {**options, "transform": options["transform"].transform}
    return samples.loader(outputs, **{**options, "check": False})  # it was tried where it was made
