"""Chosen samples against a NumPy reference: by keys, by values, by a side table, limited, repeated; what the loader delivers of them."""

import datetime
import pickle

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(tmp_path, rng, n_files=4, n_events=90):
    """Events as a telescope writes them, over small row groups: (data set, columns as arrays, (first row, rows) of each event)."""
    tables, first = [], 0
    for i in range(n_files):
        lengths = rng.integers(1, 14, n_events)
        event = np.repeat(np.arange(first, first + n_events) * 3, lengths)
        rows = len(event)
        tables.append(
            pa.table(
                {
                    "event": event,
                    "word": [f"e{e}" for e in event],
                    "kind": (event // 3 % 5).astype(np.int16),
                    "time": rng.integers(0, 10**6, rows),
                    "energy": rng.random(rows),
                    "day": pa.array(np.datetime64("2020-01-01", "D") + (event % 400).astype("timedelta64[D]")),
                }
            )
        )
        pq.write_table(tables[-1], tmp_path / f"batch_{i + 1}.parquet", row_group_size=int(rng.integers(20, 300)))
        first += n_events
    table = pa.concat_tables(tables)
    event = table["event"].to_numpy()
    edges = np.flatnonzero(np.diff(event)) + 1
    groups = np.stack([np.concatenate([[0], edges]), np.diff(np.concatenate([[0], edges, [len(event)]]))], 1)
    return fb.open(tmp_path / "batch_{batch}.parquet"), table, groups


def places(samples):
    return [(samples[i].start, len(samples[i])) for i in range(len(samples))]


def check_epochs(samples, table, **options):
    """Every chosen sample as often as chosen, with its own values, in two shuffled epochs and in file order."""
    time, event = table["time"].to_numpy(), table["event"].to_numpy()
    want = sorted(places(samples))
    for shuffle in (True, "full", False):
        outputs = {"t": "time", "e": fb.col("event").first(), "row": fb.row_index(), "n": fb.n_rows(), "i": fb.sample_index()}
        with samples.loader(outputs, batch_size=17, shuffle=shuffle, seed=3, threads=2, framework="numpy", **options) as loader:
            for _ in range(2):
                got, numbers = [], []
                for batch in loader:
                    offsets = np.concatenate([[0], np.cumsum(batch["n"])])
                    values = batch["t"].values if isinstance(batch["t"], fb.Ragged) else batch["t"].reshape(-1)
                    for k, (row, n) in enumerate(zip(batch["row"], batch["n"])):
                        assert np.array_equal(values[offsets[k] : offsets[k + 1]], time[row : row + n])
                        assert batch["e"][k] == event[row]
                    got += zip(batch["row"].tolist(), batch["n"].tolist())
                    numbers += batch["i"].tolist()
                assert sorted(got) == want
                assert sorted(numbers) == list(range(len(samples)))


@pytest.mark.parametrize("seed", range(3))
def test_groups_by_ids(tmp_path, seed):
    rng = np.random.default_rng(seed)
    ds, table, groups = write(tmp_path, rng)
    event = table["event"].to_numpy()
    all_events = ds.groups("event")
    for share in (0.01, 0.3, 0.95):
        chosen = rng.choice(np.unique(event), max(1, int(share * len(groups))), replace=False)
        want = [tuple(g) for g in groups.tolist() if event[g[0]] in set(chosen.tolist())]
        for ids in (chosen, chosen.astype(np.int32).tolist(), set(chosen.tolist()), pa.array(chosen)):
            samples = all_events.select(ids)
            assert places(samples) == want
        assert places(all_events.select(ids=chosen, exclude=True)) == [tuple(g) for g in groups.tolist() if tuple(g) not in set(want)]
        assert places(ds.groups("word").select([f"e{e}" for e in chosen])) == want
        check_epochs(all_events.select(chosen), table, superbatch=60)


def test_blocks_without_a_chosen_sample_are_not_read(tmp_path):
    ds, table, groups = write(tmp_path, np.random.default_rng(1), 6)
    samples = ds.groups("event").select([30, 33])
    with samples.loader(["time"], batch_size=2, shuffle=False, framework="numpy") as loader:
        assert sum(1 for _ in loader) == 1
        assert loader.report().blocks_read <= 2 < len(ds.blocks)


def test_unknown_ids_are_named_or_ignored(tmp_path):
    ds, _, _ = write(tmp_path, np.random.default_rng(2), 1)
    samples = ds.groups("event")
    with pytest.raises(ValueError, match=r"no sample has 1, 2, 4, … of 'event' \(4 of 5 values given are unknown\)"):
        samples.select([0, 1, 2, 4, 5])
    assert len(samples.select([0, 1, 2, 4, 5], unknown="ignore")) == 1
    with pytest.raises(ValueError, match="none of the 90 samples"):
        samples.select([1], unknown="ignore")
    with pytest.raises(ValueError, match="holds numbers, and the values given are strings"):
        samples.select(["0"])


def test_by_a_column_of_the_first_row(tmp_path):
    ds, table, groups = write(tmp_path, np.random.default_rng(4))
    starts = groups[:, 0]
    kind, energy, day = (table[name].to_numpy()[starts] for name in ("kind", "energy", "day"))
    all_events = ds.groups("event")
    for samples, mask in (
        (all_events.select("kind", values=[1, 4]), np.isin(kind, [1, 4])),
        (all_events.select("energy", low=0.5), energy >= 0.5),
        (all_events.select("energy", low=0.25, high=0.75), (energy >= 0.25) & (energy < 0.75)),
        (all_events.select("kind", low=2).select("energy", high=0.5), (kind >= 2) & (energy < 0.5)),
        (all_events.select("day", high=datetime.date(2020, 2, 1)), day < np.datetime64("2020-02-01")),
        (all_events.select("day", values=[np.datetime64("2020-01-04")]), day == np.datetime64("2020-01-04")),
        (all_events.select("batch", values=["2", "4"]), np.isin(np.repeat([1, 2, 3, 4], 90), [2, 4])),
    ):
        assert places(samples) == [tuple(g) for g in groups[mask].tolist()]
    rows = ds.rows().select("energy", high=0.1)
    assert [samples.start for samples in rows] == np.flatnonzero(table["energy"].to_numpy() < 0.1).tolist()
    with rows.loader({"e": "energy", "row": fb.row_index()}, batch_size=8, framework="numpy", memory="64MiB") as loader:
        batches = list(loader)
        assert all((batch["e"] < 0.1).all() for batch in batches)
        assert sorted(np.concatenate([batch["row"] for batch in batches])) == [samples.start for samples in rows]


def test_by_a_side_table(tmp_path):
    rng = np.random.default_rng(5)
    ds, table, groups = write(tmp_path, rng)
    events = np.unique(table["event"].to_numpy())
    part = rng.choice(["train", "val", "test"], len(events))
    meta = pa.table({"event": events, "split": part, "zenith": rng.random(len(events))}).take(rng.permutation(len(events)))
    pq.write_table(meta, tmp_path / "meta.parq", row_group_size=50)
    all_events = ds.groups("event")
    zenith = dict(zip(meta["event"].to_pylist(), meta["zenith"].to_pylist()))
    for source in (tmp_path / "meta.parq", meta, fb.open(meta)):
        assert places(all_events.select("split", table=source, values=["train", "test"])) == [tuple(g) for g in groups[part != "val"].tolist()]
    high = [z >= 0.5 for z in (zenith[e] for e in events.tolist())]
    assert places(all_events.select("zenith", table=meta, low=0.5)) == [tuple(g) for g in groups[high].tolist()]
    rows = ds.rows().select("split", on="event", table=meta, values=["val"])
    assert len(rows) == groups[part == "val"][:, 1].sum()
    renamed = meta.rename_columns(["id", "split", "zenith"])
    assert places(all_events.select("split", table=renamed, key="id", values=["val"])) == [tuple(g) for g in groups[part == "val"].tolist()]
    with pytest.raises(fb.SchemaError, match="side table.*event"):
        all_events.select("split", table=renamed, values=["val"])
    with pytest.raises(ValueError, match="no row of 'split' is as asked for"):
        all_events.select("split", table=meta, values=["trian"])


def test_windows_by_key_and_by_file_name(tmp_path):
    for name, n in (("a", 30), ("b", 40), ("c", 5)):
        pq.write_table(pa.table({"x": np.arange(n), "half": np.arange(n) // 20}), tmp_path / f"{name}.parquet", row_group_size=11)
    ds = fb.open(tmp_path / "*.parquet")
    windows = ds.windows(4)
    assert places(windows.select(["b"])) == [(30 + i, 4) for i in range(37)]
    assert places(fb.open(tmp_path / "{gauge}.parquet").windows(4).select(["c", "a"])) == places(windows.select(["a", "c"]))
    by_half = ds.windows(4, by="half").select([1])
    assert places(by_half) == [(20 + i, 4) for i in range(7)] + [(50 + i, 4) for i in range(17)]
    with pytest.raises(ValueError, match="no sample has 'd' of 'file name'.*: leave them out, or write unknown=\"ignore\""):
        windows.select(["d"])
    with pytest.raises(ValueError, match='keys are file names, or placeholders of a path, which are strings.*: write "17" for 17'):
        windows.select([17])
    times = windows.select(["a", "b"]).split(train=0.5, test=0.5, by="time")
    assert places(times["train"]) == [(i, 4) for i in range(12)] + [(30 + i, 4) for i in range(17)]
    with times["train"].loader({"x": "x", "row": fb.row_index()}, batch_size=5, framework="numpy") as loader:
        for batch in loader:
            assert np.array_equal(batch["x"], (batch["row"] % 30)[:, None] + np.arange(4))


def test_limits(tmp_path):
    ds, table, groups = write(tmp_path, np.random.default_rng(6))
    samples = ds.groups("event")
    assert places(samples.limit(7)) == [tuple(g) for g in groups[:7].tolist()]
    assert len(samples.limit(0.1)) == 36 and len(samples.limit(1e-9)) == 1 and len(samples.limit(10**9)) == 360
    drawn = samples.limit(50, random=True, seed=2)
    assert places(drawn) == places(samples.limit(50, random=True, seed=2)) != places(samples.limit(50, random=True, seed=3))
    assert len(drawn) == 50
    check_epochs(drawn, table)
    for wrong in (0, -1, 0.0, 1.5):
        with pytest.raises(ValueError):
            samples.limit(wrong)


def test_oversampling_and_resampling(tmp_path):
    rng = np.random.default_rng(7)
    ds, table, groups = write(tmp_path, rng)
    kind, energy = (table[name].to_numpy()[groups[:, 0]] for name in ("kind", "energy"))
    samples = ds.groups("event")
    factor = np.select([kind == 1, kind == 3], [4, 0], 1)
    over = samples.oversample("kind", {1: 4, 3: 0})
    assert places(over) == [tuple(g) for g in np.repeat(groups, factor, 0).tolist()]
    check_epochs(over, table, superbatch=100)
    with pytest.raises(ValueError, match="no sample has 9"):
        samples.oversample("kind", {9: 2})
    each = rng.random(len(samples)) ** 3
    for drawn, weights, n in (
        (samples.resample("energy", seed=1), energy, 360),
        (samples.resample(each, n=1000, seed=2), each, 1000),
        (samples.resample({0: 1, 1: 10, 2: 0, 3: 0.5, 4: 1}, column="kind", n=500), np.array([1, 10, 0, 0.5, 1])[kind], 500),
    ):
        times = np.zeros(len(groups), int)
        for row, _ in places(drawn):
            times[np.searchsorted(groups[:, 0], row)] += 1
        expected = n * weights / weights.sum()
        assert len(drawn) == n and np.all(np.abs(times - expected) < 1 + 1e-9)
    assert places(samples.resample("energy", seed=1)) == places(samples.resample("energy", seed=1))
    with pytest.raises(ValueError, match="class without a weight"):
        samples.resample({0: 1}, column="kind")
    with pytest.raises(ValueError, match="359 weights for 360 samples"):
        samples.resample(each[1:])


def test_cells_are_oversampled_by_a_column_of_one_axis(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "mel.h5", "w") as f:
        f["mel"] = np.arange(6 * 3 * 2 * 4, dtype=np.float32).reshape(6, 3, 2, 4)
        f["labels"] = np.array([0, 1, 0, 0, 1, 0], np.int16)
    cells = fb.open(tmp_path / "mel.h5").cells(3)
    label = np.repeat([0, 1, 0, 0, 1, 0], 6)
    over = cells.oversample("labels", {1: 5})
    assert [r.start for r in over] == np.repeat(np.arange(36), np.where(label == 1, 5, 1)).tolist()
    with over.loader({"mel": "mel", "row": fb.row_index()}, batch_size=7, framework="numpy") as loader:
        batches = list(loader)
    rows = np.concatenate([batch["row"] for batch in batches])
    assert sorted(rows) == [r.start for r in over]
    assert np.array_equal(np.concatenate([batch["mel"] for batch in batches])[:, 0].astype(int), rows * 4)


@pytest.mark.parametrize("unit", ["D", "ms", "us", "ns"])
def test_dates_and_times_as_text(tmp_path, unit):
    n = 500
    times = np.datetime64("1969-12-20T00:00", "h") + np.arange(n) * np.timedelta64(24 if unit == "D" else 7, "h")
    column = times.astype("datetime64[D]") if unit == "D" else pa.array(times.astype(f"datetime64[{unit}]"), pa.timestamp(unit, "UTC"))
    table = pa.table({"when": column, "i": np.arange(n), "word": [f"{i}" for i in range(n)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=70)
    rows = fb.open(tmp_path / "t.parquet").rows()
    days = times.astype("datetime64[D]")

    def found(**how):
        return [r.start for r in rows.select("when", **how)]

    low, high = "1969-12-30", "1970-02-01"
    assert found(low=low, high=high) == np.flatnonzero((days >= np.datetime64(low)) & (days < np.datetime64(high))).tolist() != []
    assert found(low=low) == found(low=datetime.date(1969, 12, 30)) == found(low=np.datetime64(low))
    listed = [str(times[i].astype("datetime64[D]" if unit == "D" else "datetime64[s]")) for i in (3, 77, 400)]
    assert found(values=listed) == [3, 77, 400]
    assert found(values=listed, exclude=True) == [i for i in range(n) if i not in (3, 77, 400)]
    more = rows.oversample("when", {listed[1]: 3})
    assert [r.start for r in more] == sorted([*range(n), 77, 77])
    parts = rows.split(a=listed[:2], b=listed[2:], by="when")
    assert [r.start for r in parts["a"]] == [3, 77] and [r.start for r in parts["b"]] == [400]
    assert [r.start for r in pickle.loads(pickle.dumps(parts["b"]))] == [400]
    assert [r.start for r in rows.select("when", table=tmp_path / "t.parquet", key="i", on="i", low=low, high=high)] == found(low=low, high=high)
    if unit != "D":
        hour = str(times[30].astype("datetime64[s]"))
        assert found(values=[hour + "Z"]) == found(values=[hour.replace("T", " ") + ".000"]) == [30]
        east = str((times[30] + np.timedelta64(2, "h")).astype("datetime64[s]")) + "+02:00"
        assert found(values=[east]) == [30]
    for how, says in (
        (dict(low="1970-02-30"), "'when' holds .*, and '1970-02-30' is none: write 2001-01-31"),
        (dict(values=["1970-01-01", "x"]), "and 'x' is none"),
        (dict(values=["2030-01-01"]), "no sample has '2030-01-01' of 'when'"),
        (dict(low="1970-01-01T00:00:00.0000000001"), "is none"),
        *([(dict(low="1970-01-01T01:00"), "no whole number of the units of 'when'")] if unit == "D" else []),
        *([(dict(low="1970-01-01T00:00:00.0005"), "no whole number of the units of 'when'")] if unit == "ms" else []),
        *([(dict(low="0001-01-01"), "beyond what 'when' can hold")] if unit == "ns" else []),
    ):
        with pytest.raises(ValueError, match=says):
            found(**how)
    if unit != "D":
        with pytest.raises(ValueError, match="when: '1970-01-01 00:00' is listed twice"):
            rows.oversample("when", {"1970-01-01": 2, "1970-01-01 00:00": 2})
    with pytest.raises(ValueError, match="'i' holds numbers, and the values given are strings"):
        rows.select("i", values=["1970-01-01"])


def test_chosen_samples_pickle_and_a_state_of_others_is_refused(tmp_path):
    ds, table, _ = write(tmp_path, np.random.default_rng(8))
    meta = tmp_path / "meta.parq"
    pq.write_table(pa.table({"event": np.arange(0, 1080, 3), "fold": np.arange(360) % 4}), meta)
    samples = ds.groups("event").select("fold", table=meta, low=1).limit(200, random=True).oversample("kind", {1: 3}).resample("energy", n=150)
    copy = pickle.loads(pickle.dumps(samples))
    assert places(copy) == places(samples) and repr(copy) == repr(samples)
    part = ds.groups("event").split(train=[0, 3, 6], val=[9, 12, 15])
    other = pickle.loads(pickle.dumps(part["val"]))
    assert places(other) == places(part["val"]) and len(other) == 3
    options = {"outputs": ["time"], "batch_size": 1, "framework": "numpy", "seed": 1}
    with part["train"].loader(**options) as loader, part["val"].loader(**options) as another, other.loader(**options) as same:
        next(iter(another))
        state = another.state_dict()
        same.load_state_dict(state)
        with pytest.raises(fb.Error, match="samples"):
            loader.load_state_dict(state)


def test_wrong_arguments_say_what_would_do(tmp_path):
    ds, _, _ = write(tmp_path, np.random.default_rng(9), 1)
    samples = ds.groups("event")
    for call, error, says in (
        (lambda: samples.select("kind"), ValueError, "list values"),
        (lambda: samples.select("kind", values=3), TypeError, r"write \[3\]"),
        (lambda: samples.select("kind", values="a"), TypeError, r"write \['a'\]"),
        (lambda: samples.select("kind", values=[1, "a"]), TypeError, "all numbers or all strings"),
        (lambda: samples.select("energy", values=[0.5]), TypeError, "ranges of floats"),
        (lambda: samples.select("kind", values=[1], low=2), ValueError, "not both"),
        (lambda: samples.select("kind", ids=[1]), ValueError, "either them, or a column"),
        (lambda: samples.select("knd", values=[1]), fb.SchemaError, "kind"),
        (lambda: samples.select("word", low=1), ValueError, "strings"),
        (lambda: samples.select("kind", low=datetime.date(2020, 1, 1)), TypeError, "plain numbers"),
        (lambda: samples.select("kind", 3), TypeError, r"select\(\) takes 3 by name: ids=, values=, low=, high="),
        (lambda: samples.select("kind", min=3), TypeError, "'min': low= is the least value"),
        (lambda: samples.select("kind", value=3), TypeError, r"'value': values=\[1, 2\] lists"),
        (lambda: samples.select([1], unknown="skip"), ValueError, "'error' or 'ignore'"),
        (lambda: ds.rows().select([1]), ValueError, "name the column"),
        (lambda: samples.oversample("kind", {1: -1}), ValueError, "at least 0"),
        (lambda: samples.oversample("kind", {}), ValueError, "at least one class"),
        (lambda: samples.resample("word"), ValueError, "holds strings"),
        (lambda: samples.oversample({1: 8}), TypeError, r"a column and the factors of its classes: oversample\('leak', {1: 8}\)"),
        (lambda: samples.oversample("kind"), TypeError, r"oversample\('kind', {1: 8}\)"),
    ):
        with pytest.raises(error, match=says):
            call()


@pytest.mark.parametrize("bound", ["low", "high"])
def test_a_date_is_not_compared_with_a_bare_number(bound, tmp_path):
    day = datetime.date(1999, 12, 30)
    ds = fb.open(pa.table({"day": [day + datetime.timedelta(k) for k in range(4)], "at": pa.array(range(4), pa.timestamp("us")), "i": range(4)}))
    for value in (2000, 2000.0, np.int64(2000), True):
        with pytest.raises(fb.ArgumentError, match="column 'day' is a date: write '2000-01-31' .a number would count days since 1970."):
            ds.rows().select("day", **{bound: value})
    with pytest.raises(fb.ArgumentError, match="column 'at' is a time: .*count us since 1970"):
        ds.rows().select("at", **{bound: 2})
    with pytest.raises(ValueError, match="column 'day' is a date"):  # a length of time is none
        ds.rows().select("day", **{bound: datetime.timedelta(days=10957)})
    for value in ("2000-01-01", datetime.date(2000, 1, 1), np.datetime64("2000-01-01"), np.datetime64("2000-01"), np.datetime64("2000-01-01T00", "h")):
        assert len(ds.rows().select("day", **{bound: value})) == 2
        assert len(ds.rows().select("day", values=[value])) == 1
    for values in ([10957], np.array([10957, 10958]), [datetime.timedelta(days=10957)]):
        with pytest.raises(fb.ArgumentError, match="column 'day' is a date: write '2000-01-31' .a number would count days since 1970."):
            ds.rows().select("day", values=values)
    for refused in (lambda rows: rows.oversample("day", {10957: 2}), lambda rows: rows.split(a=[10956], b=[10957], by="day")):
        with pytest.raises(fb.ArgumentError, match="column 'day' is a date"):
            refused(ds.rows())
    for unit, kind in (("D", pa.date32()), ("s", pa.timestamp("s"))):
        side = pa.table({"day": pa.array(np.array(["2000-01-01"], f"M8[{unit}]"), kind), "v": [1]})
        if unit == "D":
            assert len(ds.rows().select("v", values=[1], table=side, key="day", on="day")) == 1
            continue
        with pytest.raises(fb.ArgumentError, match="'day' holds dates or times in the data or in the side table, and in the other .* another unit: cast"):
            ds.rows().select("v", values=[1], table=side, key="day", on="day", exclude=True)
    with pytest.raises(TypeError, match="all numbers or all strings: '2000-01-01' is a str and 10957 is not"):
        ds.rows().select("day", values=[day + datetime.timedelta(2), 10957])
    assert len(ds.rows().select("i", **{bound: 2})) == 2
    pq.write_table(pa.table({"day": [day + datetime.timedelta(k) for k in range(4)]}), tmp_path / "d.parquet")
    for how, want in ((f"{bound}: 2000", None), ("values: [10957]", None), (f"{bound}: 2000-01-01", 2), ("values: [2000-01-01]", 1)):
        (tmp_path / "p.yaml").write_text(f"data: d.parquet\nsamples: {{select: {{column: day, {how}}}}}\n")
        if want is not None:
            assert len(fb.pipeline(tmp_path / "p.yaml").samples) == want
            continue
        with pytest.raises(ValueError, match="a number would count days since 1970"):
            len(fb.pipeline(tmp_path / "p.yaml").samples)


def test_a_time_beyond_nanoseconds_is_compared_as_it_is():
    times = np.array(["1500-01-01", "2000-01-01", "3000-01-01T12:00:00", "3000-01-01T12:00:01"], "datetime64[s]")
    rows = fb.open(pa.table({"at": pa.array(times)})).rows()
    for bound in times[2], times[2].item():
        assert (len(rows.select("at", low=bound)), len(rows.select("at", high=bound)), len(rows.select("at", values=[bound]))) == (2, 2, 1)


@pytest.fixture
def regions(tmp_path):
    """Two regions of three basins, of which both have one called "same"."""
    for region, names in (("north", ("a", "b", "same")), ("south", ("c", "d", "same"))):
        (tmp_path / region).mkdir()
        for k, name in enumerate(names):
            pq.write_table(pa.table({"x": np.full(20, float(k))}), tmp_path / region / f"{name}.parquet")
    return tmp_path


def mapping(root, ids=None):
    return fb.open({"north": root / "north", "south": root / "south"}, cache_dir="", ids=ids)


def lists(root):
    return fb.open({region: [root / region / f"{name}.parquet" for name in names] for region, names in (("north", "ab"), ("south", "cd"))}, cache_dir="")


OPENED = {
    "mapping": lambda root: mapping(root, "abcd"),
    "mapping to lists": lists,
    "mapping to patterns": lambda root: fb.open(
        {"north": root / "north/{gauge}.parquet", "south": root / "south/{gauge}.parquet"}, ids=list("abcd"), cache_dir=""
    ),
    "pattern": lambda root: fb.open(root / "{region}/{gauge}.parquet", ids=list("abcd"), cache_dir=""),
    "directory": lambda root: fb.open(root, ids=list("abcd"), cache_dir=""),
}


@pytest.mark.parametrize("how", OPENED)
@pytest.mark.parametrize("kind", ["windows", "groups"])
def test_the_key_of_what_has_no_other_is_the_file_not_the_region(regions, how, kind):
    ds = OPENED[how](regions) if how != "mapping" else mapping(regions, list("abcd"))
    samples = ds.windows(5, 0) if kind == "windows" else ds.groups(rows=5)
    each = len(samples) // 4
    assert len(samples.select(["a"])) == each
    assert len(samples.select(["b", "c"])) == 2 * each
    with pytest.raises(fb.ArgumentError, match="north"):
        samples.select(["north"])
    parts = samples.split(train=0.75, val=0.25, by="groups")
    assert sorted((len(parts["train"]), len(parts["val"]))) == [each, 3 * each]
    parts = samples.split(train=["a", "d"], val=["c"])
    assert (len(parts["train"]), len(parts["val"])) == (2 * each, each)
    assert len(pickle.loads(pickle.dumps(samples))) == len(samples)
    if how.startswith("mapping"):
        assert len(samples.select("source", values=["north"])) == 2 * each


@pytest.mark.parametrize("how", ["mapping", "directory"])
def test_files_of_one_name_are_told_apart_by_their_folders(regions, how):
    ds = mapping(regions) if how == "mapping" else fb.open(regions, cache_dir="")
    windows = ds.windows(5, 0)
    each = len(windows) // 6
    assert len(windows.select(["north/same"])) == each
    assert len(windows.select(["north/same", "south/same", "a"])) == 3 * each
    with pytest.raises(fb.ArgumentError, match="Several files are called 'same': write 'north/same' or 'south/same'$"):
        windows.select(["a", "same"])
    parts = windows.split(a=1 / 3, b=2 / 3, by="groups")
    assert {len(parts["a"]), len(parts["b"])} == {2 * each, 4 * each}


def test_what_a_pattern_names_alike_is_one_key(regions):
    windows = fb.open(regions / "{region}/{gauge}.parquet", cache_dir="").windows(5, 0)
    assert len(windows.select(["same"])) == len(windows) // 3


def test_a_pipeline_file_maps_names_to_lists(regions):
    (regions / "p.yaml").write_text(
        "data: {paths: {north: [north/a.parquet, north/b.parquet], south: south}}\nsamples: {windows: {input: 5}, select: {values: [a, south/same]}}\n"
    )
    with pytest.raises(fb.ArgumentError, match="south/same"):  # no other is called so here
        len(fb.pipeline(regions / "p.yaml", cache_dir="").samples)
    (regions / "p.yaml").write_text((regions / "p.yaml").read_text().replace("south/same", "same"))
    assert len(fb.pipeline(regions / "p.yaml", cache_dir="").samples) == 2 * 16
