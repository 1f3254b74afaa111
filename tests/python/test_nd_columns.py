"""Columns of arrays and lists, value by value beside NumPy, in Python and through pipeline files: leading rows, masks of counts, axes."""

import json

import numpy as np
import pytest

import forebay as fb

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

P, F = 12, 5
NAMES = ["pt", "eta", "phi", "energy", "charge"]


@pytest.fixture(scope="module")
def jets(tmp_path_factory):
    """Three files of particles, (P, F) each, with a count that may be beyond P; and what they hold."""
    folder = tmp_path_factory.mktemp("jets")
    rng = np.random.default_rng(7)
    held = []
    for k in range(3):
        n = 150 + k
        x = rng.normal(size=(n, P, F)).astype("f4") * np.arange(1, F + 1, dtype="f4")
        x[rng.random(x.shape) < 0.05] = np.nan
        rows = {
            "x": x, "image": rng.integers(0, 99, (n, 4, 6, 3)).astype("i2"), "n": rng.integers(0, P + 1, n).astype("i4"),
            "n_true": rng.integers(0, 2 * P, n).astype("u2"), "pairs": rng.random((n, P * (P - 1) // 2)).astype("f4"),
            "label": rng.integers(0, 5, n).astype("i1"),
        }  # fmt: skip
        with h5py.File(folder / f"{k}.h5", "w") as file:
            for name, values in rows.items():
                file.create_dataset(name, data=values, chunks=(64, *values.shape[1:]), compression="gzip")
            file["x"].attrs["feature_names"] = NAMES
        held.append(rows)
    return str(folder / "*.h5"), {name: np.concatenate([rows[name] for rows in held]) for name in held[0]}


def loaded(samples, outputs, tmp_path=None, **options):
    """An epoch in the order of the samples. With tmp_path, the same again through the pipeline file that the loader writes."""
    loader = samples.loader({**outputs, "i": fb.sample_index()}, batch_size=32, framework="numpy", **options)
    batches = list(loader)
    order = np.argsort(np.concatenate([b["i"] for b in batches]), kind="stable")
    found = {name: np.concatenate([np.asarray(b[name]) for b in batches])[order] for name in outputs}
    if tmp_path is not None:
        loader.to_yaml(tmp_path / "written.yaml")
        for a, b in zip(batches, fb.pipeline(tmp_path / "written.yaml").loader(framework="numpy"), strict=True):
            for name in outputs:
                np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    return found


# ---- masks of counts ----


def test_a_count_is_a_mask(jets, tmp_path):
    path, held = jets
    outputs = {
        "mask": fb.col("n").sequence_mask(P), "clipped": fb.col("n_true").sequence_mask(P, clip_count=True),
        "number": fb.col("n").sequence_mask(P + 3).cast("float32"),
    }  # fmt: skip
    found = loaded(fb.open(path).rows(), outputs, tmp_path)
    assert found["mask"].dtype == bool and found["number"].dtype == np.float32
    np.testing.assert_array_equal(found["mask"], np.arange(P) < held["n"][:, None])
    np.testing.assert_array_equal(found["clipped"], np.arange(P) < held["n_true"][:, None])
    np.testing.assert_array_equal(found["number"], np.arange(P + 3) < held["n"][:, None])
    assert repr(outputs["clipped"]) == "col('n_true').sequence_mask(12, clip_count=True)"


def test_the_rows_of_windows_have_a_mask_each(jets, tmp_path):
    path, held = jets
    found = loaded(fb.open(path).windows(4, stride=7), {"mask": fb.col("n").sequence_mask(P)}, tmp_path)["mask"]
    want, first = [], 0
    for n in (150, 151, 152):
        want += [held["n"][first + k : first + k + 4] for k in range(0, n - 3, 7)]
        first += n
    np.testing.assert_array_equal(found, np.arange(P) < np.array(want)[..., None])


def test_counts_that_make_no_mask(jets):
    path, held = jets
    rows = fb.open(path).rows()
    first = int(np.argmax(held["n_true"] > P))
    what = rf"output 'm': row {first} of the file: a count of {held['n_true'][first]}: the mask has 12 places; with clip_count"
    with pytest.raises(fb.DataError, match=what):
        list(rows.loader({"m": fb.col("n_true").sequence_mask(P)}, batch_size=8, shuffle=False))
    for column, size, error in (("x", 4, "is no count"), ("pairs", 4, "is no count"), ("n", 1 << 30, "places")):
        with pytest.raises((fb.UnsupportedError, ValueError), match=error):
            rows.loader({"m": fb.col(column).sequence_mask(size)}, batch_size=8)
    with pytest.raises(ValueError, match="one column"):
        fb.col("n", "n_true").sequence_mask(4)
    with pytest.raises(ValueError, match="size"):
        fb.col("n").sequence_mask(0)
    missing = fb.open(pa.table({"n": pa.array([1, None, 2], pa.int16())})).rows()
    with pytest.raises(fb.DataError, match="row 1 of the .*the count is missing"):
        list(missing.loader({"m": fb.col("n").sequence_mask(4)}, batch_size=3))
    np.testing.assert_array_equal(loaded(missing, {"m": fb.col("n").fill_missing(0).sequence_mask(2)})["m"], [[1, 0], [0, 0], [1, 1]])
    with pytest.raises(fb.DataError, match="a count of -1"):
        list(fb.open({"n": np.array([-1])}).rows().loader({"m": fb.col("n").sequence_mask(4)}, batch_size=1))


# ---- counts beyond the axis ----


def test_a_count_beyond_the_matrix_may_mean_all_of_it(jets, tmp_path):
    path, held = jets
    rows = fb.open(path).rows()
    found = loaded(rows, {"m": fb.col("pairs").symmetric(count="n_true", clip_count=True)}, tmp_path)["m"]
    for i, count in enumerate(np.minimum(held["n_true"], P)):
        want = np.zeros((P, P), "f4")
        at = np.triu_indices(count, 1)
        want[at] = held["pairs"][i][: len(at[0])]
        np.testing.assert_array_equal(found[i], want + want.T)
    with pytest.raises(fb.DataError, match="the matrix has room for 12, and the 66 pairs there are do for no more than 12: clip_count takes"):
        list(rows.loader({"m": fb.col("pairs").symmetric(count="n_true")}, batch_size=8))


def test_pairs_that_are_counted_may_be_clipped():
    pairs = np.arange(1, 7, dtype="f4")[None].repeat(3, 0)
    ds = fb.open({"p": pairs, "n": np.array([3, 6, 50])})
    found = loaded(ds.rows(), {"m": fb.col("p").symmetric(count="n", count_of="pairs", clip_count=True)})["m"]
    assert (found[2] == found[1]).all() and found[0, 3].sum() == 0 and found[1, 3].sum() == 3 + 5 + 6


def test_moments_of_counts_beyond_the_axis(jets, tmp_path):
    path, held = jets
    ds = fb.open(path)
    there = (np.arange(P) < held["n_true"][:, None])[..., None] & ~np.isnan(held["x"])
    m = fb.fit(ds, "x", count="n_true", clip_count=True)["x"]
    assert (m.n, m.missing) == (there.sum(), (~there).sum())
    np.testing.assert_allclose([m.mean, m.std], [held["x"][there].mean(dtype="f8"), held["x"][there].std(dtype="f8")], rtol=1e-9)
    with pytest.raises(fb.DataError, match="has 12 places; with clip_count it means all of them"):
        fb.fit(ds, "x", count="n_true")
    (tmp_path / "p.yaml").write_text(
        f"data: {path!r}\nmoments:\n  m: {{columns: x, count: n_true, clip_count: true}}\n"
        "outputs:\n  x: {columns: x, ops: [standardize: m]}\nloader: {batch_size: 32, shuffle: false}\n"
    )
    x = np.concatenate([b["x"] for b in fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")])
    np.testing.assert_allclose(x, (held["x"] - m.mean) / m.std, rtol=2e-5, atol=2e-5)


# ---- the first rows of longer samples ----


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(2)
    event = np.repeat(np.arange(300), rng.integers(1, 15, 300))
    n = len(event)
    table = {"event": event, "t": rng.random(n).astype("f4"), "s": rng.integers(0, 9, n).astype("i2"), "hits": [list(range(k % 9)) for k in range(n)]}
    pq.write_table(pa.table(table), folder / "x.parquet", row_group_size=400)
    return str(folder / "x.parquet"), {name: [np.asarray(values)[event == e] if name != "hits" else None for e in range(300)] for name, values in table.items()}


@pytest.mark.parametrize("superbatch", ["100 samples", "100000 samples"])
def test_the_first_rows_are_kept(events, superbatch, tmp_path):
    path, held = events
    samples = fb.open(path).groups("event")
    outputs = {
        "t": fb.col("t").padded(6, keep="first", to_max=True, pad=-1), "packed": fb.col("t", "s").ragged(6, keep="first"),
        "cell": fb.col("s").one_hot(9).padded(6, keep="first", to_max=True), "drawn": fb.col("t").padded(6), "i": fb.sample_index(),
    }  # fmt: skip
    loader = samples.loader(outputs, batch_size=32, superbatch=superbatch, seed=1, framework="numpy")
    seen, drawn = 0, 0
    for batch in loader:
        for k, i in enumerate(batch["i"]):
            t, s = held["t"][i][:6], held["s"][i][:6]
            want = np.concatenate([t, np.full(6 - len(t), -1, "f4")])
            np.testing.assert_array_equal(batch["t"].values[k], want)
            np.testing.assert_array_equal(batch["t"].mask[k], np.arange(6) < len(t))
            a, b = batch["packed"].offsets[k : k + 2]
            np.testing.assert_array_equal(batch["packed"].values[a:b], np.stack([t, s], 1))
            np.testing.assert_array_equal(batch["cell"].values[k, : len(t)], np.eye(9)[s])
            drawn += not np.array_equal(batch["drawn"].values[k, : len(t)], t)
            seen += 1
    assert seen == 300 and drawn > 50
    loader.to_yaml(tmp_path / "w.yaml")
    for a, b in zip(loader, fb.pipeline(tmp_path / "w.yaml").loader(framework="numpy")):
        if a["i"][0] == b["i"][0]:
            np.testing.assert_array_equal(a["t"].values, b["t"].values)


def test_the_first_elements_of_lists_are_kept(events):
    path, _ = events
    outputs = {"h": fb.col("hits").padded(4, keep="first"), "i": fb.sample_index()}
    for batch in fb.open(path).rows().loader(outputs, batch_size=64, framework="numpy"):
        for k, i in enumerate(batch["i"]):
            n = min(i % 9, 4)
            np.testing.assert_array_equal(batch["h"].values[k, :n], np.arange(n))
            assert batch["h"].mask[k].sum() == n
    with pytest.raises(ValueError, match="keep='last': use 'random' or 'first'"):
        fb.col("hits").padded(4, keep="last")
    assert ".padded(4, keep='first')" in repr(fb.col("hits").padded(4, keep="first"))
    assert repr(fb.col("hits").ragged(4, keep="first")).endswith(".ragged(4, keep='first')")


# ---- axes ----


def test_channels_go_first_and_last(jets, tmp_path):
    path, held = jets
    outputs = {
        "first": fb.col("image").channels_first(), "back": fb.col("image").channels_first().channels_last(), "last": fb.col("image").channels_last(),
        "two": fb.col("x").channels_first(),
    }  # fmt: skip
    found = loaded(fb.open(path).rows(), outputs, tmp_path)
    np.testing.assert_array_equal(found["first"], np.moveaxis(held["image"], -1, 1))
    np.testing.assert_array_equal(found["back"], held["image"])
    np.testing.assert_array_equal(found["last"], np.moveaxis(held["image"], 1, -1))
    np.testing.assert_array_equal(found["two"], held["x"].transpose(0, 2, 1))
    with pytest.raises(ValueError, match="channels first: a sample's value has 0 axes, at least 2 needed"):
        fb.open(path).rows().loader({"n": fb.col("n").channels_first()}, batch_size=4)


def test_labels_are_int64_where_that_is_asked_for(jets, tmp_path):
    path, held = jets
    found = loaded(fb.open(path).rows(), {"a": fb.col("label").cast("int64"), "b": fb.col("label").cast(int), "c": "label"}, tmp_path)
    assert [found[k].dtype for k in "abc"] == [np.int64, np.int64, np.int8]
    np.testing.assert_array_equal(found["a"], held["label"])
    np.testing.assert_array_equal(found["b"], held["label"])


# ---- a number for each place of an axis ----


def moments_of(values):
    """n, missing, mean and std of the numbers among values."""
    there = values[np.isfinite(values)].astype("f8")
    return [len(there), values.size - len(there), there.mean(), there.std()]


@pytest.mark.parametrize("axis", [-1, -2])
def test_moments_along_an_axis_are_those_of_each_place(jets, axis):
    path, held = jets
    ds = fb.open(path)
    found = fb.fit(ds, "x", axis=axis)
    places = np.moveaxis(held["x"], axis, 0)
    assert found.axis == axis and len(found["x"].mean) == len(places)
    for k, values in enumerate(places):
        n, missing, mean, std = moments_of(values)
        assert (found["x"].n[k], found["x"].missing[k]) == (n, missing)
        np.testing.assert_allclose([found["x"].mean[k], found["x"].std[k]], [mean, std], rtol=1e-10)
        assert (found["x"].min[k], found["x"].max[k]) == (np.nanmin(values), np.nanmax(values))
    assert fb.Moments.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert fb.fit(ds, "x", axis=axis, threads=1) == found
    assert f"x[{len(places) - 1}]: " in repr(found)


def test_moments_along_an_axis_of_several_columns_counts_pads_and_samples(jets):
    path, held = jets
    ds = fb.open(path)
    there = np.arange(P) < held["n"][:, None]
    found = fb.fit(ds, fb.col("x").scale(2.0), axis=-1, count="n")
    for k in range(F):
        values = np.where(there, 2 * held["x"][..., k].astype("f8"), np.nan)
        np.testing.assert_allclose([found["x"].n[k], found["x"].missing[k], found["x"].mean[k], found["x"].std[k]], moments_of(values), rtol=1e-9)
    train = ds.rows().split(train=1 / 3, test=2 / 3, by="files")["train"]
    padded = fb.fit(train, "image", axis=-3, pad=7)
    image = np.where(held["image"] == 7, np.nan, held["image"].astype("f8"))
    bounds = {150: image[:150], 151: image[150:301], 152: image[301:]}[len(train)]
    for k in range(4):
        np.testing.assert_allclose(
            [padded["image"].n[k], padded["image"].missing[k], padded["image"].mean[k], padded["image"].std[k]], moments_of(bounds[:, k]), rtol=1e-10
        )


@pytest.mark.parametrize("axis", [-1, -2])
def test_standardising_along_an_axis_is_numpys(jets, axis, tmp_path):
    path, held = jets
    ds = fb.open(path)
    found = fb.fit(ds, "x", axis=axis)
    rng = np.random.default_rng(3)
    places = held["x"].shape[axis]
    shape = (places,) + (1,) * (-axis - 1)
    low, factor, offset = rng.normal(size=places), rng.normal(size=places), rng.normal(size=places)
    outputs = {
        "z": fb.col("x").standardize(found), "own": fb.col("x").standardize(low, 0.5, axis=axis).fill_missing(factor, axis=axis),
        "ops": fb.col("x").clip(low, None, axis=axis).scale(factor, axis=axis).offset(2).offset(offset, axis=axis).fill_nan(offset, axis=axis),
        "log": fb.col("x").log10(np.abs(low) + 1e-3, axis=axis), "plain": "x",
    }  # fmt: skip
    got = loaded(ds.rows(), outputs, tmp_path)
    x = held["x"].astype("f8")
    mean, std = (np.reshape(p, shape) for p in found.scales("x"))
    low, factor, offset = (np.reshape(p, shape) for p in (low, factor, offset))
    np.testing.assert_allclose(got["z"], (x - mean) / std, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["own"], np.where(np.isnan(x), factor, (x - low) / 0.5), rtol=1e-5, atol=1e-6)
    want = np.maximum(x, low) * factor + 2 + offset
    np.testing.assert_allclose(got["ops"], np.where(np.isnan(x), offset, want), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["log"], np.log10(np.where(np.isnan(x), x, np.maximum(x, np.abs(low) + 1e-3))), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.inverse(got["z"], "x"), x, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(got["plain"], held["x"])


def test_several_columns_have_numbers_of_their_own_along_an_axis(tmp_path):
    rng = np.random.default_rng(4)
    columns = {name: rng.normal(size=(90, 300)).astype("f4") for name in "ab"}  # wider than a tile of values
    ds = fb.open(pa.table({name: pa.FixedSizeListArray.from_arrays(values.ravel(), 300) for name, values in columns.items()}))
    found = fb.fit(ds, ["a", "b"], axis=-1)
    x = np.stack(list(columns.values()), 1)
    outputs = {
        "z": fb.col("a", "b").standardize(found), "one": fb.col("b").standardize(found), "alike": fb.col("a", "b").scale(np.arange(300.0), axis=-1),
        "each": fb.col("a", "b").offset([np.zeros(300), np.arange(300.0)], axis=-1),
    }  # fmt: skip
    got = loaded(ds.rows(), outputs)
    z = (x - x.mean(0, dtype="f8")) / x.std(0, dtype="f8")
    np.testing.assert_allclose(got["z"], z, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["one"], z[:, 1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["alike"], x * np.arange(300.0), rtol=1e-6)
    np.testing.assert_allclose(got["each"], x + np.stack([np.zeros(300), np.arange(300.0)]), rtol=1e-6)


def test_operations_along_an_axis_in_windows_and_pipeline_files(jets, tmp_path):
    path, held = jets
    text = (
        f"data: {path!r}\nsamples: {{windows: {{input: 3, stride: 50}}}}\nmoments:\n  m: {{columns: x, axis: -1}}\n  saved: {str(tmp_path / 'm.json')!r}\n"
        "outputs:\n  z: {columns: x, ops: [standardize: m]}\n  s: {columns: x, ops: [standardize: saved]}\n"
        "  o:\n    columns: x\n    ops: [scale: {value: [1, 2, 3, 4, 5], axis: -1}, clip: {low: [0, 0, 0, 0, 0], axis: -1}, "
        "fill_nan: {value: [5, 4, 3, 2, 1], axis: -1}]\n"
        "loader: {batch_size: 4, shuffle: false}\n"
    )
    (tmp_path / "p.yaml").write_text(text)
    moments = fb.fit(fb.open(path), "x", axis=-1)
    (tmp_path / "m.json").write_text(json.dumps(moments.to_dict()))
    batches = list(fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy"))
    x = np.concatenate([held["x"][first + k : first + k + 3][None] for first, n in ((0, 150), (150, 151), (301, 152)) for k in range(0, n - 2, 50)])
    for name, of in (("z", fb.fit(fb.open(path).windows(3, stride=50), "x", axis=-1)), ("s", moments)):  # a file's moments are of its samples
        mean, std = map(np.array, of.scales("x"))
        np.testing.assert_allclose(np.concatenate([b[name] for b in batches]), (x - mean) / std, rtol=1e-5, atol=1e-6)
    want = np.where(np.isnan(x), [5, 4, 3, 2, 1], np.maximum(x * np.arange(1, 6), 0))
    np.testing.assert_allclose(np.concatenate([b["o"] for b in batches]), want, rtol=1e-6)
    for old, new, error in (
        ("axis: -1}\n", "axis: 0}\n", "axis: count from the end: -1 is the last"), ("axis: -1}\n", "axis: -3}\n",
        "count the axes of an array in a row from the end"),
        ("[1, 2, 3, 4, 5], axis: -1", "[1, 2, 3], axis: -1", "3 numbers for an axis of 5 places"), ("[1, 2, 3, 4, 5], axis: -1",
        "[1], axis: 1", "counted from the end"),
    ):  # fmt: skip
        (tmp_path / "p.yaml").write_text(text.replace(old, new, 1))
        with pytest.raises(ValueError, match=error):
            fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: fb.col("x").scale([1, 2], axis=-1), "2 numbers for an axis of 5 places"), (lambda: fb.col("x").scale([1, 2], axis=-4),
        "axis -4: a row's value has 2 axes"),
        (lambda: fb.col("n").scale([1, 2], axis=-1), "axis -1: a row's value has 0 axes"), (lambda: fb.col("x").scale([1] * 5, axis=1),
        "counted from the end"),
        (lambda: fb.col("x").scale([1, 2]), "axis=-1 says that they are of the last axis"),
        (lambda: fb.col("x").standardize([1, 2], [1, 2, 3], axis=-1), "2 and 3 places"),
        (lambda: fb.col("x").standardize([0] * 5, [1, 1, 0, 1, 1], axis=-1), "place 2: the standard deviation must be above 0"),
        (lambda: fb.col("x")[:, :2].scale([1, 2], axis=-1), "write them before"),
        (lambda: fb.col("x").reshape(-1).scale([1] * 5, axis=-1), r"as it is stored, whose axes reshape\(\).* change: write it before"),
        (lambda: fb.col("x").channels_first().fill_missing([1] * 5, axis=-1), "as it is stored, whose axes .* change: write it before"),
        (lambda: fb.col("x").reshape(-1)[:2], r"as it is stored: write it before reshape\(\)"),
    ],
)  # fmt: skip
def test_operations_along_an_axis_that_cannot_be(jets, make, error):
    with pytest.raises(ValueError, match=error):
        fb.open(jets[0]).rows().loader({"x": make()}, batch_size=4)


def test_a_flat_column_has_a_number_for_each_of_its_places(tmp_path):
    x = np.random.default_rng(3).normal(size=(50, 6 * 4)).astype(np.float32)
    ds = fb.open({"x": x})
    mean, std = x.reshape(-1, 4).mean(0), x.reshape(-1, 4).std(0)
    output = fb.col("x").standardize(np.tile(mean, 6), np.tile(std, 6), axis=-1).reshape(6, 4)
    batch = next(iter(ds.rows().loader({"x": output}, batch_size=50, shuffle=False, framework="numpy")))
    np.testing.assert_allclose(batch["x"], (x.reshape(50, 6, 4) - mean) / std, rtol=1e-5, atol=1e-6)


def test_moments_of_an_array_are_those_of_the_flattened_column_too():
    x = np.random.default_rng(3).normal(size=(50, 6, 4)).astype(np.float32)
    ds, flat = fb.open({"x": x}), fb.open({"x": x.reshape(50, 24)})
    moments = fb.fit(ds, "x", axis=-1)
    mean, std = moments.scales("x")
    want = ((x - np.array(mean)) / np.array(std)).reshape(50, 24)
    for data, output in ((ds, fb.col("x").standardize(moments).reshape(-1)), (flat, fb.col("x").standardize(np.tile(mean, 6), np.tile(std, 6), axis=-1))):
        batch = next(iter(data.rows().loader({"x": output}, batch_size=50, shuffle=False, framework="numpy")))
        np.testing.assert_allclose(batch["x"], want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"whose axes reshape.* change: write it before them.*np.tile\(mean, P\)"):
        fb.col("x").reshape(-1).standardize(moments)


def test_masks_take_the_places_that_numpy_takes():
    x = np.random.default_rng(3).normal(size=(8, 6, 4)).astype(np.float32)
    few, some = np.array([True, False, True, True]), [False, True, False, False, True, False]
    outputs = {
        "last": fb.col("x")[:, few], "first": fb.col("x")[some], "of_last": fb.col("x")[..., few.tolist()], "one": fb.col("x")[2, few],
        "both": fb.col("x")[some, few].scale(2),
    }  # fmt: skip
    ds = fb.open({"x": x})
    batch = next(iter(ds.rows().loader(outputs, batch_size=8, shuffle=False, framework="numpy")))
    want = {"last": x[:, :, few], "first": x[:, some], "of_last": x[..., few], "one": x[:, 2][:, few], "both": 2 * x[:, some][:, :, few]}
    for name, values in want.items():
        np.testing.assert_array_equal(batch[name], values, err_msg=name)
    for column in (fb.col("x")[:, few[:3]], fb.col("x")[..., [True] * 6], fb.col("x")[few]):
        with pytest.raises(IndexError, match="a mask of [346] for an axis of [46] places"):
            ds.rows().loader({"x": column}, batch_size=8)
    with pytest.raises(ValueError, match="a mask that is False everywhere"):
        fb.col("x")[:, few & False]
    with pytest.raises(TypeError, match="True is no place"):
        fb.col("x")[True]


def test_a_fit_is_of_all_rows_so_that_outputs_of_some_are_refused():
    ds = fb.open({"x": np.arange(12.0), "id": np.repeat([0, 1, 2], [7, 3, 2])})
    groups, windows = ds.groups("id"), ds.windows(3)
    assert fb.fit(groups, fb.col("x").cast("float16"))["x"].mean == 5.5  # as the values are stored
    for data, column in ((groups, fb.col("x").first()), (windows, fb.col("x").at(2)), (windows, fb.col("x").steps(0, 2))):
        with pytest.raises(ValueError, match=r"fit\(\) takes all rows of the samples, and .* choose some of each"):
            fb.fit(data, column)


def test_fits_along_an_axis_that_cannot_be(jets):
    path, held = jets
    ds = fb.open(path)
    for moved in (fb.col("x").reshape(-1), fb.col("image").channels_first()):
        with pytest.raises(ValueError, match="axis=-1 is about the array as it is stored, whose axes"):
            fb.fit(ds, moved, axis=-1)
        with pytest.raises(ValueError, match="count='n' is about the array as it is stored, whose axes"):
            fb.fit(ds, moved, count="n")
    for column, axis, error in (("n", -1, "column 'n' is int32: count the axes of an array"), ("x", -3, "count the axes"),
    ("x", 0, "counted from the end")):
        with pytest.raises(ValueError, match=error):
            fb.fit(ds, column, axis=axis)
    with pytest.raises(ValueError, match="axis -1 of column 'image' has 3 places, not 5: fit columns of other shapes apart"):
        fb.fit(ds, ["x", "image"], axis=-1)
    with pytest.raises(ValueError, match="by group are of whole columns, .*: fit the places without a key, or keep each feature as a column"):
        fb.fit(ds, "x", axis=-1, by="label")
    select = r"what is made of them. Fit all places of an axis, and select behind: fb.col\('x'\).standardize\(fb.fit\(data, 'x', axis={}\)\)\[…\]"
    for output, axis, error in ((fb.col("x")[:, :3], None, select.format(-1)), (fb.col("x")[:3], -2, select.format(-2)),
                                (fb.col("n").cast("timestamp[s]"), None, "Fit the column as it is stored, without the cast: 'n'"),
                                (fb.expr("n + 1"), None, "Fit the columns, standardise them, and make it of the results")):  # fmt: skip
        with pytest.raises(ValueError, match=error):
            fb.fit(ds, output, axis=axis)
    x = held["x"][..., :3].astype("f8")
    found = loaded(ds.rows(), {"x": fb.col("x").standardize(fb.fit(ds, "x", axis=-1))[..., :3]})["x"]  # as the message says
    np.testing.assert_allclose(found, (x - np.nanmean(x, (0, 1))) / np.nanstd(x, (0, 1)), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="these moments are of axis -1"):
        fb.col("x").standardize(fb.fit(ds, "x", axis=-1), axis=-2)


# ---- places of axes ----

SELECTIONS = {
    ":7": (lambda c: c[:, :3], lambda x: x[:, :, :3]), "first": (lambda c: c[:4], lambda x: x[:, :4]),
    "step": (lambda c: c[1:-2:3, ::2], lambda x: x[:, 1:-2:3, ::2]),
    "list": (lambda c: c[..., [4, 0, -2]], lambda x: x[..., [4, 0, -2]]), "both": (lambda c: c[[3, 1], [0, 2]], lambda x: x[:, [3, 1]][:, :, [0, 2]]),
    "drop": (lambda c: c[0], lambda x: x[:, 0]), "one": (lambda c: c[-1, 2], lambda x: x[:, -1, 2]), "name": (lambda c: c[:, "phi"], lambda x: x[..., 2]),
    "names": (lambda c: c[..., ["energy", "pt"]], lambda x: x[..., [3, 0]]), "array": (lambda c: c[np.array([2, 5]), ...], lambda x: x[:, [2, 5]]),
    "ops": (lambda c: c.clip(-1, 1)[:, 1:].scale(2), lambda x: 2 * np.clip(x[..., 1:], -1, 1)),
    "axis": (lambda c: c.offset(np.arange(5.0), axis=-1)[:2, [1, 4]], lambda x: (x + np.arange(5, dtype="f4"))[:, :2][..., [1, 4]]),
    "beyond": (lambda c: c[5:99, -99:2], lambda x: x[:, 5:99, -99:2]),
}  # fmt: skip


def test_places_of_axes_are_numpys(jets, tmp_path):
    path, held = jets
    ds = fb.open(path)
    outputs = {name: make(fb.col("x")) for name, (make, _) in SELECTIONS.items()}
    outputs |= {"i2": fb.col("image")[1:, [0, 5], 2], "cast": fb.col("image")[0, 0].cast("float64")}
    outputs |= {"half": fb.col("x")[:, 1].cast("float16"), "again": fb.col("x")[:, :2].reshape(-1), "moved": fb.col("x")[:3, :2].channels_first()}
    found = loaded(ds.rows(), outputs, tmp_path)
    for name, (_, numpys) in SELECTIONS.items():
        np.testing.assert_array_equal(found[name], numpys(held["x"]), err_msg=name)
    np.testing.assert_array_equal(found["i2"], held["image"][:, 1:, [0, 5], 2])
    np.testing.assert_array_equal(found["cast"], held["image"][:, 0, 0].astype("f8"))
    np.testing.assert_array_equal(found["half"], held["x"][:, :, 1].astype("f2"))
    np.testing.assert_array_equal(found["again"], held["x"][:, :, :2].reshape(-1, 2 * P))
    np.testing.assert_array_equal(found["moved"], held["x"][:, :3, :2].transpose(0, 2, 1))
    assert found["i2"].dtype == np.int16 and repr(outputs["names"]) == "col('x')[..., ['energy', 'pt']]" and repr(outputs["step"]) == "col('x')[1:-2:3, ::2]"


def test_places_of_axes_in_windows_groups_and_cells(jets, tmp_path):
    path, held = jets
    ds = fb.open(path)
    windows = loaded(ds.windows(2, stride=40), {"x": fb.col("x")[:, [1, 3]], "y": fb.col("x")[0, 0].steps(1, 2)}, tmp_path)
    starts = [first + k for first, n in ((0, 150), (150, 151), (301, 152)) for k in range(0, n - 1, 40)]
    np.testing.assert_array_equal(windows["x"], np.stack([held["x"][s : s + 2][..., [1, 3]] for s in starts]))
    np.testing.assert_array_equal(windows["y"], np.stack([held["x"][s + 1 : s + 2, 0, 0] for s in starts]))
    for batch in ds.groups(rows=10).loader({"x": fb.col("x")[0, :2].ragged(3, keep="first"), "r": fb.row_index()}, batch_size=7, framework="numpy"):
        for k, row in enumerate(batch["r"]):
            a, b = batch["x"].offsets[k : k + 2]
            np.testing.assert_array_equal(batch["x"].values[a:b], held["x"][row : row + 3, 0, :2][: b - a])


def test_names_of_features_as_json_of_the_file(tmp_path):
    x = np.arange(24.0).reshape(4, 2, 3)
    with h5py.File(tmp_path / "j.h5", "w") as file:
        file["x"] = x
        file.attrs["feature_names"] = json.dumps(["a", "b", "c"])
    ds = fb.open(tmp_path / "j.h5")
    np.testing.assert_array_equal(loaded(ds.rows(), {"x": fb.col("x")[:, ["c", "a"]]})["x"], x[..., [2, 0]])
    (tmp_path / "p.yaml").write_text(
        'data: j.h5\noutputs:\n  x: {columns: x, select: ["...", [c, a]]}\n  y: {columns: x, select: [0, b]}\n  z: {columns: x, select: [":", "1:"]}\n'
        "loader: {batch_size: 4, shuffle: false}\n"
    )
    (batch,) = fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")
    for name, want in (("x", x[..., [2, 0]]), ("y", x[:, 0, 1]), ("z", x[..., 1:])):
        np.testing.assert_array_equal(batch[name], want)
    wrong = [
        ("[c, a]", "[c, d]", "'d' is none of the feature_names: the first is 'a'"), ('"1:"', '"1:x"', "is no range of places"),
        ('"1:"', "9", "there is no place 9 on axis 1"), ('[":", "1:"]', "7", "a list is expected"),
        ('[":", "1:"]', "[[1, a]]", "all whole numbers, or all names"),
    ]  # fmt: skip
    for old, new, error in wrong:
        (tmp_path / "q.yaml").write_text((tmp_path / "p.yaml").read_text().replace(old, new, 1))
        with pytest.raises(ValueError, match=error):
            fb.pipeline(tmp_path / "q.yaml").loader(framework="numpy")


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: fb.col("x")[:, 9], "there is no place 9 on axis 1 of column 'x': it has 5"), (lambda: fb.col("x")[:, 7:], "no place is taken of axis 1"),
        (lambda: fb.col("x")[:, :, :1], "places of 3 axes, and a row of column 'x' has 2"), (lambda: fb.col("n")[:2], "has no axes to select from"),
        (lambda: fb.col("x")[:, "mass"], "'mass' is none of the feature_names: they are 'pt', 'eta'"), (lambda: fb.col("x")[::-1], "step above 0"),
        (lambda: fb.col("image")[..., "a"], "neither the data set of column 'image' nor the first file has an attribute feature_names"),
        (lambda: fb.col("x", "image")[:1], "one column of arrays"), (lambda: fb.col("x")[..., 0, ...], "at least one axis"),
        (lambda: fb.col("x")[[0, "a"]], "all names"),
        (lambda: fb.col("x")[:2][:1], "before anything is made"),
    ],
)  # fmt: skip
def test_places_that_cannot_be(jets, make, error):
    with pytest.raises((ValueError, fb.UnsupportedError), match=error):
        fb.open(jets[0]).rows().loader({"x": make()}, batch_size=4)


def test_an_output_is_no_sequence():
    with pytest.raises(TypeError):
        list(fb.col("x"))
    with pytest.raises(TypeError, match="is no place of an axis"):
        fb.col("x")[1.5]


# ---- lists side by side ----


@pytest.fixture(scope="module")
def particles(tmp_path_factory):
    rng = np.random.default_rng(8)
    lengths = rng.integers(0, 9, 500)
    columns = {name: [rng.normal(size=n).astype("f4") for n in lengths] for name in ("pt", "eta")}
    columns["charge"] = [rng.integers(-1, 2, n).astype("i1") for n in lengths]
    other = [np.zeros(n + (i == 321), "f4") for i, n in enumerate(lengths)]
    path = tmp_path_factory.mktemp("lists") / "p.parquet"
    lists = {name: pa.array(map(list, values), pa.list_(pa.from_numpy_dtype(values[0].dtype))) for name, values in {**columns, "odd": other}.items()}
    pq.write_table(pa.table(lists), path, row_group_size=64)
    return path, columns


@pytest.mark.parametrize("superbatch", ["70 samples", "100000 samples"])
def test_lists_are_stacked_element_by_element(particles, superbatch, tmp_path):
    path, columns = particles
    outputs = {
        "two": fb.col("pt", "eta"), "three": fb.col("pt", "eta", "charge", dtype="float32").padded(6, keep="first", pad=-9),
        "ints": fb.col(["charge", "charge"]),
        "ops": fb.col("pt", "eta").scale([2, 3]).offset(1).ragged(4), "narrow": fb.col("pt", "eta", dtype="float16"), "i": fb.sample_index(),
    }  # fmt: skip
    loader = fb.open(path).rows().loader(outputs, batch_size=40, superbatch=superbatch, seed=2, framework="numpy")
    seen = 0
    for batch in loader:
        for k, i in enumerate(batch["i"]):
            two = np.stack([columns["pt"][i], columns["eta"][i]], 1)
            np.testing.assert_array_equal(batch["two"][k], two)
            np.testing.assert_array_equal(batch["narrow"][k], two.astype("f2"))
            three = np.concatenate([two, columns["charge"][i][:, None].astype("f4")], 1)[:6]
            np.testing.assert_array_equal(batch["three"].values[k, : len(three)], three)
            assert (batch["three"].values[k, len(three) :] == -9).all() and batch["three"].mask[k].sum() == len(three)
            np.testing.assert_array_equal(batch["ints"][k], np.stack([columns["charge"][i]] * 2, 1))
            ops = batch["ops"][k]
            rows = [np.flatnonzero(np.isclose(two[:, 0] * 2 + 1, v, rtol=1e-6))[0] for v in ops[:, 0]]
            assert len(ops) == min(len(two), 4) and rows == sorted(set(rows))
            np.testing.assert_allclose(ops, two[rows] * [2, 3] + 1, rtol=1e-5)
            seen += 1
    assert seen == 500
    loader.to_yaml(tmp_path / "w.yaml")
    again = next(iter(fb.pipeline(tmp_path / "w.yaml").loader(framework="numpy")))
    assert again["two"].values.shape[1:] == (2,) and again["ints"].values.dtype == np.int8


def test_lists_that_cannot_be_stacked(particles):
    path, _ = particles
    rows = fb.open(path).rows()
    with pytest.raises(fb.DataError, match="row 321 of the file: lists that are stacked have one length: column 'odd' has"):
        list(rows.loader({"x": fb.col("pt", "odd")}, batch_size=8))
    for make in (lambda: fb.col("pt", "eta").is_missing(), lambda: fb.col("pt", "eta").scale([1, 2], axis=-1)):
        with pytest.raises(ValueError, match="cannot be stacked|axis"):
            rows.loader({"x": make()}, batch_size=8)
