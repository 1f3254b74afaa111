"""Loaders: epochs of shuffled batches."""

from __future__ import annotations

import atexit
import collections
import functools
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _forebay, _outputs, _state
from ._batch import Batch, Bytes, Ragged, Strings, to_device
from ._ranks import detected_rank
from ._report import Report
from ._sizes import count, size_bytes, superbatch as parse_superbatch

if TYPE_CHECKING:
    from ._dataset import Samples

_log = logging.getLogger("forebay")

_SHUFFLE = {True: 0, "superbatch": 0, "full": 1, "block": 2, False: 3, "none": 3, None: 3}
_TAIL = {"auto": 0, "keep": 1, "drop": 2, "wrap": 3}
_MODE = {"buffer": 0, "numpy": 1, "torch": 2}

# Threads must be gone before the interpreter is: what still runs at exit is closed then.
_live: "weakref.WeakSet[_forebay.Loader]" = weakref.WeakSet()
_owner_pid = os.getpid()


@atexit.register
def _close_all() -> None:
    if os.getpid() == _owner_pid:
        for core in list(_live):
            core.close_at_exit()


class OutputInfo(NamedTuple):
    """One output as it is delivered.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
        Of a whole batch; the first is the batch size. Ragged outputs: of the values, -1 first.
    ragged : bool
        Packed: Ragged, Strings or Bytes instead of one tensor.
    text : bool
        Packed UTF-8 strings.
    """

    dtype: str
    shape: tuple[int, ...]
    ragged: bool
    text: bool


class Loader:
    """Epochs of shuffled batches from samples, inside a memory budget: made by ``samples.loader(…)``.

    Each ``iter()`` begins the next epoch, ``break`` ends it. ``len()`` is batches an epoch, exactly. One epoch runs at a time.
    ``state_dict()`` and ``load_state_dict()`` stop and go on anywhere, exactly (the protocol of torchdata's StatefulDataLoader).
    Threads of the library read and decode ahead; the program is never copied into worker processes. Close it, use it as a context manager, or drop it.
    It pickles as its specification (data set and options): on the other side a new loader begins with `epoch`.

    Parameters
    ----------
    samples : Samples
    outputs : dict, list of str or str, optional
        {name: output}, an output being a column name (shape (B,)), a list of names (stacked, shape (B, n)),
        ``fb.col(…)``, ``fb.index()``, ``fb.row()``, ``fb.length()`` or ``fb.slot()``. A list of names gives each column under its own name. By default every column that can be a tensor.
    batch_size : int
        Samples a batch (of this rank).
    shuffle : bool or {"superbatch", "full", "block"}
        True = "superbatch": blocks in random order, samples mixed within superbatches. "full": one uniform permutation.
        "block": blocks in random order, rows in file order. False: file order.
    seed : int
        Same data, seed, epoch and sampling options: same batches, on any machine, with any number of threads.
    epoch : int, optional
        Number of the first epoch; 0 by default.
    memory : str or int, optional
        The budget, "8GiB" or bytes: all of what the loader holds at once, batches held by the program aside.
        By default two superbatches, at most half of the free memory.
    superbatch : str or int, optional
        How much is mixed at once: "50 blocks", "100000 samples", "256MiB" (as stored), or an int of samples.
    streams : int, optional
        Equal cuts of the epoch's order; 8 by default. It must not change when the number of ranks does.
    threads : int, optional
        By default the CPUs that the process may use.
    rank, world_size : int, optional
        By default read at the first iter() from torch.distributed, else from what torchrun, MPI or srun put into the environment.
    tail : {"auto", "keep", "drop", "wrap"}
        The last, shorter batch. "auto" keeps it in one process and fills it with repeats in several.
    drop_last : bool, optional
        True is tail="drop", False tail="keep".
    prefetch : int, optional
        Batches kept ready; 8 by default.
    framework : {"torch", "numpy", "buffer"}, optional
        What tensors are. By default torch when the program has imported it, else NumPy, else :class:`forebay.Tensor`.
    device : str or torch.device, optional
        "cuda", "cuda:1", …: batches are pinned (by torch's own allocator) and copied there without waiting. Needs torch.
    as_ : {"dict", "tuple", "namedtuple"}
        What a batch is: a :class:`forebay.Batch` (a dict), a tuple in the order of the outputs, or a namedtuple.

    Raises
    ------
    SchemaError, UnsupportedError
        For a column that is not there, or cannot be a tensor.
    BudgetError
        When `memory` is too small; the message has the smallest that would do.
    ValueError, TypeError
        For options that do not fit.

    While iterating: DataError (a missing value without a stand-in in an integer output), ReadError, FormatError and ChangedError at the
    batch they belong to; the epoch is then over.

    Examples
    --------
    >>> loader = ds.rows().loader({"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512, memory="8GiB")
    >>> for batch in loader:
    ...     model(batch["x"])
    """

    def __init__(
        self,
        samples: "Samples",
        outputs: Any = None,
        *,
        batch_size: int,
        shuffle: bool | str | None = True,
        seed: int = 0,
        epoch: int | None = None,
        memory: str | int | None = None,
        superbatch: str | int | None = None,
        streams: int | None = None,
        threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        tail: str = "auto",
        drop_last: bool | None = None,
        prefetch: int | None = None,
        framework: str | None = None,
        device: Any = None,
        as_: str = "dict",
    ) -> None:
        self._samples = samples
        self._options: dict[str, Any] = {
            "batch_size": batch_size, "shuffle": shuffle, "seed": seed, "epoch": epoch, "memory": memory, "superbatch": superbatch,
            "streams": streams, "threads": threads, "rank": rank, "world_size": world_size, "tail": tail, "drop_last": drop_last,
            "prefetch": prefetch, "framework": framework, "device": device, "as_": as_,
        }  # fmt: skip
        self._given_outputs = outputs
        if not isinstance(shuffle, (bool, str, type(None))) or shuffle not in _SHUFFLE:
            raise ValueError(f"shuffle={shuffle!r}: use True, False, 'superbatch', 'full' or 'block'")
        if tail not in _TAIL:
            raise ValueError(f"tail={tail!r}: use 'auto', 'keep', 'drop' or 'wrap'")
        if drop_last is not None:
            if tail != "auto":
                raise ValueError(f"drop_last={drop_last!r} and tail={tail!r} say the same thing: give one of them")
            tail = "drop" if drop_last else "keep"
        if as_ not in ("dict", "tuple", "namedtuple"):
            raise ValueError(f"as_={as_!r}: use 'dict', 'tuple' or 'namedtuple'")
        if (rank is None) != (world_size is None):
            raise ValueError("rank= and world_size= go together: give both or none")
        if rank is not None:
            world_size = count(world_size, "world_size", 1, 2**32 - 1)
            rank = count(rank, "rank", 0, world_size - 1)
        n_samples, n_blocks, n_bytes = parse_superbatch(superbatch)
        self._arguments: dict[str, Any] = {
            "outputs": _outputs.resolve(outputs),
            "batch_size": count(batch_size, "batch_size", 1),
            "shuffle": _SHUFFLE[shuffle],
            "tail": _TAIL[tail],
            "seed": count(seed, "seed", 0, 2**64 - 1),
            "superbatch_samples": n_samples,
            "superbatch_blocks": n_blocks,
            "superbatch_bytes": n_bytes,
            "streams": 0 if streams is None else count(streams, "streams", 1, 2**32 - 1),
            "memory": 0 if memory is None else size_bytes(memory, "memory"),
            "threads": 0 if threads is None else count(threads, "threads", 1, 4096),
            "prefetch": 0 if prefetch is None else count(prefetch, "prefetch", 1, 2**31 - 1),
            "samples": samples._core,
        }
        # Where the next iter() begins, and whether that is also where the loader stands: until then the core knows better.
        self._next = (0 if epoch is None else count(epoch, "epoch", 0, 2**64 - 1), 0)
        self._moved = True
        self._loaded: dict[str, Any] | None = None  # a state that no iter() has begun at yet
        self._epoch: int | None = None
        self._framework = _outputs.choose_framework("torch" if framework is None and device is not None else framework)
        if device is not None and self._framework != "torch":
            raise ValueError(f"device={device!r} needs torch tensors, not framework={framework!r}")
        self._device = device
        self._as = as_
        self._rank_given = rank is not None
        self._rank = (rank, world_size) if rank is not None else detected_rank()
        self._open()

    def _open(self) -> None:
        dataset = self._samples.dataset
        core = _forebay.Loader(dataset._core, rank=self._rank[0], world_size=self._rank[1], **self._arguments)
        try:
            infos = {name: OutputInfo(*rest) for name, *rest in core.outputs()}
            wrappers: list[Any] = []
            dtypes: list[Any] = []
            numpy = self._framework == "numpy"
            given = {row[0]: row for row in self._arguments["outputs"] or ()}
            for name, info in infos.items():
                wrappers.append(self._wrapper(given.get(name, (name, 0, (name,))), info) if info.ragged else None)
                if numpy:
                    dtypes.append(_outputs.numpy_dtype(info.dtype))
                    if info.ragged:
                        dtypes.append(_outputs.numpy_dtype("int64"))
            core.configure(
                _MODE[self._framework], self._converter(), tuple(dtypes), tuple(infos), tuple(wrappers), self._container(infos),
                self._as == "dict",
            )  # fmt: skip
            self._batches, self._samples_per_epoch = core.counts()
        except BaseException:
            core.close()
            raise
        self._core, self._outputs = core, infos
        _live.add(core)

    def _wrapper(self, row: tuple, info: OutputInfo) -> type:
        if info.text:
            return Strings
        if info.dtype == "uint8" and row[1] == 0 and len(row[2]) == 1 and len(info.shape) == 1:
            schema = self._samples.dataset.schema
            if row[2][0] in schema and schema[row[2][0]].kind in ("binary", "fixed_binary", "string"):
                return Bytes
        return Ragged

    def _converter(self) -> Any:
        if self._framework == "torch":
            try:
                from torch.utils.dlpack import from_dlpack
            except ImportError as error:
                raise ImportError(f"framework='torch' needs torch: {error}") from error
            return from_dlpack
        if self._framework == "numpy":
            try:
                import numpy
            except ImportError as error:
                raise ImportError(f"framework='numpy' needs NumPy: {error}") from error
            return numpy.ndarray
        return None

    def _container(self, infos: dict[str, OutputInfo]) -> Any:
        if self._as == "dict":
            return Batch
        if self._as == "tuple":
            return None
        for name in infos:
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(f"as_='namedtuple': output {name!r} cannot be an attribute; rename it, or use as_='dict'")
        return collections.namedtuple("Batch", list(infos))

    # ---- iterating ----

    def __iter__(self) -> Iterator[Any]:
        self._refuse_workers()
        self._find_rank()
        epoch, batch = self._next
        iterator = self._core.begin(epoch, batch)
        if self._epoch is None and _log.isEnabledFor(logging.INFO):
            mixing = self._core.report()["mixing"]
            if mixing:
                _log.info("%s", mixing)
        self._epoch, self._next, self._moved, self._loaded = epoch, (epoch + 1, 0), False, None
        return iterator if self._device is None else map(functools.partial(to_device, device=self._device), iterator)

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
                self._core.set_state(**self._loaded)

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
        """Make the next ``iter()`` begin this epoch; where a state was loaded in the middle of this very epoch, it goes on there."""
        epoch = count(epoch, "epoch", 0, 2**64 - 1)
        if self._loaded is not None and epoch != self._next[0]:
            warnings.warn(
                f"set_epoch({epoch}) leaves the state that was just loaded (epoch {self._next[0]}, batch {self._next[1]}): begin the loop over "
                "epochs where the state says", stacklevel=2,
            )  # fmt: skip
            self._loaded = None
        if epoch != self._next[0]:
            self._next = (epoch, 0)
        self._moved = True

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: small, plain, for ``torch.save`` or ``json.dump``.

        It counts the batches that the program has taken; those read ahead do not matter. After the last batch of an epoch, and before
        the loop has ended, it says that nothing is left of that epoch.
        """
        core = self._core.state()
        if self._moved:
            core["epoch"], core["batch"] = self._next
        return _state.to_dict(core)

    def load_state_dict(self, state: Any) -> None:
        """Go on where a state was taken: the next ``iter()`` gives the rest of that epoch, bit for bit.

        Threads, memory, prefetch, outputs and framework may be others; so may the number of ranks, as long as the global batch
        (``batch_size`` times ranks) is the same. An iterator of this loader is over.

        Parameters
        ----------
        state : dict
            What ``state_dict()`` gave.

        Raises
        ------
        ChangedError
            When the data are others: the message says what changed.
        ValueError
            When seed, shuffle, superbatch, streams, tail or global batch differ (the message has both values), or for what is no state.
        """
        core = _state.from_dict(state)
        self._find_rank()
        self._core.set_state(**core)
        self._loaded, self._next, self._moved = core, (core["epoch"], core["batch"]), True

    def _at(self, batch: int) -> "Loader":
        """Make the next ``iter()`` begin at a batch of the epoch that comes next."""
        self._next, self._moved = (self._next[0], batch), True
        return self

    def __len__(self) -> int:
        return self._batches

    def __bool__(self) -> bool:
        return True

    # ---- looking ----

    @property
    def dataset(self) -> "Samples":
        """The samples; ``len(loader.dataset)`` is their number over all ranks."""
        return self._samples

    @property
    def batch_size(self) -> int:
        """Samples a batch of this rank."""
        return self._arguments["batch_size"]

    @property
    def epoch(self) -> int | None:
        """The epoch that is running or was last; None before the first."""
        return self._epoch

    @property
    def samples_per_epoch(self) -> int:
        """Samples that this rank gets an epoch."""
        return self._samples_per_epoch

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

    def report(self) -> Report:
        """Where the time went so far; ``print()`` it."""
        return Report(**self._core.report())

    def __repr__(self) -> str:
        if self._core.closed:
            return "<forebay.Loader, closed>"
        lines = [f"<forebay.Loader: {len(self):,} batches of {self.batch_size:,} from {len(self._samples):,} samples>"]
        width = max(map(len, self._outputs))
        for name, info in self._outputs.items():
            kind = "strings" if info.text else f"{info.dtype} {'ragged ' * info.ragged}({', '.join('B' if i == 0 and not info.ragged else '…' if n < 0 else str(n) for i, n in enumerate(info.shape))})"
            lines.append(f"  {name:<{width}}  {kind}")
        return "\n".join(lines)

    # ---- life ----

    def close(self) -> None:
        """Stop the threads and free all memory but batches still held. Twice is fine; a thread that waits gets StateError."""
        self._core.close()

    @property
    def closed(self) -> bool:
        """True after close()."""
        return self._core.closed

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self):
        return (_rebuild, (self._samples, self._given_outputs, self._options))


def _rebuild(samples: Any, outputs: Any, options: dict[str, Any]) -> Loader:
    return samples.loader(outputs, **options)
