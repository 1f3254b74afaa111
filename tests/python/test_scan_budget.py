"""The budget of a data set: what opening, finding samples, tables beside the data, Arrow and read() may hold."""

import gzip
import json
import os
import re
import struct
import subprocess
import sys

import pytest

SLACK = 64 << 20
MIB = 1 << 20

# Runs `work`, and prints by how much the process has grown and the BudgetError there was.
FRAME = """
    import json, resource, sys, time
    import forebay as fb

    path, memory = sys.argv[1], int(sys.argv[2])
    grown_to = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    before, error, result = grown_to(), None, None
    try:
        {work}
    except fb.BudgetError as e:
        error = str(e)
    print(json.dumps([grown_to() - before, error, result]))
"""


@pytest.fixture
def measure(run_python):
    def run(work, path, memory):
        done = run_python(FRAME.format(work=work), path, memory, env={"FOREBAY_CACHE": ""})
        grown, error, result = json.loads(done.stdout)
        assert grown <= memory + SLACK, (grown / MIB, error)
        return error, result

    return run


@pytest.fixture
def counting(tmp_path):
    """A small file of very many different numbers: k rises by one a row, c never does."""
    pa = pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    import pyarrow.parquet as pq

    path = tmp_path / "counting.parquet"
    n = 1 << 20
    schema = pa.schema([("k", pa.int64()), ("c", pa.int64())])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd", column_encoding="DELTA_BINARY_PACKED") as writer:
        for i in range(24):
            k = np.arange(i * n, (i + 1) * n)
            writer.write_table(pa.table({"k": k, "c": np.zeros(n, dtype=np.int64)}), row_group_size=n)
    assert path.stat().st_size < 4 << 20
    return path


@pytest.fixture
def zipped(tmp_path):
    """Four small files of very much text."""
    folder = tmp_path / "zipped"
    folder.mkdir()
    for i in range(4):
        with gzip.open(folder / f"{i}.csv.gz", "wb", 6) as f:
            f.write(b"x\n")
            for _ in range(120):
                f.write(b"0\n" * (MIB // 2))
    return folder


def advised(error):
    """The number of bytes that a message says would do."""
    assert error is not None
    return int(re.search(r"(?:raise memory to|this plan needs at least) (\d+) bytes", error)[1])


def test_compressed_text_takes_turns_at_open(measure, zipped):
    error, result = measure('result = len(fb.open(path, memory=memory))', zipped, 160 << 20)
    assert error is None and result == 4 * 120 * (MIB // 2)


def test_compressed_text_beyond_the_budget_is_refused_by_name(measure, zipped):
    error, _ = measure("fb.open(path, memory=memory)", zipped, 32 << 20)
    assert "0.csv.gz" in error and advised(error) >= 120 << 20
    error, result = measure("result = len(fb.open(path, memory=memory))", zipped, advised(error))
    assert error is None and result == 4 * 120 * (MIB // 2)


@pytest.mark.parametrize(
    "work",
    [
        'fb.open(path, memory=memory).groups("k")',
        'fb.open(path, memory=memory).windows(1, by="k")',
        'fb.open(path, memory=memory).windows(1, time="c", step=1)',
        'fb.Lookup(path, "k", memory=memory)',
        'fb.Lookup(fb.open(path, memory=memory), "k")',
        'fb.encode("k", fb.open(path, memory=memory))',
        'fb.open(path).read(memory=memory)',
        'fb.open(path, memory=memory).read()',
    ],
)
def test_many_values_of_a_small_file_are_refused(measure, counting, work):
    error, _ = measure(work, counting, 48 << 20)
    assert error is not None and "counting.parquet" in error and advised(error) > 48 << 20


@pytest.mark.parametrize(
    "choose, memory",
    [
        ("limit(9 << 20, random=True)", 3),
        ("take(__import__('numpy').arange(1 << 19))", 2),
        ("resample('k')", 48),
        ("resample('k', each_epoch=True)", 48),
        ("oversample('c', {0: 9})", 4),
        ("split(by='samples', a=0.5, b=0.5)", 3),
        ("select('k', low=5, exclude=True, high=1 << 24)", 3),
    ],
)
def test_choosing_among_many_samples_is_refused(measure, counting, choose, memory):
    error, _ = measure(f"fb.open(path, memory=memory).rows().{choose}", counting, memory << 20)
    assert error is not None and "counting.parquet" in error and advised(error) > memory << 20


def test_samples_are_chosen_within_the_budget(measure, counting):
    work = "s = fb.open(path, memory=memory).rows().limit(9 << 20, random=True); result = [len(s), len(s.take(slice(0, 1000)))]"
    error, result = measure(work, counting, 32 << 20)
    assert error is None and result == [9 << 20, 1000]


def test_samples_within_the_budget_are_found(measure, counting):
    error, result = measure('result = len(fb.open(path, memory=memory).groups("k"))', counting, 256 << 20)
    assert error is None and result == 24 << 20


def test_read_says_what_would_do(measure, counting):
    error, _ = measure("fb.open(path).read('c', memory=memory)", counting, 48 << 20)
    error, result = measure("result = len(fb.open(path).read('c', memory=memory)['c'])", counting, advised(error))
    assert error is None and result == 24 << 20


def test_lists_that_grow_while_they_are_read_are_refused(measure, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    lists = pa.array([[0] * 100_000] * 400, pa.list_(pa.int64()))
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"v": lists, "s": ["x" * 100_000] * 400}), path, row_group_size=8, compression="zstd")
    error, _ = measure("fb.open(path).read('v', memory=memory)", path, 96 << 20)
    assert advised(error) > 96 << 20
    error, _ = measure("fb.open(path).read('s', memory=memory)", path, 32 << 20)
    assert advised(error) > 32 << 20


@pytest.mark.parametrize("by, group", [("", ""), (", by='k'", "[3]")])
def test_lists_are_fitted_with_little_memory(measure, tmp_path, by, group):
    """As many rows at once as their values allow; beyond that the message has the column, its file, and nothing that fit() has not."""
    pa, np = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    import pyarrow.parquet as pq

    n, k, path = 1 << 14, 400, tmp_path / "wide.parquet"
    lists = pa.ListArray.from_arrays(np.arange(0, (n + 1) * k, k, dtype="i4"), np.tile(np.arange(k, dtype="f4"), n))
    pq.write_table(pa.table({"k": np.arange(n) // 4096, "l": lists}), path, row_group_size=512)
    work = f"result = float(fb.fit(fb.open(path), ['l'], memory=memory{by}){group}['l'].mean)"
    error, result = measure(work, path, 64 << 20)
    assert error is None and result == pytest.approx((k - 1) / 2)
    error, _ = measure(work, path, 1 << 20)
    assert "wide.parquet" in error and "'l'" in error and "batch_size" not in error
    error, result = measure(work, path, advised(error))
    assert error is None and result == pytest.approx((k - 1) / 2)


@pytest.fixture
def repeating(tmp_path):
    """A small HDF5 file with an attribute of 1,000 texts, all of which are one text of 100,000 bytes."""
    h5py = pytest.importorskip("h5py")
    path, n, length = tmp_path / "repeating.h5", 1000, 100_000
    with h5py.File(path, "w", libver="earliest") as f:
        f["x"] = [1.0, 2.0]
        f["x"].attrs.create("t", ["a" * length] + [f"b{i}" for i in range(n - 1)], dtype=h5py.string_dtype())
    raw, at = bytearray(path.read_bytes()), -1
    while True:  # the first element: length, address of a collection, index in it
        at = raw.index(struct.pack("<I", length), at + 1)
        address, index = struct.unpack_from("<QI", raw, at + 4)
        if raw[address : address + 4] == b"GCOL" and 0 < index < 1 << 16:
            break
    raw[at : at + 16 * n] = raw[at : at + 16] * n
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("work, result", [("len(fb.open(path, memory=memory).contents()['x'].attributes['t'])", 1000),
                                          ("len(fb.open(path, memory=memory).read('/x'))", 2)])  # fmt: skip
def test_attributes_are_in_the_budget(measure, repeating, work, result):
    error, _ = measure(f"result = {work}", repeating, 32 << 20)
    assert "repeating.h5" in error and advised(error) > 95 << 20
    error, got = measure(f"result = {work}", repeating, advised(error))
    if error:  # texts in Python beside those of the library are known when these are read
        error, got = measure(f"result = {work}", repeating, advised(error))
    assert error is None and got == result


def test_chunks_that_blocks_share_are_in_the_budget_of_arrow(measure, tmp_path):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", shape=(1 << 16, 16), dtype="f8", chunks=(4096, 16), compression=1)[:] = 1
        for i in range(8):
            f.create_dataset(f"label{i}", shape=(1 << 16, 16), dtype="f8", chunks=(1 << 16, 16), compression=1)[:] = i
    work = "import pyarrow as pa; result = sum(b.num_rows for b in pa.RecordBatchReader.from_stream(fb.open(path, memory=memory)))"
    error, result = measure(work, path, 80 << 20)
    assert error is None and result == 1 << 16


@pytest.mark.parametrize("command", ["head", "inspect"])
def test_commands_take_a_budget(tmp_path, zipped, counting, command):
    cli = os.environ.get("FOREBAY_CLI")
    if not cli:
        pytest.skip("FOREBAY_CLI is not set")
    script = """if True:
        import resource, subprocess, sys
        done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
        print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
        print(done.stderr)
    """
    call = [sys.executable, "-c", script, cli, command, str(zipped), "--memory", "32MiB", "--no-cache"]
    done = subprocess.run(call, capture_output=True, text=True)
    code, peak = map(int, done.stdout.split("\n")[0].split())
    assert code != 0 and "0.csv.gz" in done.stdout and "memory" in done.stdout
    assert peak << 10 <= (32 << 20) + SLACK


def test_a_budget_is_a_size(parquet):
    import forebay as fb

    path = parquet({"k": [1, 2]})
    for memory in ("1 parsec", -1, 0, 1.5, True):
        with pytest.raises((ValueError, TypeError), match="memory"):
            fb.open(path, memory=memory)
        with pytest.raises((ValueError, TypeError), match="memory"):
            fb.open(path).read(memory=memory)
        with pytest.raises((ValueError, TypeError), match="memory"):
            fb.Lookup(path, "k", memory=memory)


def test_a_pipeline_says_the_budget_of_its_data(tmp_path, zipped):
    import forebay as fb

    file = tmp_path / "p.yaml"
    file.write_text(f"data:\n  paths: {zipped}\n  memory: 32MiB\nloader:\n  batch_size: 4\n")
    with pytest.raises(fb.BudgetError, match="0.csv.gz"):
        fb.pipeline(file).loader()


def test_the_helper_program_counts(tmp_path, run_python):
    """A data set of large chunks behind a filter that only libhdf5 has: the helper decodes, keeps chunks, and is in the budget."""
    h5py = pytest.importorskip("h5py")
    np = pytest.importorskip("numpy")
    path = tmp_path / "helped.h5"
    with h5py.File(path, "w") as f:
        for i in range(3):
            f.create_dataset(f"x{i}", data=np.full((4096, 4096), i, dtype="i4"), chunks=(1024, 4096), scaleoffset=4)
    script = """
        import json, os, sys, threading, time
        import forebay as fb
        import pyarrow as pa

        budget, most, over = int(sys.argv[2]), [0], threading.Event()

        def resident(pid):
            try:
                return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
            except OSError:
                return 0

        def watch():
            me = str(os.getpid())
            before = resident(me)
            while not over.wait(0.002):
                kids = open(f"/proc/{me}/task/{me}/children").read().split()
                most[0] = max(most[0], resident(me) - before + sum(map(resident, kids)))

        with fb.open(sys.argv[1], memory=budget) as ds:
            notes = ds.notes
            threading.Thread(target=watch).start()
            try:
                rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(ds))
            except Exception as error:
                rows = str(error)
        over.set()
        print(json.dumps([rows, most[0], notes]))
    """
    refused, most, notes = json.loads(run_python(script, path, 96 << 20).stdout)
    assert any("helper program" in note for note in notes), notes
    assert "helped.h5" in refused and most <= (96 << 20) + SLACK, (refused, most / MIB)
    for _ in range(5):  # columns are read side by side: how many of them at once is not known before
        memory = advised(refused)
        refused, most, _ = json.loads(run_python(script, path, memory).stdout)
        assert most <= memory + SLACK, (refused, most / MIB)
        if refused == 4096:
            break
    assert refused == 4096


@pytest.mark.parametrize("threads", [1, 4])
def test_fits_keep_to_their_budget(measure, counting, threads):
    """24 blocks of 8 MiB, read by several threads: within what was said, with the moments of all of them; or refused by name."""
    fit = f"fb.fit(fb.open(path, threads=4), ['k'], memory=memory, threads={threads})"
    error, _ = measure(fit, counting, 4 << 20)
    assert error is not None and advised(error) > 4 << 20
    for _ in range(8):  # what was missing at first may not be all
        memory = advised(error)
        assert memory < 256 << 20
        error, result = measure(f"result = float({fit}['k'].mean)", counting, memory)
        if error is None:
            break
    assert error is None and abs(result - ((24 << 20) - 1) / 2) < 1


@pytest.mark.parametrize("memory", [24 << 20, 48 << 20, 64 << 20])
def test_a_lookup_reads_fewer_rows_at_once_or_names_the_memory_that_does(measure, tmp_path, memory):
    """16,384 rows of 150 columns at once take more than the table; batch_size, which the message said to lower, is nothing that a lookup has."""
    pa = pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.random(20_000, dtype=np.float32) for i in range(150)}
    pq.write_table(pa.table({"k": np.arange(20_000), **columns}), tmp_path / "wide.parquet", row_group_size=500, use_dictionary=False)
    work = 'result = len(fb.Lookup(path, "k", memory=memory))'
    error, result = measure(work, tmp_path / "wide.parquet", memory)
    for _ in range(2):
        if error is None:
            break
        assert "wide.parquet" in error and "batch_size" not in error and "threads" not in error
        error, result = measure(work, tmp_path / "wide.parquet", advised(error))
    assert error is None and result == 20_000


def test_a_lookup_that_is_refused_late_has_read_no_row_group_again(tmp_path):
    """What texts grow to, reading shows: with fewer rows at once it goes on where it was."""
    fb, pa = pytest.importorskip("forebay"), pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    groups, path = 20, tmp_path / "keys.parquet"
    schema = pa.schema([("k", pa.string()), ("x", pa.float64())])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd", column_encoding={"k": "DELTA_BYTE_ARRAY", "x": "PLAIN"}) as writer:
        for i in range(groups):
            names = [f"{i}-{k}" for k in range(1000)]
            writer.write_table(pa.table({"k": names, "x": [0.5] * 1000}, schema))
        writer.write_table(pa.table({"k": ["y" * 100_000] * 2500, "x": [0.5] * 2500}, schema))
    with fb.trace(tmp_path / "run.json"), pytest.raises(fb.BudgetError, match=f"row group {groups}\\b.*raise memory"):
        fb.Lookup(path, "k", memory="64MiB")
    events = json.loads((tmp_path / "run.json").read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    read = [event["args"]["block"] for event in events if event["name"] == "read" and event["ph"] == "b"]
    assert set(read) == set(range(groups + 1)) and all(read.count(block) == 1 for block in range(groups // 2))
