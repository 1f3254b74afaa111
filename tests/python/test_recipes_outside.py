"""The two recipes from outside the five systems, CMS NanoAOD and gridded NetCDF-4: every batch of a shuffled epoch beside an independent reference,
every sample once, on generated files and on real ones."""

import importlib
import sys

import numpy as np
import pytest

import forebay as fb
from real_data import DATA, ROOT, generated

for package in ("pyarrow", "netCDF4", "h5py"):
    pytest.importorskip(package)
import h5py
import pyarrow.parquet as pq

sys.path.insert(0, str(ROOT))


def modules(name):
    """(loader, reference) of a recipe."""
    return tuple(importlib.import_module(f"recipes.{name}.{module}") for module in ("loader", "reference"))


def real(*parts):
    """A path of the real data; skips without it."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: {path} is not there")
    return path


def kind(schema, name):
    """Type of a column; what the elements of its lists are called is left out, which readers choose."""
    return str(schema.field(name).type).replace("element:", "item:")


# ---- NanoAOD ----


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    module = importlib.import_module("recipes.nanoaod.generate")
    folder = generated(tmp_path_factory, "nanoaod", module, files=2, events=300, row_group=70)
    return {process: sorted((folder / process).glob("*.parquet")) for process in ("dy", "tt")}


def check_events(loader, ref, max_jets=8, max_muons=4):
    seen, recipe = [], modules("nanoaod")[0]
    for batch in loader:
        ids = batch["event"].tolist()
        for name, columns, most in (("jets", recipe.JETS, max_jets), ("muons", recipe.MUONS, max_muons)):
            values, mask = ref.objects(ids, columns, most)
            np.testing.assert_array_equal(batch[name].values, values)
            np.testing.assert_array_equal(batch[name].mask, mask)
        met, label = ref.scalars(ids)
        np.testing.assert_array_equal(batch["met"], met)
        np.testing.assert_array_equal(batch["label"], label)
        seen += ids
    assert len(seen) == len(set(seen)) and set(seen) == ref.ids()


def test_nanoaod_batches_are_the_reference(nano):
    loader, reference = modules("nanoaod")
    with loader.events(nano).loader(loader.outputs(), batch_size=64, framework="numpy") as batches:
        check_events(batches, reference.Reference(nano))


def test_nanoaod_pipeline_file_is_the_reference(nano):
    _, reference = modules("nanoaod")
    overrides = {"data.paths": {process: [str(path) for path in paths] for process, paths in nano.items()}, "loader.batch_size": 100}
    with fb.pipeline(ROOT / "recipes/nanoaod/pipeline.yaml", overrides).loader(framework="numpy") as batches:
        check_events(batches, reference.Reference(nano))


def test_nanoaod_generated_files_have_the_types_of_a_real_one(nano):
    theirs, ours = (pq.read_schema(path) for path in (real("jets", "cms_nano_dy.parquet"), nano["dy"][0]))
    names = [name for name in ours.names if name in theirs.names]
    assert len(names) > 20 and [kind(ours, name) for name in names] == [kind(theirs, name) for name in names]


def test_nanoaod_real_events_are_the_reference():
    loader, reference = modules("nanoaod")
    files = {"dy": [real("jets", "cms_nano_dy.parquet")]}
    ref = reference.Reference(files, least_muons=0)
    assert len(ref.ids()) == 40
    with loader.events(files, least_muons=0).loader(loader.outputs(), batch_size=7, framework="numpy") as batches:
        check_events(batches, ref)


def test_nanoaod_today_gives_the_same_events(nano):
    torch = pytest.importorskip("torch")
    _, reference = modules("nanoaod")
    ref, seen = reference.Reference(nano), []
    for jets, jet_mask, muons, muon_mask, met, event, label in importlib.import_module("recipes.nanoaod.baseline").loader(nano, 50, workers=0):
        assert isinstance(jets, torch.Tensor)
        for values, mask, columns in ((jets, jet_mask, modules("nanoaod")[0].JETS), (muons, muon_mask, modules("nanoaod")[0].MUONS)):
            want, there = ref.objects(event.tolist(), columns, values.shape[1])
            np.testing.assert_array_equal(values, want)
            np.testing.assert_array_equal(mask, there)
        want, labels = ref.scalars(event.tolist())
        np.testing.assert_array_equal(met, want)
        assert label.tolist() == labels.tolist()
        seen += event.tolist()
    assert sorted(seen) == sorted(ref.ids())


# ---- weather ----


@pytest.fixture(scope="module")
def years(tmp_path_factory):
    module = importlib.import_module("recipes.weather.generate")
    folder = generated(tmp_path_factory, "weather", module, years=2, steps=60, lat=6, lon=10, chunk=7)
    return sorted(folder.glob("*.nc"))


def check_fields(loader, ref):
    seen = []
    for batch in loader:
        x, y = ref.batch(batch["time"].tolist())
        assert batch["x"].dtype == batch["y"].dtype == np.float32
        np.testing.assert_allclose(batch["x"], x, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(batch["y"], y, rtol=2e-6, atol=2e-6)
        seen += batch["time"].tolist()
    assert len(seen) == len(set(seen)) and set(seen) == ref.ids()


def test_weather_windows_are_the_reference(years):
    loader, reference = modules("weather")
    ref, windows = reference.Reference(years, loader.VARIABLES, "t2m", step=6), loader.windows(years)
    assert len(ref.ids()) == 2 * (60 - 5)
    with windows.loader(loader.outputs(fb.fit(windows, loader.VARIABLES)), batch_size=16, framework="numpy") as batches:
        assert next(iter(batches))["x"].shape == (16, 4, 3, 6, 10)
        check_fields(batches, ref)


def test_weather_windows_do_not_cross_a_gap(years, tmp_path):
    loader, reference = modules("weather")
    path = tmp_path / "gap.nc"
    path.write_bytes(years[0].read_bytes())
    with h5py.File(path, "r+") as file:
        file["time"][30:] += 6  # a field is missing
    ref, windows = reference.Reference([path], loader.VARIABLES, "t2m", step=6), loader.windows([path])
    assert len(windows) == len(ref.ids()) == 60 - 2 * 5
    with windows.loader(loader.outputs(fb.fit(windows, loader.VARIABLES)), batch_size=16, framework="numpy") as batches:
        check_fields(batches, ref)


def test_weather_pipeline_file_gives_the_shapes(years):
    file = fb.pipeline(ROOT / "recipes/weather/pipeline.yaml", {"data.paths": [str(path) for path in years], "loader.batch_size": 8})
    with file.loader(framework="numpy") as batches:
        batch = next(iter(batches))
    assert batch["x"].shape == (8, 4, 3, 6, 10) and batch["y"].shape == (8, 2, 6, 10)


def test_weather_today_gives_the_same_windows(years):
    pytest.importorskip("torch")
    loader, reference = modules("weather")
    ref, seen = reference.Reference(years, loader.VARIABLES, "t2m", step=6), []
    mean, std = ({name: of[k] for name, of in ref.moments().items()} for k in (0, 1))
    for batch in importlib.import_module("recipes.weather.baseline").loader(years, mean, std, 16, workers=0):
        x, y = ref.batch(batch["time"].tolist())
        np.testing.assert_allclose(batch["x"], x, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(batch["y"], y, rtol=2e-6, atol=2e-6)
        seen += batch["time"].tolist()
    assert sorted(seen) == sorted(ref.ids())


def test_weather_real_fields_of_five_catchments_are_what_h5py_reads():
    loader, _ = modules("weather")
    path, variables = real("hydrology", "ngen_gauge_01073000_forcing.nc"), ("TMP_2maboveground", "precip_rate")
    windows = fb.open(path, axis=1).windows(4, 2)
    moments = fb.fit(windows, variables)
    with h5py.File(path) as file:
        fields = {name: file[name][()].T.astype(np.float64) for name in variables}  # (times, catchments)
        hours = file["Time"][()].T
    scaled = np.stack([(fields[name] - fields[name].mean()) / fields[name].std() for name in variables], 1)
    outputs, seen = loader.outputs(moments, variables, target=variables[0], time="Time"), []
    with windows.loader(outputs, batch_size=32, framework="numpy") as batches:
        for batch in batches:
            starts = np.searchsorted(hours[:, 0], batch["time"][:, 0]) - 3
            np.testing.assert_allclose(batch["x"], np.stack([scaled[s : s + 4] for s in starts]), rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(batch["y"], np.stack([scaled[s + 4 : s + 6, 0] for s in starts]), rtol=1e-5, atol=1e-5)
            seen += starts.tolist()
    assert sorted(seen) == list(range(len(hours) - 5))


def test_skill_of_a_perfect_forecast_is_one_and_of_the_mean_zero():
    torch = pytest.importorskip("torch")
    pytest.importorskip("lightning")
    Scores = importlib.import_module("recipes.weather.evaluate").Scores
    batch = {"x": torch.randn(5, 4, 3, 6, 8), "y": torch.randn(5, 2, 6, 8)}
    latitude = np.linspace(90, -90, 6)

    def evaluate(predict):
        scores = Scores(latitude, 10.0)
        scores.add(predict, batch)
        return scores.result()

    perfect, mean = evaluate(lambda b: b["y"]), evaluate(lambda b: torch.zeros_like(b["y"]))
    assert perfect.scores["skill"] == 1 and perfect.scores["rmse"] == 0 and mean.scores["skill"] == pytest.approx(0)
    assert perfect.table["hours"] == [6, 12]
    weight = np.cos(np.deg2rad(latitude)).clip(0)[:, None]
    want = 10 * np.sqrt(((batch["y"][:, 0].numpy()) ** 2 * weight / weight.mean()).mean())
    assert mean.table["rmse"][0] == pytest.approx(want)
