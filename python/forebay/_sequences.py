"""Samples of different lengths in a batch: packed (Ragged, Strings, Bytes) and padded to one length (Padded).

All of them are sequences of samples: ``len()`` is the number of samples, and they can be indexed, sliced and iterated. They hold tensors of the
batch's framework (torch, NumPy, JAX or :class:`forebay.Tensor`). Those of torch and JAX move with ``.to()``, and those of torch with
``.pin_memory()``. All are pytrees of torch and JAX: _pytrees.py.
"""

from __future__ import annotations

import array
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from . import _forebay


def _raw(tensor: Any) -> memoryview:
    """The bytes of a uint8 tensor."""
    return memoryview(_host(tensor))


def _host(tensor: Any) -> Any:
    """A tensor in CPU memory, as something that has the buffer protocol."""
    if _is_torch(tensor):
        return tensor.detach().cpu().numpy()
    if isinstance(tensor, (_forebay.Tensor, memoryview)) or hasattr(tensor, "__array_interface__"):
        return tensor
    import numpy

    return numpy.asarray(tensor)


def _indexable(tensor: Any) -> Any:
    """The tensor, or the memory of a forebay.Tensor, which cannot be sliced itself."""
    return memoryview(tensor) if isinstance(tensor, _forebay.Tensor) else tensor


def _numbers(values: list[int]) -> memoryview:
    """Of int64, where no array library is at hand."""
    return memoryview(array.array("q", values))


def _rows(values: Any, at: int, n: int) -> Any:
    """The first n rows of one sample of a padded tensor. A memoryview has no views of several axes: those of it are cut out of its bytes."""
    if not isinstance(values, memoryview):
        return values[at][:n]
    _, length, *rest = values.shape
    row, n = math.prod(rest), min(n, length)
    try:
        flat = (values if values.nbytes else memoryview(b"")).cast("B").cast(values.format)
    except ValueError:  # Python casts half floats from 3.12 on
        raise TypeError(f"this Python cannot index a buffer of {values.format!r}: take numpy.asarray(padded.values)[i]") from None
    rows = flat[at * length * row : (at * length + max(n, 1)) * row]  # a shape without elements is sliced out of one that has some
    return (rows.cast("B").cast(values.format, [max(n, 1), *rest]) if rest and len(rows) else rows)[:n]


def _describe(tensor: Any) -> str:
    shape = ", ".join(map(str, tensor.shape)) + ("," if len(tensor.shape) == 1 else "")
    dtype = tensor.format if isinstance(tensor, memoryview) else tensor.dtype
    return f"({shape}) {str(dtype).removeprefix('torch.')}"


def texts(values: list[bytes]) -> list[str] | list[bytes]:
    """The values as str, or all of them as bytes when one is not UTF-8, so that who knows the encoding can decode them."""
    try:
        return [str(value, "utf-8") for value in values]
    except UnicodeDecodeError:
        return values


def _is_torch(tensor: Any) -> bool:
    return hasattr(tensor, "detach")


def _is_jax(tensor: Any) -> bool:
    return type(tensor).__module__.partition(".")[0] in ("jax", "jaxlib")


class _Library:
    """The few functions of an array library that are needed here, under one name each."""

    def __init__(self, values: Any) -> None:
        if _is_torch(values):
            import torch

            self.arange = lambda n: torch.arange(n, device=values.device)
            self.full = lambda shape, value: torch.full(shape, value, dtype=values.dtype, device=values.device)
            self.where, self.array, self.concatenate = torch.where, lambda tensor: tensor, torch.cat
        elif _is_jax(values):
            import jax.numpy as jnp

            self.arange, self.where, self.array, self.concatenate = jnp.arange, jnp.where, jnp.asarray, jnp.concatenate
            self.full = lambda shape, value: jnp.full(shape, value, dtype=values.dtype)
        else:
            import numpy as np

            self.arange, self.where, self.array, self.concatenate = np.arange, np.where, np.asarray, np.concatenate
            self.full = lambda shape, value: np.full(shape, value, dtype=self.array(values).dtype)


def _first_rows(library: _Library, lengths: Any, n: int) -> Any:
    """Which of n rows of each sample are among its first `lengths`: bool, shape (B, n)."""
    return library.arange(n)[None, :] < library.array(lengths)[:, None]


def _kind(tensor: Any) -> str:
    return "NumPy's arrays" if type(tensor).__module__.partition(".")[0] == "numpy" else "buffers"


def _check_torch(tensor: Any) -> None:
    if not _is_torch(tensor):
        raise TypeError(f"to_nested() makes a tensor of torch, and these are {'JAX arrays' if _is_jax(tensor) else _kind(tensor)}: take framework='torch'")


def _moved(tensor: Any, args: tuple, options: dict[str, Any]) -> Any:
    if _is_torch(tensor):
        return tensor.to(*args, **options)
    if _is_jax(tensor):
        import jax

        return jax.device_put(tensor, *args, **options)
    raise TypeError(f"{_kind(tensor)} stay in the memory of the CPU: tensors of framework='torch' and of forebay.jax have .to()")


class _Samples:
    """What packed and padded samples have in common: a sequence of samples that is made of two tensors."""

    __slots__ = ()

    def _parts(self) -> tuple[Any, Any]:
        raise NotImplementedError

    def _with(self, first: Any, second: Any) -> Any:
        """An object of the same kind with other tensors."""
        return type(self)(first, second)

    def map(self, function: Callable[[Any], Any]) -> Any:
        """Apply `function` to both tensors."""
        first, second = self._parts()
        return self._with(function(first), function(second))

    def to(self, *args: Any, **options: Any) -> Any:
        """Move both tensors to another device: as ``torch.Tensor.to``, whose dtype changes the values only, or as ``jax.device_put``.

        Raises
        ------
        TypeError
            For NumPy's arrays and :class:`forebay.Tensor`, which stay in the memory of the CPU.
        """
        first, second = self._parts()
        moved = _moved(first, args, options)
        if _is_jax(second):
            return self._with(moved, _moved(second, args, options))
        return self._with(moved, second.to(moved.device, non_blocking=options.get("non_blocking", False)))

    def pin_memory(self, *args: Any) -> Any:
        """Copy both tensors to pinned memory, as ``torch.Tensor.pin_memory``. Others than torch's stay as they are, as a DataLoader leaves them."""
        return self.map(lambda tensor: tensor.pin_memory(*args) if _is_torch(tensor) else tensor)

    def _index(self, i: Any) -> int:
        n = len(self)
        try:
            at = i.__index__()
        except (AttributeError, TypeError):
            raise TypeError(f"{type(self).__name__} is indexed by ints and slices, not {type(i).__name__}: it is a sequence of samples") from None
        if not -n <= at < n:
            raise IndexError(f"sample {at} of {n}")
        return at % n


class Ragged(_Samples):
    """Packed samples of different lengths: sample i is ``values[offsets[i]:offsets[i + 1]]``.

    A sequence of samples: ``ragged[i]`` is a tensor, ``ragged[a:b]`` a Ragged over the same values.

    Parameters
    ----------
    values : tensor, shape (sum of lengths, …)
    offsets : tensor of int64, shape (B + 1,)

    Examples
    --------
    >>> pulses = batch["pulses"]            # Ragged
    >>> len(pulses), pulses[0].shape        # samples; (rows of the first one, features)
    >>> padded = pulses.to_padded()         # Padded: values (B, L, features), mask (B, L)
    """

    __slots__ = ("values", "offsets")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values, self.offsets = values, offsets

    def _parts(self) -> tuple[Any, Any]:
        return self.values, self.offsets

    def __reduce__(self):
        return (type(self), self._parts())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples, values {_describe(self.values)})"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Any]:
        values, offsets = _indexable(self.values), self.offsets.tolist()
        return (values[a:b] for a, b in zip(offsets, offsets[1:]))

    def __getitem__(self, i: Any) -> Any:
        values, offsets = _indexable(self.values), _indexable(self.offsets)
        if not isinstance(i, slice):
            at = self._index(i)
            return self._one(values[int(offsets[at]) : int(offsets[at + 1])])
        start, stop, step = i.indices(len(self))
        if step != 1:
            raise ValueError(f"a slice of step {step}: packed samples are sliced in steps of 1; take [{type(self).__name__.lower()}[i] for i in …]")
        offsets = offsets[start : max(start, stop) + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        if isinstance(offsets, memoryview):
            return type(self)(values[first:last], _numbers([offset - first for offset in offsets]))
        return type(self)(values[first:last], offsets - first)

    def _one(self, values: Any) -> Any:
        return values

    @property
    def lengths(self) -> Any:
        """How many rows each sample has: int64, shape (B,)."""
        offsets = _indexable(self.offsets)
        if isinstance(offsets, memoryview):
            return _numbers([end - begin for begin, end in zip(offsets, offsets[1:])])
        return offsets[1:] - offsets[:-1]

    def to_list(self) -> list:
        """The samples as lists of numbers (nested, where a row has axes)."""
        values, offsets = self.values.tolist(), self.offsets.tolist()
        return [values[a:b] for a, b in zip(offsets, offsets[1:])]

    def to_padded(self, length: int | None = None, pad: Any = 0) -> "Padded":
        """Pad the samples to one length: values (B, length, …) and a mask (B, length) that is True where there is a row.

        ``fb.col(…).padded()`` makes a loader deliver padded batches.

        Parameters
        ----------
        length : int, optional
            By default the length of the longest sample. Longer samples are cut.
        pad : number
            The value where there is no row.
        """
        library = _Library(self.values)
        values, offsets = library.array(self.values), library.array(self.offsets)
        lengths = offsets[1:] - offsets[:-1]
        if length is None:
            length = int(lengths.max()) if len(lengths) else 0
        steps = library.arange(length)
        mask = steps[None, :] < lengths[:, None]
        if not len(values):
            return Padded(library.full((len(lengths), length, *values.shape[1:]), pad), mask)
        rows = library.where(mask, offsets[:-1, None] + steps[None, :], 0)
        filled = library.full((), pad)
        return Padded(library.where(mask.reshape(mask.shape + (1,) * (len(values.shape) - 1)), values[rows], filled), mask)

    def to_nested(self) -> Any:
        """A ``torch.nested`` tensor of jagged layout over the same memory; for torch tensors only (TypeError)."""
        _check_torch(self.values)
        import torch

        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)


class Bytes(Ragged):
    """Packed binary values, one a sample: value i is ``values[offsets[i]:offsets[i + 1]]``. Indexing and iterating give bytes.

    Parameters
    ----------
    values : tensor of uint8, shape (sum of lengths,)
    offsets : tensor of int64, shape (B + 1,)
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.to_list())

    def _one(self, values: Any) -> bytes:
        return bytes(_raw(values))

    def to_list(self) -> list[bytes]:
        """A list with the value of each sample; missing ones are empty."""
        data, offsets = _raw(self.values), self.offsets.tolist()
        return [bytes(data[a:b]) for a, b in zip(offsets, offsets[1:])]


class Strings(Ragged):
    """Packed strings in UTF-8, one a sample: string i is ``values[offsets[i]:offsets[i + 1]]``. Indexing and iterating give str.

    Values are as the file has them, which may not be UTF-8. Such a string is bytes when it is indexed; iterating gives bytes for all of them.

    Parameters
    ----------
    values : tensor of uint8, shape (sum of lengths in bytes,)
    offsets : tensor of int64, shape (B + 1,)
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self.to_list())

    def _one(self, values: Any) -> str | bytes:
        return texts([bytes(_raw(values))])[0]

    def to_list(self) -> list[str] | list[bytes]:
        """A list with the string of each sample; missing ones are empty. All of them are bytes when one is not UTF-8."""
        data, offsets = _raw(self.values), self.offsets.tolist()
        return texts([bytes(data[a:b]) for a, b in zip(offsets, offsets[1:])])


class Padded(_Samples):
    """Samples of different lengths padded to one: values, and a mask or lengths that say which rows are real.

    A sequence of samples: ``padded[i]`` is a tensor of the real rows of sample i, which are its first ones, ``padded[a:b]`` a Padded.

    Parameters
    ----------
    values : tensor, shape (B, L, …)
    mask : tensor of bool, shape (B, L), optional
        True where there is a row: the first ones of each sample.
    lengths : tensor of int64, shape (B,), optional
        How many rows of each sample are real. Either mask or lengths is given; the other is computed when it is asked for.
    """

    __slots__ = ("values", "_rows", "_has_lengths")

    def __init__(self, values: Any, mask: Any = None, lengths: Any = None) -> None:
        if (mask is None) == (lengths is None):
            raise TypeError("Padded takes a mask, or lengths")
        self.values, self._has_lengths = values, mask is None
        self._rows = lengths if mask is None else mask

    @classmethod
    def with_lengths(cls, values: Any, lengths: Any) -> "Padded":
        """``Padded(values, lengths=lengths)``."""
        return cls(values, None, lengths)

    def _parts(self) -> tuple[Any, Any]:
        return self.values, self._rows

    @classmethod
    def _made(cls, values: Any, rows: Any, has_lengths: bool) -> "Padded":
        """Of parts that may be anything, None too, as those of a pytree may."""
        made = object.__new__(cls)
        made.values, made._rows, made._has_lengths = values, rows, has_lengths
        return made

    def _with(self, first: Any, second: Any) -> "Padded":
        return self._made(first, second, self._has_lengths)

    def __reduce__(self):
        return (Padded, (self.values, None, self._rows) if self._has_lengths else (self.values, self._rows))

    def __repr__(self) -> str:
        return f"Padded({len(self)} samples, values {_describe(self.values)}, {'lengths' if self._has_lengths else 'mask'})"

    @property
    def mask(self) -> Any:
        """Where there is a row: bool, shape (B, L)."""
        if not self._has_lengths:
            return self._rows
        return _first_rows(_Library(self.values), self._rows, self.values.shape[1])

    @property
    def lengths(self) -> Any:
        """How many rows of each sample are real: int64, shape (B,)."""
        if self._has_lengths:
            return self._rows
        if isinstance(_indexable(self._rows), memoryview):
            return _numbers([sum(of) for of in self._rows.tolist()])
        return _Library(self.values).array(self._rows).sum(1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: Any) -> Any:
        first, second = map(_indexable, self._parts())
        if isinstance(i, slice):
            if isinstance(first, memoryview) and i.step not in (None, 1):
                raise ValueError(f"a slice of step {i.step}: buffers are sliced in steps of 1; take [padded[i] for i in …]")
            return self._with(first[i], second[i])
        at = self._index(i)
        return _rows(first, at, int(self[at : at + 1].lengths[0]))

    def __iter__(self) -> Iterator[Any]:
        values, lengths = _indexable(self.values), self.lengths.tolist()
        if isinstance(values, memoryview):
            return (_rows(values, at, n) for at, n in enumerate(lengths))
        return (rows[:n] for rows, n in zip(values, lengths, strict=True))

    @property
    def offsets(self) -> Any:
        """Where each sample begins among the real rows of all, as in :meth:`to_ragged`: int64, shape (B + 1,)."""
        lengths, most = _indexable(self.lengths), self.values.shape[1]
        if isinstance(lengths, memoryview):
            return _numbers([0, *itertools.accumulate(min(n, most) for n in lengths)])
        ends = lengths.clip(max=most).cumsum(0)
        return _Library(lengths).concatenate((ends[:0].sum()[None], ends))

    def to_ragged(self) -> Ragged:
        """The real rows of all samples, one after the other: values (sum of lengths, …) and offsets (B + 1,). Not under ``jax.jit``: it has no fixed shape."""
        library = _Library(self.values)
        mask = _first_rows(library, self.lengths, self.values.shape[1])
        return Ragged(library.array(self.values)[mask], library.array(self.offsets))

    def to_padded(self, length: int | None = None, pad: Any = 0) -> "Padded":
        """Pad the samples to another length (by default the one they have), or with another value, as :meth:`Ragged.to_padded`."""
        library = _Library(self.values)
        values, lengths = library.array(self.values), library.array(self.lengths)
        n, have = values.shape[:2]
        length = have if length is None else length
        mask = _first_rows(library, lengths.clip(max=have), length)
        values = values[:, :length]
        if length > have:
            values = library.concatenate((values, library.full((n, length - have, *values.shape[2:]), pad)), 1)
        return Padded(library.where(mask.reshape(mask.shape + (1,) * (len(values.shape) - 2)), values, library.full((), pad)), mask)

    def to_nested(self) -> Any:
        """A ``torch.nested`` tensor of jagged layout with the real rows; for torch tensors only (TypeError)."""
        _check_torch(self.values)
        return self.to_ragged().to_nested()

    def to_list(self) -> list[list]:
        """The real rows of each sample as lists of numbers."""
        return [rows[:n] for rows, n in zip(self.values.tolist(), self.lengths.tolist(), strict=True)]
