"""Rows that go straight to their batches (loader/direct.c), of files on disk: every kind of value, against NumPy."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

FILES, PER_FILE = 40, 300
ROWS, COLUMNS = FILES * PER_FILE, 100


def run(samples, outputs, **how):
    """Two epochs at several budgets from the smallest on. Yields their batches; at one budget at least, rows went straight to them."""
    with pytest.raises(fb.BudgetError) as refused:
        samples.loader(outputs, memory=1 << 16, framework="numpy", threads=2, **how)
    least = int(str(refused.value).split("needs at least ")[1].split()[0])
    n_direct = 0
    for memory in (least, *(int(least * more) for more in (1.1, 1.3, 1.4, 1.5))):
        with samples.loader(outputs, memory=memory, framework="numpy", threads=2, **how) as loader:
            yield [list(loader), list(loader)]
            report = loader.report()
        assert report.budget_peak_bytes <= memory
        n_direct += report.blocks_from_cache == 0 and report.blocks_evicted == 0  # nothing was kept: each block was read in both epochs
    assert n_direct > 0


def check(epochs, expected, rows):
    orders = []
    for batches in epochs:
        row = np.concatenate([b["row"] for b in batches])
        orders.append(row)
        assert np.array_equal(np.sort(row), np.arange(rows))
        for name, values in expected.items():
            got = np.concatenate([b[name] for b in batches])
            assert got.dtype == values.dtype
            np.testing.assert_array_equal(got, values[row], err_msg=name)
    assert not np.array_equal(*orders)


@pytest.mark.parametrize(("width", "per_file", "beside"), [(1, 300, 200), (7, 300, 200), (300, 300, 200), (2100, 60, 1500)])
def test_values_that_widen_on_their_way(tmp_path, width, per_file, beside):
    """float16 in the file, float32 in the batch: rows shorter and longer than what is converted at once."""
    rows = FILES * per_file
    values = np.random.default_rng(width).standard_normal((rows, width)).astype(np.float16)
    others = np.arange(rows, dtype=np.float32)[:, None] * np.arange(beside, dtype=np.float32)
    for k in range(FILES):
        with h5py.File(tmp_path / f"{k:02}.h5", "w") as file:
            file.create_dataset("x", data=values[per_file * k :][:per_file], chunks=(20, width))
            file["y"] = others[per_file * k :][:per_file]
    with fb.open(tmp_path, cache_dir="") as ds:
        outputs = {"x": fb.col("x", dtype="float32"), "y": "y", "row": fb.sample_index()}
        for epochs in run(ds.rows(), outputs, batch_size=per_file // 6 // 8 * 8 or 8, superbatch=per_file * 3, seed=3):
            check(epochs, {"x": values.astype(np.float32), "y": others}, rows)


@pytest.fixture
def table(tmp_path):
    """Forty Parquet files of 300 rows, some values missing."""
    rng = np.random.default_rng(9)
    columns = {f"c{i}": rng.standard_normal(ROWS).astype(np.float32) for i in range(COLUMNS)}
    columns["whole"] = rng.integers(0, 1000, ROWS)
    columns["gap"] = np.where(rng.random(ROWS) < 0.2, np.nan, rng.standard_normal(ROWS))
    for k in range(FILES):
        part = slice(k * PER_FILE, (k + 1) * PER_FILE)
        arrays = {name: pa.array(v[part], from_pandas=name == "gap") for name, v in columns.items()}
        pq.write_table(pa.table(arrays), tmp_path / f"{k:02}.parquet")
    return tmp_path, columns


def test_row_operations_masks_and_numbers_go_with_their_rows(table):
    path, columns = table
    matrix = np.stack([columns[f"c{i}"] for i in range(COLUMNS)], axis=1)
    outputs = {
        "x": fb.col(*[f"c{i}" for i in range(COLUMNS)]),
        "part": fb.col(*[f"c{i}" for i in range(4, 9)]),
        "scaled": fb.col("c0", "c1").scale(2).offset(1).clip(-1, 2),
        "gap": fb.col("gap"),
        "filled": fb.col("gap").fill_missing(-7),
        "absent": fb.col("gap").is_missing(),
        "whole": "whole",
        "row": fb.sample_index(),
    }
    with fb.open(path, cache_dir="") as ds:
        gap = columns["gap"]
        scaled = np.clip(matrix[:, :2].astype(np.float64) * 2 + 1, -1, 2).astype(np.float32)
        expected = {"x": matrix, "part": matrix[:, 4:9], "scaled": scaled, "gap": gap, "filled": np.where(np.isnan(gap), -7, gap),
                    "absent": np.isnan(gap), "whole": columns["whole"]}  # fmt: skip
        for epochs in run(ds.rows(), outputs, batch_size=64, superbatch=1500, seed=1):
            check(epochs, expected, ROWS)


@pytest.mark.parametrize("world", [2, 4])
def test_some_samples_some_twice_on_ranks_whose_last_batch_is_wrapped(table, world):
    path, columns = table
    matrix = np.stack([columns[f"c{i}"] for i in range(COLUMNS)], axis=1)
    with fb.open(path, cache_dir="") as ds:
        often = np.unique(columns["whole"])[::5]
        chosen = ds.rows().oversample("whole", {int(v): 3 for v in often})
        rows = np.repeat(np.arange(ROWS), np.where(np.isin(columns["whole"], often), 3, 1))
        outputs = {"x": fb.col(*[f"c{i}" for i in range(COLUMNS)]), "row": fb.sample_index()}
        seen = []
        for rank in range(world):
            first = None
            for epochs in run(chosen, outputs, batch_size=48, superbatch=2000, seed=1, rank=rank, world_size=world):
                row = np.concatenate([b["row"] for b in epochs[0]])
                np.testing.assert_array_equal(np.concatenate([b["x"] for b in epochs[0]]), matrix[rows[row]])
                assert first is None or np.array_equal(row, first)
                first = row
            seen.append(first)
    count = np.bincount(np.concatenate(seen), minlength=len(rows))
    assert count.min() == 1 and 0 < count.sum() - len(rows) < 48 * world  # the wrapped tail


@pytest.mark.parametrize("tail", ["wrap", "uneven"])
def test_repeats_are_marked_on_the_way(table, tail):
    path, columns = table
    names = [f"c{i}" for i in range(COLUMNS)]
    matrix = np.stack([columns[name] for name in names], axis=1)
    outputs = {"x": names, "row": fb.sample_index(), "again": fb.is_repeat()}
    with fb.open(path, cache_dir="") as ds:
        ranks = [list(run(ds.rows(), outputs, batch_size=56, superbatch=600, seed=4, rank=rank, world_size=2, tail=tail)) for rank in range(2)]
    for budgets in zip(*ranks, strict=True):
        for epoch in range(2):
            batches = [b for rank in budgets for b in rank[epoch]]
            row, again = (np.concatenate([b[name] for b in batches]) for name in ("row", "again"))
            assert np.array_equal(np.sort(row[~again]), np.arange(ROWS))
            assert again.sum() == (-ROWS % 112 if tail == "wrap" else 0)
            assert np.array_equal(np.concatenate([b["x"] for b in batches]), matrix[row])
