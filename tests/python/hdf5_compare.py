"""HDF5 files as h5py has them beside what Forebay reads: whole, as Arrow, and through a loader."""

import hdf5_files as files
import h5py
import numpy as np
import pyarrow as pa

import forebay as fb


def add(file, path, dtype, shape, chunk, maxshape, filters, seed, sparse=False, noise=False, fill=None, values=None, **options):
    """One data set. sparse: True writes rows 16-31 and the last one; () writes nothing."""
    plist = files.properties(chunk=chunk, filters=filters, fill=None if fill is None else np.array(fill, dtype), **options)
    made = files.create(file, path, dtype, shape, maxshape, plist)
    if values is None:
        values = files.numbers(dtype, shape, seed, noise)
    if sparse is True:
        made[16:32] = values[16:32]
        made[-1] = values[-1]
    elif sparse is False:
        made[...] = values
    return made


def leaves(table):
    """{dotted path: NumPy array} of a pyarrow table, fixed-size lists as axes."""
    out = {}

    def visit(name, array):
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        while isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_struct(array.type):
            for i, field in enumerate(array.type):
                visit(f"{name}.{field.name}", array.field(i))
            return
        shape = [len(array)]
        while pa.types.is_fixed_size_list(array.type):
            shape.append(array.type.list_size)
            array = array.flatten()
        if pa.types.is_float16(array.type):
            values = np.frombuffer(array.view(pa.int16()).to_numpy(zero_copy_only=False), np.float16)
        else:
            values = array.to_numpy(zero_copy_only=False)
        out[name] = values.reshape(shape)

    for name in table.column_names:
        visit(name, table.column(name))
    return out


def columns_of(ds):
    """{path of a data set: column}, of those in the table."""
    return {item.path: item.column for item in ds.contents().arrays if item.column is not None}


def assert_whole(path, want, not_direct=()):
    """Every data set of `want` = {path: values}, whole; all direct but those named."""
    with fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        for name, values in want.items():
            if name in not_direct:
                assert not contents[name].direct, name
            else:
                assert contents[name].direct, f"{name}: {contents[name].why}"
            files.assert_same(ds.read(name), values, name)


def assert_table(path, want, arrow=True, loader=True, batch_size=13, **options):
    """The file as one table: each data set of `want` that has as many rows is a column, equal as read(), Arrow and loader."""
    with fb.open(path, cache_dir="", **options) as ds:
        columns = columns_of(ds)
        n = len(ds)
        missing = [name for name in want if name not in columns]
        assert not missing, f"no columns: {missing[:5]} of {len(missing)}; {ds.notes}"
        read = ds.read([columns[name] for name in want])
        for name, values in want.items():
            files.assert_same(read[columns[name]], values, f"{name} in read()")
        if arrow:
            got = leaves(pa.table(ds))
            for name, values in want.items():
                files.assert_same(got[columns[name]], values, f"{name} as Arrow")
        if not loader:
            return
        want = {name: values for name, values in want.items() if values.dtype.kind in "biuf"}
        outputs = {"row": fb.sample_index(), **{name: fb.col(columns[name]) for name in want}}
        for size, more in ((batch_size, {"shuffle": True}), (n, {"shuffle": "full"}), (5, {"shuffle": "block", "threads": 1})):
            parts = {}
            with ds.loader(outputs, batch_size=size, seed=3, framework="numpy", **more) as batches:
                for batch in batches:
                    for name, part in batch.items():
                        parts.setdefault(name, []).append(np.asarray(part))
            rows = np.concatenate(parts["row"])
            assert np.array_equal(np.sort(rows), np.arange(n))
            for name, values in want.items():
                files.assert_same(np.concatenate(parts[name]), values[rows], f"{name} through a loader")


def h5py_values(path, names=None):
    with h5py.File(path) as file:
        return {name: files.expected(item) for name, item in files.data_sets(file) if names is None or name in names}


def precision(kind, bits, offset):
    """A copy of an integer type of which only `bits` bits from bit `offset` on count."""
    kind = kind.copy()
    hdf5 = files.libhdf5()
    hdf5.H5Tset_precision.argtypes = (files.ctypes.c_int64, files.ctypes.c_size_t)
    hdf5.H5Tset_offset.argtypes = (files.ctypes.c_int64, files.ctypes.c_size_t)
    assert hdf5.H5Tset_precision(kind.id, bits) >= 0 and hdf5.H5Tset_offset(kind.id, offset) >= 0
    return kind
