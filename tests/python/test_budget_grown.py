"""Data that take more than metadata say: what is refused is a matter of data, options and budget, and the budget that a refusal names leads on."""

import collections
import re

import pytest

np = pytest.importorskip("numpy")
fb = pytest.importorskip("forebay")

ASKED = {"batch_size": 20, "threads": 2, "framework": "numpy", "tail": "keep", "superbatch": "2 blocks"}


def lists(n, longest):
    return [np.arange(longest if i % 3 == 0 else 1) for i in range(n)]


def hdf5_of_lists(path, n, longest, chunk):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.zeros(n), chunks=(chunk,))
        f.create_dataset("s", data=["z" * (longest if i % 7 == 0 else 3) for i in range(n)], dtype=h5py.string_dtype(), chunks=(chunk,))
        values = f.create_dataset("h", shape=(n,), dtype=h5py.vlen_dtype(np.int64), chunks=(chunk,))
        for i, row in enumerate(lists(n, longest)):
            values[i] = row
    return path


def minimum_of(samples, outputs, options):
    with pytest.raises(fb.BudgetError) as error:
        samples.loader(outputs, memory=1000, **options)
    return int(re.search(r"needs at least (\d+) bytes", str(error.value))[1])


def outcome(samples, outputs, memory, options):
    """The refusal, or the epoch's rows; the ledger within the budget either way."""
    try:
        with samples.loader(outputs, memory=memory, **options) as loader:
            try:
                return sum(len(batch["row"]) for batch in loader)
            finally:
                assert loader.report().budget_peak_bytes <= memory
    except fb.BudgetError as error:
        return str(error)


@pytest.mark.parametrize(("longest", "times"), [(3_000, 6), (40_000, 3)])
def test_the_same_budget_is_always_refused_or_never(tmp_path, parquet, longest, times):
    pa, n = pytest.importorskip("pyarrow"), 60
    one = fb.open(hdf5_of_lists(tmp_path / "one.h5", n, longest, 20), cache_dir="").rows()
    text = ["z" * (longest if i % 7 == 0 else 3) for i in range(n)]
    table = pa.table({"h": pa.array(lists(n, longest), pa.list_(pa.int64())), "x": np.zeros(n), "s": text})
    other = fb.open(parquet(table, row_group_size=20, compression="zstd", write_statistics=False), cache_dir="").rows()
    outputs, kinds = {"row": fb.sample_index(), "x": "x", "h": "h", "s": "s"}, set()
    for samples in (one, fb.mix({"one": one, "other": other}, stop="all")):
        least = minimum_of(samples, outputs, ASKED)
        for share in (1, 1.2, 1.4, 1.6, 2, 3, 5, 10):
            budget = int(least * share)
            seen = collections.Counter(outcome(samples, outputs, budget, ASKED) for _ in range(times))
            kinds |= {type(found) for found in seen}
            assert len({found if isinstance(found, int) else "refused" for found in seen}) == 1, (share, seen)
    assert kinds == {int, str}


@pytest.mark.parametrize(("columns", "n"), [("h", 3_000), ("s", 3_000), ("s,h", 3_000), ("x,s,h", 20_000)])
def test_the_budget_that_a_refusal_names_is_enough(tmp_path, columns, n):
    """Where blocks are alike; it names a column that took more than metadata say."""
    samples = fb.open(hdf5_of_lists(tmp_path / "one.h5", n, 40, 64), cache_dir="").rows()
    outputs = {"row": fb.sample_index(), **{name: name for name in columns.split(",")}}
    for threads in (1, 2):
        options = {**ASKED, "batch_size": 16, "threads": threads, "superbatch": None}
        memory = minimum_of(samples, outputs, options)
        found = outcome(samples, outputs, memory, options)
        if found != n:
            named = re.search(r"(?:column|output) '(\w+)'", found)
            assert named and named[1] in "sh", found
            memory = int(re.search(r"raise memory to (\d+) bytes", found)[1])
        assert outcome(samples, outputs, memory, options) == n
