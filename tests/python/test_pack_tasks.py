"""Packing task by task: in any order, twice, by processes at once, killed: the bytes are those of one process."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import forebay as fb
from forebay import _forebay
from pack_cases import contents, every_type, floats, write
from pack_task_cases import CLI, FLAGS, OPTIONS, by_phase, needs_cli, run, run_all, source, whole  # noqa: F401

# ---- the graph ----


def test_tasks_come_by_name_and_phases_from_the_library(source, tmp_path):
    tasks = _forebay.pack_tasks(fb.open(source)._core, tmp_path / "out", {}, None)
    assert all(set(task) == set(fb.PackTask._fields) for task in tasks)
    assert sorted(_forebay.pack_phases()) == ["finish", "plan", "scatter", "verify", "write"]
    listed = fb.pack_tasks(source, tmp_path / "out", verify=True, **OPTIONS)
    assert list(dict.fromkeys(task.phase for task in listed)) == ["plan", "scatter", "write", "verify", "finish"], "in the order that they run in"


def test_tasks_name_what_they_read_and_write(source, tmp_path):
    tasks = fb.pack_tasks(source, tmp_path / "out", **OPTIONS)
    assert not (tmp_path / "out").exists()
    plan, scatter, write_, _, finish = by_phase(tasks)
    assert [len(plan), len(finish)] == [1, 1] and len(scatter) > 3 and len(write_) > 3
    for group in (plan, scatter, write_, finish):
        assert [(task.k, task.n) for task in group] == [(k, len(group)) for k in range(len(group))]
    assert sum(task.rows for task in scatter) == sum(task.rows for task in write_) == 300_000
    row = 8 + 10 * 4
    assert sum(task.bytes_out for task in write_) == 300_000 * row
    assert sum(task.bytes_in for task in write_) == 300_000 * (row + 4)
    read_ = {name for task in scatter for name in task.inputs if name != ".forebay-pack/plan"}
    assert {pathlib.Path(name) for name in read_} == set(source.iterdir())
    made = [name for task in tasks for name in task.outputs]
    assert len(made) == len(set(made)) and ".forebay-pack/part-00014.arrow" in made and "_pack.json" in made
    assert scatter[3].name == "scatter:3" and scatter[3].outputs == (".forebay-pack/scatter-00003",)


@pytest.mark.parametrize("by", [None, "k"])
def test_there_are_no_scatter_tasks_without_rows(tmp_path, by):
    """Blocks are not divided: with some large ones among empty and small ones, most of as many equal ranges have none."""
    (tmp_path / "src").mkdir()
    sizes = [0, 1, 240_000, 0, 3, 0, 60_000, 1, 1, 0]
    table = floats(sum(sizes), columns=0).append_column("k", pa.array(np.arange(sum(sizes)) % 3, pa.int8()))
    at = np.cumsum([0, *sizes])
    with pa.OSFile(str(tmp_path / "src/0.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for first, n in zip(at, sizes):
            writer.write_batch(table.slice(first, n).combine_chunks().to_batches()[0] if n else pa.RecordBatch.from_pylist([], table.schema))
    options = {"seed": 5, "batch": 500, "rows_per_file": 30_000, "verify": True, "by": by}
    fb.pack(tmp_path / "src", tmp_path / "whole", memory="1GiB", **options)
    for memory in ("20MiB", "64MiB"):  # 4 ranges and 2
        tasks = fb.pack_tasks(tmp_path / "src", tmp_path / memory, memory=memory, **options)
        _, scatters, _, verifies, _ = by_phase(tasks)
        assert [task.rows for task in scatters] == [240_001, 60_005] and [task.n for task in verifies] == [2, 2]
        for task in tasks:
            fb.pack_task(tmp_path / "src", tmp_path / memory, task, memory=memory, **options)
        assert contents(tmp_path / memory) == contents(tmp_path / "whole")


def test_nothing_of_the_machine_is_in_the_list_and_the_plan_decides_once_it_is_written(source, tmp_path):
    listed = fb.pack_tasks(source, tmp_path / "out", **OPTIONS)
    assert fb.pack_tasks(source, tmp_path / "out", **OPTIONS, threads=7) == listed
    assert len(fb.pack_tasks(source, tmp_path / "out", **{**OPTIONS, "memory": None})) == 4  # 4 GiB a task
    fb.pack_task(source, tmp_path / "out", "plan:0", **OPTIONS)
    assert fb.pack_tasks(source, tmp_path / "out", **{**OPTIONS, "memory": "1GiB"}) == listed
    with pytest.raises(ValueError, match='it has "seed": 5, and this one "seed": 6'):
        fb.pack_tasks(source, tmp_path / "out", **{**OPTIONS, "seed": 6})


@pytest.mark.parametrize("shuffle", ["full", "none"])
def test_tasks_in_random_order_and_twice_over_write_the_bytes_of_one_process(tmp_path, shuffle):
    src = write(every_type(6_000, seed=2), tmp_path / "src", row_group_size=200)
    options = {"seed": 3, "shuffle": shuffle, "batch": 100, "rows_per_file": 250}
    fb.pack(src, tmp_path / "whole", **options)
    rng, ds = random.Random(1), fb.open(src)
    out = tmp_path / "out"
    tasks = fb.pack_tasks(ds, out, **options, memory="16MiB")
    assert bool(by_phase(tasks)[1]) == (shuffle == "full")
    for group in by_phase(tasks):
        twice = group * 2
        rng.shuffle(twice)
        for task in twice:
            fb.pack_task(ds, out, task, **options, memory=rng.choice(["16MiB", "300MiB"]))
    assert contents(out) == contents(tmp_path / "whole")
    assert sorted(p.name for p in out.iterdir()) == sorted(contents(out)), "nothing else is left"
    for task in tasks:  # of a finished pack all are complete
        fb.pack_task(ds, out, task, **options)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_task_with_less_memory_than_planned_writes_more_runs_and_the_same_pack(source, tmp_path, whole):
    fb.pack_task(source, tmp_path / "out", "plan:0", **{**OPTIONS, "memory": "256MiB"})
    tasks = fb.pack_tasks(source, tmp_path / "out", **OPTIONS)
    assert len(by_phase(tasks)[1]) == 1
    for task in tasks:
        fb.pack_task(source, tmp_path / "out", task, **OPTIONS)
    assert contents(tmp_path / "out") == whole


def test_one_process_goes_on_with_what_tasks_began_and_tasks_with_what_it_began(source, tmp_path, whole):
    first, second = tmp_path / "first", tmp_path / "second"
    for task in fb.pack_tasks(source, first, **OPTIONS)[:4]:
        fb.pack_task(source, first, task, **OPTIONS)
    assert fb.pack(source, first, **{**OPTIONS, "memory": "64MiB"}).resumed
    assert contents(first) == whole

    def stop(done, total, what):
        if what == "writing":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fb.pack(source, second, progress=stop, **OPTIONS)
    for task in fb.pack_tasks(source, second, **OPTIONS):
        done = fb.pack_task(source, second, task, **OPTIONS)
    assert contents(second) == whole and done.written_bytes == sum(len(b) for name, b in whole.items() if name != "_pack.json")


def test_finish_verifies(source, tmp_path):
    out = tmp_path / "out"
    for task in fb.pack_tasks(source, out, **OPTIONS):
        done = fb.pack_task(source, out, task, verify=True, **OPTIONS)
    assert done.rows_hash == fb.pack(source, tmp_path / "whole", verify=True, **OPTIONS).rows_hash is not None


def verify_sums(out):
    return {p.name: p.read_bytes() for p in (out / ".forebay-pack").glob("verify-*")}


def test_verify_is_tasks_that_need_the_files_and_finish_does_what_is_left_of_it(source, tmp_path, whole):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    tasks = fb.pack_tasks(source, out, **given)
    plan, scatters, writes, verifies, finish = by_phase(tasks)
    assert len(verifies) == len(scatters) > 2
    assert sum(task.rows for task in verifies) == 2 * sum(task.rows for task in writes)
    assert {name for task in verifies for name in task.inputs if "part-" in name} == {name for task in writes for name in task.outputs}
    assert verifies[1].outputs == (".forebay-pack/verify-00001",) and ".forebay-pack/verify-*" in finish[0].inputs
    assert not by_phase(fb.pack_tasks(source, out, **OPTIONS))[3]
    for task in plan + scatters + writes[1:]:
        fb.pack_task(source, out, task, **given)
    assert writes[0].outputs[0] in verifies[0].inputs and writes[0].outputs[0] not in verifies[-1].inputs
    with pytest.raises(ValueError, match="run task write:0 first"):
        fb.pack_task(source, out, "verify:0", **given)
    assert not fb.pack_task(source, out, verifies[-1], **given).resumed, "it needs the files of its share alone"
    fb.pack_task(source, out, "write:0", **given)
    for task in reversed(verifies[1:-1]):
        assert not fb.pack_task(source, out, task, **given).resumed
    sums = verify_sums(out)
    assert len(sums) == len(verifies) - 1
    assert fb.pack_task(source, out, verifies[1], **given).resumed and verify_sums(out) == sums
    done = fb.pack_task(source, out, "finish:0", **given)
    assert done.rows_hash == fb.pack(source, tmp_path / "whole", **given).rows_hash is not None
    assert {k: v for k, v in contents(out).items() if k != "_pack.json"} == {k: v for k, v in whole.items() if k != "_pack.json"}
    with pytest.raises(ValueError, match="no task verify"):
        fb.pack_task(source, tmp_path / "next", "plan:0", **OPTIONS), fb.pack_task(source, tmp_path / "next", "verify:0", **OPTIONS)


def test_a_row_that_differs_is_found_by_the_tasks_sums(source, tmp_path):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    verifies, parts = written(source, out, given)
    part = parts[-1]
    table = pa.ipc.open_file(part).read_all()
    changed = table.set_column(0, table.column_names[0], pa.concat_arrays([table[0].combine_chunks()[:-1], table[0].combine_chunks()[:1]]))
    with pa.OSFile(str(part), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(changed)
    run_all(source, out, verifies, given)
    assert refused(source, out, given)


def written(source, out, given):
    """All tasks before those of verify have run: these, and the files of the pack."""
    plan, scatters, writes, verifies, finish = by_phase(fb.pack_tasks(source, out, **given))
    run_all(source, out, plan + scatters + writes, given)
    return verifies, sorted((out / ".forebay-pack").glob("part-*"))


def refused(source, out, given):
    with pytest.raises(fb.DataError, match="does not hold the rows of its source"):
        fb.pack_task(source, out, "finish:0", **given)
    return not list(out.glob("part-*"))


def test_sums_of_files_that_have_changed_are_made_anew(source, tmp_path):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    verifies, parts = written(source, out, given)
    run_all(source, out, verifies, given)
    times = parts[1].stat()
    parts[1].write_bytes(parts[2].read_bytes())
    os.utime(parts[1], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert refused(source, out, given)


def test_pack_that_finds_damage_leaves_no_sums_for_finish(source, tmp_path):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    verifies, parts = written(source, out, given)
    run_all(source, out, verifies, given)
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(fb.DataError, match="does not hold the rows of its source"):
        fb.pack(source, out, **given)
    assert not verify_sums(out) and refused(source, out, given)


@pytest.mark.parametrize("found", ["by finish", "not yet"])
@pytest.mark.parametrize("again", [True, False], ids=["verified again", "finish alone"])
def test_sums_of_a_damaged_file_do_not_outlive_it(source, tmp_path, whole, again, found):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    verifies, parts = written(source, out, given)
    good = parts[1].read_bytes()
    parts[1].write_bytes(parts[2].read_bytes())
    run_all(source, out, verifies, given)
    assert found == "not yet" or refused(source, out, given)
    parts[1].write_bytes(good)
    run_all(source, out, verifies if again else [], given)
    assert fb.pack_task(source, out, "finish:0", **given).rows_hash is not None
    assert {k: v for k, v in contents(out).items() if k != "_pack.json"} == {k: v for k, v in whole.items() if k != "_pack.json"}


def test_a_sum_is_of_its_task_and_its_plan_alone(source, tmp_path):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    run_all(source, out, written(source, out, given)[0], given)
    work, sums = out / ".forebay-pack", verify_sums(out)
    names = sorted(sums)
    (work / names[1]).write_bytes(sums[names[0]])
    (work / names[2]).write_bytes(sums[names[2]][:20])
    assert fb.pack_task(source, out, "verify:0", **given).resumed
    assert not fb.pack_task(source, out, "verify:1", **given).resumed and not fb.pack_task(source, out, "verify:2", **given).resumed
    assert verify_sums(out) == sums
    other = tmp_path / "other"
    written(source, other, {**given, "seed": 6})
    (other / ".forebay-pack" / names[0]).write_bytes(sums[names[0]])
    assert not fb.pack_task(source, other, "verify:0", **{**given, "seed": 6}).resumed


def test_finish_of_a_pack_without_rows_says_all_of_it(tmp_path):
    src = write(floats(0), tmp_path / "src", files=1)
    for task in fb.pack_tasks(src, tmp_path / "out", verify=True):
        done = fb.pack_task(src, tmp_path / "out", task, verify=True)
    alone = fb.pack(src, tmp_path / "whole", verify=True)
    assert alone.rows_hash is not None and alone.written_bytes > 0
    assert (done.rows, done.files, done.rows_hash, done.written_bytes) == (0, alone.files, alone.rows_hash, alone.written_bytes)


def test_a_task_is_resumed_where_some_of_it_was_complete(source, tmp_path):
    out = tmp_path / "out"
    tasks = fb.pack_tasks(source, out, **OPTIONS)
    for group in by_phase(tasks):
        for task in group:
            assert not fb.pack_task(source, out, task, **OPTIONS).resumed, task.name
            assert fb.pack_task(source, out, task, **OPTIONS).resumed, task.name
    assert all(fb.pack_task(source, out, task, **OPTIONS).resumed for task in tasks)


def test_a_task_reads_the_plan_no_more_often_than_the_one_that_finds_it_there(tmp_path):
    """With many keys it has many MB; behind the lock it is another one only if somebody replaced it."""
    n = 60_000
    src, out = write(pa.table({"k": np.arange(n) % 20_000}), tmp_path / "src", row_group_size=1_000), tmp_path / "out"

    def read(task):
        before = int(pathlib.Path("/proc/self/io").read_text().split()[1])
        assert fb.pack_task(src, out, task, by="k", memory="16MiB").resumed
        return int(pathlib.Path("/proc/self/io").read_text().split()[1]) - before

    for task in ("plan:0", "scatter:0"):
        fb.pack_task(src, out, task, by="k", memory="16MiB")
    assert read("scatter:0") < read("plan:0") + (out / ".forebay-pack/plan").stat().st_size / 2


def test_progress_of_a_task_is_of_its_own_rows(tmp_path):
    rng = np.random.default_rng(0)  # by a key with one value that has nearly all rows: the tasks are as uneven as can be
    keys = np.where(rng.random(300_000) < 0.95, 0, rng.integers(1, 5, 300_000))
    src = write(floats(300_000, columns=10).append_column("k", pa.array(keys)), tmp_path / "src", row_group_size=4_000)
    options = {"by": "k", "memory": "16MiB", "batch": 500, "rows_per_file": 100_000, "verify": True}
    tasks = fb.pack_tasks(src, tmp_path / "out", **options)
    assert len({task.rows for task in tasks if task.phase == "write"}) > 1
    for task in tasks[:-1]:
        seen = []
        fb.pack_task(src, tmp_path / "out", task, progress=lambda *said: seen.append(said), **options)
        assert seen and all(0 <= done <= total == task.rows for done, total, _ in seen), task.name
        fb.pack_task(src, tmp_path / "out", task, progress=lambda *said: seen.append(said), **options)  # and once it is done
        assert all(0 <= done <= total == task.rows for done, total, _ in seen), task.name


def test_finish_tidies_up_after_one_that_was_stopped_at_the_very_end(source, tmp_path, whole):
    for task in fb.pack_tasks(source, tmp_path / "out", **OPTIONS):
        fb.pack_task(source, tmp_path / "out", task, **OPTIONS)
    (tmp_path / "out/.forebay-pack").mkdir()
    (tmp_path / "out/.forebay-pack/.lock").touch()
    fb.pack_task(source, tmp_path / "out", "finish:0", **OPTIONS)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(whole)


# ---- what is refused ----


def test_tasks_that_need_others_say_which(source, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="holds no plan of a pack: run task plan:0 first"):
        fb.pack_task(source, out, "scatter:0", **OPTIONS)
    assert not out.exists()
    plan, scatter, write_, *_ = by_phase(fb.pack_tasks(source, out, **OPTIONS))
    fb.pack_task(source, out, plan[0], **OPTIONS)
    with pytest.raises(ValueError, match=rf"no task scatter:{len(scatter)}: the plan .* has {len(scatter)} of this phase"):
        fb.pack_task(source, out, f"scatter:{len(scatter)}", **OPTIONS)
    for task in scatter[:-1]:
        fb.pack_task(source, out, task, **OPTIONS)
    with pytest.raises(ValueError, match=rf"run task scatter:{len(scatter) - 1} first"):
        fb.pack_task(source, out, write_[0], **OPTIONS)
    fb.pack_task(source, out, scatter[-1], **OPTIONS)
    for task in write_[1:]:
        fb.pack_task(source, out, task, **OPTIONS)
    with pytest.raises(ValueError, match="run task write:0 first"):
        fb.pack_task(source, out, "finish:0", **OPTIONS)
    assert [p.name for p in out.iterdir()] == [".forebay-pack"]


def test_words_that_are_no_task_and_tables_that_others_do_not_have(source, tmp_path):
    for name in ("scatter", "scatter:", "gather:1", "scatter:-1", "write:x", "finish:1", ""):
        with pytest.raises(ValueError, match="task"):
            fb.pack_task(source, tmp_path / "out", name, **OPTIONS)
    with pytest.raises(TypeError, match="pack_tasks.*'sed'"):
        fb.pack_tasks(source, tmp_path / "out", sed=1)
    with pytest.raises(ValueError, match="dry_run"):
        fb.pack_task(source, tmp_path / "out", "plan:0", dry_run=True)
    with pytest.raises(fb.UnsupportedError, match="table in memory"):
        fb.pack_tasks(floats(100), tmp_path / "out")
    with pytest.raises(fb.UnsupportedError, match="table in memory"):
        fb.pack_task(floats(100), tmp_path / "out", "plan:0")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_one_process_packs_into_is_refused_and_the_other_way_round(source, tmp_path):
    refused = []

    def try_task(done, total, what):
        if not refused and what != "comparing files":
            with pytest.raises(ValueError, match="being packed by another process") as error:
                fb.pack_task(source, tmp_path / "out", "scatter:0", **OPTIONS)
            refused.append(error)

    fb.pack(source, tmp_path / "out", progress=try_task, **OPTIONS)

    def try_whole(*_):
        with pytest.raises(ValueError, match="being packed by another process") as error:
            fb.pack(source, tmp_path / "tasks", **OPTIONS)
        refused.append(error)

    fb.pack_task(source, tmp_path / "tasks", "plan:0", **OPTIONS)
    fb.pack_task(source, tmp_path / "tasks", "scatter:0", progress=try_whole, **OPTIONS)
    assert len(refused) >= 2


def test_a_source_that_changed_since_the_plan_is_refused_by_every_task(tmp_path):
    src = write(floats(50_000), tmp_path / "src", row_group_size=5_000)
    fb.pack_task(src, tmp_path / "out", "plan:0", batch=100)
    os.utime(src / "1.arrow", (1, 1))
    with pytest.raises(fb.ChangedError, match="of a source that has changed"):
        fb.pack_task(src, tmp_path / "out", "scatter:0", batch=100)


# ---- several processes ----


@needs_cli
def test_processes_that_run_all_tasks_at_once_and_twice_write_the_bytes_of_one(source, tmp_path, whole):
    command = [CLI, "pack", source, "--to", tmp_path / "out", "--no-cache", *FLAGS]
    listed = json.loads(run([*command, "--tasks", "--json"]).stdout)["tasks"]
    assert [{**task, "inputs": tuple(task["inputs"]), "outputs": tuple(task["outputs"])} for task in listed] == [
        task._asdict() for task in fb.pack_tasks(source, tmp_path / "out", **OPTIONS)
    ]
    rng = random.Random(3)
    for phase in ("plan", "scatter", "write", "finish"):
        names = [f"{phase}:{task['k']}" for task in listed if task["phase"] == phase] * 2
        rng.shuffle(names)
        with ThreadPoolExecutor(6) as pool:
            for result in pool.map(lambda name: run([*command, "--task", name]), names):
                assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "out") == whole
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(whole)


@needs_cli
def test_tasks_that_are_killed_are_run_again_to_the_same_bytes(source, tmp_path, whole):
    command = [CLI, "pack", source, "--to", tmp_path / "out", "--no-cache", *FLAGS]
    rng, killed = random.Random(7), 0
    for task in fb.pack_tasks(source, tmp_path / "out", **OPTIONS):
        for attempt in range(4):
            process = subprocess.Popen([*map(str, command), "--task", task.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if attempt < 3:
                # The first at once, while it starts: on a fast machine a task is over before a later one comes.
                time.sleep(rng.uniform(0, 0.025 * attempt))
                process.send_signal(signal.SIGKILL)
            code = process.wait()
            killed += code == -signal.SIGKILL
            assert code in (0, -signal.SIGKILL), process.stderr.read()
        assert code == 0
    assert killed
    assert contents(tmp_path / "out") == whole
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(whole)


@needs_cli
def test_the_commands_words_for_tasks(source, tmp_path):
    command = [CLI, "pack", source, "--to", tmp_path / "out", "--no-cache", *FLAGS]
    shown = run([*command, "--tasks"]).stdout.splitlines()
    assert shown[0].split() == ["task", "rows", "reads", "from", "writes", "to"]
    assert shown[1].split() == ["plan:0", ".forebay-pack/plan"]
    assert any(line.split()[0] == "scatter:1" and "0.arrow" in line and line.endswith(".forebay-pack/scatter-00001") for line in shown)
    wrong = run([*command, "--task", "gather:1"])
    assert wrong.returncode == 2 and "no task is called 'gather:1'" in wrong.stderr
    both = run([*command, "--tasks", "--dry-run"])
    assert both.returncode == 2 and "one at a time" in both.stderr
    early = run([*command, "--task", "write:0"])
    assert early.returncode == 2 and "run task plan:0 first" in early.stderr


@needs_cli
def test_what_the_command_proposes_leads_on(tmp_path):
    src, out = write(floats(50_000), tmp_path / "src", row_group_size=5_000), tmp_path / "out"
    command = [CLI, "pack", src, "--to", out, "--no-cache"]

    def said(*words, code=1):
        done = run([*command, *words])
        assert done.returncode == code and "--help" not in done.stderr, done.stderr
        return done.stderr.partition("  try: ")[2]

    assert run([*command, "--task", "plan:0"]).returncode == 0
    os.utime(src / "1.arrow", (1, 1))
    assert said() == f"remove '{out}/.forebay-pack', which is of the source as it was, and run the command again\n"
    shutil.rmtree(out / ".forebay-pack")
    for task in ("plan:0", "scatter:0"):
        assert run([*command, "--task", task]).returncode == 0
    scatter = out / ".forebay-pack/scatter-00000"
    data = bytearray(scatter.read_bytes())
    data[len(data) // 4] ^= 1
    scatter.write_bytes(data)
    assert said().startswith("remove what is named, if it lies in .forebay-pack: it is made again")
    scatter.unlink()
    assert run(command).returncode == 0
    assert said(code=2) == ""  # a finished pack: the message says what there is to do
    assert said("--codec", "gzip", code=2) == ""


@needs_cli
def test_the_command_proposes_no_columns_where_it_is_not_about_them(source, tmp_path):
    out, given = tmp_path / "out", {**OPTIONS, "verify": True}
    _, parts = written(source, out, given)
    parts[1].write_bytes(parts[2].read_bytes())
    done = run([CLI, "pack", source, "--to", out, "--no-cache", *FLAGS, "--verify"])
    assert done.returncode == 1 and "does not hold the rows of its source" in done.stderr and "try:" not in done.stderr
    (tmp_path / "a.csv").write_text("x\n1\nmany\n")
    done = run([CLI, "pack", tmp_path / "a.csv", "--to", tmp_path / "csv", "--no-cache", "--dtype", "x=int64"])
    assert done.returncode == 1 and "'many'" in done.stderr and "--dtype" in done.stderr and "--format arrow" not in done.stderr, done.stderr


@needs_cli
def test_a_target_that_is_no_utf8_is_said_in_json(tmp_path):
    write(floats(100), tmp_path / "src")
    target = os.fsencode(tmp_path) + b"/\xff"
    command = [CLI, "pack", tmp_path / "src", "--no-cache", "--json", "--to"]
    for words in (["--tasks"], []):
        done = subprocess.run([*map(os.fsencode, command), target, *map(os.fsencode, words)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["to"].startswith(str(tmp_path)) and said["to"].endswith("xff")
    assert said["expected_bytes"] is None and said["keys"] is None, "as in Python"


def test_values_are_those_of_pyarrow(source, tmp_path):
    """One look at the values themselves: the rest of this file compares bytes."""
    for task in fb.pack_tasks(source, tmp_path / "out", **OPTIONS):
        fb.pack_task(source, tmp_path / "out", task, **OPTIONS)
    table, packed = pa.table(fb.open(source)), pa.table(fb.open(tmp_path / "out"))
    assert packed.sort_by("i").equals(table.sort_by("i")) and not packed.equals(table)
