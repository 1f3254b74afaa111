"""Strings that are stored in few bytes and decoded to many, under a budget: they take turns, or are refused by name."""

import json
import re

import pytest


EXPANDING = """
    import json, sys
    import numpy as np
    import forebay as fb

    def status(field):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field))
"""


def expanding_parquet(path, groups, rows, size, columns=1):
    """Strings of `size` equal bytes, the last 8 of them the row's number: DELTA_BYTE_ARRAY stores little more than those."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = [f"c{i}" for i in range(columns)]
    schema = pa.schema([(name, pa.large_string()) for name in names])
    options = dict(compression="zstd", use_dictionary=False, column_encoding=dict.fromkeys(names, "DELTA_BYTE_ARRAY"), write_statistics=False)
    with pq.ParquetWriter(path, schema, data_page_size=1 << 30, **options) as writer:
        for g in range(groups):
            column = pa.array([f"{g * rows + i:8}".rjust(size, "x") for i in range(rows)], pa.large_string())
            writer.write_table(pa.table([column] * columns, schema=schema), row_group_size=rows)
    return path


def test_strings_that_expand_beyond_the_budget_are_refused_by_name(tmp_path, run_python):
    path = expanding_parquet(tmp_path / "bomb.parquet", 1, 2_500, 100_000, columns=6)
    assert path.stat().st_size < 64 << 10
    done = run_python(
        EXPANDING
        + """
    def load(memory):
        with fb.open(sys.argv[1]) as ds, ds.rows().loader([f"c{i}" for i in range(6)], batch_size=16, memory=memory, threads=4) as loader:
            batch = next(iter(loader))
            return len(batch["c0"])
    before = status("VmRSS")
    try:
        load("300MiB")
        raise SystemExit("1,430 MiB fit into 300")
    except fb.BudgetError as error:
        text = str(error)
    grown = status("VmHWM") - before
    print(json.dumps([text, grown / 2**20, load("2GiB")]))
    """,
        path,
        timeout=120,
    )
    text, grown, rows = json.loads(done.stdout)
    assert "bomb.parquet', row group 0: column 'c" in text and "300.0 MiB" in text and "raise memory" in text
    assert grown < 300 + 64
    assert rows == 16


def test_a_block_that_does_not_fit_beside_the_others_says_what_they_take(tmp_path, run_python):
    path = expanding_parquet(tmp_path / "many.parquet", 8, 256, 1 << 14)
    done = run_python(
        EXPANDING
        + """
    options = dict(batch_size=16, superbatch="8 blocks", streams=1, memory="12MiB", threads=1, framework="numpy")
    with fb.open(sys.argv[1]) as ds, ds.rows().loader(["c0"], **options) as loader:
        try:
            print(sum(1 for _ in loader))
        except fb.BudgetError as error:
            print(json.dumps(str(error)))
    """,
        path,
    )
    message = r"needs? at least \d+ bytes \(([\d.]+) MiB\) at once, .*budget of \d+ bytes \(12.0 MiB\) .*beside the ([\d.]+) MiB"
    said = re.search(message, json.loads(done.stdout))
    assert said, done.stdout
    assert float(said[1]) + float(said[2]) > 11.8 > float(said[1])


@pytest.mark.parametrize("shuffle", [False, "superbatch"])
def test_blocks_that_expand_take_turns_within_the_budget(tmp_path, run_python, shuffle):
    """24 blocks of 4 MiB once decoded, of which the metadata says a thousandth, in 40 MiB: every row once, and nothing beyond."""
    path = expanding_parquet(tmp_path / "many.parquet", 24, 256, 1 << 14)
    done = run_python(
        EXPANDING
        + """
    seen, peaks = [], []
    options = dict(batch_size=16, superbatch="3 blocks", streams=1, memory="40MiB", threads=4, prefetch=2, framework="numpy")
    with fb.open(sys.argv[1]) as ds, ds.rows().loader(["c0"], shuffle=sys.argv[2] != "False" and sys.argv[2], **options) as loader:
        for epoch in range(3):
            rows = []
            for batch in loader:
                rows += [int(text[-8:]) for text in batch["c0"].to_list()]
            seen.append(sorted(rows) == list(range(24 * 256)))
            peaks.append(loader.report().budget_peak_bytes / 2**20)
    print(json.dumps([seen, peaks]))
    """,
        path,
        str(shuffle),
        timeout=120,
    )
    seen, peaks = json.loads(done.stdout)
    assert seen == [True] * 3
    assert max(peaks) <= 40, peaks


@pytest.mark.parametrize("batch_size", [1500, 6000])
def test_values_of_batches_that_expand_are_refused_by_name(tmp_path, run_python, batch_size):
    """A file of 3 KB of which a batch takes 143 MiB, or four times that."""
    path = expanding_parquet(tmp_path / "bomb.parquet", 4, 1500, 100_000)
    done = run_python(
        EXPANDING
        + """
    with fb.open(sys.argv[1]) as ds:
        options = dict(batch_size=int(sys.argv[2]), prefetch=8, shuffle=False, threads=2, framework="numpy")
        def load(memory):
            with ds.rows().loader(["c0"], memory=memory, **options) as loader:
                rows, text = 0, ""
                try:
                    for batch in loader:
                        values = batch["c0"]
                        assert int(values[0][-8:]) == rows and int(values[-1][-8:]) == rows + len(values) - 1
                        rows += len(values)
                        del batch, values
                except fb.BudgetError as error:
                    text = str(error)
                return rows, loader.report().budget_peak_bytes, text
        before = status("VmRSS")
        small = load("16MiB"), (status("VmHWM") - before) / 2**20
        middle = load("250MiB")
        grown = (status("VmHWM") - before) / 2**20
        enough = int(middle[2].rsplit("raise memory to ", 1)[1].split()[0])
        print(json.dumps([small, middle, grown, enough, load(enough)]))
    """,
        path,
        str(batch_size),
        timeout=200,
    )
    ((rows, _, text), grown), middle, middle_grown, enough, large = json.loads(done.stdout)
    assert rows == 0 and re.search(r"bomb.parquet', row group \d: column 'c0'", text) and grown < 16 + 64  # not even a block
    rows, peak, text = middle
    assert rows == 0 and peak <= 250 << 20 and middle_grown < 250 + 64
    message = rf"output 'c0': the values of batch 0 \({batch_size} samples\) take .*lower batch_size \(now {batch_size}\), or raise memory to"
    assert "bomb.parquet': " in text and re.search(message, text), text
    rows, peak, text = large
    assert rows == 6000 and peak <= enough and not text, text


def test_batches_of_long_values_take_turns_within_the_budget(tmp_path, run_python):
    """Eight batches of 16 MiB are asked for ahead, and few of them fit: all come, in order, and nothing goes beyond."""
    path = expanding_parquet(tmp_path / "long.parquet", 12, 256, 1 << 16)
    done = run_python(
        EXPANDING
        + """
    results = []
    with fb.open(sys.argv[1]) as ds:
        for shuffle in (False, "superbatch", "block"):
            options = dict(batch_size=256, prefetch=8, shuffle=shuffle, superbatch="2 blocks", streams=2, threads=2, framework="numpy")
            orders = []
            for memory in ("2GiB", "150MiB"):
                with ds.rows().loader(["c0"], memory=memory, **options) as loader:
                    for epoch in range(2):
                        orders.append([int(text[-8:]) for batch in loader for text in batch["c0"].to_list()])
                    report = loader.report()
                assert report.budget_peak_bytes <= report.budget_bytes, (shuffle, memory, report.budget_peak_bytes / 2**20)
            assert orders[:2] == orders[2:] and all(sorted(rows) == list(range(12 * 256)) for rows in orders), (shuffle, memory)
            results.append(report.budget_peak_bytes)
    print(json.dumps(results))
    """,
        path,
        timeout=200,
    )
    assert len(json.loads(done.stdout)) == 3


def test_batches_that_wait_for_room_are_not_forgotten(tmp_path, run_python):
    """What is ready behind a batch without room is no reason not to look whether there is room now: it hung within some tens of loaders."""
    path = expanding_parquet(tmp_path / "long.parquet", 15, 200, 60_000)
    run_python(
        EXPANDING
        + """
    import numpy as np
    ds = fb.open(sys.argv[1])
    options = dict(batch_size=50, superbatch="2 blocks", streams=2, threads=2, prefetch=8, framework="numpy")
    for seed in range(60):
        with ds.rows().loader({"x": "c0"}, memory="120MiB", shuffle=False, seed=seed, **options) as loader:
            n = 0
            for batch in loader:
                n += (np.asarray(batch["x"].values[::5003]) == ord("x")).size > 0
        assert n == 60, (seed, n)
    """,
        path,
        timeout=120,
    )


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_whether_a_budget_does_is_no_question_of_threads(tmp_path, run_python, threads):
    """All rows in one batch, of blocks that expand: with room for batch and blocks it comes, whatever is faster."""
    path = expanding_parquet(tmp_path / "long.parquet", 15, 200, 60_000)
    run_python(
        EXPANDING
        + """
    ds = fb.open(sys.argv[1])
    for seed in range(8):
        with ds.rows().loader({"x": "c0"}, memory="420MiB", batch_size=3000, threads=int(sys.argv[2]), seed=seed, framework="numpy") as loader:
            assert sum(len(batch["x"]) for batch in loader) == 3000
    """,
        path,
        threads,
        timeout=120,
    )


def test_scans_and_arrow_have_a_budget_although_nobody_stated_one(tmp_path, run_python):
    """Half of what the process may take: here 200 MiB, where a column decodes to 238."""
    path = expanding_parquet(tmp_path / "bomb.parquet", 1, 2_500, 100_000, columns=2)
    done = run_python(
        EXPANDING
        + """
    import resource
    import pyarrow as pa
    ds = fb.open(sys.argv[1])
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (400 << 20), resource.RLIM_INFINITY))
    before, texts = status("VmRSS"), []
    for read in (lambda: ds.groups("c0"), lambda: pa.table(ds)):
        try:
            read()
            texts.append("it fits")
        except Exception as error:
            texts.append(str(error))
    print(json.dumps([texts, (status("VmHWM") - before) / 2**20]))
    """,
        path,
        timeout=120,
    )
    texts, grown = json.loads(done.stdout)
    for text in texts:
        assert "bomb.parquet', row group 0: column 'c0' needs at least" in text and "raise memory" in text, texts
    assert grown < 200 + 64
