"""Samples: what one training example is (rows, windows of consecutive rows, groups of rows that share a key), and which of them are used."""

from __future__ import annotations

import array
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union, overload

from . import _forebay, _hints, _options, _output_rows
from ._advice import SAMPLES_WORDS, SELECT_WORDS, TORCH_SAMPLES, Known, advised, named_splits, nearest, outside, refuse_torch
from ._loader import Loader
from ._sizes import count
from ._sources import progress_of
from ._values import bound, class_weights, known, listed, numbers, step_of

if TYPE_CHECKING:
    from ._dataset import Dataset

_SPLITS = ("files", "time", "groups", "samples")

Split = Union[float, Iterable[int], Iterable[str]]


class Samples(Known):
    """Samples of a data set: made by :meth:`Dataset.rows`, :meth:`Dataset.windows` or :meth:`Dataset.groups`.

    ``len()`` is their number. They are numbered in file order, and ``samples[i]`` is the range of row numbers of sample i. A mask, a slice, or an array
    or list of numbers in its place chooses samples, as :meth:`take`.
    Pickled samples are the data set and how they were made; unpickling finds them again.
    """

    _other_words = SAMPLES_WORDS

    def __init__(self, dataset: "Dataset", kind: str = "rows", core: Any = None, recipe: tuple = (), steps: tuple = ()) -> None:
        self._dataset, self._kind, self._core, self._recipe, self._steps = dataset, kind, core, recipe, steps

    @property
    def dataset(self) -> "Dataset":
        """The data set that they are rows of."""
        return self._dataset

    @property
    def kind(self) -> str:
        """"rows", "windows" or "groups"."""
        return self._kind

    @property
    def max_rows(self) -> int:
        """Rows of the longest sample."""
        return 1 if self._core is None else self._core.counts()[1]

    def __len__(self) -> int:
        refuse_torch(TORCH_SAMPLES.format(what="samples", name="samples"), trainers=True)
        return len(self._dataset) if self._core is None else self._core.counts()[0]

    def __bool__(self) -> bool:
        return True

    @overload
    def __getitem__(self, i: int) -> range: ...
    @overload
    def __getitem__(self, i: Any) -> "Samples": ...

    def __getitem__(self, i: Any) -> Any:
        refuse_torch(TORCH_SAMPLES.format(what="samples", name="samples"), trainers=True)
        if isinstance(i, (slice, list, range)) or len(getattr(i, "shape", ())) > 0:
            return self.take(i)
        if isinstance(i, (str, bytes, tuple, float)) or i is None:
            what = "splits are in the dict that split() returned" if isinstance(i, str) else "a number, a slice, a list or array of numbers, or a mask"
            raise TypeError(f"samples are taken by number, not by {i!r}: {what}")
        i = count(i, "index", -(2**63))
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} is out of range: there are {len(self)}")
        row, rows = (i % len(self), 1) if self._core is None else self._core.get(i % len(self))
        return range(row, row + rows)

    @property
    def notes(self) -> list[str]:
        """Remarks on how they were found, as sentences: how many windows drop_missing leaves out."""
        return [] if self._core is None else self._core.notes()[0]

    def __repr__(self) -> str:
        text = f"<forebay.Samples: {len(self):,} {self._kind}{''.join(', ' + text for *_, text in self._steps)}>"
        return "\n  ".join([_forebay.printable(text), *self.notes])

    # ---- some of them ----

    @advised(words=SELECT_WORDS)
    def select(
        self,
        column: str | Iterable[int] | Iterable[str] | None = None,
        *,
        ids: Iterable[int] | Iterable[str] | None = None,
        values: Iterable[Any] | None = None,
        low: Any = None,
        high: Any = None,
        on: str | None = None,
        table: Any = None,
        key: str | None = None,
        exclude: bool = False,
        unknown: str = "error",
        threads: int | None = None,
    ) -> "Samples":
        """Select samples by key or by the values of a column: ``groups.select([17, 21])``, ``rows.select("year", low=1990)``.

        A sample is judged by the value in its first row. The column is read once, here. Training does not read blocks without a selected sample.
        A selection takes a few bits of memory for each selected sample.

        Parameters
        ----------
        column : str, optional
            The column that `values`, `low` and `high` are about: of the data, of the index table that groups came from, or, with `table`, of that
            table. A list in its place is taken for `ids`.
        ids : list, array or set of int or str, optional
            Keys of samples: values of the key column. For windows over whole files, values of the last placeholder of the path, or names of
            files without extension.
        values : list, array or set, optional
            Select samples with one of these values: numbers, strings, bools, dates, times; dates and times also as text, "2001-01-31T12:30".
        low, high : number, date, time or their text; optional
            Select samples with low ≤ value < high.
        on : str, optional
            With `ids` or `table`: the column of the data that is looked up. By default the key.
        table : path, Dataset, or what :func:`forebay.open` takes; optional
            A table beside the data: selected are the keys of those of its rows whose `column` satisfies the condition, or of all its rows.
        key : str, optional
            The column of that table that holds the keys. By default the one with the name of `on`.
        exclude : bool
            Select all other samples instead.
        unknown : {"error", "ignore"}
            Whether ids and values that no sample has are an error. Keys of a table may always be unknown.
        threads : int, optional
            For reading the column.

        Raises
        ------
        ValueError
            For unknown ids (with their number and the first of them), when nothing is selected, and for arguments that do not fit.
        SchemaError, UnsupportedError
            For a column that is not there, or has no single value a row.
        """
        options = _options.plain("select", {**locals(), "column": None})
        if column is not None and not isinstance(column, str):
            if ids is not None:
                raise TypeError("a column is named by a str; ids are given once")
            column, ids = None, column
        if ids is not None and (values is not None or low is not None or high is not None or table is not None or column is not None):
            raise ValueError("ids= are keys: give either them, or a column with values=, low= or high=")
        if on is not None and ids is None and table is None:
            raise ValueError("on= names the column that ids= or table= are about; without them name it first: select('column', values=…)")
        if key is not None and table is None:
            raise ValueError("key= is a column of the side table: give table=")
        if table is None and ids is None and values is None and low is None and high is None:
            raise ValueError(f"select({column!r}): say which: list values of that column, or give low or high; keys are a list, select(['17', '21'])")
        ignore = known(unknown)
        side = None
        if table is not None:
            side = self._dataset._side_table(table)
        name = on if ids is not None or side is not None else column
        field = _field(side if side is not None else self, column if ids is None else (on or self._key))
        given = listed(ids if ids is not None else values, field, "ids" if ids is not None else "values")
        options.update(column=name, values=given, low=bound(low, field, "low"), high=bound(high, field, "high"), ignore_unknown=ignore)
        if side is not None:
            options.update(table=side, table_key=key, table_column=column)
        return self._with("select", (options,), "some")

    @advised()
    def limit(self, n: int | float, *, random: bool = False, seed: int = 0) -> "Samples":
        """Take the first `n` samples, for short runs while developing: ``samples.limit(1000)``, ``samples.limit(0.01)``.

        Parameters
        ----------
        n : int or float
            How many, or as a float in (0, 1] which fraction of them (at least one sample).
        random : bool
            Draw them at random with `seed`: the same samples every time, in file order.
        """
        if isinstance(n, str):
            raise TypeError(f"limit {n!r}: a number of samples is an int, and a fraction a float: limit(1000), limit(0.1)")
        if isinstance(n, float):
            if not 0 < n <= 1:
                raise ValueError(f"limit {n!r}: a fraction is above 0 and at most 1; a number of samples is an int")
            n = max(1, round(n * len(self)))
        n = count(n, "limit", 1)
        return self._with("limit", (n, _options.switch(random, "random"), count(seed, "seed", 0, 2**64 - 1)), "limited")

    @advised()
    def take(self, indices: Any) -> "Samples":
        """Take the samples with these numbers: ``samples.take([0, 5, 7])``, ``samples.take(numpy.flatnonzero(good))``, ``samples[good]``.

        They are a set with repeats: in the order of the samples, whatever the order of `indices`, and each as often as it is listed. Loaders shuffle
        them as any samples; ``shuffle=False`` gives file order.

        Parameters
        ----------
        indices : array, list, range or slice of int; or array or list of bool
            Numbers of samples; below 0 they count from the end. Or a mask: True or False for each sample.

        Raises
        ------
        IndexError
            For a number that no sample has, or a mask of another length.
        ValueError
            When no sample is left, or one is listed more than 65,535 times.
        """
        return self._with("take", (numbers(indices, len(self)),), "taken")

    # ---- splits ----

    @named_splits
    def split(
        self, *, by: str | None = None, seed: int = 0, stratify: str | None = None, time: str | None = None, at: str = "window",
        unknown: str = "error", **splits: Split,
    ) -> dict[str, "Samples"]:  # fmt: skip
        """Split into samples that share nothing: ``samples.split(train=0.7, val=0.15, test=0.15, by="samples")``.

        Parameters
        ----------
        by : str, optional
            "files" (the default for fractions): by whole files, drawn with `seed`. "samples": single samples, drawn with `seed`; a sample that
            comes more than once is in one split with all its repeats. "time": of windows the rows of every file or key in their order, the first
            split first; of other samples the order of the column `time`. "groups" (the default for lists): by key, so that all samples with one key
            are in one split; fractions are of the distinct keys, drawn with `seed`. The name of a column: as "groups", by that column's value in the
            first row.
        seed : int
            The same seed draws the same files, keys or samples.
        stratify : str, optional
            With ``by="samples"``, which may then be left out: the column of a class, of which every split has its fraction, rounded down or up.
        time : str, optional
            With ``by="time"``, which may then be left out: the column of the time, by its value in the first row, of samples that are no windows.
            Samples of one time are in one split.
        at : {"window", "target"}
            With ``by="time"`` of windows: a window is in the split that all of it lies in, so that splits share no row; or in the split that its
            target begins in: the first row of its output, without output its last row. Its input may then reach back over the cut, and its
            output over the next one; every window is in one split.
        unknown : {"error", "ignore"}
            Whether keys in lists that no sample has are an error.
        **splits : float, or list of int or str
            The name of each split and its fraction, in order; together at most 1, and the rest is in no split. Of n samples (files, keys, rows) two
            splits of 0.8 and 0.2 have the first ⌊0.8 n⌋ and the others. Or the name of each split and a list of its keys; a key in two splits is an error.

        Returns
        -------
        dict of name to Samples

        Raises
        ------
        ValueError
            For fractions that do not fit, keys in two splits, unknown keys, a split without a sample, or a class that cannot be divided.
        SchemaError, UnsupportedError
            For a column that is not there, or has no single value a row.
        """
        splits = {name: _split(name, split) for name, split in splits.items()}
        lists = {name for name, split in splits.items() if not isinstance(split, (int, float))}
        by = by if by is not None else "groups" if lists else "samples" if stratify is not None else "time" if time is not None else "files"
        if by not in _SPLITS and (not isinstance(by, str) or _field(self, by) is None):
            raise ValueError(f"by={by!r}: use 'files', 'time', 'samples' or 'groups', or the name of a column")
        if at not in ("window", "target"):
            raise ValueError(f"at={at!r}: use 'window' or 'target'")
        for name, column in (("stratify", stratify), ("time", time)):
            if column is not None and not isinstance(column, str):
                raise TypeError(f"{name}= names a column, as a str, not {type(column).__name__}; splits have other names than options")
        if not splits:
            raise ValueError("name the splits and their fractions: split(train=0.8, val=0.2)")
        whole = sum(fraction for name, fraction in splits.items() if name not in lists)
        for name, fraction in splits.items():
            near = nearest(name, ("by", "seed", "stratify", "time", "unknown"), 0.7)
            if name not in lists and (not fraction > 0 or (near and whole > 1)):
                said = f"{_forebay.printable(name)}={fraction!r}"
                raise ValueError(f"{said}: fractions are above 0 and together at most 1{f'; did you mean {near[0]}=?' if near else ''}")
        column = None if by in _SPLITS else by
        options = {
            "kind": by if by in _SPLITS else "groups", "column": column, "stratify": stratify, "time": time, "at_target": at == "target",
            "seed": count(seed, "seed", 0, 2**64 - 1), "ignore_unknown": known(unknown),
        }  # fmt: skip
        options = {name: value for name, value in options.items() if value is not None}
        field = _field(self, column or self._key)
        values: dict[str, Any] = splits
        given = tuple((name, 0.0, listed(split, field, name)) if name in lists else (name, float(split), None) for name, split in values.items())
        step = ("split", (given, options))
        return {
            name: Samples(self._dataset, self._kind, core, self._recipe or ("rows", {}), (*self._steps, (*step, i, f"split {name!r} by {by}")))
            for i, (name, core) in enumerate(zip(splits, self._opened().split(given, options)))
        }

    # ---- more than once ----

    @advised()
    def oversample(self, column: str | None, factors: "Mapping[Any, int] | None" = None, *, unknown: str = "error", threads: int | None = None) -> "Samples":
        """Repeat the samples of some classes: ``samples.oversample("leak", {1: 8})`` has those of class 1 eight times.

        Repeats are shuffled, batched and counted like other samples. A block is still read once an epoch.

        Parameters
        ----------
        column : str or None
            The column of the class, by its value in a sample's first row (for cells a column of any axes). None: the key.
        factors : mapping of class to int
            How often the samples of each class come. Classes that are not named come once; 0 leaves a class out.
        unknown : {"error", "ignore"}
            Whether classes that no sample has are an error.
        threads : int, optional
            For reading the column, which is done once, here.
        """
        options = _options.plain("oversample", locals())
        if factors is None or isinstance(column, Mapping):
            given, name = (column, "'leak'") if isinstance(column, Mapping) else ("{1: 8}", repr(column))
            raise TypeError(f"oversample() takes a column and the factors of its classes: oversample({name}, {given})")
        _classes_named(self, column, factors, "factors", "oversample('leak', {1: 8})")
        classes, numbers = class_weights(factors, _field(self, column or self._key), "factors")
        counts = array.array("I", [count(factor, f"factors[{name!r}]", 0, 65_535) for name, factor in zip(factors, numbers)])
        return self._with("oversample", ({**options, "values": classes, "factors": counts.tobytes(), "ignore_unknown": known(unknown)},), "oversampled")

    @advised()
    def resample(
        self, weights: Any, *, column: str | None = None, n: int | None = None, seed: int = 0, threads: int | None = None,
        each_epoch: bool = False,
    ) -> "Samples":  # fmt: skip
        """Draw `n` samples in proportion to weights, systematically: a sample with an expected count of 2.3 comes two or three times.

        They are drawn once, here, and are the same in every epoch, in another order. With `each_epoch` every epoch of a loader draws anew, as
        torch's WeightedRandomSampler does; the draw depends on `seed` and the epoch only, so lengths stay the same and states can be resumed.

        Parameters
        ----------
        weights : str, mapping, or array of floats
            A column that holds them; a mapping of classes to weights, with `column` (every class needs one); or one for each sample.
        column : str, optional
            With a mapping: the column of the classes.
        n : int, optional
            How many are drawn; by default as many as there are samples.
        seed : int
            The same seed draws the same samples.
        threads : int, optional
            For reading the column.
        each_epoch : bool
            Draw anew in every epoch. Such samples are for loaders without `part` and diversity: select, limit, split and fit before.
            ``samples[i]`` is a draw of epoch 0; :func:`forebay.sample_index` gives the number among the samples that are drawn from.
        """
        if not isinstance(each_epoch, bool):
            raise TypeError(f"each_epoch={each_epoch!r}: True or False is expected")
        options = _options.plain("resample", locals())
        if column is not None and not isinstance(weights, Mapping):
            raise TypeError("column= holds classes: give their weights as a mapping, {class: weight}")
        if isinstance(weights, str):
            return self._with("resample", ({**options, "column": weights},), "resampled")
        if isinstance(weights, Mapping):
            _classes_named(self, column, weights, "weights", "resample({0: 1, 1: 7.5}, column='leak')")
            classes, numbers = class_weights(weights, _field(self, column or self._key), "weights")
            by_class = array.array("d", map(float, numbers)).tobytes()
            return self._with("resample", ({**options, "values": classes, "class_weights": by_class},), "resampled")
        if len(getattr(weights, "shape", (0,))) != 1:
            raise ValueError(f"weights: one for each of {len(self):,} samples, in one axis, not of shape {tuple(weights.shape)}")
        each = array.array("d", weights.tolist() if hasattr(weights, "tolist") else weights)
        if len(each) != len(self):
            raise ValueError(f"{len(each):,} weights for {len(self):,} samples")
        return self._with("resample", ({**options, "weights": each.tobytes()},), "resampled")

    # ---- the rest ----

    def loader(self, outputs: Any = None, **options: Any) -> Loader:
        """Make a loader of shuffled batches of these samples: ``samples.loader(outputs, batch_size=…, memory=…)``.

        The parameters are those of :class:`forebay.Loader`.
        """
        return Loader(self, outputs, **options)

    # ---- what a loader asks, here and of mixtures ----

    @property
    def _each(self) -> tuple["Samples", ...]:
        """The samples of every source."""
        return (self,)

    @property
    def _source_names(self) -> list[str] | None:
        return None

    def _file_outputs(self) -> Any:
        """The outputs of the pipeline file that these are of; None without one."""
        return None

    def _text(self) -> str:
        """What they are, for what keeps it: a pack."""
        return repr(self).split("\n", 1)[0]

    def _rows_of(self, outputs: Any) -> list[Any]:
        """The outputs of every source, resolved."""
        return [_output_rows.resolve(outputs, self._dataset)]

    def _open_loader(self, rows: list[Any], options: dict[str, Any]) -> _forebay.Loader:
        return _forebay.Loader(self._dataset._core, _output_rows.cores(rows[0]), self._core, options)

    @property
    def _key(self) -> str | None:
        """The column of the key, where there is one, and one alone."""
        options = self._recipe[1] if self._recipe[1:] else {}
        return None if options.get("more_keys") else options.get("key")

    def _opened(self) -> Any:
        return self._core if self._core is not None else _open(self._dataset, ("rows", {}), {})

    def _with(self, method: str, args: tuple, text: str) -> "Samples":
        step = (method, args, None, text)
        return Samples(self._dataset, self._kind, _apply(self._opened(), step), self._recipe or ("rows", {}), (*self._steps, step))

    def __reduce__(self):
        return (_remake, (self._dataset, self._recipe, self._steps))


def _split(name: str, split: Any) -> Any:
    """What a split holds: a fraction as a number, or keys."""
    name = _forebay.printable(name)
    if getattr(split, "ndim", 1) == 0 and hasattr(split, "item"):
        split = split.item()
    if isinstance(split, (bool, str, bytes)) or not (isinstance(split, (int, float)) or isinstance(split, Iterable) or hasattr(split, "__getitem__")):
        raise TypeError(f"{name}={split!r}: a split is a fraction, {name}=0.8, or a list of keys, {name}=['17', '21']")
    if isinstance(split, (int, float)) and split > 1:
        raise ValueError(f"{name}={split!r}: fractions are above 0 and together at most 1: 0.8 for 80 %, and n / len(samples) for n samples")
    return split


def _classes_named(samples: Samples, column: str | None, numbers: Any, what: str, example: str) -> None:
    """Refuse what is no mapping, and classes of a column that is not named where samples have no key of their own (of several columns: C does)."""
    if not isinstance(numbers, Mapping):
        raise TypeError(f"{what} is a mapping of classes to numbers, not {type(numbers).__name__}: {example}")
    has_key = samples._recipe[1:] and samples._recipe[1].get("key")
    if column is None and not has_key and not all(isinstance(name, str) for name in numbers):
        raise ValueError(f"name the column that the classes are of: {example}")


def _cores(options: Any) -> Any:
    """A dict of options with the extension's objects in place of the package's."""
    return {name: getattr(value, "_core", value) for name, value in options.items()} if isinstance(options, dict) else options


def _apply(core: Any, step: tuple) -> Any:
    """One step from samples to samples: (method, arguments, which of the results or None, text)."""
    method, args, pick, _ = step
    result = getattr(core, method)(*map(_cores, args))
    return result if pick is None else result[pick]


def _open(dataset: "Dataset", recipe: tuple, more: dict[str, Any]) -> Any:
    kind, options = recipe
    return _forebay.open_samples(dataset._core, kind, {**_cores(options), **more})


def _remake(dataset: "Dataset", recipe: tuple, steps: tuple) -> Samples:
    if not recipe:
        return Samples(dataset)
    core = _open(dataset, recipe, {})
    for step in steps:
        core = _apply(core, step)
    return Samples(dataset, recipe[0], core, recipe, steps)


def _field(source: Any, name: str | None) -> Any:
    """The schema's field of a column of a data set, or of samples: theirs, or their index table's. None when there is no such column."""
    side = source._recipe[1].get("table") if isinstance(source, Samples) and source._recipe else None
    for dataset in (source._dataset if isinstance(source, Samples) else source, side):
        if dataset is not None and name is not None and name in dataset.schema:
            return dataset.schema[name]
    return None


def windows(dataset: "Dataset", given: dict[str, Any]) -> Samples:
    """See :meth:`Dataset.windows`; its arguments."""
    by, time = _key_columns(given["by"]), given["time"]
    options = _options.plain("windows", given)
    for name in (*options["drop_missing"], *(() if time is None else (time,))):
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    options = {**options, **({} if by == "file" else _key(by)), **step_of(dataset, time, given["step"])}
    samples = _made(dataset, "windows", options, given)
    if text := _hints.dropped(samples, options["drop_missing"]):
        warnings.warn(text, stacklevel=outside())
    _hints.warn_of_samples(samples)
    return samples


def _made(dataset: "Dataset", kind: str, options: dict[str, Any], given: dict[str, Any]) -> Samples:
    """Samples whose recipe is without what is about this opening alone."""
    recipe = (kind, {name: value for name, value in options.items() if name != "threads"})
    more = {"threads": options.get("threads"), "progress": progress_of(given["progress"])}
    return Samples(dataset, kind, _open(dataset, recipe, more), recipe)


def _key(columns: str | tuple[str, ...] | None) -> dict[str, Any]:
    """The columns of a key as options."""
    return {} if columns is None else {"key": columns} if isinstance(columns, str) else {"key": columns[0], "more_keys": columns[1:]}


def _key_columns(key: Any) -> str | tuple[str, ...] | None:
    """A column, or several, as a recipe has them."""
    columns = (key,) if key is None or isinstance(key, (str, bytes)) or not isinstance(key, Iterable) else tuple(key)
    for name in columns:
        if not isinstance(name, str) and not (name is None and key is None):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"{key!r} is no key: name a column, or several different ones")
    return columns if len(columns) > 1 else columns[0]


def groups(dataset: "Dataset", given: dict[str, Any]) -> Samples:
    """See :meth:`Dataset.groups`; its arguments."""
    key, table, file_by = _key_columns(given["key"]), given["table"], given["file_by"]
    options = _options.plain("groups", given)
    for name in (given["first"], given["last"], given["file"]):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    if key is None and table is None and given["rows"] is None:
        raise ValueError(
            "groups need the column of their key, their rows, or an index table: groups('event_id'), groups(rows=40), "
            "groups(table=…, first=…, last=…)"
        )
    if file_by not in ("name", "position"):
        raise ValueError(f"file_by={file_by!r}: use 'name' or 'position'")
    if table is not None:
        options["table"] = dataset._side_table(table)
    samples = _made(dataset, "groups", {**options, **_key(key), "file_by_position": file_by == "position"}, given)
    _hints.warn_of_samples(samples)
    return samples
