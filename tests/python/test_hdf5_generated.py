"""Generated HDF5 files against h5py: filter × layout × chunk index × type × the pitfalls of the format.

Each file is one table, so that one test reads all its data sets three ways: whole (ds.read), as Arrow, and shuffled through a loader.
`direct` is asserted everywhere: a data set that quietly goes through the helper program fails.
"""


import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")

import hdf5_files as files  # noqa: E402
from hdf5_compare import add, assert_table, assert_whole, columns_of, h5py_values, leaves, precision  # noqa: E402

N = 67
LATE = ("v110", "latest")
# name: (chunk, maxshape, what else; index where the file format has only B-tree 1, index later). Shapes are (N, 3).
LAYOUTS = {
    "fixed": ((16, 2), None, {}, "fixed array"),
    "single": ((N, 3), None, {}, "single chunk"),
    "extensible": ((16, 2), (None, 3), {}, "extensible array"),
    "extensible_second": ((16, 2), (N, None), {}, "extensible array"),
    "btree2": ((16, 2), (None, None), {}, "B-tree 2"),
    "bounded": ((16, 2), (200, 7), {}, "fixed array"),
    "sparse": ((8, 2), None, {"sparse": True, "fill": 7}, "fixed array"),
    "sparse_extensible": ((4, 3), (None, 3), {"sparse": True, "fill": 9}, "extensible array"),
    "sparse_btree2": ((4, 2), (None, None), {"sparse": True}, "B-tree 2"),
    "never_written": ((8, 2), None, {"sparse": (), "fill": 3}, "fixed array"),
    "early": ((16, 2), None, {"early": True, "sparse": True, "fill": 5}, None),
    "noise": ((16, 2), None, {"noise": True}, "fixed array"),
    "bigger_than_all": ((100, 5), (None, None), {}, "B-tree 2"),
}  # fmt: skip


# ---- filters × layouts ----


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("filter_name", files.FILTERS)
def test_every_filter_in_every_layout(tmp_path, filter_name, libver):
    filters = files.FILTERS[filter_name]
    szip = filter_name.startswith("szip")
    if szip and files.NO_SZIP:
        pytest.skip("h5py's libhdf5 has no szip encoder")
    path = tmp_path / "f.h5"
    types = {"f4": "<f4", "i2": "<i2", "f8_big": ">f8", "u1": "u1", "i8": "<i8"}
    index = {}
    with files.new_file(path, libver) as file:
        seed = 0
        for layout, (chunk, maxshape, options, later) in LAYOUTS.items():
            for type_name, dtype in types.items() if layout in ("fixed", "noise") else (("f4", "<f4"), ("i2", "<i2")):
                seed += 1
                name = f"/{layout}_{type_name}"
                if szip and layout == "sparse" and type_name == "i2":
                    continue
                add(file, name, np.dtype(dtype), (N, 3), chunk, maxshape, filters, seed, **options)
                if layout == "early" and libver in LATE:
                    later = "fixed array" if filters else "implicit"
                index[name] = later if libver in LATE else "B-tree 1"
        if libver in LATE and filters:
            add(file, "/edges", np.dtype("<i4"), (N, 3), (16, 2), None, filters, 99, edges_unfiltered=True)
            add(file, "/edges_extensible", np.dtype("<i4"), (N, 3), (16, 2), (None, 3), filters, 98, edges_unfiltered=True)
            index |= {"/edges": "fixed array", "/edges_extensible": "extensible array"}
        if not filters:
            add(file, "/contiguous", np.dtype("<f4"), (N, 3), None, None, (), 97)
            add(file, "/contiguous_big", np.dtype(">i4"), (N, 3), None, None, (), 96)
            add(file, "/contiguous_never", np.dtype("<i4"), (N, 3), None, None, (), 95, sparse=(), fill=-4)
            add(file, "/compact", np.dtype("<f4"), (N, 3), None, None, (), 94, compact=True)
            index |= {name: None for name in ("/contiguous", "/contiguous_big", "/contiguous_never", "/compact")}
    want = h5py_values(path)
    assert set(want) == set(index)
    with fb.open(path, cache_dir="") as ds:
        assert len(ds) == N
        for item in ds.contents().arrays:
            assert item.direct, f"{item.path}: {item.why}"
            assert item.chunk_index == index[item.path], item.path
    assert_whole(path, dict(list(want.items())[::4]))
    assert_table(path, want)


# ---- types ----


def three_bytes(signed, big):
    """An integer of 3 bytes, which NumPy lacks: (h5py type, the values' bytes of int32 values)."""
    kind = (h5py.h5t.STD_I32BE if big else h5py.h5t.STD_I32LE).copy() if signed else (h5py.h5t.STD_U32BE if big else h5py.h5t.STD_U32LE).copy()
    hdf5 = files.libhdf5()
    hdf5.H5Tset_size.argtypes = (files.ctypes.c_int64, files.ctypes.c_size_t)
    assert hdf5.H5Tset_size(kind.id, 3) >= 0
    return kind


def store_converted(file, path, kind, values, chunk=None, filters=()):
    """Writes NumPy values as a type that h5py cannot name: libhdf5 converts."""
    made = files.create(file, path, kind, values.shape, None, files.properties(chunk=chunk, filters=filters))
    made.id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values), h5py.h5t.py_create(values.dtype))


NUMBERS = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "?"]
SHAPES = {"": (N,), "_matrix": (N, 4, 3)}


@pytest.mark.parametrize("libver", files.LIBVERS)
def test_every_number(tmp_path, libver):
    path = tmp_path / "f.h5"
    with files.new_file(path, libver) as file:
        seed = 0
        for dtype in NUMBERS:
            label = dtype.replace("<", "le_").replace(">", "be_").replace("?", "bool")
            for suffix, shape in SHAPES.items():
                seed += 1
                chunk = (20,) + tuple(max(1, d - 1) for d in shape[1:])
                add(file, f"/contiguous/{label}{suffix}", np.dtype(dtype), shape, None, None, (), seed)
                add(file, f"/chunked/{label}{suffix}", np.dtype(dtype), shape, chunk, None, (), seed, fill=1, sparse=True)
                add(file, f"/packed/{label}{suffix}", np.dtype(dtype), shape, chunk, None, files.FILTERS["shuffle_gzip"], seed)
                add(file, f"/zstd/{label}{suffix}", np.dtype(dtype), shape, shape, None, files.FILTERS["zstd"], seed)
                if int(np.prod(shape)) * np.dtype(dtype).itemsize < 60_000:
                    add(file, f"/compact/{label}{suffix}", np.dtype(dtype), shape, None, None, (), seed, compact=True)
    want = h5py_values(path)
    assert len(want) == 5 * len(NUMBERS) * 2
    assert_whole(path, dict(list(want.items())[::3]))
    assert_table(path, want)


@pytest.mark.parametrize("libver", files.LIBVERS)
def test_numbers_that_numpy_lacks(tmp_path, libver):
    path, want = tmp_path / "f.h5", {}
    steps = np.arange(N)
    with files.new_file(path, libver) as file:
        for signed in (False, True):
            for big in (False, True):
                values = ((steps * 251_003) % (1 << 23)).astype(np.int32) - ((1 << 22) if signed else 0)
                values = values.astype(np.int32 if signed else np.uint32)
                for where, chunk, filters in (("plain", None, ()), ("gzip", (10,), files.FILTERS["shuffle_gzip"]), ("lz4", (64,), files.FILTERS["lz4"])):
                    name = f"/three{signed:d}{big:d}_{where}"
                    store_converted(file, name, three_bytes(signed, big), values, chunk, filters)
                    want[name] = values
        for bits, offset, kinds in (
            (12, 0, (h5py.h5t.STD_I16LE, h5py.h5t.STD_I16BE)), (12, 3, (h5py.h5t.STD_I16LE, h5py.h5t.STD_I16BE)),
            (20, 11, (h5py.h5t.STD_I32LE, h5py.h5t.STD_I32BE)),
        ):  # fmt: skip
            for big in (False, True):
                kind = precision(kinds[big], bits, offset)
                values = ((steps * 37) % (1 << bits) - (1 << (bits - 1))).astype(np.int16 if bits < 16 else np.int32)
                name = f"/bits{bits}_{offset}_{big:d}"
                store_converted(file, name, kind, values, (16,), files.FILTERS["gzip"])
                want[name] = values
        field = np.arange(N, dtype=np.uint8) * 3
        for size, kind in ((1, h5py.h5t.STD_B8LE), (2, h5py.h5t.STD_B16BE), (4, h5py.h5t.STD_B32LE), (8, h5py.h5t.STD_B64LE)):
            values = field.astype(f"u{size}") * (1 if size == 1 else 200)
            made = files.create(file, f"/field{size}", kind, (N,), None, files.properties(chunk=(9,)))
            made.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, {1: h5py.h5t.STD_B8LE, 2: h5py.h5t.STD_B16LE, 4: h5py.h5t.STD_B32LE, 8: h5py.h5t.STD_B64LE}[size])
            want[f"/field{size}"] = values
        colours = h5py.enum_dtype({"red": 0, "green": 1, "blue": 42}, basetype=">i2")
        values = np.array([0, 1, 42], np.int16)[steps % 3]
        made = add(file, "/colour", colours, (N,), (16,), None, files.FILTERS["shuffle_gzip"], 0, values=values.astype(">i2"))
        want["/colour"] = values
    assert_whole(path, want)
    assert_table(path, want)


@pytest.mark.parametrize("libver", files.LIBVERS)
def test_every_type_that_is_no_plain_number(tmp_path, libver):
    path = tmp_path / "f.h5"
    words = ["", "a", "längere Wörter ✓", "x" * 40, "tab\tline\n"]
    texts = [words[i % 5] + str(i % 7) * (i % 3) for i in range(N)]
    inner = np.dtype([("q", "<i2"), ("w", "<f8", (2,))])
    compound = np.dtype([("id", "<u4"), ("pt", ">f4"), ("inner", inner), ("name", "S6"), ("flag", "?"), ("mask", "u1", (3, 2))])
    padded = np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [3, 16], "itemsize": 40})
    rows = np.zeros(N, compound)
    rows["id"], rows["pt"], rows["inner"]["q"] = np.arange(N), np.arange(N) / 4, -np.arange(N)
    rows["inner"]["w"], rows["name"] = np.arange(2 * N).reshape(N, 2), [f"n{i}" for i in range(N)]
    rows["flag"], rows["mask"] = np.arange(N) % 2, np.arange(6 * N).reshape(N, 3, 2) % 251
    holes = np.zeros(N, padded)
    holes["a"], holes["b"] = np.arange(N), np.arange(N) * 1.5
    lists = np.empty(N, object)
    for i in range(N):
        lists[i] = np.arange(i % 5, dtype=np.int32) * i
    floats = np.empty(N, object)
    for i in range(N):
        floats[i] = np.arange((i * 3) % 4, dtype=np.float64) / 4
    with files.new_file(path, libver) as file:
        for where, chunk, filters in (("plain", None, ()), ("gzip", (16,), files.FILTERS["shuffle_gzip"]), ("zstd", (N,), files.FILTERS["zstd"])):
            p = f"/{where}/"
            add(file, p + "fixed", np.dtype("S9"), (N,), chunk, None, filters, 0, values=np.array([f"v{i}" for i in range(N)], "S9"))
            utf8 = h5py.string_dtype("utf-8", 24)
            add(file, p + "fixed_utf8", utf8, (N,), chunk, None, filters, 0,
                values=np.array([t.encode()[:20].decode(errors="ignore").encode() for t in texts], utf8))
            add(file, p + "vlen", h5py.string_dtype("utf-8"), (N,), chunk, None, filters, 0, values=np.array(texts, object))
            add(file, p + "vlen_ascii", h5py.string_dtype("ascii"), (N,), chunk, None, filters, 0, values=np.array([f"asc{i}" for i in range(N)], object))
            add(file, p + "compound", compound, (N,), chunk, None, filters, 0, values=rows)
            add(file, p + "padded", padded, (N,), chunk, None, filters, 0, values=holes)
            add(file, p + "arrays", np.dtype(("<i2", (2, 3))), (N,), chunk, None, filters, 0, values=np.arange(6 * N, dtype="<i2").reshape(N, 2, 3))
            add(file, p + "opaque", np.dtype("V5"), (N,), chunk, None, filters, 0, values=np.array([bytes([i, 0, 255 - i, 7, 0]) for i in range(N)], "V5"))
            add(file, p + "lists", h5py.vlen_dtype(np.dtype("<i4")), (N,), chunk, None, filters, 0, values=lists)
            add(file, p + "lists_big", h5py.vlen_dtype(np.dtype(">f8")), (N,), chunk, None, filters, 0, values=floats)
            add(file, p + "complex", np.dtype("<c16"), (N,), chunk, None, filters, 0, values=np.arange(N) * (1 + 2j))
        add(file, "/words", h5py.string_dtype("utf-8"), (N, 2), (16, 1), None, files.FILTERS["gzip"], 0, values=np.array([texts, texts[::-1]], object).T)
        add(file, "/names", np.dtype("S4"), (N, 2), (16, 1), None, files.FILTERS["gzip"], 0, values=np.array([["ab", "c"]] * N, "S4"))
        add(file, "/half", h5py.string_dtype("utf-8"), (N,), (16,), None, files.FILTERS["gzip"], 0, values=np.array(texts, object), sparse=True)
        add(file, "/half_lists", h5py.vlen_dtype(np.dtype("<i4")), (N,), (16,), None, (), 0, values=lists, sparse=True)
    want = h5py_values(path)
    for where in ("plain", "gzip", "zstd"):  # h5py does not swap the bytes of lists
        want[f"/{where}/lists_big"] = floats
    assert_whole(path, want)
    # Through Arrow: what pyarrow says, value by value.
    with fb.open(path, cache_dir="") as ds:
        assert len(ds) == N
        table = pa.table(ds)
        flat = {}

        def visit(name, array):
            array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            flat[name] = array
            if pa.types.is_struct(array.type):
                for i, field in enumerate(array.type):
                    visit(f"{name}.{field.name}", array.field(i))

        for name in table.column_names:
            visit(name, table.column(name))
        columns = columns_of(ds)
        for where in ("plain", "gzip", "zstd"):
            for name in ("fixed", "fixed_utf8", "vlen", "vlen_ascii"):
                got = flat[columns[f"/{where}/{name}"]].to_pylist()
                assert got == [files.text(v) for v in want[f"/{where}/{name}"]], name
            for name in ("lists", "lists_big"):
                assert flat[columns[f"/{where}/{name}"]].to_pylist() == [v.tolist() for v in want[f"/{where}/{name}"]], name
            base = f"{where}/compound"
            assert np.array_equal(flat[base + ".id"].to_numpy(), rows["id"]) and np.array_equal(flat[base + ".pt"].to_numpy(), rows["pt"])
            assert flat[base + ".inner.q"].to_pylist() == rows["inner"]["q"].tolist()
            assert flat[base + ".name"].to_pylist() == [v.decode() for v in rows["name"]]
            assert flat[base + ".mask"].to_pylist() == rows["mask"].tolist()
            assert flat[columns[f"/{where}/arrays"]].to_pylist() == want[f"/{where}/arrays"].tolist()
            assert flat[columns[f"/{where}/opaque"]].to_pylist() == [v.tobytes() for v in want[f"/{where}/opaque"]]
            assert np.array_equal(flat[f"{where}/padded.b"].to_numpy(), holes["b"])
        assert flat["words"].to_pylist() == [list(pair) for pair in zip(texts, texts[::-1])]
        # Through the loader: texts and lists as packed values and offsets.
        outputs = {
            "row": fb.sample_index(), "text": fb.col("gzip/vlen"), "fixed": fb.col("plain/fixed_utf8"), "lists": fb.col("gzip/lists"),
            "pt": fb.col("zstd/compound.pt"), "w": fb.col("gzip/compound.inner.w"), "mask": fb.col("plain/compound.mask"), "half": fb.col("half"),
        }  # fmt: skip
        seen = []
        with ds.loader(outputs, batch_size=9, shuffle=True, framework="numpy") as loader:
            for batch in loader:
                for k, i in enumerate(batch["row"]):
                    seen.append(int(i))
                    for key, source in (("text", "/gzip/vlen"), ("fixed", "/plain/fixed_utf8"), ("half", "/half")):
                        part = batch[key]
                        assert bytes(part.values[part.offsets[k] : part.offsets[k + 1]]) == want[source][i].encode(), (key, i)
                    part = batch["lists"]
                    assert np.array_equal(part.values[part.offsets[k] : part.offsets[k + 1]], lists[i])
                    assert batch["pt"][k] == rows["pt"][i] and np.array_equal(batch["w"][k], rows["inner"]["w"][i])
                    assert np.array_equal(batch["mask"][k], rows["mask"][i])
        assert sorted(seen) == list(range(N))


# ---- pitfalls ----


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [512, 1024, 4096])
def test_a_user_block_moves_every_address(tmp_path, userblock, libver):
    path = tmp_path / "f.h5"
    with files.new_file(path, libver, userblock=userblock) as file:
        for i, (name, filters) in enumerate(files.FILTERS.items()):
            if name in files.SOME_FILTERS and not (name.startswith("szip") and files.NO_SZIP):
                add(file, f"/g{i}/{name}", np.dtype("<f4"), (N, 3), (16, 2), None, filters, i)
        add(file, "/contiguous", np.dtype("<f4"), (N, 3), None, None, (), 50)
        add(file, "/compact", np.dtype("<f4"), (N, 3), None, None, (), 51, compact=True)
        add(file, "/text", h5py.string_dtype("utf-8"), (N,), (16,), None, (), 0, values=np.array([f"t{i}" for i in range(N)], object))
        file.attrs["where"] = "behind the user block"
    want = h5py_values(path)
    assert_whole(path, want)
    text = want.pop("/text")
    assert_table(path, want)
    with fb.open(path, cache_dir="") as ds:
        assert ds.attrs["where"] == "behind the user block"
        assert list(ds.read("text")["text"]) == [files.text(t) for t in text]


@pytest.mark.parametrize("sizes", [(4, 4), (8, 4), (4, 8), (2, 4)])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_addresses_and_lengths_of_other_sizes(tmp_path, libver, sizes):
    path = tmp_path / "f.h5"
    with files.new_file(path, libver, sizes=sizes) as file:
        for layout in ("fixed", "single", "extensible", "btree2", "sparse"):
            chunk, maxshape, options, _ = LAYOUTS[layout]
            if libver == "latest" and maxshape is not None and sizes[1] == 4:
                continue  # libhdf5 writes an array index there that it cannot read
            add(file, f"/{layout}", np.dtype("<i2"), (N, 3), chunk, maxshape, files.FILTERS["gzip"], 1, **options)
            add(file, f"/{layout}_plain", np.dtype("<i2"), (N, 3), chunk, maxshape, (), 2, **options)
        add(file, "/contiguous", np.dtype("<i2"), (N, 3), None, None, (), 3)
        add(file, "/text", h5py.string_dtype("utf-8"), (N,), (16,), None, (), 0, values=np.array([f"t{i}" for i in range(N)], object))
    want = h5py_values(path)
    assert_whole(path, want)
    del want["/text"]
    assert_table(path, want)


@pytest.mark.parametrize("istore_k", [2, 64])
def test_a_superblock_with_another_b_tree_rank(tmp_path, istore_k):
    path = tmp_path / "f.h5"
    with files.new_file(path, "earliest", istore_k=istore_k) as file:
        add(file, "/x", np.dtype("<i2"), (300, 3), (2, 1), None, files.FILTERS["gzip"], 1)
    assert path.read_bytes()[8] == 1, "superblock version"
    want = h5py_values(path)
    assert_whole(path, want)
    assert_table(path, want, batch_size=37)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("filter_name", [name for name in files.FILTERS if name != "none"])
def test_chunks_whose_filters_were_skipped(tmp_path, filter_name, libver):
    """write_direct_chunk with a filter mask: all filters skipped in some chunks, the first one in others."""
    filters = files.FILTERS[filter_name]
    if filter_name.startswith("szip") and files.NO_SZIP:
        pytest.skip("h5py's libhdf5 has no szip encoder")
    path = tmp_path / "f.h5"
    values = files.numbers("<i4", (60, 3), 5)
    with files.new_file(path, libver) as file:
        for name, maxshape in (("/fixed", None), ("/extensible", (None, 3)), ("/btree2", (None, None))):
            made = add(file, name, np.dtype("<i4"), (60, 3), (10, 3), maxshape, filters, 5, values=values)
            for i in (0, 20, 50):
                made.id.write_direct_chunk((i, 0), values[i : i + 10][::-1].tobytes(), (1 << len(filters)) - 1)
        made = add(file, "/single", np.dtype("<i4"), (60, 3), (60, 3), None, filters, 5, values=values)
        made.id.write_direct_chunk((0, 0), values[::-1].tobytes(), (1 << len(filters)) - 1)
        if len(filters) > 1 and filters[0] == (files.SHUFFLE, ()):  # the bytes as another chunk has them, less its shuffling
            bare = add(file, "/bare", np.dtype("<i4"), (60, 3), (10, 3), None, filters[1:], 5, values=values)
            made = add(file, "/unshuffled", np.dtype("<i4"), (60, 3), (10, 3), None, filters, 5, values=values)
            mask, stored = bare.id.read_direct_chunk((30, 0))
            made.id.write_direct_chunk((30, 0), stored, mask << 1 | 1)
    want = h5py_values(path)
    assert not np.array_equal(want["/fixed"], values)
    assert_whole(path, want)
    assert_table(path, want)


@pytest.mark.parametrize("kind", ["btree1", "fixed", "extensible", "btree2"])
@pytest.mark.parametrize("filter_name", ["none", "gzip"])
def test_many_chunks(tmp_path, kind, filter_name):
    """More than the 1,024 that fit a page of an array index, dense and with holes; unlimited axes grow after they were written."""
    path = tmp_path / "f.h5"
    libver = "earliest" if kind == "btree1" else "latest"
    maxshape = {"btree1": None, "fixed": None, "extensible": (None,), "btree2": (None, None)}[kind]
    one = kind != "btree2"
    n = 3500
    with files.new_file(path, libver) as file:
        for name, rows in (("/dense", slice(0, n)), ("/ends", None)):
            shape = (n,) if one else (n, 2)
            chunk = (1,) if one else (1, 2)
            plist = files.properties(chunk=chunk, filters=files.FILTERS[filter_name], fill=np.array(-1, "<i4"))
            made = files.create(file, name, np.dtype("<i4"), shape, maxshape, plist)
            values = files.numbers("<i4", shape, 1)
            if rows is not None:
                made[rows] = values[rows]
            else:
                for a, b in ((0, 3), (1500, 1503), (n - 2, n)):
                    made[a:b] = values[a:b]
    want = h5py_values(path)
    names = {"btree1": "B-tree 1", "fixed": "fixed array", "extensible": "extensible array", "btree2": "B-tree 2"}
    with fb.open(path, cache_dir="") as ds:
        for item in ds.contents().arrays:
            assert item.chunk_index == names[kind] and item.n_chunks == n
            assert item.n_chunks_written == (n if item.path == "/dense" else 8)
    assert_whole(path, want)
    assert_table(path, want, batch_size=701)


@pytest.mark.parametrize("kind", ["btree1", "fixed", "extensible", "btree2"])
def test_65536_chunks(tmp_path, kind):
    path = tmp_path / "f.h5"
    n = 1 << 16
    maxshape = {"btree1": None, "fixed": None, "extensible": (None,), "btree2": (None, None)}[kind]
    values = np.arange(n, dtype=np.int16).reshape(n, 1) if kind == "btree2" else np.arange(n, dtype=np.int16)
    with files.new_file(path, "earliest" if kind == "btree1" else "latest") as file:
        files.create(file, "/x", np.dtype("<i2"), values.shape, maxshape, files.properties(chunk=(1, 1) if kind == "btree2" else (1,)))[...] = values
    with fb.open(path, cache_dir="") as ds:
        item = ds.contents()["/x"]
        assert item.direct and item.n_chunks == item.n_chunks_written == n
        files.assert_same(ds.read("/x"), values, "/x")
        with ds.loader({"i": fb.sample_index(), "x": fb.col("x")}, batch_size=4099, shuffle=True, framework="numpy") as loader:
            n_seen = 0
            for batch in loader:
                files.assert_same(batch["x"], values[batch["i"]], "/x through a loader")
                n_seen += len(batch["i"])
        assert n_seen == n


def test_data_sets_that_grew_and_shrank(tmp_path):
    """Chunks outside the extent stay in some indexes; what grows back is fill value."""
    path = tmp_path / "f.h5"
    for libver in ("earliest", "latest"):
        with files.new_file(path, libver) as file:
            for name, maxshape in (("/a", (None, 3)), ("/b", (None, None)), ("/c", (200, 40))):
                for filter_name in ("none", "gzip"):
                    made = add(file, f"{name}_{filter_name}", np.dtype("<i4"), (120, 9), (7, 2), maxshape, files.FILTERS[filter_name], 1, fill=-9) \
                        if maxshape != (None, 3) else add(file, f"{name}_{filter_name}", np.dtype("<i4"), (120, 3), (7, 2), maxshape,
                                                          files.FILTERS[filter_name], 1, fill=-9)  # fmt: skip
                    width = made.shape[1]
                    made.resize((30, width))
                    if maxshape[1] != 3:
                        made.resize((30, 4))
                        made.resize((30, 11))
                    made.resize((N, made.shape[1]))
        want = h5py_values(path)
        assert_whole(path, want)
        assert_table(path, want)


@pytest.mark.parametrize("fill_time", ["ifset", "alloc", "never"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_fill_values(tmp_path, libver, fill_time):
    path = tmp_path / "f.h5"
    when = {"ifset": h5py.h5d.FILL_TIME_IFSET, "alloc": h5py.h5d.FILL_TIME_ALLOC, "never": h5py.h5d.FILL_TIME_NEVER}[fill_time]
    record = np.dtype([("a", "<i4"), ("b", ">f8")])
    fills = {
        "f4": (np.dtype("<f4"), np.nan), "i2": (np.dtype(">i2"), -32768), "u8": (np.dtype("<u8"), 2**64 - 1), "bool": (np.dtype("?"), True),
        "text": (np.dtype("S5"), None), "record": (record, np.array((7, 2.5), record)), "pair": (np.dtype(("<i2", (2,))), None),
    }  # fmt: skip
    with files.new_file(path, libver) as file:
        for name, (dtype, fill) in fills.items():
            for layout, chunk in (("chunked", (16,)), ("contiguous", None)):
                plist = files.properties(chunk=chunk, fill=None if fill is None else np.array(fill, dtype), fill_time=when)
                files.create(file, f"/{name}_{layout}", dtype, (N,), None, plist)
    if fill_time == "never":  # h5py's read leaves memory as it was where nothing was ever written and no fill value is to be written
        want = {}
        with h5py.File(path) as file:
            for name, item in files.data_sets(file):
                want[name] = np.full(item.shape, item.fillvalue, item.dtype) if item.dtype.subdtype is None else item[()]
    else:
        want = h5py_values(path)
    assert_whole(path, want)


def test_groups_links_and_attributes(tmp_path):
    for libver in ("earliest", "latest"):
        path = tmp_path / f"{libver}.h5"
        other = tmp_path / "other.h5"
        with files.new_file(other, libver) as file:
            file["away"] = np.arange(N)
        with files.new_file(path, libver) as file:
            deep = "/" + "/".join(f"level{i}" for i in range(60)) + "/x"
            add(file, deep, np.dtype("<i4"), (N,), None, None, (), 1)
            wide = file.create_group("wide")
            for i in range(300):  # symbol tables of several nodes; dense links in a fractal heap
                wide[f"name {i} " + "y" * (i % 50)] = np.int32(i)
            file["hard"] = file[deep]
            file["soft"] = h5py.SoftLink(deep)
            file["broken"] = h5py.SoftLink("/nowhere")
            file["loop"] = h5py.SoftLink("/loop")
            file["outside"] = h5py.ExternalLink("other.h5", "/away")
            file["level0/level1/back"] = file["/level0"]  # a cycle of hard links
            many = file["hard"].attrs
            for i in range(150):
                many[f"attribute {i}"] = np.arange(i % 7, dtype=">i2") if i % 2 else f"text {i} ✓"
            many["long"] = np.arange(3000.0)
            many["huge"] = np.arange(5000, dtype=np.int64)[: (5000 if libver == "latest" else 2000)]
            many["fixed"] = np.bytes_("padded")
            many["story"] = "ä long story " * 2000
            many["spaces at the end"] = "kept  "
            many["pairs"] = np.array([b"ab", b"c "], "S2")
            many["latin"] = np.bytes_("caf\u00e9 10 \u00b0C".encode("latin-1"))
            many["flag"] = True
            many["words"] = np.array(["one", "", "drei"], dtype=object)
            many.create("empty", h5py.Empty("f4"))
            file.attrs["root"] = 2.5
        with h5py.File(path) as file, fb.open(path, table="/soft", cache_dir="") as ds:
            assert ds.attrs["root"] == 2.5 and len(ds) == N
            contents = ds.contents()
            files.assert_same(ds.read("/hard"), file["hard"][()], "hard")
            files.assert_same(ds.read("/soft"), file["hard"][()], "soft")
            files.assert_same(ds.read(deep), file["hard"][()], deep)
            for i in range(0, 300, 37):
                name = f"/wide/name {i} " + "y" * (i % 50)
                assert ds.read(name) == i
            assert len([p for p in contents if p.startswith("/wide/")]) == 300
            assert contents["/broken"].kind == "link" and contents["/loop"].kind == "link"
            got = next(item for item in contents.values() if item.kind == "array" and len(item.attributes) > 100).attributes
            assert set(got) == set(file["hard"].attrs)
            for name, want in file["hard"].attrs.items():
                if isinstance(want, h5py.Empty):
                    continue
                value = got[name]
                if isinstance(want, str):
                    assert value == want, name
                elif isinstance(want, np.ndarray) and want.dtype == object:
                    assert list(value) == list(want), name
                elif isinstance(want, (bytes, np.bytes_)):
                    assert (value.encode() if isinstance(value, str) else value) == bytes(want), name  # text that is no UTF-8 is bytes
                elif want.dtype.kind == "S":
                    assert [v.encode() for v in value] == list(want), name
                else:
                    assert files.same_bits(value, want), name
            with pytest.raises(KeyError, match="nowhere"):
                ds.read("/nowhere")


def test_shapes_with_zeros_scalars_and_null_spaces(tmp_path):
    path = tmp_path / "f.h5"
    with files.new_file(path, "latest") as file:
        file["scalar"] = 5
        file["text"] = "alone ✓"
        file["bytes"] = np.bytes_(b"fixed")
        file["pair"] = np.array((1, 2.5), [("a", "<i4"), ("b", "<f8")])
        file["none"] = h5py.Empty("<f4")
        file["zero"] = np.zeros((0, 4), "<i2")
        file["zero_inside"] = np.zeros((5, 0, 2), "<f4")
        file.create_dataset("zero_chunked", (0, 3), "<f4", maxshape=(None, 3), chunks=(4, 3), compression="gzip")
        file["zero_text"] = np.zeros((0,), "S4")
        file["one"] = np.array([3.5])
        file["x"] = np.arange(N)
    with h5py.File(path) as file, fb.open(path, cache_dir="") as ds:
        assert len(ds) == N
        for name in ("scalar", "pair", "zero", "zero_inside", "zero_chunked", "one", "x"):
            files.assert_same(ds.read("/" + name), file[name][()], name)
        assert ds.read("/text") == "alone ✓" and ds.read("/bytes") == "fixed"
        assert ds.read("/zero_text").shape == (0,)


def test_more_axes_than_anyone_needs(tmp_path):
    path = tmp_path / "f.h5"
    with files.new_file(path, "latest") as file:
        for rank in (1, 2, 3, 5, 8, 16, 32):
            shape = (N,) + tuple(2 if i < 5 else 1 for i in range(rank - 1))
            add(file, f"/r{rank}", np.dtype("<i2"), shape, None, None, (), rank)
            chunk = (9,) + tuple(min(2, d) if i % 2 else 1 for i, d in enumerate(shape[1:]))
            add(file, f"/c{rank}", np.dtype("<i2"), shape, chunk, None, files.FILTERS["shuffle_gzip"], rank)
            add(file, f"/e{rank}", np.dtype("<i2"), shape, chunk, (None,) * rank, (), rank)
    want = h5py_values(path)
    assert_whole(path, want)
    few = {name: values for name, values in want.items() if values.ndim <= 5}
    assert_table(path, few, arrow=False)
    with fb.open(path, cache_dir="") as ds:
        got = leaves(pa.table(ds))
        for name, values in want.items():
            files.assert_same(got[name[1:]], values, f"{name} as Arrow")


def test_flipped_bits_are_found_by_fletcher32_on_request(tmp_path):
    path = tmp_path / "f.h5"
    with files.new_file(path, "latest") as file:
        made = add(file, "/x", np.dtype("<i4"), (N,), (16,), None, files.FILTERS["fletcher32"], 1)
        at = made.id.get_chunk_info(1).byte_offset
    raw = bytearray(path.read_bytes())
    raw[at + 5] ^= 4
    path.write_bytes(raw)
    with fb.open(path, cache_dir="", verify_crc=True) as ds:
        with pytest.raises(fb.FormatError, match="f.h5.*x"):
            ds.read("x")


@pytest.mark.parametrize("codec", ["blosclz", "lz4", "lz4hc", "zlib", "zstd"])
def test_blosc_in_every_shape_of_its_blocks(tmp_path, codec):
    """Blocks split by bytes and not, a shorter last one, streams that are plain copies: what the library reads, value by value."""
    import hdf5plugin

    path = tmp_path / "f.h5"
    rng = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for dtype in ("u1", "<i2", "<f4", "<f8", "V3", "V12", "V17", "V40"):
            bytes_each = np.dtype(dtype).itemsize
            for n in (7, 300, 5000, 40_000, 131_072 // bytes_each * 3 + 11):
                smooth = np.minimum(np.arange(n * bytes_each) // 97 % 251, rng.integers(0, 256, n * bytes_each)).astype("u1")
                smooth[len(smooth) // 2 :] = rng.integers(0, 256, len(smooth) - len(smooth) // 2)  # half of it does not compress
                smooth[: len(smooth) // 5] = 0
                for shuffle in (0, 1, 2):
                    for level in (1, 9):
                        filter_ = hdf5plugin.Blosc(cname=codec, clevel=level, shuffle=shuffle)
                        name = f"/{dtype.strip('<')}_{n}_{shuffle}_{level}"
                        file.create_dataset(name, data=smooth.view(dtype), chunks=(n,), **filter_)
    with h5py.File(path) as file, fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        for name, data in file.items():
            assert contents["/" + name].direct, contents["/" + name].why
            assert ds.read("/" + name).tobytes() == data[()].tobytes(), name


def test_compounds_with_texts_and_lists_in_them(tmp_path):
    path = tmp_path / "f.h5"
    record = np.dtype([("a", "<i4"), ("s", h5py.string_dtype()), ("v", h5py.vlen_dtype(np.dtype("<i4")))])
    with files.new_file(path) as file:
        made = file.create_dataset("/x", (4,), record)
        for i in range(4):
            made[i] = np.array((i, f"s{i}", np.arange(i)), dtype=record)
    with fb.open(path, cache_dir="") as ds:
        assert ds.contents()["/x"].direct
        got = ds.read("/x")
        assert got["a"].tolist() == [0, 1, 2, 3] and got["s"].tolist() == ["s0", "s1", "s2", "s3"]
        assert [v.tolist() for v in got["v"]] == [[], [0], [0, 1], [0, 1, 2]]
        assert pa.table(ds).column("x").to_pylist()[3] == {"a": 3, "s": "s3", "v": [0, 1, 2]}
