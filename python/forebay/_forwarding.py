"""What the modules for frameworks have in common: an object that wraps a loader and does what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._loader import Loader

if TYPE_CHECKING:
    from ._report import Report
    from ._samples import Samples


class Forwarding:
    """Base class of what wraps a loader: everything except iterating.

    Attributes
    ----------
    loader : forebay.Loader
        Set by the subclass.
    """

    loader: Loader

    def __len__(self) -> int:
        return len(self.loader)

    @property
    def dataset(self) -> "Samples":
        """The samples; ``len(loader.dataset)`` is their number over all ranks."""
        return self.loader.dataset

    @property
    def batch_size(self) -> int | None:
        """Samples a batch of this rank; with `batch_elements` the most of them, None when that was not given."""
        return self.loader.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter()`` begin this epoch."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: :meth:`forebay.Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Continue where a state was taken: :meth:`forebay.Loader.load_state_dict`."""
        self.loader.load_state_dict(state)

    def _kept(self) -> Callable[[], None]:
        return self.loader._kept()

    def report(self) -> Report:
        """Where the time went so far: :meth:`forebay.Loader.report`."""
        return self.loader.report()

    def close(self) -> None:
        """Stop the threads and free all memory except that of batches still held."""
        self.loader.close()

    def __repr__(self) -> str:
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return repr(self.loader).replace("<forebay.Loader", f"<{name}", 1) if "loader" in self.__dict__ else f"<{name}, not made>"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
