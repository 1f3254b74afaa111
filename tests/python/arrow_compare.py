"""Comparing what Forebay delivers with what pyarrow reads, value by value and bit by bit.

Forebay reads a Parquet file as the format describes it. pyarrow also restores what it hid in the file's own metadata, so types are first brought to one
form (`canonical`): dictionaries to their values, large and view types to plain ones, seconds to milliseconds, date64 to date32,
fixed-size lists to lists, small decimals to decimal128, time zones to UTC, extension types to their storage. Values are never changed by that.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def canonical(t):
    if isinstance(t, pa.BaseExtensionType):
        return canonical(t.storage_type)
    if pa.types.is_dictionary(t):
        return canonical(t.value_type)
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_timestamp(t):
        return pa.timestamp("ms" if t.unit == "s" else t.unit, "UTC" if t.tz else None)
    if pa.types.is_time32(t):
        return pa.time32("ms")
    if pa.types.is_date(t):
        return pa.date32()
    if pa.types.is_decimal(t) and t.precision <= 38:
        return pa.decimal128(t.precision, t.scale)
    if pa.types.is_map(t):
        return pa.list_(pa.struct([pa.field("key", canonical(t.key_type)), pa.field("value", canonical(t.item_type))]))
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(canonical(t.value_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, canonical(f.type)) for f in t])
    return t


def lists(array):
    """(lengths with 0 for null, is null, flat values) of a list, map or fixed-size list array."""
    null = np.asarray(array.is_null())
    if pa.types.is_map(array.type):
        if array.offset == 0 and not null.any():
            array = pa.ListArray.from_arrays(array.offsets, pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"]))
        else:
            array = _map_to_list(array, null)
    elif pa.types.is_fixed_size_list(array.type):
        lengths = np.where(null, 0, array.type.list_size)
        return lengths, null, array.flatten()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    lengths[null] = 0
    return lengths, null, array.flatten()


def _map_to_list(array, null):
    offsets = np.asarray(array.offsets)
    keys = array.keys
    items = array.items
    entries = pa.StructArray.from_arrays([keys, items], ["key", "value"])
    mask = pa.array(null)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=mask)


def plain(array):
    """A chunked or plain array as one array without dictionaries and extensions at the top."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def bits(array):
    """The array with float values as integers of the same bits, so that NaN equals NaN and -0.0 does not equal 0.0."""
    size = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(array.type)
    return array.view(size) if size is not None else array


def assert_arrays_equal(got, want, where="column"):
    """Same values and nulls at every level; raises AssertionError with the path and the first difference."""
    got, want = plain(got), plain(want)
    assert len(got) == len(want), f"{where}: {len(got)} values instead of {len(want)}"
    target = canonical(want.type)
    assert canonical(got.type) == target, f"{where}: type {got.type} instead of {want.type}"
    if pa.types.is_list(target):
        got_lengths, got_null, got_values = lists(got)
        want_lengths, want_null, want_values = lists(want)
        assert np.array_equal(got_null, want_null), f"{where}: other lists are null, first at {_first(got_null != want_null)}"
        assert np.array_equal(got_lengths, want_lengths), f"{where}: lengths differ, first at {_first(got_lengths != want_lengths)}"
        assert_arrays_equal(got_values, want_values, where + "[]")
        return
    if pa.types.is_struct(target):
        got_null, want_null = np.asarray(got.is_null()), np.asarray(want.is_null())
        assert np.array_equal(got_null, want_null), f"{where}: other structs are null, first at {_first(got_null != want_null)}"
        for field, a, b in zip(target, got.flatten(), want.flatten()):
            assert_arrays_equal(a, b, f"{where}.{field.name}")
        return
    if got.type != target:
        got = got.cast(target)
    if want.type != target:
        want = want.cast(target)
    got, want = bits(got), bits(want)
    if got.equals(want):
        return
    for i in range(len(got)):
        a, b = got[i], want[i]
        assert a.equals(b), f"{where}: row {i} of {len(got)} is {a!r} instead of {b!r}"
    raise AssertionError(f"{where}: arrays differ")


def _first(mask):
    return int(np.flatnonzero(mask)[0])


def assert_tables_equal(got, want, where=""):
    assert got.column_names == want.column_names
    assert got.num_rows == want.num_rows
    for name, a, b in zip(want.column_names, got.columns, want.columns):
        assert_arrays_equal(a, b, f"{where}{name}")
