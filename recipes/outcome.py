"""What comes of a run: of training with a loader, or of a loader alone. training.py makes them, contest.py compares them."""

from __future__ import annotations

import dataclasses

OURS, IN_ORDER = "forebay", "forebay-in-order"  # the loaders that all recipes have


@dataclasses.dataclass
class Point:
    """The network after so many seconds of training, counted from when the loader was made, on the validation data."""

    seconds: float
    samples: int
    loss: float
    score: float


@dataclasses.dataclass
class Result:
    """What came of a run.

    `curve` has (seconds since training began, samples seen, loss) of every step; `scores` and `loss` are of the validation data at the end, `constant`
    is the loss of the best constant prediction there, `test_scores` are of the test data. `iter_seconds` has what every call of the loader's iter() took,
    `next_seconds` of its next().
    `cpu_seconds`, in `metered_seconds`, and `memory_bytes` are of loader and training together, workers with them, from before the loader was made until
    they have ended; validation is in none of it.
    """

    loader: str
    seed: int
    curve: list[tuple[float, int, float]]
    points: list[Point]
    scores: dict[str, float]
    test_scores: dict[str, float]
    loss: float
    constant: float
    setup_seconds: float
    seconds: float
    samples: int
    iter_seconds: list[float]
    next_seconds: list[float]
    cpu_seconds: float
    metered_seconds: float
    memory_bytes: int
    target_seconds: float | None  # with set-up; None when the target was not reached

    @property
    def samples_per_second(self) -> float:
        """Over all epochs."""
        return self.samples / self.seconds

    @property
    def cores(self) -> float:
        """Seconds of CPU time a second."""
        return self.cpu_seconds / self.metered_seconds

    @property
    def waited(self) -> float:
        """Share of the seconds inside iter() and next()."""
        return (sum(self.iter_seconds) + sum(self.next_seconds)) / self.seconds


@dataclasses.dataclass
class Loading:
    """What came of a loader alone.

    `first_seconds` and `first_samples` are of the first epoch, or of as much of it as there was time for, from before the loader was made. The others are of
    what came after it, epoch after epoch; `cpu_seconds`, in `metered_seconds`, and `memory_bytes` are of both, workers with them.
    """

    loader: str
    seed: int
    first_seconds: float
    first_samples: int
    seconds: float
    samples: int
    next_seconds: list[float]
    cpu_seconds: float
    metered_seconds: float
    memory_bytes: int

    @property
    def first_samples_per_second(self) -> float:
        """Of the first epoch, set-up included."""
        return self.first_samples / self.first_seconds

    @property
    def samples_per_second(self) -> float:
        """After it."""
        return self.samples / self.seconds

    @property
    def cores(self) -> float:
        """Seconds of CPU time a second."""
        return self.cpu_seconds / self.metered_seconds
