"""Outputs that are made of a row's values when a batch is built: bits, one-hot, maps, n-grams, expressions."""

from __future__ import annotations

import array
import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._sizes import count

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._outputs import Column

MAKE_BITS, MAKE_ONE_HOT, MAKE_MAP, MAKE_NGRAMS, MAKE_EXPRESSION = 1, 2, 3, 4, 6  # as forebay/make.h numbers them
_ENCODINGS = ("auto", "text", "packed", "little", "base64")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
# A column in an expression: in backquotes, or a name with dots inside that no "(" follows. As src/transform/expression_parse.c reads it.
_NAMES = re.compile(
    r"`([^`]+)`"
    r"|([A-Za-z_\u0080-\U0010ffff](?:[A-Za-z0-9_\u0080-\U0010ffff]|\.(?=[A-Za-z0-9_\u0080-\U0010ffff]))*)(\s*\()?"
    r"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?",
    re.ASCII,
)
_NO_COLUMNS = {"and", "or", "not", "pi", "nan", "inf"}


class Encodings:
    """Methods of :class:`forebay.Column`."""

    def bits(self, n: int | None = None, encoding: str = "auto") -> "Column":
        """Bits as numbers 0 and 1: shape (B, n), float32 unless :meth:`cast` says otherwise.

        Parameters
        ----------
        n : int, optional
            Bits of every value. Arrays of bytes say it themselves.
        encoding : str
            "text": characters '0' and '1'. "packed": bytes of eight bits, the first bit the highest, as ``numpy.packbits`` gives them.
            "little": the first bit the lowest (``bitorder="little"``); also the bits of whole numbers. "base64": packed bytes as base64 text
            (RFC 4648), padded or not. "auto": text for strings, packed for bytes and arrays of uint8.

        Raises
        ------
        DataError
            At the batch where a value has another length or another character, is missing, or is no base64.

        Examples
        --------
        >>> fb.col("bloomfilter").bits(1024)
        """
        if encoding not in _ENCODINGS:
            raise ValueError(f"encoding={encoding!r}: use one of {', '.join(map(repr, _ENCODINGS))}")
        return self._made("bits", MAKE_BITS, 0 if n is None else count(n, "n", 1), _ENCODINGS.index(encoding))

    def one_hot(self, n_classes: int, ignore_unknown: bool = False) -> "Column":
        """1 at the value's place among `n_classes`, else 0: shape (B, n_classes), float32 unless :meth:`cast` says otherwise.

        Values are whole numbers from 0 to n_classes - 1. Others and missing ones raise DataError, or give zeros with `ignore_unknown`.
        """
        return self._made("one_hot", MAKE_ONE_HOT, count(n_classes, "n_classes", 1), bool(ignore_unknown))

    def map(self, mapping: Mapping[Any, float], default: float | None = None) -> "Column":
        """What each value is mapped to: shape (B,), int64 if all targets are whole numbers, else float32; or as :meth:`cast` says.

        Parameters
        ----------
        mapping : mapping of int or of str to number
            Several values may be mapped to one number. :func:`class_map` makes one from a file's ``labels_json``.
        default : float, optional
            For other and missing values. Without it they raise DataError.

        Examples
        --------
        >>> fb.col("gender").map({"male": 0, "female": 1}, default=2)
        """
        if not isinstance(mapping, Mapping):
            raise TypeError(f"map() takes a mapping of values to numbers, not {type(mapping).__name__}")
        if not mapping and default is None:
            raise ValueError("map(): an empty mapping without a default")
        to = array.array("d", [_target(value, f"the target of {key!r}") for key, value in mapping.items()]).tobytes()
        otherwise = None if default is None else _target(default, "default")
        return self._made("map", MAKE_MAP, _keys(mapping), to, otherwise)

    def _made(self, what: str, kind: int, *parameters: Any) -> "Column":
        column: Column = self  # type: ignore[assignment]
        if column.make is not None or column.mask_of:
            raise ValueError(f"{what}() is made of a column's values, not of what was made of them already: {column!r}")
        if len(column.columns) != 1:
            raise ValueError(f"{what}() takes one column, not {len(column.columns)}: write an output for each")
        return dataclasses.replace(column, make=(kind, *parameters))


def _target(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} is {value!r}: a number is expected")
    return float(value)


def _keys(mapping: Mapping[Any, Any]) -> Any:
    """Strings as a tuple, whole numbers as the bytes of an int64 array."""
    keys = list(mapping)
    if keys and all(isinstance(key, str) for key in keys):
        return tuple(_text(key, "a value that is mapped") for key in keys)
    for key in keys:
        if isinstance(key, str):
            raise TypeError(f"values that are mapped are all numbers or all strings: {key!r} is a str and others are not")
    whole = [int(key) if isinstance(key, bool) else count(key, "a value that is mapped", -(2**63), 2**63 - 1) for key in keys]
    return array.array("q", whole).tobytes()


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {type(value).__name__}: {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} cannot hold a NUL character: {value!r}")
    return str(value)


def ngram_vocabulary(*parts: str) -> tuple[str, ...]:
    """Two-grams of the letters a to z and the digits 0 to 9, in a fixed order.

    Parameters
    ----------
    *parts : str
        Which ones, in the order given; by default all four, in this order:

        ===============  =====  =================
        "letters"        676    "aa", "ab" … "zz"
        "digits"         100    "00", "01" … "99"
        "letter-digit"   260    "a0", "a1" … "z9"
        "digit-letter"   260    "0a", "0b" … "9z"
        ===============  =====  =================

        The first three are 1,036, all of them 1,296. A gram's place is that of its first character times the number of second ones, plus
        that of its second, behind the parts before.

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
) -> "Column":  # fmt: skip
    """Which n-grams occur in the text of some columns: 1 for each entry of the vocabulary that does, shape (B, len(vocabulary)).

    The columns' values are made text as pandas' ``astype(str)`` does and joined. Then characters are lowered, left out and stripped, in this
    order, and the text is cut into overlapping grams of `n` characters.

    Parameters
    ----------
    *columns : str
        Strings, bools, numbers, dates and timestamps, in the order in which they are joined.
    n : int
        Characters of a gram, at most 8.
    vocabulary : iterable of str, optional
        Its places are the output's. By default the 1,296 two-grams of :func:`ngram_vocabulary`.
    separator : str
        Between columns. By default nothing, so that grams cross from one column to the next.
    lower : bool
        As ``str.lower``, but for Σ at the end of a word, which becomes σ.
    strip : bool
        Leave out white space at both ends of the joined text.
    delete : str
        Characters that are left out.
    drop_spaces : bool
        Grams that hold a space are no grams. Otherwise they are looked up as any other.
    missing : str, optional
        The text of a missing value. By default what pandas writes by type: "nan" for floats, "<NA>" for integers and bools, "NaT" for
        timestamps, "None" for strings and dates.
    dtype : str, numpy dtype or torch dtype, optional
        By default float32.

    Examples
    --------
    >>> fb.ngrams("first_name", "surname", "dob", lower=True, delete='" . /', strip=True, drop_spaces=True)
    """
    from ._outputs import Column, dtype_name

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
    grams = tuple(_text(gram, "a gram") for gram in vocabulary)
    make = (
        MAKE_NGRAMS, count(n, "n", 1, 8), grams, _text(separator, "separator"), _text(delete, "delete"), bool(lower), bool(strip), bool(drop_spaces),
        None if missing is None else _text(missing, "missing"),
    )  # fmt: skip
    return Column(tuple(columns), make=make, dtype=None if dtype is None else dtype_name(dtype))


@functools.lru_cache(maxsize=1)
def _standard() -> tuple[str, ...]:
    return ngram_vocabulary()


def expr(text: str, dtype: Any = None) -> "Column":
    """A number computed from columns: float64 arithmetic, rounded to `dtype`, float32 by default. Arrays are computed with element by element.

    Parameters
    ----------
    text : str
        Numbers, columns (an odd name in backquotes), ``+ - * / % ^`` (the power), comparisons that give 1 or 0, ``and or not``,
        ``condition ? a : b``, ``pi nan inf``, and the functions abs sqrt exp log log10 log1p sin cos tan atan2 floor ceil round min max where isnan.
        docs/operations.md has the details.
    dtype : str, numpy dtype or torch dtype, optional
        Integers are truncated towards 0; a value that is none raises DataError.

    Raises
    ------
    ValueError
        When no column occurs. What else is wrong with the text is found when the loader is opened: ArgumentError with the position.

    Examples
    --------
    >>> fb.expr("prcp / (pet + 1e-3)")
    >>> fb.expr("`dom time` > 1e4 ? log10(charge) : nan")
    """
    from ._outputs import Column, dtype_name

    text = _text(text, "an expression")
    names: dict[str, None] = {}
    for quoted, name, call in _NAMES.findall(text):
        if quoted or (name and not call and name not in _NO_COLUMNS):
            names[quoted or name] = None
    if not names:
        raise ValueError(f"expr({text!r}): it names no column; fb.lit() gives the same number to every sample")
    return Column(tuple(names), make=(MAKE_EXPRESSION, text), dtype=None if dtype is None else dtype_name(dtype))


def class_map(data: "Dataset | Mapping[str, Any] | str", classes: Mapping[Any, Any] | None = None, attribute: str = "labels_json") -> dict[Any, int]:
    """The class names that a file brings along, and a mapping that merges classes.

    Parameters
    ----------
    data : Dataset, mapping or str
        A data set whose first file has the attribute; or what it holds: names to numbers or numbers to names, parsed or as JSON.
    classes : mapping, optional
        What becomes of the file's classes. Merged classes with lists of the file's names, ``{"leak": ["drip", "burst"], "quiet": ["none"]}``:
        numbered from 0 in the order given. Or numbers for names, ``{"drip": 1, "burst": 1, "none": 0}``.
    attribute : str
        Of the root group of an HDF5 file.

    Returns
    -------
    dict
        Without `classes` the names and their numbers. With them the file's numbers and what each becomes, for :meth:`Column.map`: names that
        are not listed are left to its default.

    Examples
    --------
    >>> fb.class_map(ds)
    {'none': 0, 'drip': 1, 'burst': 2}
    >>> fb.col("labels").map(fb.class_map(ds, {"quiet": ["none"], "leak": ["drip", "burst"]}))
    """
    found = _numbers_of(data, attribute)
    if classes is None:
        return found
    result: dict[Any, int] = {}
    for place, (key, value) in enumerate(classes.items()):
        is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        for name in value if is_list else [key]:
            if name not in found:
                raise ValueError(f"there is no class {name!r}: there are {', '.join(map(repr, found))}")
            target = place if is_list else count(value, f"the number of {key!r}", -(2**63), 2**63 - 1)
            if result.setdefault(found[name], target) != target:
                raise ValueError(f"class {name!r} is merged into two")
    return result


def _numbers_of(data: Any, attribute: str) -> dict[str, int]:
    if hasattr(data, "attrs"):
        attributes = data.attrs
        if attribute not in attributes:
            raise ValueError(f"the first file has no attribute {attribute!r}: it has {', '.join(map(repr, attributes)) or 'none'}")
        data = attributes[attribute]
    if hasattr(data, "tolist"):
        data = data.tolist()  # an attribute of several texts
    if isinstance(data, bytes):
        data = data.decode()
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise ValueError(f"{attribute} is no JSON: {error}") from None
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        data = {name: place for place, name in enumerate(data)}
    if not isinstance(data, Mapping):
        raise TypeError(f"{attribute} holds a mapping of names and numbers, not {type(data).__name__}")
    result: dict[str, int] = {}
    for key, value in data.items():
        name, number = (key, value) if isinstance(value, int) else (value, key)
        try:
            number = int(number)
        except (TypeError, ValueError):
            raise ValueError(f"{attribute}: neither of {key!r} and {value!r} is a class number") from None
        if result.setdefault(str(name), number) != number:
            raise ValueError(f"{attribute} names {name!r} twice")
    return result


def is_encoded(make: tuple | None) -> bool:
    """Is the output made here?"""
    return make is not None and make[0] in (MAKE_BITS, MAKE_ONE_HOT, MAKE_MAP, MAKE_NGRAMS, MAKE_EXPRESSION)


def text_of(column: "Column") -> str | None:
    """An output that is made here, as it was written; None for others."""
    make = column.make
    if make is None or not is_encoded(make):
        return None
    if make[0] == MAKE_EXPRESSION:
        return f"expr({make[1]!r})"
    names = ", ".join(map(repr, column.columns))
    if make[0] == MAKE_NGRAMS:
        return f"ngrams({names}, n={make[1]}, vocabulary=<{len(make[2])} grams>)"
    if make[0] == MAKE_BITS:
        given = "" if make[1] == 0 else str(make[1])
        return f"col({names}).bits({given}{', ' * bool(given and make[2])}{f'encoding={_ENCODINGS[make[2]]!r}' * bool(make[2])})"
    if make[0] == MAKE_ONE_HOT:
        return f"col({names}).one_hot({make[1]}{', ignore_unknown=True' * make[2]})"
    default = "" if make[3] is None else f", default={make[3]!r}"
    return f"col({names}).map(<{len(make[2]) // 8} values>{default})"
