"""What a loader takes of its samples, in words, and what a colleague would ask about: files of which no sample is left, a budget beyond the
machine's, columns that cannot be delivered."""

from __future__ import annotations

import collections
import warnings
from typing import TYPE_CHECKING, Any

from ._advice import outside
from ._sizes import format_bytes

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._samples import Samples


def steps_text(samples: "Samples", taken: tuple[int, int] | None) -> str:
    """", steps 0 to 364 of 372", or nothing."""
    if taken is None:
        return ""
    begin, end = taken
    return f", step{'s' * (end - begin > 1)} {begin}{f' to {end - 1}' * (end - begin > 1)} of {samples.max_rows}"


def lacking(dataset: "Dataset", column: str) -> str | None:
    """The data set's note on files that lack a column: "1 of 3 files lacks the column 'flow', such as 'c.parquet'"; None where none does."""
    return next((note for note in dataset.notes if "lack" in note and f"'{column}'" in note), None)


def dropped(samples: "Samples", names: tuple[str, ...]) -> str | None:
    """That drop_missing leaves nothing of whole files, and which of its columns files lack; None where it does not."""
    notes, files = samples._core.notes()
    if not files:
        return None
    lacks = [note for name in names if (note := lacking(samples.dataset, name))]
    why = f" ({'; '.join(lacks)}, which missing_columns=\"fill\" makes missing values)" if lacks else ""
    return f"{notes[0]}{why}: take the columns that they have no values of out of drop_missing, or the files out of the data set, to say which is meant"


_UNMEANT = "do not lie together", "rise by chance", "do not look at"


def warn_of_samples(samples: "Samples", of: str = "") -> None:
    """That rows with one key do not lie together, that only chance put the rows of a window in this order, or that windows may go over gaps in time."""
    for note in samples.notes:
        if any(words in note for words in _UNMEANT):
            warnings.warn(f"{of}{note}", stacklevel=outside())


def cut_short(core: Any, epoch: int) -> str | None:
    """With parts: that an epoch was left where the first one, which is shorter, has its end: the program has asked for the length once. None where not."""
    state, first = core.state(), core.count_of(0)[0]
    if state["epoch"] != epoch or state["batch"] != first or core.counts()[0] <= first:
        return None
    return (
        f"epoch {epoch} has {core.counts()[0]} batches, and {first} of them were taken, as many as epoch 0 has. With part=, epochs differ in length, and a "
        "program that asks for len() only once leaves out the rest: give Lightning's Trainer reload_dataloaders_every_n_epochs=1, or use "
        "forebay.lightning.DataModule"
    )


_begun: collections.Counter[str] = collections.Counter()  # loaders with parts that began at epoch 0, by data and options


def begun_again(state: dict[str, Any]) -> str | None:
    """With parts: that this is the third loader of the same data and options that begins at epoch 0; a second one may be a look at a batch."""
    key = repr(sorted(state.items()))
    _begun[key] += 1
    if _begun[key] != 3:
        return None
    return (
        "this is the third loader of the same data and options that begins at epoch 0. With part=, the first epoch of all of them has the same files, and "
        "others may never come: make the loader once, tell it the epoch with set_epoch(), or use forebay.lightning.DataModule"
    )


_warned: set[str] = set()  # limits that budgets went beyond


def warn_of_limit(memory: int, report: dict[str, Any]) -> None:
    limit = report["memory_limit"]
    if memory <= report["memory_limit_bytes"] or limit in _warned:
        return
    _warned.add(limit)
    warnings.warn(
        f"memory= is {format_bytes(memory)}, but the process is limited to less ({limit}) and may be killed before the loader holds so much: "
        "give less, or leave memory= out", RuntimeWarning, stacklevel=outside(),
    )  # fmt: skip


def warn_left_out(dataset: "Dataset") -> None:
    """Warn when all columns were asked for and some cannot be delivered."""
    if left_out := dataset._core.left_out():
        more = f"; and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        warnings.warn(
            f"without outputs=, all columns are taken, but these are left out: {'; '.join(left_out[:5])}{more}. Name the outputs to say that "
            "this is as it should be", stacklevel=outside(),
        )  # fmt: skip
