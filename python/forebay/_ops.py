"""Row operations as tuples, as the extension takes them: (kind, a, b, None), or (kind, a, b, (axis, places)) with a number for each place of
an axis. a and b are floats, or tuples with a float for each column, or for each column's places in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

AFFINE, STANDARDIZE, CLIP, LOG, LOG10, LOG1P = "affine", "standardize", "clip", "log", "log10", "log1p"
FILL_NAN, FILL_MISSING, FILL_NULL = "fill_nan", "fill_missing", "fill_null"
FILLS = (FILL_NAN, FILL_MISSING, FILL_NULL)
INFINITY = float("inf")
CHANNELS_LAST, CHANNELS_FIRST = "channels_last", "channels_first"  # of what is done to a batch
BEFORE_AXES_MOVE = (
    "whose axes reshape(), channels_first() and channels_last() change: write it before them. A flat column has one number for each of its places: "
    "np.tile(mean, P) for P particles of features"
)

Parameter = float | tuple[float, ...]
Op = tuple[str, Parameter, Parameter, "tuple[int, int] | None"]


def each(value: Any, what: str, n_columns: int, axis: int | None = None) -> Parameter:
    """A float, or a tuple with a float for each column; with an axis, for each place of each column (given for all columns alike, or a list of
    each)."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"{what}={value!r}: a number, or one for each {'column' if axis is None else 'place of the axis'}, is expected")
    if not isinstance(value, Iterable):
        try:
            return float(value)
        except TypeError as error:
            raise TypeError(f"{what}={value!r}: a number, or one for each {'column' if axis is None else 'place of the axis'}, is expected") from error
    values = list(value)
    if axis is None:
        numbers = tuple(float(v) for v in values)
        if len(numbers) != n_columns:
            hint = "; axis=-1 says that they are of the last axis of an array" if n_columns == 1 else ""
            raise ValueError(f"{what}: {len(numbers)} numbers for {n_columns} column{'' if n_columns == 1 else 's'}{hint}")
        return numbers
    nested = [list(v) for v in values if isinstance(v, Iterable)]
    if not nested:
        return tuple(float(v) for v in values) * n_columns
    if len(nested) != len(values) or len(nested) != n_columns or len({len(v) for v in nested}) > 1:
        raise ValueError(f"{what}: a number for each place of the axis, or a list of them for each of {n_columns} columns, is expected")
    return tuple(float(v) for column in nested for v in column)


def op(kind: str, a: Parameter, b: Parameter, n_columns: int, axis: int | None = None) -> Op:
    """An operation; both parameters are of the same places where an axis is given."""
    if axis is None:
        return (kind, a, b, None)
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"axis={axis!r}: a whole number is expected")
    if axis >= 0:
        raise ValueError(f"axis={axis}: the axes of a row's value are counted from the end: -1 is the last")
    places = {len(p) // n_columns for p in (a, b) if isinstance(p, tuple)}
    if len(places) > 1:
        raise ValueError(f"{kind}: parameters of {' and '.join(map(str, sorted(places)))} places on one axis")
    return (kind, a, b, (axis, places.pop()) if places else None)


def split(ops: Sequence[Op], n_columns: int) -> list[tuple[Op, ...]]:
    """The operations of each column on its own."""

    def part(p: Parameter, i: int, axis: tuple[int, int] | None) -> Parameter:
        if not isinstance(p, tuple):
            return p
        return p[i] if axis is None else p[i * axis[1] : (i + 1) * axis[1]]

    return [tuple((kind, part(a, i, axis), part(b, i, axis), axis) for kind, a, b, axis in ops) for i in range(n_columns)]


def _nested(p: Parameter, places: int) -> Any:
    return p if not isinstance(p, tuple) or len(p) == places else tuple(p[i : i + places] for i in range(0, len(p), places))


def text(one: Op) -> str:
    """An operation as it was written."""
    kind, axis = one[0], one[3]
    a: Any = one[1]
    b: Any = one[2]
    if axis is not None:  # of several columns, a tuple for each
        a, b = (_nested(p, axis[1]) for p in (a, b))
    along = "" if axis is None else f", axis={axis[0]}"
    if kind == AFFINE:
        return f".scale({a!r}{along})" if b == 0.0 else f".offset({b!r}{along})"
    if kind == STANDARDIZE:
        return f".standardize({a!r}, {b!r}{along})"
    if kind == CLIP:
        return f".clip({None if a == -INFINITY else a!r}, {None if b == INFINITY else b!r}{along})"
    if kind in FILLS:
        return f".{kind}({a!r}{along})"
    return f".{kind}()" if a == 0.0 else f".{kind}({a!r}{along})"



def moves_axes(column: Any) -> bool:
    """Has the output other axes than the stored array?"""
    return bool(column.axes) or any(kind in (CHANNELS_FIRST, CHANNELS_LAST) for kind, _ in column.after)
