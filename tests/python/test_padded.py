"""Outputs whose samples differ in length: padded, cut to a random subset, masks and lengths, beside plain NumPy."""

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """600 events of 1 to 29 rows in three files, across row groups, and the rows of each."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    rows = {}
    for f in range(3):
        lengths = rng.integers(1, 30, 200)
        event = np.repeat(np.arange(200) + 1000 * f, lengths)
        n = len(event)
        table = {
            "event_id": event,
            "t": rng.random(n).astype("f4"),
            "q": rng.random(n),
            "s": rng.integers(0, 50, n).astype("i2"),
            "half": pa.array(rng.random(n).astype("f2")),
            "hits": pa.array([list(range(k % 7)) for k in range(n)], pa.list_(pa.int32())),
            "word": pa.array(["x" * (k % 5) for k in range(n)]),
        }
        pq.write_table(pa.table(table), folder / f"{f}.parquet", row_group_size=500)
        for e in np.unique(event):
            at = event == e
            rows[int(e)] = {name: np.asarray(table[name])[at] for name in ("t", "q", "s", "half")}
    return fb.open(f"{folder}/*.parquet"), rows


def _positions(rows, x):
    """Where the drawn rows lie in the event: t is different in each."""
    return [int(np.flatnonzero(rows["t"] == value)[0]) for value in x]


@pytest.mark.parametrize("superbatch", ["100 samples", "100000 samples"])
@pytest.mark.parametrize("max_rows", [None, 12])
def test_groups_are_padded_to_the_longest_of_a_batch(events, max_rows, superbatch):
    ds, rows = events
    loader = ds.groups("event_id").loader(
        {
            "x": fb.col("t", "q", dtype="float32").padded(max_rows),
            "s": fb.col("s").padded(max_rows, pad=-1),
            "half": fb.col("half", dtype="float32").padded(max_rows),
            "event": fb.col("event_id").first(),
        },
        batch_size=64, superbatch=superbatch, seed=3, framework="numpy",
    )  # fmt: skip
    seen = []
    for batch in loader:
        x, mask = batch["x"].values, batch["x"].mask
        n = mask.sum(axis=1)
        assert x.shape == (len(batch["event"]), n.max(), 2) and mask.dtype == bool
        for i, event in enumerate(batch["event"]):
            event, k = int(event), int(n[i])
            own = rows[event]
            assert k == (len(own["t"]) if max_rows is None else min(len(own["t"]), max_rows))
            at = _positions(own, x[i, :k, 0])
            assert at == sorted(set(at))
            assert mask[i, :k].all() and not mask[i, k:].any()
            np.testing.assert_array_equal(x[i, :k, 1], own["q"][at].astype("f4"))
            np.testing.assert_array_equal(batch["s"].values[i, :k], own["s"][at])
            np.testing.assert_array_equal(batch["half"].values[i, :k], own["half"][at].astype("f4"))
            assert (x[i, k:] == 0).all() and (batch["s"].values[i, k:] == -1).all()
            seen.append(event)
    assert sorted(seen) == sorted(rows)


def test_lengths_a_fixed_length_and_multiples(events):
    ds, rows = events
    loader = ds.groups("event_id").loader(
        {
            "x": fb.col("t").padded(12, to_max=True, multiple_of=8, lengths=True),
            "y": fb.col("t").padded(multiple_of=8),
            "event": fb.col("event_id").first(),
        },
        batch_size=50, shuffle=False, framework="numpy",
    )  # fmt: skip
    assert loader.outputs["x"].padded == "lengths" and loader.outputs["x"].shape == (50, 16)
    assert loader.outputs["y"].padded == "mask" and loader.outputs["y"].shape == (50, -1)
    for batch in loader:
        assert batch["x"].values.shape[1] == 16 and batch["y"].values.shape[1] % 8 == 0
        expected = [min(len(rows[int(e)]["t"]), 12) for e in batch["event"]]
        assert batch["x"].lengths.tolist() == expected


def test_the_rows_that_are_drawn_depend_on_seed_epoch_and_event_alone(events):
    ds, _ = events

    def draw(seed, epoch, **options):
        loader = ds.groups("event_id").loader(
            {"x": fb.col("t").ragged(5), "event": fb.col("event_id").first()}, seed=seed, epoch=epoch, framework="numpy", **options
        )
        result = {}
        for batch in loader:
            for i, event in enumerate(batch["event"]):
                o = batch["x"].offsets
                result[int(event)] = batch["x"].values[o[i] : o[i + 1]].tolist()
        return result

    first = draw(0, 0, batch_size=64)
    assert first == draw(0, 0, batch_size=7, threads=1) == draw(0, 0, batch_size=100, shuffle=False)
    assert first != draw(0, 1, batch_size=64) and first != draw(1, 0, batch_size=64)


def test_every_row_is_as_likely_as_any_other(events):
    ds, rows = events
    event = max(rows, key=lambda e: len(rows[e]["t"]))
    n = len(rows[event]["t"])
    count = np.zeros(n)
    loader = ds.groups("event_id").loader({"x": fb.col("t").ragged(7), "event": fb.col("event_id").first()}, batch_size=600, framework="numpy")
    epochs = 400
    for _ in range(epochs):
        for batch in loader:
            (i,) = np.flatnonzero(batch["event"] == event)
            o = batch["x"].offsets
            count[_positions(rows[event], batch["x"].values[o[i] : o[i + 1]])] += 1
    expected = epochs * 7 / n
    chi2 = ((count - expected) ** 2 / (expected * (1 - 7 / n))).sum()
    assert chi2 < 2.2 * n  # n − 1 degrees of freedom: far beyond any p of 1e-4


def test_lists_and_strings_are_padded(events):
    ds, _ = events
    loader = ds.rows().loader(
        {"hits": fb.col("hits").padded(4, to_max=True), "word": fb.col("word").padded(), "row": fb.row_index()}, batch_size=100, shuffle=False,
        framework="numpy"
    )
    rows_of_file = [file.rows for file in ds.files]
    starts = np.concatenate([[0], np.cumsum(rows_of_file)])
    for batch in loader:
        values, mask = batch["hits"].values, batch["hits"].mask
        for i, row in enumerate(batch["row"]):
            k = int(row - starts[np.searchsorted(starts, row, side="right") - 1])
            expected = list(range(k % 7))
            assert mask[i].sum() == min(4, len(expected))
            assert set(values[i][mask[i]].tolist()) <= set(expected)
            word, letters = batch["word"].values, batch["word"].mask
            assert bytes(word[i][letters[i]]) == b"x" * (k % 5)


def test_constants_optional_outputs_and_masks(events):
    ds, _ = events
    loader = ds.groups("event_id").loader(
        {"c": fb.lit(3, "int64"), "label": fb.col("label").optional(), "m": fb.col("q").is_missing().padded(12)}, batch_size=64, framework="numpy"
    )
    batch = next(iter(loader))
    assert list(batch) == ["c", "m"] and batch["c"].dtype == np.int64 and (batch["c"] == 3).all()
    assert not batch["m"].values[batch["m"].mask].any()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (fb.col("t").padded(4, pad=float("nan")).cast("int32"), "pad value nan is not a value of int32"),
        (fb.col("nope").optional(), "all outputs are optional"),
    ],
)
def test_what_does_not_fit_is_said_at_open(events, output, message):
    ds, _ = events
    with pytest.raises(fb.Error, match=message):
        ds.groups("event_id").loader({"x": output}, batch_size=4)


def test_rows_have_nothing_to_pad(events):
    ds, _ = events
    with pytest.raises(fb.ArgumentError, match="same shape for every sample"):
        ds.rows().loader({"x": fb.col("t").padded(4)}, batch_size=4)
    with pytest.raises(ValueError, match="keep='last': use 'random'"):
        fb.col("t").ragged(4, keep="last")
    with pytest.raises(ValueError, match="to_max=True needs max_rows"):
        fb.col("t").padded(to_max=True)
