"""Outputs: what a loader puts into its batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _forebay
from . import _make_encode, _make_lookup, _make_sample, _make_select, _ops, _options
from ._forebay import printable
from ._advice import COLUMN_WORDS, Known, advised, advised_methods
from ._make_encode import Encodings
from ._make_lookup import Lookups
from ._make_sample import SampleOperations
from ._make_select import Selections
from ._sizes import count

if TYPE_CHECKING:
    from ._fit import GroupedMoments, Moments

LAYOUT_AUTO, LAYOUT_RAGGED, LAYOUT_PADDED = "auto", "ragged", "padded"
Number = Union[float, Sequence[float]]  # or anything NumPy-like: of one number a column, or a place of an axis


@advised_methods
@dataclasses.dataclass(frozen=True)
class Column(Encodings, Lookups, SampleOperations, Selections, Known):
    """Columns and what is done to them: made by :func:`col`; every method returns a new object."""

    columns: tuple[str, ...]
    keep_axis: bool = False
    dtype: str | None = None
    mask_of: str | None = None  # "is_missing" or "is_null"
    layout: str = LAYOUT_AUTO
    one_step: bool = False
    step_range: tuple[int, int] = (0, 0)
    ops: tuple[_ops.Op, ...] = ()
    make: tuple[str, dict[str, Any]] | None = None  # (kind, options), by the library's words for them
    column_ops: tuple[tuple, ...] | None = None  # with make: operations of each column
    after: tuple[tuple[str, dict[str, Any]], ...] = ()  # the same
    axes: tuple[int, ...] = ()
    is_optional: bool = False
    layout_options: tuple[tuple[str, Any], ...] = ()  # those of ragged or padded, by the library's names

    _other_words = COLUMN_WORDS

    def cast(self, dtype: Any) -> "Column":
        """Deliver the output in another dtype.

        Parameters
        ----------
        dtype : str, numpy dtype or torch dtype
            "float32", "bfloat16", "int64", "bool", … Of dates, timestamps and durations also "timestamp[ns]", "duration[s]" (s, ms, us or ns):
            int64 in that unit, exact, since 1970 and rounded down; what is beyond int64 or missing raises DataError while iterating.

        Raises
        ------
        ValueError
            For a dtype that no tensor of a loader can have.
        """
        time = _make_select.time_of(dtype)
        return dataclasses.replace(self, dtype=dtype_name(dtype)) if time is None else _make_select.as_time(self, *time)

    def is_missing(self) -> "Column":
        """A bool output that is True where the value is missing: null, or stored as NaN.

        It has one flag for each row and column: (B,) or (B, n). An array is missing when any of its elements is; a list or string when it is
        null as a whole. Without :meth:`fill_missing`, missing values are NaN in float outputs and raise DataError in others.
        """
        return self._mask("is_missing")

    def is_null(self) -> "Column":
        """As :meth:`is_missing`, but only for what the file marks as null; in NetCDF that is _FillValue, missing_value and what lies outside valid_range."""
        return self._mask("is_null")

    def _mask(self, what: str) -> "Column":
        if self.make is not None:
            raise ValueError(f"{what}() is of the values of columns: not of what is made of them")
        return dataclasses.replace(self, mask_of=what, dtype=None, ops=())

    # Operations are applied to the values of every row in the order they are written: in float64, rounded to the output's dtype at the end.
    # With axis=, parameters are lists of one number for each place on that axis of a row's value, counted from the end.

    def scale(self, factor: Number, *, axis: int | None = None) -> "Column":
        """Multiply by `factor`: one number, or one for each column; with `axis`, one for each place on that axis of an array, -1 the last."""
        return self._with(_ops.AFFINE, self._each(factor, "factor", axis), 0.0, axis)

    def offset(self, value: Number, *, axis: int | None = None) -> "Column":
        """Add `value`, given as of :meth:`scale`. ``fb.col("t2m").offset(-273.15)`` is in °C."""
        return self._with(_ops.AFFINE, 1.0, self._each(value, "value", axis), axis)

    def standardize(
        self, mean: "Number | Moments | GroupedMoments", std: Number | None = None, *, axis: int | None = None, by: str | None = None,
        keep_unknown: bool = False,
    ) -> "Column":  # fmt: skip
        """Standardise: (x - mean) / std, with numbers of your own or with what :func:`fit` found for these columns.

        Parameters
        ----------
        mean : float, sequence of float, or Moments
            One number for all columns, or one for each. With Moments, each column is standardised with its own; a column whose values are all the
            same becomes 0. Moments that were fitted along an axis bring it along.
        std : float or sequence of float
            Above 0. Not given with Moments.
        axis : int, optional
            The axis of an array whose places have a number each, counted from the end: -1 for the features of (rows, particles, features).
        by : str, optional
            With what ``fb.fit(…, by="gauge_id")`` found: the column of the key by which each value's group is known. Only :meth:`fill_nan` can
            follow, which also fills missing values.
        keep_unknown : bool
            With `by`: leave values whose key was not fitted as they are. By default they are a DataError.

        Examples
        --------
        >>> moments = fb.fit(train, ["prcp", "tmax"])
        >>> fb.col("prcp", "tmax").standardize(moments)
        >>> fb.col("particles").standardize(fb.fit(train, "particles", axis=-1))
        >>> fb.col("prcp").standardize(fb.fit(train, "prcp", by="gauge_id"), by="gauge_id").fill_nan(0)
        """
        if by is not None:
            if std is not None or axis is not None:
                raise TypeError("standardize(…, by=…) takes what fb.fit(…, by=…) returned, and neither a standard deviation nor an axis")
            return _make_lookup.standardize_by(self, mean, by, keep_unknown)  # type: ignore[arg-type]
        if std is None:
            if not hasattr(mean, "scales") or hasattr(mean, "_table"):
                hint = "; for moments by group name the key: by=…" if hasattr(mean, "_table") else ""
                raise TypeError(f"standardize() takes a mean and a standard deviation, or what fb.fit() returned{hint}")
            if axis is not None and axis != mean.axis:  # type: ignore[union-attr]
                raise ValueError(f"axis={axis}: these moments are of {_of(mean.axis)}")  # type: ignore[union-attr]
            axis = mean.axis  # type: ignore[union-attr]
            mean, std = mean.scales(self.columns)  # type: ignore[union-attr]
        return self._with(_ops.STANDARDIZE, self._each(mean, "mean", axis), self._each(std, "std", axis), axis)

    def clip(self, low: Number | None = None, high: Number | None = None, *, axis: int | None = None) -> "Column":
        """Limit values to `low` and `high`, given as of :meth:`scale`; None is no limit. NaN stays NaN."""
        least = -_ops.INFINITY if low is None else self._each(low, "low", axis)
        return self._with(_ops.CLIP, least, _ops.INFINITY if high is None else self._each(high, "high", axis), axis)

    def log(self, eps: Number | None = None, *, axis: int | None = None) -> "Column":
        """Natural logarithm. With `eps`, a number above 0, smaller values become log(eps); without it 0 becomes -inf, and negative values NaN."""
        return self._with(_ops.LOG, self._eps(eps, axis), 0.0, axis)

    def log10(self, eps: Number | None = None, *, axis: int | None = None) -> "Column":
        """Logarithm to base 10; `eps` as of :meth:`log`."""
        return self._with(_ops.LOG10, self._eps(eps, axis), 0.0, axis)

    def log1p(self) -> "Column":
        """log(1 + x), accurate for small x."""
        return self._with(_ops.LOG1P, 0.0, 0.0)

    def fill_missing(self, value: Number, *, axis: int | None = None) -> "Column":
        """Put `value`, given as of :meth:`scale`, where the value is missing: null, or stored as NaN, whatever earlier operations made of it.

        Operations that follow compute with the new value; so after :meth:`standardize`, ``fill_missing(0)`` fills in the mean. NaN that an
        operation made (the logarithm of a negative number) is not missing. Integer outputs keep their dtype; a float column that is cast to
        integers is filled first. With an `axis` the result is of floats. True and False are 1 and 0, infinities are for floats, and NaN is
        refused: missing values are NaN without it.
        """
        return self._with(_ops.FILL_MISSING, self._fill(value, "fill_missing", axis), 0.0, axis)

    def fill_null(self, value: Number) -> "Column":
        """Put `value` where the value is null (see :meth:`is_null`), but not where NaN is stored. It comes before all other operations."""
        if any(kind not in _ops.FILLS or kind == _ops.FILL_NAN for kind, *_ in self.ops):
            raise ValueError("fill_null(): nulls are filled before anything is computed: write it first")
        return self._with(_ops.FILL_NULL, self._fill(value, "fill_null"), 0.0)

    def fill_nan(self, value: Number, *, axis: int | None = None) -> "Column":
        """Put `value` where the result so far is NaN: NaN in the data, logarithms of negative numbers, nulls that were not filled before."""
        return self._with(_ops.FILL_NAN, self._fill(value, "fill_nan", axis), 0.0, axis)

    def _with(self, kind: str, a: Any, b: Any, axis: int | None = None) -> "Column":
        if self.mask_of:
            raise ValueError(f"{self.mask_of}() is a mask: there is nothing to compute with")
        if kind in (_ops.FILL_NAN, _ops.FILL_MISSING) and _make_sample.fills_forward(self):
            raise ValueError(f"{kind}() and forward_fill(): operations come before it, and would leave it nothing to fill. Take one of them")
        if self.make is not None and self.make[0] in (_make_lookup.MAKE_LOOKUP, _make_lookup.MAKE_STANDARDIZE):
            return _make_lookup.with_made(self, kind, a)
        if axis is not None and _ops.moves_axes(self):
            raise ValueError(f"axis={axis} is one of the array as it is stored, {_ops.BEFORE_AXES_MOVE}")
        one = _ops.op(kind, a, b, len(self.columns), axis)
        if self.make is not None and self.make[0] == _make_select.MAKE_SELECT:
            if one[3] is not None:
                raise ValueError("operations with an axis are of the whole array: write them before […]")
            return dataclasses.replace(self, column_ops=((*(self.column_ops or ((),))[0], one),))
        if self.make is not None:
            raise ValueError("operations are done to the values of columns, before anything is made of them: write them first")
        return dataclasses.replace(self, ops=(*self.ops, one))

    def _eps(self, eps: Number | None, axis: int | None) -> Any:
        value = 0.0 if eps is None else self._each(eps, "eps", axis)
        if eps is not None and not all(v > 0 for v in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"eps={eps!r}: a number above 0, or None for no floor")
        return value

    def _fill(self, value: Any, what: str, axis: int | None = None) -> Any:
        fill = self._each(value, what, axis)
        if any(math.isnan(v) for v in (fill if isinstance(fill, tuple) else (fill,))):
            raise ValueError(f"{what}({value!r}): NaN is what is missing in floats without it: give a number")
        return fill

    def _each(self, value: Any, what: str, axis: int | None = None) -> Any:
        return _ops.each(value, what, len(self.columns), axis)

    def ragged(self, max_rows: int | None = None, *, keep: str = "random") -> "Column":
        """Pack samples of different lengths, that is groups, lists and strings: :class:`forebay.Ragged`, values (ΣL, …) and offsets (B + 1,).

        They are packed by default; `max_rows` cuts long ones.

        Parameters
        ----------
        max_rows : int, optional
            The most rows (or elements of a list) that a sample keeps; by default all.
        keep : "random" or "first"
            Which rows a longer sample keeps: a random subset in their order, drawn for each sample and epoch, the same in all outputs with the
            same `max_rows`; or its first rows.
        """
        return dataclasses.replace(self, layout=LAYOUT_RAGGED, layout_options=tuple(_options.checked(LAYOUT_RAGGED, locals()).items()))

    def padded(
        self, max_rows: int | None = None, *, keep: str = "random", pad: float = 0.0, multiple_of: int = 1, to_max: bool = False, lengths: bool = False
    ) -> "Column":
        """Pad samples of different lengths, that is groups, lists and strings: :class:`forebay.Padded`, values (B, L, …) and a mask (B, L).

        L is the length of the longest sample of the batch.

        Parameters
        ----------
        max_rows, keep : optional
            As of :meth:`ragged`.
        pad : float
            The value where there is no row.
        multiple_of : int
            Round L up to a multiple of this.
        to_max : bool
            Make L `max_rows` in every batch.
        lengths : bool
            Deliver lengths (B,) with the values, in place of a mask.
        """
        options = _options.checked(LAYOUT_PADDED, locals())
        if options["to_max"] and max_rows is None:
            raise ValueError("to_max=True needs max_rows=, the length")
        return dataclasses.replace(self, layout=LAYOUT_PADDED, layout_options=tuple(options.items()))

    def optional(self) -> "Column":
        """Leave the output out of the batches when the data set lacks one of its columns, as labels at inference."""
        return dataclasses.replace(self, is_optional=True)

    def steps(self, begin: int, end: int) -> "Column":
        """Take rows begin to end - 1 of each window: shape (B, end - begin), or (B, end - begin, n). By default a window's rows are all taken."""
        begin, end = _step(begin, "begin"), _step(end, "end")
        if end <= begin:
            raise ValueError(f"steps({begin}, {end}): rows {begin} to end - 1 are taken, so end is above {begin}")
        return dataclasses.replace(self, one_step=False, step_range=(begin, end))

    def at(self, step: int) -> "Column":
        """Take one row of each window, counted from 0: shape (B,), or (B, n). ``fb.col("date").at(364)`` is the last day of an input of 365."""
        return dataclasses.replace(self, one_step=True, step_range=(_step(step, "step"), 0))

    def first(self) -> "Column":
        """Take the first row of each window or group: shape (B,), or (B, n). Columns of strings and lists need it there."""
        return self.at(0)

    def _compute(self, *_: Any) -> "Column":
        raise TypeError("operators do not compute with columns: fb.expr('a / (b + 1)') does, and scale(), offset(), clip() with numbers")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __neg__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = _compute

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.columns))
        text = f"col([{names}])" if self.keep_axis and len(self.columns) == 1 else f"col({names})"
        text = _make_lookup.text_of(self) or _make_encode.text_of(self) or _make_sample.text_of(self) or _make_select.text_of(self) or text
        if self.dtype is not None:
            text += f".cast({self.dtype!r})"
        if self.one_step:
            text += f".at({self.step_range[0]})" if self.step_range[0] else ".first()"
        elif self.step_range[1]:
            text += f".steps{self.step_range}"
        text += "".join(map(_ops.text, self.ops))
        if self.layout_options:
            options = dict(self.layout_options)
            given = {name: options[name] for name in _options.changed(self.layout, options)}
            text += f".{self.layout}({', '.join(repr(value) if name == 'max_rows' else f'{name}={value!r}' for name, value in given.items())})"
        text += _make_sample.after_text(self) + ".optional()" * self.is_optional
        return text + (f".{self.mask_of}()" if self.mask_of else "")


@dataclasses.dataclass(frozen=True)
class Index:
    """An output about the samples themselves: made by :func:`sample_index`, :func:`row_index`, :func:`n_rows`, :func:`segment_ids`, :func:`is_repeat`,
    :func:`source`."""

    what: str

    def __repr__(self) -> str:
        return f"{self.what}()"


@dataclasses.dataclass(frozen=True)
class Literal:
    """The same number for every sample: made by :func:`lit`."""

    value: float
    dtype: str

    def __repr__(self) -> str:
        return f"lit({self.value!r}, {self.dtype!r})"


@dataclasses.dataclass(frozen=True)
class PipelineOutput:
    """An output of a pipeline file, for :class:`forebay.Loader`: made by :attr:`Pipeline.outputs`."""

    pipeline: Any
    name: str
    place: int
    source: str
    columns: tuple[str, ...]

    def __repr__(self) -> str:
        return printable(f"<output {self.name!r} of {self.pipeline.path}>")

    def __reduce__(self):
        return (_pipeline_output, (self.pipeline, self.name))


def _pipeline_output(pipeline: Any, name: str) -> PipelineOutput:
    return pipeline.outputs[name]


def _step(value: Any, what: str) -> int:
    if hasattr(value, "__index__") and value < 0:
        raise ValueError(f"{what}={value}: steps are counted from the first row of a window: of n rows the last one is n - 1")
    return count(value, what)


def ordered(names: Any) -> list[str]:
    """A list of names, which are stacked in their order."""
    if isinstance(names, (set, frozenset)):
        raise TypeError(f"a set has no order: give a list of columns, {sorted(map(str, names))!r}")
    if not isinstance(names, Iterable) or isinstance(names, (Mapping, bytes)):
        raise TypeError(f"a column is named by a str, not {type(names).__name__}: {names!r}")
    return list(names)


def _of(axis: int | None) -> str:
    return "whole columns" if axis is None else f"axis {axis}"


Output = Union[Column, Index, Literal, str, Sequence[str]]
Outputs = Union[Mapping[str, Output], Sequence[str], str, None]


@advised()
def col(*columns: str | Sequence[str], dtype: Any = None) -> Column:
    """Columns as one output.

    Parameters
    ----------
    *columns : str, or one list of str
        Column names or dotted paths ("pulses.time"), stacked in this order: shape (B, n), of arrays (B, n, …), of lists of one length packed
        (ΣL, n). One bare name has no such axis, shape (B,); a list keeps it even with one name, shape (B, 1).
    dtype : str, numpy dtype or torch dtype, optional
        By default the columns' own dtype when they agree, else float32.

    Examples
    --------
    >>> fb.col("prcp", "tmax", dtype="float32").fill_missing(0)
    """
    if len(columns) == 1 and not isinstance(columns[0], str):
        names, keep_axis = tuple(ordered(columns[0])), True
    else:
        names, keep_axis = columns, len(columns) > 1
    if not names:
        raise ValueError("col() needs at least one column")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    column = Column(tuple(names), keep_axis)  # type: ignore[arg-type]
    return column if dtype is None else column.cast(dtype)


def sample_index() -> Index:
    """The number of each sample in file order, from 0: int64, shape (B,). Where samples are rows, the row number in the data set."""
    return Index("sample_index")


def row_index() -> Index:
    """The row number in the data set of each sample's first row, from 0: int64, shape (B,)."""
    return Index("row_index")


def n_rows() -> Index:
    """How many rows each sample has: int64, shape (B,)."""
    return Index("n_rows")


def segment_ids() -> Index:
    """For every row of a batch of groups, which sample of the batch it belongs to, from 0: int64, packed (:class:`forebay.Ragged`), values (ΣL,).

    Where samples are groups only.
    """
    return Index("segment_ids")


def is_repeat() -> Index:
    """Whether a sample fills up the last batch, having come earlier in the epoch: bool, shape (B,).

    On several ranks the last batch is filled with repeats, so that all ranks have the same number of batches (``tail="wrap"``).
    ``loss[~batch["repeat"]]`` counts every sample once.
    """
    return Index("is_repeat")


def source() -> Index:
    """Which source of a mixture each sample is of, from 0 in the order of :func:`mix`: int64, shape (B,).

    ``loader.outputs["source"].names`` are the sources' names.
    """
    return Index("source")


def lit(value: float, dtype: Any = "float32") -> Literal:
    """A number that is the same for every sample: shape (B,)."""
    return Literal(float(value), dtype_name(dtype))


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
        raise ValueError(f"{dtype!r} is not a dtype of tensors here: use one of {', '.join(_forebay.dtypes)}; of times 'timestamp[ns]', 'duration[s]'")
    return name
