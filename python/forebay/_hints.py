"""What a loader takes of its samples, in words, and what a colleague would ask about: steps of windows, outputs that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._outputs import OutputRow, PipelineRow

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader
    from ._samples import Samples


def _rows(loader: "Loader") -> list[OutputRow]:
    return [row for row in loader._arguments["outputs"] or () if isinstance(row, OutputRow)]


def steps(samples: "Samples", row: OutputRow | PipelineRow | None) -> tuple[int, int] | None:
    """Of windows: the steps [begin, end) that an output takes; None where that has no meaning."""
    if samples.kind != "windows":
        return None
    if row is None:  # of all columns, by default
        return 0, samples.max_rows
    if isinstance(row, PipelineRow) or not (row.has_values or row.is_mask) or row.make is not None:
        return None
    return (row.step_begin, row.step_begin + 1) if row.one_step else (row.step_begin, row.step_end or samples.max_rows)


def steps_text(samples: "Samples", row: OutputRow | PipelineRow | None) -> str:
    """", steps 0 to 364 of 372", or nothing."""
    taken = steps(samples, row)
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


def covered(loader: "Loader") -> list[str]:
    """Outputs that take whole windows, and so the last steps of a column that another output asks for by steps: the target is in the input."""
    samples = loader._samples
    if samples.kind != "windows":
        return []
    rows = [row for row in _rows(loader) if row.name in loader._outputs and row.has_values]
    whole = [row for row in rows if not (row.one_step or row.step_begin or row.step_end) and row.make is None]
    texts = []
    for row in rows:
        taken = steps(samples, row)
        if taken is None or taken[0] == 0 or taken[1] != samples.max_rows:
            continue
        for other in whole:
            shared = [column for column in other.columns if column in row.columns]
            if shared:
                texts.append(
                    f"output {other.name!r} takes all {samples.max_rows} steps of a window, and with them those of {shared[0]!r} that output {row.name!r} "
                    f"asks for{steps_text(samples, row)}: write .steps(0, {taken[0]}) if that is the target, or .steps(0, {samples.max_rows}) if it "
                    "is meant"
                )
    return texts


def dropped(dataset: "Dataset", names: tuple[str, ...]) -> list[str]:
    """Files that lack a column whose missing values drop windows: all of their windows go."""
    return [
        f"drop_missing={name!r} drops every window that lies in a file without the column: {note}, filled with missing values by "
        'missing_columns="fill". Leave the column out of drop_missing, or the files out of the data set, to say which is meant'
        for name in names if (note := lacking(dataset, name))
    ]  # fmt: skip
