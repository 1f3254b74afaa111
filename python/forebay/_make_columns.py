"""Outputs made of several columns, as functions: n-grams of texts, expressions, channels of a group's subgroups."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _options
from ._lookup import Lookup
from ._make_encode import MAKE_EXPRESSION, MAKE_NGRAMS
from ._make_sample import AGGREGATES, COUNT, FIRST_ROWS, KEY, MAKE_GROUP_CHANNELS, must_be_plain, split_ops
from ._options import switch, text_value
from ._outputs import Column, col, dtype_name
from ._sizes import count as _count

Feature = Union[str, Column]

_U32 = 2**32 - 1
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
# A column in an expression: in backquotes, or a name with dots inside that no "(" follows. As src/transform/expression_parse.c reads it.
_NAMES = (
    r"`([^`]+)`"
    r"|([A-Za-z_\u0080-\U0010ffff](?:[A-Za-z0-9_\u0080-\U0010ffff]|\.(?=[A-Za-z0-9_\u0080-\U0010ffff]))*)(\s*\()?"
    r"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
)
_NO_COLUMNS = {"and", "or", "not", "pi", "nan", "inf"}


# ---- texts and numbers ----


def ngram_vocabulary(*parts: str) -> tuple[str, ...]:
    """Two-grams of the letters a to z and the digits 0 to 9, in a fixed order.

    Parameters
    ----------
    *parts : str
        Which of these, in the order given; by default all four, in this order:

        ===============  =====  =================
        "letters"        676    "aa", "ab" … "zz"
        "digits"         100    "00", "01" … "99"
        "letter-digit"   260    "a0", "a1" … "z9"
        "digit-letter"   260    "0a", "0b" … "9z"
        ===============  =====  =================

        The first three are 1,036 grams, all four 1,296.

    Returns
    -------
    tuple of str
    """
    sets = {"letters": (_LETTERS, _LETTERS), "digits": (_DIGITS, _DIGITS), "letter-digit": (_LETTERS, _DIGITS), "digit-letter": (_DIGITS, _LETTERS)}
    for part in parts:
        if part not in sets:
            raise ValueError(f"{part!r} is no part of the vocabulary: use {', '.join(map(repr, sets))}")
    if len(set(parts)) < len(parts):
        raise ValueError("a part of the vocabulary is named twice")
    return tuple(a + b for part in parts or sets for first, second in [sets[part]] for a in first for b in second)


def ngrams(
    *columns: str, n: int = 2, vocabulary: Iterable[str] | None = None, separator: str = "", lower: bool = False, strip: bool = False,
    delete: str = "", drop_spaces: bool = False, missing: str | None = None, dtype: Any = None,
) -> Column:  # fmt: skip
    """Which n-grams occur in the text of some columns: shape (B, len(vocabulary)), 1 for each entry of the vocabulary that occurs, else 0.

    The columns' values are turned into text as pandas' ``astype(str)`` does, and joined. The text is lowered, `delete` is applied, the ends are
    stripped, in this order, and the result is cut into overlapping grams of `n` characters.

    Parameters
    ----------
    *columns : str
        Strings, bools, numbers, dates and timestamps, in the order in which they are joined.
    n : int
        Characters in a gram, at most 8.
    vocabulary : iterable of str, optional
        The grams, in the order of the output. By default the 1,296 two-grams of :func:`ngram_vocabulary`.
    separator : str
        What stands between columns. By default nothing, so that grams reach from one column into the next.
    lower : bool
        As ``str.lower``, but for Σ at the end of a word, which becomes σ.
    strip : bool
        Remove white space at both ends of the joined text.
    delete : str
        Characters to remove.
    drop_spaces : bool
        Ignore grams that contain a space. By default they are looked up like any other.
    missing : str, optional
        The text of a missing value. By default what pandas writes by type: "nan" for floats, "<NA>" for integers and bools, "NaT" for
        timestamps, "None" for strings and dates.
    dtype : str, numpy dtype or torch dtype, optional
        By default float32.

    Examples
    --------
    >>> fb.ngrams("first_name", "surname", "dob", lower=True, delete='" . /', strip=True, drop_spaces=True)
    """
    if not columns:
        raise ValueError("ngrams() needs at least one column")
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    if vocabulary is None:
        if n != 2:
            raise ValueError(f"n={n!r}: the standard vocabulary is of two-grams; give a vocabulary=")
        vocabulary = _standard()
    elif isinstance(vocabulary, str):
        raise TypeError("vocabulary is a list of grams, not one str: see fb.ngram_vocabulary()")
    grams = tuple(text_value(gram, "a gram") for gram in vocabulary)
    options = {**_options.checked(MAKE_NGRAMS, locals()), "vocabulary": grams}
    return Column(tuple(columns), make=(MAKE_NGRAMS, options), dtype=None if dtype is None else dtype_name(dtype))


@functools.lru_cache(maxsize=1)
def _standard() -> tuple[str, ...]:
    return ngram_vocabulary()


def expr(text: str, dtype: Any = None) -> Column:
    """A number computed from columns in float64 and rounded to `dtype`, float32 by default. Arrays are computed element by element.

    Parameters
    ----------
    text : str
        Numbers, columns (an odd name in backquotes), ``+ - * / % ^`` (the power), comparisons that give 1 or 0, ``and or not``,
        ``condition ? a : b``, ``pi nan inf``, and the functions abs sqrt exp log log10 log1p sin cos tan atan2 floor ceil round min max where isnan.
        docs/operations.md has the details.
    dtype : str, numpy dtype or torch dtype, optional
        Values of an integer dtype are truncated towards 0; one that does not fit raises DataError while iterating.

    Raises
    ------
    ValueError
        When no column occurs. What else is wrong with the text is found when the loader is opened: ArgumentError with the position.

    Examples
    --------
    >>> fb.expr("prcp / (pet + 1e-3)")
    >>> fb.expr("`dom time` > 1e4 ? log10(charge) : nan")
    """
    text = text_value(text, "an expression")
    names: dict[str, None] = {}
    for quoted, name, call in re.findall(_NAMES, text, re.ASCII):
        if quoted or (name and not call and name not in _NO_COLUMNS):
            names[quoted or name] = None
    if not names:
        raise ValueError(f"expr({text!r}): it names no column; fb.lit() gives the same number to every sample")
    return Column(tuple(names), make=(MAKE_EXPRESSION, {"text": text}), dtype=None if dtype is None else dtype_name(dtype))


# ---- channels of subgroups ----


def _features(value: Any, what: str) -> list[tuple[str, tuple]]:
    """(column, its operations) for what a user gives as features."""
    column = col(value) if isinstance(value, str) else value
    if not isinstance(column, Column):
        raise TypeError(f"{what}: a column name or fb.col(…) is expected, not {type(value).__name__}: {value!r}")
    must_be_plain(column, what)
    plain = dataclasses.replace(col(*column.columns), keep_axis=column.keep_axis, ops=column.ops)
    if plain != column:
        raise ValueError(f"{what}: {column!r}: only operations on values can be had here, as .scale() or .fill_missing()")
    return list(zip(column.columns, split_ops(column)))


def group_channels(
    *, key: str, order: str, features: Sequence[Feature] = (), first_rows: int = 0, max_groups: int,
    aggregates: Mapping[Feature, str | Sequence[str]] | None = None, count: bool = True, keys: bool = False, positions: Lookup | None = None,
    pad: float = 0.0,
) -> Column:  # fmt: skip
    """Group the rows of each group once more: every subgroup becomes a row of channels, shape (B, max_groups, channels), float32.

    For example the pulses of an event by sensor: where the sensor is, how many pulses it saw, the first few of them, the earliest time.
    Subgroups are sorted by their smallest `order`, and by first appearance where that is equal; rows of a subgroup by `order`, and as they are
    stored where that is equal.

    Parameters
    ----------
    key : str
        The column whose values make the subgroups: whole numbers.
    order : str
        The column that rows are ordered by. Missing values and NaN come last.
    features : list of str or Column
        Columns, each with operations of its own: ``fb.col("charge").log10(1e-6).scale(1 / 3)``.
    first_rows : int
        Channels for all features of the first so many rows of every subgroup; `pad` where it has fewer.
    max_groups : int
        How many subgroups are kept: the first ones.
    aggregates : dict of {column: "min", "max", "sum", "mean", "std", or a list of them}, optional
        Channels computed from all rows of a subgroup. A name stands for the feature of that column, with its operations, or else for the
        column as it is. NaN in a subgroup makes its aggregates NaN. "std" is that of the population (divided by the count).
    count : bool
        Add a channel with the number of rows.
    keys : bool
        Add a channel with the key.
    positions : Lookup, optional
        A table by `key`, whose columns become the first channels. A key that is not in it raises DataError while iterating.
    pad : float
        The value of channels without a subgroup or row.

    Returns
    -------
    Column
        Its ``channels`` are the names of the channels: positions, the key, the count, the first rows (all features of row 0, then of row 1,
        …), the aggregates. ``.mask()`` is an output that says where there are subgroups, ``.cast("float16")`` chooses another float dtype.

    Examples
    --------
    >>> dom = fb.group_channels(
    ...     key="sensor_id", order="time", first_rows=5, max_groups=128, positions=fb.Lookup("sensor_geometry.csv", "sensor_id"),
    ...     features=[fb.col("time").standardize(1e4, 3e4), fb.col("charge").log10(1e-6).scale(1 / 3), fb.col("auxiliary").offset(-0.5)],
    ...     aggregates={"time": ["min", "std"], "charge": "sum"},
    ... )
    >>> loader = ds.groups("event_id").loader({"doms": dom, "mask": dom.mask()}, batch_size=512)
    """
    for name, what in ((key, "key"), (order, "order")):
        if not isinstance(name, str):
            raise TypeError(f"group_channels(): {what} is a column's name, not {type(name).__name__}: {name!r}")
    if isinstance(features, (str, Mapping)) or not isinstance(features, Sequence):
        raise TypeError("group_channels(): features is a list of column names or fb.col(…)")
    rows = _count(first_rows, "first_rows", 0, _U32)
    if positions is not None and not isinstance(positions, Lookup):
        raise TypeError(f"group_channels(): positions is an fb.Lookup, not {type(positions).__name__}")
    if bool(rows) != bool(features) and not aggregates:
        raise ValueError("group_channels(): features= and first_rows= belong together: the first rows of which columns?")
    found = [feature for value in features for feature in _features(value, "group_channels(): a feature")]
    channels = [{"value": KEY, "feature": 0}] * switch(keys, "keys") + [{"value": COUNT, "feature": 0}] * switch(count, "count")
    channels += [{"value": FIRST_ROWS, "feature": i} for i in range(len(found))] if rows else []
    for value, functions in (aggregates or {}).items():
        of = [i for i, (name, _) in enumerate(found) if name == value] if isinstance(value, str) else []
        if len(of) > 1:
            raise ValueError(f"group_channels(): aggregates: {value!r} is a feature {len(of)} times: name the one with its operations, fb.col({value!r})…")
        if not of:
            for feature in _features(value, "group_channels(): aggregates"):
                if feature not in found:
                    found.append(feature)
                of.append(found.index(feature))
        for name in (functions,) if isinstance(functions, str) else tuple(functions):
            if name not in AGGREGATES:
                raise ValueError(f"group_channels(): aggregates: {name!r} is not known: use {', '.join(AGGREGATES)}")
            channels += [{"value": AGGREGATES[name], "feature": i} for i in of]
    if not channels and positions is None:
        raise ValueError("group_channels(): nothing to make: name features with first_rows, aggregates, or positions")
    options = {
        "channels": tuple(channels), "first_rows": rows or None, "max_groups": _count(max_groups, "max_groups", 1, _U32), "pad": float(pad),
        "positions": positions, "mask": False,
    }  # fmt: skip
    return dataclasses.replace(
        col(key, order, *(name for name, _ in found)), make=(MAKE_GROUP_CHANNELS, options), column_ops=((), (), *(ops for _, ops in found))
    )  # fmt: skip
