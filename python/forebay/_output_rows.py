"""Outputs as the extension takes them: rows of plain values, bound to the data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import _make_lookup, _make_select
from ._outputs import LAYOUT_AUTO, Column, Index, Literal, PipelineOutput, ordered, col

_FROM_COLUMNS, _FROM_LIT, _FROM_SOURCE = "columns", "lit", "source"


class OutputRow(NamedTuple):
    """An output; `core()` is what _forebay.Loader takes."""

    name: str
    source: str
    columns: tuple[str, ...] = ()
    keep_axis: bool = False
    dtype: str | None = None
    layout: str = LAYOUT_AUTO
    value: float = 0.0
    one_step: bool = False
    step_begin: int = 0
    step_end: int = 0
    ops: tuple = ()
    make: tuple | None = None
    column_ops: tuple | None = None
    after: tuple = ()
    axes: tuple[int, ...] = ()
    optional: bool = False
    ragged: dict[str, Any] | None = None
    padded: dict[str, Any] | None = None

    def core(self) -> dict[str, Any]:
        """By the library's names, see _forebay.options("output")."""
        out = self._asdict()
        out["from"], out["reshape"] = out.pop("source"), out.pop("axes")
        return out


class PipelineRow(NamedTuple):
    """The same of an output of a pipeline file, which the core knows by its place there."""

    name: str
    source: str
    columns: tuple[str, ...]
    pipeline: Any
    place: int

    def core(self) -> dict[str, Any]:
        """As the extension takes it."""
        return {"name": self.name, "pipeline": self.pipeline, "place": self.place}


def _one(name: str, output: Any, dataset: Any) -> OutputRow | PipelineRow:
    if not isinstance(name, str):
        raise TypeError(f"an output is named by a str, not {type(name).__name__}: {name!r}")
    if isinstance(output, PipelineOutput):
        return PipelineRow(name, output.source, output.columns, output.pipeline._core, output.place)
    if isinstance(output, Index):
        return OutputRow(name, output.what)
    if isinstance(output, Literal):
        return OutputRow(name, _FROM_LIT, dtype=output.dtype, value=output.value)
    if isinstance(output, str) or (isinstance(output, Iterable) and not isinstance(output, (Mapping, bytes))):
        output = col(output if isinstance(output, str) else ordered(output))
    if not isinstance(output, Column):
        raise TypeError(f"output {name!r}: a column name, a list of names or fb.col(...) is expected, not {type(output).__name__}")
    if _make_lookup.is_unbound(output.make):
        output = _make_lookup.bind(output, dataset)
    if _make_select.is_unbound(output.make):
        output = _make_select.bind(output, dataset)
    return OutputRow(
        name,
        output.mask_of or _FROM_COLUMNS,
        output.columns,
        output.keep_axis,
        output.dtype,
        output.layout,
        0.0,
        output.one_step,
        *output.step_range,
        output.ops,
        output.make,
        output.column_ops,
        output.after,
        output.axes,
        output.is_optional,
        **{output.layout: dict(output.layout_options)} if output.layout_options else {},
    )


def resolve(outputs: Any, dataset: Any = None) -> list[OutputRow | PipelineRow] | None:
    """The rows that _forebay.Loader takes, or None for every column that can be a tensor."""
    if outputs is None:
        return None
    if isinstance(outputs, str):
        outputs = {outputs: outputs}
    elif isinstance(outputs, (Column, Index, Literal, PipelineOutput)):
        raise TypeError(f"an output needs a name: outputs={{'x': {outputs!r}}}")
    elif not isinstance(outputs, Mapping):
        names = ordered(outputs)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"a list of outputs holds column names; for {name!r} use a dict that names it")
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"outputs names {sorted(doubled)[0]!r} twice")
        outputs = {name: name for name in names}
    if not outputs:
        raise ValueError("outputs is empty: name at least one, or leave it out for every column that can be a tensor")
    return [_one(name, output, dataset) for name, output in outputs.items()]


def cores(rows: list[OutputRow | PipelineRow] | None) -> list[Any] | None:
    """Rows as the extension takes them."""
    return None if rows is None else [row.core() for row in rows]


def names_of(row: OutputRow | PipelineRow | None, sources: list[str] | None = None) -> Any:
    """What the values of an output stand for: the names of an encoded column, of a mixture's sources, else None. `row` is as resolve() gives it."""
    if row is None:
        return None
    if row.source == _FROM_SOURCE:
        return sources
    if isinstance(row, PipelineRow):
        return _make_lookup.names_in(row.pipeline.keys(row.place))
    return _make_lookup.names_of(row.make)
