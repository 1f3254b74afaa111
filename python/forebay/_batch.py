"""What a loader delivers: batches, and how they get to a device. Samples of different lengths inside them: _sequences.py."""

from __future__ import annotations

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


def check_device(device: Any) -> None:
    """ValueError for a device that torch does not know, or a GPU that it does not see."""
    import torch

    try:
        asked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is no device of torch: 'cpu', 'cuda' (the GPU), 'cuda:1', … ({error})") from None
    n = torch.cuda.device_count() if asked.type == "cuda" else 0
    if asked.type == "cuda" and (asked.index or 0) >= n:
        seen = f"{n} GPU{'s' * (n > 1)}, from cuda:0 on" if n else "no GPU"
        raise ValueError(f"device={device!r}: torch sees {seen}; without device= batches stay in the memory of the CPU")


def to_device(batch: Any, device: Any) -> Any:
    """Move a batch of torch tensors, or dicts, lists and tuples of them, to a device; other objects stay as they are.

    Tensors for CUDA go through pinned memory of torch's own allocator, which knows when a copy is over; the copy is not waited for. The
    result is of the same type, and a :class:`Batch` keeps its index and epoch.
    """
    if isinstance(batch, dict):
        moved = type(batch)((name, to_device(value, device)) for name, value in batch.items())
        core = getattr(batch, "_core", None)
        if core is not None:
            moved._core = core
        return moved
    if isinstance(batch, tuple):
        values = [to_device(value, device) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    if isinstance(batch, list):
        return [to_device(value, device) for value in batch]
    if isinstance(batch, (Ragged, Padded)):
        return batch.map(lambda tensor: to_device(tensor, device))
    if not hasattr(batch, "pin_memory"):
        return batch
    if str(device).startswith("cuda") and not getattr(batch, "is_cuda", False):
        return batch.pin_memory().to(device, non_blocking=True)
    return batch.to(device)
