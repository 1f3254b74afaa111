"""Batches on their way from a loader to the device that it was given."""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import weakref
from typing import Any

from ._batch import map_tensors, to_device

_AHEAD = 2  # steps that the program may be ahead of the GPU; and batches whose copies need not be over


class Mover:
    """Moves batches to a device. Copies to a GPU have a stream of their own, so that they run beside the program's kernels.

    The program's stream waits for a copy, the program does not. A batch is held until its copy is over, since memory that is pinned in place is copied
    from where it lies.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self._streams: dict[Any, Any] = {}  # by device: "cuda" is the current one, which may change
        self._steps: collections.deque[Any] = collections.deque()  # how far the program's stream was at the last calls
        self._held: _Held = collections.deque()
        self._pid = os.getpid()
        weakref.finalize(self, _finish, self._held, self._pid)

    def pin(self, core: Any) -> None:
        """Batches of this loader are pinned in place from now on, where they go to a GPU that can copy them so."""
        if self.device.type == "cuda":
            cuda = sys.modules["torch"].cuda
            cuda.init()
            core.pin(cuda.current_device() if self.device.index is None else self.device.index)

    def keep_up(self) -> None:
        """Wait until the GPU is two steps behind at most: batches further ahead would only fill its memory."""
        while len(self._steps) >= _AHEAD:
            self._steps.popleft().synchronize()

    def __call__(self, batch: Any) -> Any:
        if self.device.type != "cuda":
            return to_device(batch, self.device)
        torch = sys.modules["torch"]
        now = torch.cuda.current_stream(self.device)
        if now.device not in self._streams:
            self._streams[now.device] = torch.cuda.Stream(now.device)
        copies = self._streams[now.device]

        def move(tensor: Any) -> Any:
            if not isinstance(tensor, torch.Tensor) or tensor.is_cuda or tensor.is_nested or tensor.layout != torch.strided:  # a transform's
                with torch.cuda.stream(now):
                    return to_device(tensor, now.device)
            moved = to_device(tensor, now.device)  # what is pinned in place is copied from there
            moved.record_stream(now)
            return moved

        self._steps.append(now.record_event())
        with torch.cuda.stream(copies):
            try:
                moved = map_tensors(batch, move)
            finally:  # some may be under way when another fails
                over = copies.record_event()
                self._held.append((over, batch))
                _let_go(self._held, _AHEAD)
        now.wait_event(over)
        return moved

    def finish(self) -> None:
        """Wait for the copies that are under way, and let go of their batches."""
        _finish(self._held, self._pid)


_Held = collections.deque[tuple[Any, Any]]  # (event: the copy is over, batch)


def _let_go(held: _Held, most: int) -> None:
    """Of all but the newest; each is waited for by whoever took it, as a loader may be closed by another thread than the one that moves its batches."""
    while len(held) > most:
        with contextlib.suppress(IndexError):
            over, batch = held.popleft()
            over.synchronize()
            del batch


def _finish(held: _Held, pid: int) -> None:
    if os.getpid() == pid:  # in a child of fork() there is no GPU to ask
        with contextlib.suppress(RuntimeError):  # of a GPU that failed, as its program has been told
            _let_go(held, 0)
