"""forebay advise: figures that follow from each other, other machines, settings written to a copy."""

import json
import os
import resource
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
    assert got["storage"]["kind"] and got["storage"]["bytes_read"] == table.stat().st_size
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
    assert small["machine"]["memory_bytes"] == 1 << 20 and small["expected"][0]["memory"] <= 0.7 * (1 << 20)
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
    assert any("the files are text" in note and f"forebay pack '{text}' --to packed" in note for note in advise(text)["notes"])
    (tmp_path / "u.csv").write_text("a,b\n" + "1,2\n" * 10)
    assert any(f"forebay pack '{text}' '{tmp_path}/u.csv' --to packed" in note for note in advise(text, tmp_path / "u.csv")["notes"])
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


def test_what_cannot_be_read_is_an_error(tmp_path, table):
    assert "missing.parquet" in run(tmp_path / "missing.parquet", ok=False).stderr
    for wrong, said in (("--columns", "no column matches --columns"), ("--superbatch", "--superbatch does not take 'nothing'")):
        assert run(table, wrong, "nothing", ok=False).stderr.startswith(f"forebay: error: {said}")


def test_a_budget_is_at_most_70_percent_and_one_that_loaders_refuse_is_marked(tmp_path, table):
    for memory in ("3MiB", "10MiB", "33MiB", "64GiB"):
        got = advise(table, "--memory", memory, "--threads", 1)
        settings, least = got["settings"], got["memory"]["minimum_bytes"]
        most = 0.7 * got["machine"]["memory_bytes"]
        assert settings["memory"] is None or settings["memory"] <= most
        assert settings["fits"] == (settings["memory"] is not None)
        assert settings["fits"] or most < least
    assert settings["fits"] and settings["superbatch"] is None
    got = advise(table, "--memory", "1MiB", "--threads", 1)
    assert got["settings"]["memory"] is None and not got["settings"]["fits"]
    assert "70 % of the memory is" in run(table, "--memory", "1MiB", "--threads", 1, "--seconds", "0.2").stdout
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("data: t.parquet\noutputs: {x: [c0, c1]}\nloader: {batch_size: 100}\n")
    refused = run(pipeline, "--seconds", "0.2", "--memory", "1MiB", "--threads", 1, "--write", tmp_path / "tuned.yaml", ok=False)
    assert "least budget" in refused.stderr and not (tmp_path / "tuned.yaml").exists()


def test_a_smaller_superbatch_is_proposed_where_it_makes_the_budget_fit(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({f"c{i}": rng.standard_normal(400_000).astype("f4") for i in range(16)}), path, row_group_size=4_000)
    least = advise(path, "--threads", 1)["memory"]["minimum_bytes"]
    got = advise(path, "--threads", 1, "--memory", f"{int(least / 0.7 * 0.6) >> 20}MiB")
    assert got["settings"]["fits"] and 0 < got["settings"]["superbatch"] < 400_000
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(f"data: t.parquet\noutputs: {{x: [{', '.join(f'c{i}' for i in range(16))}]}}\nloader: {{batch_size: 1024}}\n")
    run(pipeline, "--seconds", "0.2", "--threads", 1, "--memory", f"{int(least / 0.7 * 0.6) >> 20}MiB", "--write", tmp_path / "tuned.yaml")
    assert "superbatch: " in (tmp_path / "tuned.yaml").read_text()
    plan = subprocess.run([CLI, "plan", str(tmp_path / "tuned.yaml"), "--json"], capture_output=True, text=True, timeout=60)
    assert plan.returncode == 0, plan.stderr


def test_too_little_to_tell_how_fast_the_storage_is(tmp_path, table):
    got = advise(table)
    assert table.stat().st_size < 4 << 20 and got["storage"]["bytes_per_second"] is None and got["machine"]["storage_bytes_per_second"] is None
    assert "too little to tell how fast it is" in run(table, "--seconds", "0.2").stdout
    large = tmp_path / "large.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).standard_normal(1_000_000)}), large)
    assert advise(large)["storage"]["bytes_per_second"] > 0
    assert "once the blocks are in memory; before, " in run(large, "--seconds", "0.2").stdout


def test_the_first_epoch_of_cold_files_takes_longer(table):
    rates = "first_epoch_samples_per_second", "first_epoch_cached_samples_per_second"
    here = advise(table)["expected"][0]
    assert 0 < here[rates[0]] <= here[rates[1]]
    there = advise(table, "--threads", "2")["expected"][0]  # this is too little to tell the speed of the storage, but reading it costs something
    assert 0 < there[rates[0]] < there[rates[1]] and there["storage"] is None


def test_an_epoch_that_ends_within_the_time_is_run_once_more_of_cold_files(table):
    """Seen from outside: what the disk was asked for beside the reads that measure it. Of what takes longer, nothing else leaves the page cache."""

    def read(*args):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
        run(table, "--no-cache", *args)
        return 512 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before)

    os.sync()  # pages that are not written yet stay
    size = table.stat().st_size
    measured = read("--seconds", 20, "--threads", 2)
    if not measured:
        pytest.skip("no disk is below the folder of temporary files")
    assert measured <= 1.1 * size and read("--seconds", 0.0005) <= 1.1 * size
    assert read("--seconds", 20) >= 1.3 * size


def of_eight_files(tmp_path, text):
    """A pipeline file of that text beside a folder `data`: 40,000 rows of 8 bytes in blocks of 1,000."""
    (tmp_path / "data").mkdir()
    values = np.random.default_rng(0).standard_normal(40_000)
    for i in range(8):
        pq.write_table(pa.table({"x": values[i * 5_000 :][:5_000]}), tmp_path / f"data/{i}.parquet", row_group_size=1_000, compression="none")
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(text)
    return pipeline


def test_a_split_is_judged_by_its_own_blocks(tmp_path):
    pipeline = of_eight_files(tmp_path, "data: data\nsplits: {train: 0.75, val: 0.25, by: files}\noutputs: {x: x}\nloader: {batch_size: 100}\n")
    train, val = (advise(pipeline, "--split", split) for split in ("train", "val"))
    assert (train["samples"], val["samples"]) == (30_000, 10_000)
    for got in (train, val):
        assert got["sample"]["decoded_bytes"] == pytest.approx(8, rel=0.2)


def test_a_part_is_judged_by_its_own_blocks(tmp_path):
    pipeline = of_eight_files(tmp_path, "data: data\noutputs: {x: x}\nloader: {batch_size: 100, part: 1/4}\n")
    got = advise(pipeline)
    assert got["samples"] == 10_000 and got["sample"]["decoded_bytes"] == pytest.approx(8, rel=0.2)
    assert got["sample"]["stored_bytes"] == pytest.approx(8, rel=0.2)


@pytest.mark.parametrize("option", ["--threads", "--ranks", "--batch-size"])
def test_none_of_what_counts_from_1_is_refused(table, option):
    assert f"{option} does not take '0': it is a whole number from 1 on" in run(table, option, 0, ok=False).stderr


def test_what_packing_would_give_comes_with_its_command(tmp_path):
    rng = np.random.default_rng(0)
    table = tmp_path / "it's.parquet"
    columns = {f"c{i}": rng.standard_normal(1_000_000).astype("f4").round(2) for i in range(4)}
    pq.write_table(pa.table(columns), table, row_group_size=20_000, compression="brotli", compression_level=5, use_dictionary=False)
    for _ in range(5):  # shares of measured time
        got = advise(table, "--memory", "16MiB", "--threads", 1)  # not all of it stays decoded
        if got["packing"]["factor"] > 1.2:
            break
    packing = got["packing"]
    assert packing["worth_it"] and packing["samples_per_second"] == pytest.approx(packing["factor"] * got["expected"][0]["samples_per_second"])
    assert packing["command"].startswith("forebay pack '") and packing["command"].endswith("' --to packed --verify")
    done = subprocess.run(f"{CLI} {packing['command'].split(' ', 1)[1]}", shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and (tmp_path / "packed/_pack.json").exists(), done.stderr


SERIES = {"by a column": "windows: {input: 4, by: site}", "by file": "windows: {input: 4}", "by two columns": "windows: {input: 4, by: [site, year]}"}


@pytest.mark.parametrize("samples", [*SERIES.values(), "groups: {key: event}"], ids=[*SERIES, "groups"])
def test_windows_and_groups_are_the_same_after_the_command_for_packing(tmp_path, samples):
    fb = pytest.importorskip("forebay")
    (tmp_path / "src").mkdir()
    for i in range(3):
        t = np.arange(200)
        columns = {"site": i * 2 + t // 100, "year": t // 50, "event": i * 50 + t // 4, "t": i * 200.0 + t}
        pq.write_table(pa.table(columns), tmp_path / f"src/{i}.parquet", row_group_size=70)
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(f"data: src\nsamples: {{{samples}}}\noutputs: {{t: {{columns: t}}}}\nloader: {{batch_size: 16}}\n")
    command = advise(pipeline)["packing"]["command"]
    subprocess.run(f"{CLI} {command.split(' ', 1)[1]}", shell=True, cwd=tmp_path, capture_output=True, check=True, timeout=60)

    def samples_of(loader):
        return sorted(tuple(row) for batch in loader for row in np.asarray(batch["t"] if "windows" in samples else batch["t"].values).reshape(-1, 4).tolist())

    with fb.pipeline(pipeline).loader() as loader:
        source = samples_of(loader)
    assert len(source) >= 150 and all(b - a == 1 for sample in source for a, b in zip(sample, sample[1:]))
    packed = fb.open(tmp_path / "packed")
    if "--outputs" not in command:
        assert samples == SERIES["by a column"]
        packed = packed.windows(4, by="site")
    else:
        packed = packed.rows()
    with packed.loader(["t"], batch_size=16) as loader:
        assert samples_of(loader) == source
    changed = advise(pipeline, "--set", "loader.batch_size=8")["packing"]["command"]  # rows know no pipeline
    assert changed.startswith("forebay pack --outputs ") and "--set 'loader.batch_size=8'" in changed


def test_the_sample_is_judged_under_the_reports_keys(table):
    got = advise(table)
    assert isinstance(got["limit"], str) and 0 <= got["confidence"] <= 1 and got["reason"] and got["verdict"]
    assert isinstance(got["cures"], list) and all({"change", "samples_per_second", "factor", "why"} <= set(cure) for cure in got["cures"])


def test_more_bad_layouts_are_named(tmp_path):
    text = tmp_path / "text.parquet"
    pq.write_table(pa.table({"n": [str(i / 7) for i in range(2000)], "id": [f"{i:05}" for i in range(2000)], "s": ["x"] * 2000}), text)
    notes = advise(text, "--columns", "n")["notes"]
    assert any("'n' holds numbers as text" in note for note in notes)
    assert not any("'id' holds" in note or "'s' holds" in note for note in notes)
    (tmp_path / "many").mkdir()
    for i in range(1000):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"many/{i}.parquet")
    got = advise(tmp_path / "many")
    assert any("1,000 files have" in note for note in got["notes"]) and got["packing"]["worth_it"]
    h5py = pytest.importorskip("h5py")

    def cut_across(*names):
        with h5py.File(tmp_path / "across.h5", "a") as file:
            for name in names:
                file.create_dataset(name, (100, 64, 64), "f4", chunks=(100, 4, 4), data=np.zeros((100, 64, 64), "f4"))
        (said,) = [note for note in advise(tmp_path / "across.h5")["notes"] if "cut across" in note]
        return said

    assert cut_across("x").startswith("'/x' is cut across the wrong axes: a row lies in 256 chunks of 100 rows")
    assert cut_across("y", "z").startswith("'/x' and others, in all 3 data sets, are cut across the wrong axes: a row lies in 256 chunks")


def test_a_key_that_the_rows_are_not_sorted_by_is_named(tmp_path):
    pq.write_table(pa.table({"k": np.tile(np.arange(50), 40), "s": np.repeat(np.arange(50), 40), "x": np.arange(2000.0)}), tmp_path / "t.parquet")
    for key, said in ("k", True), ("s", False):
        pipeline = tmp_path / f"{key}.yaml"
        pipeline.write_text(f"data: t.parquet\nsamples: {{groups: {{key: {key}}}}}\noutputs: {{x: {{columns: x}}}}\nloader: {{batch_size: 8}}\n")
        assert any(f"rows with one value of '{key}' do not lie together" in note for note in advise(pipeline)["notes"]) == said
