"""Loaders over one table share what is decoded, also where one of them needs few rows of each block: a split that is a small share of the rows."""

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N, GROUP = 60_000, 3_000
OUTPUTS = {
    "x": ["a", "b"], "gone": fb.col("n").is_missing(), "n": "n", "word": "word", "list": "list", "row": fb.row_index(),
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 6, N)
    values, offsets = rng.random(int(lengths.sum()), dtype=np.float32), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    missing = rng.random(N) < 0.2
    table = pa.table({
        "a": rng.random(N), "b": rng.random(N), "n": pa.array(rng.random(N), mask=missing), "word": [f"w{i:x}" * (i % 3) for i in range(N)],
        "list": pa.ListArray.from_arrays(pa.array(offsets), pa.array(values)), "event": np.arange(N) // 6,
    })  # fmt: skip
    file = tmp_path_factory.mktemp("shared") / "x.parquet"
    pq.write_table(table, file, row_group_size=GROUP)
    return file


def plain(batches):
    """As text, in which NaN is NaN."""
    return [repr([value.to_list() if hasattr(value, "to_list") else np.asarray(value).tolist() for value in batch.values()]) for batch in batches]


def loader(samples, seed=0, **options):
    return samples.loader(OUTPUTS, batch_size=100, seed=seed, framework="numpy", **{"memory": "256MiB", "threads": 2, **options})


def splits_of(path, by="samples", share=0.1):
    return fb.open(path).rows().split(train=1 - share, val=share, by=by, seed=1)


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_a_small_split_copies_its_rows_from_the_large_one(path, share):
    """With one stream no block is cut at its end. What the large split reads of a block ends with its own first and last row there."""
    splits = splits_of(path, share=share)
    with loader(splits["val"], streams=1) as alone:
        expected = plain(alone)
        peak = alone.report().budget_peak_bytes
        rows = np.concatenate([batch["row"] for batch in alone])
        assert alone.report().blocks_read == N // GROUP
    beyond = len({row // GROUP for row in rows.tolist() if row % GROUP in (0, GROUP - 1)})
    with loader(splits["train"], streams=1) as train, loader(splits["val"], streams=1) as val:
        for _ in train:
            pass
        assert plain(val) == expected
        report = val.report()
        assert report.blocks_read == beyond and report.blocks_from_cache == N // GROUP - beyond
        assert report.budget_peak_bytes <= 1.2 * peak, "what is copied takes no more than what is decoded, nor stays"
        train.close()
        plain(val)
        assert val.report().blocks_read == beyond, "what was copied is its own"


@pytest.mark.parametrize("options", [{}, {"memory": "6MiB", "superbatch": 1_000}], ids=["all kept", "few kept"])
def test_what_comes_is_the_same_while_both_run_and_one_ends(path, options):
    splits = splits_of(path)
    expected = {}
    for name in splits:
        with loader(splits[name], **options) as alone:
            expected[name] = [plain(alone), plain(alone)]
    for order in (("train", "val"), ("val", "train")):
        loaders = [loader(splits[name], **options) for name in order]
        got = {name: [[], []] for name in order}
        for epoch in range(2):
            iterators = [iter(one) for one in loaders]
            while iterators[0] is not None or iterators[1] is not None:
                for i, name in enumerate(order):
                    batch = None if iterators[i] is None else next(iterators[i], None)
                    if batch is None:
                        iterators[i] = None
                    else:
                        got[name][epoch] += plain([batch])
        assert got == expected
        for one in loaders:
            assert one.report().budget_peak_bytes <= one.report().budget_bytes
            one.close()


@pytest.mark.parametrize("outputs", [{"x": "a", "first": fb.col("word").first()}, {"first": fb.col("word").first()}], ids=["beside others", "alone"])
def test_groups_with_outputs_of_first_rows(path, outputs):
    ds = fb.open(path)
    groups = ds.groups("event")

    def open_(samples, outputs):
        return samples.loader(outputs, batch_size=50, seed=0, framework="numpy", memory="256MiB", streams=1)

    with open_(groups, outputs) as alone:
        expected = plain(alone)
    with open_(ds.rows(), {**({"x": "a"} if "x" in outputs else {}), "w": "word"}) as rows, open_(groups, outputs) as few:
        for _ in rows:
            pass
        assert plain(few) == expected
        copied = few.report().blocks_from_cache
    assert copied == (0 if "x" in outputs else N // GROUP), "of blocks some of whose panels stay as a whole, nothing is copied"
