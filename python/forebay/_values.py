"""Values that a column is compared with, as people write them: numbers, strings, dates and times, lists of them in any container."""

from __future__ import annotations

import array
import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._sizes import count

if TYPE_CHECKING:
    from ._dataset import Dataset

_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NS = 86_400 * 10**9
_EPOCH = datetime.datetime(1970, 1, 1)


def known(unknown: str) -> bool:
    """Whether unknown values are to be ignored."""
    if unknown not in ("error", "ignore"):
        raise ValueError(f"unknown={unknown!r}: use 'error' or 'ignore'")
    return unknown == "ignore"


def _unit_ns(field: Any) -> int | None:
    """Nanoseconds of a column's unit; None: it holds plain numbers."""
    if field is None:
        return None
    return _DAY_NS if field.kind == "date" else _UNIT_NS.get(field.unit or "")


def _is_dated(field: Any) -> bool:
    """Does a column hold dates or times? They are given as text: a bare number would count from 1970, which the library refuses."""
    return field is not None and field.kind in ("date", "timestamp")


def _nanoseconds(value: Any) -> int | None:
    """Of a date, a time or a duration: nanoseconds, since 1970 where that has a meaning. None: it is none of them."""
    for name in ("to_datetime64", "to_timedelta64"):  # of pandas
        if hasattr(value, name):
            value = getattr(value, name)()
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind in ("M", "m"):
        return int(value.astype("datetime64[ns]" if kind == "M" else "timedelta64[ns]").astype("int64"))
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return _nanoseconds(value - _EPOCH)
    if isinstance(value, datetime.date):
        return _nanoseconds(datetime.datetime(value.year, value.month, value.day) - _EPOCH)
    if isinstance(value, datetime.timedelta):
        return (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
    return None


def number(value: Any, field: Any, what: str) -> int | float | str | None:
    """A value as the column holds it: an int or a float, for dates and times also their text. None stays None."""
    if value is None:
        return None
    if hasattr(value, "detach"):
        value = value.item()
    nanoseconds = _nanoseconds(value)
    if nanoseconds is not None:
        unit = _unit_ns(field)
        if unit is None:
            raise TypeError(f"{what}={value!r}: the column holds plain numbers, so give a number")
        if nanoseconds % unit:
            raise ValueError(f"{what}={value!r} is no whole number of the column's units")
        return nanoseconds // unit
    if getattr(getattr(value, "dtype", None), "kind", None) == "b" or isinstance(value, bool):
        return int(value)
    if isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", None) == "f":
        return float(value)
    if isinstance(value, str):
        if _is_dated(field):
            return str(value)
        raise TypeError(
            f"{what}={value!r}: strings are listed, values=[{value!r}]; for a range of dates store them as dates or timestamps "
            "(in pandas: pd.to_datetime)"
        )
    return count(value, what, -(2**63))


def _iso(value: Any) -> str | None:
    """The text of a date or a time; None: it is none."""
    if hasattr(value, "to_datetime64"):  # of pandas
        value = value.to_datetime64()
    if getattr(getattr(value, "dtype", None), "kind", None) == "M":
        for unit in ("datetime64[D]", "datetime64[s]"):  # months and hours have texts of their own
            if value.astype(unit) == value:
                return str(value.astype(unit))
        return str(value)
    return value.isoformat() if isinstance(value, datetime.date) else None


def bound(value: Any, field: Any, what: str) -> int | float | str | None:
    """An end of a range, as number() has it; of dates and times their text."""
    text = _iso(value) if _is_dated(field) else None
    return number(value, field, what) if text is None else text


def _whole(value: Any, field: Any, what: str) -> int:
    result = number(value, field, what)
    if result is None or result != int(result):
        raise TypeError(f"{what}: {value!r} is no int, str, bool, date or time; ranges of floats are given by low= and high=")
    return int(result)


def listed(values: Any, field: Any, what: str) -> bytes | tuple[str, ...] | None:
    """A list of values: strings as a tuple, all else as the bytes of an int64 array."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{what} is a list: write [{values!r}]")
    if isinstance(values, (int, float)) or getattr(values, "ndim", 1) == 0:
        raise TypeError(f"{what} is a list: write [{values!r}]")
    if not hasattr(values, "__iter__") and not hasattr(values, "to_numpy"):
        raise TypeError(f"{what} is a list, array, set or Series, not {type(values).__name__}")
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{what} is a list in one axis, not of shape {tuple(values.shape)}")
    if hasattr(values, "detach"):
        values = values.tolist()
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if getattr(getattr(values, "dtype", None), "kind", None) in ("i", "u", "b") and getattr(values.dtype, "itemsize", 9) * 8 < 65:
        if values.dtype.kind == "u" and values.dtype.itemsize == 8 and values.size and int(values.max()) >= 2**63:
            raise ValueError(f"{what}: {int(values.max())} is more than an int64 holds")
        return values.astype("int64").tobytes()
    items = list(values)
    if _is_dated(field):
        items = [item if (text := _iso(item)) is None else text for item in items]
    if not items:
        raise ValueError(f"{what} is empty: list at least one")
    if all(isinstance(item, str) for item in items):
        return tuple(str(item) for item in items)
    for item in items:
        if isinstance(item, str):
            other = next(item for item in items if not isinstance(item, str))
            raise TypeError(f"{what} are all numbers or all strings: {item!r} is a str and {other!r} is not")
    return array.array("q", [_whole(item, field, what) for item in items]).tobytes()


_AT_ONCE = 1 << 20  # numbers: between steps that are short, Ctrl-C is heard


def numbers(indices: Any, n: int) -> Any:
    """Numbers of n samples, or a mask of them, as a buffer of uint64 that is nobody else's."""
    if isinstance(indices, slice):
        if indices.step is not None and count(indices.step, "the step of a slice", -(2**63)) < 1:
            raise ValueError(f"the step of a slice is at least 1, not {indices.step}: samples keep their order")
        indices = range(*indices.indices(n))
    if not hasattr(indices, "shape") and hasattr(indices, "__iter__") and not isinstance(indices, (str, bytes)):
        indices = list(indices)
        if indices and all(isinstance(i, bool) for i in indices):
            indices = [i for i, chosen in enumerate(_mask(indices, len(indices), n)) if chosen]
        out = array.array("q", [count(i, "index", -(2**63)) for i in indices])
        for i in out:
            if not -n <= i < n:
                raise IndexError(f"sample {i} is out of range: there are {n}")
        return array.array("Q", [i % n for i in out]).tobytes()
    import numpy

    given = numpy.asarray(indices.detach().cpu() if hasattr(indices, "detach") else indices)
    if given.ndim != 1 or given.dtype.kind not in "iub":
        raise TypeError(f"samples are taken by whole numbers or by a mask of bool, in one axis, not by {given.dtype} of shape {given.shape}")
    if given.dtype.kind == "b":
        return numpy.flatnonzero(_mask(given, len(given), n)).view("uint64")
    out = numpy.empty(len(given), "uint64")
    for at in range(0, len(given), _AT_ONCE):
        part = given[at : at + _AT_ONCE]
        wrong = part[(part < -n) | (part >= n)] if part.dtype.kind == "i" else part[part >= n]
        if wrong.size:
            raise IndexError(f"sample {int(wrong[0])} is out of range: there are {n}")
        out[at : at + _AT_ONCE] = part if part.dtype.kind == "u" else part.astype("int64") % n
    return out


def _mask(mask: Any, length: int, n: int) -> Any:
    if length != n:
        raise IndexError(f"a mask of {length:,} for {n:,} samples: it has True or False for each")
    return mask


def class_weights(weights: Mapping[Any, Any], field: Any, what: str) -> tuple[Any, list[Any]]:
    """A mapping of classes to numbers as two lists, classes as listed() makes them."""
    if not isinstance(weights, Mapping):
        raise TypeError(f"{what} is a mapping of classes to numbers, not {type(weights).__name__}")
    if not weights:
        raise ValueError(f"{what} is empty: name at least one class")
    return listed(list(weights), field, "classes"), list(weights.values())


def step_of(dataset: "Dataset", time: str | None, step: Any) -> dict[str, Any]:
    """A step of time as an option: words as they are, all else in units of the column."""
    if step is None:
        return {}
    if time is None:
        raise ValueError("step= needs time=, the column that steps")
    if isinstance(step, str):
        return {"step_text": step}
    nanoseconds = _nanoseconds(step)
    if nanoseconds is None:
        if isinstance(step, float) or not hasattr(step, "__index__"):
            raise TypeError(f"step={step!r}: words such as '1 day', a timedelta, or a whole number in the column's own unit")
        return {"step": count(step, "step", 1)}
    field = dataset.schema[time] if time in dataset.schema else None
    unit = 1 if field is None else _unit_ns(field)
    if unit is None and field is not None and field.kind in ("string", "binary"):
        return {"step_text": f"{nanoseconds} ns"}  # refused, with what to do
    if unit is None:
        raise TypeError(f"step={step!r}: column {time!r} holds plain numbers, so give the step as one")
    if nanoseconds <= 0 or nanoseconds % unit:
        raise ValueError(f"step={step!r} is no whole number of the units of column {time!r}, above 0")
    return {"step": nanoseconds // unit}
