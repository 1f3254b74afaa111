"""Mixtures: several sources in one epoch, in stated proportions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

from . import _forebay, _output_rows
from ._advice import MIX_ATTRIBUTES, MIX_WORDS, TORCH_MIX, Known, advised, nearest, refuse_torch
from ._dataset import Dataset
from ._forebay import printable
from ._loader import Loader
from ._samples import Samples
from ._sizes import count

Weights = Union[Mapping[str, float], Iterable[Mapping[str, float]], None]


class Mix(Known):
    """Samples of several data sets in one order: made by :func:`mix`. ``len()`` is the number of samples of all sources.

    A mixture pickles as its sources do.
    """

    _other_words = MIX_ATTRIBUTES

    def __init__(self, sources: dict[str, Samples], weights: tuple[dict[str, float], ...] | None, stop: str | int) -> None:
        self._sources, self._weights, self._stop = sources, weights, stop

    @property
    def sources(self) -> dict[str, Samples]:
        """The samples of each source by its name."""
        return dict(self._sources)

    @property
    def names(self) -> list[str]:
        """The names of the sources, in the order that :func:`source` counts them."""
        return list(self._sources)

    @property
    def weights(self) -> list[dict[str, float]] | None:
        """One dict an epoch, the last one that of all after it; None: by the numbers of samples."""
        return None if self._weights is None else [dict(row) for row in self._weights]

    @property
    def stop(self) -> str | int:
        """Where an epoch ends."""
        return self._stop

    @property
    def max_rows(self) -> int:
        """Rows of the longest sample."""
        return max(samples.max_rows for samples in self._each)

    def __len__(self) -> int:
        refuse_torch(TORCH_MIX)
        return sum(map(len, self._each))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        end = {"first": "the first source", "all": "the last sample"}[self._stop] if isinstance(self._stop, str) else f"{self._stop:,} samples"
        rows = self._weights or ({name: len(samples) for name, samples in self._sources.items()},)
        shown = {name: printable(name) for name in self._sources}
        width = max(map(len, shown.values()))
        lines = [f"<forebay.Mix: {len(self):,} samples of {len(shown)} source{'s' * (len(shown) > 1)}, an epoch ends with {end}>"]
        for name, samples in self._sources.items():
            shares = [f"{row[name] / (sum(row.values()) or 1):.1%}" for row in rows[:3]] + ["…"] * (len(rows) > 3)
            lines.append(f"  {shown[name]:<{width}}  {', then '.join(shares):>6} of {len(samples):,} {samples.kind}")
        return "\n".join(lines)

    def loader(self, outputs: Any = None, **options: Any) -> Loader:
        """Make a loader of shuffled batches: ``mixture.loader(outputs, batch_size=…, memory=…)``.

        The parameters are those of :class:`forebay.Loader`. `outputs` are for all sources, or {source: outputs} with the same names for each, as
        where columns are called differently: a dict whose keys are the sources is always that. Not for mixtures: `part`, `diversity_files`,
        `max_superbatch_batches`, `batch_elements`, `bucket_samples`, and samples that are drawn anew in each epoch.

        Examples
        --------
        >>> loader = mixture.loader({"x": ["prcp", "tmax"], "from": fb.source()}, batch_size=512)
        >>> loader = mixture.loader({"stations": {"y": "flow"}, "model": {"y": "q_sim"}}, batch_size=512)
        """
        return Loader(self, outputs, **options)

    # ---- what a loader asks ----

    @property
    def _each(self) -> tuple[Samples, ...]:
        return tuple(self._sources.values())

    @property
    def _source_names(self) -> list[str]:
        return self.names

    def _rows_of(self, outputs: Any) -> list[Any]:
        by_source = isinstance(outputs, Mapping) and (
            set(outputs) == set(self._sources) or any(isinstance(each, Mapping) for each in outputs.values())
        )
        if by_source:
            _same_names(outputs, self._sources, "outputs")
        rows = []
        for name, samples in self._sources.items():
            try:
                rows.append(_output_rows.resolve(outputs[name] if by_source else outputs, samples.dataset))
            except _forebay.Error as error:
                error.args = (f"source {name!r}: {error.args[0]}", *error.args[1:])
                raise
        return [rows[0], *(_alike(self.names, i, rows[0], own) for i, own in enumerate(rows[1:], 1))]

    def _open_loader(self, rows: list[Any], options: dict[str, Any]) -> _forebay.Loader:
        words = isinstance(self._stop, str)
        return _forebay.Loader.open_mix(
            sources=self._given(rows), stop=self._stop if words else "samples", n_samples=0 if words else self._stop, options=options,
        )  # fmt: skip

    def _given(self, rows: list[Any]) -> list[dict[str, Any]]:
        """The sources, by name, as the library takes them; `rows`: the outputs of each, or None."""
        return [
            {
                "name": name, "samples": samples._opened(), "outputs": _output_rows.cores(own),
                "weights": None if self._weights is None else tuple(row[name] for row in self._weights),
            }
            for (name, samples), own in zip(self._sources.items(), rows)
        ]  # fmt: skip


def _alike(names: list[str], i: int, first: Any, rows: Any) -> Any:
    """The outputs of source i in the order of the first source's."""
    if first is None or rows is None:
        return rows
    own = {row.name: row for row in rows}
    expected = {row.name for row in first}
    for name in (*(row.name for row in first if row.name not in own), *(name for name in own if name not in expected)):
        has, lacks = (names[i], names[0]) if name in own else (names[0], names[i])
        raise ValueError(f"output {name!r} is one of source {has!r} and not of source {lacks!r}: all sources have outputs of the same names")
    for row in first:
        here, there = _output_rows.names_of(own[row.name]), _output_rows.names_of(row)
        if (here is None) != (there is None) or (here is not None and list(here) != list(there)):
            raise ValueError(
                f"output {row.name!r}: its numbers stand for other names in source {names[i]!r} than in source {names[0]!r}: encode both with "
                "one list of names, fb.encode(column, names)"
            )
    return [own[row.name] for row in first]


def _same_names(given: Mapping[Any, Any], sources: Mapping[str, Any], what: str) -> None:
    """Refuse a mapping that is not by the names of all sources."""
    for name in given:
        if name not in sources:
            near = nearest(str(name), sources, 0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, sources))}"
            raise ValueError(f"{what}: {name!r} is no source of the mixture: {hint}")
    for name in sources:
        if name not in given:
            raise ValueError(f"{what}: source {name!r} is missing: name every source{', 0 leaves one out' if what == 'weights' else ''}")


def _weights_of(given: Any, sources: Mapping[str, Any]) -> tuple[dict[str, float], ...] | None:
    if given is None:
        return None
    rows = [given] if isinstance(given, Mapping) else list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else None
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("weights are a dict, {'a': 3, 'b': 1}, or a list of them, one for each epoch")
    for row in rows:
        _same_names(row, sources, "weights")
        for name, weight in row.items():
            if not 0 <= _number(name, weight) < float("inf"):
                raise ValueError(f"weights[{name!r}]={weight!r}: a number from 0 on is expected")
        total = sum(map(float, row.values()))
        if not 0 < total < float("inf"):
            raise ValueError(
                "weights have no finite sum: divide all of them by one number" if total else "weights are all 0: at least one weight must be above 0"
            )
    return tuple({name: float(row[name]) for name in sources} for row in rows)


def _number(name: str, weight: Any) -> float:
    try:
        if not isinstance(weight, (bool, str, bytes)):
            return float(weight)
    except TypeError:  # an array, a list: what floats are not made of
        pass
    raise TypeError(f"weights[{name!r}]={weight!r}: a number from 0 on is expected")


@advised(words=MIX_WORDS)
def mix(sources: Mapping[str, Samples | Dataset], *, weights: Weights = None, stop: str | int = "first") -> Mix:
    """Mix samples of several data sets, which may be of different formats, in stated proportions.

    The proportions hold in every batch but for a few samples, and over an epoch exactly, to the nearest sample.

    Parameters
    ----------
    sources : mapping of name to Samples
        A data set stands for its rows.
    weights : mapping of name to float, or list of them; optional
        How often each source comes relative to the others: {"a": 0.75, "b": 0.25}, or 3 and 1. A list has one mapping for each epoch, the last one
        for all after it. By default the numbers of samples.
    stop : {"first", "all"} or int
        Where an epoch ends. "first": before a source would have no sample left; what the others have left does not come in this epoch. "all":
        when every sample of every source came. A number: after so many samples over all ranks. With "all" and a number, sources that end
        before are drawn anew.

    Raises
    ------
    ValueError, TypeError
        For weights that do not name the sources, are negative or all 0, and for what is no samples.

    Examples
    --------
    >>> mixture = fb.mix({"stations": stations.rows(), "model": model.rows()}, weights={"stations": 3, "model": 1}, stop="all")
    >>> loader = mixture.loader({"x": ["prcp", "tmax"], "from": fb.source()}, batch_size=512)
    >>> loader.outputs["from"].names
    ['stations', 'model']
    """
    if not isinstance(sources, Mapping):
        raise TypeError(f"sources are named: fb.mix({{'a': samples, 'b': samples}}), not {type(sources).__name__}")
    if not sources:
        raise ValueError("a mixture of no sources: name at least one, fb.mix({'a': samples})")
    taken: dict[str, Samples] = {}
    for name, samples in sources.items():
        if not isinstance(name, str) or not name or "\0" in name:
            raise TypeError(f"a source is named by a str that is not empty and has no NUL, not by {name!r}")
        if not isinstance(samples, (Samples, Dataset)):
            hints = {Mix: "; mix its sources too", Loader: "; mix samples, and make a loader of the mixture"}
            raise TypeError(f"source {name!r}: samples are expected, not {type(samples).__name__}{hints.get(type(samples), '')}")
        taken[name] = samples.rows() if isinstance(samples, Dataset) else samples
    if isinstance(stop, str) and stop not in ("first", "all"):
        near = next((f": did you mean {word!r}?" for word in ("first", "all") if stop.startswith(word)), "")  # first_exhausted, all_exhausted
        raise ValueError(f"stop={stop!r}: use 'first', 'all', or a number of samples{near}")
    return Mix(taken, _weights_of(weights, taken), stop if isinstance(stop, str) else count(stop, "stop", 1, 2**62))
