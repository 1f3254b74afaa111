"""HDF5 files as tables: which data sets are its columns, rows along other axes, cells, many files, chunks that lie across each other."""

import os
import time

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")

import hdf5_files as files  # noqa: E402
from hdf5_compare import leaves  # noqa: E402


def epoch(loader):
    """All batches of an epoch, joined by output."""
    parts = {}
    for batch in loader:
        for name, value in batch.items():
            parts.setdefault(name, []).append(np.asarray(value))
    return {name: np.concatenate(values) for name, values in parts.items()}


# ---- which data sets ----


@pytest.fixture
def several(tmp_path):
    """Three lengths: 500 events with two columns, 80 runs below another group, 7 calibrations; a scalar, which is no column."""
    path = tmp_path / "several.h5"
    with files.new_file(path) as file:
        file["events/x"] = np.arange(1500, dtype="f4").reshape(500, 3)
        file["events/label"] = np.arange(500, dtype="i8")
        file["runs/number"] = np.arange(80, dtype="i4")
        file["runs/inner/start"] = np.arange(80) / 2
        file["weights"] = np.arange(500, dtype="f8")
        file["calibration"] = np.arange(7, dtype="i2")
        file["version"] = 3
    return path


def test_the_largest_table_is_taken_and_the_others_are_named(several):
    with fb.open(several, cache_dir="") as ds:
        assert len(ds) == 500 and set(ds.columns) == {"events/x", "events/label", "weights"}
        notes = "\n".join(ds.notes)
        assert "runs/" in notes and "calibration" in notes, notes


@pytest.mark.parametrize(
    "table, rows, columns",
    [
        ("/runs/number", 80, {"runs/number", "runs/inner/start"}),
        ("runs/inner/start", 80, {"runs/number", "runs/inner/start"}),
        ("/calibration", 7, {"calibration"}),
        ("/events/label", 500, {"events/x", "events/label", "weights"}),
        ("/events", 500, {"events/x", "events/label"}),
        ("/runs/inner", 80, {"runs/inner/start"}),
        ("/", 500, {"events/x", "events/label", "weights"}),
    ],
)
def test_a_table_by_the_path_of_a_data_set_or_a_group(several, table, rows, columns):
    with h5py.File(several) as file, fb.open(several, table=table, cache_dir="") as ds:
        assert len(ds) == rows and len(ds.columns) == len(columns)
        got = ds.read()
        for path in columns:
            name = next(n for n in got if n == path or path.endswith("/" + n))
            files.assert_same(got[name], file[path][()], path)


def test_a_table_that_is_not_there_is_refused_by_name(several):
    for table in ("/nothing", "/events/nothing"):
        with pytest.raises(fb.Error, match="several.h5.*nothing"):
            fb.open(several, table=table, cache_dir="")
    with pytest.raises(fb.Error, match="several.h5"):
        fb.open(several, axis="nowhere", cache_dir="")
    with pytest.raises(fb.Error, match="several.h5"):
        fb.open(several, axis=9, cache_dir="")


def test_a_single_data_set_alone(several):
    with h5py.File(several) as file, fb.open(several, table="/events/x", single=True, cache_dir="") as ds:
        assert len(ds.columns) == 1 and len(ds) == 500
        files.assert_same(next(iter(ds.read().values())), file["events/x"][()], "x")


@pytest.mark.parametrize(
    "column, why",
    [
        ("when", "left out: its type.*time"),
        ("hits.to", 'left out: .*read\\("/hits"\\) gives it'),
        ("gone", "left out: a soft link to nothing"),
        ("runs/number", 'in another table of the file, which table="/runs/number" opens; read\\("/runs/number"\\) gives all of it'),
        ("runs", 'a group: table="/runs" opens'),
        ("version", 'a single value, which read\\("/version"\\) gives'),
        ("weihgts", "did you mean 'weights'"),
    ],
)
def test_a_column_that_is_not_there_says_why_and_what_to_do(several, column, why):
    with h5py.File(several, "a") as file:
        h5py.h5d.create(file.id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((500,)))
        file.create_dataset("hits", (500,), np.dtype([("t", "<f4"), ("to", h5py.ref_dtype)]))
        file["gone"] = h5py.SoftLink("/nowhere")
    with fb.open(several, cache_dir="") as ds:
        for ask in (lambda: ds.loader({"y": column}, batch_size=10), lambda: ds.read([column]), lambda: pa.table(ds.select([column]))):
            with pytest.raises(fb.SchemaError, match=f"no column '{column}'.*({why})"):
                ask()


def test_a_soft_link_to_nothing_is_left_out_and_a_loader_of_all_columns_says_so(several, tmp_path):
    with h5py.File(several, "a") as file:
        file["gone"] = h5py.SoftLink("/nowhere")
    for _ in range(2):  # the second time from the index cache
        with fb.open(several, cache_dir=tmp_path / "cache") as ds:
            assert "gone" not in ds.columns and "'gone' is left out: a soft link to nothing" in " ".join(ds.notes)
            with pytest.warns(UserWarning, match="'gone'.*: a soft link to nothing"), ds.loader(batch_size=10):
                pass
    with h5py.File(several, "a") as file:
        file["nowhere"] = file["weights"][()]
    with fb.open(several, cache_dir=tmp_path / "cache") as ds:
        assert {"gone", "nowhere"} & set(ds.columns)


def test_what_is_left_out_cannot_be_read_or_be_a_table_for_the_same_reason(several):
    with h5py.File(several, "a") as file:
        h5py.h5d.create(file.id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((500,)))
    with fb.open(several, cache_dir="") as ds, pytest.raises(fb.UnsupportedError, match="several.h5.*when.*time"):
        ds.read("/when")


# ---- axes ----


@pytest.mark.parametrize("chunk", [None, (4, 16, 2), (13, 100, 3), (1, 1, 3), (5, 9, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_along_any_axis(tmp_path, axis, chunk):
    path = tmp_path / "f.h5"
    x = files.numbers("<f4", (13, 100, 3), 1)
    with files.new_file(path) as file:
        filters = files.FILTERS["shuffle_gzip"] if chunk else ()
        files.create(file, "/x", np.dtype("<f4"), x.shape, None, files.properties(chunk=chunk, filters=filters))[...] = x
        files.create(file, "/y", np.dtype(">i2"), x.shape, None, files.properties())[...] = np.arange(3900).reshape(x.shape)
    want = np.moveaxis(x, axis, 0)
    with fb.open(path, axis=axis, cache_dir="") as ds:
        assert len(ds) == x.shape[axis]
        files.assert_same(ds.read()["x"], want, "x")
        files.assert_same(leaves(pa.table(ds))["x"], want, "x as Arrow")
        with ds.loader({"i": fb.sample_index(), "x": fb.col("x"), "y": fb.col("y")}, batch_size=4, shuffle=True, framework="numpy") as loader:
            got = epoch(loader)
        files.assert_same(got["x"], want[got["i"]], "x through a loader")
        files.assert_same(got["y"], np.moveaxis(np.arange(3900, dtype="i2").reshape(x.shape), axis, 0)[got["i"]], "y through a loader")


def test_an_axis_by_the_name_of_a_dimension(tmp_path):
    path = tmp_path / "f.h5"
    with files.new_file(path) as file:
        file["flow"] = np.arange(200.0).reshape(4, 50)
        file["rain"] = np.arange(200.0).reshape(4, 50) / 2
        file["time"] = np.arange(50)
        file["time"].make_scale("time")
        for name in ("flow", "rain"):
            file[name].dims[0].label = "station"
            file[name].dims[1].attach_scale(file["time"])
    with h5py.File(path) as file, fb.open(path, axis="time", cache_dir="") as ds:
        assert len(ds) == 50
        got = ds.read()
        for name in ("flow", "rain"):
            files.assert_same(got[name], file[name][()].T, name)
    with fb.open(path, axis="station", cache_dir="") as ds:
        assert len(ds) == 4


@pytest.mark.parametrize("chunk", [None, (2, 16, 8, 32), (6, 40, 3, 32), (1, 40, 24, 20), (6, 40, 24, 32)])
def test_cells_with_labels_repeated(tmp_path, chunk):
    """One tensor and labels at each of its levels: files × long × short; each cell of 64 bytes."""
    shape = (6, 40, 24)
    values = files.numbers("<f2", (*shape, 32), 1)
    paths = []
    for i in range(3):
        path = tmp_path / f"{i}.h5"
        paths.append(path)
        with files.new_file(path) as file:
            filters = files.FILTERS["zstd"] if chunk else ()
            plist = files.properties(chunk=chunk, filters=filters)
            files.create(file, "/x", np.dtype("<f2"), values.shape, None, plist)[...] = values + np.float16(i)
            file["leak"] = np.arange(6, dtype="i8") + 10 * i
            file["distance"] = (np.arange(240, dtype="f4") + i).reshape(6, 40)
            file["each"] = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    with fb.open(paths, cache_dir="") as ds:
        samples = ds.cells(axes=3)
        n = 6 * 40 * 24
        assert len(samples) == 3 * n
        outputs = {"i": fb.sample_index(), "x": fb.col("x").cast("float32"), "leak": fb.col("leak"), "distance": fb.col("distance"), "each": fb.col("each")}
        for size, shuffle in ((1111, True), (64, "block"), (5632, False)):
            with samples.loader(outputs, batch_size=size, shuffle=shuffle, framework="numpy") as loader:
                got = epoch(loader)
            file, cell = np.divmod(got["i"], n)
            assert np.array_equal(np.sort(got["i"]), np.arange(3 * n))
            a, b, c = np.unravel_index(cell, shape)
            files.assert_same(got["x"], (values[a, b, c] + file[:, None].astype("f2")).astype("f4"), "x")
            files.assert_same(got["leak"], a + 10 * file, "leak")
            files.assert_same(got["distance"], (a * 40 + b + file).astype("f4"), "distance")
            files.assert_same(got["each"], cell.astype("i4"), "each")
        got = samples.dataset.read(["x", "leak"])
        files.assert_same(got["x"][:n], values.reshape(n, 32), "x in read()")
        files.assert_same(got["leak"][:n], np.repeat(np.arange(6), 40 * 24), "leak in read()")
        with pytest.raises(fb.Error):
            ds.cells(axes=9)


# ---- chunks across each other ----


def mixed(path, rows=20_000):
    """Features in chunks of 196 rows, labels of 3,125, weights contiguous, a flag in one chunk, particles in two levels of chunks."""
    want = {
        "features": files.numbers("<f4", (rows, 16), 1), "labels": files.numbers("<i8", (rows,), 2), "weights": files.numbers("<f8", (rows,), 3),
        "flags": files.numbers("?", (rows,), 4), "particles": files.numbers("<f4", (rows, 6, 4), 5), "big": files.numbers(">i2", (rows, 3), 6),
    }  # fmt: skip
    with files.new_file(path) as file:
        for name, chunk, filters in (
            ("features", (196, 16), "shuffle_gzip"), ("labels", (3125,), "gzip"), ("weights", None, "none"), ("flags", (rows,), "lz4"),
            ("particles", (1000, 3, 4), "zstd"), ("big", (777, 2), "blosc_lz4"),
        ):  # fmt: skip
            values = want[name]
            made = files.create(file, "/" + name, values.dtype, values.shape, None, files.properties(chunk=chunk, filters=files.FILTERS[filters]))
            made[...] = values
    return want


@pytest.mark.parametrize("options", [{"shuffle": True}, {"shuffle": "block"}, {"shuffle": False}, {"shuffle": True, "superbatch": 3000}, {"shuffle": "full"}])
def test_chunks_that_lie_across_each_other(tmp_path, options):
    path = tmp_path / "f.h5"
    want = mixed(path)
    with fb.open(path, cache_dir="") as ds:
        outputs = {"i": fb.sample_index(), **{name: fb.col(name) for name in want}}
        for batch_size, more in ((257, {}), (1999, {"threads": 1}), (64, {"streams": 3, "threads": 3})):
            if "streams" in more and options["shuffle"] != "superbatch" and options["shuffle"] is not True:
                continue
            if more.get("streams"):
                batch_size = 63
            with ds.loader(outputs, batch_size=batch_size, seed=7, framework="numpy", **options, **more) as loader:
                got = epoch(loader)
            assert np.array_equal(np.sort(got["i"]), np.arange(20_000))
            for name, values in want.items():
                files.assert_same(got[name], values[got["i"]], name)


def test_every_chunk_is_read_and_decoded_once_an_epoch(tmp_path):
    path = tmp_path / "f.h5"
    want = mixed(path)
    with fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        stored = sum(contents["/" + name].stored_bytes for name in want)
        packed = [contents["/" + name] for name in want if name != "weights"]
        decoded = sum(item.n_chunks * int(np.prod(item.chunks)) * np.dtype(item.dtype).itemsize for item in packed)
        outputs = {name: fb.col(name) for name in want}
        for more in ({"superbatch": 2000}, {"superbatch": 500, "threads": 1}, {"shuffle": "block"}, {"shuffle": False}):
            with ds.loader(outputs, batch_size=100, framework="numpy", memory="64MiB", **more) as loader:
                for _ in loader:
                    pass
                report = loader.report()
            assert stored <= report.bytes_read <= 1.1 * stored, (more, report.bytes_read, stored)
            assert report.bytes_decompressed <= 1.02 * decoded, (more, report.bytes_decompressed, decoded)


def test_a_small_budget_gives_the_same_batches(tmp_path):
    path = tmp_path / "f.h5"
    want = mixed(path)
    with fb.open(path, cache_dir="") as ds:
        outputs = {"i": fb.sample_index(), **{name: fb.col(name) for name in want}}
        options = {"batch_size": 100, "superbatch": 1000, "seed": 5, "framework": "numpy"}
        with pytest.raises(fb.BudgetError, match="needs at least"):
            ds.loader(outputs, memory="64KiB", **options)
        with ds.loader(outputs, memory="1GiB", **options) as loader:
            minimum = loader.report().budget_minimum_bytes
            first = epoch(loader)
        with ds.loader(outputs, memory=minimum, **options) as loader:
            second = epoch(loader)
            report = loader.report()
        assert report.budget_peak_bytes <= minimum
        for name in first:
            assert np.array_equal(first[name], second[name]), name


# ---- many files ----


def test_a_thousand_files_and_the_index_cache(tmp_path):
    base, cache = tmp_path / "data", tmp_path / "cache"
    base.mkdir()
    with files.new_file(base / "0000.h5") as file:
        plist = files.properties(chunk=(4, 3), filters=files.FILTERS["gzip"])
        files.create(file, "/x", np.dtype("<f4"), (10, 3), None, plist)[...] = np.arange(30).reshape(10, 3)
        file["y"] = np.arange(10)
        file["y"].attrs["units"] = "m"
    raw = (base / "0000.h5").read_bytes()
    for i in range(1, 1000):
        (base / f"{i:04}.h5").write_bytes(raw)
    old = time.time() - 100
    for name in os.listdir(base):
        os.utime(base / name, (old, old))
    with fb.open(base, cache_dir=cache) as ds:
        first = ds.open_stats
        assert len(ds) == 10_000 and first["files_from_cache"] == 0 and first["cache_written"]
        want = ds.read("y")["y"]
        identity, fingerprint = ds.identity, ds.fingerprint
    with fb.open(base, cache_dir=cache) as ds:
        assert ds.open_stats["files_from_cache"] == 1000 and ds.open_stats["metadata_bytes_read"] == 0
        assert (ds.identity, ds.fingerprint) == (identity, fingerprint)
        assert np.array_equal(ds.read("y")["y"], want) and np.array_equal(want, np.tile(np.arange(10), 1000))
        with ds.loader({"i": fb.sample_index(), "x": fb.col("x")}, batch_size=999, shuffle=True, framework="numpy") as loader:
            got = epoch(loader)
        files.assert_same(got["x"], np.arange(30, dtype="f4").reshape(10, 3)[got["i"] % 10], "x")
    # Another table of the same files is another index.
    with fb.open(base, cache_dir=cache, axis=0, table="/y", single=True) as ds:
        assert ds.columns == ("y",) and len(ds) == 10_000


def test_the_cache_holds_every_kind_of_column(tmp_path):
    path, cache = tmp_path / "f.h5", tmp_path / "cache"
    record = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", [("d", "<i2", (2,))])])
    with files.new_file(path, userblock=512) as file:
        rows = np.zeros(50, record)
        rows["a"], rows["b"], rows["c"]["d"] = np.arange(50), np.arange(50) / 2, np.arange(100).reshape(50, 2)
        file["rows"] = rows
        for i, (name, filters) in enumerate(files.FILTERS.items()):
            if not (name.startswith("szip") and files.NO_SZIP):
                plist = files.properties(chunk=(8, 2), filters=filters, fill=np.array(7, "<i4"))
                files.create(file, "/" + name, np.dtype("<i4"), (50, 3), None, plist)[:30] = i
        file["text"] = np.array([f"t{i}" for i in range(50)], object)
        files.create(file, "/compact", np.dtype("<f4"), (50,), None, files.properties(compact=True))[...] = np.arange(50)
        file["colour"] = np.arange(50, dtype="i1") % 3
        file["x"] = np.arange(100.0).reshape(50, 2)
        file["x"].dims[1].label = "component"
    os.utime(path, (time.time() - 100,) * 2)
    with fb.open(path, cache_dir=cache) as ds:
        first, schema, notes = ds.read(), str(ds.schema), ds.notes
        assert ds.open_stats["cache_written"]
    with fb.open(path, cache_dir=cache) as ds:
        assert ds.open_stats["files_from_cache"] == 1 and ds.open_stats["metadata_bytes_read"] == 0
        assert str(ds.schema) == schema and ds.notes == notes
        second = ds.read()
        assert set(first) == set(second)
        for name in first:
            assert np.array_equal(first[name], second[name]), name


def test_files_that_differ_in_their_columns(tmp_path):
    for i in range(6):
        with files.new_file(tmp_path / f"{i}.h5") as file:
            file["x"] = np.arange(20, dtype="f4") + 100 * i
            if i % 2:
                file["extra"] = np.arange(20, dtype="f8")
    with fb.open(tmp_path, cache_dir="") as ds:
        assert len(ds) == 120 and any("extra" in note for note in ds.notes)
        assert np.array_equal(ds.read("x")["x"], np.concatenate([np.arange(20) + 100 * i for i in range(6)]))
        with pytest.raises(fb.Error, match="extra"):
            ds.read("extra")
    with fb.open(tmp_path, cache_dir="", missing_columns="fill") as ds:
        got = ds.read("extra")["extra"].reshape(6, 20)
        assert np.isnan(got[::2]).all() and (got[1::2] == np.arange(20)).all()


def test_files_whose_types_do_not_join_are_refused_by_name(tmp_path):
    for i, dtype in enumerate(("f4", "S5")):
        with files.new_file(tmp_path / f"{i}.h5") as file:
            file["x"] = np.zeros(20, dtype)
    with fb.open(tmp_path, cache_dir="") as ds:
        with pytest.raises(fb.SchemaError, match="x"):
            ds.read("x")


def test_hdf5_and_other_files_side_by_side(tmp_path, parquet):
    with files.new_file(tmp_path / "a.h5") as file:
        file["x"] = np.arange(10, dtype="f8")
    parquet({"x": np.arange(10.0, 20.0)}, "b.parquet")
    (tmp_path / "README.txt").write_text("no data")
    with fb.open(tmp_path, cache_dir="") as ds:
        assert len(ds) == 20 and {f.format for f in ds.files} == {"hdf5", "parquet"}
        assert np.array_equal(ds.read("x")["x"], np.arange(20.0))


def test_what_pickles_opens_the_same_table(several):
    import pickle

    with fb.open(several, table="/runs/number", cache_dir="") as ds, pickle.loads(pickle.dumps(ds)) as again:
        assert len(again) == 80 and again.columns == ds.columns
