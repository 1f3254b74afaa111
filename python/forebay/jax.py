"""Batches as JAX arrays, through DLPack.

>>> import forebay.jax
>>> loader = forebay.jax.Loader(ds.rows(), {"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512)
>>> for batch in loader:
...     step(params, batch["x"], batch["y"])                 # jax.Array

They go to JAX's default device, or to ``device=``. On the CPU nothing is copied where JAX can take the memory as it is. JAX has no 64-bit types
unless ``jax_enable_x64`` is set: without it, int64 and float64 outputs become 32-bit, as with ``jnp.asarray``; asking for ``dtype="float32"`` saves
that copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

try:
    import jax as _jax
    import numpy as _numpy  # which JAX needs
except ImportError as _error:
    raise ImportError(f"forebay.jax needs JAX: {_error}. Install jax, or use forebay.numpy") from _error

from . import _forebay, _transform
from ._forwarding import Forwarding as _Forwarding
from ._pytrees import register as _register
from ._sequences import Padded, Ragged

__all__ = ["Loader"]

_register()

_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def _array(tensor: _forebay.Tensor) -> Any:
    """In CPU memory."""
    if not _jax.config.jax_enable_x64 and tensor.dtype in _NARROW:
        return _jax.dlpack.from_dlpack(_numpy.asarray(tensor).astype(_NARROW[tensor.dtype]))
    return _jax.dlpack.from_dlpack(tensor)


def _arrays(value: Any, placed: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(item, placed) for name, item in value.items()}
    if isinstance(value, (Ragged, Padded)):
        return value.map(lambda tensor: _arrays(tensor, placed))
    if isinstance(value, tuple):
        items = [_arrays(item, placed) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return placed(_array(value))


def _computes_on_cpu() -> bool:
    device = _jax.config.jax_default_device
    return (_jax.default_backend() if device is None else device if isinstance(device, str) else device.platform) == "cpu"


def _where_jax_computes(array: Any) -> Any:
    """An array that came through DLPack is bound to the CPU, and so is what is computed with it. This one is bound to no device, as jnp.asarray() has it."""
    if not isinstance(array, _jax.Array) or _computes_on_cpu() or any(device.platform != "cpu" for device in array.devices()):
        return array
    if _jax.numpy.issubdtype(array.dtype, _jax.dtypes.prng_key):  # has no NumPy form
        return array
    return _jax.device_put(_numpy.asarray(array))


class _OnArrays:
    """A transform that takes JAX arrays."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform
        self.__qualname__ = _transform.name_of(transform)

    def __call__(self, batch: Any) -> Any:
        return self.transform(_arrays(batch, lambda array: array))


class Loader(_Forwarding):
    """A :class:`forebay.Loader` whose batches hold JAX arrays.

    Parameters
    ----------
    samples : forebay.Samples or forebay.Dataset
    outputs, **options
        As :class:`forebay.Loader` takes them, except `framework`.
    device : jax.Device or jax.sharding.Sharding, optional
        Where batches go; by default where JAX computes: its default device.
    transform : callable, optional
        As of :class:`forebay.Loader`. It is called with JAX arrays in CPU memory and returns a pytree, which is then moved to `device`.
    """

    def __init__(self, samples: Any, outputs: Any = None, *, device: Any = None, transform: Any = None, **options: Any) -> None:
        given = None if transform is None else _OnArrays(_transform.checked(transform))
        self.loader = samples.loader(outputs, framework="buffer", transform=given, **options)
        self._device = device
        self._transforms = transform is not None

    def __iter__(self) -> Iterator[Any]:
        device = self._device
        if not self._transforms:
            placed = _where_jax_computes if device is None else functools.partial(_jax.device_put, device=device)
            return (_arrays(batch, placed) for batch in iter(self.loader))
        if device is None:
            return (_jax.tree.map(_where_jax_computes, batch) for batch in iter(self.loader))
        return (_jax.device_put(batch, device) for batch in iter(self.loader))
