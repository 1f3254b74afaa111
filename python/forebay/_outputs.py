"""Outputs: what a loader puts into its batches."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _forebay
from ._sizes import count

if TYPE_CHECKING:
    from ._fit import Moments

_FROM_COLUMNS, _FROM_MISSING, _FROM_INDEX, _FROM_ROW, _FROM_LENGTH, _FROM_SLOT = range(6)
_LAYOUT_AUTO, _LAYOUT_DENSE, _LAYOUT_RAGGED = range(3)
_AFFINE, _STANDARDIZE, _CLIP, _LOG, _LOG10, _LOG1P, _FILL_NAN = range(7)
_INFINITY = float("inf")

Number = Union[float, Sequence[float]]  # or anything NumPy-like of one number a column


@dataclasses.dataclass(frozen=True)
class Column:
    """Columns and what is done to them: made by :func:`col`; every method returns a new object."""

    columns: tuple[str, ...]
    keep_axis: bool = False
    dtype: str | None = None
    fill_value: float | None = None
    from_missing: bool = False
    layout: int = _LAYOUT_AUTO
    one_step: bool = False
    step_range: tuple[int, int] = (0, 0)
    ops: tuple[tuple[int, Any, Any], ...] = ()

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
        return dataclasses.replace(self, from_missing=True, dtype=None, fill_value=None, ops=())

    # Operations: each a step more, done in this order on the values of every row, in float64, then rounded to the output's dtype.

    def scale(self, factor: Number) -> "Column":
        """Times `factor`: one number, or one for each column."""
        return self._with(_AFFINE, self._each(factor, "factor"), 0.0)

    def offset(self, value: Number) -> "Column":
        """Plus `value`: one number, or one for each column. ``fb.col("t2m").offset(-273.15)``."""
        return self._with(_AFFINE, 1.0, self._each(value, "value"))

    def standardize(self, mean: "Number | Moments", std: Number | None = None) -> "Column":
        """(x - mean) / std: numbers, one for all columns or one for each; or what :func:`fit` found for these columns.

        Parameters
        ----------
        mean : float, sequence of float, or Moments
            With Moments, each column's own by its name. A column whose values are all the same becomes 0.
        std : float or sequence of float
            Above 0.

        Examples
        --------
        >>> moments = fb.fit(train, ["prcp", "tmax"])
        >>> fb.col("prcp", "tmax").standardize(moments)
        """
        if std is None:
            if not hasattr(mean, "scales"):
                raise TypeError("standardize() takes a mean and a standard deviation, or what fb.fit() returned")
            means, stds = mean.scales(self.columns)
            return self._with(_STANDARDIZE, means, stds)
        return self._with(_STANDARDIZE, self._each(mean, "mean"), self._each(std, "std"))

    def clip(self, low: Number | None = None, high: Number | None = None) -> "Column":
        """Not below `low` nor above `high`; None is no limit. NaN stays NaN."""
        low_each = -_INFINITY if low is None else self._each(low, "low")
        return self._with(_CLIP, low_each, _INFINITY if high is None else self._each(high, "high"))

    def log(self, eps: Number | None = None) -> "Column":
        """Natural logarithm; with `eps`, a number above 0, that of values below it is log(eps). Without: 0 gives -inf, below it NaN."""
        return self._with(_LOG, self._eps(eps), 0.0)

    def log10(self, eps: Number | None = None) -> "Column":
        """Logarithm to base 10, with `eps` as in :meth:`log`."""
        return self._with(_LOG10, self._eps(eps), 0.0)

    def log1p(self) -> "Column":
        """log(1 + x), exact for small x."""
        return self._with(_LOG1P, 0.0, 0.0)

    def fill_nan(self, value: Number) -> "Column":
        """`value` where what came so far is NaN: missing values without :meth:`fill`, NaN in the data, logarithms of negative numbers.

        After :meth:`standardize`, ``fill_nan(0)`` puts the mean where values are missing.
        """
        return self._with(_FILL_NAN, self._each(value, "value"), 0.0)

    def _with(self, kind: int, a: Any, b: Any) -> "Column":
        if self.from_missing:
            raise ValueError("missing() is a mask: there is nothing to compute with")
        return dataclasses.replace(self, ops=(*self.ops, (kind, a, b)))

    def _eps(self, eps: Number | None) -> Any:
        value = 0.0 if eps is None else self._each(eps, "eps")
        if eps is not None and not all(v > 0 for v in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"eps={eps!r}: a number above 0, or None for no floor")
        return value

    def _each(self, value: Any, what: str) -> Any:
        """A float, or a tuple of one float a column."""
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, (str, bytes, Mapping)):
            raise TypeError(f"{what}={value!r}: a number, or one for each column, is expected")
        if isinstance(value, Iterable):
            numbers = tuple(float(v) for v in value)
            if len(numbers) != len(self.columns):
                raise ValueError(f"{what}: {len(numbers)} numbers for {len(self.columns)} columns")
            return numbers
        return float(value)

    def ragged(self) -> "Column":
        """Packed: ``Ragged(values, offsets)``. Lists and strings are packed anyway."""
        return dataclasses.replace(self, layout=_LAYOUT_RAGGED)

    def steps(self, begin: int, end: int) -> "Column":
        """Of a window its rows [begin, end): shape (B, end - begin), or (B, end - begin, n). Without it, all of them."""
        begin = count(begin, "begin")
        end = count(end, "end", begin + 1)
        return dataclasses.replace(self, one_step=False, step_range=(begin, end))

    def at(self, step: int) -> "Column":
        """Of a window one row: shape (B,), or (B, n). ``fb.col("date").at(364)`` is the last day of an input of 365."""
        return dataclasses.replace(self, one_step=True, step_range=(count(step, "step"), 0))

    def first(self) -> "Column":
        """The value of the sample's first row: one value a window or group. Strings and lists need it there."""
        return self.at(0)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.columns))
        text = f"col([{names}])" if self.keep_axis and len(self.columns) == 1 else f"col({names})"
        if self.dtype is not None:
            text += f".cast({self.dtype!r})"
        if self.fill_value is not None:
            text += f".fill({self.fill_value!r})"
        if self.one_step:
            text += f".at({self.step_range[0]})" if self.step_range[0] else ".first()"
        elif self.step_range[1]:
            text += f".steps{self.step_range}"
        text += "".join(map(_op_text, self.ops))
        return text + ".missing()" * self.from_missing + ".ragged()" * (self.layout == _LAYOUT_RAGGED)


@dataclasses.dataclass(frozen=True)
class Index:
    """Which sample it is, as an int64 output (B,): made by :func:`index`, :func:`row`, :func:`length` or :func:`slot`."""

    what: str = "index"

    def __repr__(self) -> str:
        return f"{self.what}()"


def _op_text(op: tuple[int, Any, Any]) -> str:
    kind, a, b = op
    if kind == _AFFINE:
        return f".scale({a!r})" if b == 0.0 else f".offset({b!r})"
    if kind == _STANDARDIZE:
        return f".standardize({a!r}, {b!r})"
    if kind == _CLIP:
        return f".clip({None if a == -_INFINITY else a!r}, {None if b == _INFINITY else b!r})"
    if kind == _FILL_NAN:
        return f".fill_nan({a!r})"
    name = {_LOG: "log", _LOG10: "log10", _LOG1P: "log1p"}[kind]
    return f".{name}()" if a == 0.0 else f".{name}({a!r})"


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
    """The sample's number in file order, as an int64 output of shape (B,); of rows, the row number in the data set."""
    return Index()


def row() -> Index:
    """The row number in the data set of the sample's first row, as an int64 output of shape (B,)."""
    return Index("row")


def length() -> Index:
    """How many rows the sample has, as an int64 output of shape (B,)."""
    return Index("length")


def slot() -> Index:
    """For every row of a group, its sample's place in the batch: packed as int64, ``Ragged(values, offsets)``. Of groups alone."""
    return Index("slot")


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
        source = {"index": _FROM_INDEX, "row": _FROM_ROW, "length": _FROM_LENGTH, "slot": _FROM_SLOT}[output.what]
        return (name, source, (), False, None, _LAYOUT_AUTO, None, False, 0, 0, ())
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
        output.one_step,
        *output.step_range,
        output.ops,
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
