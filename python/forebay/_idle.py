"""When nothing but the calling thread works: what is measured then is that thread's."""

from __future__ import annotations

import os
import threading
import time

_TICK, _IDLE_TICKS = 0.01, 8  # seconds; so many in a row without anybody at work


def _others_at_work(process: int) -> bool:
    """Does another thread of a process, or one of its children's, run, want to run, or wait for a disk?"""
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat", encoding="utf-8") as file:
                if int(thread) != threading.get_native_id() and file.read().rpartition(")")[2].split()[0] in "RD":
                    return True
            with open(f"/proc/{process}/task/{thread}/children", encoding="utf-8") as file:
                if any(_others_at_work(int(child)) for child in file.read().split()):
                    return True
    except OSError:  # it has ended
        pass
    return False


def settle(most: float) -> bool:
    """Wait until what a loader leaves running is done, for `most` seconds: workers that stay fill their queues, threads read ahead. Whether it is."""
    until, idle = time.monotonic() + most, 0
    while idle < _IDLE_TICKS and time.monotonic() < until:
        time.sleep(_TICK)
        idle = 0 if _others_at_work(os.getpid()) else idle + 1
    return idle == _IDLE_TICKS
