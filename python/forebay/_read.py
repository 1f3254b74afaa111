"""Dataset.read(): columns whole, as NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._batch import Bytes, Ragged, Strings
from ._outputs import col

if TYPE_CHECKING:
    from ._dataset import Dataset

_ROWS = 32_768  # a batch: large enough that its overhead vanishes, small enough for a small budget


def _times(values: Any, kind: str, unit: str | None) -> Any:
    """Integers as NumPy's own time types."""
    if kind == "timestamp":
        return values.view(f"datetime64[{unit}]")
    if kind == "duration":
        return values.view(f"timedelta64[{unit}]")
    if kind == "date":
        return values.astype("datetime64[D]")
    return values


def read(dataset: "Dataset", columns: str | Iterable[str] | None) -> dict[str, Any]:
    import numpy as np

    options: dict[str, Any] = {"batch_size": _ROWS, "shuffle": False, "framework": "numpy", "rank": 0, "world_size": 1, "tail": "keep"}
    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    with dataset.loader(names, **options) as probe:
        infos = probe.outputs
    schema, rows = dataset.schema, len(dataset)
    outputs: dict[str, Any] = {}
    for name, info in infos.items():
        values = col(name)
        # A missing float is NaN; a missing list is empty. The rest needs a stand-in and a mask.
        if schema[name].kind in ("string", "binary") or (not info.ragged and info.dtype not in ("float16", "float32", "float64")):
            outputs["?" + name] = values.missing()
            if not info.ragged:
                values = values.fill(0)
        outputs["=" + name] = values

    dense: dict[str, Any] = {}
    packed: dict[str, list] = {}
    for name, info in infos.items():
        if not info.ragged:
            dense["=" + name] = np.empty((rows, *info.shape[1:]), dtype=info.dtype)
    with dataset.loader(outputs, **options) as loader:
        for name, info in loader.outputs.items():
            if not info.ragged and name not in dense:
                dense[name] = np.empty((rows, *info.shape[1:]), dtype=info.dtype)
        row = 0
        for batch in loader:
            for name, value in batch.items():
                if name in dense:
                    dense[name][row : row + len(value)] = value
                elif name[0] == "=":
                    packed.setdefault(name, []).append(value)
            row += batch.size

    result: dict[str, Any] = {}
    for name, info in infos.items():
        field = schema[name]
        missing = dense.get("?" + name)
        if info.ragged:
            result[name] = _join(np, packed.get("=" + name, []), field.kind, missing, info)
            continue
        values = _times(dense["=" + name], field.kind, field.unit)
        if missing is not None and missing.any():
            if values.dtype.kind in "Mm":
                values[missing] = "NaT"
            else:
                values = np.ma.MaskedArray(values, missing)
        result[name] = values
    return result


def _join(np: Any, parts: list, kind: str, missing: Any, info: Any) -> Any:
    if parts and isinstance(parts[0], (Strings, Bytes)) or kind in ("string", "binary"):
        items = [item for part in parts for item in part.to_list()]
        result = np.empty(len(items), dtype=object)
        result[:] = items
        if missing is not None:
            result[missing] = None
        return result
    if not parts:
        return Ragged(np.empty((0, *info.shape[1:]), dtype=info.dtype), np.zeros(1, dtype=np.int64))
    values = np.concatenate([part.values for part in parts])
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ragged(values, offsets)
