"""How batches are delivered: tensors of a framework, in a dict, a tuple or a namedtuple."""

from __future__ import annotations

import collections
import sys
from typing import Any, NamedTuple

from . import _trace
from ._batch import Batch
from ._output_rows import names_of
from ._pytrees import register
from ._sequences import Bytes, Padded, Ragged, Strings


class OutputInfo(NamedTuple):
    """One output as it is delivered.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
        Shape of a whole batch, the batch size first. For ragged outputs the shape of the values, which begins with -1.
    ragged : bool
        Whether batches hold Ragged, Strings or Bytes instead of one tensor.
    text : bool
        Whether these are strings.
    padded : {None, "mask", "lengths"}
        Not None: batches hold a :class:`forebay.Padded` with this next to its values. The second axis of `shape` is -1 unless it is the same in
        every batch.
    names : list of str, array of int64 or None
        What each number of an encoded column stands for: see :func:`forebay.encode`.
    steps : (int, int) or None
        Of windows: the first step whose values are taken, and the one after the last.
    """

    dtype: str
    shape: tuple[int, ...]
    ragged: bool
    text: bool
    padded: str | None = None
    names: Any = None
    steps: tuple[int, int] | None = None


class SourceInfo(NamedTuple):
    """What an epoch has of a source of a mixture.

    Attributes
    ----------
    samples : int
        How many of its samples come, over all ranks, those that come again included; repeats that fill up the last batch are not counted.
    left : int
        Samples of the source that do not come.
    passes : int
        How often the source is begun: with 2, some of its samples come twice.
    """

    samples: int
    left: int
    passes: int


def describe(outputs: list[tuple[Any, ...]], rows: dict[str, Any], sources: list[str] | None) -> dict[str, OutputInfo]:
    """What is delivered, by name. `outputs`: as the extension lists them; `rows`: what was asked for, by name; `sources`: names of a mixture's."""
    return {name: OutputInfo(*rest, names=names_of(rows.get(name), sources), steps=steps if steps[1] else None) for name, *rest, steps in outputs}


def configuration(infos: dict[str, OutputInfo], rows: dict[str, Any], schema: Any, framework: str, as_: str) -> dict[str, Any]:
    """What the extension's loader is configured with, so that it makes batches itself."""
    wrappers: list[Any] = []
    dtypes: list[Any] = []
    for name, info in infos.items():
        wrapper: Any = None
        if info.ragged:
            wrapper = _wrapper(rows[name].columns if name in rows else (name,), info, schema)
        elif info.padded:
            wrapper = Padded if info.padded == "mask" else Padded.with_lengths
        wrappers.append(wrapper)
        if framework == "numpy":
            dtypes.append(numpy_dtype(info.dtype))
            if wrapper is not None:
                dtypes.append(numpy_dtype("bool" if info.padded == "mask" else "int64"))
    convert, exchange = _converter(framework)
    register()  # with what was imported after forebay
    runs, enter = _trace.profiler() or (None, None)
    return {
        "framework": framework, "convert": convert, "exchange": exchange, "dtypes": tuple(dtypes), "names": tuple(infos), "wrappers": tuple(wrappers),
        "container": _container(infos, as_), "as_dict": as_ == "dict", "profiler_runs": runs, "profiler_enter": enter,
    }  # fmt: skip


def _wrapper(columns: tuple[str, ...], info: OutputInfo, schema: Any) -> type:
    if info.text:
        return Strings
    if info.dtype == "uint8" and len(columns) == 1 and len(info.shape) == 1:
        if columns[0] in schema and schema[columns[0]].kind in ("binary", "fixed_binary", "string"):
            return Bytes
    return Ragged


def _converter(framework: str) -> tuple[Any, Any]:
    """What makes the framework's tensors of ours: something to call, and DLPack's table of C functions where there is one."""
    if framework == "torch":
        try:
            import torch
            from torch.utils.dlpack import from_dlpack
        except ImportError as error:
            raise ImportError(f"framework='torch' needs torch: {error}") from error
        return from_dlpack, getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if framework == "numpy":
        try:
            import numpy
        except ImportError as error:
            raise ImportError(f"framework='numpy' needs NumPy: {error}") from error
        return numpy.ndarray, None
    return None, None


def _container(infos: dict[str, OutputInfo], as_: str) -> Any:
    if as_ == "dict":
        return Batch
    if as_ == "tuple":
        return None
    for name in infos:
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"as_='namedtuple': output {name!r} cannot be an attribute; rename it, or use as_='dict'")
    return collections.namedtuple("Batch", list(infos))


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name; bfloat16 through ml_dtypes."""
    import numpy

    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ValueError(
            "NumPy has no bfloat16: install ml_dtypes, or ask for another dtype (fb.col(…, dtype='float32')), "
            "or for torch tensors (framework='torch')"
        ) from None
    return numpy.dtype(ml_dtypes.bfloat16)


def choose_framework(framework: str | None) -> str:
    """'torch', 'numpy' or 'buffer': as asked, else torch when the program has imported it, else NumPy when there is one."""
    if framework is None:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "Tensor"):
            return "torch"
        try:
            import numpy  # noqa: F401
        except ImportError:
            return "buffer"
        return "numpy"
    if framework not in ("torch", "numpy", "buffer"):
        raise ValueError(f"framework={framework!r}: use 'torch', 'numpy', 'buffer', or None to choose by what is imported")
    return framework
