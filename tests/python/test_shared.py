"""Loaders of one process over the same data decode it once, and deliver what each would have delivered alone."""

import os

import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

FILES, ROWS = 6, 3000


@pytest.fixture
def folder(tmp_path, parquet):
    """Files that were written long ago: a = row number, key = which of ten parts, text."""
    for i in range(FILES):
        a = np.arange(i * ROWS, (i + 1) * ROWS)
        path = parquet({"a": a, "key": a % 10, "s": [f"s{v}" for v in a]}, f"many/{i}.parquet", row_group_size=1000)
        os.utime(tmp_path / "many" / f"{i}.parquet", (1_000_000_000, 1_000_000_000))
    return tmp_path / "many"


def epoch(loader):
    return [(b["a"].tolist(), list(b["s"])) for b in loader]


def alone(samples, **options):
    with samples.loader(["a", "s"], framework="numpy", **options) as loader:
        return epoch(loader), loader.report()


def test_the_same_files_opened_twice_are_decoded_once(folder):
    expected, report = alone(fb.open(folder), batch_size=100, seed=2)
    assert report.blocks_read == 18 and report.bytes_decoded > 0
    with fb.open(folder).loader(["a", "s"], batch_size=64, seed=1, framework="numpy") as first:
        epoch(first)
        with fb.open(folder).loader(["a", "s"], batch_size=100, seed=2, framework="numpy") as second:
            assert epoch(second) == expected
            assert (second.report().blocks_read, second.report().bytes_decoded, second.report().blocks_from_cache) == (0, 0, 18)
            first.close()
            epoch(second)
            assert second.report().blocks_read == 0


def test_training_and_validation_over_parts_of_one_table(folder):
    ds = fb.open(folder)
    for by, parts, shared in (("key", {"train": [0, 2, 4, 6, 8, 9], "val": [1, 5]}, True), ("files", {"train": 0.5, "val": 0.5}, False)):
        split = ds.rows().split(by=by, **parts)
        expected = {name: alone(samples, batch_size=100)[0] for name, samples in split.items()}
        with split["train"].loader(["a", "s"], batch_size=100, framework="numpy") as train:
            assert epoch(train) == expected["train"]
            with split["val"].loader(["a", "s"], batch_size=100, framework="numpy") as val:
                assert epoch(val) == expected["val"]
                assert (val.report().blocks_read == 0) == shared
                again = alone(split["train"], batch_size=100)
                assert again[0] == expected["train"] and again[1].blocks_read == 0
