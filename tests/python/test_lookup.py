"""Lookups and ids: compared with pandas' merges value by value, on random tables and on real files."""

import glob
import pickle
import random

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from loader_compare import batches, equal  # noqa: E402

CARAVAN = DATA / "hydrology"
NEUTRINO = DATA / "neutrino"


# ---- the table ----


def test_whole_numbers_that_a_table_cannot_hold_are_no_integers():
    table = fb.Lookup({"k": [1, 2], "id": [2**53 + 1, 7], "small": [2**53 - 1, 7]}, "k")
    ds = fb.open({"k": np.array([1, 2])})
    (got,) = ds.rows().loader({"x": fb.lookup(table, on="k", columns="small", dtype="int64")}, batch_size=2, shuffle=False, framework="numpy")
    assert got["x"].tolist() == [2**53 - 1, 7]
    (got,) = ds.rows().loader({"x": fb.lookup(table, on="k", columns="id", dtype="float64")}, batch_size=2, shuffle=False, framework="numpy")
    assert got["x"].tolist() == [2.0**53, 7]  # rounded, as integers are in floats
    with pytest.raises(fb.DataError, match="column 'id' has 9007199254740992 or a number near it for the key 1"):
        ds.rows().loader({"x": fb.lookup(table, on="k", columns="id", dtype="int64")}, batch_size=2)


def test_a_table_shows_its_keys_and_values():
    table = fb.Lookup({"basin": ["a", "b", "c"], "area": [1.0, 2.0, None], "slope": np.array([4, 5, 6]), "name": ["x", "y", "z"]}, "basin")
    assert (len(table), table.columns, table.keys, table.key) == (3, ("area", "slope"), ["a", "b", "c"], "basin")
    assert table["b"] == {"area": 2.0, "slope": 5.0} and np.isnan(table["c"]["area"])
    assert "a" in table and "d" not in table and 0 not in table and list(table) == ["a", "b", "c"]
    assert table.row("c") == 2 and table.get("d") is None
    with pytest.raises(KeyError):
        table["d"]
    np.testing.assert_array_equal(table.values, [[1, 4], [2, 5], [np.nan, 6]])
    assert "3 keys (basin: str) × 2 columns" in repr(table)
    assert pickle.loads(pickle.dumps(table)) == table
    numbers = fb.Lookup(pd.DataFrame({"id": [7, -2], "x": [0.5, 1.5]}), "id", "x")
    assert numbers[np.int64(-2)] == {"x": 1.5} and 2**70 not in numbers and numbers.keys.dtype == np.int64
    assert pickle.loads(pickle.dumps(numbers)).keys.tolist() == [7, -2]


def test_a_named_index_of_a_frame_is_a_key():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["a", "b"], name="basin"))
    assert fb.Lookup(frame, "basin")["b"] == {"x": 2.0}


@pytest.mark.parametrize("seed", range(5))
def test_tables_joined_and_appended_equal_pandas(tmp_path, seed):
    rng = random.Random(seed)
    keys = [f"k_{i}" if seed % 2 else i * (1 if seed % 3 else 1000003) for i in range(300)]
    frames, paths = [], []
    for part in range(4):
        chosen = rng.sample(keys, rng.randrange(50, 250))
        columns = rng.sample(["p", "q", "r", "s"], rng.randrange(1, 4))
        # what two tables say of one key and column agrees: it follows from both
        frame = pd.DataFrame({"key": chosen, **{c: [float(hash((k, c)) % 1000) for k in chosen] for c in columns}})
        frame["note"] = "text"
        frames.append(frame.drop(columns="note"))
        path = tmp_path / f"{part}.{'csv' if part % 2 else 'parquet'}"
        frame.to_csv(path, index=False) if part % 2 else frame.to_parquet(path)
        paths.append(path)
    want = frames[0].set_index("key")
    for frame in frames[1:]:
        want = want.combine_first(frame.set_index("key"))
    table = fb.Lookup([fb.open(path) for path in paths], "key")
    got = pd.DataFrame(table.values, index=table.keys, columns=table.columns)
    pd.testing.assert_frame_equal(got.loc[want.index, want.columns], want, check_names=False)
    assert len(got) == len(want) and got.shape[1] == want.shape[1]


def test_wrong_tables_are_refused_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("id,p,name\nx,1,n\ny,2,n\n")
    (tmp_path / "b.csv").write_text("id,p\nx,3\n")
    with pytest.raises(fb.SchemaError, match="'p'"):
        fb.Lookup(tmp_path / "a.csv", "id", ["pp"])
    with pytest.raises(fb.UnsupportedError, match="column 'name' of type string"):
        fb.Lookup(tmp_path / "a.csv", "id", "name")
    with pytest.raises(fb.SchemaError):
        fb.Lookup(tmp_path / "a.csv", "gauge_id")
    with pytest.raises(fb.DataError, match="the key 'x' has 3 for column 'p' in row 0 of b.csv, and had 1 before"):
        fb.Lookup([tmp_path / "a.csv", tmp_path / "b.csv"], "id")
    assert fb.Lookup([tmp_path / "a.csv", tmp_path / "b.csv"], "id", first_wins=True)["x"] == {"p": 1.0}
    with pytest.raises(fb.DataError, match="the key 1 has 2 for column 'p', and had 1 before"):
        fb.Lookup({"id": [1, 1], "p": [1, 2]}, "id")
    assert fb.Lookup({"id": [1, 1], "p": [1, 2]}, "id", first_wins=True)[1] == {"p": 1.0}
    merged = fb.Lookup({"id": ["a", "b", "a"], "p": [1, 2, 1], "q": [None, 5, 4]}, "id")
    assert list(merged) == ["a", "b"] and merged["a"] == {"p": 1.0, "q": 4.0}
    for wrong in (float("nan"), float("inf")):
        for table in (tmp_path / "a.csv", {"id": [1], "p": [1]}):
            with pytest.raises(ValueError, match="fill_missing=.*finite"):
                fb.Lookup(table, "id", fill_missing=wrong)
    for option, wrong in (("fill_missing", True), ("first_wins", 5), ("threads", "x"), ("memory", True)):
        with pytest.raises(TypeError, match=option):
            fb.Lookup({"id": [1], "p": [1]}, "id", **{option: wrong})
    with pytest.raises(TypeError, match="all str or all int"):
        fb.Lookup({"id": [1, "a"], "p": [1, 2]}, "id")
    with pytest.raises(ValueError, match="differ in length"):
        fb.Lookup({"id": [1, 2], "p": [1]}, "id")
    with pytest.raises(fb.SchemaError, match="'q'.*did you mean 'p'"):
        fb.lookup(tmp_path / "a.csv", on="id", columns=["q"])
    with pytest.raises(TypeError, match="key=3: a column is named by a str, not int"):
        fb.Lookup(tmp_path / "a.csv", 3)


# ---- outputs, on random data ----


@pytest.fixture
def series(tmp_path):
    """Three files of rows with whole keys, the file's own name, and event numbers; as one frame in file order."""
    rng = np.random.default_rng(7)
    frames = []
    for name in ("b_10", "a_7", "c_3"):
        n = int(rng.integers(300, 900))
        frame = pd.DataFrame({
            "sensor": rng.integers(0, 500, n).astype("int16"),
            "event": np.sort(rng.integers(0, 60, n)) + 1000 * len(frames),
            "word": [f"w{i}" for i in rng.integers(0, 40, n)],
            "x": rng.normal(size=n).astype("float32"),
        })  # fmt: skip
        frame.to_parquet(tmp_path / f"{name}.parquet", row_group_size=200)
        frames.append(frame.assign(basin=name))
    frames = [frames[1], frames[0], frames[2]]  # sorted by name
    return str(tmp_path / "{basin}.parquet"), pd.concat(frames, ignore_index=True)


@pytest.fixture
def geometry():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"sensor": rng.permutation(500), **{c: rng.normal(size=500) for c in "xyz"}})


def test_values_beside_rows_equal_a_merge(series, geometry):
    path, frame = series
    places = frame.merge(geometry, on="sensor", how="left", suffixes=("_row", ""))[["z", "x", "y"]].to_numpy()
    words = {"word": [f"w{i}" for i in range(40)], "len": [float(i) for i in range(40)]}
    outputs = {
        "row": fb.sample_index(),
        "place": fb.lookup(geometry, on="sensor", columns=["z", "x", "y"]),
        "wide": fb.lookup(geometry, on="sensor", columns="x", dtype="float64"),
        "one": fb.lookup(geometry, on="sensor", columns=["y"]).cast("float16"),
        "len": fb.lookup(words, on="word", columns="len", dtype="int32"),
        "ids": fb.encode("word"),
    }
    samples, n = fb.open(path).rows(), 0
    with samples.loader(outputs, batch_size=64, memory="256MiB", framework="numpy") as loader:
        names = loader.outputs["ids"].names
        assert names == list(dict.fromkeys(frame["word"]))
        assert loader.outputs["place"].shape == (64, 3) and loader.outputs["one"].shape == (64, 1)
        for batch in loader:
            rows = batch["row"]
            equal(batch["place"], places[rows].astype("float32"))
            equal(batch["wide"], places[rows, 1])
            equal(batch["one"], places[rows, 2:].astype("float16"))
            equal(batch["len"], frame["word"][rows].str[1:].astype("int32").to_numpy())
            assert [names[i] for i in batch["ids"]] == frame["word"][rows].tolist() and batch["ids"].dtype == np.int64
            n += len(rows)
    assert n == len(frame)


def test_values_beside_the_rows_of_groups_and_windows_equal_a_merge(series, geometry):
    path, frame = series
    places = frame.merge(geometry, on="sensor", how="left", suffixes=("_row", ""))[["x", "y", "z"]].to_numpy().astype("float32")
    outputs = {
        "row": fb.row_index(),
        "n": fb.n_rows(),
        "place": fb.lookup(geometry, on="sensor", columns=["x", "y", "z"]),
        "first": fb.lookup(geometry, on="sensor", columns=["x", "y", "z"]).first(),
        "padded": fb.lookup(geometry, on="sensor", columns="y").padded(pad=-1),
        "basin": fb.lookup({"basin": ["a_7", "b_10", "c_3"], "v": [1, 2, 3]}, on="basin", columns=["v"]),
        "id": fb.encode("basin"),
    }
    ds = fb.open(path)
    for samples in (ds.groups("event"), ds.windows(20, 5, stride=3)):
        windows = samples.kind == "windows"
        if windows:
            del outputs["padded"]
            outputs["last"] = fb.lookup(geometry, on="sensor", columns=["x", "y", "z"]).at(24)
        seen = 0
        for batch in batches(samples, outputs):
            for i, (row, n) in enumerate(zip(batch["row"], batch["n"])):
                if windows:
                    equal(batch["place"][i], places[row : row + 25])
                    equal(batch["last"][i], places[row + 24])
                else:
                    begin, end = batch["place"].offsets[i : i + 2]
                    equal(batch["place"].values[begin:end], places[row : row + n])
                    equal(batch["padded"].values[i][:n], places[row : row + n, 1])
                    assert (batch["padded"].values[i][n:] == -1).all()
                equal(batch["first"][i], places[row])
                basin = frame["basin"][row]
                assert batch["basin"][i].tolist() == [{"a_7": 1, "b_10": 2, "c_3": 3}[basin]]
                assert ["a_7", "b_10", "c_3"][batch["id"][i]] == basin
                seen += 1
        assert seen == len(samples)


def test_keys_that_are_not_there_have_a_default_or_are_named(series, geometry):
    path, frame = series
    half = geometry[geometry["sensor"] < 250]
    want = frame.merge(half, on="sensor", how="left", suffixes=("_row", ""))["y"].fillna(-9).to_numpy().astype("float32")
    for batch in batches(fb.open(path).rows(), {"row": fb.sample_index(), "y": fb.lookup(half, on="sensor", columns="y", default=-9)}):
        equal(batch["y"], want[batch["row"]])
    with pytest.raises(fb.DataError, match=r"'y'.*the key \d+ is not in a table of 250 keys, 0 to 249"):
        list(batches(fb.open(path).rows(), {"y": fb.lookup(half, on="sensor", columns="y")}))
    with pytest.raises(fb.DataError, match=r"the key 'w\d+' is not in a table of 1 key, 'w0'"):
        list(batches(fb.open(path).rows(), {"i": fb.encode("word", ["w0"])}))
    for batch in batches(fb.open(path).rows(), {"row": fb.sample_index(), "i": fb.encode("word", ["w3", "w0"], default=7)}):
        equal(batch["i"], frame["word"][batch["row"]].map({"w3": 0, "w0": 1}).fillna(7).astype("int64").to_numpy())


def test_missing_keys_take_the_default():
    frame = pd.DataFrame({"k": pd.array([1, None, 3, 1], dtype="Int64"), "t": ["a", None, "b", "a"]})
    table = {"k": [1, 3], "v": [10, 30]}
    outputs = {"v": fb.lookup(table, on="k", columns="v", default=-1), "t": fb.encode("t"), "k": fb.encode("k")}
    (batch,) = batches(fb.open(frame).rows(), outputs, shuffle=False)
    assert batch["v"].tolist() == [10, -1, 30, 10]
    assert batch["t"].tolist() == [0, -1, 1, 0] and batch["k"].tolist() == [0, -1, 1, 0]
    with pytest.raises(fb.DataError, match="missing"):
        list(batches(fb.open(frame).rows(), {"v": fb.lookup(table, on="k", columns="v")}))


def test_names_of_ids_are_the_same_for_all_splits(series):
    path, frame = series
    ds = fb.open(path)
    want = list(dict.fromkeys(frame["word"]))
    assert fb.encode("word", ds).names == want == fb.encode("word", ds.rows()).names
    assert fb.encode("sensor", ds).names.tolist() == list(dict.fromkeys(frame["sensor"]))
    parts = ds.rows().split(train=0.4, test=0.6, by="files")
    for part in parts.values():
        with part.loader({"w": fb.encode("word")}, batch_size=8, memory="256MiB", framework="numpy") as loader:
            assert loader.outputs["w"].names == want
            assert loader.outputs["w"].dtype == "int64"
            assert pickle.loads(pickle.dumps(loader)).outputs["w"].names == want
    with pytest.raises(AttributeError, match="when a loader is made"):
        fb.encode("word").names
    with pytest.raises(AttributeError, match="only encoded columns have names"):
        fb.col("word").names


def test_specifications_that_cannot_be_are_refused_when_the_loader_is_made(series, geometry):
    path, _ = series
    ds = fb.open(path)

    def refuses(error, text, output, samples=None):
        with pytest.raises(error, match=text):
            (samples or ds.rows()).loader({"out": output}, batch_size=4, memory="256MiB")

    refuses(fb.UnsupportedError, "'out': column 'word' of type string cannot be found in a table of 500 keys", fb.lookup(geometry, on="word", key="sensor"))
    refuses(fb.UnsupportedError, "'out'.*its keys are strings", fb.encode("sensor", ["a", "b"]))
    refuses(fb.SchemaError, "sensr", fb.lookup(geometry, on="sensr", key="sensor"))
    refuses(fb.DataError, "which is not a value of int8", fb.lookup({"sensor": range(500), "v": [300] * 500}, on="sensor", columns="v", dtype="int8"))
    with pytest.raises(fb.UnsupportedError, match="column 'x'"):
        ds.rows().loader({"out": fb.encode("x")}, batch_size=4)
    with pytest.raises(ValueError, match="no column of numbers"):
        fb.lookup({"sensor": [1, 2]}, on="sensor")
    with pytest.raises(ValueError, match="cannot be computed with"):
        fb.lookup(geometry, on="sensor").scale(2)


def test_outputs_show_and_pickle(geometry):
    output = fb.lookup(geometry, on="sensor", columns=["x", "y"], default=0)
    assert repr(output) == "lookup(…, on='sensor', columns=['x', 'y'], default=0.0)"
    assert repr(fb.lookup(geometry, on="sensor", columns="x").first()).startswith("lookup(…, on='sensor', columns='x')")
    assert repr(fb.encode("word")) == "encode('word', default=-1.0)"
    assert pickle.loads(pickle.dumps(output)).make[1] == output.make[1]


# ---- real files ----


@pytest.mark.skipif(not CARAVAN.is_dir(), reason=f"no {CARAVAN}")
def test_caravan_s_attribute_files_are_one_table():
    frames = [pd.read_csv(path).set_index("gauge_id") for path in sorted(glob.glob(str(CARAVAN / "attributes_*.csv.gz")))]
    assert len(frames) == 6
    climate = pd.concat([f for f in frames if "p_mean" in f])
    land = pd.concat([f for f in frames if "p_mean" not in f])
    want = climate.join(land, how="outer").sort_index()
    table = fb.Lookup(str(CARAVAN / "attributes_*.csv.gz"), "gauge_id")
    got = pd.DataFrame(table.values, index=table.keys, columns=table.columns).sort_index()
    numbers = [c for c in want.columns if want[c].dtype.kind in "if"]
    assert set(numbers) == set(got.columns) and len(numbers) > 200
    pd.testing.assert_frame_equal(got[numbers], want[numbers].astype("float64"), check_names=False)

    names = ["p_mean", "ele_mt_smx", "aridity"]
    ds = fb.open(str(CARAVAN / "{gauge_id}.csv.gz"), ids=["camelsch_4001", "camelslx_054", "testde_2"])
    outputs = {"static": fb.lookup(table, on="gauge_id", columns=names), "name": fb.col("gauge_id").first(), "id": fb.encode("gauge_id", table)}
    seen = set()
    for batch in batches(ds.windows(365, 7, stride=11), outputs, batch_size=256):
        basins = batch["name"].to_list()
        equal(batch["static"], want.loc[basins, names].to_numpy().astype("float32"))
        assert [table.keys[i] for i in batch["id"]] == basins
        seen.update(basins)
    assert len(seen) == 3


@pytest.mark.skipif(not NEUTRINO.is_dir(), reason=f"no {NEUTRINO}")
def test_the_detector_s_geometry_is_found_for_every_pulse():
    geometry = NEUTRINO / "geometry" / "icecube86.parquet"
    frame = pd.read_parquet(geometry).reset_index(drop=True)
    columns = ["dom_x", "dom_y", "dom_z", "rde"]
    table = fb.Lookup(geometry, "sensor_id", columns)
    assert table.keys.tolist() == frame["sensor_id"].tolist()
    np.testing.assert_array_equal(table.values, frame[columns].to_numpy())
    rng = np.random.default_rng(3)
    pulses = pd.DataFrame({"event": np.sort(rng.integers(0, 500, 40_000)), "sensor_id": rng.choice(frame["sensor_id"], 40_000).astype("int16")})
    want = pulses.merge(frame[["sensor_id", *columns]], on="sensor_id", how="left")[columns].to_numpy().astype("float32")
    seen = 0
    for batch in batches(fb.open(pulses).groups("event"), {"row": fb.row_index(), "place": fb.lookup(table, on="sensor_id", columns=columns)}):
        for i, row in enumerate(batch["row"]):
            begin, end = batch["place"].offsets[i : i + 2]
            equal(batch["place"].values[begin:end], want[row : row + end - begin])
            seen += end - begin
    assert seen == 40_000


def test_what_is_found_by_the_key_of_groups_is_one_value_a_sample(tmp_path):
    np = pytest.importorskip("numpy")
    frame = {"g": [7, 7, 7, 3, 3, 9], "h": [1, 1, 1, 2, 2, 2], "k": [0, 1, 0, 1, 1, 0], "x": np.arange(6.0)}
    ds = fb.open(frame)
    table = fb.Lookup({"g": [3, 7, 9], "v": [30, 70, 90], "w": [1, 2, 3]}, "g")
    both = fb.Lookup({"g": [3, 7, 9], "h": [2, 1, 2], "v": [32, 71, 92]}, ["g", "h"])
    other = fb.Lookup({"k": [0, 1], "v": [5, 6]}, "k")
    mixed = fb.Lookup({"g": [3, 7, 7, 9], "k": [1, 0, 1, 0], "v": [31, 70, 71, 90]}, ["g", "k"])
    outputs = {
        "one": fb.lookup(table, on="g", columns="v"), "two": fb.lookup(table, on="g", columns=["v", "w"]), "place": fb.encode("g", [3, 7, 9]),
        "rows": fb.lookup(table, on="g", columns="v").ragged(), "padded": fb.lookup(table, on="g", columns="v").padded(),
        "most": fb.lookup(table, on="g", columns="v").ragged(2), "other": fb.lookup(other, on="k", columns="v"),
        "mixed": fb.lookup(mixed, on=["g", "k"], columns="v"),
    }  # fmt: skip

    def first(samples, outputs):
        with samples.loader(outputs, batch_size=8, shuffle=False, framework="numpy") as loader:
            return next(iter(loader)), loader

    batch, loader = first(ds.groups("g"), outputs)
    assert batch["one"].tolist() == [70, 30, 90] and batch["two"].tolist() == [[70, 2], [30, 1], [90, 3]] and batch["place"].tolist() == [1, 0, 2]
    assert loader.outputs["one"].shape == (8,) and loader.outputs["two"].shape == (8, 2) and not loader.outputs["one"].ragged
    assert batch["rows"].values.tolist() == [70, 70, 70, 30, 30, 90] and batch["rows"].offsets.tolist() == [0, 3, 5, 6]
    assert batch["padded"].mask.sum() == 6 and batch["padded"].values[0].tolist() == [70, 70, 70]
    assert batch["most"].offsets.tolist() == [0, 2, 4, 5]
    assert batch["other"].values.tolist() == [5, 6, 5, 6, 6, 5] and batch["mixed"].values.tolist() == [70, 71, 70, 31, 31, 90]
    batch, _ = first(ds.groups(["g", "h"]), {"one": fb.lookup(table, on="g", columns="v"), "both": fb.lookup(both, on=["g", "h"], columns="v"),
                                             "mixed": fb.lookup(mixed, on=["g", "k"], columns="v")})  # fmt: skip
    assert batch["one"].tolist() == [70, 30, 90] and batch["both"].tolist() == [71, 32, 92] and batch["mixed"].offsets.tolist() == [0, 3, 5, 6]
    with pytest.raises(fb.DataError, match="17"):
        first(fb.open({"g": [7, 7, 17]}).groups("g"), {"one": fb.lookup(table, on="g", columns="v")})
    with ds.groups("g").loader({"one": outputs["one"], "rows": outputs["rows"]}, batch_size=2) as loader:
        pass
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(frame), tmp_path / "a.parquet")
    (tmp_path / "p.yaml").write_text(
        "data: a.parquet\nsamples: {groups: g}\nlookups:\n  t: {paths: [t.parquet], key: g}\noutputs:\n"
        "  one: {lookup: t, on: g, columns: v}\n  rows: {lookup: t, on: g, columns: v, ragged: true}\nloader: {batch_size: 8, shuffle: none}\n"
    )
    pq.write_table(pa.table({"g": [3, 7, 9], "v": [30.0, 70.0, 90.0]}), tmp_path / "t.parquet")
    batch = next(iter(fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")))
    assert batch["one"].tolist() == [70, 30, 90] and batch["rows"].values.tolist() == [70, 70, 70, 30, 30, 90]
