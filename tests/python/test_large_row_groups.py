"""Row groups that are cut into blocks: each block gets its share of the strings and list elements, and more where rows are unequal."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 40_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One row group of 230 MB as stored; long strings and lists stand together at its end, where a block's share is much too small for them."""
    rng = np.random.default_rng(1)
    noise = rng.integers(32, 127, 16_000_000, dtype=np.uint8).tobytes().decode()
    long = np.arange(ROWS) >= ROWS - 4000
    text = [noise[at : at + (4000 if late else i % 20)] for i, (at, late) in enumerate(zip(np.arange(ROWS) * 37 % 10_000_000, long, strict=True))]
    lists = [np.arange(i, i + (900 if late else i % 3), dtype=np.int32) for i, late in enumerate(long)]
    names = [f"name {i % 50}" for i in range(ROWS)]
    file = tmp_path_factory.mktemp("large") / "one.parquet"
    filler = pa.FixedSizeBinaryArray.from_buffers(pa.binary(5000), ROWS, [None, pa.py_buffer(rng.bytes(5000 * ROWS))])
    table = pa.table({"text": text, "hits": pa.array(lists), "name": names, "filler": filler})
    pq.write_table(table, file, row_group_size=ROWS, compression="none", use_dictionary=["name"])
    assert pq.ParquetFile(file).metadata.num_row_groups == 1
    return file, text, lists, names


def test_dictionaries_that_fill_up_stay_within_the_budget(tmp_path):
    """Ten columns of random floats, whose writer gives up their dictionaries at 1 MiB: what a worker holds of them is part of the minimum."""
    rng = np.random.default_rng(2)
    rows = 600_000
    pq.write_table(pa.table({f"v{i}": rng.standard_normal(rows).astype(np.float32) for i in range(10)}), tmp_path / "f.parquet", row_group_size=rows // 2)
    outputs = {"x": fb.col(*[f"v{i}" for i in range(10)])}
    with fb.open(tmp_path / "f.parquet", cache_dir="") as ds:
        with ds.rows().loader(outputs, batch_size=256, threads=2, framework="numpy") as loader:
            least = loader.report().budget_minimum_bytes
        for memory in (least, least * 21 // 20):
            with ds.rows().loader(outputs, batch_size=256, threads=2, framework="numpy", memory=memory) as loader:
                assert sum(len(b["x"]) for b in loader) == rows
                assert loader.report().budget_peak_bytes <= memory


@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_that_take_more_than_their_share(path, shuffle):
    file, text, lists, names = path
    outputs = {"row": fb.sample_index(), "text": "text", "hits": "hits", "name": "name"}
    seen = np.zeros(ROWS, int)
    with fb.open(file, cache_dir="") as ds, ds.rows().loader(outputs, batch_size=512, shuffle=shuffle, framework="numpy", threads=2) as loader:
        assert loader.report().budget_minimum_bytes < 120 << 20  # 174 MiB with room for all strings and lists in every block
        for batch in loader:
            at, hits_at, name_at = (batch[k].offsets for k in ("text", "hits", "name"))
            raw, hits, name = (batch[k].values for k in ("text", "hits", "name"))
            for i, row in enumerate(batch["row"]):
                assert bytes(raw[at[i] : at[i + 1]]).decode() == text[row]
                assert np.array_equal(hits[hits_at[i] : hits_at[i + 1]], lists[row])
                assert bytes(name[name_at[i] : name_at[i + 1]]).decode() == names[row]
                seen[row] += 1
    assert (seen == 1).all()
