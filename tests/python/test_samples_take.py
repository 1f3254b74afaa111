"""Samples by number: masks, indices, slices; their order and repeats; what does not fit."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb


def firsts(samples):
    return [samples[i].start for i in range(len(samples))]


@pytest.fixture
def ds(tmp_path):
    for k in range(3):
        pq.write_table(pa.table({"x": np.arange(k * 100, k * 100 + 100), "event": k * 30 + np.arange(100) // 4}), tmp_path / f"{k}.parquet", row_group_size=30)
    return fb.open(tmp_path)


KINDS = {
    "rows": lambda ds: ds.rows(), "windows": lambda ds: ds.windows(5, 2, stride=3), "groups": lambda ds: ds.groups("event"),
    "chosen": lambda ds: ds.rows().select("x", low=50, high=270), "repeated": lambda ds: ds.rows().oversample("event", {1: 3, 40: 0}),
    "part": lambda ds: ds.rows().split(a=0.5, b=0.5, by="samples")["b"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_and_the_numbers_of_its_true_ones_are_the_same_samples(ds, kind):
    samples = KINDS[kind](ds)
    all_of_them = np.array(firsts(samples))
    mask = np.random.default_rng(1).random(len(samples)) < 0.3
    numbers = np.flatnonzero(mask)
    for given in (mask, mask.tolist(), numbers, numbers.tolist(), numbers.astype("u2"), numbers - len(samples), numbers[::-1].copy()):
        assert firsts(samples[given]) == firsts(samples.take(given)) == all_of_them[mask].tolist()
    some = samples[mask]
    assert firsts(pickle.loads(pickle.dumps(some))) == firsts(some)
    assert firsts(some[[0, -1]]) == all_of_them[numbers[[0, -1]]].tolist()
    with some.loader({"row": fb.row_index()}, batch_size=8, framework="numpy") as loader:
        assert sorted(np.concatenate([batch["row"] for batch in loader]).tolist()) == firsts(some)


def test_indices_are_a_set_with_repeats_in_file_order(ds):
    rows = ds.rows()
    indices = np.random.default_rng(2).integers(0, 300, 1000)
    assert firsts(rows.take(indices)) == np.sort(indices).tolist()
    with rows[[7, 3, 3]].loader("x", batch_size=8, shuffle=False, framework="numpy") as loader:
        assert next(iter(loader))["x"].tolist() == [3, 3, 7]
    assert len(rows[np.full(65_535, 4)]) == 65_535


def test_slices_ranges_and_other_containers(ds):
    rows = ds.rows()
    for given in (slice(10, 20), slice(None, None, 7), slice(-5, None), slice(0, 10_000)):
        assert firsts(rows[given]) == list(range(300))[given]
    assert firsts(rows[range(5, 9)]) == firsts(rows.take(i for i in (5, 6, 7, 8))) == [5, 6, 7, 8]
    assert firsts(rows[pa.array([3, 9]).to_numpy()]) == firsts(rows.take(pa.chunked_array([[3], [9]]))) == [3, 9]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2, 1], "i": [5, 8, 2]})
    assert firsts(rows[frame["i"]]) == [2, 5, 8] and len(rows[pandas.Series(np.arange(300) % 2 == 0)]) == 150
    torch = pytest.importorskip("torch")
    assert firsts(rows[torch.tensor([4, 1])]) == [1, 4] and len(rows[torch.arange(300) < 12]) == 12


def test_one_number_is_still_the_rows_of_that_sample(ds):
    windows = ds.windows(5)
    for one in (3, np.int64(3), np.array(3)):
        assert windows[one] == range(3, 8)
    assert windows[-1] == range(295, 300)


def test_states_tell_selections_apart(ds):
    with ds.rows()[:100].loader("x", batch_size=10) as loader:
        state = loader.state_dict()
    with ds.rows()[range(100)].loader("x", batch_size=10) as same:
        same.load_state_dict(state)
    with ds.rows()[np.arange(1, 101)].loader("x", batch_size=10) as other, pytest.raises(ValueError, match="samples"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([300], IndexError, "sample 300 is out of range: there are 300"),
        (np.array([0, -301]), IndexError, "sample -301 is out of range"),
        (np.array([2**64 - 1], "u8"), IndexError, "out of range"),
        (np.ones(299, bool), IndexError, "a mask of 299 for 300 samples"),
        ([True] * 299, IndexError, "a mask of 299 for 300 samples"),
        (np.zeros(300, bool), ValueError, "no sample is listed"),
        ([], ValueError, "no sample is listed"),
        (slice(5, 5), ValueError, "no sample is listed"),
        (slice(None, None, -1), ValueError, "at least 1"),
        (np.array([1.0, 2.0]), TypeError, "not by float64"),
        (np.array([[1, 2]]), TypeError, r"shape \(1, 2\)"),
        ([1, "a"], TypeError, "index must be an integer, not str"),
        ([1, True], TypeError, "must be an integer"),
        ((1, 2), TypeError, "by number, not by .1, 2.: a number, a slice, a list or array of numbers, or a mask"),
        ("event", TypeError, "by number, not by 'event': splits are in the dict that split.. returned"),
        (np.full(65_536, 4), ValueError, "index 4 is listed 65536 times"),
    ],
)
def test_what_does_not_fit_is_refused(ds, given, error, says):
    with pytest.raises(error, match=says):
        ds.rows()[given]


def test_draws_of_each_epoch_cannot_be_taken_from(ds):
    with pytest.raises(ValueError, match="drawn anew in every epoch"):
        ds.rows().resample("x", each_epoch=True)[:3]


def test_a_pipeline_file_takes_and_is_written(ds, tmp_path):
    samples = ds.groups("event").take([1, 5, 5, 40])
    with samples.loader({"row": fb.row_index()}, batch_size=2, framework="numpy") as loader:
        loader.to_yaml(tmp_path / "p.yaml")
        again = fb.pipeline(tmp_path / "p.yaml")
        assert firsts(again.samples) == firsts(samples) and "take: [1, 5, 5, 40]" in (tmp_path / "p.yaml").read_text()
    (tmp_path / "q.yaml").write_text("data: .\nsamples: {rows: true, take: [3, 500]}\nloader: {batch_size: 2}\n")
    with pytest.raises(ValueError, match=r"q.yaml:2:\d+: take: index 500, at place 1 of the list: there are 300 samples"):
        fb.pipeline(tmp_path / "q.yaml").loader()
    (tmp_path / "q.yaml").write_text("data: .\nsamples: {take: 7}\nloader: {batch_size: 2}\n")
    with pytest.raises(ValueError, match=r"q.yaml:2:\d+: take: a list of the numbers"):
        fb.pipeline(tmp_path / "q.yaml")
    with ds.rows()[np.arange(100_001) % 300].loader("x", batch_size=2) as loader, pytest.raises(ValueError, match="mark them in a column"):
        loader.to_yaml(tmp_path / "w.yaml")
