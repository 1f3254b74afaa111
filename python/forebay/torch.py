"""Forebay where PyTorch code expects a dataset: bare, or inside a ``DataLoader``.

>>> import forebay.torch
>>> data = forebay.torch.IterableDataset(ds.rows(), {"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512, device="cuda")
>>> for batch in torch.utils.data.DataLoader(data, batch_size=None):     # or: for batch in data
...     ...

A loader of :meth:`forebay.Samples.loader` gives torch tensors too and needs nothing from here; this module is for code that wants an
``IterableDataset``, for looking at single samples, and for moving batches to a device.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

try:
    import torch.utils.data as _data
except ImportError as _error:
    raise ImportError(f"forebay.torch needs PyTorch: {_error}. Install torch, or use ds.rows().loader(…), which gives NumPy arrays without it") from _error

from . import _forebay
from ._advice import refuse_torch
from ._batch import to_device
from ._forwarding import Forwarding
from ._loader import Loader, Twin
from ._pytrees import register as _register
from ._sequences import Padded

__all__ = ["IterableDataset", "to_device"]

_register()

_SPLIT = (
    "this dataset is iterated, batch by batch, and cannot be indexed or split: split the samples, splits = ds.rows().split(train=0.8, val=0.2, "
    "by='samples'), and make a dataset of each, forebay.torch.IterableDataset(splits['train'], batch_size=512). data.sample(i) shows one sample"
)


class IterableDataset(Forwarding, _data.IterableDataset):
    """A loader as PyTorch's ``IterableDataset``: every item is a whole batch.

    Give it to ``DataLoader(dataset, batch_size=None)`` with no workers, or iterate it directly. It has the length of an epoch in
    batches, ``set_epoch()``, and ``state_dict()`` / ``load_state_dict()``, so torchdata's ``StatefulDataLoader`` saves and restores it.
    It already gives each rank its own share: under Accelerate, leave it out of ``accelerator.prepare()``, which would share it once more.

    Parameters
    ----------
    samples : forebay.Samples, forebay.Dataset or forebay.Loader
        A loader has its outputs and options already; the other parameters are for samples.
    outputs, **options
        As :class:`forebay.Loader` takes them. ``framework`` is torch.

    Examples
    --------
    >>> data = IterableDataset(ds.rows(), ["x", "y"], batch_size=512)
    >>> data.sample(17)               # one sample of the data set, for looking at it: {"x": tensor(…), "y": tensor(…)}
    """

    def __init__(self, samples: Any, outputs: Any = None, **options: Any) -> None:
        if isinstance(samples, Loader):
            if outputs is not None or options:
                raise TypeError("a Loader has its outputs and options already: give samples with options, or a loader alone")
            if samples.framework != "torch":
                raise ValueError(f"this loader gives {samples.framework} batches: make it with framework='torch'")
            self.loader = samples
        else:
            self.loader = samples.loader(outputs, framework="torch", **options)
        self._single: Loader | None = None

    def __iter__(self) -> Iterator[Any]:
        self._refuse_second_sharding()
        if sys._getframe(1).f_locals.get("auto_collation"):  # of a fetcher of DataLoader
            raise TypeError(
                "a DataLoader would put the batches of this dataset into batches once more: write torch.utils.data.DataLoader(data, batch_size=None)"
            )
        return iter(self.loader)

    def __len__(self) -> int:
        refuse_torch(_SPLIT, function="random_split")
        return len(self.loader)

    def __getitem__(self, i: Any) -> Any:
        raise TypeError(_SPLIT)

    def _refuse_second_sharding(self) -> None:
        """Accelerate shares a DataLoader's batches among the ranks. These are one rank's already, so most samples would be lost."""
        accelerate = sys.modules.get("accelerate.data_loader")
        if accelerate is None:
            return
        self.loader._find_rank()
        if self.loader.world_size == 1:
            return
        kinds = tuple(kind for name in ("DataLoaderDispatcher", "IterableDatasetShard") if (kind := getattr(accelerate, name, None)))
        frame = sys._getframe(2)
        while frame is not None:  # nothing but who asks tells a prepared DataLoader from another one
            if isinstance(frame.f_locals.get("self"), kinds):
                raise _forebay.StateError(
                    "accelerator.prepare() was given the DataLoader of this dataset, and would share its batches among the ranks a second "
                    f"time; they are those of rank {self.loader.rank} of {self.loader.world_size} already, so samples would be lost. Prepare "
                    "model and optimizer alone, and iterate the dataset, the DataLoader or the loader as they are, with "
                    "device=accelerator.device"
                )
            frame = frame.f_back

    def sample(self, i: int) -> dict[str, Any]:
        """Sample `i` in file order, without the batch axis, for looking at it. Each call reads the block that holds it.

        Raises
        ------
        IndexError
            When there is no such sample.
        """
        n = len(self.loader.dataset)
        at = i + n if i < 0 else i
        if not 0 <= at < n:
            raise IndexError(f"sample {i} of {n}")
        if self._single is None:
            keep = ("memory", "threads")
            options = {name: value for name, value in self.loader._options.items() if name in keep and value != "all"}
            self._single = Twin(
                self.loader.dataset, self.loader._given_outputs, batch_size=1, shuffle=False, rank=0, world_size=1, prefetch=1, framework="torch", **options
            )
        batch = next(iter(self._single._at(at)))
        return {name: _only(value) for name, value in batch.items()}

    def close(self) -> None:
        """Stop the threads and free all memory except that of batches still held."""
        super().close()
        if self._single is not None:
            self._single.close()

    def __reduce__(self):
        return (IterableDataset, (self.loader,))


def _only(value: Any) -> Any:
    """The one sample of a batch of one."""
    if isinstance(value, Padded):
        return value.values[0]
    return value[0]
