"""Columns of arrays and lists, value by value beside NumPy, in Python and through pipeline files: leading rows, masks of counts, axes."""

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
    with pytest.raises(fb.DataError, match="the matrix has room for 12: give size=.* or more, or clip_count"):
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
    with pytest.raises(ValueError, match="keep='last': use 'random', a random subset of the rows in their order, or 'first'"):
        fb.col("hits").padded(4, keep="last")
    assert ".padded(4, keep='first'," in repr(fb.col("hits").padded(4, keep="first"))
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
