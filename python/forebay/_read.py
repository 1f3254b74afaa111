"""Dataset.read(): columns whole, as NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _forebay
from ._forebay import BudgetError, SchemaError, UnsupportedError, printable
from ._outputs import col
from ._ranks import local_world_size
from ._schema import Field
from ._sequences import Bytes, Ragged, Strings
from ._sizes import format_bytes

if TYPE_CHECKING:
    from ._dataset import Dataset

_ROWS = 32_768  # a batch: large enough that its overhead vanishes, small enough for a small budget
_MOST_RANKS = 1 << 16
_BYTES = 32 << 20  # and so are its bytes, where a row is an image or a whole spectrogram


def _times(values: Any, kind: str, unit: str | None) -> Any:
    """Integers as NumPy's own time types."""
    if kind == "timestamp":
        return values.view(f"datetime64[{unit}]")
    if kind == "duration":
        return values.view(f"timedelta64[{unit}]")
    if kind == "date":
        return values.astype("datetime64[D]")
    return values


def _value(field: Field) -> Field:
    """The field that holds the values of a (fixed-size) list."""
    while field.kind in ("list", "fixed_list") and field.children:
        field = field.children[0]
    return field


def _width(field: Field) -> int:
    """About how many bytes a row of the field takes as a tensor."""
    inner = sum(_width(child) for child in field.children) or 8
    return inner * field.list_size if field.kind == "fixed_list" else inner


def _can_miss(field: Field) -> bool:
    return field.nullable or any(_can_miss(child) for child in field.children)


def _nothing(np: Any, dataset: "Dataset", names: list[str] | None) -> dict[str, Any]:
    """The columns of a data set without rows: no loader runs over nothing."""
    result: dict[str, Any] = {}
    for name in dataset.schema.paths if names is None else names:
        if name not in dataset.schema:
            raise SchemaError(f"there is no column {name!r}")
        field = dataset.schema[name]
        value = _value(field)
        if field.kind in ("string", "binary", "null"):  # null: a CSV file of a header alone says no type
            result[name] = np.empty(0, dtype=object)
        elif field.kind == "list" and value.dtype:
            result[name] = Ragged(np.empty(0, dtype=value.dtype), np.zeros(1, dtype=np.int64))
        elif value.dtype or value.kind == "decimal":
            dtype = np.dtype(value.dtype or "float64")
            dims = []
            while field.kind == "fixed_list":
                dims.append(field.list_size)
                field = field.children[0]
            result[name] = _times(np.empty((0, *dims), dtype), value.kind, value.unit)
        elif names is not None:
            raise UnsupportedError(f"column {name!r} of type {printable(field.type)} cannot be an array here; read it through Arrow")
    return result


class _Room:
    """What a result may hold beside the loader that reads it."""

    def __init__(self, dataset: "Dataset", columns: Iterable[str], limit: int) -> None:
        self._dataset, self._columns, self._limit, self.taken = dataset, list(columns), limit, 0

    def take(self, n: int, share: float = 1.0, loader: int = 0) -> None:
        """So many bytes more; `share`: of the rows that are done with them."""
        self.taken += n
        if self.taken + loader <= self._limit:
            return
        need, files = max(int(self.taken / share) + loader, self._limit + 1), self._dataset.files
        where = printable(files[0].path) if len(files) and files[0].path else "the data in memory"
        names = ", ".join(map(printable, self._columns[:4])) + (", …" if len(self._columns) > 4 else "")
        raise BudgetError(
            f"reading {names} of '{where}' does not fit the memory budget of {self._limit} bytes ({format_bytes(self._limit)}): raise memory to "
            f"{need} bytes ({format_bytes(need)}), read fewer columns, or take batches of a loader"
        )


_OBJECT_BYTES = 72  # a str or bytes object, and the array's reference to it; its characters come on top


def _part_bytes(part: Any) -> int:
    """What a batch's packed values come to in the result: first kept, then copied into one array."""
    if isinstance(part, (Strings, Bytes)):
        return len(part) * (16 + 2 * _OBJECT_BYTES) + 2 * part.values.nbytes
    return 2 * (part.values.nbytes + part.offsets.nbytes)


def read(dataset: "Dataset", columns: str | Iterable[str] | None, memory: int | None) -> dict[str, Any]:
    import numpy as np

    names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    if len(dataset) == 0:
        return _nothing(np, dataset, names)
    width = sum(_width(dataset.schema[name]) for name in dataset.schema.names if names is None)
    width += sum(_width(dataset.schema[name]) for name in names or () if name in dataset.schema)
    batch_size = max(1, min(_ROWS, len(dataset), _BYTES // max(width, 1)))
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": False, "framework": "numpy", "rank": 0, "world_size": 1, "tail": "keep"}
    limit = memory or _forebay.memory_budget(local_world_size(_MOST_RANKS))
    with dataset.loader(names, **options) as probe:
        infos, room = probe.outputs, _Room(dataset, probe.outputs, limit)
    schema, rows = dataset.schema, len(dataset)
    outputs: dict[str, Any] = {}
    for name, info in infos.items():
        values = col(name)
        # A missing float is NaN; a missing list is empty. The rest needs a stand-in and a mask.
        if schema[name].kind == "fixed_list" and _value(schema[name]).kind in ("int", "bool"):
            if _can_miss(schema[name]):  # is_null() has one flag a row: ask for floats, in which each missing value is NaN
                outputs["?" + name] = values.cast("float32")
                values = values.fill_null(0)
        elif schema[name].kind in ("string", "binary") or (not info.ragged and info.dtype not in ("float16", "float32", "float64")):
            outputs["?" + name] = values.is_null()
            if not info.ragged:
                values = values.fill_null(0)
        outputs["=" + name] = values

    with dataset.loader(outputs, **options) as loader:
        shapes = {name: ((rows, *info.shape[1:]), np.dtype(info.dtype)) for name, info in loader.outputs.items() if not info.ragged}
        least = loader.report().budget_minimum_bytes
        room.take(sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes.values()), loader=least)
        if memory:  # packed values come on top of what is known now
            left = memory - room.taken
            options["memory"] = left if len(shapes) == len(outputs) else max(least, left // 2)
    dense: dict[str, Any] = {name: np.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
    packed: dict[str, list] = {}
    with dataset.loader(outputs, **options) as loader:
        held, row = loader.report().budget_bytes if memory else least, 0
        for batch in loader:
            for name, value in batch.items():
                if name in dense:
                    dense[name][row : row + len(value)] = value
                elif name[0] == "=":
                    packed.setdefault(name, []).append(value)
                    room.take(_part_bytes(value), (row + batch.size) / rows, held)
            row += batch.size

    result: dict[str, Any] = {}
    for name, info in infos.items():
        field = schema[name]
        missing = dense.get("?" + name)
        if missing is not None and missing.dtype.kind == "f":
            missing = np.isnan(missing)
        if info.ragged:
            result[name] = _join(np, packed.get("=" + name, []), field.kind, missing, info)
            continue
        value = _value(field)
        values = _times(dense["=" + name], value.kind, value.unit)
        if missing is not None and missing.any():
            missing = np.broadcast_to(missing.reshape(missing.shape + (1,) * (values.ndim - missing.ndim)), values.shape)
            if values.dtype.kind in "Mm":
                values[missing] = "NaT"
            else:
                values = np.ma.MaskedArray(values, missing)
        result[name] = values
    return result


def _packs(items: list) -> bool:
    """Does an array in which each item is as long as the longest take no more memory than one of objects, which was asked for?"""
    lengths = [len(item) for item in items]
    return len(lengths) * max(lengths) <= len(lengths) * _OBJECT_BYTES + sum(lengths)


def _join(np: Any, parts: list, kind: str, missing: Any, info: Any) -> Any:
    if parts and isinstance(parts[0], (Strings, Bytes)) or kind in ("string", "binary"):
        lists = [part.to_list() for part in parts]
        if any(isinstance(item, bytes) for items in lists for item in items[:1]):  # no UTF-8 somewhere: bytes everywhere
            lists = [[item.encode() if isinstance(item, str) else item for item in items] for items in lists]
        items = [item for part in lists for item in part]
        is_bytes = kind == "string" and items and isinstance(items[0], bytes) and not any(item.endswith(b"\0") for item in items)
        if is_bytes and (missing is None or not missing.any()) and _packs(items):
            return np.array(items)  # S, as h5py has them
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
