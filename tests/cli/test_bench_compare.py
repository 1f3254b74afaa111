"""forebay bench --compare: the command says what is loaded, Python's loaders load it. Those that are installed where tests run must give every row."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
h5py = pytest.importorskip("h5py")
pytest.importorskip("forebay")

from forebay import _bench, _race, _rivals  # noqa: E402

CLI = os.environ.get("FOREBAY_CLI", str(Path(__file__).resolve().parents[2] / "build" / "forebay"))

pytestmark = pytest.mark.skipif(not Path(CLI).exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")


def bench(*args, code=0, path=None):
    env = {**os.environ, "PATH": f"{path or Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run([CLI, "bench", "--compare", *map(str, args)], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def rows(tmp_path):
    """Row i has i in its first column, and its file's number in the third."""
    for f in range(3):
        i = np.arange(f * 2000, (f + 1) * 2000)
        table = {"i": i.astype("f4"), "twice": 2 * i, "file": np.full(2000, f, "i2"), "name": [f"row {k}" for k in i]}
        pq.write_table(pa.table(table), tmp_path / f"{f}.parquet", row_group_size=500)
    return tmp_path


def spec(files, fmt, outputs, **more):
    return {"files": [str(f) for f in files], "format": fmt, "batch_size": 100, "work": 0, "warmup": 0, "seconds": 0.05, "rows": 6000,
            "batches": 0, "warmup_batches": 0,
            "outputs": [{"matrix": len(o["columns"]) > 1, "dtype": None, **o} for o in outputs], **more}  # fmt: skip


def epoch_of(contestant):
    """The batches of an epoch: dicts of arrays."""
    return [{name: values.numpy() for name, values in batch.items()} for batch in contestant.epoch(0)]


def made(name, given, cache):
    try:
        return _rivals.RIVALS[name](given, cache)
    except _rivals.LeftOutError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("name", _rivals.RIVALS)
def test_an_epoch_of_a_contestant_is_every_row_once_and_mixed(rows, tmp_path, name):
    x = {"name": "x", "columns": ["i", "twice", "file"], "dtype": "float32"}
    found = epoch_of(made(name, spec(sorted(rows.glob("*.parquet")), "parquet", [x, {"name": "twice", "columns": ["twice"]}]), tmp_path))
    x, twice = (np.concatenate([batch[key] for batch in found]) for key in ("x", "twice"))
    assert x.dtype == np.float32 and x.shape[1:] == (3,) and twice.dtype == np.int64
    assert sorted(x[:, 0]) == list(range(6000)) or name == "LitData"  # which leaves out what does not fill a batch of each worker
    assert (x[:, 1] == 2 * x[:, 0]).all() and (x[:, 2] == x[:, 0] // 2000).all() and (twice == x[:, 1]).all()
    assert all((np.diff(batch["x"][:, 0]) != 1).any() for batch in found if len(batch["x"]) > 10)


@pytest.mark.parametrize("name", ["PyTorch rows", "PyTorch batches", "expert generator", "scDataset", "Grain"])
def test_arrays_of_hdf5_are_loaded_as_they_are(tmp_path, name):
    values = np.arange(3000 * 6, dtype="f4").reshape(3000, 2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("group/x", data=values, chunks=(300, 2, 3), compression="gzip")
        file["y"] = np.arange(3000)
    found = epoch_of(made(name, spec([tmp_path / "a.h5"], "hdf5", [{"name": "x", "columns": ["group.x"]}, {"name": "y", "columns": ["y"]}]), tmp_path))
    x, y = (np.concatenate([batch[key] for batch in found]) for key in ("x", "y"))
    assert x.dtype == np.float32 and sorted(y) == list(range(3000)) and (x == values[y]).all()


@pytest.mark.parametrize("fmt", ["ipc", "csv"])
def test_other_formats_are_read_too(tmp_path, fmt):
    table = pa.table({"a": np.arange(1000.0), "b": np.arange(1000)})
    if fmt == "ipc":
        with pa.OSFile(str(tmp_path / "t"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(table, tmp_path / "t")
    expert = _rivals.Expert(spec([tmp_path / "t"], fmt, [{"name": "x", "columns": ["a", "b"], "dtype": "float32"}]), tmp_path)
    x = np.concatenate([batch["x"] for batch in epoch_of(expert)])
    assert sorted(x[:, 0]) == list(range(1000)) and (x[:, 0] == x[:, 1]).all()


def test_lists_of_one_length_are_arrays_and_others_are_left_out(tmp_path):
    pq.write_table(pa.table({"same": [[1.0, 2.0]] * 10, "other": [[1.0]] * 9 + [[1.0, 2.0]]}), tmp_path / "t.parquet")
    files = _rivals.Files(spec([tmp_path / "t.parquet"], "parquet", [{"name": "x", "columns": ["same"]}]))
    assert files.read(0)["x"].shape == (10, 2)
    with pytest.raises(_rivals.LeftOutError, match="varying length"):
        _rivals.Files(spec([tmp_path / "t.parquet"], "parquet", [{"name": "x", "columns": ["other"]}])).read(0)


def test_files_are_opened_as_the_command_says(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/x"] = np.arange(4000, dtype="f4").reshape(2, 2000)
        file["x"] = np.arange(10, dtype="f4")
    pq.write_table(pa.table({"x": np.arange(500.0)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": np.arange(500.0), "z": np.arange(500.0)}), tmp_path / "1.parquet")
    quick = ["--runs", 1, "--seconds", 0.2, "--batch-size", 20, "--baseline", "Forebay"]
    found = json.loads(bench(tmp_path / "x.h5", "--table", "/a", "--axis", 1, *quick, "--json").stdout)["comparison"]["rows"]
    assert [row["name"] for row in found if "skipped" not in row] == ["Forebay"]  # the others would read other samples
    assert all("--table and --axis say where samples lie" in row["skipped"] for row in found if "skipped" in row)
    parquet = [tmp_path / f"{i}.parquet" for i in range(2)]
    assert "Forebay" in bench(*parquet, "--missing-columns", "fill", *quick).stdout
    why = bench(*parquet, *quick[:-2], code=1).stderr
    assert "Forebay could not be measured: SchemaError: output 'x': column 'z' is missing in 1 of 2 files" in why and "missing_columns" in why


def test_mixing_is_measured_by_what_batches_hold(rows, tmp_path):
    given = spec(sorted(rows.glob("*.parquet")), "parquet", [{"name": "x", "columns": ["i", "file"], "dtype": "float32"}])
    files = _rivals.Files(given)
    shuffled = _race.mixing(_race.forever(_rivals.Expert(given, tmp_path)), given)
    assert shuffled["entropy_bits"] == pytest.approx(shuffled["entropy_bits_uniform"], abs=0.15) and shuffled["entropy_bits_uniform"] > 3
    in_order = (_rivals.tensors(files.read(u % 12)) for u in range(100))  # a row group a batch
    assert _race.mixing(in_order, given)["entropy_bits"] == 0
    others = ({"x": 0.5 + _rivals.tensors(files.read(0))["x"]} for _ in range(100))
    assert _race.mixing(others, given) == {}  # rows of other files


def test_the_command_compares_what_is_installed(rows, tmp_path):
    page = tmp_path / "page.html"
    got = json.loads(bench(rows, "--seconds", "0.2", "--runs", 1, "--batch-size", 100, "--work", "100us", "--json", "--html", page).stdout)
    found = {row["name"]: row for row in got["comparison"]["rows"]}
    assert list(found) == [name for name in _bench.CONTESTANTS if name != "today"] and not any(row.get("failed") for row in found.values()), found
    for name in ("Forebay", "PyTorch rows", "PyTorch batches", "expert generator"):
        row = found[name]
        assert row["samples_per_second"] > 0 and row["peak_bytes"] > 10_000_000 and row["first_batch_seconds"] > 0
        assert row["cpu_seconds_per_million_samples"] > 0 and 0 < row["utilisation"] <= 1
        assert row["epoch_seconds"] == pytest.approx(6000 / row["samples_per_second"])
        assert row["factor"] == pytest.approx(row["samples_per_second"] / found["PyTorch batches"]["samples_per_second"])
        assert abs(row["entropy_bits"] - row["entropy_bits_uniform"]) < 0.3
    assert got["report"]["samples"] > 0 and "Loaders side by side" in page.read_text()


@pytest.mark.parametrize(
    "outputs, message",
    [
        ("x: {columns: [i, twice], ops: [scale: 2]}", "output 'x' has operations\n  try: give the loader that you have: --today"),
        ("x: {columns: i}\n  y: {columns: file, one_hot: 3}", "output 'y' is computed"),
    ],
)
def test_what_others_would_have_to_be_programmed_for_is_refused(rows, tmp_path, outputs, message):
    (tmp_path / "p.yaml").write_text(f'data: {{paths: "*.parquet"}}\noutputs:\n  {outputs}\nloader: {{batch_size: 100}}\n')
    assert message in bench(tmp_path / "p.yaml", code=2).stderr


def test_windows_are_refused(rows, tmp_path):
    (tmp_path / "p.yaml").write_text('data: {paths: "*.parquet"}\nsamples: {windows: {input: 3}}\noutputs: {x: {columns: [i]}}\nloader: {batch_size: 10}\n')
    assert "samples are not rows" in bench(tmp_path / "p.yaml", code=2).stderr


TODAY = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset

class Windows(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, i):
        return {"x": torch.full((3, 1), float(i)), "y": torch.tensor(i)}

def make(size, workers=0):
    return DataLoader(Windows(), size, shuffle=True, num_workers=workers)

def of(epoch):
    return make(10 + epoch % 2)
"""


@pytest.fixture
def windows(rows):
    (rows / "today.py").write_text(TODAY)
    path = rows / "p.yaml"
    path.write_text('data: {paths: "*.parquet"}\nsamples: {windows: {input: 3}}\noutputs: {x: {columns: [i]}}\nloader: {batch_size: 10}\n')
    return path


@pytest.mark.parametrize("expression", ["make(10, 2)", "of"])
def test_windows_are_compared_with_the_loader_that_the_user_has(windows, expression):
    today = f"{windows.parent / 'today.py'}:{expression}"
    got = json.loads(bench(windows, "--seconds", "0.2", "--runs", 1, "--today", today, "--json").stdout)["comparison"]
    found = {row["name"]: row for row in got["rows"]}
    assert got["baseline"] == "today" and list(found) == list(_bench.CONTESTANTS)
    assert found["Forebay"]["factor"] == pytest.approx(found["Forebay"]["samples_per_second"] / found["today"]["samples_per_second"])
    assert found["today"]["epoch_seconds"] == pytest.approx(5994 / found["today"]["samples_per_second"])  # windows: two fewer than rows a file
    assert all("samples are not rows" in found[name]["skipped"] for name in _rivals.RIVALS)


@pytest.mark.parametrize(
    "today, message",
    [
        ("nowhere.py:make()", "give a file and what to call in it"),
        ("today.py", "give a file and what to call in it"),
        ("today.py:iter(make(10))", "gives an iterator"),
        ("today.py:no_such()", "no_such"),
    ],
)
def test_a_loader_of_the_users_that_does_not_work_is_left_out_with_its_reason(windows, today, message):
    done = bench(windows, "--seconds", "0.1", "--runs", 1, "--today", windows.parent / today)
    assert message in done.stdout and "left out: today" in done.stdout


def test_batches_and_warm_up_are_honoured_and_epochs_refused(rows):
    spec_of = spec([rows / "0.parquet"], "parquet", [{"name": "x", "columns": ["i"]}], batches=7, warmup_batches=3) | {"seconds": 60}
    contestant = _rivals.Expert(spec_of, rows)
    taken = []
    epoch = contestant.epoch
    contestant.epoch = lambda number: (taken.append(batch) or batch for batch in epoch(number))
    figures, _ = _race.measure(contestant, spec_of)
    assert len(taken) == 3 + 7 and figures["samples_per_second"] > 0
    assert "give --seconds or --batches" in bench(rows, "--epochs", 2, code=2).stderr
    assert "--today is a loader that --compare runs" in subprocess.run([CLI, "bench", rows, "--today", "x.py:y"], capture_output=True, text=True).stderr


def test_cold_runs_begin_with_what_the_page_cache_does_not_have(rows, monkeypatch):
    forgotten = []
    monkeypatch.setattr(_bench, "_forget", forgotten.append)
    monkeypatch.setattr(_bench.subprocess, "Popen", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
    for cold in (False, True):
        with pytest.raises(KeyboardInterrupt):
            _bench._contestant("Forebay", {"files": ["a"], "cold": cold, "seconds": 1, "warmup": 0}, str(rows), False)
    assert forgotten == [["a"]]
    monkeypatch.undo()
    _bench._forget([str(rows / "0.parquet")])


def test_a_python_without_forebay_is_named(rows, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexec /usr/bin/env -i " + sys.executable + ' -S "$@"\n')
    (tmp_path / "bin" / "python3").chmod(0o755)
    done = bench(rows, code=1, path=tmp_path / "bin")
    assert "--compare needs the Python package forebay" in done.stderr and "try:" in done.stderr


@pytest.mark.parametrize("args", [["--shuffle", "none,full"], ["--save", "x"]])
def test_one_comparison_at_a_time(rows, args):
    assert "--compare" in bench(rows, *args, code=2).stderr
