"""What a loader delivers: batches, and the packed forms of lists and strings in them."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _forebay


def _rows(tensor: Any) -> Any:
    """Nested lists of a torch tensor, NumPy array or forebay.Tensor."""
    return tensor.tolist()


def _raw(tensor: Any) -> memoryview:
    """The bytes of a uint8 tensor."""
    if hasattr(tensor, "numpy") and not isinstance(tensor, _forebay.Tensor):
        tensor = tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else tensor.numpy()
    return memoryview(tensor)


class Padded(NamedTuple):
    """Samples of different lengths brought to one, with a mask of what is real.

    Attributes
    ----------
    values : tensor
        (B, L, …)
    mask : tensor of bool
        (B, L): True where there is a row.
    """

    values: Any
    mask: Any


class PaddedLengths(NamedTuple):
    """Samples of different lengths brought to one, with how many rows of each are real.

    Attributes
    ----------
    values : tensor
        (B, L, …)
    lengths : tensor of int64
        (B,)
    """

    values: Any
    lengths: Any


class Ragged(NamedTuple):
    """Lists of different lengths, packed: list i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    values : tensor, shape (sum of lengths, …)
    offsets : tensor of int64, shape (B + 1,)
    """

    values: Any
    offsets: Any

    def to_list(self) -> list[list]:
        """The lists as Python objects, one a sample."""
        values, offsets = _rows(self.values), _rows(self.offsets)
        return [values[a:b] for a, b in zip(offsets, offsets[1:])]


class Bytes(NamedTuple):
    """Binary values, packed: value i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    values : tensor of uint8, shape (sum of lengths,)
    offsets : tensor of int64, shape (B + 1,)
    """

    values: Any
    offsets: Any

    def to_list(self) -> list[bytes]:
        """The values as bytes, one a sample; a missing value is empty."""
        data, offsets = _raw(self.values), _rows(self.offsets)
        return [bytes(data[a:b]) for a, b in zip(offsets, offsets[1:])]


class Strings(NamedTuple):
    """Strings, packed as UTF-8: string i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes
    ----------
    values : tensor of uint8, shape (sum of lengths in bytes,)
    offsets : tensor of int64, shape (B + 1,)
    """

    values: Any
    offsets: Any

    def to_list(self) -> list[str]:
        """The strings as str, one a sample; a missing string is empty, bytes that are not UTF-8 become U+FFFD."""
        data, offsets = _raw(self.values), _rows(self.offsets)
        return [str(data[a:b], "utf-8", "replace") for a, b in zip(offsets, offsets[1:])]


class Batch(dict):
    """One batch: a dict from output names to tensors (or Ragged, Strings, Bytes).

    Tensors are writable, own their memory and stay valid for as long as they are held. As an Arrow record batch:
    ``pyarrow.record_batch(batch.arrow)``. Copies and pickles are plain: without Arrow, index and epoch.
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
        """Samples; None for a batch that was not made by a loader."""
        core = getattr(self, "_core", None)
        return None if core is None else core.size

    @property
    def arrow(self) -> _forebay.Batch:
        """The batch as it was delivered, for Arrow: ``pyarrow.record_batch(batch.arrow)``, ``polars.DataFrame(batch.arrow)``.

        (pyarrow and polars take the batch itself for a plain dict.) Nothing is copied: what is written to a tensor shows, what is
        done to the dict does not.

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


def to_device(batch: Any, device: Any) -> Any:
    """A batch of torch tensors, or anything made of dicts, lists and tuples of them, on a device; other objects stay as they are.

    On the way to CUDA, tensors are pinned in memory of torch's own allocator, which knows when a copy is over; the copy is not waited
    for. The result is of the same kind: a :class:`Batch` keeps its index and epoch.
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
    if not hasattr(batch, "pin_memory"):
        return batch
    if str(device).startswith("cuda") and not getattr(batch, "is_cuda", False):
        return batch.pin_memory().to(device, non_blocking=True)
    return batch.to(device)
