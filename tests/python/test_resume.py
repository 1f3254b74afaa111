"""Resume: a state taken anywhere goes on exactly there, in another process, with other threads, memory and ranks."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

import forebay as fb
import rank_orders
from rank_orders import open_ranks, saved

np = pytest.importorskip("numpy")
pytest.importorskip("pyarrow")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings, strategies as st  # noqa: E402

FILES, ROWS = 9, 53


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """9 files of 53 rows in row groups of 20; a is the row number, g a key that begins anew every 1 to 7 rows, k a class."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = tmp_path_factory.mktemp("resume")
    for i in range(FILES):
        a = np.arange(i * ROWS, (i + 1) * ROWS)
        g = np.repeat(np.arange(ROWS), np.arange(ROWS) % 7 + 1)[:ROWS] + 1000 * i
        table = pa.table(
            {
                "a": a, "x": np.sin(a).astype("float32"), "g": g, "k": a % 3,
                "s": [f"{v}" * (v % 4) for v in a], "l": [list(range(v % 3)) for v in a], "w": [list(range(v, v + 5 + v % 6)) for v in a],
            }
        )  # fmt: skip
        pq.write_table(table, root / f"{i}.parquet", row_group_size=20)
    return root


@pytest.fixture(scope="module")
def many(folder):
    return fb.open(folder)


def plain(batch):
    return {name: value.to_list() if hasattr(value, "to_list") else value.tolist() for name, value in batch.items()}


def by_sample(batch):
    """What each sample of a batch has in every output, where padding to the batch's longest does not show."""
    columns = []
    for value in batch.values():
        if isinstance(value, fb.Padded):
            columns.append([v[m].tolist() for v, m in zip(value.values, value.mask, strict=True)])
        else:
            columns.append(value.to_list() if hasattr(value, "to_list") else value.tolist())
    return list(zip(*columns, strict=True))


def picture():
    return fb.col("x", "a").cast("float32").spec_augment(time_masks=1, max_time=1, freq_masks=1, max_freq=3, value=-9)


# Samples of every kind, and the outputs that only they have. The first output says which sample it is.
KINDS = {
    "rows": (lambda ds: ds.rows(), lambda: {"i": fb.sample_index(), "a": "a"}),
    "ragged": (lambda ds: ds.rows(), lambda: {"i": fb.sample_index(), "s": "s", "l": "l"}),
    "windows": (
        lambda ds: ds.windows(5, 2, stride=2), lambda: {"i": fb.sample_index(), "x": fb.col("x").steps(0, 5), "y": fb.col("a").steps(5, 7)},
    ),
    "groups": (lambda ds: ds.groups("g"), lambda: {"i": fb.sample_index(), "p": fb.col("a"), "n": fb.n_rows(), "row": fb.row_index()}),
    "oversampled": (lambda ds: ds.groups("g").oversample("k", {0: 3, 1: 0}), lambda: {"i": fb.sample_index(), "p": fb.col("a")}),
    "weighted": (
        lambda ds: ds.rows().resample(np.arange(FILES * ROWS) % 5 / 2, n=400, seed=1), lambda: {"i": fb.sample_index(), "a": "a", "l": "l"},
    ),
    "selected": (
        lambda ds: ds.windows(4).select("k", values=[0, 2]).limit(0.5, random=True, seed=3), lambda: {"i": fb.sample_index(), "a": fb.col("a")},
    ),
    "random crops and rows": (
        lambda ds: ds.groups("g"), lambda: {"i": fb.sample_index(), "few": fb.col("a").padded(max_rows=3), "some": fb.col("x").ragged(2)},
    ),
    "random crops of lists": (lambda ds: ds.rows(), lambda: {"i": fb.sample_index(), "w": fb.col("w").crop(4, random=True)}),
    "masks": (lambda ds: ds.windows(6, stride=3), lambda: {"i": fb.sample_index(), "m": picture()}),
}  # fmt: skip
DRAWN = ("random crops and rows", "random crops of lists", "masks")

options = st.fixed_dictionaries(
    {
        "shuffle": st.sampled_from([True, "full", "block", False]),
        "seed": st.integers(0, 2**64 - 1),
        "superbatch": st.sampled_from(["2 blocks", "60 samples", "200 samples", None]),
        "tail": st.sampled_from(["drop", "wrap"]),
        "epoch": st.sampled_from([0, 1, 2**40]),
        "part": st.sampled_from([None, None, "3 files", "1/2"]),
    }
)
machine = st.fixed_dictionaries(
    {"threads": st.integers(1, 4), "prefetch": st.integers(1, 9), "memory": st.sampled_from([None, "64MiB"])}
)


def global_epoch(samples, outputs, world, batch, how, on, state=None):
    """The samples of every global batch with all that they have, from the state on; and the states of rank 0."""

    def make(rank, world):
        return samples.loader(outputs, batch_size=batch // world, rank=rank, world_size=world, framework="numpy", **how, **on)

    with open_ranks(make, world) as ranks:
        return rank_orders.global_epoch(ranks, by_sample, state)


WORLDS = st.sampled_from([1, 2, 4, 8])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(how=options, on=machine, later=machine, world=WORLDS, other=WORLDS, data=st.data())
def test_any_samples_any_options_any_batch_any_change_of_ranks_threads_and_memory(many, kind, how, on, later, world, other, data):
    samples, outputs = KINDS[kind][0](many), KINDS[kind][1]()
    whole, states = global_epoch(samples, outputs, world, 16, how, on)
    again, _ = global_epoch(samples, outputs, other, 16, how, later)
    assert again == whole
    seen = [sample[0] for step in whole for sample in step]
    n = len(samples)
    assert len(seen) == len(whole) * 16 and set(seen) <= set(range(n))
    if how["tail"] == "drop":
        assert len(set(seen)) == len(seen)
    if how["part"] is None:
        assert len(set(seen)) == (n if how["tail"] == "wrap" else n // 16 * 16)
        assert len(whole) == (-(-n // 16) if how["tail"] == "wrap" else n // 16)
    k = data.draw(st.integers(0, len(whole)))
    rest, _ = global_epoch(samples, outputs, other, 16, how, later, states[k])
    assert rest == whole[k:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [None, "4 files"])
def test_samples_of_every_kind_resumed_at_every_batch_with_everything_else_changed(many, kind, part):
    samples, outputs = KINDS[kind][0](many), KINDS[kind][1]()
    how = {"seed": 9, "superbatch": "80 samples", "tail": "wrap", "epoch": 1, "part": part}
    whole, states = global_epoch(samples, outputs, 1, 32, how, {"threads": 2})
    assert len(whole) > 1 and [state["batch"] for state in states] == list(range(len(whole) + 1))
    for k, state in enumerate(states):
        on = {"threads": 1 + k % 3, "prefetch": 1 + k % 5, "memory": "64MiB" if k % 2 else None}
        rest, _ = global_epoch(samples, outputs, (8, 2, 4)[k % 3], 32, how, on, state)
        assert rest == whole[k:]
    if kind in DRAWN and part is None:  # what is drawn is drawn anew every epoch, and is the sample's, not its place's
        drawn = {sample[0]: sample[1:] for step in whole for sample in step}
        other, _ = global_epoch(samples, outputs, 1, 32, {**how, "epoch": 2}, {})
        assert sum(drawn[sample[0]] != sample[1:] for step in other for sample in step) > len(samples) / 4
        ordered, _ = global_epoch(samples, outputs, 1, 32, {**how, "shuffle": False}, {})
        assert all(drawn[sample[0]] == sample[1:] for step in ordered for sample in step)


@pytest.mark.parametrize("shuffle", [True, "full", "block", False])
def test_resume_at_every_batch_gives_the_same_bits(many, shuffle):
    how = {"batch_size": 32, "shuffle": shuffle, "superbatch": "80 samples", "seed": 4, "epoch": 3, "framework": "numpy"}
    with many.loader(**how) as loader:
        states, whole = [saved(loader)], []
        for batch in loader:
            whole.append(plain(batch))
            states.append(saved(loader))
        after = saved(loader)
    assert len(whole) == 15 and [s["batch"] for s in states] == list(range(16)) and {s["epoch"] for s in states} == {3}
    assert (after["epoch"], after["batch"]) == (4, 0)
    for k, state in enumerate(states):
        with many.loader(**how, threads=1 + k % 3, prefetch=1 + k) as loader:
            loader.load_state_dict(state)
            rest = [(batch.index, batch.epoch, plain(batch)) for batch in loader]
            assert rest == [(i, 3, whole[i]) for i in range(k, 15)]
            assert [b.epoch for b in loader] == [4] * 15


def test_a_state_is_small_plain_and_counts_what_was_taken(many):
    with many.loader("a", batch_size=10, framework="numpy", prefetch=9) as loader:
        assert (saved(loader)["epoch"], saved(loader)["batch"]) == (0, 0)
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        time.sleep(0.05)
        state = loader.state_dict()
        assert state["batch"] == 3 and json.loads(json.dumps(state)) == state and len(json.dumps(state)) < 2000
        loader.load_state_dict(state)
        with pytest.raises(fb.StateError, match="a state was loaded"):
            next(iterator)
        assert loader.state_dict() == state
        assert next(iter(loader)).index == 3
        assert loader.state_dict()["batch"] == 4  # that loop was left early: a state still says where
        loader.set_epoch(7)
        assert (loader.state_dict()["epoch"], loader.state_dict()["batch"]) == (7, 0)
        assert next(iter(loader)).epoch == 7


def test_set_epoch_in_the_loop_keeps_a_state_of_that_epoch_and_warns_when_it_leaves_one(many):
    with many.loader("a", batch_size=100, framework="numpy") as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = loader.state_dict()
        loader.load_state_dict(state)
        seen = []
        for epoch in range(state["epoch"], 2):
            loader.set_epoch(epoch)
            seen += [(b.epoch, b.index) for b in loader]
        assert seen == [(0, 2), (0, 3), (0, 4)] + [(1, i) for i in range(5)]
        loader.load_state_dict(state)
        with pytest.warns(UserWarning, match=r"set_epoch\(5\) leaves the state that was just loaded \(epoch 0, batch 2\)"):
            loader.set_epoch(5)
        assert [(b.epoch, b.index) for b in loader][0] == (5, 0)


def test_what_would_give_another_order_is_refused_with_both_values(many, folder, tmp_path):
    with many.loader("a", batch_size=16, rank=0, world_size=4, seed=3, superbatch="60 samples", framework="numpy") as loader:
        state = loader.state_dict()
    for changed, hint in (
        ({"seed": 4}, "seed 3.* has 4"), ({"batch_size": 8}, "global batch of 64.*16 on each of 4 ranks.* 32 .*set batch_size to 16"),
        ({"world_size": 2}, "set batch_size to 32"), ({"shuffle": False}, "'superbatch'.*'none'"), ({"streams": 4}, "streams in effect 8.* has 4"),
        ({"superbatch": "90 samples"}, "60.*90"), ({"tail": "drop"}, "'wrap'.*'drop'"),
    ):  # fmt: skip
        how = {"batch_size": 16, "rank": 0, "world_size": 4, "seed": 3, "superbatch": "60 samples", **changed}
        with many.loader("a", framework="numpy", **how) as loader, pytest.raises(ValueError, match=hint):
            loader.load_state_dict(state)
    with many.loader("a", batch_size=5, seed=3, superbatch="60 samples", framework="numpy") as loader:  # of other streams in effect, because of its size
        with pytest.raises(ValueError, match="global batch of 64 .* has 5 .*: set batch_size to 64"):
            loader.load_state_dict(state)
    with many.loader("a", batch_size=64, seed=3, superbatch="60 samples", framework="numpy", memory="64MiB", threads=1) as loader:
        loader.load_state_dict(state)
        for bad, hint in (
            ({}, "no state"), ({"format": "other"}, "no state"), ({**state, "batch": -1}, "batch is -1"), ({**state, "batch": True}, "batch is True"),
            ({**state, "batch": 99}, "batch 99"), ({**state, "version": 1}, "version 1"), ({**state, "shuffle": "odd"}, "damaged"),
            ({k: v for k, v in state.items() if k != "dataset"}, "damaged"), ({**state, "dataset": {**state["dataset"], "hashes": "zz"}}, "damaged"),
            ({**state, "dataset": {**state["dataset"], "identity": "x" * 40}}, "damaged"),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=hint):
                loader.load_state_dict(bad)
        with pytest.raises(TypeError, match="not str"):
            loader.load_state_dict("state")
        assert loader.state_dict()["batch"] == state["batch"]


def test_a_changed_file_is_named_and_a_copy_elsewhere_goes_on(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "data")  # with its times
    ds = fb.open(tmp_path / "data")
    with ds.loader("a", batch_size=10, framework="numpy") as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        second = next(iterator)["a"].tolist()
    with fb.open(folder).loader("a", batch_size=10, framework="numpy") as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["a"].tolist() == second
    os.utime(tmp_path / "data/4.parquet", (1, 1))
    with fb.open(tmp_path / "data").loader("a", batch_size=10, framework="numpy") as loader:
        with pytest.raises(fb.ChangedError, match="4.parquet.*1970-01-01"):
            loader.load_state_dict(state)
    (tmp_path / "data/4.parquet").unlink()
    with fb.open(tmp_path / "data").loader("a", batch_size=10, framework="numpy") as loader:
        with pytest.raises(fb.ChangedError, match="another data set: 9 files.*this one has 8 files"):
            loader.load_state_dict(state)


def test_a_copy_without_its_times_goes_on_and_files_that_were_written_to_do_not(folder, tmp_path):
    import shutil

    with fb.open(folder).loader("a", batch_size=10, framework="numpy") as loader:
        iterator = iter(loader)
        next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
        second = next(iterator)["a"].tolist()

    def go_on(path, state):
        with fb.open(path).loader("a", batch_size=10, framework="numpy") as loader:
            loader.load_state_dict(state)
            return next(iter(loader))["a"].tolist()

    copied = tmp_path / "copied"
    shutil.copytree(folder, copied, copy_function=shutil.copyfile)
    for path in copied.iterdir():
        os.utime(path, (5, 5))
    assert go_on(copied, state) == second
    whole = (copied / "4.parquet").read_bytes()
    (copied / "4.parquet").write_bytes(whole[:4] + b"PAR1" + whole[4:])  # another size: not the same contents
    with pytest.raises(fb.ChangedError, match="sizes, times or metadata"):
        go_on(copied, state)
    times_decide = state | {"dataset": {name: x for name, x in state["dataset"].items() if name not in ("contents", "inodes")}}
    assert go_on(folder, times_decide) == second  # a state of an older library
    (copied / "4.parquet").write_bytes(whole)
    with pytest.raises(fb.ChangedError, match="sizes, times or metadata"):
        go_on(copied, times_decide)


def test_ranks_come_from_the_launchers_environment(many, monkeypatch):
    from forebay._ranks import detected_rank

    for name in list(os.environ):
        if name.startswith(("SLURM", "OMPI", "PMI", "MV2")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    assert detected_rank() == (0, 1)
    for environment, expect in (
        ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "5", "PMI_SIZE": "8"}, (5, 8)),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "8"}, (2, 4)),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}, (2, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),  # a batch script of four tasks that runs python itself
        ({"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (0, 2)),  # torchrun under srun
        ({"RANK": "4", "WORLD_SIZE": "4"}, (0, 1)),
        ({"RANK": "x", "WORLD_SIZE": "4"}, (0, 1)),
    ):
        with monkeypatch.context() as m:
            for name, value in environment.items():
                m.setenv(name, value)
            assert detected_rank() == expect, environment


# ---- a hundred million samples ----


def test_in_a_hundred_million_samples_a_resumed_run_has_its_batch_within_a_second(tmp_path):
    """From nothing to the batch: opening, with the index cache as after any first run, the loader, the state, the batch's superbatch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files, rows, batch_size = 100, 1_000_000, 1024
    table = pa.table({"a": np.arange(rows, dtype=np.int32), "x": np.random.default_rng(0).random(rows, np.float32)})
    first = tmp_path / "000.parquet"
    pq.write_table(table, first, row_group_size=20_000, use_dictionary=False)
    for i in range(1, files):
        os.link(first, tmp_path / f"{i:03}.parquet")

    def make(rank=0, world=1):
        how = {"superbatch": "64 blocks", "seed": 8, "threads": 2, "memory": "256MiB", "framework": "numpy"}
        outputs = {"row": fb.sample_index(), "a": "a", "x": "x"}
        return fb.open(tmp_path).loader(outputs, batch_size=batch_size // world, rank=rank, world_size=world, **how)

    with make() as loader:
        n, k = len(loader), len(loader) * 2 // 3
        assert n == -(-files * rows // batch_size) == 97_657
        state = {**saved(loader), "epoch": 5, "batch": k}
    seconds = []
    for _ in range(3):  # the least of three: what another process takes from it is not its time
        begin = time.perf_counter()
        with make() as loader:
            loader.load_state_dict(state)
            batch = next(iter(loader))
            seconds.append(time.perf_counter() - begin)
            report = loader.report()
        assert batch.index == k and batch.epoch == 5 and np.array_equal(batch["row"] % rows, batch["a"])
        assert np.array_equal(batch["x"], table["x"].to_numpy()[batch["a"]])
        # With the batch taken, reading goes on, by no more than another superbatch before the report; test_loader_resume.c is exact.
        assert 0 < report.blocks_read <= 2 * (64 + 2 * report.streams)
    shares = []
    for rank in range(4):
        with make(rank, 4) as loader:
            loader.load_state_dict(state)
            shares.append(next(iter(loader))["row"])
    assert np.array_equal(np.concatenate(shares), batch["row"]) and len(set(batch["row"].tolist())) == batch_size
    print(f"{', '.join(f'{s:.3f}' for s in seconds)} s, {report.bytes_read:,} bytes read")
    assert min(seconds) < 1.0, seconds


# ---- kill -9 ----

TRAINING = """
import json, os, sys
import numpy as np
import forebay as fb

folder, checkpoint, log, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
loader = fb.open(folder).loader(["a", "x"], batch_size=16, seed=5, superbatch="90 samples", threads=threads, framework="numpy")
weight, step, losses = 0.0, 0, []
if os.path.exists(checkpoint):
    with open(checkpoint) as f:
        saved = json.load(f)
    loader.load_state_dict(saved["loader"])
    weight, step = saved["weight"], saved["step"]
out = open(log, "a", buffering=1)
for epoch in range(loader.state_dict()["epoch"], 3):
    loader.set_epoch(epoch)
    for batch in loader:
        x = batch["x"].astype(float)
        error = weight * x - 3 * x
        loss = float((error**2).mean())
        weight -= 0.1 * float((2 * error * x).mean())
        step += 1
        out.write(json.dumps([step, loss, batch["a"].tolist()]) + "\\n")
        if step % 7 == 0:
            with open(checkpoint + ".new", "w") as f:
                json.dump({"loader": loader.state_dict(), "weight": weight, "step": step}, f)
            os.replace(checkpoint + ".new", checkpoint)
out.write("done\\n")
"""


def steps_logged(place):
    return (place / "log").read_bytes().count(b"\n") if (place / "log").exists() else 0


def train(script, folder, place, chance=None, threads=2):
    """Runs the training and kills it at a random moment after a random number of steps; True when it came to its end before that."""
    process = subprocess.Popen([sys.executable, script, folder, str(place / "checkpoint"), str(place / "log"), str(threads)])
    if chance is not None:
        enough = steps_logged(place) + chance.randint(0, 40)
        while process.poll() is None and steps_logged(place) < enough:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
    process.wait(120)
    return process.returncode == 0


def history(place):
    """Step to (loss, samples) of the log, where a step that was run again must have come out the same."""
    steps = {}
    for line in (place / "log").read_text().splitlines():
        if line == "done":
            continue
        try:
            step, loss, rows = json.loads(line)
        except ValueError:
            continue  # the line that was being written
        assert steps.setdefault(step, (loss, rows)) == (loss, rows), step
    return steps


def test_a_training_killed_at_random_moments_sees_what_an_uninterrupted_one_sees(folder, tmp_path):
    script = tmp_path / "training.py"
    script.write_text(TRAINING.replace("        step += 1\n", "        step += 1\n        import time; time.sleep(0.003)\n"))
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir()
    assert train(script, folder, straight)
    expect = history(straight)
    assert len(expect) == 90 and sorted(sum((rows for _, rows in expect.values()), [])) == sorted(3 * list(range(FILES * ROWS)))
    kills, seed = int(os.environ.get("FOREBAY_KILLS", "12")), random.randrange(2**32)
    print(f"seed {seed}")
    chance, n, run = random.Random(seed), 0, 0
    while n < kills:
        place = killed / str(run)
        place.mkdir(parents=True)
        run += 1
        while not train(script, folder, place, chance if n < kills else None, threads=chance.randint(1, 3)):
            n += 1
        assert history(place) == expect
    print(f"{n} kills in {run} trainings")
