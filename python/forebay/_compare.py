"""Two ways to train, compared: how fast they are, and whether they learn the same, over several seeds."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._sizes import count, format_figure

_SURE = 0.95
_TINY = 1e-300


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (Numerical Recipes, 6.4)."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 / (1 + numerator * d or _TINY)
            c = 1 + numerator / c or _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def t_cdf(t: float, degrees: float) -> float:
    """The chance that Student's t with so many degrees of freedom is at most t."""
    if math.isinf(t):
        return float(t > 0)
    a, b, x = degrees / 2, 0.5, degrees / (degrees + t * t)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x or _TINY) + b * math.log1p(-x) if 0 < x < 1 else -math.inf)
    tail = front * _beta_fraction(a, b, x) / a if x < (a + 1) / (a + b + 2) else 1 - front * _beta_fraction(b, a, 1 - x) / b
    tail = 0.5 * (1.0 if x >= 1 else tail)
    return tail if t < 0 else 1 - tail


def welch(a: list[float], b: list[float], shift: float = 0.0) -> tuple[float, float]:
    """Welch's t and its degrees of freedom for mean(a) - mean(b) - shift, with unequal variances."""
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    difference = statistics.fmean(a) - statistics.fmean(b) - shift
    if va + vb == 0:
        return math.copysign(math.inf, difference) if difference else 0.0, len(a) + len(b) - 2
    return difference / math.sqrt(va + vb), (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))


def enough_seeds(a: list[float], b: list[float], margin: float) -> int | None:
    """So many runs of each with these means and variances would tell; None where a thousand would not."""
    va, vb, difference = statistics.variance(a), statistics.variance(b), statistics.fmean(a) - statistics.fmean(b)
    if va + vb == 0:  # more of the same tell no more
        return None
    for n in range(len(a) + 1, 1001):
        error, degrees = math.sqrt((va + vb) / n), (n - 1) * (va + vb) ** 2 / (va**2 + vb**2)
        if t_cdf((abs(difference) - margin) / error, degrees) < 1 - _SURE or 2 * t_cdf(-abs(difference) / error, degrees) < 1 - _SURE:
            return n
    return None


@dataclasses.dataclass(frozen=True)
class Runs:
    """One way to train, over all seeds.

    Attributes
    ----------
    seconds : list of float
        Of each run.
    losses : list of list of float
        The losses that each run gave, in order.
    """

    seconds: list[float]
    losses: list[list[float]]

    @property
    def finals(self) -> list[float]:
        """The last loss of each run."""
        return [losses[-1] for losses in self.losses]

    @property
    def steps_per_s(self) -> float:
        """Losses a second, in the median over the runs."""
        return statistics.median(len(losses) / seconds for losses, seconds in zip(self.losses, self.seconds, strict=True))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What :func:`forebay.compare` found. Printing it gives a table with a verdict.

    Attributes
    ----------
    runs : dict of str to Runs
        By name, the baseline first.
    margin : float
        How far apart mean final losses may be and still count as the same.
    speedup : dict of str to float
        Steps/s over those of the baseline.
    different : dict of str to float
        p of Welch's t-test against the baseline: small when final losses differ.
    equivalent : dict of str to float
        p of the two one-sided tests against the baseline: small when they are within `margin` of each other.
    same : dict of str to bool or None
        True: equivalent within the margin (p below 0.05). False: they differ, by more than the seeds explain, and are not equivalent. None: too few seeds
        to tell.
    """

    runs: dict[str, Runs]
    margin: float
    speedup: dict[str, float]
    different: dict[str, float]
    equivalent: dict[str, float]
    same: dict[str, bool | None]

    def curve(self, name: str) -> list[tuple[float, float]]:
        """Mean and standard deviation over the seeds of the loss at each step, as far as all runs go."""
        return [(statistics.fmean(at), statistics.stdev(at)) for at in zip(*self.runs[name].losses)]  # noqa: B905  cut to the shortest

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain values, with the curves."""
        return {**dataclasses.asdict(self), "curves": {name: self.curve(name) for name in self.runs}}

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def _verdict(self, name: str) -> str:
        p, q = self.equivalent[name], self.different[name]
        if self.same[name]:
            return f"{name} learns the same: final losses lie within ±{self.margin:.3g} (two one-sided tests, p = {p:.2g})"
        if self.same[name] is False:
            return f"{name} does not learn the same: final losses differ (Welch's t, p = {q:.2g}), and may by more than ±{self.margin:.3g}"
        enough = enough_seeds(self.runs[name].finals, next(iter(self.runs.values())).finals, self.margin)
        cure = "" if enough is None else f": seeds={enough} would, if what they give is like this"
        return f"{name}: too few seeds to tell within ±{self.margin:.3g} (equivalent: p = {p:.2g}; different: p = {q:.2g}){cure}"

    def __str__(self) -> str:
        width = max(map(len, self.runs))
        lines = [f"{'':<{width}}  {'steps/s':>10}  {'speed-up':>8}  {'final loss':>24}  {'seeds':>5}"]
        for name, runs in self.runs.items():
            loss = f"{statistics.fmean(runs.finals):.6g} ± {statistics.stdev(runs.finals):.2g}"
            lines.append(f"{name:<{width}}  {format_figure(runs.steps_per_s):>10}  {self.speedup[name]:>7.2f}x  {loss:>24}  {len(runs.seconds):>5}")
        return "\n".join([*lines, *(self._verdict(name) for name in self.same)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def compare(
    make_run: Callable[[Any, int], Iterable[float]], ways: Mapping[str, Any], seeds: int = 5, *, margin: float | None = None
) -> Comparison:
    """Train in several ways over several seeds: how fast each is, and whether it learns the same as the first.

    Whether it does is two one-sided tests of equivalence on the last losses (TOST; Schuirmann, J. Pharmacokin. Biopharm. 15, 1987), each Welch's
    t-test at 5 %: that a test finds no difference does not show that there is none, and these show that what there is lies within a margin. The runs
    alternate, a seed at a time, so that what else the machine does meets all alike.

    Parameters
    ----------
    make_run : callable
        ``make_run(way, seed)`` trains once and returns or yields the losses of its steps (or of its epochs), at least one. It builds model, optimizer
        and loader anew. Its time is measured from the call to the last loss.
    ways : dict
        Name to what make_run is given: ``{"today": old_loader, "forebay": new_loader}``. The first is the baseline.
    seeds : int
        Runs of each: seeds 0, 1, …; at least 2.
    margin : float, optional
        How far apart mean final losses may be and still count as the same; by default 2 % of the baseline's, or its standard deviation over
        the seeds where that is more.

    Examples
    --------
    >>> def run(make_loader, seed):
    ...     torch.manual_seed(seed)
    ...     model, loader = Model(), make_loader(seed)
    ...     for batch in loader:
    ...         yield train_step(model, batch).item()
    >>> print(fb.compare(run, {"today": dataloader, "forebay": forebay_loader}, seeds=5))
    """
    count(seeds, "seeds", 2)
    if not callable(make_run) or not isinstance(ways, Mapping):
        raise TypeError('compare() takes a function and a dict of what it is called with: compare(run, {"today": old_loader, "forebay": new_loader})')
    if len(ways) < 2:
        raise ValueError(f"compare() needs two ways to train or more, and was given {len(ways)}")
    if margin is not None and not margin > 0:
        raise ValueError(f"margin={margin}: it must be more than 0")
    runs = {name: Runs([], []) for name in ways}
    for seed in range(seeds):
        for name, way in ways.items() if seed % 2 == 0 else reversed(ways.items()):
            began = time.perf_counter()
            run = make_run(way, seed)
            if not isinstance(run, Iterable):
                raise TypeError(f"the run {name!r} gave {run!r:.60}: make_run returns or yields the losses of its steps, a list or one after the other")
            losses = [float(loss) for loss in run]
            runs[name].seconds.append(max(time.perf_counter() - began, 1e-9))
            if not losses or not math.isfinite(losses[-1]):
                said = "no loss" if not losses else f"{losses[-1]} as its last loss"
                raise ValueError(f"the run {name!r} with seed {seed} gave {said}: there is nothing to compare")
            runs[name].losses.append(losses)
    first = next(iter(runs))
    base = runs[first].finals
    if margin is None:
        margin = max(0.02 * abs(statistics.fmean(base)), statistics.stdev(base))
    different, equivalent, same = {}, {}, {}
    for name in [name for name in runs if name != first]:
        finals = runs[name].finals
        t, degrees = welch(finals, base)
        different[name] = 2 * (1 - t_cdf(abs(t), degrees))
        equivalent[name] = max(1 - t_cdf(welch(finals, base, -margin)[0], degrees), t_cdf(welch(finals, base, margin)[0], degrees))
        same[name] = True if equivalent[name] < 1 - _SURE else False if different[name] < 1 - _SURE else None
    speed = {name: one.steps_per_s / runs[first].steps_per_s for name, one in runs.items()}
    return Comparison(runs, margin, speed, different, equivalent, same)
