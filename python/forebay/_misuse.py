"""What PyTorch's data utilities would do with objects of this package that are no map-style datasets: say what to write instead."""

from __future__ import annotations

import sys

_CALLERS = ("torch.utils.data", "torchdata.")

LOADER = (
    "a Forebay loader gives whole batches and reads ahead in threads of its own: iterate it directly (for batch in loader), without a DataLoader and "
    "its num_workers. Where code wants a DataLoader: torch.utils.data.DataLoader(forebay.torch.IterableDataset(loader), batch_size=None). To split, "
    "split the samples: parts = samples.split(train=0.8, val=0.2), then parts[\"train\"].loader(…)"
)
SAMPLES = (
    "{what} say which rows belong together, and have no values for a DataLoader, random_split or Subset to take: write "
    "{name}.loader(outputs, batch_size=…, shuffle=True) in place of the DataLoader, and {name}.split(train=0.8, val=0.2) in place of random_split"
)


def refuse_torch(message: str, function: str | None = None) -> None:
    """TypeError where the caller of the method that asks is one of PyTorch's data utilities: any, or the function of this name."""
    if "torch" not in sys.modules:
        return
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__", "").startswith(_CALLERS) and function in (None, frame.f_code.co_name):
        raise TypeError(message)
