"""forebay bench: settings side by side, its page, and whether it is slower than it was."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CLI = os.environ.get("FOREBAY_CLI", str(Path(__file__).resolve().parents[2] / "build" / "forebay"))

pytestmark = pytest.mark.skipif(not Path(CLI).exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "t.parquet"
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({f"c{i}": rng.standard_normal(40_000).astype("f4") for i in range(8)}), path, row_group_size=2_000)
    return path


def bench(*args, code=0):
    done = subprocess.run([CLI, "bench", "--no-cache", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def measured(*args, code=0):
    return json.loads(bench(*args, "--json", code=code).stdout)


def page_json(path):
    (text,) = re.findall(r'<script id="report" type="application/json">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(text)


# ---- settings side by side ----


def test_every_combination_is_measured_beside_the_baseline(table):
    got = measured(table, "--shuffle", "none,superbatch", "--threads", "1,2", "--batches", 10, "--runs", 3, "--baseline", "threads=2,shuffle=superbatch")
    rows = got["comparison"]["rows"]
    assert [row["name"] for row in rows] == [f"shuffle={s} threads={t}" for s in ("none", "superbatch") for t in (1, 2)]
    assert [(row["options"]["shuffle"], row["options"]["threads"]) for row in rows] == [("none", 1), ("none", 2), ("superbatch", 1), ("superbatch", 2)]
    assert got["comparison"]["baseline"] == rows[3]["name"] and rows[3]["factor"] == 1
    for row in rows:
        assert len(row["runs"]) == 3 and min(row["runs"]) == row["lowest"] <= row["samples_per_second"] <= row["highest"] == max(row["runs"])
        assert sorted(row["runs"])[1] == row["samples_per_second"]
        assert row["factor"] == pytest.approx(row["samples_per_second"] / rows[3]["samples_per_second"], rel=1e-6)
        assert row["epoch_seconds"] == pytest.approx(40_000 / row["samples_per_second"], rel=1e-6)
        assert row["budget_peak_bytes"] > 0 and row["first_batch_seconds"] > 0 and row["cpu_seconds_per_million_samples"] > 0
    assert rows[0]["entropy_bits"] < rows[3]["entropy_bits"]  # file order mixes nothing
    assert got["report"]["samples"] == 10 * 1024


def test_the_table_has_a_line_for_each_setting(table):
    out = bench(table, "--memory", "16MiB,32MiB,64MiB", "--batches", 5, "--runs", 2).stdout
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines if line and re.fullmatch(r"\d+MiB", line[0])] == ["16MiB", "32MiB", "64MiB"]
    assert "memory" in out and "shuffle" not in out.splitlines()[2] and "Medians of 2 runs" in out


def test_one_run_has_no_spread(table):
    out = bench(table, "--threads", "1,2", "--batches", 5, "--runs", 1).stdout
    assert sum(line.split()[3:4] == ["-"] for line in out.splitlines()) == 2 and "%" not in out, out


def test_runs_of_one_setting_are_refused(table):
    assert "--runs is of several settings" in bench(table, "--runs", 3, "--batches", 5, code=2).stderr


def test_arrays_may_be_called_as_the_matrix_is(tmp_path):
    path = tmp_path / "x.parquet"
    rows = {"a": np.arange(300.0), "x": [[1.0, 2.0]] * 300, "x2": [[1.0]] * 300, "x3": np.arange(300)}
    pq.write_table(pa.table(rows), path)
    assert [o["name"] for o in measured(path, "--batches", 2)["outputs"]] == ["x3", "x", "x2"]
    done = subprocess.run([CLI, "plan", "--no-cache", path, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [o["name"] for o in json.loads(done.stdout)["outputs"]] == ["x3", "x", "x2"]


def test_one_value_is_no_comparison(table):
    assert "samples_per_second" in measured(table, "--shuffle", "none", "--memory", "64MiB", "--batches", 3)


@pytest.mark.parametrize(
    "args, message",
    [
        (["--shuffle", "none,well"], "--shuffle does not take 'well'"),
        (["--memory", "1GiB,lots"], "--memory does not take 'lots'"),
        (["--memory", ","], "--memory does not take ','"),
        (["--shuffle", "none,full", "--baseline", "shuffle=block"], "names none of the settings: shuffle=none; shuffle=full"),
        (["--baseline", "shuffle=none"], "--baseline is of several settings"),
        (["--shuffle", "none,full", "--save", "x.json"], "take one setting, and there are 2"),
        (["--superbatch", "2blocks,many"], "--superbatch does not take 'many'"),
        (["--margin", "120%"], "--margin does not take '120%'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(table, args, message):
    done = bench(table, *args, code=2)
    assert message in done.stderr and done.stdout == ""


def test_a_setting_that_cannot_be_is_named(table):
    done = bench(table, "--memory", "64MiB,64KiB", "--runs", 1, "--batches", 1, code=1)
    assert "that was with memory=64KiB" in done.stderr and done.stdout == ""


# ---- the page ----


def test_the_page_of_a_measurement_has_its_batch_times(table, tmp_path):
    bench(table, "--batches", 30, "--html", tmp_path / "bench.html")
    report = page_json(tmp_path / "bench.html")
    assert report["samples"] == 30 * 1024 and sum(n for _, n in report["batch_times"]) == 29
    assert report["batch_times"] == sorted(report["batch_times"])


def test_the_page_of_settings_compares_them_also_from_json(table, tmp_path):
    args = [table, "--shuffle", "none,block", "--batches", 5, "--runs", 2]
    got = measured(*args, "--html", tmp_path / "bench.html")
    page = page_json(tmp_path / "bench.html")
    assert set(page) == {*got["report"], "comparison"}
    assert [row["name"] for row in page["comparison"]["rows"]] == ["shuffle=none", "shuffle=block"]
    (tmp_path / "bench.json").write_text(json.dumps(got))
    subprocess.run([CLI, "report", tmp_path / "bench.json", "--html", tmp_path / "again.html"], check=True)
    assert page_json(tmp_path / "again.html")["comparison"]["baseline"] == "shuffle=none"


def test_a_page_that_cannot_be_written_is_an_error(table, tmp_path):
    assert "cannot write" in bench(table, "--batches", 3, "--html", tmp_path / "none" / "x.html", code=1).stderr


# ---- is it slower than it was? ----

SHORT = ["--batch-size", "256", "--seconds", "0.05", "--runs", "4"]
TINY = ["--batch-size", "256", "--seconds", "0.01"]


@pytest.fixture(scope="module")
def saved_base(table, tmp_path_factory):
    base = tmp_path_factory.mktemp("base") / "base.json"
    bench(table, *SHORT, "--save", base, "--margin", "90%")
    return base


def test_what_was_saved_holds_against_itself_and_a_hundredth_of_its_pace_does_not(table, saved_base, tmp_path):
    base = tmp_path / "base.json"
    base.write_text(saved_base.read_text())
    saved = json.loads(base.read_text())
    assert 5 <= len(saved["saved"]["ratios"]) < 40 and saved["samples_per_second"] > 0 and saved["saved"]["reference_per_second"] > 0
    got = measured(table, *SHORT, "--against", base, "--margin", "90%")
    assert got["against"]["slower"] is False
    assert all(got["against"][m]["low"] <= got["against"][m]["ratio"] <= got["against"][m]["high"] for m in ("wall", "cpu"))
    longer_step = measured(table, *TINY, "--runs", 1, "--warmup", 1, "--work", "5ms", "--against", base, "--margin", "50%", code=1)
    assert longer_step["against"]["wall"]["high"] < 0.5
    for measure in ("ratios", "cpu_ratios"):  # it was 100 times as fast, or took a hundredth of the CPU
        faster = [100 * ratio for ratio in saved["saved"][measure]]
        base.write_text(json.dumps({**saved, "saved": {**saved["saved"], measure: faster}}))
        done = bench(table, *SHORT, "--against", base, "--margin", "50%", code=1)
        assert done.stdout.count("slower:") == 1 and done.stderr == ""
    assert measured(table, *SHORT, "--against", base, code=1)["against"]["slower"] is True


def runs_of(base):
    return len(json.loads(base.read_text())["saved"]["ratios"])


def test_a_base_is_measured_until_its_margin_can_be_told(table, saved_base, tmp_path):
    base, narrow = tmp_path / "base.json", ["--margin", "0.0001%"]
    done = bench(table, *TINY, "--runs", 1, "--save", base, *narrow)
    assert runs_of(base) == 10 and "vague:" in done.stdout  # ten times as many, and no more
    bench(table, *SHORT, "--save", base, "--against", saved_base, "--margin", "99%")
    assert runs_of(base) < 40
    bench(table, *TINY, "--runs", 1, "--save", base, "--margin", "90%")
    assert 5 <= runs_of(base) <= 10  # one run has no spread, and says nothing of it
    bench(table, *TINY, "--runs", 2, "--save", base, "--against", base, "--margin", "99.999%")
    assert runs_of(base) >= 5  # of the base that it saves, too


def middle(values):
    """The mean of the middle half."""
    values = sorted(values)
    return np.mean(values[len(values) // 4 : len(values) - len(values) // 4])


def test_means_of_the_middle_half_are_compared_and_what_is_open_is_said(table, saved_base, tmp_path):
    base, saved = tmp_path / "base.json", json.loads(saved_base.read_text())
    now = measured(table, *SHORT, "--against", saved_base, "--margin", "99%")
    assert now["against"]["undecided"] is False
    for measure, ratios in (("wall", "ratios"), ("cpu", "cpu_ratios")):
        assert now["against"][measure]["ratio"] == pytest.approx(middle(now["saved"][ratios]) / middle(saved["saved"][ratios]), rel=1e-6)
    pace = now["saved"]["ratios"][0]
    open_one = {"ratios": [pace / 100] * 4 + [100 * pace] * 4, "cpu_ratios": [1e-3 * ratio for ratio in saved["saved"]["cpu_ratios"]]}
    base.write_text(json.dumps({**saved, "saved": {**saved["saved"], **open_one}}))
    done = bench(table, *TINY, "--runs", 1, "--against", base, "--margin", "50%").stdout
    assert done.count("undecided:") == 1 and done.count("holds:") == 1 and "median of 10 runs" in done
    assert measured(table, *TINY, "--runs", 1, "--against", base, "--margin", "50%")["against"]["undecided"] is True


def test_interrupted_comparison_keeps_whole_runs(table, tmp_path):
    base = tmp_path / "base.json"
    words = [CLI, "bench", "--no-cache", table, "--seconds", "0.2", "--runs", "1", "--save", base, "--margin", "0.0001%"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and err == "" and "samples/s" in out
    assert 1 <= runs_of(base) < 10


@pytest.mark.parametrize(
    "args, message",
    [(["--batch-size", "128"], "batch_size was 256 in"), (["--shuffle", "none"], 'shuffle was "superbatch" in'), (["--columns", "c0"], "outputs of")],
)
def test_other_work_is_not_compared(table, saved_base, args, message):
    assert message in bench(table, *SHORT, *args, "--against", saved_base, code=1).stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"saved": {"schema": 1, "ratios": []}}', '{"saved": {"schema": 1, "ratios": [0]}}',
                                  '{"saved": {"schema": 1, "ratios": ["x"]}}', '{"saved": {"schema": 1, "ratios": [1.0]}}',
                                  '{"saved": {"schema": 99, "ratios": [1.0], "cpu_ratios": [1.0]}}'])  # fmt: skip
def test_a_base_that_is_none_is_refused(table, tmp_path, text):
    (tmp_path / "base.json").write_text(text)
    done = bench(table, "--against", tmp_path / "base.json", code=1)
    assert "base.json" in done.stderr and "try:" in done.stderr and done.stdout == ""


def test_a_base_that_is_missing_is_named(table, tmp_path):
    assert "cannot read" in bench(table, "--against", tmp_path / "none.json", code=1).stderr
