"""fb.pack(…, outputs=…): what a pipeline gives, packed, is what a loader of the pack gives."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

import forebay as fb
from pack_cases import contents, read

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


def basins(folder, files=4, rows=1100):
    """A time series a file, with static values, text, arrays, lists and events."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for i in range(files):
        events = np.repeat(np.arange(rows), rng.integers(1, 9, rows))[:rows]
        table = pa.table({
            "time": pa.array(np.arange(rows) * 3600, pa.timestamp("s")), "prcp": rng.standard_normal(rows).astype("f4"),
            "tmax": rng.standard_normal(rows).astype("f4"), "flow": rng.standard_normal(rows), "event": events + i * rows,
            "half": np.arange(rows) % 2, "basin": [f"basin ü{i}"] * rows,
            "grid": pa.FixedSizeListArray.from_arrays(rng.standard_normal(rows * 6).astype("f4"), 6),
            "hits": pa.array([rng.integers(0, 9, n).tolist() for n in rng.integers(0, 6, rows)], pa.list_(pa.int16())),
        })  # fmt: skip
        with pa.OSFile(str(folder / f"{i}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
    return folder


def plain(value):
    """What a batch holds, as a list of arrays or texts, a sample each."""
    if isinstance(value, fb.Strings):
        return list(value)
    if isinstance(value, fb.Ragged):
        offsets, values = np.asarray(value.offsets), np.asarray(value.values)
        return [values[a:b] for a, b in zip(offsets, offsets[1:])]
    return list(np.asarray(value))


def samples_of(loader):
    found = {}
    for batch in loader:
        for name, value in batch.items():
            found.setdefault(name, []).extend(plain(value))
    return found


def same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert len(a[name]) == len(b[name])
        for x, y in zip(a[name], b[name]):
            if isinstance(x, str):
                assert x == y
            else:
                assert (x.dtype, x.shape) == (y.dtype, y.shape), name
                np.testing.assert_array_equal(x, y, err_msg=name)


OUTPUTS = {
    "windows": (lambda ds: ds.windows(24), {
        "x": fb.col("prcp", "tmax").scale(2.0), "y": fb.col("flow").at(23), "grid": fb.col("grid"), "who": fb.col("basin").first(),
        "gone": fb.col("prcp").is_missing(), "i": fb.sample_index(), "half": fb.col("tmax").cast("float16"), "lit": fb.lit(3),
    }),
    "groups": (lambda ds: ds.groups("event"), {
        "x": fb.col("prcp", "tmax"), "one": "prcp", "grid": fb.col("grid"), "flow": fb.col("flow").first(), "n": fb.n_rows(), "row": fb.row_index(),
        "few": fb.col("prcp").ragged(max_rows=3, keep="first"),
    }),
    "rows": (lambda ds: ds.rows(), {"hits": "hits", "x.y": ["prcp", "tmax"], "who": "basin", "grid": fb.col("grid"), "t": "time"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_loader_of_the_pack_gives_what_the_sources_loader_gives(tmp_path, kind):
    make, outputs = OUTPUTS[kind]
    samples = make(fb.open(basins(tmp_path / "src")))
    done = fb.pack(samples, tmp_path / "out", outputs=outputs, seed=5, rows_per_file=700, verify=True)
    assert done.rows == len(samples) and done.files == -(-len(samples) // 700) and done.rows_hash
    packed = fb.open(tmp_path / "out")
    want = samples_of(samples.loader(outputs, batch_size=100, shuffle="full", seed=5, streams=1, tail="keep"))
    same(want, samples_of(packed.rows().loader(list(outputs), batch_size=256, shuffle=False, tail="keep")))
    assert read(tmp_path / "out").schema.names == list(outputs)
    assert packed.attrs["forebay.outputs"].startswith("outputs:") and packed.attrs["forebay.outputs_hash"]


def test_padded_outputs_are_lists_that_a_loader_pads_again(tmp_path):
    samples = fb.open(basins(tmp_path / "src")).groups("event")
    outputs = {
        "x": fb.col("prcp", "tmax").padded(max_rows=5, keep="first", to_max=True, pad=-1), "grid": fb.col("grid").padded(lengths=True),
    }  # fmt: skip
    fb.pack(samples, tmp_path / "out", outputs=outputs, shuffle="none")
    packed = fb.open(tmp_path / "out").rows()
    again = {"x": fb.col("x").padded(max_rows=5, keep="first", to_max=True, pad=-1), "grid": fb.col("grid").padded(lengths=True)}
    options = {"batch_size": 50, "shuffle": False, "tail": "keep"}
    for a, b in zip(samples.loader(outputs, **options), packed.loader(again, **options), strict=True):
        np.testing.assert_array_equal(a["x"].values, b["x"].values)
        np.testing.assert_array_equal(a["x"].mask, b["x"].mask)
        np.testing.assert_array_equal(a["grid"].values, b["grid"].values)
        np.testing.assert_array_equal(a["grid"].lengths, b["grid"].lengths)


def options_of(kind):
    return {"outputs": OUTPUTS[kind][1], "seed": 9, "rows_per_file": 300, "batch": 50}


@pytest.mark.parametrize("shuffle", ["full", "none"])
@pytest.mark.parametrize("kind", ["windows", "groups"])
def test_bytes_depend_on_neither_memory_nor_threads_nor_tasks(tmp_path, kind, shuffle):
    samples = OUTPUTS[kind][0](fb.open(basins(tmp_path / "src")))
    options = {**options_of(kind), "shuffle": shuffle}
    fb.pack(samples, tmp_path / "a", memory="48MiB", threads=1, **options)
    fb.pack(samples, tmp_path / "b", memory="1GiB", threads=5, **options)
    want = contents(tmp_path / "a")
    assert contents(tmp_path / "b") == want
    tasks = fb.pack_tasks(samples, tmp_path / "c", memory="48MiB", **options)
    rng = random.Random(1)
    assert [t.phase for t in tasks][0] == "plan" and all(t.inputs for t in tasks[1:])
    for phase in ("plan", "scatter", "write", "finish"):
        of_phase = [t for t in tasks if t.phase == phase]
        rng.shuffle(of_phase)
        for task in of_phase:
            done = fb.pack_task(samples, tmp_path / "c", task, memory="48MiB", verify=task.phase == "finish", **options)
    hashed = {name: b for name, b in contents(tmp_path / "c").items() if name != "_pack.json"}
    assert hashed == {name: b for name, b in want.items() if name != "_pack.json"}
    again = fb.pack_task(samples, tmp_path / "c", "finish:0", memory="48MiB", **options)
    assert again.resumed and again.rows_hash == done.rows_hash is not None
    assert again.written_bytes == sum(len(b) for name, b in want.items() if name.startswith("part-"))


PACKS = """
import sys, forebay as fb
sys.path.insert(0, {tests!r})
from test_pack_outputs import OUTPUTS, options_of
samples = OUTPUTS["windows"][0](fb.open({source!r}))
print("ready", flush=True)
fb.pack(samples, {to!r}, memory="48MiB", **options_of("windows"))
"""


def test_a_pack_that_was_killed_goes_on_to_the_same_bytes(tmp_path):
    samples = OUTPUTS["windows"][0](fb.open(basins(tmp_path / "src")))
    fb.pack(samples, tmp_path / "whole", **options_of("windows"))
    code = PACKS.format(tests=str(pathlib.Path(__file__).parent), source=str(tmp_path / "src"), to=str(tmp_path / "out"))
    killed = 0
    for wait in (0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(wait)
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
        if (tmp_path / "out/_pack.json").exists():
            break
        everything_is_written = (tmp_path / "out/.forebay-pack/_pack.json").exists()  # and files get their names, this one last
        assert everything_is_written or not list((tmp_path / "out").glob("part-*"))
    assert killed
    if not (tmp_path / "out/_pack.json").exists():
        fb.pack(samples, tmp_path / "out", **options_of("windows"))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_another_epoch_would_have_otherwise_is_refused_by_name(tmp_path):
    ds = fb.open(basins(tmp_path / "src"))
    windows, groups = ds.windows(24), ds.groups("event")

    def refused(samples, outputs, match, error=fb.UnsupportedError, **options):
        with pytest.raises(error, match=match):
            fb.pack(samples, tmp_path / "out", outputs=outputs, **options)

    refused(windows, {"cut": fb.col("prcp").crop(5, random=True)}, "'cut': a random crop")
    refused(windows, {"m": fb.col("prcp", "tmax").spec_augment(time_masks=1, max_time=2)}, "'m': spec_augment")
    refused(groups, {"few": fb.col("prcp").ragged(max_rows=2)}, "'few': .*max_rows draws.*keep=\"first\"")
    refused(groups, {"p": fb.col("prcp").padded(max_rows=2)}, "'p': .*max_rows draws")
    refused(groups, {"s": fb.segment_ids()}, "'s': it is of a batch")
    refused(windows, {"r": fb.is_repeat()}, "'r': it is of a batch")
    refused(ds.rows().resample({0: 1.0, 1: 3.0}, column="half", each_epoch=True), {"x": "prcp"}, "drawn by weights come anew")
    refused(windows, {"b": fb.col("prcp").cast("bfloat16")}, "'b'.*bfloat16")
    refused(windows, {"x": ["prcp", "tmax"]}, "'x' holds arrays, whose shape Parquet does not keep", format="parquet")
    refused(windows, {"x": "prcp"}, "columns and outputs", ValueError, columns="prcp")
    refused(windows, None, "needs outputs", TypeError)
    refused(windows, {}, "empty", ValueError)
    refused(windows, 5, "named by a str, not int: 5", TypeError)
    refused(fb.mix({"a": windows, "b": windows}), {"x": "prcp"}, "a mixture: pack each source, and mix the packs")
    assert not (tmp_path / "out").exists()
    fb.pack(groups, tmp_path / "fits", outputs={"all": fb.col("prcp").ragged(max_rows=100)})  # no sample is longer


def test_scalars_lists_and_text_go_to_parquet(tmp_path):
    samples = fb.open(basins(tmp_path / "src")).groups("event")
    outputs = {"x": "prcp", "y": fb.col("flow").first(), "who": fb.col("basin").first(), "n": fb.n_rows()}
    fb.pack(samples, tmp_path / "out", outputs=outputs, seed=1, format="parquet", verify=True)
    want = samples_of(samples.loader(outputs, batch_size=64, shuffle="full", seed=1, streams=1, tail="keep"))
    same(want, samples_of(fb.open(tmp_path / "out").rows().loader(list(outputs), batch_size=64, shuffle=False, tail="keep")))
    table = read(tmp_path / "out")
    assert table["x"].to_pylist() == [x.tolist() for x in want["x"]] and table["who"].to_pylist() == want["who"]


def test_an_unfinished_pack_of_other_outputs_or_samples_is_not_gone_on_with(tmp_path):
    ds = fb.open(basins(tmp_path / "src"))
    fb.pack_task(ds.windows(24), tmp_path / "out", "plan:0", outputs={"x": "prcp"})
    with pytest.raises(ValueError, match='with other options: it has "outputs": .*prcp.*, and this one "outputs": .*prcp.*scale'):
        fb.pack(ds.windows(24), tmp_path / "out", outputs={"x": fb.col("prcp").scale(2.0)})
    many = {f"output_{i:03}": fb.col("prcp").scale(1.0 + i) for i in range(30)}
    fb.pack_task(ds.windows(24), tmp_path / "many", "plan:0", outputs=many)
    with pytest.raises(ValueError, match=r'it has "outputs": ….*scale: 3e\+01.*, and this one "outputs": ….*scale: 77') as refused:
        fb.pack(ds.windows(24), tmp_path / "many", outputs={**many, "output_029": fb.col("prcp").scale(77.0)})
    assert len(str(refused.value)) < 800  # what differs, and not all that is the same
    with pytest.raises(ValueError, match='it has "pipeline": ".*4,308 windows>", and this one "pipeline": ".*2,156 windows>"'):
        fb.pack(ds.windows(24, stride=2), tmp_path / "out", outputs={"x": "prcp"})
    with pytest.raises(ValueError, match='it has "outputs": .*, and this one whole rows'):
        fb.pack(ds, tmp_path / "out")


PIPELINE = """
data: {paths: src/*.arrow}
samples: {windows: {input: 24}}
splits: {train: 0.8, test: 0.2}
outputs:
  x: {columns: [prcp, tmax], ops: [scale: 2.0]}
  y: {columns: flow, at: 23}
loader: {batch_size: 100, split: train}
"""


@needs_cli
def test_the_command_packs_what_a_pipeline_file_gives(tmp_path):
    basins(tmp_path / "src", files=5)
    path = tmp_path / "basins.yaml"
    path.write_text(PIPELINE)
    command = [CLI, "pack", "--outputs", path, "--to", tmp_path / "out", "--seed", "4", "--no-cache"]
    said = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    pipeline = fb.pipeline(path)
    assert said["rows"] == len(pipeline["train"])
    want = samples_of(pipeline.loader("train", shuffle="full", seed=4, streams=1, tail="keep"))
    packed = fb.open(tmp_path / "out")
    same(want, samples_of(packed.rows().loader(["x", "y"], batch_size=64, shuffle=False, tail="keep")))
    assert packed.attrs["forebay.pipeline"] == PIPELINE
    fb.pack(pipeline["train"], tmp_path / "python", seed=4)
    assert contents(tmp_path / "python") == contents(tmp_path / "out")

    def fails(match, *more):
        done = subprocess.run([CLI, "pack", *more, "--to", tmp_path / "no"], capture_output=True, text=True)
        assert done.returncode == 2 and match in done.stderr, done.stderr

    fails("no data to pack")
    fails("--split and --set are of a pipeline file", tmp_path / "src", "--split", "train")
    fails("the data that its file names", tmp_path / "src", "--outputs", path)
    fails("give one of them", "--outputs", path, "--columns", "x")
    assert not (tmp_path / "no").exists()
    command += ["--tasks", "--json", "--split", "test", "--set", "samples.windows.stride=2", "--to", tmp_path / "tasks"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert [t["phase"] for t in listed["tasks"]][:2] == ["plan", "scatter"]


@needs_cli
def test_the_file_is_kept_apart_from_what_is_set(tmp_path):
    basins(tmp_path / "src", files=2)
    (tmp_path / "p.yaml").write_text(PIPELINE.strip())
    subprocess.run(
        [CLI, "pack", "--outputs", tmp_path / "p.yaml", "--set", "samples.windows.stride=2", "--to", tmp_path / "out", "--no-cache"], check=True
    )
    kept = fb.open(tmp_path / "out").attrs["forebay.pipeline"]
    assert kept == PIPELINE.strip() + "\n# --set samples.windows.stride=2\n"
    pipeline = fb.pipeline(tmp_path / "p.yaml", {"samples.windows.stride": 2})
    (tmp_path / "p.yaml").write_text("what the file has become since\n")
    fb.pack(pipeline["train"], tmp_path / "python")
    assert fb.open(tmp_path / "python").attrs["forebay.pipeline"] == kept


@needs_cli
def test_a_pack_says_which_split_it_is_of_where_the_file_names_another(tmp_path):
    basins(tmp_path / "src", files=5)
    (tmp_path / "p.yaml").write_text(PIPELINE.strip())
    pipeline = fb.pipeline(tmp_path / "p.yaml", {"samples.windows.stride": 2})
    for split, note in (("train", ""), ("test", "# --split test\n")):
        command = [CLI, "pack", "--outputs", tmp_path / "p.yaml", "--set", "samples.windows.stride=2", "--split", split]
        subprocess.run([*command, "--to", tmp_path / split, "--no-cache"], check=True)
        fb.pack(pipeline[split], tmp_path / f"python_{split}")
        assert fb.open(tmp_path / split).attrs["forebay.pipeline"] == PIPELINE.strip() + f"\n# --set samples.windows.stride=2\n{note}"
        assert contents(tmp_path / f"python_{split}") == contents(tmp_path / split)
    fb.pack(pipeline.samples, tmp_path / "all")
    assert fb.open(tmp_path / "all").attrs["forebay.pipeline"].endswith("# all samples, of no split\n")


@needs_cli
def test_a_file_whose_split_is_not_named_is_not_packed(tmp_path):
    basins(tmp_path / "src", files=5)
    (tmp_path / "p.yaml").write_text(PIPELINE.replace(", split: train", ""))
    for more, match in (((), "which split? Name one ('train')"), (("--split", "val"), "there is no split 'val'")):
        done = subprocess.run([CLI, "pack", "--outputs", tmp_path / "p.yaml", "--to", tmp_path / "no", *more], capture_output=True, text=True)
        assert done.returncode == 2 and match in done.stderr and "try: --split with one of its splits" in done.stderr, done.stderr


@needs_cli
@pytest.mark.parametrize("outputs", [True, False])
def test_a_refusal_leads_to_a_memory_that_works(tmp_path, outputs):
    table = pa.table({f"c{i}": np.random.default_rng(i).standard_normal(400_000) for i in range(12)})
    with pa.OSFile(str(tmp_path / "big.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=200_000)
    (tmp_path / "big.yaml").write_text("data: {paths: big.arrow}\nsamples: rows\noutputs: {x: {columns: [c0, c1, c2, c3, c4, c5, c6, c7]}}\n")

    def packed(memory):
        what = ["--outputs", tmp_path / "big.yaml"] if outputs else [tmp_path / "big.arrow"]
        return subprocess.run(
            [CLI, "pack", *what, "--to", tmp_path / "out", "--no-cache", "--memory", memory, "--dry-run"], capture_output=True, text=True
        )

    refused = packed("16MiB")
    assert refused.returncode == 1 and "--batch" not in refused.stderr, refused.stderr
    done = packed(re.search(r"raise memory to (\d+) bytes", refused.stderr)[1])
    assert done.returncode == 0, (refused.stderr, done.stderr)


@needs_cli
def test_the_command_refuses_a_mixture(tmp_path):
    basins(tmp_path / "src", files=2)
    (tmp_path / "m.yaml").write_text("mix: {sources: {a: src/0.arrow, b: src/1.arrow}}\nsamples: rows\noutputs: {x: prcp}\n")
    done = subprocess.run([CLI, "pack", "--outputs", tmp_path / "m.yaml", "--to", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 2 and "m.yaml': mix: a mixture is not packed" in done.stderr and "mix the packs" in done.stderr, done.stderr
