"""Pipeline files: what they open, what is refused and where, and that a loader that is written reads back as the same loader."""

import json
import pickle

import pytest

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import forebay as fb

PIPELINE = """version: 1
data:
  paths: data/{gauge_id}.parquet
samples:
  windows: {input: 30, output: 5, time: date, step: 1 day, drop_missing: flow}
splits: {train: 0.7, val: 0.15, test: 0.15, by: time}
lookups:
  attributes: {paths: attributes.csv, key: gauge_id}
moments:
  basins: {columns: [prcp, tmax], split: train}
  each: {columns: [tmax, prcp], split: train, by: gauge_id}
outputs:
  x: {columns: &forcings [prcp, tmax], steps: [0, 30], ops: [standardize: basins, clip: [-5, 5]], dtype: float32}
  z: {columns: *forcings, steps: [0, 30], standardize: each}
  y: {columns: flow, steps: [30, 35], ops: [log1p]}
  static: {lookup: attributes, on: gauge_id, columns: [slope, area], at: 0}
  gauge: {columns: gauge_id, first: true}
  i: {from: sample_index}
loader: {batch_size: 64, seed: 1, memory: 256MiB}
"""


@pytest.fixture
def basins(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    (tmp_path / "data").mkdir()
    for i in range(5):
        n = 300 + 10 * i
        frame = pd.DataFrame(
            {
                "date": pd.date_range("2000-01-01", periods=n),
                "prcp": rng.gamma(1, 3, n).astype("f4"),
                "tmax": rng.normal(15, 8, n).astype("f4"),
                "flow": rng.gamma(2, 1, n),
            }
        )
        frame.loc[50 + i, "flow"] = np.nan
        frame.to_parquet(tmp_path / f"data/g{i}.parquet")
        rows.append((f"g{i}", 100.0 + i, 0.1 * i))
    pd.DataFrame(rows, columns=["gauge_id", "area", "slope"]).to_csv(tmp_path / "attributes.csv", index=False)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return tmp_path


def values(loader):
    """Every batch as plain arrays."""
    out = []
    for batch in loader:
        plain = {}
        for name, value in batch.items():
            parts = [value] if isinstance(value, np.ndarray) else value._parts()
            plain[name] = [np.asarray(part).copy() for part in parts]
        out.append(plain)
    return out


def assert_equal(a, b):
    a, b = values(a), values(b)
    assert len(a) == len(b) > 1
    for x, y in zip(a, b):
        assert list(x) == list(y)
        for name in x:
            for left, right in zip(x[name], y[name], strict=True):
                np.testing.assert_array_equal(left, right, err_msg=name)


def by_hand(basins):
    ds = fb.open(str(basins / "data/{gauge_id}.parquet"))
    samples = ds.windows(30, 5, time="date", step=np.timedelta64(1, "D"), drop_missing="flow")
    train = samples.split(train=0.7, val=0.15, test=0.15, by="time")["train"]
    moments = fb.fit(train, ["prcp", "tmax"])
    each = fb.fit(train, ["prcp", "tmax"], by="gauge_id")
    attributes = fb.Lookup(str(basins / "attributes.csv"), "gauge_id")
    outputs = {
        "x": fb.col("prcp", "tmax", dtype="float32").steps(0, 30).standardize(moments).clip(-5, 5),
        "z": fb.col("prcp", "tmax").steps(0, 30).standardize(each, by="gauge_id"),
        "y": fb.col("flow").steps(30, 35).log1p(),
        "static": fb.lookup(attributes, "gauge_id", ["slope", "area"]).at(0),
        "gauge": fb.col("gauge_id").first(),
        "i": fb.sample_index(),
    }
    return train.loader(outputs, batch_size=64, seed=1, memory="256MiB", framework="numpy")


def test_a_pipeline_gives_what_the_same_words_in_python_give(basins, monkeypatch):
    monkeypatch.chdir("/")  # paths are relative to the file
    pipeline = fb.pipeline(basins / "p.yaml")
    assert pipeline.splits == ("train", "val", "test")
    assert len(pipeline.dataset) == 5 * 300 + 100
    assert pipeline.samples.kind == "windows" and pipeline["train"].max_rows == 35
    assert len(pipeline["train"]) < len(pipeline.samples)
    assert list(pipeline.outputs) == ["x", "z", "y", "static", "gauge", "i"]
    assert pipeline.options == {"batch_size": 64, "seed": 1, "memory": "256MiB"}
    assert_equal(pipeline.loader("train", framework="numpy"), by_hand(basins))
    assert_equal(pipeline["train"].loader(framework="numpy"), by_hand(basins))


def test_what_is_given_takes_the_place_of_the_files(basins):
    pipeline = fb.pipeline(basins / "p.yaml", {"loader.batch_size": 7, "outputs.x.columns": ["tmax", "prcp"], "loader.split": "val"})
    batch = next(iter(pipeline.loader(framework="numpy", seed=5)))
    assert batch["x"].shape == (7, 30, 2)
    more = pipeline["val"].loader({"a": pipeline.outputs["y"], "b": "flow"}, batch_size=3, framework="numpy")
    batch = next(iter(more))
    np.testing.assert_allclose(batch["a"], np.log1p(batch["b"][:, 30:]))
    with pytest.raises(TypeError, match="needs a name"):
        pipeline["val"].loader(pipeline.outputs["y"])


def test_ids_have_their_names(basins):
    lookups = "\nlookups:\n  basins: {distinct: gauge_id}\n  listed: {keys: [g4, g3, g2, g1, g0]}\n"
    outputs = (
        "outputs:\n  of_data: {lookup: basins, on: gauge_id, columns: [], first: true}\n"
        "  of_list: {lookup: listed, on: gauge_id, columns: [], first: true}\n"
        "  gauge: {columns: gauge_id, first: true}\n  static: {lookup: attributes, on: gauge_id, first: true}\n"
    )
    text = PIPELINE.replace("\nlookups:\n", lookups, 1)
    (basins / "p.yaml").write_text(text[: text.index("outputs:\n")] + outputs + text[text.index("loader:") :])
    pipeline = fb.pipeline(basins / "p.yaml")
    loader = pipeline.loader("train", framework="numpy")
    names = {name: info.names for name, info in loader.outputs.items()}
    assert names == {"of_data": [f"g{i}" for i in range(5)], "of_list": [f"g{4 - i}" for i in range(5)], "gauge": None, "static": None}
    for batch in loader:
        gauges = batch["gauge"].to_list()
        assert [names["of_data"][i] for i in batch["of_data"]] == gauges == [names["of_list"][i] for i in batch["of_list"]]
    mine = pipeline["train"].loader({"renamed": pipeline.outputs["of_data"], "own": fb.encode("gauge_id").first()}, batch_size=4, framework="numpy")
    assert mine.outputs["renamed"].names == mine.outputs["own"].names == names["of_data"]
    assert pickle.loads(pickle.dumps(loader)).outputs["of_list"].names == names["of_list"]


def test_a_transform_is_tried_when_a_pipelines_loader_is_made(basins):
    pipeline = fb.pipeline(basins / "p.yaml")
    with pytest.raises(fb.ArgumentError, match=r"transform .*<lambda> fails on the first batch .*KeyError: 'target'.*static float32 \(64, 2\)"):
        pipeline.loader("train", framework="numpy", transform=lambda batch: batch["target"])
    assert len(pipeline.loader("train", framework="numpy", transform=lambda batch: batch["target"], check=False)) > 1


def test_dates_choose_samples_and_are_written(basins):
    text = """data: data/{gauge_id}.parquet
samples: {rows: true, select: {column: date, low: 2000-02-10, high: "2000-05-01T00:00"}}
splits:
  by: date
  train: [2000-02-11, 2000-03-01]
  val: {keys: [2000-04-30], select: {column: date, values: [2000-04-30]}}
outputs: {date: date, prcp: prcp}
loader: {batch_size: 7, shuffle: false}
"""
    (basins / "p.yaml").write_text(text)
    pipeline = fb.pipeline(basins / "p.yaml")

    def dates(loader):
        unit = pipeline.dataset.schema["date"].unit
        return np.concatenate([b["date"] for b in loader]).astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(str).tolist()

    all_days = np.arange("2000-02-10", "2000-05-01", dtype="datetime64[D]").astype(str).tolist()
    assert dates(pipeline.samples.loader(framework="numpy")) == all_days * 5
    assert dates(pipeline.loader("train", framework="numpy")) == ["2000-02-11", "2000-03-01"] * 5
    assert dates(pipeline.loader("val", framework="numpy")) == ["2000-04-30"] * 5
    rows = fb.open(str(basins / "data/{gauge_id}.parquet")).rows().select("date", low="2000-02-10", high="2000-02-20")
    rows.select("date", values=["2000-02-12", "2000-02-13"]).loader(["date"], batch_size=3, shuffle=False).to_yaml(basins / "w.yaml")
    assert dates(fb.pipeline(basins / "w.yaml").loader(framework="numpy")) == ["2000-02-12", "2000-02-13"] * 5
    for old, new, message in (
        ("2000-02-10", "2000-02-30", r"p\.yaml:2:51: select: low: a number, or a date .* is expected, not the text '2000-02-30'"),
        ("2000-02-10", "[1]", r"p\.yaml:2:51: select: low: a number is expected"),
    ):
        (basins / "p.yaml").write_text(text.replace(old, new, 1))
        with pytest.raises(ValueError, match=message):
            fb.pipeline(basins / "p.yaml")
    (basins / "p.yaml").write_text(text.replace("column: date, low", "column: prcp, low", 1))
    with pytest.raises(ValueError, match=r"p\.yaml:2:31: select: 'prcp' holds plain numbers, and '2000-02-10' is a text"):
        fb.pipeline(basins / "p.yaml").samples


@pytest.mark.parametrize(
    "stored",
    [
        json.dumps({"none": 0, "drip": 3, "burst": 2}),
        json.dumps({"0": "none", "3": "drip", "2": "burst"}),
        json.dumps(["none", "x", "burst", "drip"]),
        ["none", "x", "burst", "drip"],
    ],
)
def test_class_names_of_the_file_make_a_map(tmp_path, stored):
    h5py = pytest.importorskip("h5py")
    number = np.random.default_rng(3).choice([0, 2, 3], 200).astype("i4")
    names = {0: "none", 2: "burst", 3: "drip"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["number"] = number
        file["name"] = np.array([names[n] for n in number.tolist()], dtype="S8")
        file.attrs["labels_json"] = stored
        file.attrs["other"] = 1.5
    text = """data: a.h5
outputs:
  plain: {columns: name, map: {class_map: true}}
  merged: {columns: number, map: {class_map: labels_json, classes: {quiet: [none], leak: [drip, burst]}}}
  numbered: {columns: number, map: {class_map: labels_json, classes: {none: 5, drip: 6}, default: -1}}
  number: number
loader: {batch_size: 64, seed: 2}
"""
    (tmp_path / "p.yaml").write_text(text)
    ds = fb.open(tmp_path / "a.h5")
    by_hand = {
        "plain": fb.col("name").map(fb.class_map(ds)),
        "merged": fb.col("number").map(fb.class_map(ds, {"quiet": ["none"], "leak": ["drip", "burst"]})),
        "numbered": fb.col("number").map(fb.class_map(ds, {"none": 5, "drip": 6}), default=-1),
        "number": "number",
    }
    loader = fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")
    assert_equal(loader, ds.rows().loader(by_hand, batch_size=64, seed=2, framework="numpy"))
    for batch in loader:
        np.testing.assert_array_equal(batch["plain"], batch["number"])
        np.testing.assert_array_equal(batch["merged"], batch["number"] > 0)
        np.testing.assert_array_equal(batch["numbered"], np.select([batch["number"] == 0, batch["number"] == 3], [5, 6], -1))
    loader.set_epoch(0)
    loader.to_yaml(tmp_path / "w.yaml")
    assert_equal(fb.pipeline(tmp_path / "w.yaml").loader(framework="numpy"), loader)
    for old, new, line, at, message in (
        ("[none]", "[quiet]", 3, "quiet]", r"output 'merged': map: classes: the data have no class 'quiet' \(attribute labels_json\)"),
        ("[none]", "[drip]", 3, "drip, burst", r"output 'merged': map: classes: 'drip' is merged into two"),
        ("[none]", "none", 3, "none", r"output 'merged': map: classes: quiet: a list of names, or a whole number is expected"),
        ("labels_json, classes: {q", "labels_jsn, classes: {q", 3, "labels_jsn", r"output 'merged': the first file has no attribute 'labels_jsn': did you"),
        ("labels_json, classes: {q", "other, classes: {q", 3, "other", r"output 'merged': the attribute 'other' is float64"),
        ("class_map: true", "class_map: true, values: [a]", 2, "{class_map", r"output 'plain': map: class_map is read from the data"),
        ("class_map: true", "classes: {a: 1}", 2, "{a", r"output 'plain': map: classes are made of the names of class_map"),
    ):
        wrong = text.replace(old, new, 1)
        (tmp_path / "p.yaml").write_text(wrong)
        with pytest.raises(ValueError, match=rf"p\.yaml:{line + 1}:{wrong.splitlines()[line].index(at) + 1}: {message}"):
            fb.pipeline(tmp_path / "p.yaml").loader()


def test_what_is_no_path_is_refused_by_name():
    for given, name in ((5, "int: 5"), (b"p.yaml", "bytes"), (None, "NoneType"), ({"data": {}}, "dict")):
        with pytest.raises(TypeError, match=f"takes the path of a YAML file, a str or os.PathLike, not {name}"):
            fb.pipeline(given)
    with pytest.raises(TypeError, match="overrides= is a mapping.* not list"):
        fb.pipeline("p.yaml", ["loader.batch_size=4"])
    with pytest.raises(TypeError, match="cache_dir: a path is a str or os.PathLike, not int"):
        fb.pipeline("p.yaml", cache_dir=5)


def test_pipelines_samples_and_loaders_pickle(basins):
    pipeline = fb.pipeline(basins / "p.yaml", {"loader.batch_size": 9})
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.options["batch_size"] == 9
    samples = pickle.loads(pickle.dumps(pipeline["test"]))
    assert len(samples) == len(pipeline["test"])
    loader = pipeline.loader("train", framework="numpy")
    assert_equal(pickle.loads(pickle.dumps(loader)), loader)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("columns: flow,", "colums: flow,", r"p\.yaml:15:7: output 'y': unknown key 'colums': did you mean 'columns'\?"),
        ("batch_size: 64", "batch_size: many", r"p\.yaml:19:22: loader: batch_size: a whole number is expected, not the text 'many'"),
        ("1 day", "1 month", r"p\.yaml:5:53: windows: step: '1 month' is no duration"),
        ("split: train}", "split: training}", r"moments 'basins': there is no split 'training'"),
        ("by: time}", "by: time, seed: -1}", r"p\.yaml:6:61: splits: seed: -1 is below 0"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(basins, old, new, message):
    (basins / "p.yaml").write_text(PIPELINE.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        fb.pipeline(basins / "p.yaml")


def test_errors_of_the_data_name_the_place_in_the_file(basins):
    (basins / "p.yaml").write_text("data: data\noutputs:\n  x: flow\n  y: flo\nloader: {batch_size: 4}\n")
    with pytest.raises(fb.SchemaError, match=r"p\.yaml:4:3: output 'y'"):
        fb.pipeline(basins / "p.yaml").loader()
    (basins / "p.yaml").write_text("data: {paths: dta}\n")
    with pytest.raises(FileNotFoundError, match=r"p\.yaml:1:7: data: "):
        fb.pipeline(basins / "p.yaml").dataset
    with pytest.raises(ValueError, match="batch_size is missing"):
        fb.pipeline(basins / "p.yaml", {"data.paths": "data"}).loader()
    (basins / "p.yaml").write_text("a: [\n")
    with pytest.raises(fb.FormatError, match=r"p\.yaml:2:1: no valid YAML"):
        fb.pipeline(basins / "p.yaml")
    with pytest.raises(FileNotFoundError):
        fb.pipeline(basins / "nothing.yaml")


def test_a_split_has_to_be_named_where_there_are_some(basins):
    pipeline = fb.pipeline(basins / "p.yaml")
    with pytest.raises(ValueError, match="which split"):
        pipeline.loader()
    with pytest.raises(ValueError, match="no split 'dev': there are train, val, test"):
        pipeline.loader("dev")
    with pytest.raises(ValueError, match="as the file says"):
        pipeline["train"].limit(3)
    (basins / "q.yaml").write_text(PIPELINE.replace("loader: {", "loader: {split: test, "))
    assert len(fb.pipeline(basins / "q.yaml").loader().dataset) == len(pipeline["test"])


def test_saved_moments_are_read_as_python_saves_them(basins):
    ds = fb.open(str(basins / "data/*.parquet"))
    moments = fb.fit(ds, ["prcp", "tmax"])
    (basins / "m.json").write_text(json.dumps(moments.to_dict()))
    (basins / "p.yaml").write_text(
        "data: data/*.parquet\nmoments: {m: m.json}\noutputs: {x: {columns: [tmax, prcp], ops: [standardize: m]}}\nloader: {batch_size: 50}\n"
    )
    loader = ds.rows().loader({"x": fb.col("tmax", "prcp").standardize(moments)}, batch_size=50, framework="numpy")
    assert_equal(fb.pipeline(basins / "p.yaml").loader(framework="numpy"), loader)


def test_the_example_of_the_documentation_reads(tmp_path):
    import pathlib
    import re

    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/pipelines.md").read_text()
    (tmp_path / "p.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.S)[1])
    assert fb.pipeline(tmp_path / "p.yaml").splits == ("train", "val", "test")


def test_that_example_runs_over_such_data(tmp_path):
    import pathlib
    import re

    rng = np.random.default_rng(1)
    for region in ("north", "south"):
        (tmp_path / "basins" / region).mkdir(parents=True)
        for i in range(3):
            n = 2600
            frame = {"date": pd.date_range("1990-01-01", periods=n), "streamflow": rng.gamma(2, 1, n)}
            frame.update({name: rng.normal(size=n).astype("f4") for name in ("prcp", "tmax", "tmin")})
            pd.DataFrame(frame).to_parquet(tmp_path / f"basins/{region}/{region}_{i}.parquet")
    ids = [f"{r}_{i}" for r in ("north", "south") for i in range(3)]
    pd.DataFrame({"gauge_id": ids, "area": range(6), "p_mean": np.arange(6) / 2}).to_csv(tmp_path / "attributes_caravan.csv", index=False)
    pd.DataFrame({"gauge_id": ids, "slope": np.arange(6) / 4}).to_csv(tmp_path / "attributes_hydroatlas.csv", index=False)
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/pipelines.md").read_text()
    (tmp_path / "p.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.S)[1])
    loader = fb.pipeline(tmp_path / "p.yaml").loader("train", batch_size=16, memory="256MiB", framework="numpy")
    batch = next(iter(loader))
    shapes = {name: value.shape for name, value in batch.items() if isinstance(value, np.ndarray)}
    assert shapes == {"x": (16, 365, 3), "future": (16, 7, 3), "past": (16, 365, 1), "y": (16, 7), "static": (16, 3), "end": (16,)}
    gauges = batch["gauge"].to_list()
    np.testing.assert_array_equal(batch["static"][:, 0], [ids.index(g) for g in gauges])
    np.testing.assert_array_equal(batch["static"][:, 2], [ids.index(g) / 4 for g in gauges])


# ---- writing ----


def written(loader, path):
    loader.to_yaml(path)
    return fb.pipeline(path).loader(framework="numpy")


def test_a_loader_that_is_written_reads_back_as_the_same(basins):
    loader = by_hand(basins)
    assert_equal(written(loader, basins / "w.yaml"), loader)
    text = (basins / "w.yaml").read_text()
    assert "paths: data/{gauge_id}.parquet" in text  # relative: file and data can move together
    again = fb.pipeline(basins / "w.yaml").loader(framework="numpy")
    assert_equal(written(again, basins / "v.yaml"), by_hand(basins))


@pytest.mark.parametrize(
    "make",
    [
        lambda ds: ds.rows().split(a=0.4, b=0.6, seed=3)["b"],
        lambda ds: ds.windows(10, 2, stride=3, by="gauge_id").limit(100, random=True, seed=2),
        lambda ds: ds.groups("gauge_id").select(["g1", "g3", "g4"]),
        lambda ds: ds.groups("gauge_id").split(a=["g1", "g2"], b=["g0"])["a"],
        lambda ds: ds.groups("gauge_id").split(a=0.6, b=0.4, by="groups", seed=1)["b"],
        lambda ds: ds.rows().split(a=0.6, b=0.4, by="gauge_id")["b"],
        lambda ds: ds.rows().split(a=0.4, b=0.5, stratify="gauge_id", seed=5)["b"],
        lambda ds: ds.rows().split(a=0.4, b=0.5, time="date")["b"],
        lambda ds: ds.windows(10, 1).split(a=0.5, b=0.5, by="time", at="target")["b"],
        lambda ds: ds.rows().select("tmax", low=10.0, high=20.0).oversample("gauge_id", {"g1": 3, "g2": 0}),
        lambda ds: ds.windows(10).split(a=0.5, b=0.5, by="time")["b"].resample({"g0": 1, "g1": 2, "g2": 0, "g3": 1, "g4": 1}, column="gauge_id", seed=4),
    ],
)
def test_samples_of_every_kind_are_written(basins, make):
    samples = make(fb.open(str(basins / "data/{gauge_id}.parquet")))
    outputs = {"i": fb.sample_index(), "gauge": fb.col("gauge_id").first(), "prcp": "prcp"}
    loader = samples.loader(outputs, batch_size=1, superbatch="50 blocks", tail="drop", framework="numpy")
    assert_equal(written(loader, basins / "w.yaml"), loader)


@pytest.mark.parametrize("shuffle", [True, False, None, "none", "superbatch", "full", "block"])
def test_every_shuffle_is_written(basins, shuffle):
    rows = fb.open(str(basins / "data/{gauge_id}.parquet")).rows()

    def loader():
        return rows.loader(["prcp"], batch_size=100, shuffle=shuffle, framework="numpy")

    loader().to_yaml(basins / "w.yaml")
    assert_equal(fb.pipeline(basins / "w.yaml").loader(framework="numpy"), loader())


def test_what_a_file_cannot_say_is_not_written(basins):
    in_memory = fb.open({"a": np.arange(10)})
    with pytest.raises(ValueError, match="in memory"):
        in_memory.rows().loader("a", batch_size=2).to_yaml(basins / "w.yaml")
    ds = fb.open(str(basins / "data"))
    with pytest.raises(ValueError, match="transform= is code"):
        ds.rows().loader("prcp", batch_size=2, transform=lambda batch: batch).to_yaml(basins / "w.yaml")
    twice = ds.windows(3).split(a=0.5, b=0.5, by="time")["a"].split(c=0.5, d=0.5)["c"]
    with pytest.raises(ValueError, match="split of a split"):
        twice.loader("prcp", batch_size=2).to_yaml(basins / "w.yaml")
    assert not (basins / "w.yaml").exists()


def test_packed_features_of_one_column_keep_their_places(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"event": np.arange(n) // 20, "key": rng.integers(0, 6, n), "t": rng.random(n), "q": rng.random(n)})
    frame.to_parquet(tmp_path / "x.parquet")
    dom = fb.group_channels(key="key", order="t", first_rows=2, max_groups=5, features=["t", fb.col("q").log10(1e-6)], aggregates={fb.col("q"): "sum"})
    options = dict(batch_size=7, shuffle=False, framework="numpy")
    with fb.open(tmp_path / "x.parquet").groups("event").loader({"dom": dom, "mask": dom.mask()}, **options) as loader:
        loader.to_yaml(tmp_path / "p.yaml")
        expected = [{name: value.copy() for name, value in batch.items()} for batch in loader]
    with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as again:
        for batch, want in zip(again, expected, strict=True):
            for name in want:
                np.testing.assert_array_equal(batch[name], want[name])


MIX = """mix:
  sources:
    table: {data: {paths: table.parquet}, outputs: {x: {columns: [x], ops: [standardize: both]}, id: id, from: {from: source}}}
    array:
      data: array.h5
      samples: {select: {column: id, low: 10}}
      outputs: {x: {columns: [gap], ops: [standardize: own]}, id: id, from: {from: source}}
      moments: {own: gap}
  weights: [{table: 3, array: 1}, {table: 1, array: 1}]
  stop: all
splits: {train: 0.75, test: 0.25, by: samples}
moments: {both: {columns: [id, x], file: both.json}}
loader: {batch_size: 32, seed: 3, memory: 128MiB, superbatch: 100}
"""


@pytest.fixture
def mixture(tmp_path):
    h5py, pq, pa = pytest.importorskip("h5py"), pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    rng = np.random.default_rng(2)
    pq.write_table(pa.table({"id": np.arange(500), "x": rng.normal(3, 2, 500)}), tmp_path / "table.parquet", row_group_size=60)
    with h5py.File(tmp_path / "array.h5", "w") as file:
        file["id"], file["gap"] = np.arange(300), rng.normal(-1, 5, 300)
    (tmp_path / "both.json").write_text(json.dumps(fb.fit(fb.open(tmp_path / "table.parquet"), "x").to_dict()))
    text = MIX.replace("{columns: [id, x], file: both.json}", "both.json").replace("own: gap", "own: {columns: gap, split: train}")
    (tmp_path / "m.yaml").write_text(text)
    return tmp_path


def test_a_mixture_in_a_file_is_that_of_python(mixture):
    pipeline = fb.pipeline(mixture / "m.yaml")
    assert pipeline.splits == ("train", "test") and list(pipeline.sources) == ["table", "array"]
    assert repr(pipeline).endswith("m.yaml, a mixture of table, array: train, test>")
    table = fb.open(mixture / "table.parquet").rows()
    array = fb.open(mixture / "array.h5").rows().select("id", low=10)
    table, array = (samples.split(train=0.75, test=0.25, by="samples")["train"] for samples in (table, array))
    weights = [{"table": 3, "array": 1}, {"table": 1, "array": 1}]
    by_hand = fb.mix({"table": table, "array": array}, weights=weights, stop="all").loader(
        {
            "table": {"x": fb.col(["x"]).standardize(fb.fit(fb.open(mixture / "table.parquet"), "x")), "id": "id", "from": fb.source()},
            "array": {"x": fb.col(["gap"]).standardize(fb.fit(array, "gap")), "id": "id", "from": fb.source()},
        },
        batch_size=32, seed=3, memory="128MiB", superbatch=100, framework="numpy",
    )  # fmt: skip
    with by_hand, pipeline.loader("train", framework="numpy") as loader:
        assert loader.outputs["from"].names == ["table", "array"]
        for _ in range(2):
            for ours, theirs in zip(list(loader), list(by_hand), strict=True):
                for name in ("x", "id", "from"):
                    assert np.array_equal(ours[name], theirs[name]), name
    copy = pickle.loads(pickle.dumps(pipeline["train"]))
    assert copy.names == ["table", "array"] and copy.weights == pipeline["train"].weights and len(copy) == len(pipeline["train"])
    with pipeline.sources["array"].loader("test", framework="numpy") as alone:  # one source, with the file's options
        assert set(next(iter(alone))) == {"x", "id", "from"}


def test_moments_of_a_mixture_file_are_of_all_its_sources(mixture):
    text = MIX.replace("{columns: [id, x], file: both.json}", "{columns: id, split: train}")
    text = text.replace("moments: {own: gap}", "splits: {train: 0.5, test: 0.5, by: samples}")
    text = text.replace("ops: [standardize: both]", "dtype: float64").replace("ops: [standardize: own]", "dtype: float64")
    text = text.replace("[{table: 3, array: 1}, {table: 1, array: 1}]", "{table: 3, array: 1}")
    text = text.replace("id: id", "id: {columns: id, ops: [standardize: both], dtype: float64}")
    (mixture / "m.yaml").write_text(text)
    pipeline = fb.pipeline(mixture / "m.yaml")
    assert pipeline["train"].weights == [{"table": 3.0, "array": 1.0}]
    moments = fb.fit(pipeline["train"], "id")
    with pipeline.loader("train", framework="numpy") as loader, fb.mix(pipeline["train"].sources, weights={"table": 3, "array": 1}, stop="all").loader(
        {"id": fb.col("id", dtype="float64"), "from": fb.source()}, batch_size=32, seed=3, memory="128MiB", superbatch=100, framework="numpy"
    ) as plain:
        for ours, theirs in zip(list(loader), list(plain), strict=True):
            assert np.array_equal(ours["from"], theirs["from"])
            np.testing.assert_allclose(ours["id"] * moments["id"].std + moments["id"].mean, theirs["id"], atol=1e-9)


def test_what_a_mixture_file_cannot_do_is_said_with_its_place(mixture):
    pipeline = fb.pipeline(mixture / "m.yaml")
    with pytest.raises(ValueError, match="describes a mixture: each of its sources has data of its own"):
        pipeline.dataset
    with pytest.raises(ValueError, match="which split"):
        pipeline.loader()
    with pytest.raises(ValueError, match="there is no split 'val'"):
        pipeline.loader("val")
    (mixture / "m.yaml").write_text((mixture / "m.yaml").read_text().replace("{columns: [gap], ops: [standardize: own]}", "{columns: [gop]}"))
    with pytest.raises(fb.Error, match=r"m.yaml:7:\d+: .*gop"):
        fb.pipeline(mixture / "m.yaml").loader("train")
