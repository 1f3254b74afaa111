"""What is made of a sample as a whole, through loaders, against plain NumPy: matrices, channels of subgroups, crops, masks, axes."""

import pickle

import numpy as np
import pytest

import forebay as fb

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def all_of(loader, *names):
    """Every batch of an epoch, joined, by the index of samples."""
    parts = [{name: np.asarray(batch[name]) for name in (*names, "i")} for batch in loader]
    order = np.argsort(np.concatenate([p["i"] for p in parts]), kind="stable")
    return [np.concatenate([p[name] for p in parts])[order] for name in names]


# ---- symmetric matrices ----


def matrix(pairs, p, size):
    out = np.zeros((size, size, *pairs.shape[1:]), pairs.dtype)
    upper = np.triu_indices(p, 1)
    out[upper] = pairs[: len(upper[0])]
    out[upper[1], upper[0]] = pairs[: len(upper[0])]
    return out


@pytest.fixture(scope="module")
def jets(tmp_path_factory):
    """Particles and pairs as a writer of jets leaves them: padded with -999, one copy flat, one as float16."""
    rng = np.random.default_rng(5)
    size, features, n = 14, 3, 700
    counts = rng.integers(0, size + 1, n).astype(np.int32)
    pairs = np.full((n, size * (size - 1) // 2, features), -999, np.float32)
    for i, p in enumerate(counts):
        pairs[i, : p * (p - 1) // 2] = rng.normal(size=(p * (p - 1) // 2, features)) * 3
    path = tmp_path_factory.mktemp("jets") / "jets.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("pairs", data=pairs, chunks=(100, pairs.shape[1], features), compression="gzip")
        file["flat"] = pairs.reshape(n, -1)
        file["half"] = pairs.astype(np.float16)
        file["n"] = counts
        file["n_pairs"] = (counts * (counts - 1) // 2).astype(np.int16)
    return path, pairs, counts, size


def test_symmetric_matrices_by_every_way_to_say_how_many_points(jets):
    path, pairs, counts, size = jets
    expect = np.stack([matrix(x, p, size) for x, p in zip(pairs, counts)])
    col = fb.col
    loader = fb.open(path).loader(
        {
            "points": col("pairs").symmetric(count="n"),
            "pairs": col("pairs").symmetric(count="n_pairs", count_of="pairs"),
            "pad": col("pairs").symmetric(pad=-999),
            "flat": col("flat").symmetric(count="n", n_features=3),
            "large": col("pairs").symmetric(20, count="n"),
            "half": col("half").symmetric(pad=-999),
            "widened": col("half").symmetric(pad=-999).cast("float32"),
            "double": col("pairs").symmetric(count="n").cast("float64"),
            "scaled": col("pairs").scale(0.5).symmetric(count="n"),
            "i": fb.sample_index(),
        },
        batch_size=64,
        shuffle=True,
    )
    names = ["points", "pairs", "pad", "flat", "large", "half", "widened", "double", "scaled"]
    points, by_pairs, pad, flat, large, half, widened, double, scaled = all_of(loader, *names)
    assert points.dtype == np.float32 and points.shape == (700, size, size, 3)
    np.testing.assert_array_equal(points, expect)
    np.testing.assert_array_equal(by_pairs, expect)
    np.testing.assert_array_equal(pad, expect)
    np.testing.assert_array_equal(flat, expect)
    np.testing.assert_array_equal(large[:, :size, :size], expect)
    assert not large[:, size:].any() and not large[:, :, size:].any()
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, expect.astype(np.float16))
    np.testing.assert_array_equal(widened, expect.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(double, expect.astype(np.float64))
    np.testing.assert_allclose(scaled, expect / 2, rtol=1e-6)


def test_a_pad_is_found_in_what_is_stored_whatever_operations_make_of_it(jets, tmp_path):
    path, pairs, counts, size = jets
    columns = {
        "log": (fb.col("pairs").log10(1e-6).symmetric(pad=-999), lambda x: np.log10(np.maximum(x.astype("f8"), 1e-6))),
        "clip": (fb.col("pairs").clip(-1, 1).symmetric(pad=-999), lambda x: np.clip(x, -1, 1)),
        "same": (fb.col("pairs").scale(0).offset(-999).symmetric(pad=-999), lambda x: np.full_like(x, -999)),  # all become what pads
        "half": (fb.col("half").scale(2).symmetric(pad=-999).cast("float32"), lambda x: 2 * x.astype("f2").astype("f4")),
        "flat": (fb.col("flat").fill_missing(0).log10(1e-6).symmetric(pad=-999, n_features=3), lambda x: np.log10(np.maximum(x.astype("f8"), 1e-6))),
    }
    got = all_of(fb.open(path).loader({n: c for n, (c, _) in columns.items()} | {"i": fb.sample_index()}, batch_size=64), *columns)
    for values, (_, compute) in zip(got, columns.values()):
        np.testing.assert_allclose(values, np.stack([matrix(compute(x), p, size) for x, p in zip(pairs, counts)]), rtol=1e-5, atol=1e-6)
    lists = [list(rows[: p * (p - 1) // 2, 0]) + [-999.0] * 3 for rows, p in zip(pairs.astype("f8"), counts)]
    pq.write_table(pa.table({"pairs": lists, "whole": [[0 if v == -999 else 1 for v in row] + [0] for row in lists]}), tmp_path / "a.parquet",
                   row_group_size=90)
    outputs = {"m": fb.col("pairs").clip(0, 1).symmetric(size, pad=-999), "w": fb.col("whole", dtype="float32").symmetric(size, pad=0), "i": fb.sample_index()}
    m, w = all_of(fb.open(tmp_path / "a.parquet").loader(outputs, batch_size=64), "m", "w")
    np.testing.assert_allclose(m, np.stack([matrix(np.clip(x[:, 0], 0, 1), p, size) for x, p in zip(pairs, counts)]), rtol=1e-6)
    np.testing.assert_array_equal(w, np.stack([matrix(np.ones(len(x)), p, size) for x, p in zip(pairs, counts)]))


def test_pads_stay_out_of_moments(jets):
    path, pairs, counts, size = jets
    ds = fb.open(path)
    real = pairs[pairs != -999].astype("f8")
    for column, compute in ((fb.col("pairs"), lambda x: x), (fb.col("pairs").log10(1e-6), lambda x: np.log10(np.maximum(x, 1e-6)))):
        found = fb.fit(ds, column, pad=-999)["pairs"]
        assert (found.n, found.missing) == (real.size, pairs.size - real.size)
        np.testing.assert_allclose((found.mean, found.std, found.min), (compute(real).mean(), compute(real).std(), compute(real).min()), rtol=1e-9)
    assert fb.fit(ds, "half", pad=-999)["half"].n == real.size
    by = fb.fit(ds, fb.col("pairs").scale(2), pad=-999, by="n")
    for key in (2, 9):
        mine = pairs[counts == key]
        mine = 2.0 * mine[mine != -999]
        assert by[key]["pairs"].n == mine.size
        np.testing.assert_allclose(by[key]["pairs"].mean, mine.mean(), rtol=1e-6)
    assert fb.fit(ds, "pairs", pad=0.1)["pairs"].n == pairs.size
    with pytest.raises(fb.SchemaError, match="nowhere"):
        fb.fit(ds, "pairs", count="nowhere")


def test_moments_of_as_many_places_as_a_count_says(tmp_path):
    rng = np.random.default_rng(3)
    values, counts = rng.normal(size=(300, 6, 2)).astype("f4"), rng.integers(0, 7, 300)
    inside = np.arange(6) < counts[:, None]
    data = {"x": values, "n": counts, "key": np.arange(300) % 3, "flat": values[:, 0, 0].copy(), "r": counts / 2}
    ds = fb.open(data)
    found = fb.fit(ds, fb.col("x").scale(3), count="n", threads=2)["x"]
    want = 3.0 * values[inside].astype("f8")
    assert (found.n, found.missing) == (want.size, values.size - want.size)
    np.testing.assert_allclose((found.mean, found.std), (want.mean(), want.std()), rtol=1e-6)
    by = fb.fit(ds, "x", count="n", by="key")
    for key in range(3):
        assert by[key]["x"].n == 2 * counts[np.arange(300) % 3 == key].sum()
    some = fb.fit(ds, "x", count="n", pad=float(values[0, 0, 0]))
    assert some["x"].n == want.size - (values[inside] == values[0, 0, 0]).sum()
    with pytest.raises(fb.ArgumentError, match="'flat' is float32: fit it by itself"):
        fb.fit(ds, ["x", "flat"], count="n")
    with pytest.raises(fb.ArgumentError, match="count 'r' is float64: a whole number a row is expected"):
        fb.fit(ds, "x", count="r")
    with pytest.raises(fb.DataError, match=r"row 7 of the data set: a count of 9 \('n'\), and column 'x' has 6 places"):
        fb.fit(fb.open(data | {"n": np.where(np.arange(300) == 7, 9, counts)}), "x", count="n")
    for name, of in (("a", counts), ("b", np.where(np.arange(300) == 11, 9, counts))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["x"], file["n"] = values, of
    with pytest.raises(fb.DataError, match=r"b\.h5: row 11 of the file: a count of 9 \('n'\), and column 'x' has 6 places"):
        fb.fit(fb.open([tmp_path / "a.h5", tmp_path / "b.h5"]), "x", count="n")
    (tmp_path / "p.yaml").write_text("data: d.h5\nmoments: {m: {columns: x, count: n, pad: -1}}\noutputs: {x: {columns: x, ops: [standardize: m]}}\n")
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"], file["n"] = np.where(inside[..., None], values, 1e6), counts
    assert np.isfinite(want).all()
    batch = next(iter(fb.pipeline(tmp_path / "p.yaml", cache_dir="").loader(batch_size=300, shuffle=False, framework="numpy")))
    np.testing.assert_allclose(batch["x"][inside].std(0), [1, 1], atol=0.05)


def test_a_matrix_without_features_from_a_list_column(tmp_path):
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, 100)
    lists = [rng.normal(size=p * (p - 1) // 2) for p in counts]
    pq.write_table(pa.table({"pairs": lists}), tmp_path / "a.parquet", row_group_size=30)
    (got,) = all_of(fb.open(tmp_path / "a.parquet").loader({"m": fb.col("pairs").symmetric(8), "i": fb.sample_index()}, batch_size=9), "m")
    np.testing.assert_array_equal(got, np.stack([matrix(x, p, 8) for x, p in zip(lists, counts)]))


def test_a_count_that_no_triangle_has_is_an_error_that_says_so(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["pairs"] = np.ones((8, 6), np.float32)
        file["n"] = np.array([1, 2, 3, 4, 0, 5, 1, 1])
        file["n_pairs"] = np.array([1, 3, 6, 0, 5, 1, 1, 1])
    ds = fb.open(tmp_path / "a.h5")
    with pytest.raises(fb.DataError, match="output 'm'.*5 points: the matrix has room for 4, and the 6 pairs there are do for no more than 4: clip_count"):
        list(ds.loader({"m": fb.col("pairs").symmetric(count="n")}, batch_size=8))
    list(ds.loader({"m": fb.col("pairs").symmetric(count="n", clip_count=True)}, batch_size=8))
    with pytest.raises(fb.DataError, match="4 points: the matrix has room for 3: give size=4 or more"):
        list(ds.loader({"m": fb.col("pairs").symmetric(3, count="n")}, batch_size=4, shuffle=False))
    with pytest.raises(fb.DataError, match=r"5 pairs are no triangle: p\(p-1\)/2 would be 3 or 6"):
        list(ds.loader({"m": fb.col("pairs").symmetric(count="n_pairs", count_of="pairs")}, batch_size=8))
    with pytest.raises(fb.Error, match="output 'm'.*column 'n'.*is no triangle of pairs"):
        ds.loader({"m": fb.col("n").symmetric()}, batch_size=8)
    with pytest.raises(fb.Error, match="output 'm'.*'nope'"):
        ds.loader({"m": fb.col("pairs").symmetric(count="nope")}, batch_size=8)
    with pytest.raises(ValueError, match="not both"):
        fb.col("pairs").symmetric(count="n", pad=0)
    with pytest.raises(ValueError, match="write them first"):
        fb.col("pairs").symmetric(count="n").log()


# ---- channels of subgroups ----


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Pulses of events over two files, as WORKLOADS describe them, with ties in time and events that are not sorted."""
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("events")
    frames, event = [], 0
    for k in range(2):
        lengths = np.clip(np.exp(rng.normal(np.log(40), 1.2, 150)).astype(int), 3, 4000)
        n = lengths.sum()
        ids = np.repeat(np.arange(event, event + len(lengths)), lengths)
        event += len(lengths)
        times = rng.integers(9000, 9000 + 6 * np.repeat(lengths, lengths) + 1)
        in_order = np.lexsort((times, ids))
        times = np.where(np.repeat(rng.random(len(lengths)) < 0.8, lengths), times[in_order], times)
        sensors = (rng.integers(0, 1 + np.repeat(lengths, lengths) // 2) * 7) % 5160
        frame = {
            "event_id": ids, "sensor_id": sensors.astype(np.int16), "time": times.astype(np.int64),
            "charge": rng.exponential(1, n).round(3), "auxiliary": rng.random(n) < 0.3,
        }  # fmt: skip
        pq.write_table(pa.table(frame), folder / f"batch_{k}.parquet", row_group_size=2000)
        frames.append(frame)
    data = {name: np.concatenate([f[name] for f in frames]) for name in frames[0]}
    geometry = np.stack([np.arange(5160.0) * 0.5, -np.arange(5160.0), np.arange(5160.0) % 60], 1)
    table = fb.Lookup({"sensor_id": np.arange(5160), "x": geometry[:, 0], "y": geometry[:, 1], "z": geometry[:, 2]}, "sensor_id")
    return folder, data, geometry, table


def pack_numpy(data, rows, geometry, groups, first):
    """One event, row by row: what the section on them says."""
    t = (data["time"][rows] - 1e4) / 3e4
    q = np.log10(np.maximum(data["charge"][rows], 1e-6)) / 3
    a = data["auxiliary"][rows] - 0.5
    sensor, time, charge = data["sensor_id"][rows], data["time"][rows], data["charge"][rows]
    seen = {}
    for i, s in enumerate(sensor):
        seen.setdefault(s, []).append(i)
    order = sorted(seen, key=lambda s: time[seen[s]].min())  # stable: ties by first appearance
    out = np.full((groups, 4 + 3 * first + 3), -1.5)
    for k, s in enumerate(order[:groups]):
        members = sorted(seen[s], key=lambda i: time[i])
        flat = [v for i in members[:first] for v in (t[i], q[i], a[i])]
        out[k, :4] = (*geometry[s], len(members))
        out[k, 4 : 4 + len(flat)] = flat
        out[k, -3:] = (t[members].min(), charge[members].sum(), time[members].std())
    return out, np.arange(groups) < len(order)


def dom(table, groups=24, first=4):
    return fb.group_channels(
        key="sensor_id", order="time", first_rows=first, max_groups=groups, positions=table, pad=-1.5,
        features=[fb.col("time").standardize(1e4, 3e4), fb.col("charge").log10(1e-6).scale(1 / 3), fb.col("auxiliary").offset(-0.5)],
        aggregates={"time": "min", fb.col("charge"): "sum", fb.col("time"): ["std"]},
    )  # fmt: skip


def test_packed_groups_are_what_numpy_makes_of_every_event(events):
    folder, data, geometry, table = events
    out = dom(table)
    loader = fb.open(str(folder / "*.parquet")).groups("event_id").loader(
        {"dom": out, "mask": out.mask(), "half": out.cast("float16"), "i": fb.sample_index(), "id": fb.col("event_id").first()},
        batch_size=32, shuffle=True, seed=3,
    )  # fmt: skip
    got, mask, half, ids = all_of(loader, "dom", "mask", "half", "id")
    assert got.dtype == np.float32 and mask.dtype == bool and half.dtype == np.float16
    assert out.channels[:4] == ("x", "y", "z", "count") and out.channels[-3:] == ("min(time)", "sum(charge)", "std(time)")
    assert len(out.channels) == got.shape[2] == 4 + 3 * 4 + 3
    starts = np.flatnonzero(np.diff(data["event_id"], prepend=-1))
    for k, rows in enumerate(np.split(np.arange(len(data["event_id"])), starts[1:])):
        expect, expect_mask = pack_numpy(data, rows, geometry, 24, 4)
        assert ids[k] == data["event_id"][rows[0]]
        np.testing.assert_array_equal(mask[k], expect_mask)
        np.testing.assert_allclose(got[k], expect, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(half[k].astype(np.float64), expect, rtol=2e-3, atol=2e-3)


def test_the_same_packed_groups_with_any_number_of_threads_and_again_next_time(events):
    folder, _, _, table = events
    groups = fb.open(str(folder / "*.parquet")).groups("event_id")
    runs = []
    for threads in (1, 2, 2):
        loader = groups.loader({"dom": dom(table)}, batch_size=50, shuffle=True, seed=1, threads=threads)
        runs.append([np.asarray(batch["dom"]) for batch in loader])
    for run in runs[1:]:
        for a, b in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_pack_pickles_and_says_what_it_is(events):
    table = events[3]
    out = pickle.loads(pickle.dumps(dom(table)))
    assert out.channels == dom(table).channels
    assert repr(out) == "group_channels(key='sensor_id', order='time', max_groups=24, …)" and repr(out.mask()).endswith(".mask()")


def test_what_cannot_be_packed_is_refused(events):
    folder, _, _, table = events
    groups = fb.open(str(folder / "*.parquet")).groups("event_id")
    few = fb.Lookup({"sensor_id": [1, 2], "x": [0.0, 1.0]}, "sensor_id")
    with pytest.raises(fb.DataError, match="output 'd'.*is not in the table of positions"):
        list(groups.loader({"d": fb.group_channels(key="sensor_id", order="time", max_groups=8, positions=few)}, batch_size=8))
    with pytest.raises(fb.UnsupportedError, match="column 'charge' of type float64 is no key"):
        groups.loader({"d": fb.group_channels(key="charge", order="time", max_groups=8)}, batch_size=8)
    with pytest.raises(ValueError, match="'median' is not known: use min"):
        fb.group_channels(key="a", order="b", max_groups=8, aggregates={"c": "median"})
    with pytest.raises(ValueError, match="only operations on values"):
        fb.group_channels(key="a", order="b", max_groups=8, features=[fb.col("c").cast("float32")], first_rows=1)
    with pytest.raises(ValueError, match="belong together"):
        fb.group_channels(key="a", order="b", max_groups=8, features=["c"])
    with pytest.raises(ValueError, match="mask"):
        fb.col("a").mask()


def test_numbers_that_the_dtype_of_packed_groups_cannot_hold_are_named(tmp_path):
    """A finite number never becomes infinity, whether stored or summed; infinity stays."""
    table = {"id": [0, 0, 1, 1], "sensor": [7, 8, 8, 9], "t": [0.0, 1.0, 2.0, 3.0], "q": [1.0, np.inf, 1e30, 2e30]}

    def first(dtype="float32", **given):
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
        column = fb.group_channels(key="sensor", order="t", max_groups=2, features=["q"], first_rows=1, **given).cast(dtype)
        loader = fb.open(tmp_path / "a.parquet", cache_dir="").groups("id").loader({"d": column}, batch_size=2, shuffle=False, framework="numpy")
        return next(iter(loader))["d"]

    np.testing.assert_array_equal(first(), np.array([[[1, 1], [1, np.inf]], [[1, 1e30], [1, 2e30]]], np.float32))
    said = r"a.parquet: column 'sensor', output 'd': row 2 of the file: channel 1 of the subgroup with key 9: the value .* does not fit "
    with pytest.raises(fb.DataError, match=said.replace("key 9", "key 8") + "float16"):
        first("float16")
    table["q"][3] = 1e39
    with pytest.raises(fb.DataError, match=said + "float32"):
        first()
    assert first("float64")[1, 1, 1] == 1e39
    table.update(sensor=[7, 8, 8, 8], q=[1.0, 2.0, 3e38, 3e38])
    with pytest.raises(fb.DataError, match="row 2 of the file: the value -9.99.*e[+]38 does not fit float32"):
        first(pad=-1e39)
    with pytest.raises(fb.DataError, match="channel 2 of the subgroup with key 8: the value [65].*e[+]38 does not fit float32"):
        first(aggregates={"q": "sum"})


# ---- crops ----


def test_crops_of_windows_keep_input_and_target_side_by_side(tmp_path):
    steps = np.arange(5000)
    pq.write_table(pa.table({"a": steps.astype(np.float32), "b": steps * 10, "c": -steps}), tmp_path / "a.parquet", row_group_size=700)
    samples = fb.open(tmp_path / "a.parquet").windows(100, 0)
    outputs = {
        "x": fb.col("a", "c").cast("float32").crop(30, random=True), "y": fb.col("b").crop(30, random=True),
        "fixed": fb.col("a").crop(30, begin=5), "scaled": fb.col("b").scale(0.5).offset(1).crop(30, random=True), "i": fb.sample_index(),
    }  # fmt: skip
    loader = samples.loader(outputs, batch_size=64, shuffle=True, seed=9)
    x, y, fixed, scaled = all_of(loader, "x", "y", "fixed", "scaled")
    assert x.shape == (4901, 30, 2) and y.dtype == np.int64
    begins = x[:, 0, 0] - np.arange(4901)
    assert begins.min() == 0 and begins.max() == 70
    rows = (np.arange(4901) + begins.astype(int))[:, None] + np.arange(30)
    np.testing.assert_array_equal(x, np.stack([rows, -rows], -1))
    np.testing.assert_array_equal(y, rows * 10)
    np.testing.assert_allclose(scaled, rows * 5 + 1)
    np.testing.assert_array_equal(fixed, (np.arange(4901) + 5)[:, None] + np.arange(30))
    counts = np.bincount(begins.astype(int), minlength=71)
    assert ((counts - 4901 / 71) ** 2 / (4901 / 71)).sum() < 140  # 70 degrees of freedom; the seed is fixed
    loader = samples.loader(outputs, batch_size=500, shuffle=False, seed=9, threads=1)
    np.testing.assert_array_equal(all_of(loader, "x")[0], x)  # whatever the batch
    assert (all_of(loader, "x")[0][:, 0, 0] != x[:, 0, 0]).mean() > 0.9  # the next epoch


def test_crops_of_arrays_and_lists(tmp_path):
    wave = np.arange(50 * 40 * 2, dtype=np.float32).reshape(50, 40, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["wave"] = wave
    loader = fb.open(tmp_path / "a.h5").loader({"w": fb.col("wave").crop(16, random=True), "i": fb.sample_index()}, batch_size=7)
    (got,) = all_of(loader, "w")
    begins = ((got[:, 0, 0] - np.arange(50) * 80) / 2).astype(int)
    assert len(set(begins)) > 10
    np.testing.assert_array_equal(got, np.stack([w[b : b + 16] for w, b in zip(wave, begins)]))
    lists = [np.arange(n, dtype=np.int32) for n in (5, 9, 100, 4)]
    pq.write_table(pa.table({"s": lists}), tmp_path / "a.parquet")
    (got,) = all_of(fb.open(tmp_path / "a.parquet").loader({"s": fb.col("s").crop(4, random=True), "i": fb.sample_index()}, batch_size=4), "s")
    assert got.shape == (4, 4) and (np.diff(got, axis=1) == 1).all()
    with pytest.raises(fb.DataError, match="4 steps: 5 are to be cut out"):
        list(fb.open(tmp_path / "a.parquet").loader({"s": fb.col("s").crop(5)}, batch_size=4))
    with pytest.raises(fb.Error, match="output 'w'.*a crop of 41 steps: the first axis has 40"):
        fb.open(tmp_path / "a.h5").loader({"w": fb.col("wave").crop(41, random=True)}, batch_size=7)


# ---- in the batch ----


@pytest.fixture(scope="module")
def mel(tmp_path_factory):
    path = tmp_path_factory.mktemp("mel") / "mel.h5"
    rng = np.random.default_rng(2)
    with h5py.File(path, "w") as file:
        file["mel"] = (rng.random((4000, 2, 16, 9)) + 1).astype(np.float16)
    return path


def test_spec_augment_masks_whole_rows_and_columns_and_nothing_else(mel):
    plain = fb.col("mel").cast("float32")
    outputs = {"x": plain, "m": plain.spec_augment(time_masks=1, max_time=4, freq_masks=2, max_freq=5, value=-3), "i": fb.sample_index()}
    loader = fb.open(mel).loader(outputs, batch_size=512, shuffle=True, seed=4)
    x, m = all_of(loader, "x", "m")
    masked = m == -3
    np.testing.assert_array_equal(m[~masked], x[~masked])
    time, freq = masked.all((1, 2)), masked.all((1, 3))  # of (N, 2, 16, 9)
    np.testing.assert_array_equal(masked, np.broadcast_to(time[:, None, None, :] | freq[:, None, :, None], masked.shape))
    widths = np.bincount(time.sum(1), minlength=5)
    assert len(widths) == 5 and ((widths - 800) ** 2 / 800).sum() < 25
    assert (np.diff(time.astype(int), axis=1, prepend=0) == 1).sum(1).max() == 1  # one run each
    assert freq.sum(1).max() <= 10
    again = fb.open(mel).loader(outputs, batch_size=37, shuffle=False, seed=4, threads=1)
    np.testing.assert_array_equal(all_of(again, "m")[0], m)
    assert (all_of(again, "m")[0] == m).all((1, 2, 3)).mean() < 0.1  # the next epoch
    again.set_epoch(0)
    np.testing.assert_array_equal(all_of(again, "m")[0], m)


def test_channels_last_and_masks_of_what_comes_of_it(mel):
    column = fb.col("mel")
    outputs = {
        "last": column.channels_last(), "i": fb.sample_index(), "x": column,
        "m": column.channels_last().spec_augment(time_masks=1, max_time=9, time_axis=2),
    }  # fmt: skip
    x, last, m = all_of(fb.open(mel).loader(outputs, batch_size=300), "x", "last", "m")
    assert last.dtype == np.float16
    np.testing.assert_array_equal(last, np.moveaxis(x, 1, -1))
    time = (m == 0).all((1, 3))
    np.testing.assert_array_equal(m, np.where(time[:, None, :, None], np.float16(0), last))
    with pytest.raises(fb.Error, match="output 'm'.*max_time=10, but axis 3 has 9 places"):
        fb.open(mel).loader({"m": column.spec_augment(time_masks=1, max_time=10)}, batch_size=300)
    with pytest.raises(ValueError, match="needs time_masks"):
        column.spec_augment()


def test_forward_fill_of_windows_against_pandas(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3000, 3))
    values[rng.random((3000, 3)) < 0.4] = np.nan
    pq.write_table(pa.table({name: values[:, k] for k, name in enumerate("abc")}), tmp_path / "a.parquet", row_group_size=500)
    outputs = {"f": fb.col("a", "b", "c").forward_fill(), "half": fb.col("b").cast("float16").forward_fill(), "i": fb.sample_index()}
    got, half = all_of(fb.open(tmp_path / "a.parquet").windows(20, 0).loader(outputs, batch_size=100, shuffle=True), "f", "half")
    for k in range(0, len(got), 37):
        expect = pd.DataFrame(values[k : k + 20]).ffill().to_numpy()
        np.testing.assert_array_equal(got[k], expect)
        np.testing.assert_array_equal(half[k], expect[:, 1].astype(np.float16))


def test_reshape_of_flat_columns(tmp_path):
    flat = np.arange(60 * 24, dtype=np.float32).reshape(60, 24)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = flat
    ds = fb.open(tmp_path / "a.h5")
    outputs = {"a": fb.col("x").reshape(6, 4), "b": fb.col("x").reshape(2, -1, 3).channels_last(), "i": fb.sample_index()}
    a, b = all_of(ds.loader(outputs, batch_size=7), "a", "b")
    np.testing.assert_array_equal(a, flat.reshape(60, 6, 4))
    np.testing.assert_array_equal(b, np.moveaxis(flat.reshape(60, 2, 4, 3), 1, -1))
    with pytest.raises(fb.Error, match="output 'a'"):
        ds.loader({"a": fb.col("x").reshape(5, 5)}, batch_size=7)


def test_outputs_say_what_they_are():
    assert repr(fb.col("e").log1p().symmetric(9, count="n", n_features=4)) == "col('e').….symmetric(9, count='n', count_of='points', n_features=4)"
    assert repr(fb.col("x").crop(9, random=True).channels_last()) == "col('x').crop(9, random=True).channels_last()"
    assert ".reshape(3, 4).forward_fill()" in repr(fb.col("x").reshape(3, 4).forward_fill())


def test_a_missing_integer_is_not_cropped():
    arrays = pa.FixedSizeListArray.from_arrays(pa.array([1, None, 3, 4, 5, 6], pa.int32()), 3)
    ds = fb.open(pa.table({"x": arrays, "n": pa.array([7, None], pa.int16())}))
    with pytest.raises(fb.DataError, match="column 'x', output 'x': row 0 of the file: a value is missing; no integer stands for that"):
        list(ds.rows().loader({"x": fb.col("x").crop(2)}, batch_size=2, shuffle=False))
    with pytest.raises(fb.DataError, match="a value is missing"):
        list(ds.windows(2).loader({"n": fb.col("n").crop(2)}, batch_size=1))
    outputs = {"n": fb.col("n").crop(1), "f": fb.col("n").crop(2).cast("float32"), "z": fb.col("n").fill_missing(0).crop(2)}
    (batch,) = ds.windows(2).loader(outputs, batch_size=1, framework="numpy")
    assert batch["n"].tolist() == [[7]] and np.isnan(batch["f"][0, 1]) and batch["z"].tolist() == [[7, 0]]


def test_what_is_filled_is_not_missing_to_a_maker_beside_its_mask():
    """The mask has the panel that the others read keep which values were there."""
    ds = fb.open(pa.table({"n": pa.array([2, None, 1], pa.int16())}))
    n = fb.col("n").fill_missing(0)
    outputs = {"there": fb.col("n").is_missing(), "n": n, "mask": n.sequence_mask(2), "crop": n.crop(3)}
    (batch,) = ds.windows(3).loader(outputs, batch_size=1, framework="numpy")
    assert batch["there"].tolist() == [[False, True, False]]
    assert batch["mask"].tolist() == [[[True, True], [False, False], [True, False]]] and batch["crop"].tolist() == [[2, 0, 1]]


def test_one_axis_of_spec_augment_leaves_the_other_as_it_is(mel, tmp_path):
    """In pipeline files as in Python: each axis has its own default."""
    masks = "{time_masks: 1, max_time: 2, freq_masks: 1, max_freq: 1, time_axis: -3}"
    (tmp_path / "p.yaml").write_text(
        f"data: {mel}\noutputs: {{m: {{columns: mel, dtype: float32, after: {{spec_augment: {masks}}}}}}}\nloader: {{batch_size: 64, seed: 1}}\n"
    )
    options = dict(time_masks=1, max_time=2, freq_masks=1, max_freq=1, time_axis=-3)
    with fb.open(mel).loader({"m": fb.col("mel", dtype="float32").spec_augment(**options)}, batch_size=64, seed=1, framework="numpy") as ours:
        with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as theirs:
            for a, b in zip(ours, theirs, strict=True):
                assert (a["m"] == b["m"]).all()
