"""Old names: errors that say what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Renamed:
    """A method of another name now, as an attribute of its class."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"there is no .{self._name}() any more: write {self._instead}")


def refuse_renamed(what: str, given: Mapping[str, Any], instead: Mapping[str, str]) -> None:
    """Raise TypeError for keyword arguments that a function does not have; `instead` says what some of them are now."""
    for name in given:
        hint = f": write {instead[name]}" if name in instead else ""
        raise TypeError(f"{what} got an unexpected keyword argument {name!r}{hint}")
