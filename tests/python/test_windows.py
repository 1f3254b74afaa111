"""Windows against a NumPy reference, value for value: random series, row groups, strides, keys, dates and gaps; splits; bad options."""

import datetime
import os
import pickle

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def series(rng, rows, first_id):
    """One file's rows: floats with NaN, floats with nulls, ints, dates that sometimes jump, repeat or go back, keys in runs, an id."""
    a = rng.random(rows, dtype=np.float32)
    a[rng.random(rows) < 0.01] = np.nan
    null = rng.random(rows) < 0.02
    day = np.cumsum(rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2, -3], rows)).astype("datetime64[D]")
    key = np.repeat([f"k{i % 3}" for i in range(rows + 1)], rng.integers(1, 40, rows + 1))[:rows]
    return pa.table(
        {
            "a": a, "b": pa.array(rng.random(rows), mask=null), "n": rng.integers(-9, 9, rows).astype(np.int16), "day": day, "key": key,
            "id": np.arange(first_id, first_id + rows), "name": [f"s{first_id + i}" for i in range(rows)],
        }
    )  # fmt: skip


def write(tmp_path, rng, n_files, least=1, most=400):
    tables, row = [], 0
    for i in range(n_files):
        table = series(rng, int(rng.integers(least, most)), row)
        pq.write_table(table, tmp_path / f"f{i:03}.parquet", row_group_size=int(rng.integers(3, most)))
        tables.append(table)
        row += len(table)
    return fb.open(tmp_path / "*.parquet"), tables


def reference(tables, length, stride, by="file", time=None, step=None, drop=()):
    """(first row in the data set) of every window, by definition."""
    starts, base = [], 0
    for t in tables:
        rows = len(t)
        begins = {0}
        if by != "file":
            key = t[by].to_pylist()
            begins |= {i for i in range(1, rows) if key[i] != key[i - 1]}
        if time is not None:
            d = t[time].to_numpy()
            begins |= {i for i in range(1, rows) if not (d[i] - d[i - 1] == step if step is not None else d[i] > d[i - 1])}
        missing = np.zeros(rows, bool)
        for name in drop:
            column = t[name].combine_chunks()
            missing |= np.asarray(column.is_null(nan_is_null=True))
        edges = sorted(begins) + [rows]
        for begin, end in zip(edges, edges[1:]):
            for s in range(begin, end - length + 1, stride):
                if not missing[s : s + length].any():
                    starts.append(base + s)
        base += rows
    return np.array(starts, dtype=np.int64)


def values(tables):
    t = pa.concat_tables(tables)
    b = t["b"].to_numpy(zero_copy_only=False).astype(np.float64)
    return {name: t[name].to_numpy() for name in ("a", "n", "id", "day", "name")} | {"b": b}


def outputs(length):
    cut = length * 2 // 3
    return {
        "x": fb.col("a", "b").steps(0, cut) if cut else fb.col("a", "b"),
        "all": fb.col(["n"]),
        "y": fb.col("b", dtype="float64").steps(length - 1, length),
        "wide": fb.col("n", "a", "id", dtype="float64"),
        "narrow": fb.col("id"),
        "gone": fb.col("b").is_missing(),
        "name": fb.col("name").first(),
        "last": fb.col("day").at(length - 1),
        "index": fb.sample_index(),
        "row": fb.row_index(),
        "length": fb.n_rows(),
    }


def check_epoch(loader, starts, length, v):
    cut = length * 2 // 3 or length
    seen = []
    for batch in loader:
        rows = batch["row"]
        assert np.array_equal(starts[batch["index"]], rows)
        seen.append(batch["index"])
        at = rows[:, None] + np.arange(length)
        assert np.array_equal(batch["narrow"], v["id"][at])
        assert np.array_equal(batch["all"], v["n"][at][:, :, None])
        want = np.stack([v["a"][at], v["b"][at].astype(np.float32)], 2)[:, :cut]
        assert batch["x"].dtype == np.float32 and np.array_equal(batch["x"], want, equal_nan=True)
        assert np.array_equal(batch["y"], v["b"][at[:, -1:]], equal_nan=True)
        wide = np.stack([v["n"][at], v["a"][at], v["id"][at]], 2).astype(np.float64)
        assert np.array_equal(batch["wide"], wide, equal_nan=True)
        assert np.array_equal(batch["gone"], np.isnan(v["b"][at]))
        if "name" in batch:
            assert batch["name"].to_list() == v["name"][rows].tolist()
        assert np.array_equal(batch["last"], v["day"][at[:, -1]].astype("datetime64[D]").astype(np.int32))
        assert (batch["length"] == length).all()
    order = np.concatenate(seen) if seen else np.zeros(0, np.int64)
    assert np.array_equal(np.sort(order), np.arange(len(starts))), "not every window exactly once"
    return order


CASES = [
    {},
    {"stride": 3},
    {"by": "key"},
    {"by": "key", "stride": 2},
    {"time": "day", "step": 1},
    {"time": "day"},
    {"drop_missing": ["a", "b"]},
    {"drop_missing": "b", "stride": 4},
    {"by": "key", "time": "day", "step": np.timedelta64(24, "h"), "drop_missing": ["b"]},
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_are_those_of_the_definition(tmp_path, case, seed):
    rng = np.random.default_rng([seed, len(str(case))])
    ds, tables = write(tmp_path, rng, 6)
    length = int(rng.integers(1, 6 if "time" in case or "by" in case else 60))
    output = int(rng.integers(0, length))
    step = {None: None, 1: np.timedelta64(1, "D")}.get(case.get("step"), case.get("step")) if "step" in case else None
    drop = case.get("drop_missing", ())
    starts = reference(
        tables, length, case.get("stride", 1), case.get("by", "file"), case.get("time"), step, [drop] if isinstance(drop, str) else drop
    )
    if len(starts) == 0:
        with pytest.raises(ValueError, match="no window"):
            ds.windows(length - output, output, **case)
        return
    samples = ds.windows(length - output, output, **case)
    assert len(samples) == len(starts) and samples.max_rows == length
    assert [samples[i].start for i in range(len(samples))] == starts.tolist()
    v = values(tables)
    for shuffle in (False, True, "full", "block"):
        with samples.loader(outputs(length), batch_size=37, shuffle=shuffle, seed=seed, threads=2, superbatch=200, framework="numpy") as loader:
            order = check_epoch(loader, starts, length, v)
            if shuffle is False:
                assert np.array_equal(order, np.arange(len(starts)))
            else:
                assert np.array_equal(np.sort(check_epoch(loader, starts, length, v)), np.arange(len(starts)))


def test_windows_over_a_frame_in_memory_cross_its_record_batches():
    rng = np.random.default_rng(5)
    table = series(rng, 3000, 0)
    ds = fb.open(pa.Table.from_batches(table.to_batches(max_chunksize=70)))
    assert len(ds.blocks) > 10
    starts = reference([table], 150, 1)
    with ds.windows(100, 50).loader(outputs(150), batch_size=64, seed=1, framework="numpy") as loader:
        check_epoch(loader, starts, 150, values([table]))


def test_the_order_does_not_depend_on_threads_memory_or_outputs(tmp_path):
    ds, _ = write(tmp_path, np.random.default_rng(6), 8)
    samples = ds.windows(20, 5)

    def order(**options):
        with samples.loader({"i": fb.sample_index(), **options.pop("more", {})}, batch_size=32, seed=4, superbatch=300, framework="numpy", **options) as loader:
            return [batch["i"].tolist() for batch in loader]

    want = order(threads=1)
    assert order(threads=3) == want
    assert order(threads=2, more={"x": fb.col("a", "b")}) == want
    assert order(threads=2, more={"x": fb.col("a")}, memory="1GiB") == want
    ranks = [order(threads=1, rank=r, world_size=2, tail="drop") for r in range(2)]
    assert all(len(a) == len(b) for a, b in zip(*ranks))


def test_resuming_goes_on_with_the_same_windows_and_refuses_others(tmp_path):
    ds, _ = write(tmp_path, np.random.default_rng(7), 8)
    options = {"outputs": {"i": fb.sample_index(), "x": fb.col("a")}, "batch_size": 16, "seed": 2, "superbatch": 200, "framework": "numpy"}
    with ds.windows(10, 2).loader(**options) as loader:
        batches = []
        for batch in loader:
            batches.append(batch["i"].tolist())
            if batch.index == 5:
                state = loader.state_dict()
        with ds.windows(10, 2).loader(**options, threads=1) as other:
            other.load_state_dict(state)
            assert [batch["i"].tolist() for batch in other] == batches[6:]
    with ds.windows(9, 2).loader(**options) as other, pytest.raises(ValueError, match="samples"):
        other.load_state_dict(state)
    with ds.loader(**options) as other, pytest.raises(ValueError, match="samples"):
        other.load_state_dict(state)


def test_a_small_budget_is_refused_with_figures_and_the_least_one_works(tmp_path):
    table = series(np.random.default_rng(8), 40_000, 0)
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=2000)
    ds = fb.open(tmp_path / "one.parquet")
    samples = ds.windows(365, 7)
    starts = reference([table], 372, 1)
    dense = {name: output for name, output in outputs(372).items() if name != "name"}  # what a batch of strings takes is known late
    options = {"outputs": dense, "batch_size": 16, "superbatch": 6000, "streams": 2, "threads": 2, "framework": "numpy"}
    with pytest.raises(fb.BudgetError) as error:
        samples.loader(**options, memory="1MiB")
    least = int(str(error.value).split("at least ")[1].split(" bytes")[0])
    with samples.loader(**options, memory=least) as loader:
        check_epoch(loader, starts, 372, values([table]))
        assert loader.report().budget_peak_bytes <= least


def test_parts_by_time_and_by_files_share_no_row(tmp_path):
    ds, tables = write(tmp_path, np.random.default_rng(9), 20, least=50)
    samples = ds.windows(8, 2, stride=3)
    parts = samples.split(train=0.7, val=0.15, test=0.15, by="time")
    rows = {name: np.unique(np.concatenate([np.arange(p[i].start, p[i].stop) for i in range(len(p))])) for name, p in parts.items()}
    assert not set(rows["train"]) & set(rows["val"]) and not set(rows["val"]) & set(rows["test"])
    base, want, everywhere = 0, [], {samples[i].start for i in range(len(samples))}
    for t in tables:
        want += [base + s for s in range(0, len(t), 3) if s + 10 <= int(len(t) * 0.7 + 1e-6)]
        base += len(t)
    assert [parts["train"][i].start for i in range(len(parts["train"]))] == want
    assert {parts["test"][i].start for i in range(len(parts["test"]))} <= everywhere

    for ds_samples in (samples, ds.rows()):
        halves = ds_samples.split(a=0.5, b=0.3, c=0.2, seed=3)
        assert sum(map(len, halves.values())) == len(ds_samples)
        again = ds_samples.split(a=0.5, b=0.3, c=0.2, seed=3)
        other = ds_samples.split(a=0.5, b=0.3, c=0.2, seed=4)
        assert [len(p) for p in again.values()] == [len(p) for p in halves.values()] != [len(p) for p in other.values()]
        with halves["b"].loader({"row": fb.row_index()}, batch_size=50, framework="numpy") as loader:
            got = np.sort(np.concatenate([batch["row"] for batch in loader]))
        assert got.tolist() == [halves["b"][i].start for i in range(len(halves["b"]))]

    nested = parts["train"].split(a=0.5, b=0.5, seed=1)
    assert sum(map(len, nested.values())) == len(parts["train"])
    back = pickle.loads(pickle.dumps(nested["b"]))
    assert len(back) == len(nested["b"]) and back[3] == nested["b"][3]
    with back.loader({"i": fb.sample_index()}, batch_size=10) as loader, pickle.loads(pickle.dumps(loader)) as copy:
        assert len(copy) == len(loader)


def test_a_step_is_a_number_of_the_columns_units(tmp_path):
    when = np.datetime64("2020-01-01", "us") + np.arange(50) * np.timedelta64(10, "m")
    when[30:] += np.timedelta64(5, "m")
    ds = fb.open({"t": when, "x": np.arange(50.0), "f": np.where(np.arange(50) < 20, np.arange(50) * 0.5, np.nan)})
    for step in (datetime.timedelta(minutes=10), np.timedelta64(600, "s"), 600_000_000, "10 min", "600 s", "600seconds", "600000 ms"):
        assert len(ds.windows(5, time="t", step=step)) == 26 + 16
    assert len(ds.windows(5, time="t")) == 46
    assert len(ds.windows(5, time="f")) == 16
    with pytest.raises(TypeError, match="plain numbers"):
        ds.windows(5, time="f", step=datetime.timedelta(seconds=1))
    with pytest.raises(ValueError, match="whole number"):
        ds.windows(5, time="t", step=np.timedelta64(1, "ns"))
    with pytest.raises(ValueError, match="time="):
        ds.windows(5, step=1)


def test_a_fixed_shape_column_keeps_its_axes_after_the_steps():
    x = np.arange(40 * 6, dtype=np.float32).reshape(40, 2, 3)
    x[17, 1, 2] = np.nan
    ds = fb.open({"x": x, "y": np.arange(40)})
    samples = ds.windows(4, drop_missing="x")
    assert len(samples) == 37 - 4
    with samples.loader({"x": "x", "last": fb.col("x").at(3), "row": fb.row_index()}, batch_size=7, framework="numpy") as loader:
        for batch in loader:
            assert batch["x"].shape[1:] == (4, 2, 3)
            assert np.array_equal(batch["x"], x[batch["row"][:, None] + np.arange(4)])
            assert np.array_equal(batch["last"], x[batch["row"] + 3])


def test_a_constant_of_the_path_may_be_the_series(tmp_path):
    for i, rows in enumerate((12, 20)):
        (tmp_path / f"r{i}").mkdir()
        pq.write_table(pa.table({"x": np.arange(rows)}), tmp_path / f"r{i}" / "b.parquet", row_group_size=5)
    ds = fb.open(str(tmp_path / "{region}" / "b.parquet"))
    samples = ds.windows(6, by="region")
    assert len(samples) == 7 + 15
    with samples.loader({"x": "x", "r": fb.col("region").first()}, batch_size=50, shuffle=False, framework="numpy") as loader:
        (batch,) = loader
        assert batch["r"].to_list() == ["r0"] * 7 + ["r1"] * 15
        assert batch["x"][:, 0].tolist() == [*range(7), *range(15)]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda ds: ds.windows(500), ValueError, "no window of 500 rows fits: the longest series has 30"),
        (lambda ds: ds.windows(0), ValueError, "at least one row"),
        (lambda ds: ds.windows(2, by="nope"), fb.SchemaError, "nope"),
        (lambda ds: ds.windows(2, by="list"), fb.UnsupportedError, "cannot be a key"),
        (lambda ds: ds.windows(2, time="s"), fb.UnsupportedError, "cannot be a time"),
        (lambda ds: ds.windows(2, drop_missing="list"), fb.UnsupportedError, "missing values"),
        (lambda ds: ds.windows(5).loader({"x": fb.col("x").steps(2, 6)}, batch_size=1), ValueError, "output 'x': there are no steps 2 to 6"),
        (lambda ds: ds.windows(5).loader({"x": fb.col("x").at(5)}, batch_size=1), ValueError, "no steps 5 to 6"),
        (lambda ds: ds.rows().loader({"x": fb.col("x").steps(0, 1)}, batch_size=1), ValueError, "these samples are rows"),
        (lambda ds: ds.windows(5).loader({"x": "s"}, batch_size=1), fb.UnsupportedError, "output 'x': column 's' varies in length"),
        (lambda ds: ds.windows(5).loader({"x": fb.col("list").at(1)}, batch_size=1), fb.UnsupportedError, "first row"),
        (lambda ds: ds.windows(5).split(a=0.6, b=0.5), ValueError, "together at most 1"),
        (lambda ds: ds.windows(28).split(a=0.5, by="time"), ValueError, "holds no sample"),
        (lambda ds: ds.rows().split(a=0.5, by="time"), ValueError, "name the column of the time"),
        (lambda ds: ds.rows().split(a=0.5, by="years"), ValueError, "'files', 'time', 'samples' or 'groups'"),
        (lambda ds: ds.windows(5).split(a=0.5, by="time")["a"].split(a=0.5, by="time"), ValueError, "split by time already"),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_said(make, error, says):
    table = pa.table({"x": np.arange(30.0), "s": ["a"] * 30, "list": [[1, 2]] * 30})
    with pytest.raises(error, match=says):
        make(fb.open(table))


def test_all_columns_are_outputs_by_default():
    ds = fb.open(pa.table({"x": np.arange(30.0), "s": [f"s{i}" for i in range(30)], "list": [[i] for i in range(30)]}))
    with ds.windows(3).loader(batch_size=28, shuffle=False, framework="numpy") as loader:
        (batch,) = loader
    assert batch["x"].shape == (28, 3) and batch["s"].to_list()[5] == "s5" and batch["list"].to_list()[7] == [7]


def test_progress_is_told_and_its_error_ends_the_scan(tmp_path):
    ds, _ = write(tmp_path, np.random.default_rng(10), 3)
    assert len(ds.windows(2, by="key", progress=lambda done, total, what: None))
    with pytest.raises(TypeError, match="progress"):
        ds.windows(2, by="key", progress=3)


def test_what_a_scan_found_is_kept_on_disk_until_a_file_or_an_option_changes(tmp_path):
    ds, tables = write(tmp_path, np.random.default_rng(11), 3, least=50)
    files, cache = sorted(tmp_path.glob("*.parquet")), tmp_path / "cache"
    for path in files:
        os.utime(path, (10**9, 10**9))  # long ago: files written a moment ago are not trusted
    kinds = {
        "windows": lambda ds: ds.windows(4, 1, by="key", drop_missing=["a"]),
        "groups": lambda ds: ds.groups("key"),
    }

    def find():
        with fb.open(tmp_path / "*.parquet", cache_dir=cache) as again:
            return {name: [s[i] for i in range(len(s))] for name, s in ((name, make(again)) for name, make in kinds.items())}

    want = find()
    kept = sorted(cache.glob("*.fbysamples"))
    assert len(kept) == 2
    inodes = [path.stat().st_ino for path in kept]
    for path in kept:
        os.utime(path, (1, 1))
    assert find() == want  # from what was kept: it was read, which its time tells, and not written anew
    assert [path.stat().st_ino for path in kept] == inodes and all(path.stat().st_mtime > 1 for path in kept)
    kept[0].write_bytes(kept[0].read_bytes()[:-20] + b"\1" * 20)  # damaged: it is as if it were not there
    assert find() == want
    assert kept[0].stat().st_ino != inodes[0]
    stored = [path.read_bytes() for path in files]
    for path, data in zip(files, stored):  # of the same size and time, but not the same: nothing that was kept holds
        with open(path, "r+b") as f:
            f.write(bytes(len(data) // 2))
        os.utime(path, (10**9, 10**9))
    with pytest.raises(fb.FormatError):
        find()
    for path, data in zip(files, stored):
        path.write_bytes(data)
        os.utime(path, (10**9, 10**9))
    assert find() == want
    assert len(sorted(cache.glob("*.fbysamples"))) > 2


def test_windows_and_groups_of_hdf5_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(12)
    xs, keys = [], []
    for i, (rows, chunks, filters) in enumerate([(500, None, None), (777, (64, 3), "gzip"), (50, (7, 3), "gzip"), (1000, (1000, 3), None)]):
        x = rng.random((rows, 3)).astype(np.float32)
        x[rng.random(rows) < 0.01] = np.nan
        key = np.repeat(np.arange(rows), rng.integers(1, 30, rows))[:rows]
        with h5py.File(tmp_path / f"f{i}.h5", "w") as f:
            f.create_dataset("x", data=x, chunks=chunks, compression=filters)
            f.create_dataset("k", data=key, chunks=None if chunks is None else (13,), compression=filters)
        xs.append(x)
        keys.append(key)
    tables = [pa.table({"k": key, "x": pa.array(x[:, 0])}) for x, key in zip(xs, keys)]
    x, key = np.concatenate(xs), np.concatenate(keys)
    ds = fb.open(tmp_path / "*.h5")
    for samples, starts in (
        (ds.windows(20, 5), reference(tables, 25, 1)),
        (ds.windows(20, 5, drop_missing="x"), reference(tables, 25, 1, drop=["x"])),
        (ds.windows(3, by="k"), reference(tables, 3, 1, by="k")),
    ):
        steps = np.arange(samples.max_rows)
        with samples.loader({"x": "x", "k": "k", "i": fb.sample_index()}, batch_size=33, superbatch=400, framework="numpy") as loader:
            seen = []
            for batch in loader:
                at = starts[batch["i"]][:, None] + steps
                assert np.array_equal(batch["x"], x[at], equal_nan=True) and np.array_equal(batch["k"], key[at])
                seen += batch["i"].tolist()
        assert sorted(seen) == list(range(len(starts)))
    with ds.groups("k").loader({"x": "x", "row": fb.row_index()}, batch_size=33, superbatch=60, framework="numpy") as loader:
        n = 0
        for batch in loader:
            offsets = batch["x"].offsets
            for row, a, b in zip(batch["row"], offsets, offsets[1:]):
                assert np.array_equal(batch["x"].values[a:b], x[row : row + b - a], equal_nan=True)
            n += offsets[-1]
        assert n == len(x)


def test_narrow_columns_are_widened_step_by_step_where_outputs_share_a_panel():
    rng = np.random.default_rng(13)
    columns = {name: rng.random(3000).astype(np.float16) for name in "abc"}
    ds = fb.open(pa.Table.from_pydict(columns))
    stacked = np.stack(list(columns.values()), 1).astype(np.float32)
    outputs = {
        "all": fb.col("a", "b", "c", dtype="float32"),
        "two": fb.col("b", "c", dtype="float32"),
        "few": fb.col("a", dtype="float32").steps(1990, 2000),
        "one": fb.col("b", dtype="float32").at(7),
        "row": fb.row_index(),
    }
    with ds.windows(2000).loader(outputs, batch_size=50, seed=1, framework="numpy") as loader:
        for batch in loader:
            at = batch["row"][:, None] + np.arange(2000)
            assert np.array_equal(batch["all"], stacked[at])
            assert np.array_equal(batch["two"], stacked[at][:, :, 1:])
            assert np.array_equal(batch["few"], stacked[at][:, 1990:, 0])
            assert np.array_equal(batch["one"], stacked[at][:, 7, 1])
    keyed = fb.open(pa.Table.from_pydict({**columns, "k": np.arange(3000) // 700}))
    with keyed.groups("k").loader({"all": outputs["all"], "two": outputs["two"]}, batch_size=5, shuffle=False, framework="numpy") as loader:
        (batch,) = loader
        assert np.array_equal(batch["all"].values, stacked) and np.array_equal(batch["two"].values, stacked[:, 1:])


def test_windows_of_mapped_files(tmp_path):
    _, tables = write(tmp_path, np.random.default_rng(14), 4, least=100)
    starts = reference(tables, 30, 1)
    for io in ("mmap", "threads"):
        ds = fb.open(tmp_path / "*.parquet", io=io, immutable=True)
        with ds.windows(20, 10).loader(outputs(30), batch_size=40, seed=1, framework="numpy") as loader:
            check_epoch(loader, starts, 30, values(tables))


def test_a_split_by_time_cuts_the_file_also_where_days_are_missing(tmp_path):
    day = np.arange("2000-01-01", "2000-04-10", dtype="datetime64[D]")  # 100 days
    day = np.delete(day, range(30, 40))  # 90 rows, two runs: 30 and 60
    key = np.repeat(["a", "b"], [45, 45])  # a: runs of 30 and 15; b: one run
    table = pa.table({"day": day, "key": key, "v": np.arange(90.0)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20)
    ds = fb.open(tmp_path / "x.parquet")
    step = np.timedelta64(1, "D")

    def starts(samples):
        return [samples[i].start for i in range(len(samples))]

    parts = ds.windows(5, time="day", step=step).split(early=0.5, late=0.5, by="time")
    assert starts(parts["early"]) == [*range(0, 26), *range(30, 41)]
    assert starts(parts["late"]) == list(range(45, 86))
    parts = ds.windows(5, by="key", time="day", step=step).split(early=2 / 3, late=1 / 3, by="time")
    assert starts(parts["early"]) == [*range(0, 26), *range(45, 71)]
    assert starts(parts["late"]) == [*range(30, 41), *range(75, 86)]


@pytest.mark.parametrize(
    "dtype, step, each", [("M8[D]", "1 day", 1), ("M8[s]", "6 hours", 21_600), ("M8[ms]", "1 day", 86_400_000), ("M8[ns]", "10 us", 10_000)]
)
def test_a_step_in_words_is_in_the_units_of_the_column(dtype, step, each, tmp_path):
    t = np.datetime64(0, dtype[3:-1]).astype(dtype) + each * np.arange(40)
    t[20:] += each
    pq.write_table(pa.table({"t": t, "x": np.arange(40.0)}), tmp_path / "x.parquet")
    samples = fb.open(tmp_path / "x.parquet").windows(5, time="t", step=step)
    assert len(samples) == 2 * 16
    assert len(pickle.loads(pickle.dumps(samples))) == 32


@pytest.mark.parametrize(
    "column, step, error",
    [
        ("t", "1 month", "step '1 month' is no duration: write 1 day, 6 hours"), ("t", "0 days", "is no duration"), ("t", "day", "is no duration"),
        ("t", "9999999999999 days", "is no duration"), ("t", "1 ns", "is no whole number of the units of column 't'"),
        ("f", "1 day", "column 'f' holds plain numbers: give the step as one"), ("when", "1 day", "when"),
        ("s", "1 day", "column 's' holds strings: text is no time: make timestamps of it"),
        ("s", np.timedelta64(1, "D"), "column 's' holds strings: text is no"),
    ],
)  # fmt: skip
def test_a_step_in_words_that_cannot_be(column, step, error):
    ds = fb.open({"t": np.arange(9).astype("M8[us]"), "f": np.arange(9.0), "s": np.array([f"2000-01-0{i}" for i in range(9)])})
    with pytest.raises((ValueError, fb.SchemaError), match=error):
        ds.windows(2, time=column, step=step)
    with pytest.raises(ValueError, match="step= needs time="):
        ds.windows(2, step="1 day")
