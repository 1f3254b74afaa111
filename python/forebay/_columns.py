"""A dict of arrays as the column specifications that _forebay.open_columns takes.

NumPy arrays, anything with the buffer protocol (array.array, memoryview), and what NumPy can make an array of. Numbers are not copied when
they lie in C order in the machine's byte order; bools, strings and dates are converted once.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from typing import Any

_NUMBERS = {
    ("i", 1): "c", ("i", 2): "s", ("i", 4): "i", ("i", 8): "l",
    ("u", 1): "C", ("u", 2): "S", ("u", 4): "I", ("u", 8): "L",
    ("f", 2): "e", ("f", 4): "f", ("f", 8): "g",
}  # fmt: skip
_STRUCT_KINDS = dict.fromkeys("bhilqn", "i") | dict.fromkeys("BHILQN", "u") | dict.fromkeys("efd", "f")
_BLOCK_BYTES = 16 << 20
_BLOCK_ROWS = 131_072

# (name, Arrow format, fixed list sizes, data, offsets, validity)
Spec = tuple[str, str, tuple[int, ...], Any, Any, Any]


def specify(columns: Mapping[str, Any]) -> tuple[list[Spec], int, int]:
    """(specifications, rows, rows per block) of a dict of arrays."""
    if not columns:
        raise ValueError("the dict of arrays is empty")
    specs: list[Spec] = []
    first = ""
    rows = row_bytes = 0
    for name, value in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not {type(name).__name__}: {name!r}")
        spec, n, nbytes = _column(name, value)
        if not specs:
            first, rows = name, n
        elif n != rows:
            raise ValueError(f"columns differ in length: {first!r} has {rows} rows, {name!r} has {n}")
        specs.append(spec)
        row_bytes += -(-nbytes // max(n, 1))
    per_block = min(_BLOCK_BYTES // max(row_bytes, 1), _BLOCK_ROWS)
    return specs, rows, max(8, per_block // 8 * 8)


def _column(name: str, value: Any) -> tuple[Spec, int, int]:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        try:
            view = memoryview(value)
        except (TypeError, ValueError, BufferError):
            view = None
        if view is not None:
            return _from_buffer(name, view)
        value = _as_numpy(name, value)
    return _from_numpy(name, value)


def _from_buffer(name: str, view: memoryview) -> tuple[Spec, int, int]:
    if view.ndim == 0:
        raise ValueError(f"column {name!r} has no rows axis: an array of at least one dimension is needed")
    letter = view.format.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
    shape = view.shape
    if not view.c_contiguous:
        view = memoryview(view.tobytes())
    if letter == "?":
        flags = view.tobytes()
        bits = bytearray(-(-len(flags) // 8))
        for i, flag in enumerate(flags):
            if flag:
                bits[i >> 3] |= 1 << (i & 7)
        return (name, "b", shape[1:], bits, None, None), shape[0], len(bits)
    elements = 1
    for n in shape:
        elements *= n
    kind = _STRUCT_KINDS.get(letter)
    code = _NUMBERS.get((kind or "", view.nbytes // elements if elements else memoryview(array("b")).itemsize))
    if elements == 0 and kind:
        code = _NUMBERS.get((kind, view.itemsize))
    if code is None:
        raise TypeError(f"column {name!r}: a buffer of format {view.format!r} is not an array of numbers")
    return (name, code, shape[1:], view, None, None), shape[0], view.nbytes


def _as_numpy(name: str, value: Any) -> Any:
    try:
        import numpy
    except ImportError:
        raise TypeError(f"column {name!r} is a {type(value).__name__}: without NumPy only objects with the buffer protocol are columns") from None
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, perhaps with a gradient or on a GPU
        value = value.detach().cpu()
    if not hasattr(value, "__array__") and not isinstance(value, (list, tuple)):
        raise TypeError(f"column {name!r}: an array is expected, not {type(value).__name__}")
    result = numpy.asarray(value)
    if result.dtype == object and isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value):
        raise TypeError(f"column {name!r}: lists of different lengths are not an array; pass a pyarrow or polars table for ragged columns")
    return result


def _from_numpy(name: str, values: Any) -> tuple[Spec, int, int]:
    import numpy as np

    valid = None
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            valid = ~np.ma.getmaskarray(values)
        values = values.data
    if values.ndim == 0:
        raise ValueError(f"column {name!r} has no rows axis: an array of at least one dimension is needed")
    rows, dims = values.shape[0], values.shape[1:]
    kind = values.dtype.kind

    if kind == "V" and values.dtype.name == "bfloat16":  # Arrow has none; float32 holds every value
        values = values.astype(np.float32)
        kind = "f"
    if kind == "T":
        values = values.astype(object)
        kind = "O"
    if kind in "USO":
        return _from_text(name, values, valid, rows, dims)
    if kind in "Mm":
        values, code, present = _times(name, values)
        valid = present if valid is None else valid & present
    elif kind == "b":
        values, code = np.packbits(np.ascontiguousarray(values).reshape(-1), bitorder="little"), "b"
    else:
        code = _NUMBERS.get((kind, values.dtype.itemsize), "")
        if not code:
            what = f"fields {', '.join(values.dtype.names)}: pass each as a column" if values.dtype.names else f"dtype {values.dtype}, which Arrow lacks"
            raise TypeError(f"column {name!r} has {what}")
        values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    validity = None if valid is None or valid.all() else np.packbits(np.ascontiguousarray(valid).reshape(-1), bitorder="little")
    return (name, code, dims, values, None, validity), rows, values.nbytes


def _times(name: str, values: Any) -> tuple[Any, str, Any]:
    import numpy as np

    kind = values.dtype.kind
    unit, step = np.datetime_data(values.dtype)
    letters = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
    if unit not in letters or step != 1:
        if unit == "generic" and not np.isnat(values).all():
            raise TypeError(f"column {name!r} has a {values.dtype} without a unit: give it one, astype('{values.dtype.name}[us]')")
        if unit in ("ps", "fs", "as"):
            raise TypeError(f"column {name!r} has unit {unit}; Arrow's finest is ns: astype('{kind}8[ns]')")
        target = unit if unit in letters else "D" if kind == "M" and unit in ("Y", "M", "W", "D") else "s"
        if kind == "m" and unit in ("Y", "M"):
            raise TypeError(f"column {name!r} counts {'years' if unit == 'Y' else 'months'}, which have no fixed length")
        values, unit = values.astype(f"{kind}8[{target}]"), target
    present = ~np.isnat(values)
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    if unit == "D":
        return values.view(np.int64).astype(np.int32), "tdD", present
    return values.view(np.int64), f"ts{letters[unit]}:" if kind == "M" else f"tD{letters[unit]}", present


def _missing(item: Any) -> bool:
    return item is None or item != item or type(item).__name__ in ("NAType", "NaTType")


def _from_text(name: str, values: Any, valid: Any, rows: int, dims: tuple[int, ...]) -> tuple[Spec, int, int]:
    import numpy as np

    items = values.reshape(-1).tolist()
    flags = [True] * len(items) if valid is None else valid.reshape(-1).tolist()
    text = binary = False
    for i, item in enumerate(items):
        if isinstance(item, str):
            text = True
            items[i] = item.encode("utf-8")
        elif isinstance(item, bytes):
            binary = True
        elif type(item).__name__ == "NAType" or _missing(item):
            flags[i] = False
            items[i] = b""
        else:
            raise TypeError(
                f"column {name!r} holds Python objects of type {type(item).__name__}: convert it with .astype('float64') or the like, "
                "or pass the whole DataFrame"
            )
    if text and binary:
        raise TypeError(f"column {name!r} mixes str and bytes")
    lengths = np.fromiter(map(len, items), dtype=np.int64, count=len(items))
    offsets = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = b"".join(items)
    validity = None if all(flags) else np.packbits(np.array(flags, dtype=bool), bitorder="little")
    code = "Z" if binary or values.dtype.kind == "S" else "U"
    return (name, code, dims, data, offsets, validity), rows, len(data) + offsets.nbytes
