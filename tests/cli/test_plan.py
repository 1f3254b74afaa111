"""forebay plan, and pipeline files as the other commands take them."""

import gzip
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import CLI, run, run_json

pytestmark = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


def test_plan_says_what_a_pipeline_gives(pipeline, env):
    got = run_json(["plan", pipeline], env)
    assert (got["command"], got["split"], got["data"]["files"], got["data"]["rows"]) == ("plan", "train", 4, 4000)
    assert got["samples"] == {"kind": "rows", "count": 4000, "max_rows": 1, "splits": {"train": 3000, "test": 1000}}
    assert got["epoch"] == {"samples": 3000, "batches": 10, "batch_size": 300}
    assert got["order"]["seed"] == 3 and got["order"]["shuffle"] == "superbatch"
    assert got["budget"]["bytes"] == 64 << 20 and 0 < got["budget"]["minimum_bytes"] <= 64 << 20
    assert [(o["name"], o["dtype"], o["layout"], o["shape"]) for o in got["outputs"]] == [
        ("x", "float32", "dense", [300, 2]), ("name", "uint8", "text", [-1]), ("n", "int64", "dense", [300]),
    ]  # fmt: skip
    assert got["outputs"][0]["bytes"] == 300 * 2 * 4
    x = got["first_batch"][0]
    assert (x["output"], x["role"], x["missing"]) == ("x", "values", 0.0)
    assert abs(x["mean"]) < 0.5 and x["min"] < -1 < 1 < x["max"]


def test_plan_shows_each_source_of_a_mixture(mixture, env):
    mixture.write_text(mixture.read_text().replace("splits: {train: 0.75, test: 0.25}", "splits: {train: 0.75, test: 0.25, by: samples}"))
    got = run_json(["plan", mixture], env)
    assert (got["split"], got["data"]["files"], got["data"]["rows"]) == ("train", 4, 4000) and "samples" not in got
    assert got["epoch"] == {"samples": 1000, "batches": 10, "batch_size": 100}
    many, one = got["sources"]
    assert {k: many[k] for k in ("name", "files", "rows", "samples", "left", "passes")} == {
        "name": "many", "files": 3, "rows": 3000, "samples": 250, "left": 2000, "passes": 1,
    }  # fmt: skip
    assert (one["samples"], one["left"], one["passes"], one["files_per_batch"]) == (750, 0, 1, 1)
    assert 20 < many["samples_per_batch"] < 30 and 2 < many["files_per_batch"] <= 3
    out = run(["plan", mixture], env).stdout
    assert re.search(r"^  source +files +rows +samples +share", out, re.M), out
    assert re.search(r"^  many +3 +3,000 +250 +25\.0 % +2,000 +1 ", out, re.M), out
    for command in (["advise", mixture], ["bench", mixture, "--compare", "--seconds", "1"]):
        result = run(command, env)
        assert result.returncode == 2 and "describes a mixture" in result.stderr, result.stderr
    result = run(["inspect", mixture], env)
    assert result.returncode == 2 and "m.yaml: the file describes a mixture: each of its sources has data of its own" in result.stderr


def test_sources_may_have_their_outputs_in_any_order(tmp_path, env):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("k,v\n1,2\n3,4\n")
    path = tmp_path / "mixed.yaml"
    path.write_text("mix: {sources: {a: {data: a.csv, outputs: {x: k, y: v}}, b: {data: b.csv, outputs: {y: v, x: k}}}}\nloader: {batch_size: 2}\n")
    assert run(["plan", path], env).returncode == 0
    path.write_text(path.read_text().replace("y: v, x", "z: v, x"))
    wrong = run(["plan", path], env)
    assert wrong.returncode != 0 and "output 'z'" in wrong.stderr, wrong.stderr


def test_options_of_data_files_are_refused_beside_a_pipeline_file(mixture, env):
    for option in (["--dtype", "uid=str"], ["--table", "x"], ["--axes", "2"], ["--stored-values"], ["--missing-columns", "fill"]):
        wrong = run(["plan", mixture, *option], env)
        assert wrong.returncode == 2 and f"{option[0]} is for data files" in wrong.stderr, wrong.stderr


def test_plan_without_a_cache_leaves_the_files_own_alone(pipeline, env):
    text = pipeline.read_text()
    pipeline.write_text(text.replace("data: b*.parquet", "data: {paths: b*.parquet, cache_dir: kept}"))
    for path in pipeline.parent.glob("b*.parquet"):
        os.utime(path, (1.6e9, 1.6e9))
    without = run_json(["plan", pipeline, "--no-cache"], env)
    assert not (pipeline.parent / "kept").exists()
    fresh = run_json(["plan", pipeline], env)
    assert list((pipeline.parent / "kept").glob("*.fbyindex"))
    known = run_json(["plan", pipeline], env)
    assert without["budget"]["minimum_bytes"] == fresh["budget"]["minimum_bytes"] == known["budget"]["minimum_bytes"]


def test_plan_prints_tables_and_takes_other_values(pipeline, env):
    out = run(["plan", pipeline, "--split", "test", "--set", "loader.batch_size=64", "--set", "outputs.x.columns=[b, a]"], env).stdout
    assert "4 files, 4,000 rows" in out and "4,000 rows: train 3,000, test 1,000" in out
    assert "test: 1,000 samples in 16 batches of 64" in out
    assert re.search(r"^  x +float32 +dense +\(64, 2\) +512 B$", out, re.M), out
    assert re.search(r"^  name +uint8 +text +\(ΣL,\) +", out, re.M), out
    assert re.search(r"^  name +offsets +\(65,\) +0 +32 +64$", out, re.M), out
    assert "first batch" not in run(["plan", pipeline, "--no-batch"], env).stdout


def test_plan_shows_the_steps_of_windows_and_what_covers_the_target(basins, env):
    pipeline = basins / "w.yaml"
    pipeline.write_text(
        "data: b*.parquet\nsamples: {windows: {input: 7, output: 3}}\noutputs:\n  x: {columns: [a, b], dtype: float32}\n  past: {columns: a, steps: [0, 7]}\n"
        "  y: {columns: b, steps: [7, 10]}\n  last: {columns: a, at: 9}\n  i: {from: sample_index}\nloader: {batch_size: 4}\n"
    )
    got = run_json(["plan", pipeline], env)
    assert {o["name"]: o.get("steps") for o in got["outputs"]} == {"x": [0, 10], "past": [0, 7], "y": [7, 10], "last": [9, 10], "i": None}
    untimed, *covered = got["notes"]
    assert untimed.startswith("windows do not look at 't': ") and len(covered) == 2
    assert run_json(["plan", pipeline, "--set", "samples.windows.time=t"], env)["notes"] == covered
    assert covered[0].startswith("output 'x' takes all 10 steps of a window, and with them those of 'b' that output 'y' asks for, steps 7 to 9 of 10: ")
    assert "steps: [0, 7]" in covered[0] and "output 'last' asks for, step 9 of 10" in covered[1]
    out = run(["plan", pipeline], env).stdout
    assert re.search(r"^  past +float64 +dense +\(4, 7\) +0 to 6 of 10 +224 B$", out, re.M), out
    assert re.search(r"^  last +float64 +dense +\(4,\) +9 of 10 +32 B$", out, re.M), out
    assert untimed in out and covered[0] in out
    plain = run(["plan", pipeline, "--set", "outputs.x.steps=[0, 10]"], env).stdout
    assert "takes all" not in plain and run_json(["plan", basins / "b0.parquet"], env)["notes"] == []


def test_plan_has_the_notes_of_a_mixtures_sources(basins, env):
    def source(windows):
        return f"{{data: b*.parquet, samples: {{windows: {windows}}}, outputs: {{x: a}}}}"

    pipeline = basins / "m.yaml"
    sources = f"{{west: {source('{input: 7}')}, east: {source('{input: 7}')}, south: {source('{input: 7, time: t}')}}}"
    pipeline.write_text(f"mix: {{sources: {sources}}}\nloader: {{batch_size: 4}}\n")
    notes = run_json(["plan", pipeline], env)["notes"]
    assert [note.split("': ")[0] for note in notes] == ["source 'west", "source 'east"]
    assert all("': windows do not look at 't': " in note for note in notes)
    assert f"\n  note: {notes[0]}\n  note: {notes[1]}\n" in run(["plan", pipeline], env).stdout


def test_plan_names_an_optional_output_that_is_left_out(basins, env):
    pq.write_table(pa.table({"a": [1.0, 2.0]}), basins / "b9.parquet")
    pipeline = basins / "o.yaml"
    pipeline.write_text(
        "data: b*.parquet\noutputs:\n  x: a\n  y: {columns: b, optional: true}\n  labels: {columns: nowhere, optional: true}\nloader: {batch_size: 4}\n"
    )
    got = run_json(["plan", pipeline], env)
    assert [o["name"] for o in got["outputs"]] == ["x"]
    said = f"output 'y' is optional, and left out of all batches: column 'b' is missing in 1 of 5 files, such as '{basins}/b9.parquet'"
    assert len(got["notes"]) == 2 and got["notes"][0].startswith(said) and "'labels' is optional, and left out" in got["notes"][1]
    assert f"note: {said}" in run(["plan", pipeline], env).stdout


@pytest.mark.parametrize("buckets", ["", ", bucket_samples: 40"])
def test_plan_says_how_much_is_padding(basins, env, buckets):
    lengths = np.tile([2, 2, 2, 12], 40)
    pq.write_table(pa.table({"k": np.repeat(np.arange(160), lengths), "v": np.arange(lengths.sum())}), basins / "g.parquet")
    pipeline = basins / "g.yaml"
    pipeline.write_text(
        f"data: g.parquet\nsamples: {{groups: k}}\noutputs: {{v: {{columns: v, padded: {{max_rows: 4}}}}}}\nloader: {{batch_size: 160, seed: 3{buckets}}}\n"
    )
    true = 1 - np.minimum(lengths, 4).mean() / 4  # a batch is all groups
    assert run_json(["plan", pipeline], env)["padding"] == pytest.approx(true, abs=1e-6)
    out = run(["plan", pipeline], env).stdout
    assert re.search(rf"^  padding     {100 * true:.1f} % of the rows of padded outputs$", out, re.M), out
    ragged = ["plan", pipeline, "--set", "outputs.v={columns: v}"]
    assert run_json(ragged, env)["padding"] is None and "  padding  " not in run(ragged, env).stdout


def test_plan_names_the_place_of_what_is_wrong(pipeline, env):
    text = pipeline.read_text()
    for old, new, code, message in [
        ("columns: b,", "colums: b,", 2, "p.yaml:7:7: output 'n': unknown key 'colums': did you mean 'columns'?"),
        ("name: name", "name: nam", 1, "p.yaml:6:3: output 'name'"),
        ("b*.parquet", "c*.parquet", 1, "p.yaml:1:7: data: "),
        ("batch_size: 300, ", "", 2, "p.yaml:8:9: loader: batch_size is missing"),
        ("memory: 64MiB", "memory: 1KiB", 1, "budget"),
        ("loader: {", "loader: [", 1, "no valid YAML"),
    ]:
        pipeline.write_text(text.replace(old, new, 1))
        result = run(["plan", pipeline], env)
        assert result.returncode == code, (old, result.stderr)
        assert message in result.stderr and result.stdout == "", result.stderr
    pipeline.write_text(text)
    assert "no split 'dev': there are train, test" in run(["plan", pipeline, "--split", "dev"], env).stderr
    assert "a value in place of the file's: loader: batch_size" in run(["plan", pipeline, "--set", "loader.batch_size=x"], env).stderr


def test_other_commands_take_the_data_of_a_pipeline(pipeline, env):
    assert run_json(["inspect", pipeline], env)["rows"] == 4000
    assert run_json(["head", pipeline, "-n", 2], env)["rows"][1]["a"] == 1.0
    pipeline.write_text("data: {path: x}\n")
    assert "did you mean 'paths'?" in run(["inspect", pipeline], env).stderr


def test_plan_takes_data(arrays, env):
    plan = run_json(["plan", arrays, "--batch-size", "10"], env)
    assert plan["pipeline"] is None and plan["split"] is None
    assert plan["samples"] == {"kind": "rows", "count": 50, "max_rows": 1, "splits": {}} and plan["epoch"] == {"samples": 50, "batches": 5, "batch_size": 10}
    assert {o["name"]: o["shape"] for o in plan["outputs"]} == {"x": [10, 2], "mel": [10, 3, 2], "mask": [10, 3]}
    assert [t["max"] for t in plan["first_batch"] if t["output"] == "mel"] == [6.0]
    text = run(["plan", arrays, "--columns", "mel"], env)
    assert text.returncode == 0 and "mel" in text.stdout and "mask" not in text.stdout


@pytest.mark.parametrize(
    "content, message, next_step",
    [
        (b"PAR1\0\0", "p.yaml: byte 4: control characters are not allowed: this is no YAML, which is text", "docs/pipelines.md shows a pipeline file"),
        (b"a: [1, {\n", "no valid YAML", "mend or restore the file"),
        (b"hello\n", "a map of options is expected, not the text 'hello'", "docs/pipelines.md, which has every key"),
        (b"", "the file is empty", "mend or restore the file"),
        (b"data: {paths: train.h5}\noutputs: {x: {columns: [label]}}\nloader: {batch_size: 10, memory: 1}\n", "memory budget", "--set loader.memory=…"),
        (b"data: {paths: train.h5}\noutputs: {x: {columns: [name], dtype: float32}}\nloader: {batch_size: 10}\n", "output 'x': strings",
         "docs/pipelines.md, which has every key"),
    ],
)  # fmt: skip
def test_plan_says_what_is_wrong_of_a_pipeline_file(arrays, env, content, message, next_step):
    (arrays.parent / "p.yaml").write_bytes(content)
    result = run(["plan", arrays.parent / "p.yaml"], env)
    assert result.returncode in (1, 2) and result.stdout == ""
    assert message in result.stderr and next_step in result.stderr.split("  try: ")[1], result.stderr
    assert run(["plan", "--help"], env).stdout.count(re.search(r"--[a-z-]+|$", result.stderr.split("  try: ")[1])[0]) >= 1


@pytest.mark.parametrize("command", ["plan", "bench", "inspect"])
def test_a_pipeline_file_of_another_name_is_told_its_ending(arrays, env, command):
    for first in "", "# mel, label\n":
        for name in "p.conf", "p.yaml":
            (arrays.parent / name).write_text(first + "data: {paths: train.h5}\noutputs: {x: {columns: [label]}}\nloader: {batch_size: 10}\n")
        result = run([command, arrays.parent / "p.conf"], env)
        assert result.returncode == 1 and "p.conf' is no Parquet" in result.stderr
        assert "\n  try: a name that ends in .yaml or .yml if it is a pipeline file" in result.stderr and "restore" not in result.stderr
        assert run([command, arrays.parent / "p.yaml"], env).returncode == 0


@pytest.mark.parametrize(
    "data, more, message, wrong",
    [
        ("tagged", "", "tags (!…) are not used here", "column"),  # of YAML: there is no column to leave out
        ("rows.csv.gz", "", "UTF-16", "column"),
        ("broken.parquet", "", "broken.parquet", "at the place"),  # the pipeline file is as it should be
        ("rows.csv", "loader: {batch_size: 2, split: no}", "there is no split 'no'", "the key that is named"),
        ("rows.csv", "lookups: {t: {paths: side.csv, key: id}}\noutputs: {x: {lookup: t, on: id}}\nloader: {batch_size: 3}", "a default would stand in",
         "float64"),
    ],
)  # fmt: skip
def test_no_try_contradicts_the_cure_in_the_message(tmp_path, env, data, more, message, wrong):
    (tmp_path / "rows.csv").write_text("id,v\n1,2\n3,4\n")
    (tmp_path / "side.csv").write_text("id,w\n1,2\n")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress("id,v\n1,2\n".encode("utf-16")))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(60) + b"PAR1")
    (tmp_path / "p.yaml").write_text(f"data: {{paths: {'!x a' if data == 'tagged' else data}}}\n{more or 'loader: {batch_size: 2}'}\n")
    result = run(["bench", tmp_path / "p.yaml", "--batches", 1], env)
    assert result.returncode in (1, 2) and message in result.stderr, result.stderr
    assert not any(wrong in advice for advice in re.findall(r"^  try: (.*)", result.stderr, re.MULTILINE)), result.stderr


def test_options_of_data_and_of_pipeline_files_are_told_apart(arrays, env):
    result = run(["plan", arrays, "--set", "loader.batch_size=2"], env)
    assert result.returncode == 2 and "are of a pipeline file, whose name ends in .yaml" in result.stderr
    (arrays.parent / "p.yaml").write_text("data: {paths: train.h5}\nloader: {batch_size: 10}\n")
    result = run(["plan", arrays.parent / "p.yaml", "--batch-size", "2"], env)
    assert result.returncode == 2 and "--set loader.batch_size=64" in result.stderr
