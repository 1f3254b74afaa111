"""Where few of a block's rows are chosen, only those are kept, and they are the right ones."""

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """8,000 events in four files, over row groups, with numbers, nulls, strings and lists."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    for f in range(4):
        lengths = rng.integers(1, 30, 2000)
        event = np.repeat(np.arange(2000) + 10000 * f, lengths)
        n = len(event)
        table = pa.table(
            {
                "event_id": event,
                "t": rng.random(n).astype("f4"),
                "q": pa.array(rng.random(n), mask=rng.random(n) < 0.1),
                "word": ["x" * (k % 9) + str(k) for k in range(n)],
                "same": pa.array(["always the same text"] * n).dictionary_encode(),
                "hits": pa.array([list(range(k % 7)) for k in range(n)], pa.list_(pa.int32())),
            }
        )
        pq.write_table(table, folder / f"{f}.parquet", row_group_size=7000)
    ds = fb.open(f"{folder}/*.parquet")
    frame = pa.table(ds).to_pandas()
    return ds, {int(k): v for k, v in frame.groupby("event_id")}


OUTPUTS = {
    "x": fb.col("t", "q", dtype="float32"),
    "missing": fb.col("q").is_missing(),
    "word": fb.col("word").first(),
    "same": fb.col("same").first(),
    "hits": fb.col("hits").first(),
    "event": fb.col("event_id").first(),
    "row": fb.row_index(),
}


@pytest.mark.parametrize("chosen", [1, 80, 3000])
@pytest.mark.parametrize("superbatch", ["10 samples", "200 samples", "10000 samples"])
def test_chosen_events_are_whole_and_right(events, chosen, superbatch):
    ds, rows = events
    ids = sorted(np.random.default_rng(chosen).choice(list(rows), chosen, replace=False).tolist())
    loader = ds.groups("event_id").select(ids).loader(OUTPUTS, batch_size=16, superbatch=superbatch, framework="numpy")
    for _ in range(2):
        seen = []
        for batch in loader:
            offsets, words, same, hits = batch["x"].offsets, batch["word"].to_list(), batch["same"].to_list(), batch["hits"]
            for i, event in enumerate(batch["event"].tolist()):
                own = rows[event]
                at = slice(offsets[i], offsets[i + 1])
                np.testing.assert_array_equal(batch["x"].values[at], own[["t", "q"]].to_numpy("f4"))
                np.testing.assert_array_equal(batch["missing"].values[at], own["q"].isna())
                assert words[i] == own["word"].iloc[0] and same[i] == "always the same text"
                assert hits.values[hits.offsets[i] : hits.offsets[i + 1]].tolist() == list(own["hits"].iloc[0])
                assert batch["row"][i] == own.index[0]
                seen.append(event)
        assert sorted(seen) == ids


def test_rows_that_were_not_chosen_are_not_kept(events):
    ds, rows = events
    ids = sorted(np.random.default_rng(0).choice(list(rows), 80, replace=False).tolist())
    options = {"outputs": {"x": fb.col("t", "q", dtype="float32")}, "batch_size": 16, "shuffle": "full", "threads": 1}
    some, every = ds.groups("event_id").select(ids).loader(**options), ds.groups("event_id").loader(**options)
    decoded = sum(file.rows for file in ds.files) * 8
    assert every.report().budget_minimum_bytes > decoded
    assert some.report().budget_minimum_bytes < every.report().budget_minimum_bytes - decoded * 0.6


def test_moments_are_those_of_the_chosen_rows(events):
    ds, rows = events
    chosen = ds.rows().select("t", low=0.25, high=0.5)
    values = np.concatenate([own["t"].to_numpy("f8") for own in rows.values()])
    values = values[(values >= 0.25) & (values < 0.5)]
    moment = fb.fit(chosen, ["t"])["t"]
    assert moment.n == len(values) == len(chosen)
    assert moment.mean == pytest.approx(values.mean(), rel=1e-12) and moment.std == pytest.approx(values.std(), rel=1e-12)
    ids = sorted(rows)[:500:7]
    values = np.concatenate([rows[i]["t"].to_numpy("f8") for i in ids])
    moment = fb.fit(ds.groups("event_id").select(ids), ["t"])["t"]
    assert moment.n == len(values) and moment.mean == pytest.approx(values.mean(), rel=1e-12)
