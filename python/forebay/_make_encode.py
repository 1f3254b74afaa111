"""Methods of Column that make something else of a row's value when a batch is built: bits, one-hot vectors, mapped numbers."""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _options
from ._advice import advised_methods
from ._options import text_value
from ._sizes import count

if TYPE_CHECKING:
    from ._outputs import Column

MAKE_BITS, MAKE_ONE_HOT, MAKE_MAP, MAKE_NGRAMS, MAKE_EXPRESSION = "bits", "one_hot", "map", "ngrams", "expression"


@advised_methods
class Encodings:
    """Methods of :class:`forebay.Column`."""

    def bits(self, n: int | None = None, encoding: str = "auto") -> "Column":
        """Unpack bits into numbers 0 and 1: shape (B, n), float32 unless :meth:`cast` says otherwise.

        Parameters
        ----------
        n : int, optional
            How many bits each value has. Not needed for arrays of bytes, whose length says it.
        encoding : str
            "text": characters '0' and '1'. "packed": bytes of eight bits, highest bit first, as ``numpy.packbits`` gives them. "packed_little": lowest
            bit first (``bitorder="little"``), also for the bits of whole numbers. "base64": packed bytes as base64 text (RFC 4648), padded or
            not. "auto": text for strings, packed for bytes and arrays of uint8.

        Raises
        ------
        DataError
            While iterating, for a value of another length, with another character, that is not base64, or missing.

        Examples
        --------
        >>> fb.col("bloomfilter").bits(1024)
        """
        return self._made(MAKE_BITS, **_options.checked(MAKE_BITS, locals()))

    def one_hot(self, n_classes: int, ignore_unknown: bool = False) -> "Column":
        """One-hot vectors: shape (B, n_classes), float32 unless :meth:`cast` says otherwise.

        Parameters
        ----------
        n_classes : int
            Values are whole numbers from 0 to n_classes - 1. Others, and missing ones, raise DataError.
        ignore_unknown : bool
            Let those give zeros instead.
        """
        return self._made(MAKE_ONE_HOT, **_options.checked(MAKE_ONE_HOT, locals()))

    def map(self, mapping: Mapping[Any, float], default: float | None = None) -> "Column":
        """Replace each value by the number it is mapped to: shape (B,), int64 if all targets are whole numbers, else float32, or as :meth:`cast` says.

        Parameters
        ----------
        mapping : mapping of int or of str to number
            Several values may be mapped to one number. :func:`forebay.class_map` makes one from a file's ``labels_json``.
        default : float, optional
            The number for values that are not in the mapping, and for missing ones. By default they raise DataError.

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
        return self._made(MAKE_MAP, values=_keys(mapping), to=to, default=otherwise)

    def _made(self, what: str, **options: Any) -> "Column":
        column: Column = self  # type: ignore[assignment]
        if column.make is not None or column.mask_of:
            raise ValueError(f"{what}() is made of a column's values, not of what was made of them already: {column!r}")
        if len(column.columns) != 1:
            raise ValueError(f"{what}() takes one column, not {len(column.columns)}: write an output for each")
        return dataclasses.replace(column, make=(what, options))


def _target(value: Any, what: str) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} is {value!r}: a number is expected")
    return float(value)


def _keys(mapping: Mapping[Any, Any]) -> Any:
    """Strings as a tuple, whole numbers as the bytes of an int64 array."""
    keys = list(mapping)
    if keys and all(isinstance(key, str) for key in keys):
        return tuple(text_value(key, "a value that is mapped") for key in keys)
    for key in keys:
        if isinstance(key, str):
            raise TypeError(f"values that are mapped are all numbers or all strings: {key!r} is a str and others are not")
    whole = [int(key) if isinstance(key, bool) else count(key, "a value that is mapped", -(2**63), 2**63 - 1) for key in keys]
    return array.array("q", whole).tobytes()


def is_encoded(make: tuple | None) -> bool:
    """Is it made by one of these methods, by ngrams() or expr()?"""
    return make is not None and make[0] in (MAKE_BITS, MAKE_ONE_HOT, MAKE_MAP, MAKE_NGRAMS, MAKE_EXPRESSION)


def text_of(column: "Column") -> str | None:
    """Such an output as it was written; None for others."""
    make = column.make
    if make is None or not is_encoded(make):
        return None
    kind, given = make
    if kind == MAKE_EXPRESSION:
        return f"expr({given['text']!r})"
    names = ", ".join(map(repr, column.columns))
    if kind == MAKE_NGRAMS:
        return f"ngrams({names}, n={given['n']}, vocabulary=<{len(given['vocabulary'])} grams>)"
    if kind == MAKE_BITS:
        words = [str(given["n"])] if "n" in given else []
        words += [] if given["encoding"] == "auto" else [f"encoding={given['encoding']!r}"]
        return f"col({names}).bits({', '.join(words)})"
    if kind == MAKE_ONE_HOT:
        return f"col({names}).one_hot({given['n_classes']}{', ignore_unknown=True' * given['ignore_unknown']})"
    default = "" if given["default"] is None else f", default={given['default']!r}"
    return f"col({names}).map(<{len(given['to']) // 8} values>{default})"
