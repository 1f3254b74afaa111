"""Old names: errors that say what to write."""

from __future__ import annotations

from typing import Any


class Renamed:
    """A method of another name now, as an attribute of its class."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(f"there is no .{self._name}() any more: write {self._instead}")
