"""forebay advise: figures that follow from each other, other machines, settings written to a copy."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CLI = os.environ.get("FOREBAY_CLI", str(Path(__file__).resolve().parents[2] / "build" / "forebay"))


def run(*args, ok=True):
    done = subprocess.run([CLI, "advise", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done


def advise(*args):
    return json.loads(run(*args, "--json", "--no-cache", "--seconds", "0.3").stdout)


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.parquet"
    columns = {f"c{i}": rng.standard_normal(40_000).astype("f4").round(2) for i in range(4)}
    pq.write_table(pa.table(columns), path, row_group_size=2_000, compression="brotli", compression_level=9, use_dictionary=False)
    return path


def test_figures_follow_from_each_other(table):
    got = advise(table)
    assert (got["command"], got["schema"], got["samples"]) == ("advise", 1, 40_000)
    assert got["storage"]["kind"] and got["storage"]["bytes_per_second"] > 0 and got["storage"]["bytes_read"] == table.stat().st_size
    sample = got["sample"]
    assert sample["delivered_bytes"] == 16 and 0 < sample["stored_bytes"] < 16
    once, ten, fifty = got["expected"]
    assert [e["times"] for e in got["expected"]] == [1, 10, 50]
    assert once["kept"] == 1 and once["storage"] is None and once["work"] is None  # all of it stays decoded
    assert once["samples_per_second"] > once["first_epoch_samples_per_second"] > 0
    assert fifty["epoch_seconds"] >= 4.9 * ten["epoch_seconds"] > 0
    assert got["settings"]["memory"] >= got["memory"]["keep_all_bytes"] >= got["memory"]["minimum_bytes"] / 2


def test_another_machine_is_worked_out(table):
    small = advise(table, "--memory", "1MiB", "--threads", 1)
    large = advise(table, "--memory", "64GiB", "--threads", 64, "--ranks", 2, "--work", "10ms")
    assert small["machine"]["memory_bytes"] == 1 << 20 and small["settings"]["memory"] <= 0.7 * (1 << 20) + (1 << 20)
    assert small["settings"]["threads"] == 1 and small["expected"][0]["kept"] < 1
    work = large["expected"][0]
    assert work["limit"] == "model" and work["samples_per_second"] == work["work"] == pytest.approx(1024 / 0.010, rel=0.05)
    assert work["epoch_seconds"] == pytest.approx(20_000 / work["work"])  # two ranks
    assert large["expected"][0]["cpu"] > small["expected"][0]["cpu"]


def test_bad_layouts_are_named(tmp_path, table):
    # a share of measured time: where other programs use the CPUs, one sample may be far off
    assert any("decompressing brotli" in note for _ in range(5) for note in advise(table)["notes"])
    text = tmp_path / "t.csv"
    text.write_text("a,b\n" + "1,2\n" * 5_000)
    assert any("the files are text" in note for note in advise(text)["notes"])
    tiny = tmp_path / "tiny.parquet"
    pq.write_table(pa.table({"a": np.arange(10_000)}), tiny, row_group_size=100)
    assert any("100 row groups" in note for note in advise(tiny)["notes"])


def test_the_page_has_storage_roofline_and_settings(table):
    out = run(table, "--seconds", "0.3", "--work", "5ms").stdout
    for text in ("storage", "roofline", "× 10", "superbatch + 2 blocks + 2 batches", "settings    memory: ", "a step takes 5 ms"):
        assert text in out, out


def test_settings_are_written_to_a_copy_beside_the_file_alone(tmp_path, table):
    pipeline = tmp_path / "p.yaml"
    text = "data: t.parquet\noutputs: {x: [c0, c1]}\nloader: {batch_size: 100, memory: 1GiB}\n"
    pipeline.write_text(text)
    run(pipeline, "--seconds", "0.2", "--threads", 3, "--write", tmp_path / "tuned.yaml")
    assert pipeline.read_text() == text
    written = (tmp_path / "tuned.yaml").read_text()
    assert "threads: 3" in written and "batch_size: 100" in written and "1GiB" not in written and "MiB" in written
    done = subprocess.run([CLI, "plan", str(tmp_path / "tuned.yaml"), "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["epoch"]["samples"] == 40_000
    assert "there already" in run(pipeline, "--seconds", "0.2", "--write", pipeline, ok=False).stderr
    assert pipeline.read_text() == text
    (tmp_path / "other").mkdir()
    assert "another folder" in run(pipeline, "--seconds", "0.2", "--write", tmp_path / "other" / "x.yaml", ok=False).stderr
    assert "of a pipeline file" in run(table, "--write", tmp_path / "x.yaml", ok=False).stderr


def test_what_cannot_be_read_is_an_error(tmp_path):
    assert "missing.parquet" in run(tmp_path / "missing.parquet", ok=False).stderr
