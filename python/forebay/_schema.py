"""The schema of a data set as readable objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from ._advice import nearest
from ._forebay import printable


class Field(NamedTuple):
    """One node of the schema.

    Attributes
    ----------
    name : str
        Own name, "time".
    path : str
        Dotted path from the root, "pulses.time": what loaders take.
    kind : str
        "bool", "int", "float", "decimal", "date", "time", "timestamp", "duration", "interval", "string", "binary",
        "fixed_binary", "list", "fixed_list", "struct", "map" or "null".
    type : str
        The whole type for people: "float32", "timestamp[us, UTC]", "list<int16>".
    dtype : str or None
        Dtype of its tensor; None when it is not a bool, number or time.
    unit : str or None
        Of a time: "s", "ms", "us" or "ns".
    nullable, utc : bool
    precision, scale, byte_width, list_size : int
        Of decimals, fixed-size binaries and fixed-size lists; else 0.
    units : str or None
        The unit of the numbers as the file says it: "days since 1970-01-01", "mm" (NetCDF). They stay numbers.
    children : tuple of Field
    """

    name: str
    path: str
    kind: str
    type: str
    dtype: str | None
    unit: str | None
    nullable: bool
    utc: bool
    precision: int
    scale: int
    byte_width: int
    list_size: int
    units: str | None
    children: tuple["Field", ...]

    def __str__(self) -> str:
        units = f" [{self.units}]" if self.units else ""
        return printable(f"{self.name}: {self.type}{'' if self.nullable else ' not null'}{units}")

    def leaves(self) -> Iterator["Field"]:
        """The fields below that hold values (self, when it has no children), depth first."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def _field(raw: dict[str, Any]) -> Field:
    return Field(**{**raw, "children": tuple(map(_field, raw["children"]))})


class Schema(Sequence[Field]):
    """The columns of a data set: a sequence of Field, also by name or dotted path (``schema["pulses.time"]``)."""

    __slots__ = ("_fields", "_by_path")

    def __init__(self, root: tuple) -> None:
        self._fields = _field(root).children
        self._by_path: dict[str, Field] | None = None

    @overload
    def __getitem__(self, key: int | str) -> Field: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Field, ...]: ...
    def __getitem__(self, key):
        if not isinstance(key, str):
            return self._fields[key]
        field = self._index().get(key)
        if field is None:
            close = nearest(key, self._index(), 0.6, 3)
            raise KeyError(f"no column {key!r}" + (f"; did you mean {', '.join(map(repr, close))}?" if close else ""))
        return field

    def _index(self) -> dict[str, Field]:
        if self._by_path is None:
            by_path: dict[str, Field] = {}
            todo = list(reversed(self._fields))
            while todo:
                field = todo.pop()
                by_path.setdefault(field.path, field)  # a list and its element share a path: the list wins
                todo.extend(reversed(field.children))
            self._by_path = by_path
        return self._by_path

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __contains__(self, key: object) -> bool:
        return key in self._index() if isinstance(key, str) else key in self._fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(field.name for field in self._fields)

    @property
    def paths(self) -> tuple[str, ...]:
        """Dotted paths of all fields that hold values: what an output of a loader may name."""
        seen: dict[str, None] = {}
        for field in self._fields:
            for leaf in field.leaves():
                seen.setdefault(leaf.path)
        return tuple(seen)

    def __repr__(self) -> str:
        return self._text(10_000)

    def _text(self, most: int) -> str:
        lines: list[tuple[str, str]] = []

        def add(field: Field, depth: int) -> None:
            lines.append(("  " * depth + printable(field.name), printable(field.type) + ("" if field.nullable else " not null")))
            inner = field
            while inner.kind in ("list", "fixed_list", "map") and inner.children:
                inner = inner.children[0]
            for child in inner.children:
                add(child, depth + 1)

        for field in self._fields:
            add(field, 0)
        shown = lines if len(lines) <= most else lines[: most - 1]
        width = min(max((len(name) for name, _ in shown), default=0), 40)
        text = [f"{name:<{width}}  {kind}" for name, kind in shown]
        if len(shown) < len(lines):
            text.append(f"… and {len(lines) - len(shown):,} more")
        return "\n".join(text)
