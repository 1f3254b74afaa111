"""The recipes but for the neutrino telescope: every batch of a shuffled epoch beside an independent reference, element for element, every
sample once.
"""

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest

import forebay as fb
from real_data import ROOT
from recipe_cases import close, equal, made, pipeline, real, recipe  # noqa: F401
from test_guides import blocks

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
h5py = pytest.importorskip("h5py")


# ---- hydrology ----

TARGET, FEATURES, STATIC = "streamflow", ["prcp", "tmin", "tmax", "srad"], ["clim_0", "clim_3", "atlas_1"]


def gauges(folder):
    return (folder / "gauges.txt").read_text().split()


def check_windows(train, ref, loader, moments=None, autoregressive=False, static=None, names=None):
    """An epoch of windows. The names of gauges are in loader.outputs."""
    seen, names = [], loader.outputs["gauge"].names if names is None else names
    for batch in loader:
        gauge, end = [names[i] for i in batch["gauge"]], batch["input_end_date"]
        assert batch["gauge"].dtype == np.int64 and end.dtype == np.int64
        want = ref.batch(gauge, end, moments, autoregressive)
        for name, values in want.items():
            close(batch[name], values, name) if moments is not None else equal(batch[name], values)
        if static:
            equal(batch["static"], ref.static(gauge, static))
        seen += zip(gauge, end.tolist())
    assert len(seen) == len(train) == len(set(seen)) and set(seen) == ref.ids()


@pytest.mark.parametrize("per_basin", [False, True], ids=["global", "per basin"])
def test_hydrology_windows_are_the_reference(made, per_basin):
    recipe_loader, reference = recipe("hydrology")
    folder = made("hydrology")
    parts = recipe_loader.samples(folder, gauges(folder), TARGET, FEATURES)
    ref = reference.Reference.of_folder(folder, gauges(folder), TARGET, FEATURES, part=(0.0, 0.7))
    moments = recipe_loader.fit(parts["train"], TARGET, FEATURES, per_basin)
    outputs = recipe_loader.outputs(folder, TARGET, FEATURES, STATIC, moments, autoregressive=per_basin)
    with parts["train"].loader(outputs, batch_size=512, framework="numpy") as loader:
        check_windows(parts["train"], ref, loader, ref.moments(per_basin), autoregressive=per_basin, static=STATIC)


def test_hydrology_parts_by_time_are_the_reference_and_parts_by_basin_share_no_basin(made):
    recipe_loader, reference = recipe("hydrology")
    folder = made("hydrology")
    by_time = recipe_loader.samples(folder, gauges(folder), TARGET, FEATURES)
    ends = {"train": (0.0, 0.7), "val": (0.7, 0.85), "test": (0.85, 1.0)}
    raw = {
        "X": fb.col(FEATURES, dtype="float32").steps(0, 365), "y": fb.col(TARGET, dtype="float32").steps(365, 372),
        "future": fb.col(FEATURES, dtype="float32").steps(365, 372), "gauge": fb.encode("gauge_id"), "input_end_date": fb.col("date").at(364),
    }  # fmt: skip
    for name in ("val", "test"):
        ref = reference.Reference.of_folder(folder, gauges(folder), TARGET, FEATURES, part=ends[name])
        with by_time[name].loader(raw, batch_size=100, framework="numpy") as loader:
            check_windows(by_time[name], ref, loader)
    by_basin = recipe_loader.samples(folder, gauges(folder), TARGET, FEATURES, by="files", train=0.7, test=0.3)
    whole = recipe_loader.samples(folder, gauges(folder), TARGET, FEATURES, train=1.0)["train"]
    assert sum(map(len, by_time.values())) == len(whole)
    basins = {}
    for name, part in by_basin.items():
        with part.loader({"gauge": fb.encode("gauge_id")}, batch_size=500, framework="numpy") as loader:
            names = loader.outputs["gauge"].names
            basins[name] = {names[i] for batch in loader for i in np.unique(batch["gauge"])}
    assert not basins["train"] & basins["test"] and basins["train"] | basins["test"] == set(gauges(folder))
    some = gauges(folder)[:3], gauges(folder)[3:5]
    listed = recipe_loader.samples(folder, gauges(folder), TARGET, FEATURES, by="gauge_id", train=some[0], test=some[1])
    ref = reference.Reference.of_folder(folder, some[1], TARGET, FEATURES)
    with listed["test"].loader(raw, batch_size=333, framework="numpy") as loader:
        check_windows(listed["test"], ref, loader)


@pytest.mark.parametrize("per_basin", [False, True], ids=["global", "per basin"])
def test_hydrology_pipeline_file_is_the_reference(made, per_basin):
    _, reference = recipe("hydrology")
    folder = made("hydrology")
    regions = {region: str(folder / "series" / region) for region in ("coast", "north", "south")}
    tables = {"lookups.attributes.paths": [str(folder / "attributes" / f"*_{kind}_*.parquet") for kind in ("caravan", "hydroatlas")]}
    overrides = {"data.paths": regions, "data.ids": gauges(folder), "lookups.gauges.paths": regions, **tables}
    if per_basin:  # and autoregressive
        X = {"columns": [TARGET, *FEATURES], "dtype": "float32", "steps": [0, 365], "standardize": "scale"}
        y = {"columns": TARGET, "dtype": "float32", "steps": [365, 372], "standardize": "scale"}
        overrides |= {"moments.scale.by": "gauge_id", "outputs.X": X, "outputs.y": y, "outputs.future": {**y, "columns": FEATURES}}
    file = pipeline("hydrology", overrides)
    ref = reference.Reference.of_folder(folder, gauges(folder), TARGET, FEATURES, part=(0.0, 0.7))
    names = fb.encode("gauge_id", fb.open(regions, source_column="region")).names
    with file.loader(framework="numpy") as loader:
        check_windows(file["train"], ref, loader, ref.moments(per_basin), per_basin, STATIC, names)


@pytest.mark.parametrize("name", ["hydrology", "neutrino", "linkage", "jets", "leak", "nanoaod", "weather"])
def test_the_first_code_on_the_page_of_a_recipe_runs_as_it_stands(name, tmp_path, monkeypatch):
    generate = importlib.import_module(f"recipes.{name}.train").RECIPE.generate
    importlib.import_module("recipes.training").generated(tmp_path / "data", lambda folder: generate(folder, "small"))
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.syspath_prepend(ROOT)  # ../../.. of a recipe's data
    names = {}
    exec(blocks(ROOT / f"recipes/{name}/README.md")[0][2], names)
    for which in {"train", "val"} & set(names):
        with names[which] as loader:
            assert len(next(iter(loader))) == len(loader.outputs)


def test_hydrology_on_its_page_trains_with_a_lightning_trainer(tmp_path, monkeypatch):
    lightning, torch = pytest.importorskip("lightning"), pytest.importorskip("torch")
    train, generate = (importlib.import_module(f"recipes.hydrology.{module}") for module in ("train", "generate"))
    generate.generate(tmp_path, basins=6, years=(7.5, 8.0), forcings=6, attributes=8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = train.Network(4, 3)

        def training_step(self, batch, index):
            seen.append(len(batch["y"]))
            return train.loss(self.network, batch)

        def validation_step(self, batch, index):
            pass

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    page = [code for _, _, code, _ in blocks(ROOT / "recipes/hydrology/README.md")]
    fits = next(code for code in page if "lightning.Trainer(" in code)
    names = {"model": Model()}
    exec(page[0].replace('"1000 files"', '"1 files"').replace("batch_size=512", "batch_size=64"), names)
    names["train"].close()
    fits = fits.replace("max_epochs=10", f"max_epochs={len(names['ds'].files)}")
    exec(fits.replace('"1000 files"', '"1 files"').replace("batch_size=512", "batch_size=64"), names)
    names["data"].close()
    assert sum(seen) == len(names["splits"]["train"])  # every basin once


def test_hydrology_regions_on_its_page_come_in_equal_parts(made, monkeypatch):
    folder = made("hydrology")
    monkeypatch.chdir(folder)
    page = [code for _, _, code, _ in blocks(ROOT / "recipes/hydrology/README.md") if "fb.mix(" in code]
    names = {"fb": fb, "np": np, "TARGET": TARGET, "FEATURES": FEATURES}
    exec(page[0], names)
    mixture, seen = names["mixture"], {"north": [], "south": []}
    with names["train"] as train:
        for batch in train:
            region, X = np.asarray(batch["region"]), np.asarray(batch["X"])
            assert abs((region == 0).sum() - len(region) / 2) < 4
            for number, name in enumerate(mixture.names):
                seen[name] += [x.tobytes() for x in X[region == number]]
    assert abs(len(seen["north"]) - len(seen["south"])) <= 1
    for name, samples in mixture.sources.items():  # every window of either, and no other
        with samples.loader({"X": fb.col(FEATURES).steps(0, 365)}, batch_size=512, framework="numpy", tail="keep") as alone:
            assert {x.tobytes() for batch in alone for x in batch["X"]} == set(seen[name])


@pytest.fixture(scope="module")
def caravan(tmp_path_factory):
    """The real Caravan basins as Parquet."""
    folder, out = real("hydrology"), tmp_path_factory.mktemp("caravan")
    subprocess.run([sys.executable, ROOT / "tools" / "caravan_to_parquet.py", folder, out], check=True)
    return out


def test_hydrology_on_real_caravan_basins(caravan):
    _, reference = recipe("hydrology")
    features = ["total_precipitation_sum", "temperature_2m_mean", "potential_evaporation_sum", "snow_depth_water_equivalent_mean"]
    columns, static = [TARGET, *features], ["p_mean", "aridity", "pet_mm_syr"]
    files = {path.stem: path for path in (caravan / "series").glob("*/*.parquet")}
    assert len(files) == 3
    tables = [pd.read_csv(path) for path in sorted(real("hydrology").glob("attributes_*.csv.gz"))]
    ref = reference.Reference(files, tables, TARGET, features, part=(0.0, 0.8))
    ds = fb.open(f"{caravan}/series/{{region}}/{{gauge_id}}.parquet")
    windows = ds.windows(365, 7, time="date", step=np.timedelta64(1, "D"), drop_missing=columns)
    train = windows.split(train=0.8, test=0.2, by="time", at="target")["train"]
    moments = fb.fit(train, columns)
    outputs = {
        "X": fb.col(features, dtype="float32").standardize(moments).steps(0, 365),
        "y": fb.col(TARGET, dtype="float32").standardize(moments).steps(365, 372),
        "future": fb.col(features, dtype="float32").standardize(moments).steps(365, 372),
        "static": fb.lookup(f"{caravan}/attributes/*.parquet", on="gauge_id", columns=static),
        "gauge": fb.encode("gauge_id"),
        "input_end_date": fb.col("date").at(364),
    }
    with train.loader(outputs, batch_size=512, framework="numpy") as loader:
        check_windows(train, ref, loader, ref.moments(), static=static)


# ---- linkage ----


def check_records(ref, loader, n):
    seen = []
    for bits, labels, uid in loader:
        uid = uid.tolist() if hasattr(uid, "tolist") else uid.to_list()
        equal(bits, ref.bits(uid))
        equal(labels, ref.labels(uid))
        seen += uid
    assert len(seen) == n == len(set(seen)) and set(seen) == ref.ids()


@pytest.mark.parametrize("form", ["tsv", "text", "packed", "base64", "frame"])
@pytest.mark.parametrize("variant", [{}, {"both_ways": False, "cleaned": True}], ids=["1296", "1036 cleaned"])
def test_linkage_records_are_the_reference(made, form, variant):
    recipe_loader, reference = recipe("linkage")
    folder = made("linkage")
    path = folder / ("records.tsv" if form == "tsv" else f"{'text' if form == 'frame' else form}.parquet")
    frame = pd.read_parquet(folder / ("text.parquet" if form == "tsv" else path.name))
    if form == "tsv":
        variant = variant | {"missing": "nan"}
    ref = reference.Reference(frame, **variant)
    ds = fb.open(frame if form == "frame" else path)
    outputs = recipe_loader.outputs(ds, encoding="base64" if form == "base64" else "auto", **variant)
    with ds.loader(outputs, batch_size=300, as_="tuple", framework="numpy") as loader:
        check_records(ref, loader, len(frame))


@pytest.mark.parametrize("form", ["tsv", "text", "packed", "base64"])
def test_linkage_pipeline_file_is_the_reference(made, form):
    _, reference = recipe("linkage")
    folder = made("linkage")
    overrides = {"data": str(folder / ("records.tsv" if form == "tsv" else f"{form}.parquet")), "loader.tail": "keep"}
    if form == "base64":
        overrides["outputs.bits.bits"] = {"n": 1024, "encoding": "base64"}
    variant = {"cleaned": True} if form == "packed" else {"missing": "nan"} if form == "tsv" else {}
    if variant.get("cleaned"):
        overrides |= {f"outputs.labels.ngrams.{name}": value for name, value in {"delete": '"./', "strip": True, "drop_spaces": True}.items()}
    if "missing" in variant:
        overrides["outputs.labels.ngrams.missing"] = variant["missing"]
    frame = pd.read_parquet(folder / ("text.parquet" if form == "tsv" else f"{form}.parquet"))
    with pipeline("linkage", overrides).loader(as_="tuple", framework="numpy") as loader:
        check_records(reference.Reference(frame, **variant), loader, len(frame))


def test_linkage_on_real_persons_and_real_filters():
    recipe_loader, reference = recipe("linkage")
    frame = pd.read_csv(real("linkage", "clk", "dataset-1.csv"), dtype=str, keep_default_na=False)
    clks = json.loads(real("linkage", "clk", "clks-1.json").read_text())["clks"]
    assert len(clks) == len(frame)
    frame = frame.drop(columns="id").assign(bloomfilter=clks, uid=np.arange(len(frame)))
    ds = fb.open(frame)
    with ds.loader(recipe_loader.outputs(ds, encoding="base64"), batch_size=77, as_="tuple", framework="numpy") as loader:
        check_records(reference.Reference(frame), loader, len(frame))
    path = real("linkage", "historical_figures_with_errors_50k.parquet")
    names = ["first_name", "surname", "dob", "birth_place", "postcode_fake", "gender", "occupation"]
    persons = pd.read_parquet(path)
    ref = reference.Reference(persons[names].assign(bloomfilter="", uid=persons["unique_id"]), cleaned=True)
    ds, seen = fb.open(path), []
    labels = fb.ngrams(*names, lower=True, delete='"./', strip=True, drop_spaces=True)
    with ds.loader({"labels": labels, "uid": "unique_id"}, batch_size=4096, framework="numpy") as loader:
        for batch in loader:
            uid = batch["uid"].to_list()
            equal(batch["labels"], ref.labels(uid))
            seen += uid
    assert len(seen) == len(persons) == len(set(seen))


# ---- jets ----


@pytest.mark.parametrize("flat", [False, True], ids=["(N, P, F)", "(N, P·F)"])
@pytest.mark.parametrize("edges", ["matrix", "pad", "flat"])
def test_jets_are_the_reference(made, flat, edges):
    recipe_loader, reference = recipe("jets")
    files = sorted(made("jets", flat=flat).glob("*.h5"))
    ref, ds = reference.Reference(files), fb.open([str(path) for path in files])
    with ds.loader({**recipe_loader.outputs(ds, edges), "index": fb.sample_index()}, batch_size=128, framework="numpy") as loader:
        check_jets(ref, loader, edges)


def check_jets(ref, loader, edges="matrix"):
    seen = []
    for batch in loader:
        index = batch["index"]
        labels, n_particles = ref.labels(index)
        equal(batch["node_features"], ref.nodes(index))
        equal(batch["edge_features"], ref.flat_edges(index) if edges == "flat" else ref.edges(index))
        equal(batch["labels"], labels, np.int64)
        equal(batch["n_particles"], n_particles, np.int32)
        seen.append(index)
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(ref)))


@pytest.mark.parametrize("flat", [False, True], ids=["(N, P, F)", "(N, P·F)"])
def test_jets_pipeline_file_is_the_reference(made, flat):
    _, reference = recipe("jets")
    folder = made("jets", flat=flat)
    overrides = {"data": str(folder / "train_*.h5"), "outputs.index": {"from": "sample_index"}}
    if flat:
        overrides["outputs.edge_features"] = {"columns": "adjacency_matrix", "symmetric": {"pad": -999}}
    with pipeline("jets", overrides).loader(framework="numpy") as loader:
        check_jets(reference.Reference(sorted(folder.glob("*.h5"))), loader)


def test_jets_without_labels_at_inference(made, tmp_path):
    recipe_loader, _ = recipe("jets")
    path = tmp_path / "unlabelled.h5"
    with h5py.File(made("jets") / "train_0.h5") as source, h5py.File(path, "w") as file:
        file.attrs.update(source.attrs)
        for name in ("feature_matrix", "adjacency_matrix", "n_particles"):
            source.copy(name, file)
    ds = fb.open(path)
    outputs = recipe_loader.outputs(ds) | {"labels": fb.col("labels").optional()}
    with ds.loader(outputs, batch_size=100, framework="numpy") as loader:
        assert set(next(iter(loader))) == {"node_features", "edge_features", "n_particles"}


def test_jets_on_real_ttbar_events():
    path = real("jets", "spanet_full_hadronic_ttbar.h5")
    names = ("pt", "eta", "phi", "mass", "btag")
    with h5py.File(path) as file:
        columns = [file[f"INPUTS/Source/{name}"][()] for name in names]
        mask, b = file["INPUTS/Source/MASK"][()], file["TARGETS/t1/b"][()]
    ds, seen = fb.open(path), []
    outputs = {name: f"INPUTS/Source/{name}" for name in names} | {"mask": "INPUTS/Source/MASK", "b": "TARGETS/t1/b", "index": fb.sample_index()}
    with ds.loader(outputs, batch_size=512, framework="numpy") as loader:
        for batch in loader:
            index = batch["index"]
            for name, column in zip(names, columns):
                equal(batch[name], column[index])
            equal(batch["mask"], mask[index], bool)
            equal(batch["b"], b[index], np.int64)
            seen.append(index)
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(b)))


# ---- leak ----

CELLS = [dict(), dict(dtype="float32", mels=64, frames=4, channel=True), dict(gzip=True)]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("form", CELLS, ids=["float16", "float32 with channel", "gzip"])
def test_leak_segments_are_the_reference(made, form, channels_last):
    recipe_loader, reference = recipe("leak")
    path = made("leak", **form) / "train.h5"
    ref, factor = reference.Reference(path), 5
    samples = recipe_loader.segments(path, leak=0, factor=factor)
    outputs = recipe_loader.outputs(samples.dataset, channels_last=channels_last) | {"row": fb.row_index()}
    times = np.zeros(len(ref), np.int64)
    with samples.loader(outputs, batch_size=200, framework="numpy") as loader:
        for batch in loader:
            equal(batch["mel"], ref.mel(batch["row"], channels_last))
            equal(batch["label"], ref.labels(batch["row"]), np.int16)
            np.add.at(times, batch["row"], 1)
    assert np.array_equal(times, ref.oversampled({0: factor}))


def test_leak_pipeline_files_are_the_reference(made):
    recipe_loader, reference = recipe("leak")
    folder = made("leak")
    ref, times = reference.Reference(folder / "train.h5"), np.zeros(60 * 21, np.int64)
    samples = recipe_loader.segments(folder / "train.h5", leak=0, factor=8)
    masked = recipe_loader.outputs(samples.dataset, augment=True) | {"row": fb.row_index()}
    options = {"batch_size": 500, "framework": "numpy"}
    file = pipeline("leak", {"data": str(folder / "train.h5"), "outputs.row": {"from": "row_index"}})
    with file.loader(**options) as loader, samples.loader(masked, **options) as same:
        for batch, other in zip(loader, same, strict=True):  # the masks are those of the Python form
            assert all(np.array_equal(batch[name], other[name]) for name in ("mel", "label", "row"))
            reference.masked_bands(ref.mel(batch["row"]), batch["mel"])
            equal(batch["label"], ref.labels(batch["row"]), np.int16)
            np.add.at(times, batch["row"], 1)
    assert np.array_equal(times, ref.oversampled({0: 8}))
    ref, at = reference.Reference(folder / "val.h5"), 0
    with pipeline("leak", {"data": str(folder / "val.h5")}, "evaluate.yaml").loader(framework="numpy") as loader:
        for batch in loader:
            equal(batch["mel"], ref.file_mel(batch["file"]))
            assert batch["file"].tolist() == list(range(at, min(at + 16, ref.files)))
            at += len(batch["file"])
    assert at == ref.files


def test_leak_spec_augment_masks_bands_and_times_as_it_says(made):
    recipe_loader, reference = recipe("leak")
    path = made("leak", dtype="float32", mels=64, frames=8) / "train.h5"
    ref = reference.Reference(path)
    samples = recipe_loader.segments(path)
    outputs = recipe_loader.outputs(samples.dataset, augment=True, time_masks=1, max_time=3, freq_masks=2, max_freq=10) | {"row": fb.row_index()}

    def epoch(number, **options):
        mels = {}
        with samples.loader(outputs, batch_size=100, epoch=number, framework="numpy", **options) as loader:
            for batch in loader:
                mels.update(zip(batch["row"].tolist(), batch["mel"]))
        assert len(mels) == len(ref)
        return np.stack([mels[row] for row in range(len(ref))])

    first = epoch(0, threads=1)
    assert np.array_equal(first, epoch(0, threads=2, superbatch="300 samples")), "the same sample and epoch give the same masks"
    assert not np.array_equal(first, epoch(1))
    bands, times = reference.masked_bands(ref.mel(np.arange(len(ref))), first)
    assert bands.sum(axis=1).max() <= 20 and times.sum(axis=1).max() <= 3
    # One time mask, its width uniform on 0…3: a mean of 1.5 of 8. Two frequency masks, uniform on 0…10, of which some overlap.
    n = len(ref)
    assert abs(times.sum(axis=1).mean() - 1.5) < 5 * 1.12 / n**0.5
    width = np.bincount(times.sum(axis=1), minlength=4) / n
    assert np.all(abs(width - 0.25) < 5 * (0.1875 / n) ** 0.5), width
    assert 9 < bands.sum(axis=1).mean() < 10 and times.any(axis=0).all() and bands.any(axis=0).all()


def test_leak_repeats_are_augmented_each_on_its_own(made):
    recipe_loader, _ = recipe("leak")
    samples = recipe_loader.segments(made("leak") / "train.h5", leak=0, factor=8)
    outputs = recipe_loader.outputs(samples.dataset, augment=True, freq_masks=2, max_freq=16) | {"row": fb.row_index()}
    forms = {}
    with samples.loader(outputs, batch_size=500, framework="numpy") as loader:
        for batch in loader:
            for row, mel, label in zip(batch["row"].tolist(), batch["mel"], batch["label"]):
                if label == 0:
                    forms.setdefault(row, []).append(mel.tobytes())
    assert forms and all(len(masked) == 8 for masked in forms.values())
    assert sum(len(set(masked)) for masked in forms.values()) > 6 * len(forms)


def test_leak_whole_recordings_in_order(made):
    recipe_loader, reference = recipe("leak")
    path = made("leak") / "val.h5"
    ref = reference.Reference(path)
    samples, at = recipe_loader.recordings(path), 0
    with samples.loader(recipe_loader.recording_outputs(samples.dataset), batch_size=16, shuffle=False, framework="numpy") as loader:
        for batch in loader:
            files = np.arange(at, min(at + 16, ref.files))
            equal(batch["file"], files, np.int64)
            equal(batch["mel"], ref.file_mel(files))
            equal(batch["label"], ref.file_labels[files], np.int16)
            at += len(files)
    assert at == ref.files


def test_leak_recordings_packed_to_a_number_of_segments(made):
    recipe_loader, reference = recipe("leak")
    path = made("leak") / "val.h5"
    ref = reference.Reference(path)
    samples, at, target = recipe_loader.packed_recordings(path), 0, 100
    with samples.loader(recipe_loader.packed_outputs(samples.dataset), batch_elements=target, shuffle=False, framework="numpy") as loader:
        for batch in loader:
            n = len(batch["file"])
            files = np.arange(at, at + n)
            assert n * ref.per_file <= target < (n + 1) * ref.per_file or at + n == ref.files
            equal(batch["file"], files, np.int64)
            equal(batch["mel"].values, ref.file_mel(files).reshape(-1, *ref.cells.shape[1:]))
            equal(batch["segment_ids"].values, np.repeat(np.arange(n), ref.per_file), np.int64)
            equal(batch["label"], ref.file_labels[files], np.int16)
            at += n
    assert at == ref.files


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("decimated_optodas.hdf5", "data"),
        ("terra15_v5_test_file.hdf5", "data_product/data"),
        ("neubrex_dts_forge.h5", "data"),
        ("xdas_netcdf.nc", "__values__"),
    ],
)
def test_leak_windows_of_real_acoustic_series(name, data):
    path = real("acoustic", name)
    with h5py.File(path) as file:
        values = file[data][()].astype(np.float32)
    ds = fb.open(path, table=f"/{data}", single=True)
    (column,) = ds.columns
    samples, seen = ds.windows(64, stride=16), []
    with samples.loader({"x": fb.col(column, dtype="float32"), "row": fb.row_index()}, batch_size=32, framework="numpy") as loader:
        for batch in loader:
            equal(batch["x"], values[batch["row"][:, None] + np.arange(64)])
            seen.append(batch["row"])
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(0, len(values) - 63, 16))
