"""A loader's report: where the time went, and what limits the loader."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from . import _forebay, _html
from ._forebay import printable
from ._sizes import bar, format_bytes, format_count, format_figure, format_ns

SCHEMA = 1  # of reports as JSON: raised when a key changes its meaning or goes


@dataclasses.dataclass(frozen=True)
class Cure:
    """One thing to change, and what that should give.

    Attributes
    ----------
    change : str
        Such as "memory=3.2GiB".
    samples_per_second : float
        Expected in the steady state.
    factor : float
        How many times as much that is as what was measured.
    why : str
        A sentence.
    """

    change: str
    samples_per_second: float
    factor: float
    why: str


@dataclasses.dataclass(frozen=True)
class Span:
    """A named part of the program: :class:`forebay.span`.

    Attributes
    ----------
    calls : int
    ns : int
        Nanoseconds in it, of all threads.
    """

    calls: int
    ns: int


@dataclasses.dataclass(frozen=True)
class SourceReport:
    """What a loader over a mixture has done so far with one source.

    Attributes
    ----------
    name : str
    samples, bytes_read : int
    wait_ns : int
        Time of the program that it waited for batches of which this source's samples were decoded last.
    padding : float
        Share of the source's rows of padded outputs that is padding, measured on batches of epoch 0.
    samples_per_batch, files_per_batch : float
        Of a batch, on average: the source's samples, and the distinct files that they are from.
    """

    name: str
    samples: int
    bytes_read: int
    wait_ns: int
    padding: float
    samples_per_batch: float
    files_per_batch: float

    def since(self, earlier: "SourceReport") -> "SourceReport":
        """What happened after an earlier report of the same source."""
        counts = {name: getattr(self, name) - getattr(earlier, name) for name in ("samples", "bytes_read", "wait_ns")}
        return dataclasses.replace(self, **counts)


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What was measured between the beginning and the end of one epoch, reading ahead for the next one included.

    The attributes that a :class:`Report` has too mean the same here. The first blocks of an epoch may have been read in the one before.

    Attributes
    ----------
    epoch : int
    ended : bool
        False for the epoch under way, and for one that was left early.
    limit : str
    batches, samples : int
    elapsed_ns, first_batch_ns, wait_ns, work_ns, transfer_ns : int
    gap_ns : int
        From the end of the epoch before it to its beginning.
    bytes_read, bytes_decompressed, bytes_decoded, bytes_delivered : int
    blocks_read, blocks_from_cache, blocks_evicted : int
    reading_ns, read_ns, decompress_ns, decode_ns, assemble_ns, transform_ns, memory_wait_ns, worker_cpu_ns, consumer_cpu_ns : int
    torch_allocated_bytes, torch_reserved_bytes : int or None
        Where torch uses a GPU, the most that it had allocated and reserved by the end of the epoch, as ``torch.cuda.max_memory_allocated()`` says.
    """

    epoch: int
    ended: bool
    limit: str
    batches: int
    samples: int
    elapsed_ns: int
    first_batch_ns: int
    wait_ns: int
    work_ns: int
    transfer_ns: int
    gap_ns: int
    bytes_read: int
    bytes_decompressed: int
    bytes_decoded: int
    bytes_delivered: int
    blocks_read: int
    blocks_from_cache: int
    blocks_evicted: int
    reading_ns: int
    read_ns: int
    decompress_ns: int
    decode_ns: int
    assemble_ns: int
    transform_ns: int
    memory_wait_ns: int
    worker_cpu_ns: int
    consumer_cpu_ns: int
    torch_allocated_bytes: int | None = None
    torch_reserved_bytes: int | None = None

    @property
    def elapsed(self) -> float:
        """Its seconds."""
        return self.elapsed_ns / 1e9

    @property
    def wait_share(self) -> float:
        """Share of the time that the program waited for batches, the first one included."""
        return self.wait_ns / self.elapsed_ns if self.elapsed_ns else 0.0

    @property
    def samples_per_second(self) -> float:
        """Samples delivered per second of it."""
        return self.samples * 1e9 / self.elapsed_ns if self.elapsed_ns else 0.0

    @property
    def bytes_per_second(self) -> dict[str, float]:
        """Of each stage while it was at work (of those on several threads, a thread's): read, decompress, decode, assemble, transfer; bytes that came out.

        What is not known, because nothing was measured, is 0.
        """
        stages = {
            "read": (self.bytes_read, self.reading_ns), "decompress": (self.bytes_decompressed, self.decompress_ns),
            "decode": (self.bytes_decoded, self.decode_ns), "assemble": (self.bytes_delivered, self.assemble_ns),
            "transfer": (self.bytes_delivered, self.transfer_ns),
        }  # fmt: skip
        return {name: n * 1e9 / ns if ns else 0.0 for name, (n, ns) in stages.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Epoch":
        """An epoch of what to_dict() gave."""
        known = {field.name: values.get(field.name) if field.default is None else values[field.name] for field in dataclasses.fields(cls)}
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """All attributes as a plain dict, with `wait_share` and `bytes_per_second`."""
        return {**dataclasses.asdict(self), "wait_share": self.wait_share, "bytes_per_second": self.bytes_per_second}


@dataclasses.dataclass(frozen=True)
class Report:
    """What a loader has done so far. Printing it gives a table with a verdict.

    Times are in nanoseconds, sizes in bytes. The times of stages (read, decompress, decode, assemble) are sums over the loader's threads, so they
    may exceed `elapsed_ns`; `transform_ns` is the time inside a transform, from taking a batch to giving back the result, which runs on one thread.

    Attributes
    ----------
    epochs_begun, batches, samples : int
    bytes_read, bytes_decompressed, bytes_decoded, bytes_delivered : int
    blocks_read, blocks_from_cache, blocks_evicted : int
    elapsed_ns : int
        Since the first epoch began.
    first_batch_ns : int
        From the beginning of the last epoch to its first batch.
    read_ns, decompress_ns, decode_ns, assemble_ns, transform_ns : int
    wait_ns, work_ns : int
        Time of the program inside next(), and between two calls of it.
    consumer_cpu_ns, worker_cpu_ns : int
        CPU time of the program's thread inside the library, and of the loader's threads.
    wait_p50_ns, wait_p95_ns, wait_p99_ns, wait_max_ns : int
    budget_bytes, budget_peak_bytes, budget_minimum_bytes : int
        The memory budget, the most of it that was in use, and the smallest budget that would do.
    memory_available_bytes, memory_limit_bytes : int
        When the loader was made: memory that was still available under all limits (machine, control groups, RLIMIT_AS, RLIMIT_DATA), and the
        smallest of these limits.
    memory_limit : str
        Which limit that is, such as "cgroup v2 /job/memory.max 300 MiB".
    batches_out, batches_out_bytes : int
        Batches that the program still holds.
    blocks : int
        Blocks that have samples: those of the split, where there are splits.
    superbatch_samples, streams, threads : int
    dropped, wrapped : int
        Samples left out, or repeated, at the end of the current epoch (between epochs: the next one).
    parts : int
        Epochs until every file came once; 1 when an epoch has all of them.
    slice_samples : int
        For diversity, blocks are cut into equal slices of at most so many samples; 0 when they are not cut.
    reads_per_block : float
        How often all ranks together read a block in an epoch, on average: an upper bound.
    epoch_bytes : int
        The most stored bytes that all ranks together read in an epoch; with `part`, until every file came once.
    files_per_batch, files_per_batch_uniform : float
        Distinct files in a batch of this rank, on average; and the same for a uniform shuffle.
    files_per_batch_least : int
        The fewest that were found in a whole batch.
    padding, padding_unsorted : float
        Share of padded batches that is padding, when they are padded to their longest sample; and the same without length buckets. Where no
        output is padded, what padding would add. The padding of list columns, whose lengths are known once they are read, does not count.
    padded_outputs : int
        Outputs that are padded to the longest sample of their batch.
    same_block, same_block_uniform : float
        Probability that two samples of a batch come from one block; and the same for a uniform shuffle.
    entropy_bits, entropy_bits_uniform : float
        Entropy of a batch's distribution over blocks; and the same for a uniform shuffle.
    limit : str
        What limits the program: "storage", "decompress", "decode", "assemble", "transform", "transfer" (to a device), "model" (what the program
        does with the batches), "memory" (the budget), "threads", "first_batch", "balanced" or "too_early". Waits for first batches, the program's
        first step and the time between epochs are not counted; epochs after the first decide as soon as enough was seen of them.
    confidence : float
        How certain that is, from 0 to 1: from how much was seen, and how clear it is.
    reason : str
        Why it is as certain as that: what was seen, and what was busy.
    verdict : str
        What limits in words, with the first cure.
    cures : tuple of Cure
        What would help, and by how much; the largest gain first. Empty where nothing of the loader would.
    epochs : tuple of Epoch
        The last 128 epochs, the one under way included.
    cpus : int
        CPUs that the process may use.
    transfer_ns : int
        Time of the program that moving batches to `device` took; no part of `work_ns`.
    gap_ns : int
        Time of the program between the end of an epoch and the beginning of the next, as for validation; no part of `work_ns`.
    first_batches_ns : int
        The part of `wait_ns` that went to the first batch of each epoch.
    first_step_ns : int
        The part of `work_ns` that went to the very first batch, when programs compile and allocate.
    reading_ns : int
        Time in which something was being read: several reads at once count in `read_ns` each, here once.
    memory_wait_ns : int
        Time in which nothing could be loaded because the memory budget had no room, and nothing was being loaded.
    process_cpu_ns : int
        CPU time of the process since the first epoch began.
    overlap_bytes : int
        The least memory budget with which a superbatch is loaded while the one before it is used up; where this one is larger and does not
        do, the next larger one.
    keep_all_bytes : int
        A memory budget with which all blocks stay decoded.
    io_engine, mixing : str
    waits : tuple of (int, int)
        How long waits for a batch took: middles of ranges of nanoseconds, and how many fell into each. Of a transform, of the last 4,096.
    spans : dict of str to Span
        The program's own spans that have ended since the loader was made.
    sources : tuple of SourceReport
        Of a mixture, one for each source; else empty.
    """

    epochs_begun: int
    batches: int
    samples: int
    bytes_read: int
    bytes_decompressed: int
    bytes_decoded: int
    bytes_delivered: int
    blocks_read: int
    blocks_from_cache: int
    blocks_evicted: int
    elapsed_ns: int
    first_batch_ns: int
    read_ns: int
    decompress_ns: int
    decode_ns: int
    assemble_ns: int
    transform_ns: int
    wait_ns: int
    work_ns: int
    consumer_cpu_ns: int
    worker_cpu_ns: int
    wait_p50_ns: int
    wait_p95_ns: int
    wait_p99_ns: int
    wait_max_ns: int
    budget_bytes: int
    budget_peak_bytes: int
    budget_minimum_bytes: int
    memory_available_bytes: int
    memory_limit_bytes: int
    memory_limit: str
    batches_out: int
    batches_out_bytes: int
    superbatch_samples: int
    streams: int
    threads: int
    dropped: int
    wrapped: int
    parts: int
    slice_samples: int
    reads_per_block: float
    epoch_bytes: int
    files_per_batch: float
    files_per_batch_uniform: float
    files_per_batch_least: int
    padding: float
    padding_unsorted: float
    padded_outputs: int
    blocks: int
    same_block: float
    same_block_uniform: float
    entropy_bits: float
    entropy_bits_uniform: float
    io_engine: str
    limit: str
    confidence: float
    reason: str
    verdict: str
    cures: tuple[Cure, ...]
    epochs: tuple[Epoch, ...]
    cpus: int
    transfer_ns: int
    gap_ns: int
    first_batches_ns: int
    first_step_ns: int
    reading_ns: int
    memory_wait_ns: int
    process_cpu_ns: int
    overlap_bytes: int
    keep_all_bytes: int
    mixing: str
    waits: tuple[tuple[int, int], ...] = dataclasses.field(default=(), repr=False)
    spans: Mapping[str, Span] = dataclasses.field(default_factory=dict)
    sources: tuple[SourceReport, ...] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Report":
        """A report from what to_dict() or to_json() gave. Keys that this version does not know are left out.

        Raises
        ------
        ValueError
            When a key is missing, or for a schema newer than this version's.
        """
        schema = values.get("schema", SCHEMA) if isinstance(values, Mapping) else None
        if not isinstance(schema, int):
            raise ValueError(f"no report of a loader: {values!r:.60}")
        if schema > SCHEMA:
            raise ValueError(f"the report has schema {schema}, which a newer forebay wrote: this one reads up to {SCHEMA}")
        try:
            given = {field.name: values[field.name] for field in dataclasses.fields(cls) if field.name not in ("waits", "spans", "sources")}
            given["waits"] = tuple((ns, n) for ns, n in values.get("waits", ()))
            given["spans"] = {name: Span(**span) for name, span in values.get("spans", {}).items()}
            known = [field.name for field in dataclasses.fields(SourceReport)]
            given["sources"] = tuple(SourceReport(**{name: source[name] for name in known}) for source in values.get("sources", ()))
            given["cures"] = tuple(Cure(**{f.name: cure[f.name] for f in dataclasses.fields(Cure)}) for cure in values["cures"])
            given["epochs"] = tuple(map(Epoch.from_dict, values["epochs"]))
        except KeyError as error:
            raise ValueError(f"no report of a loader: it has no {error}") from None
        return cls(**given)

    def since(self, earlier: "Report") -> "Report":
        """What happened after an earlier report of the same loader: counts and times are differences, and are judged anew.

        Quantiles and `waits`, `spans`, figures of the order and `epochs` stay those of this report.
        """
        own = ("schema", "waits", "spans", "sources")  # not the library's
        now, before = ({name: value for name, value in report.to_dict().items() if name not in own} for report in (self, earlier))
        sources = tuple(source.since(then) for source, then in zip(self.sources, earlier.sources)) if earlier.sources else self.sources
        since = Report.from_dict({**now, **_forebay.report_since(now, before)})
        return dataclasses.replace(since, waits=self.waits, spans=self.spans, sources=sources)

    @property
    def samples_per_second(self) -> float:
        """Samples delivered per second since the first epoch began; 0 before."""
        return self.samples * 1e9 / self.elapsed_ns if self.elapsed_ns else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the first epoch began."""
        return self.elapsed_ns / 1e9

    @property
    def wait(self) -> float:
        """Seconds that the program waited for batches."""
        return self.wait_ns / 1e9

    @property
    def work(self) -> float:
        """Seconds that the program worked between batches."""
        return self.work_ns / 1e9

    def to_dict(self) -> dict[str, Any]:
        """All attributes as a plain dict, with ``"schema": 1``, for JSON or a logger. docs/diagnosis.md describes it."""
        values = dataclasses.asdict(self)
        lists = {"cures": list(values["cures"]), "epochs": [epoch.to_dict() for epoch in self.epochs], "sources": list(values["sources"])}
        return {"schema": SCHEMA, **values, **lists}

    def to_json(self) -> str:
        """The same as JSON text. The command writes reports in this form too."""
        return json.dumps(self.to_dict(), indent=2)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write it as JSON, for ``forebay report`` and :func:`Report.from_dict`."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json() + "\n")

    def html(self, path: "str | os.PathLike[str]") -> None:
        """Write it as one HTML page: epochs, stages, roofline, waits, memory, mixing, cures. It needs no network."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(_html.page(self.to_json()))

    def _repr_html_(self) -> str:
        return _html.frame(self.to_json(), str(self))

    def __str__(self) -> str:
        def row(label: str, ns: int, whole: int, more: str = "") -> str:
            share = ns / whole if whole else 0.0
            return f"  {label:<11}{format_ns(ns):>10}  {bar(share)} {share:>4.0%}{'  ' + more if more else ''}"

        threads = max(self.threads, 1)
        capacity = self.elapsed_ns * threads
        waits = (
            f"p50 {format_ns(self.wait_p50_ns)}, p95 {format_ns(self.wait_p95_ns)}, p99 {format_ns(self.wait_p99_ns)}, "
            f"max {format_ns(self.wait_max_ns)}"
        )
        lines = [
            f"{format_count(self.samples)} samples in {format_count(self.batches)} batches, {self.epochs_begun} "
            f"epoch{'s' * (self.epochs_begun != 1)}, {format_ns(self.elapsed_ns)}: {self.samples_per_second:,.0f} samples/s",
            f"share of {threads} thread{'s' * (threads != 1)}",
            row("read", self.read_ns, capacity, f"{format_bytes(self.bytes_read)} by {self.io_engine or 'none'}"),
            row("decompress", self.decompress_ns, capacity, f"{format_bytes(self.bytes_decompressed)} out"),
            row("decode", self.decode_ns, capacity, f"{format_bytes(self.bytes_decoded)} out"),
            row("assemble", self.assemble_ns, capacity, f"{format_bytes(self.bytes_delivered)} delivered"),
            "share of the program's time",
            *([row("transform", self.transform_ns, self.elapsed_ns, "beside it, one batch after the other")] if self.transform_ns else []),
            *([row("transfer", self.transfer_ns, self.elapsed_ns)] if self.transfer_ns else []),
            row("wait", self.wait_ns, self.elapsed_ns, waits),
            row("work", self.work_ns, self.elapsed_ns, f"first batch after {format_ns(self.first_batch_ns)}"),
            *(["spans of the program"] if self.spans else []),
            *(row(name[:10], span.ns, self.elapsed_ns, f"{format_count(span.calls)} calls") for name, span in self.spans.items()),
            f"blocks   {format_count(self.blocks_read)} read, {format_count(self.blocks_from_cache)} from the cache, "
            f"{format_count(self.blocks_evicted)} evicted",
            f"memory   {format_bytes(self.budget_peak_bytes)} at most of {format_bytes(self.budget_bytes)} "
            f"(smallest {format_bytes(self.budget_minimum_bytes)}); {self.batches_out} batch{'es' * (self.batches_out != 1)} held by the program, "
            f"{format_bytes(self.batches_out_bytes)}; the limit is {self.memory_limit}",
            f"order    superbatch of {format_count(self.superbatch_samples)} samples, {self.streams} stream{'s' * (self.streams != 1)}"
            + (f", {format_count(self.parts)} parts" if self.parts > 1 else "")
            + (f", {format_count(self.dropped)} dropped" if self.dropped else "")
            + (f", {format_count(self.wrapped)} repeated" if self.wrapped else ""),
        ]
        if self.mixing:
            lines.append(f"mixing   {self.mixing}")
        for source in self.sources:
            padded = f", padding {source.padding:.1%}" if source.padding else ""
            lines.append(
                f"source   {printable(source.name)}: {format_count(source.samples)} samples, {format_bytes(source.bytes_read)} read, "
                f"waited {format_ns(source.wait_ns)} for it; a batch has {source.samples_per_batch:.1f} of {source.files_per_batch:.1f} files{padded}"
            )
        if self.verdict:
            lines += [f"verdict  {self.verdict}", f"         confidence {self.confidence:.2f}: {self.reason}"]
        lines += [f"cure     {cure.change}: × {format_figure(cure.factor)}, {cure.samples_per_second:,.0f} samples/s. {cure.why}" for cure in self.cures]
        return "\n".join(lines)
