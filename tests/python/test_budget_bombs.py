"""Files whose pages, dictionaries and chunks are far larger than they look: within the budget, or refused by name."""

import gzip
import json
import re

import pytest

SLACK = 64 << 20
MIB = 1 << 20


def page(path):
    """Numbers of 48 MiB in one page, where others have at most 8 MiB."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 6 * MIB
    table = pa.table({"a": pa.Array.from_buffers(pa.int64(), n, [None, pa.py_buffer(bytes(8 * n))])})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, data_page_size=1 << 30, write_batch_size=n, row_group_size=n)


def dictionary(path):
    """A dictionary of which one string has 48 MiB, and a row in 50,000."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    strings = pa.array(["a" * (48 * MIB)] + ["b"] * 50_000)
    pq.write_table(pa.table({"a": strings}), path, compression="zstd", dictionary_pagesize_limit=1 << 30, write_statistics=False)


def delta(path):
    """2,000 equal strings of 50,000 bytes: of all but one, DELTA_BYTE_ARRAY stores that they are the one before."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": ["x" * 50_000] * 2_000})
    options = dict(compression="zstd", use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"}, write_statistics=False)
    pq.write_table(table, path, data_page_size=1 << 30, **options)


def chunk(path):
    """A chunk of 24 MiB of which gzip keeps 25 KB."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as f:
        f.create_dataset("a", shape=(3 * MIB,), dtype="f8", chunks=(3 * MIB,), compression="gzip", fillvalue=1)[:] = 0


def text(path):
    with gzip.open(path, "wb") as f:
        f.write(b"a\n" + b"0\n" * (3 * MIB))


BOMBS = {page: "page.parquet", dictionary: "dictionary.parquet", delta: "delta.parquet", chunk: "chunk.h5", text: "text.csv.gz"}

LOADS = """
    import json, sys
    import forebay as fb

    path, budgets, threads, repeats = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    def status(field):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field))

    def load(ds, memory):
        options = dict(batch_size=16, memory=memory, threads=threads, framework="numpy")
        before, n = status("VmRSS"), 0
        open("/proc/self/clear_refs", "w").write("5")
        try:
            with ds.rows().loader(["a"], **options) as loader:
                for batch in loader:
                    n += len(batch["a"])
                    del batch
                    if n >= 1600:
                        break
                return {"rows": n, "peak": loader.report().budget_peak_bytes, "grown": status("VmHWM") - before}
        except fb.BudgetError as error:
            return {"refused": str(error)}

    with fb.open(path, cache_dir="", memory="1GiB") as ds:
        print(json.dumps([[load(ds, memory) for _ in range(repeats)] for memory in budgets]))
"""


def advised(said):
    return int(re.search(r"(?:needs at least|raise memory to) (\d+) bytes", said)[1])


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_what_explodes_stays_within_the_budget_or_is_refused_by_name(tmp_path, run_python, bomb, threads):
    def run(budgets, repeats):
        return json.loads(run_python(LOADS, path, json.dumps(budgets), threads, repeats, timeout=200).stdout)

    path = tmp_path / BOMBS[bomb]
    bomb(path)
    assert path.stat().st_size < 128 << 10
    memory = advised(run([MIB], 1)[0][0]["refused"])
    budgets = [memory, memory + memory // 8, 2 * memory]
    for _ in range(12):
        for budget, runs in zip(budgets, run(budgets, 2)):
            assert len({"refused" in one for one in runs}) == 1, runs  # always, or never
            for one in runs:
                if "refused" in one:
                    assert path.name in one["refused"] and "raise memory" in one["refused"], one
                else:
                    assert one["rows"] == 1600 and one["peak"] <= budget and one["grown"] <= budget + SLACK, (budget, one)
        if "refused" not in runs[0]:
            return
        budgets = [int(re.search(r"raise memory to (\d+) bytes", runs[0]["refused"])[1])]
    raise AssertionError(runs)
