"""The five owners' loaders of today (recipes/*/baseline.py: a PyTorch Dataset over NumPy, pandas, polars or h5py) and Forebay's give the same
samples, matched by what identifies them; and docs/migration.md says how many lines each takes."""

import importlib
import io
import re
import sys
import tokenize

import numpy as np
import pytest

import forebay as fb
from real_data import ROOT

torch = pytest.importorskip("torch")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
h5py = pytest.importorskip("h5py")
sys.path.insert(0, str(ROOT))

RECIPES = ("hydrology", "neutrino", "linkage", "jets", "leak")
TARGET, FEATURES, STATIC = "streamflow", ["prcp", "tmin", "tmax", "srad"], ["clim_0", "clim_3", "atlas_1"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    def make(name, **options):
        folder = tmp_path_factory.mktemp(name)
        importlib.import_module(f"recipes.{name}.generate").generate(folder, **options)
        return folder

    return make


def both(name):
    """(the owner's loader, Forebay's) of a recipe."""
    return (importlib.import_module(f"recipes.{name}.{module}") for module in ("baseline", "loader"))


def same(theirs, ours, dtype=None, **tolerance):
    """Two batches' values of one output, samples in the same order."""
    theirs, ours = np.asarray(theirs), np.asarray(ours)
    assert ours.shape == theirs.shape and (dtype is None or ours.dtype == dtype)
    np.testing.assert_allclose(ours, theirs, **(tolerance or {"rtol": 0, "atol": 0}))


def test_windows_of_basins(made):
    pytest.importorskip("polars")
    baseline, port = both("hydrology")
    folder = made("hydrology")
    gauges = (folder / "gauges.txt").read_text().split()
    train = port.samples(folder, gauges, TARGET, FEATURES)["train"]
    moments = port.fit(train, TARGET, FEATURES)
    mean, std = moments.scales([TARGET, *FEATURES])
    theirs = {}
    for batch in baseline.loader(folder, gauges, TARGET, FEATURES, STATIC, mean, std, workers=0, batch_size=500):
        theirs.update({(g, int(end)): (batch, k) for k, (g, end) in enumerate(zip(batch["gauge"], batch["input_end_date"]))})
    seen = set()
    with train.loader(port.outputs(folder, TARGET, FEATURES, STATIC, moments), batch_size=500, framework="numpy") as loader:
        names = loader.outputs["gauge"].names
        for ours in loader:
            for i, (g, end) in enumerate(zip(ours["gauge"], ours["input_end_date"])):
                batch, k = theirs[names[g], int(end)]
                for name in ("X", "y", "future", "static"):
                    same(batch[name][k], ours[name][i], np.float32, rtol=2e-5, atol=2e-5)
                seen.add((names[g], int(end)))
    assert seen == set(theirs) and len(seen) == len(train)


def test_packed_events(made):
    baseline, port = both("neutrino")
    folder = made("neutrino")
    ids = np.random.default_rng(1).permutation(pd.read_parquet(folder / "train_meta.parquet")["event_id"].to_numpy())[:500]
    theirs = {}
    for batch in baseline.loader(folder, ids, batch_size=64):
        pulses = torch.split(batch["pulse_features"], batch["event_lengths"].tolist())
        theirs.update({int(e): (p, t) for e, p, t in zip(batch["event_ids"], pulses, batch["targets"])})
    seen = []
    with port.samples(folder, ids).loader(port.packed(folder), batch_size=64, framework="numpy") as loader:
        for ours in loader:
            for k, event in enumerate(ours["event_ids"].tolist()):
                pulses, targets = theirs[event]
                same(pulses, ours["pulse_features"][k], np.float32)
                same(targets, ours["targets"][k], np.float32)
                assert ours["event_lengths"][k] == len(pulses) and (ours["pulse_to_event"].values == k).sum() == len(pulses)
                seen.append(event)
    assert sorted(seen) == sorted(theirs) and len(theirs) == 500


def test_records(made):
    baseline, port = both("linkage")
    frame = pd.read_parquet(made("linkage") / "text.parquet").iloc[:700]
    theirs = {uid: (bits, labels) for bits, labels, uids in baseline.loader(frame, workers=0) for bits, labels, uid in zip(bits, labels, _listed(uids))}
    ds, seen = fb.open(frame), []
    with ds.loader(port.outputs(ds), batch_size=200, as_="tuple", framework="numpy") as loader:
        for bits, labels, uids in loader:
            for k, uid in enumerate(_listed(uids)):
                same(theirs[uid][0], bits[k], np.float32)
                same(theirs[uid][1], labels[k], np.float32)
                seen.append(uid)
    assert sorted(seen) == sorted(theirs) and len(seen) == 700


def _listed(uids):
    return uids.tolist() if hasattr(uids, "tolist") else uids.to_list() if hasattr(uids, "to_list") else list(uids)


@pytest.mark.parametrize("options", [{}, {"cached": True}], ids=["rows", "chunks"])
def test_jets(made, options):
    baseline, port = both("jets")
    files = sorted(made("jets").glob("*.h5"))
    dataset = baseline.loader(files, workers=0, **options).dataset  # an item by its number, which is Forebay's sample_index
    ds, seen = fb.open([str(path) for path in files]), []
    with ds.loader({**port.outputs(ds), "i": fb.sample_index()}, batch_size=64, framework="numpy") as loader:
        for ours in loader:
            for k, i in enumerate(ours["i"].tolist()):
                item = dataset[i]
                for name in ("node_features", "edge_features"):
                    same(item[name], ours[name][k], np.float32)
                assert (item["labels"], item["n_particles"]) == (ours["labels"][k], ours["n_particles"][k])
                seen.append(i)
    assert sorted(seen) == list(range(len(dataset)))


def test_segments_and_recordings(made):
    baseline, port = both("leak")
    folder = made("leak")
    dataset = baseline.loader(folder / "train.h5", workers=0).dataset
    samples, seen = port.segments(folder / "train.h5"), []
    with samples.loader({**port.outputs(samples.dataset), "i": fb.sample_index()}, batch_size=200, framework="numpy") as loader:
        for ours in loader:
            for k, i in enumerate(ours["i"].tolist()):
                mel, label = dataset[i]
                same(mel, ours["mel"][k], np.float32)
                assert ours["label"][k] == label
                seen.append(i)
    assert sorted(seen) == list(range(len(dataset)))
    whole = port.recordings(folder / "val.h5")
    with whole.loader(port.recording_outputs(whole.dataset), batch_size=16, shuffle=False, framework="numpy") as loader:
        ours = [(mel, label) for batch in loader for mel, label in zip(batch["mel"], batch["label"])]
    for (mel, label), (our_mel, our_label) in zip(baseline.recordings(folder / "val.h5"), ours, strict=True):
        same(mel, our_mel, np.float32)
        assert label == our_label


# ---- how much there is to write ----


def lines_of_code(path):
    """Lines that hold more than comments, blanks and the texts that document."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
    lines, begins = set(), True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in skipped:
            begins = begins or token.type == tokenize.NEWLINE
        elif not (token.type == tokenize.STRING and begins):
            lines.update(range(token.start[0], token.end[0] + 1))
            begins = False
    return len(lines)


def test_lines_of_code_are_counted_without_comments_and_docstrings(tmp_path):
    (tmp_path / "x.py").write_text('"""Text.\n\nMore."""\n\nimport a  # why\n\n# alone\ndef f(\n    x,\n):\n    """Text."""\n    return """a\nb"""\n')
    assert lines_of_code(tmp_path / "x.py") == 6


@pytest.mark.parametrize("name", RECIPES)
def test_the_lines_of_each_port_are_those_of_the_docs(name):
    text = (ROOT / "docs/migration.md").read_text()
    row = re.search(rf"^\| .*\(\.\./recipes/{name}/\).* \| (\d+) \| (\d+) \|$", text, re.M)
    assert row, f"docs/migration.md has no row for recipes/{name}"
    found = [lines_of_code(ROOT / "recipes" / name / f"{module}.py") for module in ("baseline", "loader")]
    assert [int(row[1]), int(row[2])] == found


TITLES = {"hydrology": "Hydrology", "neutrino": "Neutrino telescope", "linkage": "Record linkage", "jets": "Jets", "leak": "Leak detection"}


@pytest.mark.parametrize("name", RECIPES)
def test_the_lines_of_the_migration_are_those_of_the_recipe(name):
    """Every line of code that docs/migration-recipes.md quotes stands in the recipe."""

    def code(*modules):
        return " ".join("".join((ROOT / "recipes" / name / f"{module}.py").read_text() for module in modules).split())

    text = (ROOT / "docs/migration-recipes.md").read_text()
    section = re.search(rf"^## {TITLES[name]}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", section, re.M)[1:]
    assert len(rows) >= 8
    for today, ours, _ in rows:
        for cell, where in ((today, code("baseline")), (ours, code("loader", "train"))):
            quoted = re.findall(r"`([^`]+)`", cell)
            assert quoted or cell == "nothing"
            for line in quoted:
                assert line in where, f"recipes/{name}: {line}"
