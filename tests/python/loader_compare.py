"""Comparing what the loader delivers with a pyarrow table, for every column that can be a tensor."""

import numpy as np
import pyarrow as pa

import forebay as fb
from arrow_compare import canonical, lists, plain

DENSE = ("bool", "int", "float", "decimal", "date", "time", "timestamp", "duration")
FLOATS = ("float16", "float32", "float64")


def batches(samples, outputs, **options):
    with samples.loader(outputs, **{"batch_size": 50, "memory": "256MiB", "framework": "numpy", **options}) as loader:
        yield from loader


def equal(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def deliver(samples, outputs, threads=2, batch_size=64, **options):
    """All batches of an epoch in file order, joined; of ragged outputs the values."""
    with samples.loader(outputs, batch_size=batch_size, threads=threads, framework="numpy", shuffle=False, **options) as loader:
        batches = list(loader)
    joined = {}
    for name, first in batches[0].items():
        joined[name] = np.concatenate([b[name].values if isinstance(first, fb.Ragged) else b[name] for b in batches])
    return joined


def deliverable(ds):
    """(path, Field of the leaf, number of lists on the way) of every leaf that the loader takes; and the paths it refuses, with their types."""
    taken, refused = [], []

    def visit(field, repeats):
        if field.kind in ("list", "map"):
            for child in field.children:
                visit(child, repeats + 1)
        elif field.kind == "struct":
            for child in field.children:
                visit(child, repeats)
        elif repeats == 0 and field.kind in (*DENSE, "string", "binary", "null", "fixed_binary"):
            taken.append((field.path, field, 0))
        elif repeats == 1 and field.kind in DENSE:
            taken.append((field.path, field, 1))
        else:
            refused.append((field.path, field.type))

    for field in ds.schema:
        visit(field, 0)
    return taken, refused


def leaf_array(table, ds, path):
    """The pyarrow array of a leaf path: (list lengths or None, list nulls or None, values)."""
    field = next(f for f in ds.schema if path == f.path or path.startswith(f.path + "."))
    array, lengths, null = plain(table.column(field.path)), None, None
    while True:
        array = plain(array)
        t = canonical(array.type)
        if pa.types.is_list(t):
            lengths, null, array = lists(array)
            field = field.children[0]
        elif pa.types.is_struct(t):
            i = next(i for i, c in enumerate(field.children) if path == c.path or path.startswith(c.path + "."))
            array, field = array.flatten()[i], field.children[i]
        else:
            return lengths, null, array


def dense_values(array):
    """(NumPy values with 0 under nulls, nulls) of a leaf array, in the dtype of Forebay's tensor."""
    target = canonical(array.type)
    if array.type != target:
        array = array.cast(target)
    null = np.asarray(array.is_null())
    if pa.types.is_null(target):
        return np.full(len(array), np.nan, np.float32), null
    if pa.types.is_decimal(target):
        values = np.array([0.0 if v is None else float(v) for v in array.to_pylist()], dtype=np.float64)
        return values, null
    if pa.types.is_boolean(target):
        return np.asarray(array.fill_null(False)), null
    if pa.types.is_fixed_size_binary(target):
        width = target.byte_width
        rows = [bytes(width) if v is None else v for v in array.to_pylist()]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width), null
    if pa.types.is_temporal(target):
        array = array.view(pa.int32() if target in (pa.date32(), pa.time32("ms")) else pa.int64())
    if pa.types.is_float16(target):
        raw = array.view(pa.int16()).fill_null(0)
        return np.asarray(raw).view(np.float16), null
    return np.asarray(array.fill_null(0)), null


def _outputs(taken):
    outputs = {"row": fb.sample_index()}
    for path, field, repeats in taken:
        values = fb.col(path)
        if field.kind in ("string", "binary"):
            outputs["m:" + path] = values.is_null()
        else:
            if repeats == 0:
                outputs["m:" + path] = values.is_null()
            if field.kind not in ("float", "decimal", "null"):
                values = values.fill_null(0)
        outputs["v:" + path] = values
    return outputs


def _collect(loader):
    parts = {}
    for batch in loader:
        for name, value in batch.items():
            parts.setdefault(name, []).append(value)
    return parts


def _same(got, want, null, where, decimal=None):
    got = np.asarray(got)
    assert got.dtype == want.dtype, f"{where}: dtype {got.dtype} instead of {want.dtype}"
    assert got.shape == want.shape, f"{where}: shape {got.shape} instead of {want.shape}"
    if want.dtype.kind == "f":
        want = want.copy()
        want[null] = np.nan
        kind = {2: np.int16, 4: np.int32, 8: np.int64}[want.itemsize]
        bad = got.view(kind) != want.view(kind)
        bad &= ~(np.isnan(got) & null)  # which NaN stands for a missing value is free; stored NaNs keep their bits
        if decimal is not None and (decimal.precision > 15 or decimal.scale > 22):
            # An unscaled value or a power of ten that is no exact double: a few roundings instead of Python's one.
            bad &= ~(np.abs(got - want) <= 4 * np.spacing(np.abs(want)))
    else:
        bad = got != want
    if bad.ndim > 1:
        bad = bad.any(axis=tuple(range(1, bad.ndim)))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise AssertionError(f"{where}: value {i} is {got[i]!r} instead of {want[i]!r} (null: {bool(null[i])}); {int(bad.sum())} differ")


def assert_loader_delivers(ds, table, shuffle=False, batch_size=257, columns=None, **options):
    """Every deliverable column in file order, or in the shuffled order that the row numbers tell. Returns the refused paths."""
    taken, refused = deliverable(ds)
    if columns is not None:
        taken = [t for t in taken if t[0] in columns]
    if not taken:
        return refused
    with ds.loader(_outputs(taken), batch_size=batch_size, shuffle=shuffle, framework="numpy", **options) as loader:
        parts = _collect(loader)
        assert loader.samples_per_epoch == len(table) and len(loader) == -(-len(table) // batch_size)
    n = len(table)
    row = np.concatenate(parts["row"]) if n else np.zeros(0, np.int64)
    if shuffle is False:
        assert np.array_equal(row, np.arange(n)), "not in file order"
    else:
        assert np.array_equal(np.sort(row), np.arange(n)), "not every row exactly once"
    if n == 0:
        return refused
    for path, field, repeats in taken:
        lengths, null, array = leaf_array(table, ds, path)
        if field.kind in ("string", "binary"):
            array = array.cast(canonical(array.type))
            want = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in array.to_pylist()]
            got = []
            for part in parts["v:" + path]:
                data, offsets = part.values.tobytes(), part.offsets.tolist()
                got += [data[a:b] for a, b in zip(offsets, offsets[1:])]
            assert got == [want[i] for i in row], f"{path}: strings differ"
            assert np.array_equal(np.concatenate(parts["m:" + path]), np.asarray(array.is_null())[row]), f"{path}: missing differ"
            continue
        decimal = array.type if field.kind == "decimal" else None
        values, nulls = dense_values(array)
        if field.unit == "s" and field.kind != "duration":  # which canonical types have not
            values = values // values.dtype.type(1000)
        if repeats == 0:
            _same(np.concatenate(parts["v:" + path]), values[row], nulls[row], path, decimal)
            assert np.array_equal(np.concatenate(parts["m:" + path]), nulls[row]), f"{path}: missing differ"
            continue
        got = parts["v:" + path]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        assert np.array_equal(np.concatenate([np.diff(p.offsets) for p in got]), lengths[row]), f"{path}: list lengths differ"
        order = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in row]).astype(np.int64) if len(values) else np.zeros(0, np.int64)
        _same(np.concatenate([p.values for p in got]), values[order], nulls[order], path, decimal)
    return refused
