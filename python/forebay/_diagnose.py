"""What limits training, by measurement: the step alone, the loader alone, and both together.

Each is measured in halves, and those of what is compared lie around each other: loader, step, both, step, loader. A machine that grows slower or faster
meanwhile then changes all three speeds alike, and not what they say of each other.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _html, _idle, _nvml, _step
from ._loader import Loader, Twin
from ._report import Cure, Report
from ._sizes import bar, batch_size_of, count, format_bytes, format_figure, format_ns, format_scaled
from ._states import States

_KEEPS_UP = 0.95  # of the ceiling: no loader would make training noticeably faster
_FASTER = 1.1  # than the ceiling, of a loader that is not the limit
_COSTS = 10  # times the CPU time that a loader takes: the most that a step beside it becomes slower by, as OpenMP's barriers do
_WARM_UP = 3  # steps: compiling, allocating, choosing algorithms
_STEADY = 0.75  # of the faster half of a measurement, the slower one: less is said
_SETTLE = 10.0  # seconds, at most, until a loader that is not gone through any more is idle
_PAGES = 256  # a step that takes fewer pages anew, a MiB of small ones, does not show it; huge ones are too few to be told from others
_PAGING = 0.15  # of the step's CPU time: what is worth saying
_KEEP_MEMORY = "MALLOC_TRIM_THRESHOLD_=2147483647 MALLOC_MMAP_MAX_=0"
_QUEUE = 8  # batches that a loader may have ready when it is asked for the first
_STAGES = {"read_ns": "storage", "decompress_ns": "decompress", "decode_ns": "decode", "assemble_ns": "assemble", "transform_ns": "transform"}


@dataclasses.dataclass(frozen=True)
class BatchSize:
    """A batch size that was tried.

    Attributes
    ----------
    batch_size : int
    samples_per_s : float or None
        Of the step on one cached batch; None when it ran out of memory.
    memory_bytes : int or None
        The most that was in use: of the GPU what torch reserved, without one the process's resident memory.
    """

    batch_size: int
    samples_per_s: float | None
    memory_bytes: int | None


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What :func:`forebay.diagnose` measured. Printing it gives a table with a verdict.

    Attributes
    ----------
    ceiling, loader, together : float
        Samples/s of the step on one cached batch, of the loader alone, of both together, without warm-up and first batches.
    share : float
        together / ceiling: 1 means that no loader would make training faster.
    headroom : float
        loader / ceiling: how many times faster the step could be before the loader limits.
    limit : str
        "model", "balanced", what limits the loader as its report names it ("storage", "decode", "memory", …; "loader" for one that does not
        say), or "threads": each alone is fast enough, but they share the CPUs.
    confidence : float
        How certain that is, from 0 to 1: from how many steps were seen, how steady they were, and how clear it is.
    batch_size : int
    first_batch : float
        Seconds from iter() to the loader's first batch.
    step : float
        Seconds of one step on the cached batch.
    forward, backward, optimizer, transfer : float or None
        Seconds of it in the model's forward(), in backward(), in the optimizer's step(); and of the batch's copy to the GPU. None where they cannot
        be told apart.
    pages : float
        Pages of memory that the kernel gave the process anew in one step, on average: many where memory is given back after each step.
    paging : float
        Share of the step's CPU time that the kernel takes, over all threads of the process: for those pages, and whatever else the step asks of it.
    flops : int or None
        Floating-point operations of one step, counted by torch; None of models with recurrent layers, which it does not count.
    peak : float or None
        Share of the GPU's peak that is, for the dtype of the model's results; None where the peak is not known.
    gpu : Gpu or None
        Utilisation and memory by NVML, while both ran together.
    batch_sizes : list of BatchSize
    best_batch_size : int or None
        The smallest within 5 % of the fastest of them that leaves a tenth of the memory free.
    not_restored : list of str
        What the measurement has changed and could not put back.
    verdict : str
        The same in words.
    cures : tuple of Cure
        Where the loader is the limit: what its report says would help, and by how much; of a loader without a report, the most that another could give.
    """

    ceiling: float
    loader: float
    together: float
    share: float
    headroom: float
    limit: str
    confidence: float
    batch_size: int
    first_batch: float
    step: float
    forward: float | None
    backward: float | None
    optimizer: float | None
    transfer: float | None
    pages: float
    paging: float
    flops: int | None
    peak: float | None
    gpu: _nvml.Gpu | None
    batch_sizes: list[BatchSize]
    best_batch_size: int | None
    not_restored: list[str]
    verdict: str
    cures: tuple[Cure, ...]

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain values."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """All attributes as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write it as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json() + "\n")

    def html(self, path: "str | os.PathLike[str]", title: str = "Forebay diagnosis") -> None:
        """Write it as one HTML page, which needs no network."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(_html.table_page(title, self._repr_html_()))

    def _rows(self) -> list[tuple[str, str, float | None, str]]:
        """(label, value, share, remark) of the table."""
        first = format_ns(round(self.first_batch * 1e9))
        rows: list[tuple[str, str, float | None, str]] = [
            ("step alone", f"{self.ceiling:,.0f}/s", 1.0, "the ceiling: one cached batch, again and again"),
            ("loader alone", f"{self.loader:,.0f}/s", min(self.headroom, 1.0), f"{_times(self.headroom)} the ceiling; first batch after {first}"),
            ("together", f"{self.together:,.0f}/s", self.share, "what training gets"),
            ("step", format_ns(round(self.step * 1e9)), None, f"batches of {self.batch_size:,}"),
        ]
        for name in ("forward", "backward", "optimizer", "transfer"):
            seconds = getattr(self, name)
            if seconds is not None:
                beside = "of a batch to the GPU, by itself" if name == "transfer" else ""
                rows.append((f"  {name}", format_ns(round(seconds * 1e9)), seconds / self.step, beside))
        if self.pages >= _PAGES and self.paging >= _PAGING:
            rows.append(("  kernel", f"{self.pages:,.0f} pages", self.paging, "of the CPU time; memory that is taken anew in each step"))
        if self.flops is not None:
            known = "" if self.peak is None else f"; {self.peak:.1%} of the GPU's peak"
            rows.append(("  arithmetic", f"{format_scaled(self.flops)}FLOP", None, f"{format_scaled(self.flops / self.step)}FLOP/s{known}"))
        if self.gpu is not None:
            memory = f"{format_bytes(self.gpu.memory_bytes)} of {format_bytes(self.gpu.memory_total_bytes)}"
            rows.append(("GPU", f"{self.gpu.utilisation:.0%}", self.gpu.utilisation, f"{self.gpu.name}; {memory}"))
        for tried in self.batch_sizes:
            speed = "out of memory" if tried.samples_per_s is None else f"{tried.samples_per_s:,.0f}/s"
            memory = "" if tried.memory_bytes is None else format_bytes(tried.memory_bytes)
            rows.append((f"batch {tried.batch_size:,}", speed, None, memory + ("  best" if tried.batch_size == self.best_batch_size else "")))
        return rows

    def _ends(self) -> list[tuple[str, str]]:
        return [
            ("limit", f"{self.limit} (confidence {self.confidence:.2f})"),
            ("verdict", self.verdict),
            *(("cure", f"{cure.change}: × {format_figure(cure.factor)}, {cure.samples_per_second:,.0f}/s. {cure.why}") for cure in self.cures),
            *(("not restored", what) for what in self.not_restored),
        ]

    def __str__(self) -> str:
        rows = self._rows()
        left, right = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
        lines = [
            f"{label:<{left}}  {value:>{right}}  {' ' * 24 + '     ' if share is None else f'{bar(share)} {share:>4.0%}'}  {more}".rstrip()
            for label, value, share, more in rows
        ]
        return "\n".join([*lines, *(f"{label:<{left}}  {text}" for label, text in self._ends())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def meter(share: float | None) -> str:
            return "" if share is None else f'<meter min="0" max="1" value="{min(share, 1):.3f}"></meter> {share:.0%}'

        rows = "".join(
            f"<tr><td style='white-space:nowrap'>{html.escape(label).replace('  ', '&emsp;')}</td><td style='text-align:right'>{html.escape(value)}</td>"
            f"<td>{meter(share)}</td><td>{html.escape(more)}</td></tr>"
            for label, value, share, more in self._rows()
        )
        ends = "".join(f"<tr><th>{label}</th><td colspan='3' style='text-align:left'>{html.escape(text)}</td></tr>" for label, text in self._ends())
        return f"<table>{rows}{ends}</table>"


def _times(factor: float) -> str:
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.1f} times" if factor >= 1 else f"{factor:.0%} of"


def _agreed(n: int) -> int:
    """The number of rank 0, on all ranks: a step that talks to the others must run as often everywhere."""
    distributed = getattr(_step.torch(), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return n
    said = [n]
    distributed.broadcast_object_list(said, src=0)
    return said[0]


def _batches(loader: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Batches of one epoch after the other, without end; and whether it is an epoch's first."""
    while True:
        first = True
        for batch in loader:
            yield batch, first
            first = False
        if first:
            raise ValueError("the loader gave no batch: there is nothing to measure")


@dataclasses.dataclass
class _Speed:
    """Samples and seconds of the halves of a measurement."""

    steps: int = 0
    halves: list[tuple[int, float]] = dataclasses.field(default_factory=list)

    def add(self, steps: int, samples: int, seconds: float) -> None:
        self.steps += steps
        self.halves.append((samples, max(seconds, 1e-9)))

    @property
    def samples_per_s(self) -> float:
        samples, seconds = (sum(values) for values in zip(*self.halves, strict=True))
        return samples / seconds

    @property
    def speeds(self) -> list[float]:
        return [samples / seconds for samples, seconds in self.halves]

    @property
    def unsteady(self) -> float:
        """How much the halves differ, from 0 to 1."""
        return 1 - min(self.speeds) / max(self.speeds)


def _loader_alone(loader: Any, seconds: float, speed: _Speed) -> tuple[Any, float]:
    """A batch to keep, and seconds to the first one. The speed is of those that follow, without those that were ready before they were asked for."""
    began = time.perf_counter()
    batches = _batches(loader)
    kept, _ = next(batches)
    wait_for_first = time.perf_counter() - began
    size = batch_size_of(kept)
    marks = [(0, time.perf_counter())]
    until = marks[0][1] + seconds
    while len(marks) < 3 or marks[-1][1] < until:
        batch, _ = next(batches)
        samples = batch_size_of(batch)
        if samples > size:
            kept, size = batch, samples
        marks.append((marks[-1][0] + samples, time.perf_counter()))
    _step.wait_for(batch)  # copies to a GPU that were begun
    marks[-1] = (marks[-1][0], time.perf_counter())
    batches.close()
    (n, begin), (total, end) = marks[min(_QUEUE, len(marks) // 4)], marks[-1]
    speed.add(len(marks), total - n, end - begin)
    return kept, wait_for_first


def _warm_up(step: Callable[[Any], Any], batch: Any, seconds: float) -> int:
    """How many steps take about as long."""
    took = 0.0
    for _ in range(_WARM_UP):
        began = time.perf_counter()
        _step.wait_for(step(_step.fresh(batch)))
        took = time.perf_counter() - began
    return _agreed(max(2, round(seconds / max(took, 1e-7))))


def _step_alone(step: Callable[[Any], Any], batch: Any, steps: int, speed: _Speed) -> None:
    began = time.perf_counter()
    result = None
    for _ in range(steps):
        result = step(_step.fresh(batch))
    _step.wait_for(result)
    speed.add(steps, batch_size_of(batch) * steps, time.perf_counter() - began)


def _together(step: Callable[[Any], Any], loader: Any, size: int, rate: float, seconds: float) -> _Speed:
    half = _agreed(max(2, round(seconds / 2 * rate / size)))
    speed = _Speed()
    batches = _batches(loader)
    result = None
    for _ in range(min(_QUEUE, half)):
        batch, _ = next(batches)
        result = step(batch)
    for _ in range(2):
        _step.wait_for(result)
        began, samples = time.perf_counter(), 0
        for _ in range(half):
            batch, _ = next(batches)
            samples += batch_size_of(batch)
            result = step(batch)
        _step.wait_for(result)
        speed.add(half, samples, time.perf_counter() - began)
    batches.close()
    return speed


def _report(loader: Any) -> Report | None:
    """Of a loader that has one."""
    report = getattr(loader, "report", None)
    said = report() if callable(report) else None
    return said if isinstance(said, Report) else None


def _of_loader(before: Report | None, after: Report | None) -> tuple[str, tuple[Cure, ...]]:
    """What limited the loader while it ran alone, and what would help. Where its report is not sure, its busiest stage."""
    if before is None or after is None:
        return "loader", ()
    alone = after.since(before)
    if alone.limit not in ("model", "balanced", "too_early", "first_batch"):
        return alone.limit, alone.cures
    spent = {limit: getattr(alone, name) for name, limit in _STAGES.items()}
    return (max(spent, key=spent.__getitem__) if max(spent.values()) > 0 else "loader"), alone.cures


def _judge(ceiling: float, loader: float, together: float, stage: str, kept: float = 0.0) -> tuple[str, float, str]:
    """The limit, how clear it is from 0 to 1, and the words. `kept`: of the ceiling, by the halves that lose least; the rest is lost for certain."""
    share, headroom = together / ceiling, loader / ceiling
    kept = max(kept, share)
    if kept >= _KEEPS_UP or headroom >= 5 and kept > 0.85:  # what is lost is what handing over costs
        clear = min(1.0, max(0.0, (headroom - 1) / 0.5))
        room = f"and it could be {_times(headroom)} faster before the loader limits" if headroom > 1 else "and the loader is just fast enough"
        best = f" ({min(kept, 1):.0%} at best)" if min(kept, 1) > share + 0.03 else ""
        return "model", clear, (
            f"The step is the limit: with the loader it runs at {min(share, 1):.0%} of its ceiling{best}, {room}. A faster loader gains nothing; a larger "
            "batch, a compiled model or lower precision may."
        )  # fmt: skip
    if 1 - kept > _COSTS / headroom:
        return "model", 0.0, (
            f"The step is the limit: on the loader's batches it runs at {share:.0%} of what it does on a cached one, and a loader that could be "
            f"{_times(headroom)} faster does not cost that. Its work differs from batch to batch, or other programs ran meanwhile."
        )  # fmt: skip
    if headroom >= _FASTER:
        clear = min(1.0, (headroom - _FASTER) / 1.0)
        if kept >= 0.85:
            return "balanced", 1 - clear, f"Loader and step are about equally fast: together they reach {share:.0%} of the step's ceiling."
        return "threads", clear, (
            f"Each alone is fast enough, but together they reach {share:.0%} of the step's ceiling: they compete for the CPUs or for Python's lock. "
            "Give the loader fewer threads, or the process more CPUs."
        )  # fmt: skip
    said = "The loader" if stage == "loader" else f"The loader ({stage})"
    return stage, min(1.0, (_FASTER - headroom) / 0.5), (
        f"{said} is the limit: alone it gives {headroom:.0%} of what the step could take, and together they reach {share:.0%}. At most, training "
        f"could be {1 / share:.1f} times faster."
    )  # fmt: skip


def _of_foreign(loader: Any, ceiling: float, alone: float, together: float) -> tuple[Cure, ...]:
    """What can be said of a loader without a report: beside the step it is no slower than alone, and no other is faster than the step."""
    cures = [
        Cure(
            "another loader, up to the step's ceiling", ceiling, ceiling / together,
            "Where this loader's time goes is not known, and what Forebay gives of the same files was not measured: `forebay bench FILES` says it, and "
            "with --compare --today this loader's beside it.",
        )
    ]  # fmt: skip
    beside = min(ceiling, alone)
    if getattr(loader, "num_workers", None) == 0 and beside / together >= _FASTER:
        why = "A worker process makes batches while the step runs; more of them, as many as there are CPUs, may give more."
        cures.append(Cure("num_workers=1", beside, beside / together, why))
    return tuple(sorted(cures, key=lambda cure: -cure.factor))


def _up_to(ceiling: float, together: float, cures: tuple[Cure, ...]) -> tuple[Cure, ...]:
    """What a loader's cures give training: at most what the step takes."""
    rates = [min(cure.samples_per_second, ceiling) for cure in cures]
    given = [dataclasses.replace(cure, samples_per_second=rate, factor=rate / together) for cure, rate in zip(cures, rates, strict=True)]
    return tuple(cure for cure in given if cure.factor >= _FASTER)


def _varied(step: _Speed, both: _Speed) -> str:
    """A warning where speeds were not the same all the time."""
    if 1 - max(step.unsteady, both.unsteady) >= _STEADY:
        return ""
    alone, together = (f"{min(speed.speeds):,.0f} to {max(speed.speeds):,.0f}/s" for speed in (step, both))
    return (
        f" But speeds changed while they were measured (step alone {alone}, together {together}): measure again, with nothing else running or more "
        "seconds=."
    )


def _paged(pages: float, paging: float, is_idle: bool) -> str:
    """What may help where a step on the CPU takes memory anew each time. Nothing where other threads of the process worked meanwhile."""
    if pages < _PAGES or paging < _PAGING or not is_idle or _step.cuda() is not None or "MALLOC_MMAP_MAX_" in os.environ:
        return ""
    return (
        f" In each step the kernel gives it {pages:,.0f} pages of memory anew, and takes {paging:.0%} of its CPU time. If it is glibc that gives them "
        f"back after the step, it keeps them where Python is started with {_KEEP_MEMORY}."
    )


def _one_of(loader: Any, size: int) -> Any:
    """A batch of another size, from a loader of its own."""
    twin = Twin(loader._samples, loader._given_outputs, **{**loader._options, "batch_size": size, "check": False, "memory": None})
    with twin:
        return next(iter(twin))


def _wanted(loader: Any, sizes: Iterable[int] | None) -> list[int]:
    """The batch sizes to try, which are refused before anything is measured."""
    if sizes is None:
        return []
    if not isinstance(loader, Loader):
        raise TypeError(f"batch_sizes= needs a forebay.Loader, which can be made anew with another size; this is a {type(loader).__name__}")
    if not isinstance(sizes, Iterable):
        raise TypeError(f"batch_sizes={sizes!r}: give several, such as (256, 512, 1024)")
    wanted = [count(size, "batch_sizes", 1) for size in sizes]
    for size in wanted:
        _is_whole(size, len(loader._samples))
    return wanted


def _is_whole(size: int, samples: int) -> None:
    if samples < size:
        raise ValueError(f"batch_sizes has {size}, but the loader's samples make a batch of {samples} only")


def _try_sizes(step: Callable[[Any], Any], loader: Any, sizes: list[int], seconds: float) -> tuple[list[BatchSize], int | None]:
    tried = []
    for size in sizes:
        batch = _one_of(loader, size)
        _is_whole(size, batch_size_of(batch))
        try:
            with _step.Peak() as peak:
                speed = _Speed()
                _step_alone(step, batch, _warm_up(step, batch, seconds), speed)
            tried.append(BatchSize(size, speed.samples_per_s, peak.bytes))
        except Exception as error:
            if not _step.is_out_of_memory(error):
                raise
            tried.append(BatchSize(size, None, None))
    return tried, _best(tried, _step.memory_limit())


def _best(tried: list[BatchSize], limit: int | None) -> int | None:
    fits = [one for one in tried if one.samples_per_s is not None and (limit is None or one.memory_bytes is None or one.memory_bytes <= 0.9 * limit)]
    if not fits:
        return None
    fastest = max(one.samples_per_s or 0 for one in fits)
    return min(one.batch_size for one in fits if (one.samples_per_s or 0) >= 0.95 * fastest)


def diagnose(
    step: Callable[[Any], Any],
    loader: Any,
    seconds: float = 10,
    model: Any = None,
    optimizer: Any = None,
    *,
    batch_sizes: Iterable[int] | None = None,
    restore: Iterable[Any] = (),
) -> Diagnosis:
    """Measure what limits training: the step on one cached batch, the loader alone, and both together.

    The step trains, and the loader advances, while they are measured. What is given here is put back afterwards, bit for bit: the model
    (parameters, buffers, gradients, modes), the optimizer, the loader's place, and the random numbers of Python, NumPy and torch. What was not
    given, or cannot be put back, is in ``not_restored``. Iterators over the loader that the program holds are over.

    Parameters
    ----------
    step : callable
        One training step: takes a batch as the loader gives it. Of PyTorch, JAX or anything else; what it returns is ignored, but JAX
        is waited for by it.
    loader : forebay.Loader, or any iterable of batches
        Such as a DataLoader. Not an iterator: it is begun anew.
    seconds : float
        How long to measure, about, without warm-up, compiling, and waiting (twice, up to 2 · `seconds`, 10 s at most) until the loader's workers are idle.
    model : torch.nn.Module, or anything with state_dict() and load_state_dict(), optional
        A torch model is also what `forward` is told by.
    optimizer : torch.optim.Optimizer, or anything with state_dict() and load_state_dict(), optional
    batch_sizes : sequence of int, optional
        Batch sizes to try the step with, for `batch_sizes` and `best_batch_size`. Only of a forebay.Loader.
    restore : sequence, optional
        More that the step changes and that has state_dict() and load_state_dict(): a scheduler, a gradient scaler, averaged weights.

    Raises
    ------
    TypeError, ValueError
        For a loader that is an iterator, or has no batches. Errors of the step and of the loader are raised as they are, after the states
        were put back.

    Examples
    --------
    >>> def step(batch):
    ...     loss = model(batch["x"]).square().mean()
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> print(fb.diagnose(step, loader, model=model, optimizer=optimizer))
    """
    if not callable(step):
        raise TypeError(f"step is a {type(step).__name__}: give a function that takes a batch and trains on it")
    if isinstance(loader, Iterator):
        raise TypeError(f"loader is an iterator ({type(loader).__name__}) and can be gone through once: give the loader itself")
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise TypeError(f"loader is a {type(loader).__name__}: give what `for batch in loader` goes through")
    if not isinstance(restore, Iterable):
        raise TypeError(f"restore is a {type(restore).__name__}: give a list, restore=[scheduler]")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ValueError(f"seconds={seconds!r}: it must be a number, and more than 0")
    inner = getattr(loader, "loader", loader)
    sizes = _wanted(inner, batch_sizes)
    states = States(loader, model, optimizer, restore)
    try:
        alone, ceiling = _Speed(), _Speed()
        before = _report(loader)
        batch, first = _loader_alone(loader, seconds / 5, alone)
        stage, cures = _of_loader(before, _report(loader))
        settling = min(_SETTLE, 2 * seconds)
        is_idle = _idle.settle(settling)
        half = _warm_up(step, batch, seconds / 6)
        with _step.Paging() as paging:
            _step_alone(step, batch, half, ceiling)
        steps = _agreed(max(1, min(20, round(seconds / 10 * ceiling.samples_per_s / batch_size_of(batch)))))
        of_parts = _Speed()
        with _step.Parts(model, optimizer) as parts:
            _step_alone(step, batch, steps, of_parts)
        operations, copying = _step.flops(step, batch, model), _step.transfer(batch)
        with _nvml.Watch(_nvml.of_torch()) as watch:
            both = _together(step, loader, batch_size_of(batch), min(ceiling.samples_per_s, alone.samples_per_s), seconds / 3)
        if is_idle:  # else something works all the time
            _idle.settle(settling)
        _step.wait_for(step(_step.fresh(batch)))  # of several ranks, here the first waits for the others
        _step_alone(step, batch, half, ceiling)
        _loader_alone(loader, seconds / 5, alone)
        took = batch_size_of(batch) / ceiling.samples_per_s
        pace = steps * ceiling.samples_per_s / of_parts.samples_per_s  # their steps were not as fast, and parts are of a whole
        tried, best = _try_sizes(step, inner, sizes, min(seconds / 3, 2.0))
        most = _step.peak_flops(parts.dtype)
    finally:
        states.restore()
    kept = max(both.speeds) / min(ceiling.speeds)
    limit, clear, verdict = _judge(ceiling.samples_per_s, alone.samples_per_s, both.samples_per_s, stage, kept)
    if limit != stage or alone.samples_per_s >= _FASTER * ceiling.samples_per_s:  # threads may limit the loader alone, too
        cures = ()
    else:
        of_report = _up_to(ceiling.samples_per_s, both.samples_per_s, cures)
        cures = of_report if before else _of_foreign(loader, ceiling.samples_per_s, alone.samples_per_s, both.samples_per_s)
        verdict += " .cures says what to change." if cures else " print(loader.report()) says where its time goes."
    seen = min(alone.steps, ceiling.steps, both.steps)
    steady = 1 - min(0.5, max(speed.unsteady for speed in (alone, ceiling, both)))
    return Diagnosis(
        ceiling=ceiling.samples_per_s,
        loader=alone.samples_per_s,
        together=both.samples_per_s,
        share=both.samples_per_s / ceiling.samples_per_s,
        headroom=alone.samples_per_s / ceiling.samples_per_s,
        limit=limit,
        confidence=seen / (seen + 4) * steady * (0.5 + 0.5 * clear),
        batch_size=batch_size_of(batch),
        first_batch=first,
        step=took,
        forward=parts.seconds("forward", pace),
        backward=parts.seconds("backward", pace),
        optimizer=parts.seconds("optimizer", pace),
        transfer=copying,
        pages=paging.pages / half,
        paging=paging.share,
        flops=operations,
        peak=None if operations is None or most is None else operations / took / most,
        gpu=watch.gpu,
        batch_sizes=tried,
        best_batch_size=best,
        not_restored=states.not_restored,
        verdict=verdict + _paged(paging.pages / half, paging.share, is_idle) + _varied(ceiling, both),
        cures=cures,
    )
