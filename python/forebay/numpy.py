"""Batches as NumPy arrays, also in programs that have imported torch.

>>> import forebay.numpy
>>> for batch in forebay.numpy.loader(ds.rows(), {"x": ["prcp", "tmax"]}, batch_size=512):
...     batch["x"]                                           # numpy.ndarray, writable, owns its memory
"""

from __future__ import annotations

from typing import Any

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError(f"forebay.numpy needs NumPy: {_error}. Without it, batches are forebay.Tensor (framework='buffer')") from _error

from ._loader import Loader

__all__ = ["loader"]


def loader(samples: Any, outputs: Any = None, **options: Any) -> Loader:
    """``samples.loader(outputs, framework="numpy", **options)``.

    Parameters
    ----------
    samples : forebay.Samples or forebay.Dataset
    outputs, **options
        As :class:`forebay.Loader` takes them.
    """
    return samples.loader(outputs, framework="numpy", **options)
