"""Batches as JAX arrays, through DLPack.

>>> import forebay.jax
>>> loader = forebay.jax.Loader(ds.rows(), {"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512)
>>> for batch in loader:
...     step(params, batch["x"], batch["y"])                 # jax.Array

On the CPU nothing is copied where JAX can take the memory as it is. JAX has no 64-bit types unless ``jax_enable_x64`` is set: without it,
int64 and float64 outputs become 32-bit, as with ``jnp.asarray``; asking for ``dtype="float32"`` saves that copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

try:
    import jax as _jax
    import jax.numpy as _jnp
except ImportError as _error:
    raise ImportError(f"forebay.jax needs JAX: {_error}. Install jax, or use forebay.numpy") from _error

from . import _forebay, _transform
from ._batch import Batch as _Batch
from ._forwarding import Forwarding as _Forwarding
from ._sequences import Padded, Ragged, register as _register

__all__ = ["Loader"]

_register("jax", _Batch)

_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def _array(tensor: _forebay.Tensor, device: Any) -> Any:
    if not _jax.config.jax_enable_x64 and tensor.dtype in _NARROW:
        import numpy

        array = _jnp.asarray(numpy.asarray(tensor).astype(_NARROW[tensor.dtype]))
    else:
        array = _jax.dlpack.from_dlpack(tensor)
    return array if device is None else _jax.device_put(array, device)


def _arrays(value: Any, device: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(item, device) for name, item in value.items()}
    if isinstance(value, (Ragged, Padded)):
        return value.map(lambda tensor: _arrays(tensor, device))
    if isinstance(value, tuple):
        items = [_arrays(item, device) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return _array(value, device)


class _OnArrays:
    """A transform that takes JAX arrays."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform
        self.__qualname__ = _transform.name_of(transform)

    def __call__(self, batch: Any) -> Any:
        return self.transform(_arrays(batch, None))


class Loader(_Forwarding):
    """A :class:`forebay.Loader` whose batches hold JAX arrays.

    Parameters
    ----------
    samples : forebay.Samples or forebay.Dataset
    outputs, **options
        As :class:`forebay.Loader` takes them, except `framework`.
    device : jax.Device or jax.sharding.Sharding, optional
        Where batches go; by default they stay where JAX puts CPU memory.
    transform : callable, optional
        As of :class:`forebay.Loader`. It is called with JAX arrays in CPU memory and returns a pytree, which is then moved to `device`.
    """

    def __init__(self, samples: Any, outputs: Any = None, *, device: Any = None, transform: Any = None, **options: Any) -> None:
        given = None if transform is None else _OnArrays(_transform.checked(transform))
        self.loader = samples.loader(outputs, framework="buffer", transform=given, **options)
        self._device = device
        self._transforms = transform is not None

    def __iter__(self) -> Iterator[Any]:
        if self._transforms:
            return iter(self.loader) if self._device is None else (_jax.device_put(batch, self._device) for batch in iter(self.loader))
        return (_arrays(batch, self._device) for batch in iter(self.loader))
