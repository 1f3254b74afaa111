"""Of the benchmarks what decides without measuring: bench/run.py, with runs that are made up."""

import importlib
import sys

import pytest

from real_data import ROOT

pytest.importorskip("h5py")
pytest.importorskip("pyarrow")


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    for name in ("run", "common", "make_data"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("run")
    monkeypatch.setattr(module.make_data, "table", lambda: ROOT)
    monkeypatch.setattr(module.make_data, "table_files", lambda folder: [])
    return module


def result(checksum, checked=1_000_000):
    measured = {"rows_per_s": 1e6, "next_cpu_share": 0.01, "seconds": 1.0, "batches": 1_000, "rows": 1_000_000, "bytes_read": 1, "library_cpu_s_in_next": 0.1}
    budget = {"budget_peak_bytes": 1, "budget_bytes": 2, "superbatch_rows": 3, "same_block": 0.1, "same_block_uniform": 0.1, "io_engine": "pread", "threads": 2}
    return {**measured, **budget, "checksum": checksum, "checked_rows": checked}


@pytest.mark.parametrize(("theirs", "said"), [(result(10.0), "yes"), (result(None, 0), "not compared"), ({"skipped": "is not there"}, "not compared")])
def test_a_table_says_whether_the_same_rows_were_delivered(run, theirs, said, monkeypatch, capsys):
    monkeypatch.setattr(run.common, "interleave", lambda runs, n: {name: [theirs if name == "expert" else result(10.0)] * 3 for name in runs})
    assert run.batches(run.Settings(quick=True)).rows
    assert f"same rows delivered: {said}" in capsys.readouterr().out


def test_other_rows_end_the_benchmark(run, monkeypatch):
    monkeypatch.setattr(run.common, "interleave", lambda runs, n: {name: [result(11.0 if name == "expert" else 10.0)] * 3 for name in runs})
    with pytest.raises(SystemExit, match="have not delivered the same rows"):
        run.batches(run.Settings(quick=True))


def test_a_contestant_that_fails_later_is_left_out_and_the_others_go_on(run):
    turns = iter([{"rows_per_s": 1}, {"skipped": "no result within 300 s"}])
    found = run.common.interleave({"a": lambda: {"rows_per_s": 2}, "b": lambda: next(turns)}, 4)
    assert found == {"a": [{"rows_per_s": 2}] * 4, "b": [{"skipped": "no result within 300 s"}]}
