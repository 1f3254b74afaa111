"""What a loader takes of its samples, in words, and what a colleague would ask about: steps of windows, outputs that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader
    from ._samples import Samples


class _Row(NamedTuple):
    """The beginning of an output's row, as ``_outputs.resolve`` makes it."""

    name: str
    source: int
    columns: tuple[str, ...]
    keep_axis: bool
    dtype: Any
    layout: int
    constant: Any
    one_step: bool
    begin: int
    end: int


_VALUES = 0  # the source that is columns' values
_MASKS = (1, 2)
_MAKE, _OPTIONAL = 11, 15  # places in a row


def _rows(loader: "Loader") -> list[tuple]:
    return [row for row in loader._arguments["outputs"] or () if len(row) > _OPTIONAL]


def steps(samples: "Samples", row: tuple | None) -> tuple[int, int] | None:
    """Of windows: the steps [begin, end) that an output takes; None where that has no meaning."""
    if samples.kind != "windows":
        return None
    if row is None:  # of all columns, by default
        return 0, samples.max_rows
    if len(row) <= _OPTIONAL or row[1] not in (_VALUES, *_MASKS) or row[_MAKE] is not None:
        return None
    o = _Row(*row[: len(_Row._fields)])
    return (o.begin, o.begin + 1) if o.one_step else (o.begin, o.end or samples.max_rows)


def steps_text(samples: "Samples", row: tuple | None) -> str:
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
        if row[_OPTIONAL] and row[0] not in loader._outputs:
            for note in filter(None, (lacking(dataset, column) for column in row[2])):
                texts.append(
                    f"output {row[0]!r} is optional, and left out of all batches: {note}. Open the data set with missing_columns=\"fill\" to have it "
                    "with missing values for them, or leave those files out"
                )
                break
    return texts


def covered(loader: "Loader") -> list[str]:
    """Outputs that take whole windows, and so the last steps of a column that another output asks for by steps: the target is in the input."""
    samples = loader._samples
    if samples.kind != "windows":
        return []
    rows = [row for row in _rows(loader) if row[0] in loader._outputs and row[1] == _VALUES]
    whole = [row for row in rows if not row[7] and not row[8] and not row[9] and row[_MAKE] is None]
    texts = []
    for row in rows:
        taken = steps(samples, row)
        if taken is None or taken[0] == 0 or taken[1] != samples.max_rows:
            continue
        for other in whole:
            shared = [column for column in other[2] if column in row[2]]
            if shared:
                texts.append(
                    f"output {other[0]!r} takes all {samples.max_rows} steps of a window, and with them those of {shared[0]!r} that output {row[0]!r} "
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
