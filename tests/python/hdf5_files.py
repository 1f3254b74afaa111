"""Making HDF5 files of every kind, and what h5py says they hold: the other side of the comparison in test_hdf5_*.py.

Needs h5py (with its own libhdf5) and hdf5plugin. Two settings that h5py lacks are made by calling its libhdf5 through ctypes:
H5Pset_chunk_opts and H5Pset_istore_k.
"""

import contextlib
import ctypes

import h5py
import hdf5plugin
import numpy as np

DEFLATE, SHUFFLE, FLETCHER32, SZIP, NBIT, SCALE_OFFSET, LZF = 1, 2, 3, 4, 5, 6, 32000
OPTIONAL = h5py.h5z.FLAG_OPTIONAL
NO_SZIP = not h5py.h5z.filter_avail(SZIP) or not h5py.h5z.get_filter_info(SZIP) & h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED


def plugin(filter_):
    """An hdf5plugin filter as (id, values)."""
    return (int(filter_["compression"]), tuple(filter_["compression_opts"]))


def _blosc(name, shuffle):
    return [plugin(hdf5plugin.Blosc(cname=name, clevel=5, shuffle=shuffle))]


# Every filter chain that is read without the helper program. (id, values); shuffle, fletcher32 and szip are set by their own calls.
FILTERS = {
    "none": [],
    "gzip": [(DEFLATE, (4,))],
    "shuffle": [(SHUFFLE, ())],
    "shuffle_gzip": [(SHUFFLE, ()), (DEFLATE, (4,))],
    "fletcher32": [(FLETCHER32, ())],
    "shuffle_gzip_fletcher32": [(SHUFFLE, ()), (DEFLATE, (1,)), (FLETCHER32, ())],
    "fletcher32_gzip": [(FLETCHER32, ()), (DEFLATE, (9,))],
    "lzf": [(LZF, ())],
    "shuffle_lzf": [(SHUFFLE, ()), (LZF, ())],
    "shuffle_lzf_fletcher32": [(SHUFFLE, ()), (LZF, ()), (FLETCHER32, ())],
    "szip_nn": [(SZIP, (32, 8))],
    "szip_ec": [(SZIP, (4, 4))],
    "blosc_blosclz": _blosc("blosclz", 1),
    "blosc_lz4": _blosc("lz4", 1),
    "blosc_lz4hc_plain": _blosc("lz4hc", 0),
    "blosc_zlib_bits": _blosc("zlib", 2),
    "blosc_zstd_bits": _blosc("zstd", 2),
    "blosc_zstd": _blosc("zstd", 1),
    "lz4": [plugin(hdf5plugin.LZ4())],
    "lz4_small_blocks": [plugin(hdf5plugin.LZ4(nbytes=64))],
    "shuffle_lz4": [(SHUFFLE, ()), plugin(hdf5plugin.LZ4())],
    "bitshuffle_none": [plugin(hdf5plugin.Bitshuffle(cname="none"))],
    "bitshuffle_lz4": [plugin(hdf5plugin.Bitshuffle(cname="lz4"))],
    "bitshuffle_lz4_small_blocks": [plugin(hdf5plugin.Bitshuffle(nelems=8, cname="lz4"))],
    "bitshuffle_zstd": [plugin(hdf5plugin.Bitshuffle(cname="zstd"))],
    "zstd": [plugin(hdf5plugin.Zstd(clevel=3))],
    "shuffle_zstd_fletcher32": [(SHUFFLE, ()), plugin(hdf5plugin.Zstd(clevel=1)), (FLETCHER32, ())],
}  # fmt: skip
# One of each codec: for what multiplies with something else.
SOME_FILTERS = ("none", "gzip", "shuffle_gzip_fletcher32", "lzf", "szip_nn", "blosc_lz4", "lz4", "bitshuffle_zstd", "zstd")

LIBVERS = {"earliest": ("earliest", "v108"), "v108": ("v108", "v108"), "v110": ("v110", "v110"), "latest": ("latest", "latest")}


def libhdf5():
    """The libhdf5 of h5py: names are looked up in its extension and what that is linked with, whatever else is loaded."""
    return ctypes.CDLL(h5py.h5p.__file__)


def properties(
    chunk=None, filters=(), fill=None, early=False, compact=False, edges_unfiltered=False, fill_time=None, external=None
):  # fmt: skip
    """A property list for create()."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    if compact:
        plist.set_layout(h5py.h5d.COMPACT)
    if chunk is not None:
        plist.set_chunk(chunk)
    for code, values in filters:
        if code == DEFLATE:
            plist.set_deflate(*values)
        elif code == SHUFFLE:
            plist.set_shuffle()
        elif code == FLETCHER32:
            plist.set_fletcher32()
        elif code == SZIP:
            plist.set_szip(*values)
        else:
            plist.set_filter(code, OPTIONAL, values)
    if fill is not None:
        plist.set_fill_value(np.asarray(fill))
    if early:
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if fill_time is not None:
        plist.set_fill_time(fill_time)
    if external is not None:
        for name, offset, size in external:
            plist.set_external(name.encode(), offset, size)
    if edges_unfiltered:
        call = libhdf5().H5Pset_chunk_opts
        call.argtypes, call.restype = (ctypes.c_int64, ctypes.c_uint), ctypes.c_int
        assert call(plist.id, 2) >= 0
    return plist


def create(file, path, dtype, shape, maxshape=None, plist=None):
    """A data set of a NumPy dtype or an h5py type, with the groups on its way."""
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    kind = dtype if isinstance(dtype, h5py.h5t.TypeID) else h5py.h5t.py_create(dtype, logical=True)
    limits = None if maxshape is None else tuple(h5py.h5s.UNLIMITED if m is None else m for m in maxshape)
    space = h5py.h5s.create_simple(shape, limits) if shape != () else h5py.h5s.create(h5py.h5s.SCALAR)
    created = h5py.h5d.create(file.id, path.encode(), kind, space, plist or properties(), None) if "/" not in path.strip("/") else None
    if created is None:
        group = file.require_group(path.rpartition("/")[0])
        created = h5py.h5d.create(group.id, path.rpartition("/")[2].encode(), kind, space, plist or properties())
    return h5py.Dataset(created)


@contextlib.contextmanager
def new_file(path, libver="latest", userblock=0, istore_k=None, sizes=None):
    """An h5py.File for writing. libver: a key of LIBVERS."""
    create_list = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    create_list.set_obj_track_times(False)
    if userblock:
        create_list.set_userblock(userblock)
    if sizes:
        create_list.set_sizes(*sizes)
    if istore_k is not None:
        call = libhdf5().H5Pset_istore_k
        call.argtypes, call.restype = (ctypes.c_int64, ctypes.c_uint), ctypes.c_int
        assert call(create_list.id, istore_k) >= 0
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    names = {
        "earliest": h5py.h5f.LIBVER_EARLIEST, "v108": h5py.h5f.LIBVER_V18, "v110": h5py.h5f.LIBVER_V110, "latest": h5py.h5f.LIBVER_LATEST,
    }  # fmt: skip
    low, high = LIBVERS[libver]
    access.set_libver_bounds(names[low], names[high])
    file = h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, fcpl=create_list, fapl=access))
    try:
        yield file
    finally:
        file.close()
    if userblock:  # what lies there is none of HDF5's business
        with open(path, "r+b") as raw:
            raw.write((b"not HDF5 " * userblock)[:userblock])


def numbers(dtype, shape, seed=0, noise=False):
    """Values that compress (or, with noise, do not), in every bit pattern that is no NaN."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if noise:
        raw = np.frombuffer(random.bytes(n * dtype.itemsize), dtype).reshape(shape).copy()
        if dtype.kind == "f":
            raw[~np.isfinite(raw)] = 0.5
        return raw
    steps = random.integers(-2, 4, n).cumsum()
    if dtype.kind == "f":
        return (steps / 8).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = (steps.astype(object) * max(1, limits.max // 1000)) % limits.max
        out = np.array(values.tolist(), dtype=dtype) if n else np.zeros(0, dtype)
        if n > 1:
            out[0], out[-1] = limits.min, limits.max
        return out.reshape(shape)
    raise TypeError(dtype)


# ---- what h5py says ----


def text(value):
    """A string of h5py as Forebay gives it: trailing padding gone, UTF-8."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _is_text(dtype):
    return h5py.check_string_dtype(dtype) is not None


def expected(dataset):
    """What ds.read(path) must give for an h5py data set: strings as str, the rest as h5py has it. Types that h5py cannot name: not here."""
    dtype = dataset.dtype
    if _is_text(dtype):
        values = np.asarray(dataset[()], dtype=object)
        out = np.empty(values.shape, dtype=object)
        for i in np.ndindex(values.shape):
            out[i] = text(values[i])
        return out[()] if out.shape == () else out
    return dataset[()]


def same_bits(got, want):
    """Equal, NaNs where NaNs are; byte order apart."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return False
    if want.dtype.kind == "f":
        return got.dtype == want.dtype.newbyteorder("=") and np.array_equal(got, want.astype(want.dtype.newbyteorder("=")), equal_nan=True)
    return bool(np.array_equal(got, want))


def _lists(got):
    """Rows of a column of lists as NumPy arrays."""
    return np.split(got.values, got.offsets[1:-1]) if len(got.offsets) > 1 else []


def assert_same(got, want, where):
    """What was read against what h5py says, recursively into compounds and lists."""
    want_dtype = getattr(want, "dtype", None)
    if isinstance(want, str):
        assert got == want, f"{where}: {got!r} instead of {want!r}"
        return
    if want_dtype is not None and want_dtype.names:
        got = np.asarray(got)
        assert got.dtype.names is not None, f"{where}: {got.dtype} instead of {want_dtype}"
        assert set(got.dtype.names) == set(want_dtype.names), f"{where}: members {got.dtype.names} instead of {want_dtype.names}"
        for name in want_dtype.names:
            assert_same(got[name], want[name], f"{where}.{name}")
        return
    if want_dtype is not None and want_dtype == object and want.size and isinstance(want.flat[0], np.ndarray):
        rows = _lists(got)
        assert len(rows) == want.size, f"{where}: {len(rows)} lists instead of {want.size}"
        for i, (a, b) in enumerate(zip(rows, want.flat)):
            assert same_bits(a, b), f"{where}: list {i} is {a!r} instead of {b!r}"
        return
    if want_dtype is not None and want_dtype.kind == "S":
        want = np.array([text(v) for v in np.asarray(want).flat], dtype=object).reshape(np.shape(want))
        want_dtype = want.dtype
    if want_dtype is not None and want_dtype.kind == "V":
        assert got.dtype == want_dtype and got.shape == want.shape, f"{where}: {got.dtype} {got.shape} instead of {want_dtype} {want.shape}"
        assert got.tobytes() == want.tobytes(), where
        return
    if want_dtype == object:
        want = np.array([text(v) for v in want.flat] + [None], dtype=object)[:-1].reshape(want.shape)
        got = np.asarray(got, dtype=object)
        assert got.shape == want.shape, f"{where}: shape {got.shape} instead of {want.shape}"
        bad = [i for i in np.ndindex(want.shape) if got[i] != want[i]]
        assert not bad, f"{where}{list(bad[0])}: {got[bad[0]]!r} instead of {want[bad[0]]!r}; {len(bad)} differ"
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{where}: shape {got.shape} instead of {want.shape}"
    assert got.dtype == want.dtype.newbyteorder("="), f"{where}: dtype {got.dtype} instead of {want.dtype}"
    if not same_bits(got, want):
        bad = (got != want) & ~((got != got) & (want != want))
        i = np.argwhere(bad)[0]
        raise AssertionError(f"{where}{i.tolist()}: {got[tuple(i)]!r} instead of {want[tuple(i)]!r}; {int(bad.sum())} of {bad.size} differ")


def data_sets(file):
    """(path, h5py data set) of every data set of an open h5py file, each object once."""
    found = []
    file.visititems(lambda name, item: found.append(("/" + name, item)) if isinstance(item, h5py.Dataset) else None)
    return found
