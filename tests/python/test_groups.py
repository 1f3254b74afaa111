"""Groups against a NumPy reference, value for value: runs of a key over row groups and record batches, packed outputs, first values."""

import pickle

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def pulses(rng, n_groups, first, tail=0.02):
    """Rows of events as a telescope writes them: median of a few rows, a heavy tail."""
    lengths = rng.integers(1, 12, n_groups)
    lengths[rng.random(n_groups) < tail] = rng.integers(50, 500)
    rows = int(lengths.sum())
    event = np.repeat(np.arange(first, first + n_groups) * 3, lengths)
    charge = rng.random(rows)
    return pa.table(
        {
            "event": event,
            "word": [f"e{e}" for e in event],
            "half": event / 2,
            "sensor": rng.integers(0, 5160, rows).astype(np.int16),
            "time": rng.integers(0, 10**6, rows),
            "charge": pa.array(charge, mask=rng.random(rows) < 0.1),
            "aux": rng.random(rows) < 0.5,
            "hits": [list(range(int(e) % 4)) for e in event],
        }
    )


def write(tmp_path, rng, n_files=4, least=3):
    tables, first = [], 0
    for i in range(n_files):
        n = int(rng.integers(least, 120))
        tables.append(pulses(rng, n, first))
        pq.write_table(tables[-1], tmp_path / f"batch_{i:03}.parquet", row_group_size=int(rng.integers(2, 700)))
        first += n
    return fb.open(tmp_path / "*.parquet"), tables


def reference(tables, key):
    """(first row, rows) of every group: runs of equal keys within a table."""
    groups, base = [], 0
    for t in tables:
        keys = t[key].to_pylist()
        edges = [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]] + [len(keys)]
        groups += [(base + a, b - a) for a, b in zip(edges, edges[1:])]
        base += len(keys)
    return np.array(groups, dtype=np.int64).reshape(-1, 2)


OUTPUTS = {
    "pulses": fb.col("time", "charge", "sensor", "aux", dtype="float32"),
    "sensor": "sensor",
    "charge": fb.col(["charge"]),
    "wide": fb.col("sensor", dtype="int64"),
    "gone": fb.col("charge").is_missing(),
    "event": fb.col("event").first(),
    "pair": fb.col("event", "time").first(),
    "word": fb.col("word").first(),
    "hits": fb.col("hits").first(),
    "index": fb.sample_index(),
    "row": fb.row_index(),
    "length": fb.n_rows(),
    "segment_ids": fb.segment_ids(),
}


def check_epoch(loader, groups, tables):
    t = pa.concat_tables(tables)
    charge = t["charge"].to_numpy(zero_copy_only=False)
    stacked = np.stack([t["time"].to_numpy(), charge, t["sensor"].to_numpy(), t["aux"].to_numpy()], 1).astype(np.float32)
    sensor, event, time, words = t["sensor"].to_numpy(), t["event"].to_numpy(), t["time"].to_numpy(), t["word"].to_numpy()
    seen = []
    for batch in loader:
        first, lengths = batch["row"], batch["length"]
        seen.append(batch["index"])
        assert np.array_equal(groups[batch["index"]], np.stack([first, lengths], 1))
        rows = np.concatenate([np.arange(a, a + n) for a, n in zip(first, lengths)])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        for name, want in (
            ("pulses", stacked[rows]), ("sensor", sensor[rows]), ("charge", charge[rows][:, None]), ("wide", sensor[rows].astype(np.int64)),
            ("gone", np.isnan(charge[rows])), ("segment_ids", np.repeat(np.arange(len(lengths)), lengths)),
        ):  # fmt: skip
            got = batch[name]
            assert isinstance(got, fb.Ragged) and got.values.dtype == want.dtype, name
            assert np.array_equal(got.offsets, offsets), name
            assert np.array_equal(got.values, want, equal_nan=want.dtype.kind == "f"), name
        assert np.array_equal(batch["event"], event[first])
        assert np.array_equal(batch["pair"], np.stack([event[first], time[first]], 1))
        assert batch["word"].to_list() == words[first].tolist()
        assert batch["hits"].to_list() == [list(range(e % 4)) for e in event[first]]
    order = np.concatenate(seen)
    assert np.array_equal(np.sort(order), np.arange(len(groups))), "not every group exactly once"
    return order


@pytest.mark.parametrize("key", ["event", "word", "half"])
@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_runs_of_the_key(tmp_path, key, seed):
    ds, tables = write(tmp_path, np.random.default_rng(seed))
    groups = reference(tables, key)
    samples = ds.groups(key)
    assert len(samples) == len(groups) and samples.max_rows == groups[:, 1].max()
    assert [(samples[i].start, len(samples[i])) for i in range(len(samples))] == [tuple(g) for g in groups.tolist()]
    for shuffle in (False, True, "full", "block"):
        with samples.loader(OUTPUTS, batch_size=13, shuffle=shuffle, seed=seed, threads=2, superbatch=60, framework="numpy") as loader:
            order = check_epoch(loader, groups, tables)
            if shuffle is False:
                assert np.array_equal(order, np.arange(len(groups)))
            else:
                check_epoch(loader, groups, tables)


def test_groups_over_a_frame_in_memory_cross_its_record_batches():
    table = pulses(np.random.default_rng(11), 400, 0)
    ds = fb.open(pa.Table.from_batches(table.to_batches(max_chunksize=5)))
    with ds.groups("event").loader(OUTPUTS, batch_size=64, seed=1, framework="numpy") as loader:
        check_epoch(loader, reference([table], "event"), [table])


def test_a_group_longer_than_65535_rows_and_many_of_one_row(tmp_path):
    lengths = np.concatenate([np.ones(200, int), [70_000], np.ones(100, int), [3], np.full(65, 2), [66_000]])
    event = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"event": event, "x": np.arange(len(event), dtype=np.int32)})
    for size in (1 << 20, 50_000, 999):
        pq.write_table(table, tmp_path / "long.parquet", row_group_size=size)
        samples = fb.open(tmp_path / "long.parquet", cache_dir="").groups("event")
        assert [len(samples[i]) for i in range(len(samples))] == lengths.tolist()
        with samples.loader({"x": "x", "row": fb.row_index()}, batch_size=50, seed=2, framework="numpy") as loader:
            n = 0
            for batch in loader:
                for row, values in zip(batch["row"], batch["x"].to_list()):
                    assert values[0] == row and values[-1] == row + len(values) - 1
                    n += len(values)
            assert n == len(event)


def test_a_key_that_comes_again_later_is_another_group_and_files_end_groups(tmp_path):
    pq.write_table(pa.table({"k": [1, 1, 2, 1, 1]}), tmp_path / "a.parquet", row_group_size=1)
    pq.write_table(pa.table({"k": [1, 3]}), tmp_path / "b.parquet")
    samples = fb.open(tmp_path / "*.parquet").groups("k")
    assert [samples[i] for i in range(len(samples))] == [range(0, 2), range(2, 3), range(3, 5), range(5, 6), range(6, 7)]


def test_a_missing_key_is_an_error_that_names_the_row(tmp_path):
    pq.write_table(pa.table({"k": [1, 1, None, 2]}), tmp_path / "a.parquet", row_group_size=2)
    with pytest.raises(fb.DataError, match="key 'k' is missing in row 2"):
        fb.open(tmp_path / "a.parquet").groups("k")
    pq.write_table(pa.table({"k": [3, None]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(fb.DataError, match=r"b\.parquet: the key 'k' is missing in row 1 of the file: a row without"):
        fb.open(tmp_path / "*.parquet").groups("k")
    with pytest.raises(fb.DataError, match=r"^\(in memory\): the key 'k' is missing in row 1 of the data set: a row without"):
        fb.open(pa.table({"k": [3, None]})).groups("k")


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300, 10**6])
def test_groups_of_a_number_of_rows(tmp_path, n):
    ds, tables = write(tmp_path, np.random.default_rng(n), 5)
    groups, base = [], 0
    for t in tables:
        groups += [(base + a, min(n, len(t) - a)) for a in range(0, len(t), n)]
        base += len(t)
    groups = np.array(groups)
    samples = ds.groups(rows=n)
    assert [(samples[i].start, len(samples[i])) for i in range(len(samples))] == [tuple(g) for g in groups.tolist()]
    assert samples.max_rows == groups[:, 1].max() and samples.kind == "groups"
    for shuffle in (False, True, "full"):
        with samples.loader(OUTPUTS, batch_size=13, shuffle=shuffle, seed=n, threads=2, superbatch=60, framework="numpy") as loader:
            order = check_epoch(loader, groups, tables)
            assert shuffle is not False or np.array_equal(order, np.arange(len(groups)))
    copy = pickle.loads(pickle.dumps(samples.select(["batch_001", "batch_003"])))  # their key is the file's name
    assert {r for i in range(len(copy)) for r in copy[i]} == {
        r for f in (1, 3) for r in range(sum(map(len, tables[:f])), sum(map(len, tables[: f + 1])))
    }  # fmt: skip
    outputs = {"x": "time", "segment_ids": fb.segment_ids()}
    samples.loader(outputs, batch_elements=600, shuffle=False).to_yaml(tmp_path / "p.yaml")
    written = fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")
    for a, b in zip(written, samples.loader(outputs, batch_elements=600, shuffle=False, framework="numpy"), strict=True):
        assert np.array_equal(a["x"].values, b["x"].values) and np.array_equal(a["segment_ids"].values, b["segment_ids"].values)


def test_rows_of_groups_that_do_not_fit_are_refused(tmp_path):
    ds, _ = write(tmp_path, np.random.default_rng(1), 1)
    for wrong in (0, -1, 2.5):
        with pytest.raises((ValueError, TypeError), match="rows"):
            ds.groups(rows=wrong)
    with pytest.raises(ValueError, match="rows is about groups that have neither a key nor an index table"):
        ds.groups("event", rows=3)
    with pytest.raises(ValueError, match=r"groups\(rows=40\)"):
        ds.groups()
    (tmp_path / "p.yaml").write_text("data: x\nsamples: {groups: {rows: 3, key: event}}\n")
    with pytest.raises(ValueError, match=r"p\.yaml:2:19: groups: rows is in place of a key and of a table"):
        fb.pipeline(tmp_path / "p.yaml")


def test_splits_by_files_and_pickles(tmp_path):
    ds, tables = write(tmp_path, np.random.default_rng(12), 10)
    samples = ds.groups("event")
    parts = samples.split(train=0.6, val=0.4, seed=5)
    assert len(parts["train"]) + len(parts["val"]) == len(samples)
    copy = pickle.loads(pickle.dumps(parts["val"]))
    options = {"outputs": {"row": fb.row_index(), "n": fb.n_rows()}, "batch_size": 20, "framework": "numpy"}
    rows = []
    for part in (parts["train"], copy):
        with part.loader(**options) as loader:
            for batch in loader:
                rows += [r for a, n in zip(batch["row"], batch["n"]) for r in range(a, a + n)]
    assert sorted(rows) == list(range(len(ds)))


def test_batches_become_arrow_lists(tmp_path):
    ds, tables = write(tmp_path, np.random.default_rng(13), 1)
    with ds.groups("event").loader(["sensor", "charge"], batch_size=5, shuffle=False, framework="numpy") as loader:
        batch = next(iter(loader))
        table = pa.record_batch(batch.arrow)
        assert table.column("sensor").to_pylist() == batch["sensor"].to_list()


@pytest.mark.parametrize(
    ("output", "error", "says"),
    [
        (fb.col("x").at(1), ValueError, "these samples are groups"),
        (fb.col("x").steps(0, 2), ValueError, "these samples are groups"),
        ("s", fb.UnsupportedError, "column 's' varies in length"),
        (fb.col("s").first(), None, None),
        (fb.col("x").first(), None, None),
        (fb.col("x").ragged(), None, None),
    ],
)
def test_outputs_of_groups_that_do_not_fit_are_refused(output, error, says):
    samples = fb.open(pa.table({"k": [1, 1, 2], "x": [1.0, 2.0, 3.0], "s": ["a", "b", "c"]})).groups("k")
    if error is None:
        samples.loader({"o": output}, batch_size=2).close()
        return
    with pytest.raises(error, match=says):
        samples.loader({"o": output}, batch_size=2)


def test_rows_of_windows_have_no_segment_ids():
    with pytest.raises(ValueError, match="segment ids .* these samples are no groups"):
        fb.open({"x": np.arange(9.0)}).windows(3).loader({"s": fb.segment_ids()}, batch_size=2)
