"""Moments of columns: fitted in one parallel pass over a data set or a part of it, saved, and undone in predictions."""

from __future__ import annotations

import array
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

from . import _forebay, _ops, _options
from ._advice import Known, advised
from ._dataset import Dataset
from ._forebay import printable
from ._lookup import Key, Lookup
from ._make_select import MAKE_SELECT, MAKE_TIME, axis_sizes
from ._mix import Mix
from ._outputs import Column, col
from ._samples import Samples

_VERSION, _VERSION_AXIS = 1, 2
_OF_A_GROUP = ("mean", "std", "n", "missing", "min", "max")  # as fby_fit_groups has them, each for all columns
_NUMBERS = ("n", "missing", "mean", "std", "min", "max")


class Moment(NamedTuple):
    """Moments of one column. All except the counts are NaN when it has no values. Fitted along an axis, tuples of one for each place."""

    n: Any
    missing: Any
    mean: Any
    std: Any
    min: Any
    max: Any


class Moments(Mapping[str, Moment], Known):
    """Mean, standard deviation, minimum and maximum of columns, by name: what :func:`fit` returns.

    ``moments["prcp"].mean``; :meth:`to_dict` is plain numbers and text, for ``json.dump``.
    """

    _other_words = dict.fromkeys(_NUMBERS, "each column has its own: moments['prcp'].mean")

    def __init__(self, columns: Mapping[str, Iterable[Any]], axis: int | None = None) -> None:
        self._columns = {name: Moment(*values) for name, values in columns.items()}
        self._axis = axis

    @property
    def axis(self) -> int | None:
        """The axis whose places have moments each, counted from the end; None: the moments are of whole columns."""
        return self._axis

    def __getitem__(self, name: str) -> Moment:
        if name not in self._columns:
            raise KeyError(f"nothing was fitted for column {name!r}: these moments are of {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = [f"  {printable(name)}{_label(m, k)}: {_shown(m, k)}" for name, m in self.items() for k in _places(m)]
        return "\n".join(["<forebay.Moments:" if self._axis is None else f"<forebay.Moments along axis {self._axis}:", *rows]) + ">"

    def scales(self, columns: str | Sequence[str]) -> tuple[Any, Any]:
        """(mean, std) of a column, or two tuples of several columns. A standard deviation of 0 is given as 1, as standardising uses it.

        Along an axis each is a tuple of one for each place.
        """
        if isinstance(columns, str):
            means, stds = self.scales((columns,))
            return means[0], stds[0]
        for name in columns:
            if name not in self._columns:
                raise ValueError(f"nothing was fitted for column {name!r}: these moments are of {', '.join(self._columns)}")
            for k in _places(self._columns[name]):
                if _at(self._columns[name].n, k) == 0:
                    raise ValueError(f"column {name!r}{_label(self._columns[name], k)} had no values when it was fitted")
        found = [self._columns[name] for name in columns]
        stds = tuple(tuple(v or 1.0 for v in m.std) if isinstance(m.std, tuple) else m.std or 1.0 for m in found)
        return tuple(m.mean for m in found), stds

    def inverse(self, values: Any, columns: str | Sequence[str]) -> Any:
        """Standardised values back to what they were: ``values * std + mean``, on the device and in the dtype they have; float16 and bfloat16,
        which may not hold the result, become float32.

        Parameters
        ----------
        values : NumPy array, torch tensor or number
        columns : str or list of str
            One name: all values are of that column. A list: the last axis runs over its columns.

        Examples
        --------
        >>> moments.inverse(model(batch["x"]), "streamflow")
        """
        means, stds = self.scales(columns)
        if isinstance(values, (list, tuple)):
            raise TypeError(f"values are an array, a tensor or a number, not a {type(values).__name__}: numpy.asarray(values)")
        values = _wide(values)
        if self._axis is not None:
            return self._inverse_along(values, columns, means, stds)
        if isinstance(columns, str):
            return values * stds + means
        if values.shape[-1] != len(means):
            raise ValueError(f"the last axis is {values.shape[-1]} long, and {len(means)} columns are named")
        if hasattr(values, "new_tensor"):
            return values * values.new_tensor(stds) + values.new_tensor(means)
        import numpy

        dtype = values.dtype if values.dtype.kind == "f" else None
        return values * numpy.asarray(stds, dtype) + numpy.asarray(means, dtype)

    def _inverse_along(self, values: Any, columns: Any, means: Any, stds: Any) -> Any:
        if not isinstance(columns, str):
            raise ValueError("moments along an axis are undone column by column: name one")
        shape = (len(means),) + (1,) * (-self._axis - 1)  # type: ignore[operator]
        if len(values.shape) < len(shape) or values.shape[-len(shape)] != len(means):
            raise ValueError(f"axis {self._axis} has {len(means)} places, and the values have shape {tuple(values.shape)}")
        if hasattr(values, "new_tensor"):
            return values * values.new_tensor(stds).reshape(shape) + values.new_tensor(means).reshape(shape)
        import numpy

        dtype = values.dtype if values.dtype.kind == "f" else None
        return values * numpy.asarray(stds, dtype).reshape(shape) + numpy.asarray(means, dtype).reshape(shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text. What has no values has None in place of its numbers, since JSON has no NaN."""
        plain = {n: {k: _plain(v) for k, v in m._asdict().items()} for n, m in self.items()}
        return {"version": _VERSION, "columns": plain} if self._axis is None else {"version": _VERSION_AXIS, "axis": self._axis, "columns": plain}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Moments":
        """What :meth:`to_dict` gave.

        Raises
        ------
        ValueError
            For anything else, or what a newer version saved.
        """
        try:
            version, columns = saved["version"], saved["columns"]
            if version in (_VERSION, _VERSION_AXIS):
                read = {str(name): [_saved(c[k], k) for k in _NUMBERS] for name, c in columns.items()}
                return cls(read, int(saved["axis"]) if version == _VERSION_AXIS else None)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these are no saved moments: {error!r}") from None
        raise ValueError(f"these moments were saved as version {version!r}, and this is version {_VERSION}: fit them anew")


def _places(m: Moment) -> Iterable[int | None]:
    return range(len(m.n)) if isinstance(m.n, tuple) else (None,)


def _at(value: Any, place: int | None) -> Any:
    return value if place is None else value[place]


def _label(m: Moment, place: int | None) -> str:
    return "" if place is None else f"[{place}]"


def _shown(m: Moment, k: int | None) -> str:
    mean, std, low, high = (_at(v, k) for v in m[2:])
    return f"{mean:.6g} ± {std:.6g} in [{low:.6g}, {high:.6g}], n={_at(m.n, k):,}, missing={_at(m.missing, k):,}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _saved(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return tuple(_saved(v, name) for v in value)
    return int(value) if name in ("n", "missing") else math.nan if value is None else float(value)


def _wide(values: Any) -> Any:
    """Tensors and arrays in a float dtype that holds what was measured: float32 in place of narrower floats and of a tensor's integers."""
    if hasattr(values, "new_tensor"):
        return values.float() if not values.is_floating_point() or values.element_size() < 4 else values
    return values.astype("float32") if getattr(values, "dtype", None) == "float16" else values


class GroupedMoments(Mapping[Key, Moments]):
    """Moments of columns for each group of rows that share a key: what ``fit(…, by=…)`` returns.

    ``groups["basin_7"]["prcp"].mean``; the keys come in order of first appearance. :meth:`to_dict` is plain numbers and text, for
    ``json.dump``.
    """

    def __init__(self, table: Lookup, columns: Sequence[str]) -> None:
        self._all, self._columns = table, tuple(columns)  # columns of the table: all means, stds, counts, missing, minima, maxima
        self._tables: dict[tuple[str, ...], Lookup] = {}

    @property
    def by(self) -> str:
        """The column of the key."""
        return self._all.key

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that were fitted."""
        return self._columns

    @property
    def lookup(self) -> Lookup:
        """Means and standard deviations as a table by key, with the columns "prcp.mean", …, then "prcp.std", …"""
        return self._table(self._columns)

    def __getitem__(self, key: Key) -> Moments:
        row, n, found = self._all._core.row(self._all.row(key)), len(self._columns), {}
        for i, name in enumerate(self._columns):
            of = dict(zip(_OF_A_GROUP, row[i::n], strict=True))
            found[name] = (int(of["n"]), int(of["missing"]), of["mean"], of["std"], of["min"], of["max"])
        return Moments(found)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key: object) -> bool:
        return key in self._all

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupedMoments) and self.by == other.by and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<forebay.GroupedMoments: {len(self):,} groups by {self.by!r} of {', '.join(map(printable, self._columns))}>"

    def _places(self, columns: Sequence[str]) -> list[int]:
        for name in columns:
            if name not in self._columns:
                raise ValueError(f"nothing was fitted for column {name!r}: these moments are of {', '.join(self._columns)}")
        return [self._columns.index(name) for name in columns]

    def _table(self, columns: Sequence[str]) -> Lookup:
        """The means of these columns, then their standard deviations, as a table by key."""
        names = tuple(columns)
        if names not in self._tables:
            n, places = len(self._columns), self._places(names)
            wanted = [*places, *(n + i for i in places)]
            rows = memoryview(self._all._core.values()).cast("d")
            flat = array.array("d", (rows[row * len(_OF_A_GROUP) * n + i] for row in range(len(self)) for i in wanted))
            labels = [self._all.columns[i] for i in wanted]
            self._tables[names] = Lookup._make(self.by, self._all._core.keys(), labels, flat)
        return self._tables[names]

    def _keys_of(self, keys: Any) -> list[Key]:
        """Keys as a batch or a program has them: a list, an array, a tensor, Strings, a list of tensors."""
        if hasattr(keys, "to_list"):
            keys = keys.to_list()
        given = keys.tolist() if hasattr(keys, "tolist") else [key.item() if getattr(key, "ndim", 1) == 0 else key for key in keys]
        for key in given:
            if key in self._all:
                continue
            text = self._all._core.text
            if text == (True,) and not isinstance(key, str):
                raise TypeError(f"the groups by {self.by!r} have names, and a key given is {type(key).__name__}: give str, as batch[…].to_list() does")
            if text == (False,) and isinstance(key, str):
                raise TypeError(f"the groups by {self.by!r} are whole numbers, and a key given is the str {key!r}: give int")
            there = [repr(known) for known in self._all._core.keys()[:5]]
            raise KeyError(f"nothing was fitted for {self.by}={key!r}; the groups are {', '.join(there)}{', …' if len(self) > 5 else ''}")
        return given

    def scales(self, keys: Any, columns: str | Sequence[str]) -> tuple[Any, Any]:
        """(mean, std) of each key's group as two NumPy arrays: (len(keys),) of one column, (len(keys), n) of a list; a standard deviation of 0, or
        of a group without values, counts as 1.

        Raises
        ------
        KeyError, TypeError
            For a key that was not fitted, or is of another type.
        """
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        table = self._table(names)
        rows = table.values[[table.row(key) for key in self._keys_of(keys)]].reshape(-1, 2 * len(names))
        means, stds = rows[:, : len(names)], rows[:, len(names) :].copy()
        stds[~(stds > 0)] = 1.0
        return (means[:, 0], stds[:, 0]) if isinstance(columns, str) else (means, stds)

    def inverse(self, values: Any, columns: str | Sequence[str], keys: Any) -> Any:
        """Standardised values back to what they were: ``values * std + mean``, each with its own group's, on the device and in the dtype
        they have; float16 and bfloat16, which may not hold the result, become float32.

        Parameters
        ----------
        values : NumPy array or torch tensor
            The first axis runs over samples.
        columns : str or list of str
            One name: all values are of that column. A list: the last axis runs over its columns.
        keys : list of str, or of int, array, tensor, or Strings
            Each sample's group: what an output of the key's column holds.

        Examples
        --------
        >>> groups.inverse(model(batch["x"]), "streamflow", batch["basin"])
        """
        means, stds = self.scales(keys, columns)
        values = _wide(values)
        if len(means) != values.shape[0]:
            raise ValueError(f"{len(means)} keys for {values.shape[0]} samples")
        if not isinstance(columns, str) and values.shape[-1] != means.shape[1]:
            raise ValueError(f"the last axis is {values.shape[-1]} long, and {means.shape[1]} columns are named")
        middle = len(values.shape) - means.ndim
        shape = (means.shape[0], *(1,) * middle, *means.shape[1:])
        if hasattr(values, "new_tensor"):
            return values * values.new_tensor(stds.reshape(shape)) + values.new_tensor(means.reshape(shape))
        dtype = values.dtype if values.dtype.kind == "f" else None
        return values * stds.reshape(shape).astype(dtype) + means.reshape(shape).astype(dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text. What has no values has None in place of its numbers, since JSON has no NaN."""
        rows, n = memoryview(self._all._core.values()).cast("d"), len(self._columns)
        columns: dict[str, Any] = {}
        for i, name in enumerate(self._columns):
            step = len(_OF_A_GROUP) * n
            of = {what: [None if math.isnan(v) else v for v in rows[k * n + i :: step]] for k, what in enumerate(_OF_A_GROUP)}
            columns[name] = {what: [int(v) for v in of[what]] if what in ("n", "missing") else of[what] for what in _NUMBERS}
        return {"version": _VERSION, "by": self.by, "keys": self._all._core.keys(), "columns": columns}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "GroupedMoments":
        """What :meth:`to_dict` gave.

        Raises
        ------
        ValueError
            For anything else, or what a newer version saved.
        """
        try:
            version, by, keys, columns = saved["version"], saved["by"], list(saved["keys"]), saved["columns"]
            if version == _VERSION:
                parts = [columns[name][what] for what in _OF_A_GROUP for name in columns]
                if any(len(part) != len(keys) for part in parts):
                    raise ValueError("these are no saved moments: lists of other lengths than the keys")
                flat = array.array("d", (math.nan if part[row] is None else part[row] for row in range(len(keys)) for part in parts))
                labels = [f"{name}.{'count' if what == 'n' else what}" for what in _OF_A_GROUP for name in columns]
                return cls(Lookup._make(by, keys, labels, flat), tuple(columns))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these are no saved moments by group: {error!r}") from None
        raise ValueError(f"these moments were saved as version {version!r}, and this is version {_VERSION}: fit them anew")


@overload
def fit(
    data: Dataset | Samples | Mix, columns: Column | str | Sequence[str], *, by: None = None, axis: int | None = None, pad: float | None = None,
    count: str | None = None, clip_count: bool = False, memory: str | int | None = None, threads: int | None = None,
) -> Moments: ...  # fmt: skip
@overload
def fit(
    data: Dataset | Samples, columns: Column | str | Sequence[str], *, by: str, axis: None = None, pad: float | None = None, count: str | None = None,
    clip_count: bool = False, memory: str | int | None = None, threads: int | None = None,
) -> GroupedMoments: ...  # fmt: skip
@advised()
def fit(
    data: Dataset | Samples | Mix,
    columns: Column | str | Sequence[str],
    *,
    by: str | None = None,
    axis: int | None = None,
    pad: float | None = None,
    count: str | None = None,
    clip_count: bool = False,
    memory: str | int | None = None,
    threads: int | None = None,
) -> Moments | GroupedMoments:
    """Compute mean, standard deviation, minimum and maximum of columns in one parallel pass over the data, of all rows or by group.

    Nulls, NaN and infinities are left out and counted. The result is the same, bit for bit, with any number of threads.

    Parameters
    ----------
    data : Dataset, Samples or Mix
        Of samples, the rows that they consist of, each once however many windows it is part of. Fit on the training part only. Of a mixture, the
        moments of what a loader over it gives: each source comes in by its weight (docs/mixtures.md has the formulas).
    columns : str, list of str, or Column
        Columns of numbers; of a list column, all its elements. With operations, as in ``fb.col(…).log1p()``, the moments are those of their
        results: write :meth:`Column.standardize` after the same operations.
    by : str, optional
        The column of a key, whole numbers or strings: moments of each group of rows with the same key, as :class:`GroupedMoments`.
    axis : int, optional
        For columns of arrays: moments of each place on this axis of a row's value, counted from its end. -1 for one of each feature of
        (rows, particles, features). All columns have as many places.
    pad : float, optional
        A stored value that means nothing is there: left out before any operation, and counted as missing.
    count : str, optional
        For columns of arrays: the column that says how many places of the first axis hold values. The rest is left out.
    clip_count : bool
        Let a count that is beyond the axis mean all of it. By default it is a DataError.
    memory : str or int, optional
        The memory budget, as of :class:`Loader`.
    threads : int, optional
        By default the CPUs this process may use.

    Examples
    --------
    >>> splits = ds.windows(365, 7, time="date", step="1 day").split(train=0.8, test=0.2, by="time")
    >>> moments = fb.fit(splits["train"], ["prcp", "tmax"])
    >>> json.dump(moments.to_dict(), open("moments.json", "w"))
    >>> edges = fb.fit(jets, fb.col("adjacency").log10(1e-6), pad=-999)
    >>> particles = fb.fit(jets, "particles", axis=-1, count="n_particles")
    >>> groups = fb.fit(splits["train"], ["prcp", "tmax"], by="gauge_id")
    >>> x = fb.col("prcp", "tmax").standardize(groups, by="gauge_id").fill_nan(0)
    """
    given = dict(locals())
    datasets = [samples.dataset for samples in data.sources.values()] if isinstance(data, Mix) else []
    if isinstance(data, Mix):
        dataset, samples = datasets[0], None
        if by is not None:
            raise ValueError(f"by={by!r}: moments by group are of one data set: fit each source of the mixture")
    elif isinstance(data, Samples):
        dataset, samples = data.dataset, data._core
    elif isinstance(data, Dataset):
        dataset, samples = data, None
    else:
        hint = ": fb.open(…) opens files and frames"
        if hasattr(data, "state_dict"):
            hint = ": fit those that the loader is of"
        raise TypeError(f"fit() takes a data set, samples or a mixture, not {type(data).__name__}{hint}")
    if isinstance(columns, Mapping):
        raise TypeError("columns= are names or fb.col(…), not outputs by name: a list of names, or fit one output after the other")
    if not isinstance(columns, (Column, Iterable)):
        raise TypeError(f"columns= are names or fb.col(…), and {columns!r} is no column")
    column = columns if isinstance(columns, Column) else col(columns) if isinstance(columns, str) else col(list(columns))
    for name, one in ((name, one) for name in column.columns for one in datasets or [dataset]):
        if name in one.schema and one.schema[name].kind in ("string", "binary"):
            raise ValueError(f"column {name!r} holds strings: moments are of numbers (fb.encode({name!r}) numbers names)")
    if column.mask_of:
        raise ValueError(f"{column.mask_of}() is a mask: there is nothing to fit")
    if column.make is not None:
        raise ValueError(f"fit() takes the values of columns, and what is done to them row by row: not what is made of them{_instead(column, axis)}")
    if column.one_step or column.step_range != (0, 0):
        raise ValueError("fit() takes all rows of the samples, and .first(), .at() and .steps() choose some of each: leave it out")
    for word, given_axis in (("axis", axis), ("count", count)):
        if given_axis is not None and _ops.moves_axes(column):
            raise ValueError(f"{word}={given_axis!r} is about the array as it is stored, {_ops.BEFORE_AXES_MOVE}")
    if by is not None and not isinstance(by, str):
        raise TypeError(f"a column is named by a str, not {type(by).__name__}: {by!r}")
    if count is not None and not isinstance(count, str):
        raise TypeError(f"count is a column's name, not {type(count).__name__}: {count!r}")
    options = _options.plain("fit", {**given, "columns": column.columns})
    places = 0 if axis is None else _axis_places(dataset, column.columns[0], axis)
    if isinstance(data, Mix):
        found: Any = _forebay.fit_mix(data._given([None] * len(datasets)), column.ops, places, options)
    else:
        found = _forebay.fit(dataset._core, column.ops, samples, by, places, options)
    if by is not None:
        return GroupedMoments(Lookup._wrap(found, by), column.columns)
    if axis is None:
        return Moments(dict(zip(column.columns, found)))
    each = [tuple(zip(*found[i * places : (i + 1) * places])) for i in range(len(column.columns))]
    return Moments(dict(zip(column.columns, each)), axis)


def _instead(column: Column, axis: int | None) -> str:
    """What to write where moments are wanted of what is made of a column."""
    assert column.make is not None
    name = column.columns[0] if column.columns else "x"
    if column.make[0] == MAKE_SELECT:
        along = -1 if axis is None else axis
        return f". Fit all places of an axis, and select behind: fb.col({name!r}).standardize(fb.fit(data, {name!r}, axis={along}))[…]"
    if column.make[0] == MAKE_TIME:
        return f". Fit the column as it is stored, without the cast: {name!r}"
    return ". Fit the columns, standardise them, and make it of the results"


def _axis_places(dataset: Dataset, column: str, axis: int) -> int:
    """Places of an axis of a column's value; 1 where there is no such axis, which fitting refuses."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"axis={axis!r}: a whole number is expected")
    if axis >= 0:
        raise ValueError(f"axis={axis}: the axes of a row's value are counted from the end: -1 is the last")
    sizes = axis_sizes(dataset, column)
    return sizes[axis] if -axis <= len(sizes) else 1
