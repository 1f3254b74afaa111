"""Lookups by a key of several columns: compared with pandas' merges value by value, in rows, groups and windows, in Python and in YAML."""

import pickle
import random

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from loader_compare import batches, equal  # noqa: E402


# ---- the table ----


def test_a_table_shows_its_keys_and_values():
    columns = {"site": ["a", "b", "a"], "year": np.array([2001, 2001, 2002], "uint16"), "p": [1.0, None, 3.0], "q": [4, 5, 6]}
    table = fb.Lookup(columns, ("site", "year"))
    assert (len(table), table.columns, table.key) == (3, ("p", "q"), ("site", "year"))
    assert table.keys == [("a", 2001), ("b", 2001), ("a", 2002)] == list(table)
    assert table["a", 2002] == {"p": 3.0, "q": 6.0} and table.row(("b", np.int32(2001))) == 1
    assert ("a", 2001) in table and table.get(("b", 2002)) is None
    for other in (("b", 2002), ("a", 2003), ("c", 2001), ("a",), "a", ("a", 2001, 1), ("a", "2001"), (2001, "a"), ["a", 2001], ("a", 2**80), ("a\0", 2001)):
        assert other not in table
    with pytest.raises(KeyError):
        table["b", 2002]
    assert "3 keys (site: str, year: int64) × 2 columns: p, q" in repr(table) and "('a', 2001): 1, 4" in repr(table)
    again = pickle.loads(pickle.dumps(table))
    assert again == table and again.key == table.key and again["a", 2002] == table["a", 2002]
    assert fb.Lookup(columns, ["year", "site"])[2002, "a"]["p"] == 3.0  # in the order in which they are named
    assert fb.Lookup({"site": ["a"], "p": [1]}, ["site"])["a"] == {"p": 1.0}  # a list of one is one
    frame = pd.DataFrame(columns).set_index(["site", "year"])
    assert fb.Lookup(frame, ["site", "year"], "q").keys == table.keys


@pytest.mark.parametrize("seed", range(6))
def test_tables_joined_and_appended_equal_pandas(tmp_path, seed):
    rng = random.Random(seed)
    sites = [f"s{i}" for i in range(12)] if seed % 2 else [i * (1 if seed % 3 else 10**9 + 7) for i in range(12)]
    keys = [(site, year, sensor) for site in sites for year in range(1990, 2000) for sensor in ("x", "yy", "")]
    frames, paths = [], []
    for part in range(4):
        chosen = rng.sample(keys, rng.randrange(50, 250))
        names = rng.sample(["p", "q", "r", "s"], rng.randrange(1, 4))
        frame = pd.DataFrame(chosen, columns=["site", "year", "sensor"]).astype({"year": "int16"})
        for name in names:  # what two tables say of one key and column agrees: it follows from both
            frame[name] = [float(hash((key, name)) % 1000) for key in chosen]
        frames.append(frame)
        paths.append(tmp_path / f"{part}.parquet")
        frame.assign(note="text").to_parquet(paths[-1])
    index = ["site", "year", "sensor"]
    want = frames[0].set_index(index)
    for frame in frames[1:]:
        want = want.combine_first(frame.set_index(index))
    for given in (tmp_path / "*.parquet", [fb.open(path) for path in paths]):
        table = fb.Lookup(given, index)
        got = pd.DataFrame(table.values, index=pd.MultiIndex.from_tuples(table.keys, names=index), columns=table.columns)
        assert len(got) == len(want) and got.shape[1] == want.shape[1]
        pd.testing.assert_frame_equal(got.loc[want.index, want.columns], want, check_index_type=False)


def test_wrong_tables_are_refused_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("site,year,p,name\nx,1,1,n\nx,2,2,n\n")
    (tmp_path / "b.csv").write_text("site,year,p\nx,2,3\n")
    (tmp_path / "c.csv").write_text("site,year,p\nx,one,3\n")
    (tmp_path / "gap.csv").write_text("site,year,p\nx,1,3\nx,,3\n")
    key = ["site", "year"]
    assert fb.Lookup(tmp_path / "a.csv", key).columns == ("p",)
    with pytest.raises(fb.DataError, match=r"the key \('x', 2\) has 3 for column 'p' in row 0 of b.csv, and had 2 before"):
        fb.Lookup([tmp_path / "a.csv", tmp_path / "b.csv"], key)
    assert fb.Lookup([tmp_path / "a.csv", tmp_path / "b.csv"], key, first_wins=True)["x", 2] == {"p": 2.0}
    with pytest.raises(fb.SchemaError, match="the key 'year' is a string in table 1 and a whole number in table 0"):
        fb.Lookup([fb.open(tmp_path / "a.csv"), fb.open(tmp_path / "c.csv")], key)
    with pytest.raises(fb.DataError, match="row 1 of gap.csv: the key 'year' is missing"):
        fb.Lookup(tmp_path / "gap.csv", key)
    with pytest.raises(fb.DataError, match=r"the key \('a', 1\) has 3 for column 'p', and had 1 before"):
        fb.Lookup({"s": ["a", "b", "a"], "y": [1, 1, 1], "p": [1, 2, 3]}, ["s", "y"])
    with pytest.raises(fb.SchemaError, match="'yaer'.*did you mean 'year'"):
        fb.Lookup(tmp_path / "a.csv", ["site", "yaer"])
    with pytest.raises(ValueError, match="the column 'site' comes twice in a key"):
        fb.Lookup(tmp_path / "a.csv", ["site", "site"])
    with pytest.raises(ValueError, match="at most 8 columns, not 9"):
        fb.Lookup(tmp_path / "a.csv", [f"k{i}" for i in range(9)])
    with pytest.raises(ValueError, match="1 to 8 columns, not 9"):
        fb.Lookup({f"k{i}": [1] for i in range(10)}, [f"k{i}" for i in range(9)])
    with pytest.raises(ValueError, match="columns differ in length: 's' has 2 rows, 'y' has 1"):
        fb.Lookup({"s": ["a", "b"], "y": [1]}, ["s", "y"])
    with pytest.raises(fb.SchemaError, match="no column 'z'"):
        fb.Lookup({"s": ["a", "b"], "y": [1, 2]}, ["s", "z"])
    with pytest.raises(ValueError, match="at least one column"):
        fb.Lookup(tmp_path / "a.csv", [])
    with pytest.raises(TypeError, match="a column is named by a str, not int"):
        fb.Lookup(tmp_path / "a.csv", ["site", 3])


# ---- outputs ----


@pytest.fixture
def series(tmp_path):
    """Three files, one a site: events of several rows, each row with a sensor and a year; as one frame in file order."""
    rng = np.random.default_rng(7)
    frames = []
    for name in ("b_10", "a_7", "c_3"):
        n = int(rng.integers(300, 900))
        frame = pd.DataFrame({
            "sensor": rng.integers(0, 90, n).astype("int16"),
            "year": rng.integers(2000, 2009, n).astype("float32"),
            "event": np.sort(rng.integers(0, 60, n)) + 1000 * len(frames),
            "word": [f"w{i}" for i in rng.integers(0, 7, n)],
        })  # fmt: skip
        (tmp_path / "data").mkdir(exist_ok=True)
        frame.to_parquet(tmp_path / f"data/{name}.parquet", row_group_size=200)
        frames.append(frame.assign(site=name))
    frames = [frames[1], frames[0], frames[2]]  # sorted by name
    return str(tmp_path / "data/{site}.parquet"), pd.concat(frames, ignore_index=True)


@pytest.fixture
def yearly():
    """Every site, year and sensor, in no order."""
    rng = np.random.default_rng(1)
    keys = [(site, year, sensor) for site in ("a_7", "b_10", "c_3") for year in range(2000, 2009) for sensor in range(90)]
    frame = pd.DataFrame(keys, columns=["station", "year", "sensor"])
    for name in "xyz":
        frame[name] = rng.normal(size=len(frame))
    return frame.sample(frac=1, random_state=3, ignore_index=True)


def merged(frame, table, on, key, columns, default=None):
    """What pandas merges, as float32, in the rows' order."""
    found = frame.merge(table[[*key, *columns]], left_on=on, right_on=key, how="left", suffixes=("", "_table"))
    assert len(found) == len(frame)
    values = found[columns].to_numpy()
    return (values if default is None else np.nan_to_num(values, nan=default)).astype("float32")


KEY, ON = ["station", "year", "sensor"], ["site", "year", "sensor"]


def test_values_beside_rows_equal_a_merge(series, yearly):
    path, frame = series
    want = merged(frame, yearly, ON, KEY, ["z", "x"])
    words = pd.DataFrame({"word": [f"w{i % 7}" for i in range(21)], "site": np.repeat(["a_7", "b_10", "c_3"], 7), "n": range(21)})
    pairs = yearly.drop_duplicates(["sensor", "year"])
    outputs = {
        "row": fb.sample_index(),
        "two": fb.lookup(yearly, on=ON, key=KEY, columns=["z", "x"]),
        "bare": fb.lookup(fb.Lookup(yearly, KEY), on=ON, columns="z"),
        "numbers": fb.lookup(pairs, on=("sensor", "year"), columns=["y"]),  # without a string; found by the sensor first
        "texts": fb.lookup(words, on=["word", "site"], columns="n", dtype="int32"),
    }
    numbers = merged(frame, pairs, ["sensor", "year"], ["sensor", "year"], ["y"])
    texts = merged(frame, words, ["word", "site"], ["word", "site"], ["n"])[:, 0].astype("int32")
    seen = 0
    for batch in batches(fb.open(path).rows(), outputs):
        rows = batch["row"]
        equal(batch["two"], want[rows])
        equal(batch["bare"], want[rows, 0])
        equal(batch["numbers"], numbers[rows])
        equal(batch["texts"], texts[rows])
        seen += len(rows)
    assert seen == len(frame)


def test_values_beside_the_rows_of_groups_and_windows_equal_a_merge(series, yearly):
    path, frame = series
    want = merged(frame, yearly, ON, KEY, ["x", "y"])
    pairs = yearly.drop_duplicates(["sensor", "year"])
    numbers = merged(frame, pairs, ["sensor", "year"], ["sensor", "year"], ["z"])
    words = pd.DataFrame({"word": [f"w{i % 7}" for i in range(21)], "site": np.repeat(["a_7", "b_10", "c_3"], 7), "n": range(21)})
    texts = merged(frame, words, ["word", "site"], ["word", "site"], ["n"])
    # a string of a key that has numbers too is the one of the sample's first row, for all of its rows
    odd = pd.DataFrame([(f"w{i}", sensor, i * 100 + sensor) for i in range(7) for sensor in range(90)], columns=["word", "sensor", "v"])
    table = fb.Lookup(yearly, KEY)
    outputs = {
        "row": fb.row_index(),
        "n": fb.n_rows(),
        "all": fb.lookup(table, on=ON, columns=["x", "y"]),
        "first": fb.lookup(table, on=ON, columns=["x", "y"]).first(),
        "padded": fb.lookup(table, on=ON, columns="y").padded(pad=-1),
        "numbers": fb.lookup(pairs, on=["sensor", "year"], columns="z"),
        "texts": fb.lookup(words, on=["word", "site"], columns=["n"]),
        "odd": fb.lookup(odd, on=["word", "sensor"], columns="v"),
    }
    ds = fb.open(path)
    for samples in (ds.groups("event"), ds.windows(20, 5, stride=3)):
        windows = samples.kind == "windows"
        if windows:
            del outputs["padded"]
            outputs["last"] = fb.lookup(table, on=ON, columns="x").at(24)
            outputs["steps"] = fb.lookup(table, on=ON, columns="x").steps(3, 20)
        seen = 0
        for batch in batches(samples, outputs):
            for i, (row, n) in enumerate(zip(batch["row"], batch["n"])):
                rows = slice(row, row + n)
                word_odd = int(frame["word"][row][1:]) * 100 + frame["sensor"][rows].to_numpy().astype("float32")
                if windows:
                    equal(batch["all"][i], want[rows])
                    equal(batch["last"][i], want[row + 24, 0])
                    equal(batch["steps"][i], want[row + 3 : row + 20, 0])
                    equal(batch["numbers"][i], numbers[rows, 0])
                    equal(batch["odd"][i], word_odd)
                else:
                    begin, end = batch["all"].offsets[i : i + 2]
                    equal(batch["all"].values[begin:end], want[rows])
                    equal(batch["numbers"].values[begin:end], numbers[rows, 0])
                    equal(batch["odd"].values[begin:end], word_odd)
                    equal(batch["padded"].values[i][:n], want[rows, 1])
                    assert (batch["padded"].values[i][n:] == -1).all()
                equal(batch["first"][i], want[row])
                equal(batch["texts"][i], texts[row])
                seen += 1
        assert seen == len(samples)


def test_rows_drawn_of_long_groups_have_their_own_values(series, yearly):
    path, frame = series
    want = merged(frame, yearly, ON, KEY, ["x"])[:, 0]
    sensor = frame["sensor"].to_numpy().astype("float32")
    outputs = {"row": fb.row_index(), "n": fb.n_rows(), "x": fb.lookup(yearly, on=ON, key=KEY, columns="x").ragged(4), "s": fb.col("sensor").ragged(4)}
    longer = 0
    for batch in batches(fb.open(path).groups("event"), outputs):
        for i, (row, n) in enumerate(zip(batch["row"], batch["n"])):
            begin, end = batch["x"].offsets[i : i + 2]
            drawn = list(zip(batch["s"].values[begin:end].astype("float32"), batch["x"].values[begin:end], strict=True))
            in_order = iter(zip(sensor[row : row + n], want[row : row + n]))
            assert len(drawn) == min(n, 4) and all(pair in in_order for pair in drawn)
            longer += n > 4
    assert longer > 10


def test_keys_that_are_not_there_have_a_default_or_are_named(series, yearly):
    path, frame = series
    half = yearly[yearly["year"] < 2005]
    want = merged(frame, half, ON, KEY, ["y"], default=-9)[:, 0]
    assert (want == -9).any() and (want != -9).any()
    ds = fb.open(path)
    for batch in batches(ds.rows(), {"row": fb.sample_index(), "y": fb.lookup(half, on=ON, key=KEY, columns="y", default=-9)}):
        equal(batch["y"], want[batch["row"]])
    for batch in batches(ds.groups("event"), {"row": fb.row_index(), "n": fb.n_rows(), "y": fb.lookup(half, on=ON, key=KEY, columns="y", default=-9)}):
        for i, (row, n) in enumerate(zip(batch["row"], batch["n"])):
            equal(batch["y"].values[slice(*batch["y"].offsets[i : i + 2])], want[row : row + n])
    for samples in (ds.rows(), ds.groups("event")):
        with pytest.raises(fb.DataError,
                           match=r"'y'.*the key \('\w+', 200[5-8], \d+\) is not in a table of 1350 keys, from \('.*a default would stand in for it"):
            list(batches(samples, {"y": fb.lookup(half, on=ON, key=KEY, columns="y")}))


def test_missing_keys_take_the_default():
    frame = pd.DataFrame({"k": pd.array([1, None, 3, 1], dtype="Int64"), "t": ["a", "a", None, "a"]})
    table = {"k": [1, 3], "t": ["a", "b"], "v": [10, 30]}
    (batch,) = batches(fb.open(frame).rows(), {"v": fb.lookup(table, on=["k", "t"], columns="v", default=-1)}, shuffle=False)
    assert batch["v"].tolist() == [10, -1, -1, 10]
    with pytest.raises(fb.DataError, match=r"the key \(missing, 'a'\) is missing a value, and there is no default"):
        list(batches(fb.open(frame).rows(), {"v": fb.lookup(table, on=["k", "t"], columns="v")}, shuffle=False))


def test_specifications_that_cannot_be_are_refused(series, yearly):
    path, _ = series
    ds = fb.open(path)
    table = fb.Lookup(yearly, KEY)

    def refuses(error, text, output):
        with pytest.raises(error, match=text):
            ds.groups("event").loader({"out": output}, batch_size=4, memory="256MiB")

    with pytest.raises(ValueError, match=r"on=\['site', 'year'\]: 2 column\(s\) for a key of 3, \('station', 'year', 'sensor'\)"):
        fb.lookup(table, on=["site", "year"])
    with pytest.raises(ValueError, match="on='site': 1 column"):
        fb.lookup(table, on="site")
    with pytest.raises(TypeError, match="named by a str, not int"):
        fb.lookup(table, on=["site", 1, "year"])
    text = "'out': column 'year' of type float32 cannot be found in a table of 2430 keys, from .*: column 1 of its key holds strings"
    refuses(fb.UnsupportedError, text, fb.lookup(table, on=["year", "site", "sensor"]))
    refuses(fb.SchemaError, "sensr", fb.lookup(table, on=["site", "year", "sensr"]))
    positions = fb.group_channels(key="sensor", order="year", features=["year"], first_rows=1, max_groups=4, positions=table)
    refuses(fb.ArgumentError, "'out'.*the key of the table of positions has 3 columns, and a table with a key of one is needed", positions)
    assert repr(fb.lookup(table, on=ON, columns="x")) == "lookup(…, on=['site', 'year', 'sensor'], columns='x')"


# ---- pipeline files ----

PIPELINE = """\
version: 1
data: {paths: "data/{site}.parquet"}
samples: {groups: event}
lookups:
  yearly: {paths: yearly.csv, key: [station, year, sensor]}
  few: {keys: [[w0, 2003], [w1, 2004], [w2, 2005]], columns: [v], values: [[1], [2], [4]]}
outputs:
  row: {from: row_index}
  all: {lookup: yearly, on: [site, year, sensor], columns: [x, z]}
  first: {lookup: yearly, on: [site, year, sensor], columns: y, first: true}
  few: {lookup: few, on: [word, year], columns: v, default: 0, first: true}
  place: {lookup: few, on: [word, year], columns: [], default: -1, first: true}
loader: {batch_size: 16}
"""


def test_a_pipeline_file_gives_the_batches_of_python(series, yearly, tmp_path):
    path, frame = series
    yearly.to_csv(tmp_path / "yearly.csv", index=False)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    pipeline = fb.pipeline(tmp_path / "p.yaml")
    few = fb.Lookup({"word": ["w0", "w1", "w2"], "year": [2003, 2004, 2005], "v": [1, 2, 4]}, ["word", "year"])
    outputs = {
        "row": fb.row_index(),
        "all": fb.lookup(tmp_path / "yearly.csv", on=ON, key=KEY, columns=["x", "z"]),
        "first": fb.lookup(tmp_path / "yearly.csv", on=ON, key=KEY, columns="y").first(),
        "few": fb.lookup(few, on=["word", "year"], columns="v", default=0).first(),
    }
    mine = fb.open(path).groups("event").loader(outputs, batch_size=16, framework="numpy")
    mine.to_yaml(tmp_path / "written.yaml")
    loaders = [pipeline.loader(framework="numpy"), fb.pipeline(tmp_path / "written.yaml").loader(framework="numpy")]
    assert loaders[0].outputs["place"].names == [("w0", 2003), ("w1", 2004), ("w2", 2005)]
    found = 0
    for want, *others in zip(mine, *loaders, strict=True):
        for got in others:
            for name in outputs:
                a, b = (t.values if hasattr(t, "values") else t for t in (want[name], got[name]))
                equal(b, a)
        for row, place in zip(others[0]["row"], others[0]["place"]):
            key = (frame["word"][row], int(frame["year"][row]))
            assert place == (few.row(key) if key in few else -1)
            found += key in few
    assert found > 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("on: [site, year, sensor], columns: [x, z]", "on: [site, year], columns: [x, z]",
         r"p.yaml:9:\d+: output 'all': on: 2 columns for the key of the lookup 'yearly', which has 3"),
        ("key: [station, year, sensor]", "key: station, first_wins: true", "output 'all': on: 3 columns for the key of the lookup 'yearly', which has 1"),
        ("[w1, 2004]", "[w1]", "p.yaml:6:28: lookup 'few': keys: all have as many columns as the first one"),
        ("[w1, 2004]", "w1", "all have as many columns as the first one"),
        ("[w1, 2004]", "[w1, w4]", "keys: all are texts or all are whole numbers, in each column of the key"),
        ("[w1, 2004]", "[w0, 2003]", r"lookup 'few'.*the key \('w0', 2003\) comes twice, in rows 0 and 1"),
        ("[[w0, 2003], [w1, 2004], [w2, 2005]]", "[[], [], []]", "a key has 1 to 8 columns, not 0"),
        ("key: [station, year, sensor]", "key: [a, b, c, d, e, f, g, h, i]", "p.yaml:5:36: lookup 'yearly': a key has at most 8 columns"),
        ("key: [station, year, sensor]", "key: []", "lookup 'yearly': key is missing"),
        ("on: [word, year], columns: v", "on: [], columns: v", "output 'few': on is missing"),
    ],
)  # fmt: skip
def test_pipeline_files_that_cannot_be_are_refused_with_their_place(series, yearly, tmp_path, before, after, message):
    yearly.to_csv(tmp_path / "yearly.csv", index=False)
    assert PIPELINE.count(before) == 1
    (tmp_path / "p.yaml").write_text(PIPELINE.replace(before, after))
    with pytest.raises(fb.Error, match=message):
        fb.pipeline(tmp_path / "p.yaml").loader()


@pytest.mark.skipif(not (DATA / "neutrino" / "prometheus_merged").is_dir(), reason="no ../shared/data/neutrino/prometheus_merged")
def test_real_pulses_find_their_sensor_by_string_and_number():
    """Prometheus gives a string and a sensor: the position beside each pulse is the one that the pair finds."""
    source = str(DATA / "neutrino" / "prometheus_merged" / "total" / "*.parquet")
    keys, columns = ["sensor_string_id", "sensor_id"], ["sensor_pos_x", "sensor_pos_y", "sensor_pos_z"]
    with fb.open(source) as ds:
        pulses = pd.concat(pd.read_parquet(f.path) for f in ds.files)
        sensors = pulses.groupby(keys)[columns].first().reset_index()
        table = {name: sensors[name].to_numpy() for name in sensors}
        outputs = {"beside": fb.col(*columns, dtype="float32"), "found": fb.lookup(table, on=keys, columns=columns)}
        n = 0
        for batch in batches(ds.groups("event_no"), outputs):
            np.testing.assert_array_equal(batch["found"].values, batch["beside"].values)
            n += len(batch["found"].values)
        assert n == len(pulses)
        short = {name: values[5:] for name, values in table.items()}
        with pytest.raises(fb.DataError, match=r"output 'found'.*the key \(\d+, \d+\) is not in a table of \d+ keys"):
            list(batches(ds.groups("event_no"), {"found": fb.lookup(short, on=keys, columns=columns)}))
