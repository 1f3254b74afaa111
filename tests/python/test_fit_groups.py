"""Moments by group, and standardising with them: against NumPy, group by group."""

import json
import pickle

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

CARAVAN = DATA / "hydrology"
NAMES = ["prcp", "tmax", "flow"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(11)
    n = 20_000
    basin = rng.integers(0, 40, n)
    frame = pd.DataFrame({"basin": [f"b_{i}" for i in basin], "number": basin * 3 - 20})
    for i, name in enumerate(NAMES):
        frame[name] = (rng.normal(size=n) * (basin + 1) + 1e4 * i * basin).astype("float32" if i == 1 else "float64")
    frame.loc[rng.random(n) < 0.1, "prcp"] = np.nan
    frame.loc[frame["basin"] == "b_5", "prcp"] = np.nan  # no values
    frame.loc[frame["basin"] == "b_7", "flow"] = 2.5  # constant
    return frame


@pytest.fixture
def data(tmp_path, frame):
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=3000)
    return fb.open(tmp_path / "a.parquet")


def near(got, want):
    assert (np.isnan(got) and np.isnan(want)) or abs(got - want) <= 1e-12 * abs(want), (got, want)


def check(moments, values):
    values = values.to_numpy().astype("float64")
    good = values[np.isfinite(values)]
    assert (moments.n, moments.missing) == (len(good), len(values) - len(good))
    if len(good) == 0:
        assert np.isnan([moments.mean, moments.std, moments.min, moments.max]).all()
        return
    near(moments.mean, good.mean())
    assert abs(moments.std - good.std()) <= 1e-12 * max(good.std(), 1e-3 * abs(good.mean()))
    near(moments.min, good.min())
    near(moments.max, good.max())


@pytest.mark.parametrize("by", ["basin", "number"])
def test_moments_by_group_equal_numpy(data, frame, by):
    groups = fb.fit(data, NAMES, by=by)
    assert list(groups) == list(dict.fromkeys(frame[by])) and (groups.by, groups.columns) == (by, tuple(NAMES))
    for key, rows in frame.groupby(by):
        for name in NAMES:
            check(groups[key][name], rows[name])
    for threads in (1, 3):
        assert fb.fit(data, NAMES, by=by, threads=threads) == groups


def test_rows_of_samples_alone_count(data, frame):
    parts = data.windows(50, 10, stride=60).split(train=0.5, test=0.5, by="time")
    rows = sorted({row for i in range(len(parts["train"])) for row in parts["train"][i]})
    groups = fb.fit(parts["train"], "flow", by="basin")
    for key, part in frame.iloc[rows].groupby("basin"):
        check(groups[key]["flow"], part["flow"])


def test_lists_and_operations(tmp_path):
    rng = np.random.default_rng(2)
    lists = [rng.random(rng.integers(0, 6)) for _ in range(3000)]
    keys = rng.integers(0, 9, 3000)
    pd.DataFrame({"k": keys, "v": lists}).to_parquet(tmp_path / "a.parquet")
    groups = fb.fit(fb.open(tmp_path / "a.parquet"), fb.col("v").log1p(), by="k")
    for key in range(9):
        check(groups[key]["v"], pd.Series(np.log1p(np.concatenate([v for k, v in zip(keys, lists) if k == key]))))


def test_they_are_saved_and_reloaded(data):
    groups = fb.fit(data, NAMES, by="number")
    again = fb.GroupedMoments.from_dict(json.loads(json.dumps(groups.to_dict())))
    assert again == groups and again[-20] == groups[-20]
    assert pickle.loads(pickle.dumps(groups)) == groups
    assert "40 groups by 'number' of prcp, tmax, flow" in repr(groups)
    table = groups.lookup
    assert table.columns == ("prcp.mean", "tmax.mean", "flow.mean", "prcp.std", "tmax.std", "flow.std")
    assert table[-20]["flow.std"] == groups[-20]["flow"].std
    for wrong in ({}, {"version": 9, "by": "b", "keys": [], "columns": {}}, {**groups.to_dict(), "keys": [1]}):
        with pytest.raises(ValueError, match="saved"):
            fb.GroupedMoments.from_dict(wrong)


@pytest.mark.parametrize("by", ["basin", "number"])
def test_values_are_standardised_with_their_own_group(data, frame, by):
    groups = fb.fit(data, NAMES, by=by)
    mean, std = groups.scales(frame[by], ["flow", "prcp"])
    values = frame[["flow", "prcp"]].to_numpy()
    want = ((values - mean) * (1 / std)).astype("float32")
    outputs = {
        "row": fb.sample_index(),
        "key": fb.col(by),
        "x": fb.col("flow", "prcp").standardize(groups, by=by),
        "zero": fb.col("prcp").standardize(groups, by=by).fill_nan(0),
        "t": fb.col("tmax").standardize(groups, by=by).cast("float64"),
    }
    seen = 0
    with data.rows().loader(outputs, batch_size=512, memory="256MiB", framework="numpy") as loader:
        for batch in loader:
            rows = batch["row"]
            np.testing.assert_array_equal(batch["x"], want[rows])
            np.testing.assert_array_equal(batch["zero"], np.nan_to_num(want[rows, 1]))
            keys = batch["key"].to_list() if by == "basin" else batch["key"]
            back = groups.inverse(batch["t"], "tmax", keys)
            np.testing.assert_allclose(back, frame["tmax"][rows], rtol=1e-12)
            two = groups.inverse(batch["x"].astype("float64"), ["flow", "prcp"], keys)
            np.testing.assert_allclose(two, values[rows], rtol=1e-5, atol=1e-3)
            seen += len(rows)
    assert seen == len(frame)
    assert (want[frame["basin"] == "b_7", 0] == 0).all() and np.isnan(want[frame["basin"] == "b_5", 1]).all()


def test_operations_go_before(data, frame):
    groups = fb.fit(data, fb.col("prcp").log1p(), by="number")
    column = fb.col("prcp").log1p().standardize(groups, by="number")
    with np.errstate(invalid="ignore"):
        logs = np.log1p(frame["prcp"].to_numpy())
    mean, std = groups.scales(frame["number"], "prcp")
    with data.rows().loader({"x": column.cast("float64"), "row": fb.sample_index()}, batch_size=1000, memory="256MiB", framework="numpy") as loader:
        for batch in loader:
            np.testing.assert_allclose(batch["x"], ((logs - mean) / std)[batch["row"]], rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="only fill_nan"):
        column.clip(0, 1)


def test_wrong_uses_are_refused_by_name(data):
    groups = fb.fit(data, "flow", by="basin")
    with pytest.raises(TypeError, match="by=…"):
        fb.col("flow").standardize(groups)
    with pytest.raises(TypeError, match="Moments"):
        fb.col("flow").standardize(fb.fit(data, "flow"), by="basin")
    with pytest.raises(ValueError, match="nothing was fitted for column 'tmax'"):
        fb.col("tmax").standardize(groups, by="basin")
    with pytest.raises(fb.UnsupportedError, match="'x': column 'number'"):
        data.rows().loader({"x": fb.col("flow").standardize(groups, by="number")}, batch_size=4, memory="256MiB")
    with pytest.raises(fb.UnsupportedError, match="cannot be a key"):
        fb.fit(data, "flow", by="prcp")
    with pytest.raises(fb.SchemaError):
        fb.fit(data, "flow", by="bsin")
    with pytest.raises(KeyError):
        groups.scales(["none"], "flow")


def test_keys_that_were_not_fitted_are_named_or_stay(data, frame):
    few = fb.fit(fb.open(frame[frame["number"] < 0]), "flow", by="number")
    with pytest.raises(fb.DataError, match="'x'.*the key .* is not in a table of 7 keys"):
        list(data.rows().loader({"x": fb.col("flow").standardize(few, by="number")}, batch_size=64, memory="256MiB", framework="numpy"))
    column = fb.col("flow").standardize(few, by="number", keep_unknown=True)
    for batch in data.rows().loader({"x": column, "row": fb.sample_index()}, batch_size=64, memory="256MiB", framework="numpy"):
        rows = frame.iloc[batch["row"]]
        stays = (rows["number"] >= 0).to_numpy()
        np.testing.assert_array_equal(batch["x"][stays], rows["flow"].to_numpy()[stays].astype("float32"))


@pytest.mark.skipif(not CARAVAN.is_dir(), reason=f"no {CARAVAN}")
def test_every_basin_of_caravan_has_its_own_moments():
    ids, names = ["camelsch_4001", "camelslx_054", "testde_2"], ["temperature_2m_mean", "streamflow", "total_precipitation_sum"]
    ds = fb.open(str(CARAVAN / "{gauge_id}.csv.gz"), ids=ids)
    groups = fb.fit(ds, names, by="gauge_id")
    assert list(groups) == ids
    frames = {basin: pd.read_csv(CARAVAN / f"{basin}.csv.gz") for basin in ids}
    for basin, table in frames.items():
        for name in names:
            check(groups[basin][name], table[name])
    outputs = {"x": fb.col(*names).standardize(groups, by="gauge_id").fill_nan(0).steps(0, 30), "name": fb.col("gauge_id").first(), "row": fb.row_index()}
    first = np.cumsum([0, *(len(table) for table in frames.values())])
    with ds.windows(30, 7, stride=5).loader(outputs, batch_size=256, memory="256MiB", framework="numpy") as loader:
        for batch in loader:
            for x, basin, row in zip(batch["x"], batch["name"].to_list(), batch["row"]):
                i = ids.index(basin)
                values = frames[basin][names].to_numpy()[row - first[i] : row - first[i] + 30]
                mean = np.array([groups[basin][n].mean for n in names])
                std = np.array([groups[basin][n].std for n in names])
                np.testing.assert_array_equal(x, np.nan_to_num(((values - mean) * (1 / std)).astype("float32")))
