"""When nothing but the calling thread works: what is measured then is that thread's."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

_TICK, _IDLE_TICKS = 0.01, 8  # seconds; so many in a row without anybody at work


def _others_at_work() -> bool:
    """Does another thread of this process, or one of its children, run, want to run, or wait for a disk?"""
    for process in (os.getpid(), *(child.pid for child in multiprocessing.active_children())):
        try:
            for thread in os.listdir(f"/proc/{process}/task"):
                if int(thread) != threading.get_native_id():
                    with open(f"/proc/{process}/task/{thread}/stat", encoding="utf-8") as file:
                        if file.read().rpartition(")")[2].split()[0] in "RD":
                            return True
        except OSError:  # it has ended
            continue
    return False


def settle(most: float) -> None:
    """Wait until what a loader leaves running is done, for `most` seconds: workers that stay fill their queues, threads read ahead."""
    until, idle = time.monotonic() + most, 0
    while idle < _IDLE_TICKS and time.monotonic() < until:
        time.sleep(_TICK)
        idle = 0 if _others_at_work() else idle + 1
