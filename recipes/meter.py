"""CPU time and memory of this process and of all below it: the workers of a DataLoader, Forebay's helper."""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import threading
import time

PROC = pathlib.Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def below() -> list[int]:
    """The processes that this one has started, and theirs."""
    parents = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
    found, new = [], [os.getpid()]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found += new
    return found


def cpu_seconds() -> float:
    """Of this process, of those that it has waited for, and of those that run."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(one.ru_utime + one.ru_stime for one in usage)
    for pid in below():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICKS  # its own, and of children that it has waited for
    return total


def _status(name: str) -> int:
    for line in (PROC / "self" / "status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _private(pid: int) -> int:
    """What a process holds alone: what it shares with this one is counted here."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def keep_freed_memory() -> None:
    """Has glibc keep what a step of training on the CPU frees. By itself it gives large pieces back and takes them anew, page by page, for the next step
    (half of hydrology's training), and so with the top of its heap, where nothing small lies above: which loader that slows down is chance."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # of glibc alone
        m_trim_threshold, m_mmap_max = -1, -4
        mallopt(m_trim_threshold, 2**31 - 1)
        mallopt(m_mmap_max, 0)  # large ones lie on the heap, too


class Meter:
    """``with Meter() as meter: …``; then `cpu_seconds` of `seconds`, and `memory_bytes`: by how much memory grew at the most.

    This process's own peak is the kernel's; that of the processes below it is looked at every fifth of a second.
    """

    def __enter__(self) -> Meter:
        (PROC / "self" / "clear_refs").write_text("5")  # the kernel's peak begins anew
        self._memory, self._cpu, self._began, self._others = _status("VmRSS"), cpu_seconds(), time.perf_counter(), 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        self._others = max(self._others, sum(map(_private, below())))

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self._look()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()
        self.cpu_seconds, self.seconds = cpu_seconds() - self._cpu, time.perf_counter() - self._began
        self.memory_bytes = max(0, _status("VmHWM") - self._memory) + self._others
