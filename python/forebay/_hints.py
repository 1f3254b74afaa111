"""What a loader takes of its samples, in words, and what a colleague would ask about: outputs and files that are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._outputs import OutputRow

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader
    from ._samples import Samples


def _rows(loader: "Loader") -> list[OutputRow]:
    return [row for row in loader._rows or () if isinstance(row, OutputRow)]


def steps_text(samples: "Samples", taken: tuple[int, int] | None) -> str:
    """", steps 0 to 364 of 372", or nothing."""
    if taken is None:
        return ""
    begin, end = taken
    return f", step{'s' * (end - begin > 1)} {begin}{f' to {end - 1}' * (end - begin > 1)} of {samples.max_rows}"


def lacking(dataset: "Dataset", column: str) -> str | None:
    """The data set's note on files that lack a column: "1 of 3 files lacks the column 'flow', such as 'c.parquet'"; None where none does."""
    return next((note for note in dataset.notes if "lack" in note and f"'{column}'" in note), None)


def left_out(loader: "Loader") -> list[str]:
    """Optional outputs that no batch has although some files have their columns."""
    dataset = loader._samples.dataset
    texts = []
    for row in _rows(loader):
        if row.optional and row.name not in loader._outputs:
            for note in filter(None, (lacking(dataset, column) for column in row.columns)):
                texts.append(
                    f"output {row.name!r} is optional, and left out of all batches: {note}. Open the data set with missing_columns=\"fill\" to have it "
                    "with missing values for them, or leave those files out"
                )
                break
    return texts


def dropped(samples: "Samples", names: tuple[str, ...]) -> str | None:
    """That drop_missing leaves nothing of whole files, and which of its columns files lack; None where it does not."""
    notes, files = samples._core.notes()
    if not files:
        return None
    lacks = [note for name in names if (note := lacking(samples.dataset, name))]
    why = f" ({'; '.join(lacks)}, which missing_columns=\"fill\" makes missing values)" if lacks else ""
    return f"{notes[0]}{why}: take the columns that they have no values of out of drop_missing, or the files out of the data set, to say which is meant"
