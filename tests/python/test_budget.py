"""The budget: what is refused, how fast, and that the process grows by no more than it and 64 MiB."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

SLACK = 64 << 20


@pytest.mark.parametrize("log2_rows", [40, 60])
def test_an_extent_that_was_never_written_is_refused_at_once(tmp_path, run_python, log2_rows):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "claims.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", shape=(1 << log2_rows,), dtype="f4", chunks=(1024,))
    done = run_python(
        """
        import json, resource, sys, time
        import forebay as fb

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        best = 1e9
        for _ in range(3):
            begin = time.perf_counter()
            try:
                with fb.open(sys.argv[1]) as ds:
                    ds.rows().loader(batch_size=16, memory="64MiB")
            except fb.BudgetError:
                best = min(best, time.perf_counter() - begin)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        print(json.dumps({"seconds": best, "grown": grown}))
        """,
        path,
    )
    said = json.loads(done.stdout)
    assert said["seconds"] < 0.1 and said["grown"] < 10 << 20, said


@pytest.mark.skipif(not os.environ.get("FOREBAY_CLI"), reason="FOREBAY_CLI is not set")
def test_inspect_of_an_extent_that_was_never_written_ends_at_once(tmp_path):
    h5py = pytest.importorskip("h5py")
    seconds, peak = {}, {}
    for log2_rows in (10, 60):
        path = tmp_path / f"{log2_rows}.h5"
        with h5py.File(path, "w") as f:
            f.create_dataset("x", shape=(1 << log2_rows,), dtype="f4", chunks=(1024,))
        seconds[log2_rows] = peak[log2_rows] = 1e18
        for _ in range(3):
            begin = time.monotonic()
            child = subprocess.Popen([os.environ["FOREBAY_CLI"], "inspect", path, "--no-cache"], stdout=subprocess.PIPE)
            said = child.stdout.read()
            child.stdout.close()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0 and path.name.encode() in said
            seconds[log2_rows] = min(seconds[log2_rows], time.monotonic() - begin)
            peak[log2_rows] = min(peak[log2_rows], usage.ru_maxrss << 10)
    assert seconds[60] < 1 and peak[60] - peak[10] <= 10 << 20, (seconds, peak)


NUMBERS = """
    import json, resource, sys
    import numpy as np
    import forebay as fb

    ds = fb.open({"x": np.zeros((64 << 20) // 4, dtype=np.float32), "y": np.zeros((64 << 20) // 4, dtype=np.float32)})
    mapped = lambda: int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    def limited(bytes):
        resource.setrlimit(resource.RLIMIT_AS, (mapped() + bytes, resource.RLIM_INFINITY))
"""


def test_the_default_budget_fits_the_process_own_limit_and_the_report_says_which(run_python):
    done = run_python(
        NUMBERS
        + """
    def budget(**options):
        with ds.rows().loader(batch_size=1024, threads=1, superbatch="64MiB", **options) as loader:
            return loader.report()
    free = budget()
    limited(300 << 20)
    tight = budget()
    with ds.rows().loader(batch_size=1024, threads=1, superbatch="64MiB") as loader:
        n = sum(len(b["x"]) for b in loader)
        second = budget()
    print(json.dumps([free.budget_bytes, tight.budget_bytes, second.budget_bytes, n, tight.memory_limit, tight.memory_available_bytes,
                      tight.memory_limit_bytes, str(tight)]))
    """
    )
    free, tight, second, n, limit, available, bytes_, text = json.loads(done.stdout)
    assert 0 < available <= 300 << 20 < bytes_
    assert tight <= available / 2 < free
    assert second < tight  # what the first one may still take is not there for a second
    assert n == 16 << 20
    assert limit.startswith("RLIMIT_AS ") and limit in text


def test_the_default_budget_has_room_for_the_next_superbatch_where_batches_are_wider_than_blocks(run_python, tmp_path):
    """Rows go straight to batches, three times as wide as what is stored: 256 MiB hold two superbatches of blocks, and 1.25 of batches."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", shape=(320 << 16, 16), chunks=(1 << 16, 16), dtype="f4")
    done = run_python(
        """
    import json, sys, time
    import forebay as fb

    samples = fb.open(sys.argv[1], cache_dir=None).rows()
    outputs = {name: fb.col("x").cast("float64") for name in "abc"}
    with samples.loader(outputs, batch_size=4096, superbatch="6 blocks", streams=1, threads=1, warmup=False) as loader:
        first = loader.report()
        next(iter(loader))
        end = time.monotonic() + 30
        while loader.report().blocks_read < 12 and time.monotonic() < end:
            time.sleep(0.01)
        print(json.dumps([first.overlap_bytes, first.budget_bytes, first.memory_available_bytes, loader.report().blocks_read]))
    """,
        tmp_path / "x.h5",
    )
    overlap, budget, available, blocks_read = json.loads(done.stdout)
    assert blocks_read == 12 and overlap <= budget <= available / 2


def test_ranks_of_a_host_share_what_it_has(run_python):
    script = (
        NUMBERS
        + """
    with ds.rows().loader(batch_size=16, threads=1, superbatch="1MiB", streams=64, rank=0, world_size=64) as loader:
        r = loader.report()
    print(json.dumps([r.budget_bytes, r.budget_minimum_bytes, r.memory_available_bytes]))
    """
    )
    for local, environment in ((1, {"LOCAL_WORLD_SIZE": "1"}), (64, {"LOCAL_WORLD_SIZE": "64"}), (64, {})):
        budget, minimum, available = json.loads(run_python(script, env=environment).stdout)
        assert budget <= max(minimum, available // 2 // local)
        assert local == 64 or budget >= min(256 << 20, available // 2)


def test_a_limit_of_the_process_own_is_not_shared_among_ranks(run_python):
    """A GiB of address space for each of 4: what reads 128 MiB has room in half of it, and has none in an eighth."""
    done = run_python(
        NUMBERS
        + """
    import re
    large = fb.open({"x": np.zeros((640 << 20) // 4, dtype=np.float32)})
    limited(1 << 30)
    def refused(call):
        try:
            call()
        except fb.BudgetError as e:
            return int(re.search(r"budget of (\\d+) bytes", str(e))[1])
    with ds.rows().loader(batch_size=1024, threads=1, memory="50%") as loader:
        half = loader.report().budget_bytes
    budgets = [half, fb._forebay.memory_budget(0), refused(large.read)]
    n = sum(len(column) for column in ds.read().values())
    print(json.dumps([n, budgets]))
    """,
        env={"LOCAL_WORLD_SIZE": "4"},
    )
    n, budgets = json.loads(done.stdout)
    assert n == 32 << 20
    assert all(192 << 20 < bytes_ <= 512 << 20 for bytes_ in budgets), budgets  # threads and their memory take some of the GiB


def test_a_budget_beyond_the_limit_is_warned_of_once(run_python):
    done = run_python(
        NUMBERS
        + """
    import warnings
    limited(1 << 30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for memory in ("512MiB", "100GiB", "200GiB"):
            ds.rows().loader(batch_size=1024, threads=1, memory=memory).close()
    print(json.dumps([[str(w.message), w.filename] for w in caught]))
    """
    )
    ((message, filename),) = json.loads(done.stdout)
    assert "100.0 GiB" in message and "RLIMIT_AS" in message and filename.endswith("script.py")


@pytest.mark.parametrize(
    "environment, expect",
    [
        ({}, 0),
        ({"LOCAL_WORLD_SIZE": "4"}, 4),
        ({"LOCAL_WORLD_SIZE": "9"}, 0),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 2),
        ({"MPI_LOCALNRANKS": "many"}, 0),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),4,1"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": ""}, 0),
    ],
)
def test_how_many_ranks_a_host_has_is_what_the_launcher_says(monkeypatch, environment, expect):
    from forebay import _ranks

    for name in (*_ranks._LOCAL_SIZES, "SLURM_STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _ranks.local_world_size(8) == expect


def test_fit_names_the_limit_that_refused_it(run_python):
    """Without memory= that is nine tenths of what is there: figures between that and all of it said that what fits does not."""
    done = run_python(
        NUMBERS
        + """
    import re
    wide = fb.open({"x": np.ones((1024, 8192), dtype=np.float32)})
    def refusal(**memory):
        try:
            fb.fit(wide, ["x"], threads=1, **memory)
        except fb.BudgetError as e:
            return str(e)
        except fb.NoMemoryError:
            pass  # let in, and the address space has no room for more than that
    needed = int(re.search(r"raise memory to (\\d+) bytes", refusal(memory=1 << 20))[1])
    texts = []
    for percent in range(90, 200, 2):
        limited(needed * percent // 100)
        texts.append(refusal())
        if texts[-1] is None:
            break
    print(json.dumps(texts))
    """
    )
    *refused, accepted = json.loads(done.stdout)
    assert accepted is None and len(refused) > 2
    for text in refused:
        limit, needed = map(int, re.search(r"budget of (\d+) bytes .* raise memory to (\d+) bytes", text).groups())
        assert limit < needed and "threads" not in text, text


GROUPS = {
    "all long": "np.full(24, 60_000)",
    "long ones side by side": "np.r_[np.full(2000, 40), np.full(20, 60_000), np.full(2000, 40)]",
    "heavy tail": "np.minimum(np.random.default_rng(0).zipf(1.5, 4000) + 4, 100_000)",
    "all short": "np.full(30_000, 40)",
}


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("lengths", GROUPS.values(), ids=GROUPS)
def test_groups_under_the_stated_minimum_stay_inside_it(run_python, tmp_path, lengths, layout):
    pytest.importorskip("pyarrow")
    done = run_python(
        """
        import json, re, sys, time
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        import forebay as fb

        lengths = eval(sys.argv[2])
        key = np.repeat(np.arange(len(lengths)), lengths)
        table = {"key": key, **{f"x{i}": np.arange(len(key), dtype=np.float32) % 1000 for i in range(16)}}
        pq.write_table(pa.table(table), sys.argv[1], row_group_size=1 << 16)
        del table, key
        pa.default_memory_pool().release_unused()
        def status(field):
            return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field))
        out = {"x": fb.col([f"x{i}" for i in range(16)])}
        if sys.argv[3] == "padded":
            out = {"x": out["x"].padded(20_000)}
        samples = fb.open(sys.argv[1]).groups("key")
        worst = []
        for shuffle in (False, "block", "superbatch", "full"):
            options = dict(batch_size=8, shuffle=shuffle, superbatch="2 blocks", streams=4, threads=2, framework="numpy")
            try:
                samples.loader(out, memory=1, **options)
                raise SystemExit("a byte is enough")
            except fb.BudgetError as error:
                least = int(re.search(r"needs at least (\\d+) bytes", str(error))[1])
            before = status("VmRSS")
            open("/proc/self/clear_refs", "w").write("5")
            held = 0
            with samples.loader(out, memory=least, **options) as loader:
                for i, batch in enumerate(loader):
                    held = max(held, loader.report().batches_out_bytes)
                    if i < 4:
                        time.sleep(0.1)  # the batches in flight are as many as they ever are
            worst.append([str(shuffle), (status("VmHWM") - before - held) / 2**20, least / 2**20])
        print(json.dumps(worst))
        """,
        tmp_path / "groups.parquet", lengths, layout, timeout=120,
    )  # fmt: skip
    for shuffle, grown, least in json.loads(done.stdout):
        assert grown <= least + 64, (shuffle, grown, least)


@pytest.mark.parametrize("batch_size", [16, 64])
def test_long_neighbours_stay_within_the_stated_minimum_or_are_refused_by_name(run_python, tmp_path, batch_size):
    """40 adjacent groups of 200,000 rows of 16 numbers, in order: a batch of them is 195 MiB, or all there is."""
    pytest.importorskip("pyarrow")
    done = run_python(
        """
        import json, re, sys
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        import forebay as fb

        groups, rows, path, batch_size = 40, 200_000, sys.argv[1], int(sys.argv[2])
        names = [f"x{i}" for i in range(16)]
        schema = pa.schema([("key", pa.int32())] + [(name, pa.float32()) for name in names])
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for g in range(groups):
                columns = [np.full(rows, g, np.int32)] + [np.full(rows, g, np.float32)] * 16
                writer.write_table(pa.table(columns, schema=schema))
        del columns
        pa.default_memory_pool().release_unused()
        def status(field):
            return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field))
        samples = fb.open(path, cache_dir="").groups("key")
        options = dict(batch_size=batch_size, shuffle=False, threads=2, framework="numpy")
        try:
            samples.loader({"x": names}, memory=1, **options)
            raise SystemExit("a byte is enough")
        except fb.BudgetError as error:
            least = int(re.search(r"needs at least (\\d+) bytes", str(error))[1])
        refused = []
        for attempt in range(3):
            before, seen, held = status("VmRSS"), [], 0
            open("/proc/self/clear_refs", "w").write("5")
            try:
                with samples.loader({"x": names}, memory=least, **options) as loader:
                    for batch in loader:
                        seen += [float(batch["x"].values[begin][0]) for begin in batch["x"].offsets[:-1]]
                        held = max(held, loader.report().batches_out_bytes)
                        del batch
                    peak = loader.report().budget_peak_bytes
                break
            except fb.BudgetError as error:
                refused.append(str(error))
                least = int(re.search(r"raise memory to (\\d+) bytes", refused[-1])[1])
        print(json.dumps([least, peak, status("VmHWM") - before - held, seen, refused]))
        """,
        tmp_path / "long.parquet", batch_size, timeout=180,
    )  # fmt: skip
    least, peak, grown, seen, refused = json.loads(done.stdout)
    assert seen == list(range(40)) and all("long.parquet" in text and "output 'x'" in text for text in refused), refused
    assert peak <= least and grown <= least + SLACK, (least, peak, grown)
    assert least > min(batch_size, 40) * 200_000 * 64


def test_a_batch_of_events_with_a_heavy_tail_does_not_ask_for_its_worst(tmp_path, run_python):
    pytest.importorskip("pyarrow")
    done = run_python(
        """
        import json, re, sys
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq
        import forebay as fb

        lengths = np.r_[np.random.default_rng(0).integers(5, 120, 30_000), [178_000]]
        key = np.repeat(np.arange(len(lengths)), lengths)
        table = {"key": key, **{f"x{i}": np.zeros(len(key), dtype=np.float32) for i in range(6)}}
        pq.write_table(pa.table(table), sys.argv[1], row_group_size=1 << 16)
        samples = fb.open(sys.argv[1]).groups("key")
        with samples.loader({"x": [f"x{i}" for i in range(6)]}, batch_size=512, threads=2, memory="300MiB") as loader:
            print(json.dumps(loader.report().budget_minimum_bytes))
        """,
        tmp_path / "events.parquet",
    )
    assert json.loads(done.stdout) < 300 << 20


def test_what_a_refused_budget_is_told_to_lower_fits(parquet):
    np, fb = pytest.importorskip("numpy"), pytest.importorskip("forebay")
    ds = fb.open(parquet({name: np.arange(200_000.0) for name in "abcd"}, "x.parquet", row_group_size=5000, use_dictionary=False))
    asked = {"batch_size": 512, "threads": 3, "superbatch": "30 blocks", "framework": "numpy"}
    kinds = set()
    for shuffle in (True, "full", "block", False):
        with ds.loader(None, shuffle=shuffle, **asked) as loader:
            least = loader.report().budget_minimum_bytes
        for share in (0.99, 0.8, 0.6, 0.4, 0.3, 0.27, 0.25, 0.23, 0.2, 0.18, 0.16, 0.14, 0.001):
            budget = int(least * share)
            with pytest.raises(fb.BudgetError) as error:
                ds.loader(None, shuffle=shuffle, memory=budget, **asked)
            said = str(error.value).partition("Raise memory")[2]
            found = dict(re.findall(r"(superbatch|threads|streams|batch_size) to (?:at most )?(\d+)", said))
            kinds.add(frozenset(found))
            if not found:
                assert "one thread, one stream and the smallest batches still need more: read fewer columns" in said
                continue
            lowered = {name: f"{n} samples" if name == "superbatch" else int(n) for name, n in found.items()}
            assert ("choose shuffle superbatch" in said) == (shuffle == "full" and "superbatch" in found), said
            either = [lowered] if "together" in said else [{name: lowered[name]} for name in lowered]
            for options in either:
                order = "superbatch" if "superbatch" in options else shuffle
                ds.loader(None, memory=budget, **{**asked, "shuffle": order, **options}).close()
    assert {frozenset(), frozenset({"superbatch", "threads"})} <= kinds and any("batch_size" in kind for kind in kinds), kinds


def test_a_budget_says_that_a_floor_on_files_costs_memory(parquet, tmp_path):
    np, fb = pytest.importorskip("numpy"), pytest.importorskip("forebay")
    for i in range(12):
        parquet({name: np.arange(20_000.0) for name in "abcd"}, f"many/{i:02}.parquet", row_group_size=2_000, use_dictionary=False)
    ds = fb.open(str(tmp_path / "many"))
    asked = {"batch_size": 256, "threads": 3, "diversity_files": 6, "framework": "numpy"}
    kinds = set()
    for superbatch in ("1GiB", "60000 samples"):
        with ds.loader(None, superbatch=superbatch, **asked) as loader:
            least = loader.report().budget_minimum_bytes
        for share in (0.99, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2):
            options = {**asked, "superbatch": superbatch, "memory": int(least * share)}
            with pytest.raises(fb.BudgetError) as error:
                ds.loader(None, **options)
            said = str(error.value)
            assert all(int(now) <= 12 * 20_000 for now in re.findall(r"samples \(now (\d+)\)", said)), said
            _, found, without = said.partition("or leave out diversity_files (now 6), which keeps blocks of so many files in memory")
            if found:
                lowered = dict(re.findall(r"(superbatch|threads|streams|batch_size) to (?:at most )?(\d+)", without))
                options |= {name: f"{n} samples" if name == "superbatch" else int(n) for name, n in lowered.items()}
                ds.loader(None, **{**options, "diversity_files": None}).close()
                kinds.add("together" if "together" in said else "alone")
    assert kinds == {"together", "alone"}


GZIP = {"compression": "gzip", "compression_opts": 1}
FILTERS = {  # and how many decoded chunks a thread needs: the last filter's result, and what lies between two filters
    "gzip": (1, GZIP), "shuffle and gzip": (2, {**GZIP, "shuffle": True}), "all three": (2, {**GZIP, "shuffle": True, "fletcher32": True}),
    "lzf": (1, {"compression": "lzf"}), "none": (1, {}),
}


@pytest.mark.parametrize(("a_thread", "filters"), FILTERS.values(), ids=FILTERS)
def test_large_chunks_ask_for_no_more_than_a_thread_needs_of_them(run_python, tmp_path, a_thread, filters):
    h5py, numpy = pytest.importorskip("h5py"), pytest.importorskip("numpy")
    chunk, rows = 24 << 20, 3 << 16
    values = numpy.random.default_rng(0).integers(0, 1 << 20, (rows, 96)).astype("f4")
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(1 << 16, 96), **filters)
    done = run_python(
        """
        import json, re, sys
        import numpy as np
        import forebay as fb

        def status(field):
            return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field))
        ds = fb.open(sys.argv[1])
        out, options = {"x": fb.col("x"), "row": fb.row_index()}, dict(batch_size=64, threads=2, framework="numpy")
        try:
            ds.rows().loader(out, memory=1, **options)
        except fb.BudgetError as error:
            least = int(re.search(r"needs at least (\\d+) bytes", str(error))[1])
        before = status("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        total, rows = 0.0, 0
        with ds.rows().loader(out, memory=least, **options) as loader:
            for _ in range(2):
                for batch in loader:
                    total += float(batch["x"].sum(dtype="f8"))
                    rows += len(batch["row"])
            peak = loader.report().budget_peak_bytes
        print(json.dumps([least, peak, status("VmHWM") - before, total, rows]))
        """,
        tmp_path / "large.h5", timeout=120,
    )  # fmt: skip
    least, peak, grown, total, n = json.loads(done.stdout)
    assert n == 2 * rows and abs(total - 2 * values.sum(dtype="f8")) < 1
    assert peak <= least and grown <= least + SLACK, (least, peak, grown)
    assert least <= (3 + 2 + 2 * a_thread) * chunk + (12 << 20), least / chunk  # all of the data, two chunks as stored, those of two threads


def test_generated_files_stay_within_their_budgets():
    """A few of those of `make budgets`."""
    pytest.importorskip("h5py")
    script = pathlib.Path(__file__).parents[1] / "stress" / "budgets.py"
    done = subprocess.run([sys.executable, str(script), "--files", "5", "--seed", "3", "--refused-s", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
