"""Lists of strings, of compounds and of lists, arrays of compounds, references among members: value by value against h5py; lists of
compounds that hold lists, which h5py neither writes nor reads, and lists of lists of big-endian numbers, whose bytes it does not swap,
against what was written.

Each is read as ds.read(), through Arrow, and, where a loader has a column for it, in shuffled batches; by Forebay's own reader and by the
helper program (a file that is marked as being written).
"""

import ctypes
import shutil
import struct

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")

import hdf5_files as files  # noqa: E402

N = 41
TEXT = h5py.string_dtype()
INTS = h5py.vlen_dtype(np.dtype("<i4"))
HIT = np.dtype([("t", "<f4"), ("q", ">i2")])
TYPES = {
    "texts": h5py.vlen_dtype(TEXT),
    "ascii": h5py.vlen_dtype(h5py.string_dtype("ascii")),
    "fixed_texts": h5py.vlen_dtype(np.dtype("S5")),
    "lists": h5py.vlen_dtype(INTS),
    "lists_of_lists": h5py.vlen_dtype(h5py.vlen_dtype(TEXT)),
    "hits": h5py.vlen_dtype(HIT),
    "big": h5py.vlen_dtype(h5py.vlen_dtype(np.dtype(">f8"))),
    "bools": h5py.vlen_dtype(h5py.vlen_dtype(np.dtype("?"))),
    "complex": h5py.vlen_dtype(np.dtype("<c8")),
    "rich": h5py.vlen_dtype(np.dtype([("name", TEXT), ("xs", INTS), ("hit", HIT), ("grid", "<i2", (2, 3)), ("hits", HIT, (2,))])),
    "record": np.dtype(
        [("a", "<i4"), ("hits", h5py.vlen_dtype(HIT)), ("texts", h5py.vlen_dtype(TEXT)), ("s", TEXT), ("in", [("xs", INTS), ("z", ">f8")])]
    ),
    "array": np.dtype([("hits", HIT, (2, 3)), ("one", HIT, (1,)), ("b", "u1")]),
    "array_of_arrays": np.dtype([("outer", [("pad", "u1"), ("hits", HIT, (3,)), ("v", "<f8", (2,))], (2,)), ("last", "i1")]),
    "array_of_texts": np.dtype(
        [("s", TEXT, (2,)), ("l", INTS, (3,)), ("ss", h5py.vlen_dtype(TEXT), (2,)), ("c", [("s", TEXT), ("x", "u1")], (2,))]
    ),
}  # fmt: skip

NOT_H5PY = ("rich", "big")


def value(dtype, rng):
    """A random value of a type, as h5py writes it."""
    if (text := h5py.check_string_dtype(dtype)) is not None:
        word = "".join(rng.choice(list("abcé" if text.encoding == "utf-8" else "abcd"), int(rng.integers(0, 4))))
        return word if text.length is None else word.encode()
    if (base := h5py.check_vlen_dtype(dtype)) is not None:
        n = int(rng.integers(0, 5))
        if h5py.check_string_dtype(base) is not None or base.hasobject or base.subdtype:
            out = np.empty(n, base if base.names else object)
            for i in range(n):
                out[i] = value(base, rng)
            return out
        return np.array([value(base, rng) for _ in range(n)], base)
    if dtype.subdtype:
        base, shape = dtype.subdtype
        out = np.empty(shape, base)
        for i in np.ndindex(shape):
            out[i] = value(base, rng)
        return out
    if dtype.names:
        out = np.empty(1, dtype)
        for name in dtype.names:
            out[name][0] = value(dtype[name], rng)
        return out[0]
    return dtype.type(rng.integers(0, 100)) if dtype.kind != "c" else dtype.type(rng.random() + 1j * rng.random())


def plain(item, names=True):
    """What h5py, ds.read() or pyarrow says, as plain Python: compounds as dicts, all lists and arrays as lists."""
    if isinstance(item, fb.Ragged):
        return [plain(item.values[a:b]) for a, b in zip(item.offsets[:-1], item.offsets[1:])]
    if isinstance(item, bytes):
        return item.decode()
    if isinstance(item, dict):
        return complex(item["r"], item["i"]) if set(item) == {"r", "i"} else {name: plain(v) for name, v in item.items()}
    if isinstance(item, (list, tuple)):
        return [plain(v) for v in item]
    if isinstance(item, np.ndarray):
        return [plain(v) for v in item] if item.shape else plain(item[()])
    if isinstance(item, np.void) and item.dtype.names:
        return {name: plain(item[name]) for name in item.dtype.names}
    return item.item() if isinstance(item, np.generic) else item


def c_type(dtype):
    """The type in libhdf5's memory and in the file; h5py cannot write lists of compounds that hold lists."""
    if (text := h5py.check_string_dtype(dtype)) is not None:
        made = h5py.h5t.C_S1.copy()
        made.set_size(h5py.h5t.VARIABLE if text.length is None else text.length)
        made.set_strpad(h5py.h5t.STR_NULLTERM if text.length is None else h5py.h5t.STR_NULLPAD)
        made.set_cset(h5py.h5t.CSET_UTF8 if text.encoding == "utf-8" else h5py.h5t.CSET_ASCII)
        return made
    if (base := h5py.check_vlen_dtype(dtype)) is not None:
        return h5py.h5t.vlen_create(c_type(base))
    if dtype.subdtype:
        return h5py.h5t.array_create(c_type(dtype.subdtype[0]), dtype.subdtype[1])
    if dtype.names:
        members = [c_type(dtype[name]) for name in dtype.names]
        made = h5py.h5t.create(h5py.h5t.COMPOUND, sum(m.get_size() for m in members))
        at = 0
        for name, member in zip(dtype.names, members):
            made.insert(name.encode(), at, member)
            at += member.get_size()
        return made
    return h5py.h5t.py_create(dtype, logical=True)


def c_bytes(dtype, item, keep):
    """A value as libhdf5 wants it in memory; `keep` holds what its pointers point to."""

    def pointer(content):
        keep.append(ctypes.create_string_buffer(content, max(len(content), 1)))
        return ctypes.addressof(keep[-1])

    if (text := h5py.check_string_dtype(dtype)) is not None:
        item = item.encode() if isinstance(item, str) else item
        return struct.pack("P", pointer(item + b"\0")) if text.length is None else item.ljust(text.length, b"\0")
    if (base := h5py.check_vlen_dtype(dtype)) is not None:
        return struct.pack("NP", len(item), pointer(b"".join(c_bytes(base, v, keep) for v in item)))
    if dtype.subdtype:
        return b"".join(c_bytes(dtype.subdtype[0], item[i], keep) for i in np.ndindex(dtype.subdtype[1]))
    if dtype.names:
        return b"".join(c_bytes(dtype[name], item[name], keep) for name in dtype.names)
    return np.asarray(item, dtype).tobytes()


def write_rows(made, dtype, at, items):
    call = files.libhdf5().H5Dwrite
    call.argtypes, call.restype = (ctypes.c_int64,) * 5 + (ctypes.c_void_p,), ctypes.c_int
    keep = []
    content = b"".join(c_bytes(dtype, v, keep) for v in items)
    kind, where, memory = c_type(dtype), made.id.get_space(), h5py.h5s.create_simple((len(items),))  # alive while their ids are used
    where.select_hyperslab((at,), (len(items),))
    assert call(made.id.id, kind.id, memory.id, where.id, 0, content) >= 0


def write(file):
    rng = np.random.default_rng(11)
    written = {}
    layouts = ({}, {"chunk": (7,), "filters": files.FILTERS["shuffle_gzip"]}, {"chunk": (16,), "maxshape": (None,)})
    for i, (name, dtype) in enumerate(TYPES.items()):
        options = dict(layouts[i % 3])
        made = files.create(file, name, c_type(dtype), (N,), options.pop("maxshape", None), files.properties(**options))
        values = [value(dtype, rng) for _ in range(N)]
        write_rows(made, dtype, 0, values[:18])
        write_rows(made, dtype, 25, values[25:])  # those between are never written
        if name in NOT_H5PY:
            written[name] = [plain(v) for v in values[:18]] + [[]] * 7 + [plain(v) for v in values[25:]]
    file["x"] = np.arange(N)
    return written


@pytest.fixture(scope="module", params=["earliest", "latest"])
def nested(request, tmp_path_factory):
    """(path, {name: plain values as h5py reads them})."""
    path = tmp_path_factory.mktemp("nested") / "f.h5"
    with h5py.File(path, "w", libver=files.LIBVERS[request.param]) as file:
        written = write(file)
    return path, as_h5py_says(path) | written


def as_h5py_says(path):
    with h5py.File(path) as file:
        return {name: plain(file[name][()]) for name in file if name not in NOT_H5PY}


@pytest.fixture(scope="module")
def by_helper(tmp_path_factory):
    """The same, of a file that only the helper program may read. Skips where it is not built."""
    folder = tmp_path_factory.mktemp("helped")
    path = folder / "f.h5"
    with h5py.File(folder / "writing.h5", "w", libver=files.LIBVERS["v110"]) as file:
        written = write(file)
        file.swmr_mode = True
        file.flush()
        shutil.copy(folder / "writing.h5", path)
    want = as_h5py_says(folder / "writing.h5") | written
    with fb.open(folder / "writing.h5", cache_dir="") as ds:
        assert ds.contents()["/x"].direct
    try:
        with fb.open(path, cache_dir="") as ds:
            assert not ds.contents()["/x"].direct
    except fb.UnsupportedError as error:
        pytest.skip(f"no helper program: {error}")
    return path, want


def check(path, want, direct):
    with fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        assert set(ds.columns) == set(want), ds.notes
        table = pa.table(ds)
        for name, values in want.items():
            assert contents["/" + name].direct == direct, contents["/" + name].why
            assert plain(table.column(name).to_pylist()) == values, name
            got = ds.read("/" + name)
            assert len(got) == N and plain(got) == values, name


def test_read_and_arrow_give_what_h5py_gives(nested):
    check(*nested, direct=True)


def test_the_helper_program_gives_the_same(by_helper):
    check(*by_helper, direct=False)


def test_read_has_the_dtypes_that_h5py_has(nested):
    path, _ = nested

    def native(dtype):
        """Without byte order and without what h5py notes of texts and lists."""
        if dtype.names:
            return [(name, native(dtype[name])) for name in dtype.names]
        if dtype.subdtype:
            return native(dtype.subdtype[0]), dtype.subdtype[1]
        return "O" if dtype.hasobject else dtype.newbyteorder("=").str

    with fb.open(path, cache_dir="") as ds, h5py.File(path) as file:
        for name in ("hits", "record", "array", "array_of_arrays", "array_of_texts"):
            assert native(ds.read("/" + name).dtype) == native(file[name].dtype), name
        assert native(ds.read("/rich")[0].dtype) == native(h5py.check_vlen_dtype(TYPES["rich"]))


def test_loaders_have_members_of_lists_and_of_arrays_of_compounds(nested):
    check_loader(*nested)


def test_loaders_have_them_from_the_helper_program_too(by_helper):
    check_loader(*by_helper)


def check_loader(path, want):
    outputs = {"row": fb.sample_index(), "t": "hits.t", "q": fb.col("hits.q").cast("float32"), "in": "record.hits.q", "hit": "rich.hit.t",
               "array": "array.hits.t", "one": "array.one.q", "deep": "array_of_arrays.outer.hits.q", "v": "array_of_arrays.outer.v"}  # fmt: skip
    lists = {"t": ("hits", lambda r: [h["t"] for h in r]), "q": ("hits", lambda r: [h["q"] for h in r]),
             "in": ("record", lambda r: [h["q"] for h in r["hits"]]), "hit": ("rich", lambda r: [h["hit"]["t"] for h in r])}  # fmt: skip
    dense = {"array": ("array", lambda r: [[h["t"] for h in row] for row in r["hits"]]),
             "one": ("array", lambda r: [h["q"] for h in r["one"]]),
             "deep": ("array_of_arrays", lambda r: [[h["q"] for h in o["hits"]] for o in r["outer"]]),
             "v": ("array_of_arrays", lambda r: [o["v"] for o in r["outer"]])}  # fmt: skip
    seen = []
    with fb.open(path, cache_dir="") as ds, ds.loader(outputs, batch_size=9, shuffle=True, seed=3, framework="numpy") as loader:
        assert loader.outputs["array"].shape[1:] == (2, 3) and loader.outputs["deep"].shape[1:] == (2, 3)
        for batch in loader:
            seen += list(batch["row"])
            for i, row in enumerate(batch["row"]):
                for name, (column, expected) in lists.items():
                    ragged = batch[name]
                    assert plain(ragged.values[ragged.offsets[i] : ragged.offsets[i + 1]]) == expected(want[column][row]), (name, row)
                for name, (column, expected) in dense.items():
                    assert plain(batch[name][i]) == expected(want[column][row]), (name, row)
    assert sorted(seen) == list(range(N))


@pytest.mark.parametrize("column", ["texts", "lists", "hits", "rich.name", "rich.xs", "rich.grid", "array_of_texts.s"])
def test_what_is_no_tensor_says_so_and_how_it_is_read(nested, column):
    path, _ = nested
    with fb.open(path, cache_dir="") as ds, pytest.raises((fb.UnsupportedError, fb.SchemaError), match="Arrow|name one of"):
        with ds.loader({"y": column}, batch_size=4, framework="numpy") as loader:
            next(iter(loader))


def test_the_index_cache_keeps_them(nested, tmp_path):
    path, want = nested
    for _ in range(2):
        with fb.open(path, cache_dir=tmp_path) as ds:
            table = pa.table(ds)
            for name in ("rich", "array_of_arrays", "record"):
                assert plain(table.column(name).to_pylist()) == want[name]


def test_several_axes_and_fill_values(tmp_path):
    path = tmp_path / "f.h5"
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("hits", (4, 3, 5), TYPES["hits"], chunks=(3, 2, 2))
        array = file.create_dataset("array", (4, 3, 5), TYPES["array"], chunks=(3, 2, 2), compression="gzip")
        for at in np.ndindex(2, 3, 4):
            made[at] = value(TYPES["hits"], rng)
            array[at] = value(TYPES["array"], rng)
        file.create_dataset("scalar", (), TYPES["record"])[()] = value(TYPES["record"], rng)
    with fb.open(path, cache_dir="") as ds, h5py.File(path) as file:
        for name in ("hits", "array", "scalar"):
            assert ds.read("/" + name).shape == file[name].shape
            assert plain(ds.read("/" + name)) == plain(file[name][()]), name
        with ds.loader({"row": fb.sample_index(), "t": "array.hits.t"}, batch_size=3, framework="numpy") as loader:
            for batch in loader:
                assert np.array_equal(batch["t"], file["array"][()]["hits"]["t"][batch["row"]])
        with fb.open(path, axis=1, cache_dir="") as turned:
            got = turned.read(["array.hits.q"])["array.hits.q"]
            assert np.array_equal(got, np.moveaxis(file["array"][()]["hits"]["q"], 1, 0))
            assert plain(pa.table(turned).column("hits").to_pylist()) == plain(np.moveaxis(file["hits"][()], 1, 0))


def test_references_among_members_are_paths_in_read(tmp_path, by_helper):
    path = tmp_path / "f.h5"
    refs = np.dtype([("a", "<i4"), ("to", h5py.ref_dtype)])
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        made = file.create_dataset("r", (3,), refs)
        for i in range(2):
            made[i] = np.array((i, file["x"].ref), refs)
        file.create_dataset("list", (3,), h5py.vlen_dtype(h5py.ref_dtype))[1] = np.array([file["x"].ref, file["/"].ref], object)
    with fb.open(path, cache_dir="") as ds:
        assert ds.contents()["/r"].direct  # its other members are fast: the reference is left out of the table
        assert any("'r.to' is left out" in note and 'read("/r")' in note for note in ds.notes), ds.notes
        assert pa.table(ds).column("r").to_pylist() == [{"a": 0}, {"a": 1}, {"a": 0}]
        assert plain(ds.read("/r")) == [{"a": 0, "to": "/x"}, {"a": 1, "to": "/x"}, {"a": 0, "to": ""}]
        assert plain(ds.read("/list")) == [[], ["/x", "/"], []] == pa.table(ds).column("list").to_pylist()


def test_lists_that_share_their_content_do_not_multiply(tmp_path):
    """A hostile file: 500 lists of 8,000 numbers that are all one. It would be 16 MB of a file of 60 KB, and more with each level."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        outer = np.empty(501, object)
        for i in range(501):
            outer[i] = np.arange(8000 if i == 0 else 1, dtype="i4")
        file.create_dataset("x", (1,), h5py.vlen_dtype(INTS))[0] = outer
    data = bytearray(path.read_bytes())
    first = data.index(struct.pack("<I", 8000), 0)
    while struct.unpack_from("<I", data, first + 16)[0] != 1:
        first = data.index(struct.pack("<I", 8000), first + 1)
    data[first : first + 501 * 16] = data[first : first + 16] * 501
    path.write_bytes(data)
    with fb.open(path, cache_dir="") as ds, pytest.raises(fb.FormatError, match="f.h5.*'/x'.*row 0.*share what they point to"):
        ds.read("/x")
