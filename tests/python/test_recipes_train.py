"""The recipes' train.py: both loaders train the same network, and a run that was stopped in the middle of an epoch goes on as if it had not been."""

import importlib
import json
import math
import sys

import numpy as np
import pytest

from real_data import ROOT

for package in ("torch", "lightning", "torchmetrics", "pyarrow", "pandas", "h5py", "polars"):
    pytest.importorskip(package)
sys.path.insert(0, str(ROOT))

SMALL = {
    "hydrology": dict(basins=3, years=(7.5, 8.0), forcings=4, attributes=4),
    "neutrino": dict(files=2, events=60, longest=200, row_group=2_000),
    "linkage": dict(rows=400, bits=1024),
    "jets": dict(files=2, events_a_file=120, particles=8, features=9, chunk=40),
    "leak": dict(files=24, long=3, short=2),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """trained("jets", "--both"): what its command returns, on a small set of data."""
    folders = {}

    def train(name, *arguments):
        module = importlib.import_module(f"recipes.{name}.train")
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            generate = importlib.import_module(f"recipes.{name}.generate").generate
            generate(folders[name], **SMALL[name])
            if name == "linkage":
                generate(folders[name] / module.VALIDATION, **{**SMALL[name], "rows": 60}, seed=1)
        sys.modules["recipes.training"].main(module.RECIPE, ["--data", str(folders[name]), "--batch-size", "16", "--device", "cpu", *arguments])
        return folders[name]

    return train


@pytest.mark.parametrize("name", SMALL)
def test_both_loaders_train_the_network(trained, name, tmp_path, capsys):
    out = tmp_path / "results.json"
    trained(name, "--both", "--epochs", "1", "--batches", "4", "--json", str(out), "--picture", str(tmp_path / "loss.png"))
    today, ours = json.loads(out.read_text())
    assert (today["loader"], ours["loader"]) == ("today", "forebay")
    assert today["samples"] == ours["samples"] == 4 * 16 and today["scores"].keys() == ours["scores"].keys()
    for result in (today, ours):
        assert all(math.isfinite(loss) for _, _, loss in result["curve"]) and 0 <= result["waited"] <= 1
    assert (tmp_path / "loss.png").stat().st_size > 5_000
    said = capsys.readouterr().out
    assert "samples/s" in said and "today" in said and "learnt nothing" in said


@pytest.mark.parametrize("name", ["jets", "leak"])
def test_a_run_goes_on_in_the_middle_of_an_epoch(trained, name, tmp_path):
    whole, rest, kept = tmp_path / "whole.json", tmp_path / "rest.json", tmp_path / "checkpoints"
    common = ("--epochs", "2", "--batches", "5")
    trained(name, *common, "--json", str(whole), "--checkpoints", str(kept), "--checkpoint-every", "3")
    checkpoint = next(path for path in sorted(kept.iterdir()) if "step=3" in path.name)
    trained(name, *common, "--json", str(rest), "--resume", str(checkpoint))
    losses = [[loss for _, _, loss in json.loads(path.read_text())[0]["curve"]] for path in (whole, rest)]
    assert len(losses[0]) == 10 and len(losses[1]) == 7
    np.testing.assert_allclose(losses[1], losses[0][3:], rtol=1e-5)
