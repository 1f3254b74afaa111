"""Outputs: what a loader puts into its batches."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _forebay

_FROM_COLUMNS, _FROM_MISSING, _FROM_INDEX = range(3)
_LAYOUT_AUTO, _LAYOUT_DENSE, _LAYOUT_RAGGED = range(3)


@dataclasses.dataclass(frozen=True)
class Column:
    """Columns and what is done to them: made by :func:`col`; every method returns a new object."""

    columns: tuple[str, ...]
    keep_axis: bool = False
    dtype: str | None = None
    fill_value: float | None = None
    from_missing: bool = False
    layout: int = _LAYOUT_AUTO

    def cast(self, dtype: Any) -> "Column":
        """The same in another dtype.

        Parameters
        ----------
        dtype : str, numpy dtype or torch dtype
            "float32", "bfloat16", "int64", "bool", …

        Raises
        ------
        ValueError
            For a dtype that tensors cannot have here.
        """
        return dataclasses.replace(self, dtype=dtype_name(dtype))

    def fill(self, value: float) -> "Column":
        """Put `value` where a value is missing (null). Without it, float outputs get NaN and others raise DataError."""
        return dataclasses.replace(self, fill_value=float(value))

    def missing(self) -> "Column":
        """A bool output instead: True where the value is missing, one a row and column: (B,) or (B, n); of a list or string, whether all of it is."""
        return dataclasses.replace(self, from_missing=True, dtype=None, fill_value=None)

    def ragged(self) -> "Column":
        """Packed: ``Ragged(values, offsets)``. Lists and strings are packed anyway."""
        return dataclasses.replace(self, layout=_LAYOUT_RAGGED)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.columns))
        text = f"col([{names}])" if self.keep_axis and len(self.columns) == 1 else f"col({names})"
        if self.dtype is not None:
            text += f".cast({self.dtype!r})"
        if self.fill_value is not None:
            text += f".fill({self.fill_value!r})"
        return text + ".missing()" * self.from_missing + ".ragged()" * (self.layout == _LAYOUT_RAGGED)


@dataclasses.dataclass(frozen=True)
class Index:
    """The row number in the dataset as an int64 output (B,): made by :func:`index`."""

    def __repr__(self) -> str:
        return "index()"


Output = Union[Column, Index, str, Sequence[str]]
Outputs = Union[Mapping[str, Output], Sequence[str], str, None]


def col(*columns: str | Sequence[str], dtype: Any = None) -> Column:
    """Columns as one output.

    Parameters
    ----------
    *columns : str, or one list of str
        Column names or dotted paths ("pulses.time"), stacked in this order along the last axis: shape (B, n).
        One bare name has no such axis, shape (B,); a list keeps it even with one name, shape (B, 1).
    dtype : str, numpy dtype or torch dtype, optional
        By default the columns' own dtype when they agree, else float32.

    Examples
    --------
    >>> fb.col("prcp", "tmax", dtype="float32").fill(0)
    """
    if len(columns) == 1 and not isinstance(columns[0], str):
        names, keep_axis = tuple(columns[0]), True
    else:
        names, keep_axis = columns, len(columns) > 1
    if not names:
        raise ValueError("col() needs at least one column")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    return Column(tuple(names), keep_axis, None if dtype is None else dtype_name(dtype))  # type: ignore[arg-type]


def index() -> Index:
    """The sample's row number in the dataset, as an int64 output of shape (B,)."""
    return Index()


def dtype_name(dtype: Any) -> str:
    """The name of a dtype given as a name, or as NumPy's, torch's or Python's own object."""
    if isinstance(dtype, str):
        name = dtype
    elif dtype in (bool, int, float):
        name = {bool: "bool", int: "int64", float: "float64"}[dtype]
    elif str(dtype).startswith("torch."):
        name = str(dtype)[len("torch.") :]
    else:
        name = getattr(dtype, "name", None)
        if not isinstance(name, str):
            name = getattr(dtype, "__name__", str(dtype))  # numpy.float32, the scalar type
    if name not in _forebay.dtypes:
        raise ValueError(f"{dtype!r} is not a dtype of tensors here: use one of {', '.join(_forebay.dtypes)}")
    return name


def _one(name: str, output: Any) -> tuple:
    if not isinstance(name, str):
        raise TypeError(f"an output is named by a str, not {type(name).__name__}: {name!r}")
    if isinstance(output, Index):
        return (name, _FROM_INDEX, (), False, None, _LAYOUT_AUTO, None)
    if isinstance(output, str) or (isinstance(output, Iterable) and not isinstance(output, (Mapping, bytes))):
        output = col(output if isinstance(output, str) else list(output))
    if not isinstance(output, Column):
        raise TypeError(f"output {name!r}: a column name, a list of names or fb.col(...) is expected, not {type(output).__name__}")
    return (
        name,
        _FROM_MISSING if output.from_missing else _FROM_COLUMNS,
        output.columns,
        output.keep_axis,
        output.dtype,
        output.layout,
        output.fill_value,
    )


def resolve(outputs: Any) -> list[tuple] | None:
    """The rows that _forebay.Loader takes, or None for every column that can be a tensor."""
    if outputs is None:
        return None
    if isinstance(outputs, str):
        outputs = {outputs: outputs}
    elif isinstance(outputs, (Column, Index)):
        raise TypeError(f"an output needs a name: outputs={{'x': {outputs!r}}}")
    elif not isinstance(outputs, Mapping):
        names = list(outputs)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"a list of outputs holds column names; for {name!r} use a dict that names it")
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"outputs names {sorted(doubled)[0]!r} twice")
        outputs = {name: name for name in names}
    if not outputs:
        raise ValueError("outputs is empty: name at least one, or leave it out for every column that can be a tensor")
    return [_one(name, output) for name, output in outputs.items()]


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
