"""Methods of Column that take places of an array's axes, and times in a unit."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

from . import _ops

if TYPE_CHECKING:
    from ._outputs import Column

MAKE_SELECT, MAKE_TIME = "select", "time"
_ATTRIBUTE = "feature_names"
_TIMES = re.compile(r"(timestamp|duration|datetime64|timedelta64)\[(s|ms|us|ns)\]")

Places = dict[str, Any]  # of one axis: begin, end, step, places, drop_axis; until it is bound, of a mask its length


def time_of(dtype: Any) -> tuple[bool, str] | None:
    """(whether it is a duration, the unit) of "timestamp[ns]", "duration[s]" or NumPy's dtypes of times; None for other dtypes."""
    found = _TIMES.fullmatch(dtype if isinstance(dtype, str) else str(getattr(dtype, "name", "")))
    return None if found is None else (found[1] in ("duration", "timedelta64"), found[2])


def as_time(column: "Column", duration: bool, unit: str) -> "Column":
    """The column's dates, timestamps or durations as int64 in a unit."""
    if column.make is not None or column.mask_of:
        raise ValueError("only columns of times have a unit: cast them before anything is made of them")
    ops = _ops.split(column.ops, len(column.columns))
    make = (MAKE_TIME, {"is_duration": duration, "unit": unit})
    return dataclasses.replace(column, dtype=None, ops=(), column_ops=tuple(ops) if column.ops else None, make=make)


class Selections:
    """Methods of :class:`forebay.Column`."""

    def __getitem__(self: Any, key: Any) -> "Column":
        """Take places of the axes of an array, as NumPy indexes one row's value: the batch's axis is not counted.

        Each item is of one axis, the first ones of the value, or after ``...`` the last ones: a slice, a place, a list of places, a mask as
        long as the axis, or names that the attribute ``feature_names`` of the column's HDF5 data set, or of the file, has. One place, or one
        name, takes its axis away.
        Lists and masks of several axes are combined, every place of one with every place of the other: NumPy's ``np.ix_``.

        Operations before it see the whole array; those that follow must not name an axis.

        Examples
        --------
        >>> fb.col("particles")[:, :7]  # (B, P, 7)
        >>> fb.col("particles")[..., ["pt", "eta"]]  # (B, P, 2)
        >>> fb.col("particles")[0, "pt"]  # (B,)
        """
        if self.make is not None or self.mask_of:
            raise ValueError("[…] selects from the arrays of a column: write it before anything is made of them")
        if _ops.moves_axes(self):
            raise ValueError(f"[{key!r}] selects from the array as it is stored: write it before reshape(), channels_first() and channels_last()")
        if len(self.columns) != 1:
            raise ValueError(f"[…] selects from one column of arrays, not from {len(self.columns)}")
        items = key if isinstance(key, tuple) else (key,)
        of_last = bool(items) and items[0] is Ellipsis
        items = items[1:] if of_last else items[:-1] if items and items[-1] is Ellipsis else items
        if not items or any(item is Ellipsis for item in items):
            raise ValueError(f"[{key!r}]: places of at least one axis are expected, and ... in front of them or behind")
        make = (MAKE_SELECT, {"of_last": of_last, "axes": tuple(_places(item) for item in items)})
        return dataclasses.replace(self, ops=(), column_ops=tuple(_ops.split(self.ops, 1)) if self.ops else None, make=make)

    __iter__ = None  # __getitem__ makes no sequence of it


def _places(item: Any) -> Places:
    if isinstance(item, slice):
        begin, end, step = (None if n is None else _whole(n) for n in (item.start, item.stop, item.step))
        if (step is not None and step < 1) or end == 0:
            raise ValueError(f"{item!r}: a range of at least one place, with a step above 0, is expected")
        return {"begin": begin or 0, "end": end or 0, "step": step or 1, "places": None, "drop_axis": False}
    if isinstance(item, str):
        return _listed((item,), True)
    if hasattr(item, "tolist"):
        item = item.tolist()
    if isinstance(item, (list, tuple, range)):
        if item and all(isinstance(i, bool) for i in item):
            return {**_listed(tuple(i for i, taken in enumerate(item) if taken), False), "mask": len(item)}
        names = [i for i in item if isinstance(i, str)]
        if not item or (names and len(names) != len(item)):
            raise ValueError(f"{item!r}: places are all whole numbers, or all names, and at least one")
        return _listed(tuple(names) or tuple(map(_whole, item)), False)
    return _listed((_whole(item),), True)


def _listed(places: tuple[Any, ...], drop_axis: bool) -> Places:
    if not places:
        raise ValueError("a mask that is False everywhere takes no place: at least one is needed")
    return {"begin": 0, "end": 0, "step": 0, "places": places, "drop_axis": drop_axis}


def _named(p: Places) -> bool:
    return bool(p["places"]) and isinstance(p["places"][0], str)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{value!r} is no place of an axis: a whole number, a slice, a name, or a list of them is expected")
    return int(value.__index__())


def is_unbound(make: tuple | None) -> bool:
    """Does it select by names or masks, whose places are found when a loader is made?"""
    return make is not None and make[0] == MAKE_SELECT and any(_named(p) or "mask" in p for p in make[1]["axes"])


def bind(column: "Column", dataset: Any) -> "Column":
    """The column with the places of its names and masks."""
    assert column.make is not None
    if dataset is None:
        raise ValueError("names of features and lengths of axes are found in the data set: make the output's loader from it")
    given, sizes = column.make[1], axis_sizes(dataset, column.columns[0])
    names = _feature_names(dataset, column.columns[0]) if any(map(_named, given["axes"])) else []
    first = len(sizes) - len(given["axes"]) if given["of_last"] else 0
    axes = tuple(_bound(p, names, sizes[first + i : first + i + 1] if first >= 0 else []) for i, p in enumerate(given["axes"]))
    return dataclasses.replace(column, make=(MAKE_SELECT, {**given, "axes": axes}))


def _bound(p: Places, names: list[str], size: list[int]) -> Places:
    if _named(p):
        return {**p, "places": tuple(_place(name, names) for name in p["places"])}
    if size and p.get("mask", size[0]) != size[0]:
        raise IndexError(f"a mask of {p['mask']} for an axis of {size[0]} places")
    return {key: value for key, value in p.items() if key != "mask"}


def axis_sizes(dataset: Any, column: str) -> list[int]:
    """Of a row's value of a column of arrays; none of others."""
    sizes = []
    field = dataset.schema[column] if column in dataset.schema else None
    while field is not None and field.kind == "fixed_list":
        sizes.append(field.list_size)
        field = field.children[0]
    return sizes


def _feature_names(dataset: Any, column: str) -> list[str]:
    """What the attribute of the column's data set, or of the first file, holds: texts, or a list as JSON."""
    contents = dataset.contents()
    owners = [contents[path].attributes for path in contents if contents[path].column == column]
    found = next((attributes[_ATTRIBUTE] for attributes in (*owners, dataset.attrs) if _ATTRIBUTE in attributes), None)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            found = None
    names = found.tolist() if hasattr(found, "tolist") else found
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"neither the data set of column {column!r} nor the first file has an attribute {_ATTRIBUTE} with names: give places by number")
    return names


def _place(name: str, names: list[str]) -> int:
    if name not in names:
        raise ValueError(f"{name!r} is none of the {_ATTRIBUTE}: they are {', '.join(map(repr, names))}")
    return names.index(name)


def text_of(column: "Column") -> str | None:
    """Such an output as it was written; None for others."""
    make = column.make
    if make is None or make[0] not in (MAKE_SELECT, MAKE_TIME):
        return None
    text = f"col({column.columns[0]!r})" + "".join(map(_ops.text, (column.column_ops or ((),))[0]))
    kind, given = make
    if kind == MAKE_TIME:
        return f"{text}.cast('{'duration' if given['is_duration'] else 'timestamp'}[{given['unit']}]')"
    items = ["..."] * given["of_last"] + [_text(p) for p in given["axes"]]
    return f"{text}[{', '.join(items)}]"


def _text(p: Places) -> str:
    if p["places"] is not None:
        return repr(p["places"][0]) if p["drop_axis"] else repr(list(p["places"]))
    return f"{p['begin'] or ''}:{p['end'] or ''}" + (f":{p['step']}" if p["step"] > 1 else "")
