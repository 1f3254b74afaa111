"""What a data set is made of: files, blocks and chunks, as users look at them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from ._sizes import count


class File(NamedTuple):
    """One file: path as opened, name relative to the data set's root, format, sizes, and its blocks [first_block, first_block + n_blocks).

    What its format calls the groups of rows that it is stored in: "row group" and "row groups", or None where it has none.
    """

    path: str
    name: str
    format: str
    size_bytes: int
    rows: int
    groups: int
    first_block: int
    n_blocks: int
    group_word: str | None
    groups_word: str | None


class Block(NamedTuple):
    """One block, the unit of reading: rows [row_begin, row_end) of a file's row group; first_row is its place in the data set."""

    file: int
    group: int
    row_begin: int
    row_end: int
    first_row: int
    stored_bytes: int


class Chunk(NamedTuple):
    """One column of one row group. -1 (and page_version 0) means: not known without reading the pages."""

    codec: str
    encodings: list[str]
    n_values: int
    compressed_bytes: int
    uncompressed_bytes: int
    n_pages: int
    n_dictionary_values: int
    null_count: int
    page_version: int
    has_offset_index: bool
    has_crc: bool


T = TypeVar("T")


class Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when asked for: 10,000 files cost nothing until they are looked at."""

    __slots__ = ("_n", "_make")

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self._n, self._make = n, make

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self._make(i) for i in range(*key.indices(self._n))]
        i = count(key, "index", -sys.maxsize)
        if not -self._n <= i < self._n:
            raise IndexError(f"index {i} is out of range: there are {self._n}")
        return self._make(i % self._n)

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._n))

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:10]]
        if self._n > 10:
            shown.append(f"… and {self._n - 10:,} more")
        return "[" + ",\n ".join(shown) + "]"
