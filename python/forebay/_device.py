"""Batches on their way from a loader to the device that it was given."""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import weakref
from typing import Any

from ._batch import map_tensors, to_device

_IN_FLIGHT = 2  # batches whose copies are not over: one that is copied, one that waits its turn


class Mover:
    """Moves batches to a device. Copies to a GPU have a stream of their own, so that they run beside the program's kernels.

    The program's stream waits for a copy, the program does not. Memory that is locked in place is copied from where it lies and must not be written
    to before the copy is over: so long the batch is held here.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self._streams: dict[Any, Any] = {}  # by device: "cuda" is the current one, which may change
        self._held: collections.deque[tuple[Any, Any]] = collections.deque()
        self._finish = weakref.finalize(self, _release, self._held, os.getpid())

    def __call__(self, batch: Any) -> Any:
        if self.device.type != "cuda":
            return to_device(batch, self.device)
        cuda = sys.modules["torch"].cuda
        now = cuda.current_stream(self.device)
        if now.device not in self._streams:
            self._streams[now.device] = cuda.Stream(now.device)
        copies = self._streams[now.device]

        def move(tensor: Any) -> Any:
            if tensor.is_cuda:  # a transform's doing, on the program's stream
                with cuda.stream(now):
                    return tensor.to(now.device)
            moved = tensor.pin_memory().to(now.device, non_blocking=True)  # what is pinned stays where it is
            moved.record_stream(now)
            return moved

        with cuda.stream(copies):
            moved = map_tensors(batch, move)
            over = copies.record_event()
        now.wait_event(over)
        self._held.append((over, batch))
        while len(self._held) > _IN_FLIGHT or self._held and self._held[0][0].query():
            _let_go_of_one(self._held)
        return moved

    def finish(self) -> None:
        """Wait for the copies that are under way, and let go of their batches. Nothing comes after it."""
        self._finish()


def _let_go_of_one(held: collections.deque[tuple[Any, Any]]) -> None:
    held[0][0].synchronize()
    held.popleft()


def _release(held: collections.deque[tuple[Any, Any]], pid: int) -> None:
    """Nothing is moved any more: the loader is closed, or the mover is gone, or the program ends."""
    with contextlib.suppress(RuntimeError):  # of a GPU that failed, as its program has been told
        while held and os.getpid() == pid:  # in a child of fork() there is no GPU to ask
            _let_go_of_one(held)
