"""Outputs that use tables: values looked up by a key, encoded names, values standardised by group."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from . import _forebay, _ops
from ._options import switch

if TYPE_CHECKING:
    from ._fit import GroupedMoments
    from ._outputs import Column

MAKE_LOOKUP, MAKE_STANDARDIZE = "lookup", "standardize"
_FILL_NAN = "fill_nan"


def is_unbound(make: tuple | None) -> bool:
    """Is it an encoded column whose names are found when a loader is made?"""
    return make is not None and make[0] == MAKE_LOOKUP and make[1]["table"] is None


class Lookups:
    """Methods of :class:`forebay.Column`."""

    @property
    def names(self) -> Any:
        """What each number of an encoded column stands for, a list of str or a NumPy array of int64: see :func:`forebay.encode`.

        Raises
        ------
        AttributeError
            For other outputs, and for columns that were encoded without a data set: ``loader.outputs["name"].names`` has the names of those.
        """
        make = self.make  # type: ignore[attr-defined]
        if make is None or make[0] != MAKE_LOOKUP or (make[1]["table"] is not None and make[1]["columns"]):
            raise AttributeError("only encoded columns have names: fb.encode(column, data)")
        if make[1]["table"] is None:
            raise AttributeError("which names there are is found when a loader is made: see loader.outputs[…].names, or use fb.encode(column, data)")
        return make[1]["table"].keys


class Names:
    """What an encoded column's numbers stand for."""

    def __init__(self, core: _forebay.Lookup) -> None:
        self._core = core

    @property
    def keys(self) -> Any:
        return keys_of(self._core)


def keys_of(core: _forebay.Lookup) -> Any:
    """A table's keys in order: a list of str, or a NumPy array of int64 (a list of int without NumPy); of several columns a list of tuples."""
    keys = core.keys()
    if core.text != (False,):
        return keys
    try:
        import numpy
    except ImportError:
        return keys
    return numpy.array(keys, dtype=numpy.int64)


def bind(column: "Column", dataset: Any) -> "Column":
    """An encoded column with its names, the distinct values of the column in the data set."""
    names = Names(_forebay.distinct(dataset._core, column.columns[0]))
    return dataclasses.replace(column, make=(MAKE_LOOKUP, {**column.make[1], "table": names}))  # type: ignore[index]


def names_of(make: tuple | None) -> Any:
    """The names of an encoded column, else None."""
    return make[1]["table"].keys if make is not None and make[0] == MAKE_LOOKUP and not make[1]["columns"] else None


def names_in(table: Any) -> Any:
    """The names that the _forebay.Lookup of an encoded column holds; of None, None."""
    return None if table is None else keys_of(table)


def text_of(column: "Column") -> str | None:
    """Such an output as it was written; None for others."""
    make = column.make
    if make is None or make[0] not in (MAKE_LOOKUP, MAKE_STANDARDIZE):
        return None
    given = make[1]
    if make[0] == MAKE_STANDARDIZE:
        *names, by = column.columns
        return f"col({', '.join(map(repr, names))}).standardize(…, by={by!r})" + (f".fill_nan({given['fill_nan']!r})" if given["fill_nan"] is not None else "")
    on = column.columns[0] if len(column.columns) == 1 else list(column.columns)
    default = "" if given["default"] is None else f", default={given['default']!r}"
    if not given["columns"]:
        return f"encode({on!r}{default})"
    names = [given["table"].columns[i] for i in given["columns"]]
    return f"lookup(…, on={on!r}, columns={names if given['keep_axis'] else names[0]!r}{default})"


def with_made(column: "Column", kind: int, a: Any) -> "Column":
    """The column with an operation after a lookup or standardize(…, by=…): fill_nan() of the latter is the only one."""
    make = column.make
    assert make is not None
    if make[0] == MAKE_STANDARDIZE and kind == _FILL_NAN and not isinstance(a, tuple):
        return dataclasses.replace(column, make=(MAKE_STANDARDIZE, {**make[1], "fill_nan": float(a)}))
    if make[0] == MAKE_STANDARDIZE:
        raise ValueError("after standardize(…, by=…) only fill_nan(number) can follow: put other operations before it")
    raise ValueError("what is looked up cannot be computed with here: put the values that you want into the table")


def standardize_by(column: "Column", moments: "GroupedMoments", by: str, keep_unknown: bool) -> "Column":
    """The column with its values standardised by their own group's moments."""
    if not hasattr(moments, "_table"):
        raise TypeError(f"standardize(…, by={by!r}) takes what fb.fit(…, by={by!r}) returned, not {type(moments).__name__}")
    if column.make is not None or column.mask_of:
        raise ValueError("only the values of columns can be standardised by group")
    if not isinstance(by, str):
        raise TypeError(f"a column is named by a str, not {type(by).__name__}: {by!r}")
    each = _ops.split(column.ops, len(column.columns))
    return dataclasses.replace(
        column, columns=(*column.columns, by), ops=(), column_ops=(*each, ()) if column.ops else None,
        make=(MAKE_STANDARDIZE, {"moments": moments._table(column.columns), "keep_unknown": switch(keep_unknown, "keep_unknown"), "fill_nan": None}),
    )  # fmt: skip
