"""tools/batch_hashes.py: what differs and what is gone ends with 1."""

import json
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/batch_hashes.py"
BEFORE = {"t::a": [["1", "2"]], "t::b": [["3"]]}


@pytest.mark.parametrize("after, again, code, said", [
    (BEFORE, None, 0, "2 tests, 3 batches compared; 0 tests differ, 0 are gone"),
    ({**BEFORE, "t::b": [["4"]], "t::new": []}, None, 1, "differs: t::b"),
    ({"t::a": BEFORE["t::a"]}, None, 1, "gone: t::b"),
    ({}, None, 1, "0 tests, 0 batches compared; 0 tests differ, 2 are gone"),
    ({"t::a": BEFORE["t::a"]}, {"t::a": BEFORE["t::a"]}, 0, "1 tests, 2 batches compared"),  # another run of before lacks it, too
    ({**BEFORE, "t::b": [["4"]]}, {**BEFORE, "t::b": [["5"]]}, 0, "0 tests differ"),
])  # fmt: skip
def test_what_differs_or_is_gone_ends_with_1(tmp_path, after, again, code, said):
    runs = [run for run in (BEFORE, after, again) if run is not None]
    for i, run in enumerate(runs):
        (tmp_path / f"{i}.json").write_text(json.dumps(run))
    done = subprocess.run([sys.executable, str(TOOL), *(str(tmp_path / f"{i}.json") for i in range(len(runs)))], capture_output=True, text=True)
    assert done.returncode == code and said in done.stdout, done.stdout + done.stderr
