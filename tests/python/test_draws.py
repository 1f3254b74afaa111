"""Samples drawn by weight anew in every epoch: against an independent draw, value by value; order, resume, budgets, what is refused."""

import pickle

import pytest

import forebay as fb
from rank_orders import check_ranks_and_states

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 1500
MARKS = 0x4D41524B53


def philox(key, low, high):
    """Philox4x32-10 of Salmon et al.: one 64-bit number of (key, counter), in plain Python."""
    mask = 2**32 - 1
    c = [low & mask, low >> 32, high & mask, high >> 32]
    k = [key & mask, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c[1] << 32 | c[0]


def drawn(weights, n, seed, epoch):
    """Which samples an epoch draws, rising."""
    w = (weights / weights.max()).astype(np.float32).astype(np.float64)
    ends = np.cumsum(w)
    key = philox(seed, epoch, MARKS)
    u = np.array([(philox(key, k, MARKS) >> 32) * 2.0**-32 for k in range(n)])
    marks = (np.arange(n) + u) * (ends[-1] / n)
    return np.minimum(np.searchsorted(ends, marks, side="right"), np.flatnonzero(w)[-1])


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(7)
    weights = np.where(np.arange(ROWS) % 7 == 3, 0, rng.exponential(size=ROWS) ** 2)
    weights[200:450] = 0  # whole blocks
    weights[900] = 40  # comes many times
    weights[-3:] = 0
    key = np.repeat(np.arange(ROWS), rng.integers(1, 9, ROWS))[:ROWS]
    table = pa.table({"row": np.arange(ROWS), "w": weights, "cls": np.arange(ROWS) % 3, "key": key, "x": rng.normal(size=ROWS).astype(np.float32),
                      "word": [f"w{i}" * (i % 3) for i in range(ROWS)]})  # fmt: skip
    for i in range(3):
        pq.write_table(table.slice(500 * i, 500), tmp_path / f"f{i}.parquet", row_group_size=(70, 100, 45)[i], data_page_size=256)
    return table


def dataset(path):
    return fb.open(str(path / "*.parquet"))


def loader(samples, outputs={"row": "row", "x": "x", "word": "word"}, **options):
    return samples.loader(outputs, **{"batch_size": 16, "framework": "numpy", "seed": 3, **options})


def rows_of(loader):
    return [b["row"].tolist() for b in loader]


@pytest.mark.parametrize("shuffle", [True, "full", "block", False])
@pytest.mark.parametrize("n", [None, 400, 5000])
def test_every_epoch_is_the_draw_that_its_number_says(tmp_path, table, n, shuffle):
    weights, x = table["w"].to_numpy(), table["x"].to_numpy()
    samples = dataset(tmp_path).rows().resample("w", n=n, seed=11, each_epoch=True)
    assert len(samples) == (n or ROWS)
    for options in ({"superbatch": "200 samples"}, {"threads": 1}):
        with loader(samples, {"row": "row", "x": "x"}, shuffle=shuffle, **options) as l:
            least = l.report().budget_minimum_bytes
        for memory in (least, "64MiB"):
            with loader(samples, {"row": "row", "x": "x"}, shuffle=shuffle, memory=memory, **options) as l:
                for epoch in range(3):
                    assert len(l) == -(-len(samples) // 16)
                    rows = []
                    for batch in l:
                        rows += batch["row"].tolist()
                        np.testing.assert_array_equal(batch["x"], x[batch["row"]])
                    expect = drawn(weights, len(samples), 11, epoch).tolist()
                    assert (rows if shuffle is False else sorted(rows)) == expect
                assert l.report().budget_peak_bytes <= l.report().budget_bytes
    assert [samples[i].start for i in (0, 1, len(samples) - 1)] == [drawn(weights, len(samples), 11, 0)[i] for i in (0, 1, -1)]


def test_a_sample_comes_as_often_as_its_weight_says(tmp_path, table):
    """And in one epoch never far from it; neighbours are drawn together as often as apart."""
    weights = table["w"].to_numpy()
    counts = np.array([np.bincount(drawn(weights, 800, 5, e), minlength=ROWS) for e in range(200)])
    expect = 800 * weights / weights.sum()
    assert (counts.sum(1) == 800).all()
    assert (counts >= np.floor(expect) - 1).all() and (counts <= np.ceil(expect) + 1).all()
    assert (counts[:, expect == 0] == 0).all()
    error = np.abs(counts.mean(0) - expect) / np.sqrt(np.maximum(expect, 0.05) / 200)
    assert error.max() < 5
    assert len({tuple(c) for c in counts}) == 200
    even = np.array([np.bincount(drawn(np.ones(200), 100, 5, e), minlength=200) for e in range(400)])  # a draw of one offset has two outcomes here
    assert len({tuple(c) for c in even}) == 400


def test_weights_of_classes_and_of_single_samples(tmp_path, table):
    ds = dataset(tmp_path)
    each = np.array([1.0, 0.0, 2.5])[table["cls"].to_numpy()]
    for samples in (
        ds.rows().resample({0: 1, 1: 0, 2: 2.5}, column="cls", seed=4, each_epoch=True),
        ds.rows().resample(each, seed=4, each_epoch=True),
    ):
        with loader(samples, epoch=6) as l:
            assert sorted(sum(rows_of(l), [])) == drawn(each, ROWS, 4, 6).tolist()


def test_the_order_is_the_same_for_any_threads_budget_and_world_size_and_a_state_goes_on_exactly(tmp_path, table):
    samples = dataset(tmp_path).rows().resample("w", n=700, seed=2, each_epoch=True)
    how = {"superbatch": "300 samples", "tail": "wrap"}
    with loader(samples, threads=2, **how) as l:
        least = l.report().budget_minimum_bytes

    def make(rank, world, **options):
        return loader(samples, batch_size=16 // world, rank=rank, world_size=world, **options, **how)

    def tight(rank, world):
        return make(rank, world, threads=(0, 2, 4, 0, 1)[world], memory=least if world == 1 else None)

    states = check_ranks_and_states(tight, lambda batch: batch["row"].tolist(), 3, later=make)
    for other in (
        dataset(tmp_path).rows().resample("w", n=700, seed=3, each_epoch=True), dataset(tmp_path).rows().resample("w", n=700, seed=2),
        dataset(tmp_path).rows().resample("cls", n=700, seed=2, each_epoch=True),
    ):  # fmt: skip
        with loader(other, **how) as l, pytest.raises(ValueError, match="cut from the same files in another way"):
            l.load_state_dict(states[0][1])


@pytest.mark.parametrize("options",
                         [{}, {"batch_elements": 60, "batch_size": None}, {"bucket_samples": 64},
                          {"batch_elements": 60, "batch_size": None, "bucket_samples": 64}])
@pytest.mark.parametrize("kind", ["groups", "windows", "selected"])
def test_groups_windows_and_selections_are_drawn_too(tmp_path, table, kind, options):
    ds = dataset(tmp_path)
    samples = {"groups": lambda: ds.groups("key"), "windows": lambda: ds.windows(5, stride=3),
               "selected": lambda: ds.groups("key").limit(0.5, random=True)}[kind]()
    if kind == "windows" and options:
        options = {name: value for name, value in options.items() if name != "bucket_samples"}
    firsts = np.array([samples[i].start for i in range(len(samples))])
    lengths = np.array([len(samples[i]) for i in range(len(samples))])
    weights = table["w"].to_numpy()[firsts]
    picked = samples.resample("w", n=300, seed=9, each_epoch=True)
    outputs = {"i": fb.sample_index(), "n": fb.n_rows(), "first": fb.row_index(), "row": fb.col("row")}
    with loader(picked, outputs, **options) as l:
        for epoch in range(3):
            seen = []
            for batch in l:
                packed = batch["row"].values if hasattr(batch["row"], "values") else np.reshape(batch["row"], -1)
                assert packed.tolist() == [r for i in batch["i"] for r in range(firsts[i], firsts[i] + lengths[i])]
                assert batch["n"].tolist() == lengths[batch["i"]].tolist() and batch["first"].tolist() == firsts[batch["i"]].tolist()
                seen += batch["i"].tolist()
            assert sorted(seen) == drawn(weights, 300, 9, epoch).tolist()


def test_what_cannot_be_is_refused_with_what_would_work(tmp_path, table):
    ds = dataset(tmp_path)
    samples = ds.rows().resample("w", each_epoch=True)
    for call in (
        lambda: samples.select("row", low=3), lambda: samples.limit(4), lambda: samples.split(a=0.5, b=0.5), lambda: samples.split(a=0.5, b=0.5, by="cls"),
        lambda: samples.oversample("cls", {1: 2}), lambda: samples.resample("w"), lambda: fb.fit(samples, ["x"]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="drawn anew in every epoch"):
            call()
    for options in ({"part": "1 file"}, {"part": "2 keys", "part_key": "cls"}, {"diversity_files": 2}, {"max_superbatch_batches": 4}):
        with pytest.raises(ValueError, match="drawn anew in every epoch: .*without each_epoch"):
            loader(samples, **options)
    with pytest.raises(TypeError, match="each_epoch=1"):
        ds.rows().resample("w", each_epoch=1)
    with pytest.raises(ValueError, match="sample 2 has a weight of -1"):
        ds.rows().resample(np.r_[1, 1, -1, np.ones(ROWS - 3)], each_epoch=True)


def test_the_draw_pickles_and_a_pipeline_file_says_it(tmp_path, table):
    samples = dataset(tmp_path).rows().resample("w", n=200, seed=8, each_epoch=True)
    with loader(samples) as l:
        expect = [rows_of(l) for _ in range(3)]
        with pickle.loads(pickle.dumps(l)) as twin:
            assert [rows_of(twin) for _ in range(3)] == expect
        l.to_yaml(tmp_path / "p.yaml")
    assert "each_epoch: true" in (tmp_path / "p.yaml").read_text()
    with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as l:
        assert [rows_of(l) for _ in range(3)] == expect
