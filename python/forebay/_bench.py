"""`forebay bench --compare`: the loader beside what people use today (_rivals.py), on the user's own files, measured by _race.py. Run by the command,
with a spec as its input.

Every run of a contestant is a process of its own, so that no library's threads, allocator or imports disturb another's; they run in turn,
A B C A B C, and what counts is the median.

    python -m forebay._bench < SPEC.json               all of them
    python -m forebay._bench NAME < SPEC.json          one, in this process: a line of JSON, and then one about the mixing
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _html, _race, _rivals
from ._dataset import open as open_dataset
from ._forebay import printable, version
from ._outputs import col
from ._pipeline import _reopen
from ._sizes import format_figure, format_scaled

_FIGURES = ("samples_per_second", "first_batch_seconds", "cpu_seconds_per_million_samples", "epoch_seconds", "peak_bytes", "utilisation", "entropy_bits",
            "entropy_bits_uniform")  # fmt: skip
_PATIENCE_S = 120  # beyond what a run should take: preparing copies of the data, starting workers


# ---- one, in this process ----


class Forebay:
    """The loader itself."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        options = {name: value for name, value in spec["options"].items() if value is not None}
        if spec["pipeline"]:
            pipeline = _reopen(spec["pipeline"], tuple(spec["set"]), spec["open"].get("cache_dir"))  # the command's words, as they are
            self.loader = pipeline.loader(spec["split"], framework="torch", **options)
        else:
            outputs = {o["name"]: col(o["columns"] if o["matrix"] else o["columns"][0], dtype=o["dtype"]) for o in spec["outputs"]}
            self.loader = open_dataset(spec["paths"], **spec["open"]).rows().loader(outputs, framework="torch", **options)

    def epoch(self, number: int) -> Any:
        return self.loader


class Today:
    """The loader that the user has: what an expression gives in a file of theirs."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        file, mark, expression = spec["today"].partition(".py:")
        path = Path(file + ".py").resolve()
        if not mark or not expression or not path.exists():
            raise ValueError(f"--today {spec['today']}: give a file and what to call in it, such as loader.py:make(512)")
        sys.path.insert(0, str(path.parent))  # as for a script
        module = importlib.import_module(path.stem)  # by its name, so that worker processes find it
        self.batches = eval(expression, vars(module))  # the user's words about the user's file
        if isinstance(self.batches, Iterator):
            raise TypeError(f"--today {spec['today']} gives an iterator, which is over after an epoch: give a loader, or a function of the epoch's number")

    def epoch(self, number: int) -> Any:
        return self.batches(number) if callable(self.batches) else self.batches


CONTESTANTS: dict[str, Any] = {"Forebay": Forebay, "today": Today, **_rivals.RIVALS}


def _mixing(batches: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """How batches are mixed; nothing where other libraries do not read the files as the command opens them, which takes no figure from the loader."""
    try:
        return _race.mixing(batches, spec)
    except Exception:
        return {}


def run_one(name: str, spec: dict[str, Any]) -> None:
    """Measure a contestant, and end this process."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no result
    try:
        if spec["work"]:
            _rivals.need("torch").set_num_threads(1)
        contestant = CONTESTANTS[name](spec, Path(spec["cache"]))
        figures, batches = _race.measure(contestant, spec)
        if isinstance(contestant, Forebay):
            figures["report"] = contestant.loader.report().to_dict()
        print(json.dumps(figures), file=out, flush=True)
        print(json.dumps(_mixing(batches, spec) if spec["mixing"] and not spec["beyond"] else {}), file=out, flush=True)
    except _rivals.LeftOutError as why:
        print(json.dumps({"skipped": str(why)}), file=out, flush=True)
    except Exception as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        print(json.dumps({"skipped": f"{type(error).__name__}: {text[:400]}", "failed": True}), file=out, flush=True)
    sys.stderr.flush()
    os._exit(0)  # worker processes and other libraries' threads are not waited for


# ---- all of them ----


def _memory_bytes(pid: int) -> int:
    """What a process and all below it hold, shared pages once."""
    total = 0
    for process in _race.descendants(pid):
        try:
            lines = Path("/proc", str(process), "smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # it has ended
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def _contestant(name: str, spec: dict[str, Any], cache: str, mixing: bool) -> dict[str, Any]:
    """One run, in a process of its own."""
    if spec["cold"]:
        _forget(spec["files"])
    command = [sys.executable, "-m", "forebay._bench", name]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    assert child.stdin and child.stdout
    child.stdin.write(json.dumps({**spec, "cache": cache, "mixing": mixing}))
    child.stdin.close()
    peak, measured = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, _memory_bytes(child.pid))
            if measured.wait(0.25):
                return

    watcher, timer = threading.Thread(target=watch), threading.Timer(spec["seconds"] + spec["warmup"] + _PATIENCE_S, child.kill)
    watcher.start()
    timer.start()
    try:
        line = child.stdout.readline()
        measured.set()
        found = json.loads(line) if line else {"skipped": f"gave no result within {_PATIENCE_S} s", "failed": True}
        if "skipped" not in found:
            found |= {"peak_bytes": peak, **json.loads(child.stdout.readline() or "{}")}
    finally:
        measured.set()
        timer.cancel()
        watcher.join()
        _end(child)
    return found


def _forget(files: list[str]) -> None:
    """Ask the system to drop files from its page cache."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(file)  # what is not written yet stays
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def _end(child: subprocess.Popen[str]) -> None:
    """End a process and what it has started, which the system would give to another parent."""
    below = _race.descendants(child.pid)
    for process in reversed(below):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    child.wait()


def compare(spec: dict[str, Any]) -> dict[str, Any]:
    """Run all, in turn; what the command prints as JSON."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTANTS if name != "today" or spec["today"]}
    given = [f"--{name}" for name in ("table", "axis", "axes") if name in spec["open"]]
    spec["beyond"] = spec["beyond"] or (f"{' and '.join(given)} say where samples lie" if given else None)
    for name in _rivals.RIVALS if spec["beyond"] else ():
        runs[name].append({"skipped": f"would have to be programmed for it: {spec['beyond']}"})
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as cache:
        for turn in range(spec["runs"]):
            for name, results in runs.items():
                if results and "skipped" in results[-1]:
                    continue
                if sys.stderr.isatty():
                    print(f"\r\033[Krun {turn + 1} of {spec['runs']}: {name}", end="", file=sys.stderr, flush=True)
                results.append(_contestant(name, spec, cache, mixing=turn == 0))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    rows = [_row(name, results) for name, results in runs.items()]
    names = [row["name"] for row in rows if "skipped" not in row]
    wanted = spec["baseline"] or next((name for name in ("today", "PyTorch batches", "PyTorch rows") if name in names), "Forebay")
    if wanted not in names and not spec["baseline"]:
        why = next(row["skipped"] for row in rows if row["name"] == "Forebay")
        raise SystemExit(f"forebay: error: Forebay could not be measured: {printable(why)}")
    if wanted not in names:
        raise SystemExit(f"forebay: error: --baseline {wanted}: it was not measured; there are {', '.join(names) or 'none'}")
    base = next(row["samples_per_second"] for row in rows if row["name"] == wanted)
    for row in rows:
        if "skipped" not in row:
            row["factor"] = row["samples_per_second"] / base
    runs_of = "one run" if spec["runs"] == 1 else f"medians of {spec['runs']} runs"
    note = f"{runs_of.capitalize()} of {spec['seconds']:g} s, in turn, a process each; spread is (largest - smallest) / median."
    report = next((run["report"] for run in reversed(runs["Forebay"]) if "report" in run), {})
    comparison = {"title": "Loaders side by side", "note": note, "baseline": wanted, "rows": rows}
    return {"command": "bench", "forebay": version, "comparison": comparison, "report": report}


def _row(name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    measured = [run for run in results if "skipped" not in run]
    if not measured:
        return {"name": name, **results[-1]}
    rates = [run["samples_per_second"] for run in measured]
    figures = {key: statistics.median(values) for key in _FIGURES if (values := [run[key] for run in measured if key in run])}
    return {"name": name, **figures, "lowest": min(rates), "highest": max(rates), "runs": rates}


def text(found: dict[str, Any]) -> str:
    """The table."""
    rows = [row for row in found["comparison"]["rows"] if "skipped" not in row]
    heads = ["loader", "samples/s", "spread", "factor", "first batch", "CPU s/M", "peak memory", "an epoch"]
    heads += ["utilisation"] * any("utilisation" in row for row in rows) + ["entropy"] * any("entropy_bits" in row for row in rows)
    cells = [heads]
    for row in rows:
        spread = "-" if len(row["runs"]) == 1 else f"{(row['highest'] - row['lowest']) / row['samples_per_second']:.0%}"
        values = [row["name"], format_scaled(row["samples_per_second"]), spread, format_figure(row["factor"]), f"{row['first_batch_seconds']:.2f} s",
                  format_figure(row["cpu_seconds_per_million_samples"]), f"{row['peak_bytes'] / 2**20:,.0f} MiB", _duration(row["epoch_seconds"])]  # fmt: skip
        if "utilisation" in heads:
            values.append(f"{row['utilisation']:.0%}")
        if "entropy" in heads:
            values.append(f"{row['entropy_bits']:.2f} of {row['entropy_bits_uniform']:.2f}" if "entropy_bits" in row else "-")
        cells.append(values)
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    lines = ["  " + "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]) for line in cells]
    out = ["", *lines, "", f"  factor: of {found['comparison']['baseline']}. {found['comparison']['note']}"]
    left_out = [row for row in found["comparison"]["rows"] if "skipped" in row]
    if absent := [row["skipped"].removesuffix(_rivals.ABSENT) for row in left_out if row["skipped"].endswith(_rivals.ABSENT)]:
        out.append(f"  not installed: {', '.join(dict.fromkeys(absent))}")
    reasons: dict[str, list[str]] = {}
    for row in left_out:
        if not row["skipped"].endswith(_rivals.ABSENT):
            reasons.setdefault(row["skipped"], []).append(row["name"])
    out += [f"  left out: {', '.join(names)}: {printable(why)}" for why, names in reasons.items()]
    return "\n".join(out)


def _duration(seconds: float) -> str:
    for limit, size, unit in ((7200, 3600, "h"), (120, 60, "min"), (0, 1, "s")):
        if seconds >= limit:
            return f"{format_figure(seconds / size)} {unit}"
    return f"{format_figure(seconds)} s"


def main() -> int:
    spec = json.load(sys.stdin)
    if len(sys.argv) > 1:
        run_one(sys.argv[1], spec)
    found = compare(spec)
    (failed,) = [row for row in found["comparison"]["rows"] if row["name"] == "Forebay"]
    if "skipped" in failed:
        print(f"forebay: error: the loader gave no batches: {printable(failed['skipped'])}", file=sys.stderr)
        return 1
    if spec["html"]:
        try:
            Path(spec["html"]).write_text(_html.page(json.dumps({**found["report"], "comparison": found["comparison"]})), encoding="utf-8")
        except OSError as error:
            print(f"forebay: error: cannot write {spec['html']}: {error.strerror}", file=sys.stderr)
            return 1
    print(json.dumps(found, indent=2) if spec["json"] else text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
