"""Tables beside the data, found by a key: static attributes, sensor geometry, names and their numbers."""

from __future__ import annotations

import array
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from . import _forebay, _options
from ._advice import advised
from ._dataset import Dataset, open as open_dataset
from ._forebay import printable
from ._make_lookup import MAKE_LOOKUP, keys_of
from ._outputs import Column, dtype_name
from ._samples import Samples
from ._sizes import count
from ._sources import is_path

Key = Union[int, str, tuple[Union[int, str], ...]]


class Lookup:
    """A table of numbers by key, in memory; keys are whole numbers or strings, or of several columns tuples of them.

    ``print(table)`` describes it, ``len(table)`` is the number of keys, ``table["basin_7"]`` a dict of a key's values, and iterating gives the
    keys; ``"basin_7" in table`` works too. It is immutable, can be shared by any number of loaders, and is pickled with its values.

    Parameters
    ----------
    table : path, glob, directory, pattern, list of these, Dataset, DataFrame or dict
        Paths are opened as by :func:`forebay.open`, all files as one table: rows are appended, and columns of rows with the same key are joined.
        A list may also hold data sets. A dict holds columns: ``{"sensor_id": ids, "x": x, "y": y}``. The index of a pandas DataFrame is a column if
        it has a name.
    key : str or sequence of str
        The key's column, which may be part of a path's pattern; or several columns, at most 8, by all of which a row is found.
    columns : str or list of str, optional
        The columns of values to keep, in this order. By default all columns of numbers or bools, in the table's order.
    fill_missing : float, optional
        Put this in place of missing values (null, NaN), which are NaN by default.
    first_wins : bool
        Take the first value when a key has different ones in a column. By default that is an error.
    threads : int, optional
        For reading; by default as many as the CPUs this process may use.
    memory : int or str, optional
        What the table, and reading it, may hold; by default the data set's `memory`, or half of what the process may take.
    dtypes : mapping, optional
        Types of columns of CSV and TSV files, as of :func:`forebay.open`: ``{"gauge_id": str}`` where the data has names, and the table digits.

    Raises
    ------
    BudgetError
        For a table that needs more than `memory`, with the bytes that would do.
    SchemaError
        For a column that is not there, and for a key that is a string in one file and a number in another.
    UnsupportedError
        For a named column that does not hold numbers, and for keys that are neither whole numbers nor strings.
    DataError
        For a missing key, and for one that comes again with another value; the message has file and row.

    A key of several columns is a tuple of their values, in their order: ``table["camels_1", 2001]``.

    Examples
    --------
    >>> attributes = fb.Lookup("attributes/attributes_*.csv.gz", "gauge_id")
    >>> attributes["camels_01013500"]["p_mean"]
    >>> geometry = fb.Lookup("sensor_geometry.csv", "sensor_id", ["x", "y", "z"])
    """

    @advised("Lookup")
    def __init__(
        self, table: Any, key: str | Sequence[str], columns: str | Sequence[str] | None = None, *, fill_missing: float | None = None, first_wins: bool = False,
        threads: int | None = None, memory: int | str | None = None, dtypes: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        options = _options.plain("lookup", {**locals(), "columns": None})
        keys = _key_names(key, "key")
        names = None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
        for name in names or ():
            if not isinstance(name, str):
                raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
        if isinstance(table, Mapping) and not any(is_path(value) for value in table.values()):
            if dtypes:
                raise ValueError("dtypes= is about files: columns in memory have their types")
            self._core = _from_columns(table, keys, names, options.get("fill_missing"), _options.switch(first_wins, "first_wins"))
            if threads is not None:
                count(threads, "threads", 1, 1024)
        else:
            cores = tuple(dataset._core for dataset in _open(table, options.get("memory"), dtypes))
            self._core = _forebay.open_lookup(cores, {**options, "columns": names, "key": keys[0], "more_keys": keys[1:]})
        self._key = keys[0] if len(keys) == 1 else keys

    @classmethod
    def _wrap(cls, core: _forebay.Lookup, key: str | tuple[str, ...]) -> "Lookup":
        self = cls.__new__(cls)
        self._core, self._key = core, key
        return self

    @classmethod
    def _distinct(cls, dataset: Dataset, column: str) -> "Lookup":
        return cls._wrap(_forebay.distinct(dataset._core, column), column)

    @classmethod
    def _make(cls, key: str, keys: Sequence[Key], columns: Sequence[str], values: Any) -> "Lookup":
        """values: float64 row after row, anything with the buffer protocol."""
        return cls._wrap(_forebay.make_lookup((_key_buffer(keys),), tuple(columns), values), key)

    @property
    def key(self) -> str | tuple[str, ...]:
        """The name of the key's column; a tuple for a key of several columns."""
        return self._key

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of values."""
        return self._core.columns()

    @property
    def keys(self) -> Any:
        """The keys in order: a list of str or a NumPy array of int64 (without NumPy a list of int); a list of tuples for a key of several columns."""
        return keys_of(self._core)

    @property
    def values(self) -> Any:
        """The values: a NumPy array of float64, shape (len(table), len(table.columns)). Missing ones are NaN."""
        import numpy

        return numpy.frombuffer(self._core.values(), dtype=numpy.float64).reshape(len(self), len(self.columns)).copy()

    def row(self, key: Key) -> int:
        """The number of the row that has this key, from 0.

        Raises
        ------
        KeyError
            When the table does not have the key.
        """
        row = self._find(key)
        if row < 0:
            raise KeyError(key)
        return row

    def get(self, key: Key, default: Any = None) -> Any:
        """As ``table[key]``, or `default` when the key is not there."""
        return self[key] if key in self else default

    def _find(self, key: Any) -> int:
        texts = self._core.text
        values = (key,) if len(texts) == 1 else key
        if not isinstance(values, tuple) or len(values) != len(texts):
            return -1
        if any(isinstance(v, str) != text or not (text or hasattr(v, "__index__")) for v, text in zip(values, texts)):
            return -1
        return self._core.find(key)

    def __len__(self) -> int:
        return len(self._core)

    def __bool__(self) -> bool:
        return True  # a table without keys is still one

    def __contains__(self, key: object) -> bool:
        return self._find(key) >= 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self._core.keys())

    def __getitem__(self, key: Key) -> dict[str, float]:
        return dict(zip(self.columns, self._core.row(self.row(key))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lookup):
            return NotImplemented
        return self is other or (
            self.columns == other.columns and self._core.keys() == other._core.keys() and self._core.values() == other._core.values()
        )

    def __hash__(self) -> int:
        return hash((len(self), self.columns))

    def __repr__(self) -> str:
        columns = self.columns
        shown = ", ".join(map(printable, columns[:8])) + (f", … and {len(columns) - 8} more" if len(columns) > 8 else "")
        names = (self._key,) if isinstance(self._key, str) else self._key
        keys = ", ".join(f"{printable(name)}: {'str' if text else 'int64'}" for name, text in zip(names, self._core.text))
        head = f"<forebay.Lookup: {len(self):,} keys ({keys}) × {len(columns)} columns"
        lines = [head + (f": {shown}" if shown else "")]
        for i, key in enumerate(self._core.keys()[:5]):
            lines.append(f"  {key!r}: " + ", ".join(f"{v:.6g}" for v in self._core.row(i)[:8]) + (", …" if len(columns) > 8 else ""))
        if len(self) > 5:
            lines.append(f"  … and {len(self) - 5:,} more")
        return "\n".join(lines) + ">"

    def __reduce__(self):
        return (_remake, (self._key, _pack_keys(self._core), self.columns, self._core.values()))


def _key_names(key: Any, what: str) -> tuple[str, ...]:
    """The columns of a key."""
    names = (key,) if not isinstance(key, (list, tuple)) else tuple(key)
    if not names:
        raise ValueError(f"{what}={key!r}: a key has at least one column")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what}={key!r}: a column is named by a str, not {type(name).__name__}")
    return names


def _pack_keys(core: _forebay.Lookup) -> tuple[Any, ...]:
    """The keys' values, column by column."""
    keys, texts = core.keys(), core.text
    columns = [keys] if len(texts) == 1 else [[key[i] for key in keys] for i in range(len(texts))]
    return tuple(tuple(column) if text else array.array("q", column).tobytes() for column, text in zip(columns, texts))


def _remake(key: Any, keys: tuple[Any, ...], columns: tuple[str, ...], values: bytes) -> Lookup:
    return Lookup._wrap(_forebay.make_lookup(keys, columns, values), key)


def _key_buffer(keys: Sequence[Key]) -> Any:
    """A tuple of str, or int64 as a buffer."""
    if hasattr(keys, "tolist"):
        keys = keys.tolist()
    keys = list(keys)
    if all(isinstance(key, str) for key in keys) and keys:
        return tuple(keys)
    try:
        return array.array("q", keys)
    except (TypeError, OverflowError) as error:
        wrong = next((key for key in keys if isinstance(key, bool) or not hasattr(key, "__index__")), None)
        if wrong is None:
            raise ValueError(f"keys are whole numbers of 64 bits: {error}") from None
        raise TypeError(f"keys are all str or all int, not {type(wrong).__name__}: {wrong!r}") from None


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _from_columns(table: Mapping[str, Any], key: tuple[str, ...], names: tuple[str, ...] | None, fill: float | None, first_wins: bool) -> _forebay.Lookup:
    """A dict of columns: lists, arrays, Series."""
    for name in key:
        if name not in table:
            raise _forebay.SchemaError(f"there is no column {name!r}: the table has {', '.join(map(str, table))}")
    keys = tuple(_key_buffer(table[name]) for name in key)
    n_keys, lists = len(keys[0]), {}
    for name, values in zip(key, keys):
        if len(values) != n_keys:
            raise ValueError(f"columns differ in length: {key[0]!r} has {n_keys} rows, {name!r} has {len(values)}")
    for name in names if names is not None else [name for name in table if name not in key]:
        if name not in table:
            raise _forebay.SchemaError(f"there is no column {name!r}: the table has {', '.join(map(str, table))}")
        values = table[name].tolist() if hasattr(table[name], "tolist") else list(table[name])
        if len(values) != n_keys:
            raise ValueError(f"columns differ in length: {key[0]!r} has {n_keys} rows, {name!r} has {len(values)}")
        if any(isinstance(value, (str, bytes)) for value in values):
            if names is None:
                continue
            raise _forebay.UnsupportedError(f"column {name!r} holds strings, which cannot be looked up: values are numbers or bools")
        lists[str(name)] = [_number(value) for value in values]
    rows: dict[Any, list[float]] = {}
    for row, found in enumerate(zip(*keys)):
        values = [column[row] for column in lists.values()]
        rows[found] = _merged(found, list(lists), rows[found], values, first_wins) if found in rows else values
    if len(rows) < n_keys:
        keys = tuple(tuple(column) if isinstance(column[0], str) else array.array("q", column) for column in zip(*rows))
    flat = array.array("d", (value for values in rows.values() for value in values))
    if fill is not None:
        number = float(fill)
        if not math.isfinite(number):
            raise ValueError(f"fill_missing={fill}: a finite number is expected; missing values are NaN without it")
        flat = array.array("d", (number if math.isnan(value) else value for value in flat))
    return _forebay.make_lookup(keys, tuple(lists), flat)


def _merged(key: tuple[Key, ...], names: list[str], before: list[float], now: list[float], first_wins: bool) -> list[float]:
    """The values of a key that comes again: those that were missing are there now, others are the same ones, or the first ones."""
    for name, a, b in zip(names, before, now):
        if not (first_wins or a == b or math.isnan(a) or math.isnan(b)):
            shown = key[0] if len(key) == 1 else key
            raise _forebay.DataError(
                f"the key {shown!r} has {b:.17g} for column {name!r}, and had {a:.17g} before: a key may come again with the same values only, "
                "unless first_wins=True (of a pipeline file: first_wins: true) lets the first one count"
            )
    return [b if math.isnan(a) else a for a, b in zip(before, now)]


def _open(table: Any, memory: int | None, dtypes: Mapping[str, Any] | None) -> list[Dataset]:
    if isinstance(table, Samples):
        raise TypeError("a lookup is made of a whole table: pass its data set")
    if isinstance(table, (list, tuple)) and not all(is_path(item) for item in table):
        return [dataset for item in table for dataset in _open(item, memory, dtypes)]
    if isinstance(table, Dataset):
        if dtypes:
            raise ValueError("dtypes= says how files are opened, and this data set is open: give it to fb.open")
        return [table]
    if is_path(table) or isinstance(table, (Mapping, list, tuple)):
        return [open_dataset(list(table) if isinstance(table, tuple) else table, missing_columns="fill", memory=memory, dtypes=dtypes)]
    return [open_dataset(table, memory=memory, dtypes=dtypes)]


def _as_table(table: Any, key: str | Sequence[str], columns: tuple[str, ...] | None, first_wins: bool) -> Lookup:
    return table if isinstance(table, Lookup) else Lookup(table, key, columns, first_wins=first_wins)


@advised()
def lookup(
    table: Any,
    on: str | Sequence[str],
    columns: str | Iterable[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    default: float | None = None,
    first_wins: bool = False,
    dtype: Any = None,
) -> Column:
    """Look up values in a table by a key of the data, as one output: static attributes of a basin, the position of a sensor.

    Parameters
    ----------
    table : Lookup, or what :class:`Lookup` takes
        A path, glob, directory, pattern, list of these, Dataset, DataFrame or dict of columns.
    on : str or sequence of str
        The column of the data that holds the key, whole numbers or strings; it may be part of the files' names. For a key of several columns, at
        most 8, as many of the same types in the same order: ``on=["site", "year"]``.
    columns : str or list of str, optional
        The table's columns. One name gives shape (B,); a list is stacked along the last axis, shape (B, n). By default all columns.
    key : str or sequence of str, optional
        The name of the key's column, or columns, in the table, where it differs from `on`.
    default : float, optional
        The value for keys that are not in the table, and for missing keys. By default they raise DataError with the key.
    first_wins : bool
        As of :class:`Lookup`.
    dtype : str, numpy dtype or torch dtype, optional
        float32 by default.

    Returns
    -------
    Column
        For windows and groups, a key of whole numbers is looked up for every row: (B, steps, n), or packed; ``.first()`` and ``.at(step)`` take
        one row. By the groups' own key it is looked up once a group: (B, n); ``.ragged()`` and ``.padded()`` ask for every row. A string is looked up
        once, for the sample's first row: (B, n). In a key of several columns, numbers are taken from every row and strings from the sample's first
        row; a key of strings only gives (B, n).

    Raises
    ------
    SchemaError, UnsupportedError, DataError
        As of :class:`Lookup`. A key that is not in the table raises DataError at its batch.

    Examples
    --------
    >>> static = fb.lookup("attributes_*.csv.gz", on="gauge_id", columns=["p_mean", "area"])
    >>> place = fb.lookup(geometry, on="sensor_id", columns=["x", "y", "z"])
    >>> yearly = fb.lookup("yearly.csv", on=["site", "year"], columns=["budget"])
    """
    on_names = _key_names(on, "on")
    bare = isinstance(columns, str)
    names = None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
    try:
        found = _as_table(table, on if key is None else key, names, first_wins)
    except _forebay.SchemaError as error:
        lacks = key is None and any(f"no column {name!r}" in str(error) for name in on_names)
        named = f"; key= names its column for on={on!r} where that is another one" if lacks else ""
        error.args = (f"the table beside the data: {error}{named}",)
        raise
    if len(on_names) != len(found._core.text):
        raise ValueError(f"on={on!r}: {len(on_names)} column(s) for a key of {len(found._core.text)}, {found.key!r}: name as many, in its order")
    have = found.columns
    wanted = have if names is None else names
    for name in wanted:
        if name not in have:
            raise _forebay.SchemaError(f"there is no column {name!r} in the table: it has {', '.join(have) or 'none'}")
    if not wanted:
        raise ValueError("the table has no column of numbers to look up; for the place of the key in the table use fb.encode(column, table)")
    options = {
        "table": found, "columns": tuple(have.index(name) for name in wanted), "keep_axis": not bare, "default": None if default is None else float(default),
    }  # fmt: skip
    return Column(on_names, dtype=None if dtype is None else dtype_name(dtype), make=(MAKE_LOOKUP, options))


def encode(column: str, data: Any = None, *, default: int | None = None, dtype: Any = None) -> Column:
    """Encode a column of strings or whole numbers as numbers of its distinct values, from 0: int64, shape (B,).

    ``output.names[i]`` is the value that number i stands for. For windows and groups, strings are taken from the sample's first row, whole numbers
    from every row. The strings themselves are ``fb.col("gauge_id").first()``, with ``.to_list()`` in the batch.

    Parameters
    ----------
    column : str
    data : Dataset, Samples, Lookup or sequence of str or int, optional
        The values and their order: a list, or the keys of a table. Of a data set, the distinct values of the column in order of first appearance,
        which are the same for all splits. They are read once; not at all when the column is part of the files' names. By default those of the
        loader's data set, found when the loader is made: ``loader.outputs["basin"].names`` has them.
    default : int, optional
        The number for values that are not among the names, and for missing ones: by default -1 where the names come from the data, else an error.
    dtype : str, numpy dtype or torch dtype, optional
        int64 by default.

    Examples
    --------
    >>> basins = fb.encode("gauge_id", ds)
    >>> basins.names[batch["basin"][0]]
    """
    if not isinstance(column, str):
        raise TypeError(f"a column is named by a str, not {type(column).__name__}: {column!r}")
    table: Lookup | None
    if data is None or isinstance(data, (Dataset, Samples)):
        dataset = data.dataset if isinstance(data, Samples) else data
        table = None if dataset is None else Lookup._distinct(dataset, column)
        default = -1 if default is None else default
    elif isinstance(data, Lookup):
        table = data
    elif isinstance(data, str):
        raise TypeError(f"the names to encode with are a list, not the str {data!r}")
    else:
        table = Lookup._make(column, data, (), b"")
    whole = None if default is None else float(count(default, "default", -(2**53), 2**53))
    make = (MAKE_LOOKUP, {"table": table, "columns": (), "keep_axis": False, "default": whole})
    return Column((column,), dtype=None if dtype is None else dtype_name(dtype), make=make)
