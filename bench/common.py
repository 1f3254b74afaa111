"""What the benchmark scripts share: where data lies, the machine, statistics, tables that print as they grow, CSV files.

A contestant is timed in a process of its own (rivals.py), so that no library's threads, allocator or imports disturb another's.
Side by side means interleaved: A B C A B C, never all runs of A before B.
"""
import csv
import datetime
import functools
import json
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
RESULTS = BENCH / "results"


def scratch():
    """Where generated data lies: $FOREBAY_BENCH_DIR, else .demo/ of the repository (git ignores it)."""
    path = Path(os.environ.get("FOREBAY_BENCH_DIR") or ROOT / ".demo")
    path.mkdir(parents=True, exist_ok=True)
    return path


def made(path, make):
    """The path of a file or folder that make(path) writes, once: under another name until it is whole."""
    if not path.exists():
        partial = path.with_name("partial-" + path.name)
        if partial.is_dir():  # of a run that was interrupted
            shutil.rmtree(partial)
        partial.unlink(missing_ok=True)
        make(partial)
        partial.rename(path)
    return path


# ---- the machine and the state of the tree ----


def cpus():
    """That this process may use: as many threads as a loader takes that is not told how many."""
    return len(os.sched_getaffinity(0))


def machine():
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpus()} cores of {model}, {memory_gib:.0f} GiB, Linux {platform.release().partition('-')[0]}"


MEASURED = ("src", "include", "python", "helper", "cmake", "CMakeLists.txt", "bench", "recipes", ":!bench/results", ":!*.md")


@functools.cache  # asked first when measuring begins
def commit():
    """The commit measured, with "+" when the library or what measures it differs from it."""
    try:
        name = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        dirty = subprocess.run(["git", "status", "--porcelain", "--", *MEASURED], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.strip()
        return name + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def warn_when_busy():
    load = os.getloadavg()[0]
    if load > 1.0:
        print(f"note: the load average is {load:.1f}: other programs are running, the spread will show it", flush=True)


def drop_page_cache(paths):
    """Forget these files' pages, as far as the kernel does for anyone: clean pages of files that nobody maps."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def warm_page_cache(paths):
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


# ---- programs ----


def find_cli():
    """The forebay command: $FOREBAY_CLI, the build folder's, the one on the path."""
    for candidate in (os.environ.get("FOREBAY_CLI"), ROOT / "build" / "forebay", shutil.which("forebay")):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def build_c(*programs):
    """Build programs of bench/c in build-bench/ and return their paths."""
    folder = ROOT / "build-bench"
    if not (folder / "build.ninja").exists():
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DFBY_BUILD_BENCH=ON", "-DFBY_BUILD_TESTS=OFF",
                        "-DFBY_BUILD_CLI=OFF", "-DFBY_BUILD_EXAMPLES=OFF", "-DFBY_BUILD_SHARED=OFF"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", *programs], check=True, stdout=subprocess.DEVNULL)
    return [folder / "bench" / "c" / name for name in programs]


def rival_python():
    """The interpreter with the optional packages: $FOREBAY_BENCH_PYTHON, bench/setup.sh's environment, else this one."""
    for candidate in (os.environ.get("FOREBAY_BENCH_PYTHON"), scratch() / "rivals-venv" / "bin" / "python"):
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    return sys.executable


def keyed(line):
    """"a=1 b=x" as a dict with numbers where they are numbers."""
    out = {}
    for part in line.split():
        key, sep, value = part.partition("=")
        if sep:
            try:
                out[key] = float(value)
            except ValueError:
                out[key] = value
    return out


def contestant(name, data, timeout=300, python=None, **options):
    """Run one contestant of rivals.py in a process of its own. Its result as a dict; {"skipped": reason} when it cannot run."""
    argv = [python or sys.executable, str(BENCH / "rivals.py"), name, str(data)]
    for key, value in options.items():
        if value is True:
            argv.append(f"--{key.replace('_', '-')}")
        elif value is not None and value is not False:
            argv += [f"--{key.replace('_', '-')}", str(value)]
    return result_of(argv, timeout)


class Missing(Exception):
    """A package that a contestant needs is not installed."""


def result_of(argv, timeout=300):
    """Run a program that says its result as a line of JSON, the last one. {"skipped": reason} when it cannot run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"skipped": f"no result within {timeout} s"}
    return result_in(done.stdout, done.stderr)


def result_in(output, errors):
    """The same of a program that has ended."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    tail = (errors.strip() or output.strip() or "no output").splitlines()[-1]
    return {"skipped": f"failed: {tail[:160]}"}


def leave():
    """The end of a contestant, which waits for no other library's threads, nor for workers: one that is reading what this process wrote would for ever."""
    for worker in multiprocessing.active_children():
        worker.kill()
    os._exit(0)


def interleave(cases, runs):
    """cases: {name: function() -> dict}. Runs them A B C A B C…; {name: [dicts]}. A case that is skipped once is not tried again, and its runs before that
    do not count: they have no peers in the turns that follow."""
    results = {name: [] for name in cases}
    show = sys.stderr.isatty()
    for turn in range(runs):
        for name, run in cases.items():
            first = results[name][0] if results[name] else None
            if not (isinstance(first, dict) and "skipped" in first):
                if show:
                    print(f"\r\033[Krun {turn + 1} of {runs}: {name}", end="", file=sys.stderr, flush=True)
                results[name].append(run())
                if isinstance(results[name][-1], dict) and "skipped" in results[name][-1]:
                    results[name] = results[name][-1:]
    if show:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return results


# ---- statistics ----


def verdict(ok):
    """Whether a goal is reached; nothing where there is none."""
    return "" if ok is None else "pass" if ok else "FAIL"


def median(values):
    return statistics.median(values)


def spread(values):
    """(largest - smallest) / median."""
    return (max(values) - min(values)) / statistics.median(values) if len(values) > 1 else 0.0


# ---- output ----


def si(value, digits=3):
    """1234567 -> "1.23 M"."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.{digits}g}{unit}" if abs(value) < 999.5 * limit else f"{value / limit:,.0f}{unit}"
    return f"{value:.{digits}g}"


def width(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Table:
    """A table whose rows are printed as they come; columns: [(title, width)], a negative width aligns left."""

    def __init__(self, title, columns):
        self.columns = columns
        print(f"\n{title}")
        self.row(*(name for name, _ in columns))
        print("  " + "-" * (sum(abs(w) for _, w in columns) + 2 * (len(columns) - 1)), flush=True)

    def row(self, *cells):
        parts = []
        for (_, w), cell in zip(self.columns, cells):
            text = str(cell)
            pad = " " * max(0, abs(w) - width(text))
            parts.append(text + pad if w < 0 else pad + text)
        print("  " + "  ".join(parts).rstrip(), flush=True)


class Csv:
    """A result file: replaced as a whole when the question is measured again."""

    def __init__(self, name, columns):
        self.path = RESULTS / name
        self.columns = ["date_utc", "commit", *columns]
        self.rows = []
        self.stamp = (datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"), commit())

    def add(self, **values):
        row = dict(zip(("date_utc", "commit"), self.stamp))
        for key, value in values.items():
            if key not in self.columns:
                raise KeyError(key)
            row[key] = f"{value:.6g}" if isinstance(value, float) else value
        self.rows.append(row)

    def write(self):
        RESULTS.mkdir(exist_ok=True)
        with open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
