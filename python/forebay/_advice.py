"""Mistakes of users, and what to write instead: arguments that there are not, PyTorch's data utilities around a loader or samples."""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_NO_PROCESSES = "there are no worker processes: threads= of this one read and decode"

# What users of other loaders write.
LOADER_WORDS = {
    "num_workers": _NO_PROCESSES,
    "workers": _NO_PROCESSES,
    "n_threads": "threads= is their number",
    "worker_init_fn": f"{_NO_PROCESSES}, and seed= says what is drawn",
    "multiprocessing_context": _NO_PROCESSES,
    "persistent_workers": "threads live as long as the loader",
    "collate_fn": "outputs= says what a batch holds; transform= is called with every batch",
    "pin_memory": "device= brings batches to a device, through pinned memory where that is faster",
    "pin_memory_device": "device= brings batches to a device",
    "prefetch_factor": "prefetch= is the number of finished batches that are kept ready",
    "sampler": "shuffle= is the order; samples.select(), .resample() and .oversample() choose what comes, and how often",
    "batch_sampler": "batch_size=, batch_elements= and bucket_samples= say what a batch is; shuffle= is the order",
    "generator": "seed= is what the order is drawn from",
    "timeout": "an error of a thread is raised at the batch it belongs to, so no time is needed",
    "in_order": "batches always come in their order",
    "buffer_size": "superbatch= is how much is mixed with each other",
    "shuffle_buffer": "superbatch= is how much is mixed with each other",
    "shuffle_buffer_size": "superbatch= is how much is mixed with each other",
    "drop_remainder": "drop_last= or tail= is what becomes of the last samples",
    "columns": "outputs= names the columns",
    "features": "outputs= names the columns",
    "dtype": "fb.col(…).cast('float32') is an output in a dtype",
    "dataset": "a loader is of samples: ds.rows().loader(…)",
    "epochs": "every iter() is one epoch: loop over them",
    "num_epochs": "every iter() is one epoch: loop over them",
    "cache": "memory= is what blocks are kept in",
    "cache_size": "memory= is what blocks are kept in",
    "num_replicas": "rank= and world_size= go together",
}

_TORCH = ("torch.utils.data", "torchdata.")

TORCH_LOADER = (
    "a Forebay loader gives whole batches and reads ahead in threads of its own: iterate it directly (for batch in loader), without a DataLoader and "
    "its num_workers. Where code wants a DataLoader: torch.utils.data.DataLoader(forebay.torch.IterableDataset(loader), batch_size=None). To split, "
    "split the samples: parts = samples.split(train=0.8, val=0.2), then parts[\"train\"].loader(…)"
)
TORCH_SAMPLES = (
    "{what} say which rows belong together, and have no values for a DataLoader, random_split or Subset to take: write "
    "{name}.loader(outputs, batch_size=…, shuffle=True) in place of the DataLoader, and {name}.split(train=0.8, val=0.2) in place of random_split"
)


def outside() -> int:
    """For warnings.warn() in the caller: the stacklevel of the line outside this package that led there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "forebay":
        level, frame = level + 1, frame.f_back
    return level


def unknown_argument(function: str, name: str, names: Iterable[str], words: dict[str, str] | None = None) -> TypeError:
    """The TypeError for an argument that the function does not have."""
    if words and name in words:
        return TypeError(f"{function}() has no argument {name!r}: {words[name]}")
    plain = {known.replace("_", ""): known for known in names}
    near = difflib.get_close_matches(name.replace("_", "").lower(), plain, 1, 0.7)
    return TypeError(f"{function}() has no argument {name!r}" + (f": did you mean {plain[near[0]]!r}?" if near else f"; it has {', '.join(plain.values())}"))


def advised(name: str | None = None, words: dict[str, str] | None = None) -> Callable[[F], F]:
    """A decorator: the error for an argument that the function does not have says what to write instead."""

    def decorate(function: F) -> F:
        kinds = inspect.Parameter
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
        known = frozenset(names)
        shown = [p for p in names if p not in ("self", "samples")]

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not known.issuperset(options):
                raise unknown_argument(name or function.__name__, next(o for o in options if o not in known), shown, words)
            return function(*args, **options)

        return call  # type: ignore[return-value]

    return decorate


def refuse_torch(message: str, function: str | None = None) -> None:
    """Raise TypeError when the method that calls this was called by one of PyTorch's data utilities: by any, or by the function of this name."""
    if "torch" not in sys.modules:
        return
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__", "").startswith(_TORCH) and function in (None, frame.f_code.co_name):
        raise TypeError(message)
