"""What torch has taken of a GPU's memory, epoch by epoch; nothing of programs that use torch without one, or no torch."""

from __future__ import annotations

import sys
from typing import Any

_KEPT = 128  # epochs, as many as reports have


class TorchMemory:
    """The most that torch had allocated and reserved by the end of an epoch, as ``torch.cuda.max_memory_allocated()`` says. Nothing is reset."""

    def __init__(self) -> None:
        self._epochs: dict[int, tuple[int, int]] = {}

    def note(self, epoch: int | None) -> None:
        """It is this epoch, or its end."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if epoch is None or cuda is None or not cuda.is_initialized():
            return
        self._epochs.pop(epoch, None)
        self._epochs[epoch] = (cuda.max_memory_allocated(), cuda.max_memory_reserved())
        if len(self._epochs) > _KEPT:
            del self._epochs[next(iter(self._epochs))]

    def added(self, epochs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Epochs of a report, with what is known of each."""
        names = ("torch_allocated_bytes", "torch_reserved_bytes")
        return [{**epoch, **dict(zip(names, self._epochs.get(epoch["epoch"], (None, None)), strict=True))} for epoch in epochs]
