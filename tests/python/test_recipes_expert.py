"""The loaders that an expert writes for the recipes give the samples, types and shapes that Forebay gives, each sample as often, in another order."""

import argparse
import importlib

import numpy as np
import pytest

import training_cases  # noqa: F401
import torch

SIZES = {
    "hydrology": dict(basins=8, years=(7.5, 8.0), forcings=4, attributes=4),
    "neutrino": dict(files=5, events=40, longest=200, row_group=2_000),
    "linkage": dict(rows=400, bits=1024),
    "jets": dict(files=4, events=100, particles=8, features=9, chunk=30),
    "leak": dict(files=150, long=3, short=2),
}
NAMES = {"jets": ("node_features", "edge_features", "labels", "n_particles"), "leak": ("mel", "label")}  # of those whose samples have no name of their own
KEYS = {"hydrology": ("input_end_date", "gauge"), "neutrino": ("event_ids",), "linkage": (2,)}

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made("jets"): module, folder and arguments of train.py, on a small set of data."""
    done = {}

    def make(name):
        if name not in done:
            module, folder = importlib.import_module(f"recipes.{name}.train"), tmp_path_factory.mktemp(name)
            importlib.import_module(f"recipes.{name}.generate").generate(folder, **SIZES[name])
            args = importlib.import_module("recipes.training").arguments(module.RECIPE).parse_args(["--batch-size", "16", "--device", "cpu"])
            done[name] = module, folder, args
        return done[name]

    return make


def epoch(name, batches):
    """{output: values of an epoch's samples}, sorted by what names a sample, or by all that it holds; and the sizes of the batches."""
    sizes, columns = [], {}
    for batch in batches:
        items = dict(batch) if isinstance(batch, dict) else dict(enumerate(batch))
        sizes.append(len(list(items.values())[-1]))
        for key, values in items.items():
            columns.setdefault(key, []).append(values.numpy() if isinstance(values, torch.Tensor) else np.array(values))
    columns = {key: np.concatenate(parts) for key, parts in columns.items()}
    if "doms" in columns:  # sensors with equal earliest times, which come by number or by pulse
        columns["doms"] = np.stack([event[np.lexsort(event[:, :3].T)] for event in columns["doms"]])
    if name in KEYS:
        order = np.lexsort([columns[key] for key in KEYS[name]])
    else:
        order = np.argsort([b"".join(columns[key][i].astype(np.float64).tobytes() for key in NAMES[name]) for i in range(sum(sizes))])
    return {key: values[order] for key, values in columns.items()}, sizes


def loader_of(made, name, loader):
    module, folder, args = made(name)
    if name == "leak":  # without masks, which are drawn
        path = folder / "train.h5"
        if loader == "expert":
            return module.expert.Segments(path, args.batch_size, 0, module.evaluate.LEAK, module.FACTOR, freq_masks=0)
        segments = module.loader.segments(path, leak=module.evaluate.LEAK, factor=module.FACTOR)
        return segments.loader(module.loader.outputs(segments.dataset), batch_size=args.batch_size, memory="64MiB", framework="torch")
    return importlib.import_module("recipes.training").make(module.RECIPE, folder, args, loader)


@pytest.mark.parametrize("lot", ["all of it", "two pieces", "two pieces, read anew"])
@pytest.mark.parametrize("name", SIZES)
def test_an_experts_batches_hold_what_forebays_do(made, name, lot, monkeypatch):
    if lot.endswith("read anew"):
        monkeypatch.setattr("recipes.expert.KEPT_BYTES", 0)
    if lot != "all of it":
        monkeypatch.setattr("recipes.expert.LOT_BYTES", 1)
    expert = loader_of(made, name, "expert")
    with loader_of(made, name, "forebay") as ours:
        want, sizes = epoch(name, ours)
    first, got_sizes = epoch(name, expert)
    assert got_sizes == sizes and len(expert) == len(sizes)
    assert first.keys() == want.keys()
    for key, values in want.items():
        assert (first[key].dtype, first[key].shape) == (values.dtype, values.shape), key
        np.testing.assert_allclose(first[key], values, rtol=1e-4, atol=1e-4, err_msg=str(key))
    again, _ = epoch(name, expert)
    assert all(np.array_equal(again[key], first[key]) for key in first)


@pytest.mark.parametrize("name", ["hydrology", "neutrino", "linkage", "jets"])
def test_todays_batches_hold_what_an_experts_do(made, name):
    (want, sizes), (got, got_sizes) = (epoch(name, loader_of(made, name, loader)) for loader in ("expert", "today"))
    assert sum(got_sizes) == sum(sizes)
    if name == "hydrology":
        assert len(np.unique(got.pop("gauge"))) == len(np.unique(want.pop("gauge")))  # today's are names
    for key, values in want.items():
        np.testing.assert_allclose(got[key], values, rtol=1e-4, atol=1e-4, err_msg=str(key))


@pytest.mark.parametrize("workers", [0, 1])
def test_the_tuned_loader_of_linkage_gives_what_todays_does(made, workers):
    module, folder, args = made("linkage")
    tuned = module.RECIPE.loaders["today-tuned"](folder, argparse.Namespace(**{**vars(args), "workers": workers}))
    assert (tuned.num_workers, tuned.persistent_workers, tuned.prefetch_factor, tuned.drop_last) == (workers, workers > 0, 4 if workers else None, True)
    (want, sizes), (got, got_sizes) = (epoch("linkage", batches) for batches in (loader_of(made, "linkage", "today"), tuned))
    assert got_sizes == sizes and got.keys() == want.keys()
    for key, values in want.items():
        assert got[key].dtype == values.dtype
        np.testing.assert_array_equal(got[key], values, err_msg=str(key))


@pytest.mark.parametrize("name", SIZES)
def test_an_experts_order_is_another_one_in_every_epoch(made, name):
    expert = loader_of(made, name, "expert")
    first, second = (next(iter(expert)) for _ in range(2))
    values = [batch[0] if isinstance(batch, tuple) else next(iter(batch.values())) for batch in (first, second)]
    assert not torch.equal(*values)


def test_an_expert_masks_bands_as_the_owner_does(made):
    module, folder, args = made("leak")
    reference = importlib.import_module("recipes.leak.reference")
    expert = module.expert.Segments(folder / "train.h5", 4096, 0)
    (lot, n), rows = expert.read(expert.pieces), np.arange(900)
    assert n == 150 * 6
    bands, times = reference.masked_bands(reference.Reference(folder / "train.h5").mel(rows), expert.take(lot, rows)["mel"])
    assert not times.any() and bands.sum(1).max() <= 12 and 4 < bands.sum(1).mean() < 6  # two masks of 0 to 6 bands, which may overlap
