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


def _one_of(option: dict[str, Any], value: Any) -> Any:
    if value not in option["choices"]:
        *first, last = map(repr, option["choices"])
        raise ValueError(f"{option['name']}={value!r}: use {', '.join(first)} or {last}")
    return value


def _usual(option: dict[str, Any]) -> Any:
    """The default as Python has it; None where it is no value."""
    kind, default = option["type"], option["default"]
    if kind == "bool":
        return False
    if option["choices"]:
        return default
    if default == "nothing":
        return ""
    return int(default) if default.lstrip("-").isdigit() else None


def plain(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of a function's arguments (its ``locals()``) the options of a set that need no form of their own; None is left out."""
    out: dict[str, Any] = {}
    for option in table(name):
        word, kind = option["name"], option["type"]
        value = given.get(word)
        if value is None or option["form"] is not None or not option["in_python"]:
            continue
        if kind == "choice":
            _one_of(option, value)
        if kind == "double" and isinstance(value, bool):
            raise TypeError(f"{word} must be a number, not {value!r}")
        out[word] = size_bytes(value, word) if kind == "bytes" else _texts(value, word) if kind in ("texts", "paths") else value
    return out


_MOST = {"u32": 2**32 - 1, "u64": 2**63 - 1, "int": 2**31 - 1}


def _allowed(option: dict[str, Any], value: Any) -> Any:
    word, kind = option["name"], option["type"]
    if kind in _MOST:
        return count(value, word, option["least"], option["most"] or _MOST[kind])
    if kind == "bool":
        return switch(value, word)
    if kind == "choice":
        return _one_of(option, value)
    if kind == "text":
        return text_value(value, word)
    assert kind == "double", kind  # no set that is checked has others
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{word} must be a number, not {type(value).__name__}")
    return float(value)


def checked(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """As plain(), of what the library sees only later: each value is one that its row allows, or it is refused here. None is the default."""
    out: dict[str, Any] = {}
    for option in table(name):
        if option["form"] is not None or not option["in_python"]:
            continue
        value = given.get(option["name"])
        if value is None and option["default"] == "needed":
            raise TypeError(f"{option['name']} is needed")
        value = _usual(option) if value is None else value
        if value is not None:
            out[option["name"]] = _allowed(option, value)
    return out


def changed(name: str, given: Mapping[str, Any]) -> list[str]:
    """Of a function's arguments the options of a set that are not as they are by default."""
    out = []
    for option in table(name):
        word = option["name"]
        value = given.get(word)
        is_usual = value is None or value is False or (isinstance(value, (str, int, float)) and value == _usual(option))
        if not is_usual and (not isinstance(value, Mapping) or value):
            out.append(word)
    return out
