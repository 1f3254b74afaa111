"""What a loader delivers: batches, and how they get to a device. Samples of different lengths inside them: _sequences.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _forebay
from ._sequences import Padded, Ragged


class Batch(dict):
    """One batch: a dict from output names to tensors (or Ragged, Strings, Bytes, Padded).

    Tensors are writable, own their memory and stay valid for as long as they are held. ``pyarrow.record_batch(batch.arrow)`` is the batch as an
    Arrow record batch. Copies and pickles hold the tensors only: no Arrow form, index or epoch.
    """

    __slots__ = ("_core",)
    _core: Any

    @property
    def index(self) -> int | None:
        """Position in the epoch, from 0; None for a batch that was not made by a loader."""
        core = getattr(self, "_core", None)
        return None if core is None else core.index

    @property
    def epoch(self) -> int | None:
        """Epoch, from 0; None for a batch that was not made by a loader."""
        core = getattr(self, "_core", None)
        return None if core is None else core.epoch

    @property
    def size(self) -> int | None:
        """Number of samples; None for a batch that was not made by a loader."""
        core = getattr(self, "_core", None)
        return None if core is None else core.size

    @property
    def arrow(self) -> _forebay.Batch:
        """The batch as it was delivered, for Arrow: ``pyarrow.record_batch(batch.arrow)``, ``polars.DataFrame(batch.arrow)``.

        (pyarrow and polars take the batch itself for a plain dict.) Nothing is copied, so values written into a tensor are seen; tensors added to
        the dict, or replaced in it, are not.

        Raises
        ------
        StateError
            For a batch that was not made by a loader.
        """
        core = getattr(self, "_core", None)
        if core is None:
            raise _forebay.StateError("this batch is a copy, not made by a loader: it has no Arrow form")
        return core

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The batch as it was delivered as Arrow capsules (schema, array).

        Raises
        ------
        StateError
            For a batch that was not made by a loader.
        UnsupportedError
            With a bfloat16 output: Arrow has no such type.
        """
        return self.arrow.__arrow_c_array__(requested_schema)

    def __reduce__(self):
        return (Batch, (dict(self),))

    def __copy__(self) -> "Batch":
        return Batch(self)


def checked_device(device: Any) -> Any:
    """A torch.device. ValueError for one that torch does not know, or a GPU that it does not see."""
    import torch

    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is no device of torch: 'cpu', 'cuda' (the GPU), 'cuda:1', … ({error})") from None
    n = torch.cuda.device_count() if asked.type == "cuda" else 0
    if asked.type == "cuda" and (asked.index or 0) >= n:
        seen = f"{n} GPU{'s' * (n > 1)}, from cuda:0 on" if n else "no GPU"
        raise ValueError(f"device={device!r}: torch sees {seen}; without device= batches stay in the memory of the CPU")
    return asked


def map_tensors(batch: Any, function: Callable[[Any], Any]) -> Any:
    """The batch with what `function` makes of each of its torch tensors, in dicts, lists and tuples of them; other objects stay as they are.

    The result is of the same type, and a :class:`Batch` keeps its index and epoch.
    """
    if isinstance(batch, dict):
        made = type(batch)((name, map_tensors(value, function)) for name, value in batch.items())
        core = getattr(batch, "_core", None)
        if core is not None:
            made._core = core
        return made
    if isinstance(batch, tuple):
        values = [map_tensors(value, function) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    if isinstance(batch, list):
        return [map_tensors(value, function) for value in batch]
    if isinstance(batch, (Ragged, Padded)):
        return batch.map(lambda tensor: map_tensors(tensor, function))
    return function(batch) if hasattr(batch, "pin_memory") else batch


def to_device(batch: Any, device: Any) -> Any:
    """Move a batch of torch tensors, or dicts, lists and tuples of them, to a device; other objects stay as they are.

    Tensors for CUDA go through pinned memory of torch's own allocator, which knows when a copy is over; the copy is not waited for. The
    result is of the same type, and a :class:`Batch` keeps its index and epoch.
    """
    to_gpu = isinstance(device, int) or str(device).startswith("cuda")  # torch counts GPUs

    def move(tensor: Any) -> Any:
        pins = to_gpu and not getattr(tensor, "is_cuda", False)
        return tensor.pin_memory().to(device, non_blocking=True) if pins else tensor.to(device)

    return map_tensors(batch, move)
