"""forebay bench: one run, of data and of pipeline files."""

import json
import re
import signal
import subprocess
import time

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import CLI, run, run_json

pytestmark = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


def test_bench_delivers_one_epoch_by_default(basins, env):
    got = run_json(["bench", basins, "--batch-size", 300, "--threads", 2, "--memory", "64MiB"], env)
    assert (got["samples"], got["epochs"], got["batches"]) == (4000, 1, 14)
    assert got["outputs"] == [{"name": "x", "dtype": "float32", "layout": "dense", "shape": [300, 2]}]
    assert got["left_out_columns"] == 2
    report = got["report"]
    assert report["bytes_delivered"] == 4000 * 2 * 4 and report["schema"] == 1 and report["epochs"][0]["samples"] == 4000
    assert report["budget_bytes"] == 64 << 20 and report["budget_peak_bytes"] <= 64 << 20
    assert got["samples_per_second"] == pytest.approx(got["samples"] / got["seconds"], rel=1e-3)
    assert got["batch_seconds"]["p50"] <= got["batch_seconds"]["p95"] <= got["batch_seconds"]["max"]
    assert got["options"]["threads"] == 2 and report["verdict"]


def test_benchs_report_has_the_keys_of_pythons(basins, env):
    fb = pytest.importorskip("forebay")
    with fb.open(str(basins)).loader(["a"], batch_size=300, framework="numpy") as loader:
        for _ in loader:
            pass
        expected = json.loads(loader.report().to_json())
    got = run_json(["bench", basins], env)["report"]
    assert set(got) == set(expected) and set(got["epochs"][0]) == set(expected["epochs"][0])
    assert {name: type(value) for name, value in got.items()} == {name: type(value) for name, value in expected.items()}
    assert fb.Report.from_dict(got).samples == 4000


@pytest.mark.parametrize("command", ["bench", "advise"])
def test_the_help_names_every_key_of_the_json(command, basins, env):
    said = run([command, "--help"], env).stdout
    assert [key for key in run_json([command, basins], env) if not re.search(rf"\b{key}\b", said)] == []


def test_bench_counts_epochs_and_leaves_the_warm_up_out(basins, env):
    got = run_json(["bench", basins, "--epochs", 3, "--warmup", 2, "--shuffle", "none", "--dtype", "float64"], env)
    assert (got["samples"], got["epochs"]) == (12000, 3)
    assert got["outputs"][0]["dtype"] == "float64"


def test_bench_names_columns_of_other_types(basins, env):
    got = run_json(["bench", basins, "--columns", "b,name,t"], env)
    assert [o["name"] for o in got["outputs"]] == ["x", "name"]
    got = run_json(["bench", basins, "--separate", "--columns", "b,name"], env)
    assert [(o["name"], o["dtype"]) for o in got["outputs"]] == [("b", "int64"), ("name", "uint8")]


def test_bench_without_numbers_takes_what_there_is(tmp_path, env):
    pq.write_table(pa.table({"name": ["a", "bc"] * 50}), tmp_path / "x.parquet")
    assert [o["name"] for o in run_json(["bench", tmp_path / "x.parquet"], env)["outputs"]] == ["name"]


@pytest.mark.parametrize("superbatch, samples", [("2000", 2000), ("2blocks", 2000)])
def test_bench_takes_superbatches_as_samples_and_blocks(basins, env, superbatch, samples):
    got = run_json(["bench", basins, "--superbatch", superbatch], env)
    assert got["options"]["superbatch_samples"] == samples


def test_bench_stops_after_seconds(basins, env):
    started = time.monotonic()
    got = run_json(["bench", basins, "--seconds", "0.5", "--work", "2ms"], env)
    assert 0.4 < got["seconds"] < 5 and time.monotonic() - started < 20
    assert got["report"]["work_ns"] > 50_000_000 and len(got["report"]["epochs"]) >= got["epochs"]
    assert got["epochs"] > 1


def test_a_budget_is_a_share_of_what_is_free_or_all_of_the_data(basins, env):
    share, half = (run_json(["plan", basins, "--no-batch", "--memory", memory], env)["budget"]["bytes"] for memory in ("10%", "5%"))
    assert 1.6 * half < share < 2.4 * half
    everything = run_json(["plan", basins, "--no-batch", "--memory", "all"], env)["budget"]
    assert everything["minimum_bytes"] <= everything["bytes"] < 1 << 30
    report = run_json(["bench", basins, "--memory", "all"], env)["report"]
    assert report["budget_peak_bytes"] <= report["budget_bytes"] < 1 << 30
    assert run(["bench", basins, "--memory", "170%"], env).returncode == 2


def test_bench_refuses_a_budget_that_is_too_small_with_the_one_that_would_do(basins, env):
    result = run(["bench", basins, "--memory", "64KiB"], env)
    assert result.returncode == 1
    assert "budget" in result.stderr and "try:" in result.stderr
    assert result.stdout == ""


def test_bench_as_text_shows_rate_stages_and_verdict(basins, env):
    result = run(["bench", basins], env)
    assert result.returncode == 0 and result.stderr == ""
    for word in ["samples/s", "first batch after", "p50", "CPU", "peak RSS", "read", "decompress", "decode", "assemble", "waits"]:
        assert word in result.stdout, word
    assert "2 columns are no numbers and left out" in result.stdout


def test_bench_reads_again_what_cold_dropped(basins, env):
    got = run_json(["bench", basins, "--cold"], env)
    assert got["samples"] == 4000 and got["options"]["cold"] is True


def test_interrupted_bench_prints_what_it_has_and_exits_130(basins, env):
    process = subprocess.Popen([CLI, "bench", basins, "--seconds", "50", "--work", "1ms"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "(interrupted)" in out and err == ""


def test_bench_measures_a_mixture(mixture, env):
    mixture.write_text(mixture.read_text().replace("splits: {train: 0.75, test: 0.25}\n", ""))
    got = run_json(["bench", mixture, "--batches", "30"], env)
    assert got["dataset"]["rows"] == 4000 and len(got["dataset"]["fingerprint"].split(",")) == 2
    many, one = got["report"]["sources"]
    assert (many["name"], one["name"]) == ("many", "one") and many["samples"] + one["samples"] == got["report"]["samples"]
    assert abs(3 * many["samples"] - one["samples"]) < 20
    result = run(["bench", mixture, "--set", "mix.weights.one=-1"], env)
    assert result.returncode != 0 and "mix: weights: a number from 0 on is expected" in result.stderr


def test_bench_measures_the_outputs_of_a_pipeline(pipeline, env):
    got = run_json(["bench", pipeline, "--epochs", 2], env)
    assert (got["pipeline"], got["split"], got["samples"], got["batches"], got["epochs"]) == (str(pipeline), "train", 6000, 20, 2)
    assert [(o["name"], o["dtype"], o["layout"], o["shape"]) for o in got["outputs"]] == [
        ("x", "float32", "dense", [300, 2]), ("name", "uint8", "text", [-1]), ("n", "int64", "dense", [300]),
    ]  # fmt: skip
    offsets = 2 * 10 * 301 * 8  # of the names, which are one byte each
    assert got["report"]["bytes_delivered"] == 6000 * (2 * 4 + 1 + 8) + offsets
    assert got["report"]["budget_bytes"] == 64 << 20 and got["options"]["seed"] == 3 and got["options"]["dtype"] is None
    assert got["left_out_columns"] == 0
    got = run_json(["bench", pipeline, "--split", "test", "--set", "outputs.n=a", "-b", 64, "--seed", 0, "--shuffle", "none", "--superbatch", "2blocks",
                    "--memory", "32MiB"], env)  # fmt: skip
    assert (got["split"], got["samples"], got["batches"]) == ("test", 1000, 16)
    assert got["options"]["batch_size"] == 64 and got["options"]["seed"] == 0 and got["options"]["shuffle"] == "none"
    assert got["outputs"][2]["dtype"] == "float64" and got["report"]["budget_bytes"] == 32 << 20
    out = run(["bench", pipeline], env).stdout
    assert "train: 3,000 in 10 batches an epoch" in out and "x float32(300, 2), name text(?), n int64(300)" in out
    assert re.search(r"^  transform +0 ", out, re.M), out


def test_bench_says_what_does_not_fit_a_pipeline(pipeline, basins, env):
    for args, code, message in [
        ([pipeline, "--columns", "a"], 2, "the outputs of a pipeline file are its own"),
        ([pipeline, "--dtype", "float64"], 2, "--dtype are of paths"),
        ([pipeline, "--split", "dev"], 2, "no split 'dev': there are train, test"),
        ([pipeline, "--set", "loader.batch_size=x"], 2, "a value in place of the file's: loader: batch_size"),
        ([pipeline, "--set", "outputs.n=nam"], 1, "p.yaml:7:3: output 'n': no column 'nam'"),
        ([pipeline, "--memory", "64KiB"], 1, "budget"),
        ([basins, "--split", "train"], 2, "--split and --set are of a pipeline file"),
    ]:
        result = run(["bench", *args], env)
        assert result.returncode == code and message in result.stderr and result.stdout == "", result.stderr


def test_bench_loads_every_numeric_column_of_any_rank(arrays, env):
    result = run_json(["bench", arrays, "--batch-size", "10"], env)
    outputs = {o["name"]: (o["dtype"], o["layout"], o["shape"]) for o in result["outputs"]}
    assert outputs == {"x": ("float32", "dense", [10, 2]), "mel": ("float32", "dense", [10, 3, 2]), "mask": ("bool", "dense", [10, 3])}
    assert result["left_out_columns"] == 1
    lists = arrays.parent / "lists.parquet"
    pq.write_table(pa.table({"pulses": pa.array([[1.0] * (i % 3) for i in range(50)], pa.list_(pa.float32()))}), lists)
    assert [(o["name"], o["layout"]) for o in run_json(["bench", lists], env)["outputs"]] == [("pulses", "packed")]
    large = arrays.parent / "large.h5"
    with h5py.File(large, "w") as f:
        f["a"] = np.zeros((20, 1000, 200))
    assert run_json(["bench", large], env)["options"]["batch_size"] == 128  # of the 1,024 what takes 256 MiB
