"""Samples: what one training example is. Rows, windows of consecutive rows, groups of rows that share a key."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from . import _forebay
from ._sizes import count

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader

_KINDS = {"rows": 0, "windows": 1, "groups": 2}
_SPLITS = {"files": 0, "time": 1}
_UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Samples:
    """Samples of a data set: made by :meth:`Dataset.rows`, :meth:`Dataset.windows` or :meth:`Dataset.groups`.

    ``len()`` is their number; they are numbered in file order, and ``samples[i]`` is the row numbers of sample i as a range.
    They pickle as the data set and their options, and are found anew on the other side.
    """

    def __init__(self, dataset: "Dataset", kind: str = "rows", core: Any = None, recipe: tuple = (), parts: tuple = ()) -> None:
        self._dataset, self._kind, self._core, self._recipe, self._parts = dataset, kind, core, recipe, parts

    @property
    def dataset(self) -> "Dataset":
        """The data set they are cut from."""
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
        return len(self._dataset) if self._core is None else self._core.counts()[0]

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, i: int) -> range:
        i = count(i, "index", -(2**63))
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} is out of range: there are {len(self)}")
        row, rows = (i % len(self), 1) if self._core is None else self._core.get(i % len(self))
        return range(row, row + rows)

    def __repr__(self) -> str:
        part = "".join(f", part {begin:g} to {end:g} by {by}" for by, begin, end, _ in self._parts)
        return f"<forebay.Samples: {len(self):,} {self._kind}{part}>"

    def split(self, *, by: str = "files", seed: int = 0, **parts: float) -> dict[str, "Samples"]:
        """Parts that share no row: ``samples.split(train=0.7, val=0.15, test=0.15, by="time")``.

        Parameters
        ----------
        by : {"files", "time"}
            "files": whole files, drawn with `seed`. "time": of windows, the rows of every series in their order, train first; a window
            that would reach from one part into the next is in neither.
        seed : int
            For files: the same seed always draws the same ones.
        **parts : float
            Name and fraction of each part, in order. Together at most 1; what is left over is in no part.

        Returns
        -------
        dict of name to Samples

        Raises
        ------
        ValueError
            For fractions that do not fit, or a part without a sample.
        """
        if by not in _SPLITS:
            raise ValueError(f"by={by!r}: use 'files' or 'time'")
        if not parts:
            raise ValueError("name the parts and their fractions: split(train=0.8, val=0.2)")
        seed = count(seed, "seed", 0, 2**64 - 1)
        ends, end = [], 0.0
        for name, fraction in parts.items():
            if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
                raise TypeError(f"{name}={fraction!r}: a fraction between 0 and 1 is expected")
            end += float(fraction)
            if not fraction > 0 or end > 1 + 1e-9:
                raise ValueError(f"{name}={fraction!r}: fractions are above 0 and together at most 1")
            ends.append(min(round(end, 12), 1.0))  # 0.7 + 0.2 + 0.1 is 1
        core = self._core if self._core is not None else _open(self._dataset, ("rows",), None, None)
        result = {}
        for name, begin, end in zip(parts, [0.0, *ends], ends):
            part = core.split(_SPLITS[by], begin, end, seed)
            result[name] = Samples(self._dataset, self._kind, part, self._recipe or ("rows",), (*self._parts, (by, begin, end, seed)))
        return result

    def loader(self, outputs: Any = None, **options: Any) -> "Loader":
        """A loader of shuffled batches of these samples: ``samples.loader(outputs, batch_size=…, memory=…)``.

        The parameters are those of :class:`forebay.Loader`.
        """
        from ._loader import Loader

        return Loader(self, outputs, **options)

    def __reduce__(self):
        return (_remake, (self._dataset, self._recipe, self._parts))


def _open(dataset: "Dataset", recipe: tuple, threads: int | None, progress: Any) -> Any:
    kind, options = recipe[0], (recipe[1:] or (0, 0, 0, None, None, 0, ()))
    n_threads = 0 if threads is None else count(threads, "threads", 1, 4096)
    return _forebay.open_samples(dataset._core, _KINDS[kind], *options, n_threads, progress)


def _remake(dataset: "Dataset", recipe: tuple, parts: tuple) -> Samples:
    if not recipe:
        return Samples(dataset)
    core = _open(dataset, recipe, None, None)
    for by, begin, end, seed in parts:
        core = core.split(_SPLITS[by], begin, end, seed)
    return Samples(dataset, recipe[0], core, recipe, parts)


def _step(dataset: "Dataset", time: str | None, step: Any) -> int:
    """A step of time in the column's own unit."""
    if step is None:
        return 0
    if time is None:
        raise ValueError("step= needs time=, the column that steps")
    if hasattr(step, "astype") and getattr(step, "dtype", None) is not None and step.dtype.kind == "m":
        nanoseconds = int(step.astype("timedelta64[ns]").astype("int64"))
    elif isinstance(step, datetime.timedelta):
        nanoseconds = (step.days * 86_400 + step.seconds) * 10**9 + step.microseconds * 1000
    else:
        return count(step, "step", 1)
    field = dataset.schema[time] if time in dataset.schema else None
    unit = 86_400 * 10**9 if field is not None and field.kind == "date" else _UNIT_NS.get(field.unit or "") if field is not None else 1
    if unit is None:
        raise TypeError(f"step={step!r}: column {time!r} holds plain numbers, so give the step as one")
    if nanoseconds <= 0 or nanoseconds % unit:
        raise ValueError(f"step={step!r} is no whole number of the units of column {time!r}, above 0")
    return nanoseconds // unit


def windows(
    dataset: "Dataset", input: int, output: int, stride: int, by: str, time: str | None, step: Any, drop_missing: Any, threads: int | None, progress: Any
) -> Samples:
    names = (drop_missing,) if isinstance(drop_missing, str) else tuple(drop_missing)
    for name in (by, *names, *(() if time is None else (time,))):
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
    recipe = (
        "windows", count(input, "input", 0), count(output, "output", 0), count(stride, "stride", 1), None if by == "file" else by, time,
        _step(dataset, time, step), names,
    )  # fmt: skip
    return Samples(dataset, "windows", _open(dataset, recipe, threads, progress), recipe)


def groups(dataset: "Dataset", key: str, threads: int | None, progress: Any) -> Samples:
    if not isinstance(key, str):
        raise TypeError(f"a column is named by a str, not {type(key).__name__}: {key!r}")
    recipe = ("groups", 0, 0, 0, key, None, 0, ())
    return Samples(dataset, "groups", _open(dataset, recipe, threads, progress), recipe)

