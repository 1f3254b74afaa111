"""Options by the library's tables: what functions are given, as the extension takes it.

A function names its options in its signature, as its users read them; which of them the library knows, with which words and bounds, is in the
table of the set (``_forebay.options``), so that nothing is said twice.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from . import _forebay
from ._sizes import count, size_bytes


@functools.cache
def table(name: str) -> tuple[dict[str, Any], ...]:
    """The rows of a set: name, field, type, in_file, in_python, order, least, most, choices, default, form, help."""
    return tuple(_forebay.options(name))


def _texts(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{name}: a str or a list of them is expected, not {type(value).__name__}") from None


def switch(value: Any, name: str) -> bool:
    """True or False: not by its truth, since that of "no" is True."""
    try:
        yes, no = bool(value == True), bool(value == False)  # noqa: E712  NumPy's bools are equal to these, and not the same
    except ValueError:  # of an array
        yes = no = False
    if yes or no:
        return yes
    raise TypeError(f"{name} must be True or False, not {value!r}")


def text_value(value: Any, what: str) -> str:
    """A str that C can take."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {type(value).__name__}: {value!r}")
    if "\0" in value:
        raise ValueError(f"{what} cannot hold a NUL character: {value!r}")
    return str(value)


def plain(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a function's arguments (its ``locals()``) the options of a set that need no form of their own; None is left out."""
    out: dict[str, Any] = {}
    for option in table(name):
        word, kind = option["name"], option["type"]
        value = given.get(word)
        if value is None or option["form"] is not None or not option["in_python"]:
            continue
        if kind == "choice" and value not in option["choices"]:
            *first, last = map(repr, option["choices"])
            raise ValueError(f"{word}={value!r}: use {', '.join(first)} or {last}")
        if kind == "double" and isinstance(value, bool):
            raise TypeError(f"{word} must be a number, not {value!r}")
        out[word] = size_bytes(value, word) if kind == "bytes" else _texts(value, word) if kind in ("texts", "paths") else value
    return out


_MOST = {"u32": 2**32 - 1, "u64": 2**63 - 1, "int": 2**31 - 1}


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """As plain(), of what the library sees only later: each value is one that its row allows, or it is refused here. None is the default."""
    of_numbers = {option["name"] for option in table(name) if option["type"] == "double"}
    out = plain(name, {word: float(value) if word in of_numbers and isinstance(value, bool) else value for word, value in given.items()})
    for option in table(name):
        word, kind, default = option["name"], option["type"], option["default"]
        if not option["in_python"] or option["form"] is not None:
            continue
        if word not in out and default == "needed":
            raise TypeError(f"{word} is needed")
        if word not in out and (kind in ("bool", "choice") or default == "nothing" or default.lstrip("-").isdigit()):
            out[word] = False if kind == "bool" else default if kind == "choice" else "" if kind == "text" else int(default)
        if word not in out:
            continue
        if kind in _MOST:
            out[word] = count(out[word], word, option["least"], option["most"] or _MOST[kind])
        elif kind == "double" and (isinstance(out[word], (str, bytes)) or not hasattr(out[word], "__float__")):
            raise TypeError(f"{word} must be a number, not {type(out[word]).__name__}")
        elif kind == "bool":
            out[word] = switch(out[word], word)
        elif kind == "text":
            out[word] = text_value(out[word], word)
        elif kind == "double":
            out[word] = float(out[word])
    return {option["name"]: out[option["name"]] for option in table(name) if option["name"] in out}


def changed(name: str, given: Mapping[str, Any]) -> list[str]:
    """Of a function's arguments the options of a set that are not as they are by default."""
    out = []
    for option in table(name):
        word, default = option["name"], option["default"]
        value = given.get(word)
        usual: Any = default if option["choices"] else int(default) if default.isdigit() else None
        is_usual = value is None or value is False or (isinstance(value, (str, int, float)) and value == usual)
        if not is_usual and (not isinstance(value, Mapping) or value):
            out.append(word)
    return out
