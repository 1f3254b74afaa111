"""Moments of columns: fitted over a data set or a part of it in one parallel pass, saved, and taken back off predictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _forebay
from ._dataset import Dataset
from ._outputs import Column, col
from ._samples import Samples
from ._sizes import count, size_bytes

_VERSION = 1


class Moment(NamedTuple):
    """Of one column. All but the counts are NaN when it has no values."""

    n: int
    missing: int
    mean: float
    std: float
    min: float
    max: float


class Moments(Mapping[str, Moment]):
    """Mean, standard deviation, least and greatest value of columns, by name: what :func:`fit` returns.

    ``moments["prcp"].mean``; :meth:`to_dict` is plain numbers and text, for ``json.dump``.
    """

    def __init__(self, columns: Mapping[str, Iterable[float]]) -> None:
        self._columns = {name: Moment(*values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> Moment:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = [f"  {name}: {m.mean:.6g} ± {m.std:.6g} in [{m.min:.6g}, {m.max:.6g}], n={m.n:,}, missing={m.missing:,}" for name, m in self.items()]
        return "\n".join(["<forebay.Moments:", *rows]) + ">"

    def scales(self, columns: str | Sequence[str]) -> tuple[Any, Any]:
        """(mean, std) of a column, or of columns as two tuples, as standardising uses them: a standard deviation of 0 counts as 1."""
        if isinstance(columns, str):
            means, stds = self.scales((columns,))
            return means[0], stds[0]
        for name in columns:
            if name not in self._columns:
                raise ValueError(f"nothing was fitted for column {name!r}: these moments are of {', '.join(self._columns)}")
            if self._columns[name].n == 0:
                raise ValueError(f"column {name!r} had no values when it was fitted")
        return tuple(self._columns[name].mean for name in columns), tuple(self._columns[name].std or 1.0 for name in columns)

    def inverse(self, values: Any, columns: str | Sequence[str]) -> Any:
        """Standardised values back to what they were: ``values * std + mean``, in the dtype and on the device they have.

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
        if isinstance(columns, str):
            return values * stds + means
        if values.shape[-1] != len(means):
            raise ValueError(f"the last axis is {values.shape[-1]} long, and {len(means)} columns are named")
        if hasattr(values, "new_tensor"):
            return values * values.new_tensor(stds) + values.new_tensor(means)
        import numpy

        dtype = values.dtype if values.dtype.kind == "f" else None
        return values * numpy.asarray(stds, dtype) + numpy.asarray(means, dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text. What has no values has None in place of its numbers, since JSON has no NaN."""
        plain = {n: {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in m._asdict().items()} for n, m in self.items()}
        return {"version": _VERSION, "columns": plain}

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
            if version == _VERSION:
                return cls(
                    {
                        str(name): (int(c["n"]), int(c["missing"]), *(math.nan if c[k] is None else float(c[k]) for k in ("mean", "std", "min", "max")))
                        for name, c in columns.items()
                    }
                )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"these are no saved moments: {error!r}") from None
        raise ValueError(f"these moments were saved as version {version!r}, and this is version {_VERSION}: fit them anew")


def fit(
    data: Dataset | Samples, columns: Column | str | Sequence[str], *, memory: str | int | None = None, threads: int | None = None
) -> Moments:
    """Mean, standard deviation, least and greatest value of columns, in one parallel pass over the data.

    Nulls, NaN and infinities are left out and counted. The result is the same, bit for bit, for every number of threads.

    Parameters
    ----------
    data : Dataset or Samples
        Of samples, the rows that lie in them, each once however many windows it is part of: fit the training part alone.
    columns : str, list of str, or Column
        Columns of numbers. A list column gives the moments of all its elements. With ``fb.col(…).log1p()`` and the like the moments are of what
        comes out: put :meth:`Column.standardize` after the same operations.
    memory : str or int, optional
        The budget, as for :class:`Loader`.
    threads : int, optional
        By default the CPUs this process may use.

    Examples
    --------
    >>> parts = ds.windows(365, 7).split(train=0.8, test=0.2, by="time")
    >>> moments = fb.fit(parts["train"], ["prcp", "tmax"])
    >>> json.dump(moments.to_dict(), open("moments.json", "w"))
    """
    if isinstance(data, Samples):
        dataset, samples = data.dataset, data._core
    elif isinstance(data, Dataset):
        dataset, samples = data, None
    else:
        raise TypeError(f"fit() takes a data set or samples, not {type(data).__name__}")
    column = columns if isinstance(columns, Column) else col(columns) if isinstance(columns, str) else col(list(columns))
    if column.from_missing:
        raise ValueError("missing() is a mask: there is nothing to fit")
    rows = _forebay.fit(
        dataset._core, column.columns, column.fill_value, column.ops, samples,
        0 if memory is None else size_bytes(memory, "memory"), 0 if threads is None else count(threads, "threads", 1, 1024),
    )  # fmt: skip
    return Moments(dict(zip(column.columns, rows)))
