"""The neutrino telescope of recipes/: every batch of a shuffled epoch beside an independent reference, element for element, every sample once."""

import numpy as np
import pytest

import forebay as fb
from recipe_cases import close, equal, made, pipeline, real, recipe  # noqa: F401

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")


def events_seen(samples, ids, expected):
    assert len(ids) == len(samples) == len(set(ids)) and set(ids) == expected


@pytest.fixture(scope="module")
def some_events(made):
    """One event in a hundred, as a selection inside files."""
    ids = pd.read_parquet(made("neutrino") / "train_meta.parquet")["event_id"].to_numpy()
    return np.random.default_rng(5).choice(ids, len(ids) // 100, replace=False)


@pytest.mark.parametrize("selected", [False, True], ids=["all", "1 in 100"])
def test_neutrino_packed_events_are_the_reference(made, some_events, selected):
    recipe_loader, reference = recipe("neutrino")
    folder = made("neutrino")
    ids = some_events if selected else None
    ref, samples = reference.Reference(folder, ids), recipe_loader.samples(folder, ids)
    with samples.loader(recipe_loader.packed(folder), batch_size=128, superbatch="400 samples", framework="numpy") as loader:
        check_packed(samples, ref, loader)


def test_blocks_without_a_chosen_event_are_not_read(made):
    recipe_loader, _ = recipe("neutrino")
    folder = made("neutrino")
    meta = pd.read_parquet(folder / "train_meta.parquet")
    of_one_file = meta["event_id"][meta["batch_id"] == meta["batch_id"].iloc[-1]].to_numpy()
    read = {}
    for name, ids in {"all": None, "some": of_one_file[::10]}.items():
        with recipe_loader.samples(folder, ids).loader(recipe_loader.packed(folder), batch_size=64, framework="numpy") as loader:
            assert sum(len(batch["event_ids"]) for batch in loader) == (len(meta) if ids is None else len(ids))
            read[name] = loader.report().blocks_read
    assert 0 < read["some"] <= read["all"] // 2


def check_packed(samples, ref, loader):
    seen = []
    for batch in loader:
        values, of, lengths = ref.packed(batch["event_ids"])
        equal(batch["pulse_features"].values, values)
        equal(batch["pulse_to_event"].values, of, np.int64)
        equal(batch["event_lengths"], lengths, np.int64)
        equal(np.diff(batch["pulse_features"].offsets), lengths, np.int64)
        equal(batch["targets"], ref.targets(batch["event_ids"]))
        seen += batch["event_ids"].tolist()
    events_seen(samples, seen, ref.ids())


def neutrino_paths(folder):
    """What a pipeline file of events is given in place of its own."""
    meta = str(folder / "train_meta.parquet")
    return {"data": str(folder / "train" / "batch_{batch_id}.parquet"), "samples.groups.table": meta, "lookups.truth.paths": meta}


@pytest.mark.parametrize("selected", [False, True], ids=["all", "1 in 100"])
def test_neutrino_pipeline_file_is_the_reference(made, some_events, tmp_path, selected):
    _, reference = recipe("neutrino")
    folder, overrides = made("neutrino"), {}
    if selected:
        pq.write_table(pa.table({"event_id": some_events}), tmp_path / "my_events.parquet")
        overrides = {"samples.select": {"table": str(tmp_path / "my_events.parquet"), "table_key": "event_id"}}
    file = pipeline("neutrino", {**neutrino_paths(folder), **overrides})
    with file.loader(batch_size=100, framework="numpy") as loader:
        check_packed(file.samples, reference.Reference(folder, some_events if selected else None), loader)


def padded_epoch(samples, outputs, ref, max_len, epoch=0, **options):
    """{event_id: its rows} of an epoch, each checked; and places, those padded included."""
    _, reference = recipe("neutrino")
    kept, places = {}, 0
    with samples.loader(outputs, **{"batch_size": 64, "epoch": epoch, "framework": "numpy", **options}) as loader:
        for batch in loader:
            values, mask = batch["pulse_features"].values, batch["pulse_features"].mask
            lengths = mask.sum(axis=1)
            assert values.shape[1] == lengths.max() <= max_len and not values[~mask].any()
            places += mask.size
            equal(batch["targets"], ref.targets(batch["event_ids"]))
            for event, rows, n in zip(batch["event_ids"].tolist(), values, lengths):
                whole = ref.features(event)
                assert n == min(len(whole), max_len) and event not in kept
                if n == len(whole):
                    equal(rows[:n], whole)
                else:
                    assert reference.is_subset_in_order(rows[:n], whole)
                kept[event] = rows[:n]
    assert set(kept) == ref.ids()
    return kept, places


def test_neutrino_padded_events_are_seeded_subsets_in_order(made):
    recipe_loader, reference = recipe("neutrino")
    folder = made("neutrino")
    ref, samples, outputs = reference.Reference(folder), recipe_loader.samples(folder), recipe_loader.padded(folder, 100)
    first, places = padded_epoch(samples, outputs, ref, 100, superbatch="500 samples")
    again, _ = padded_epoch(samples, outputs, ref, 100, superbatch="900 samples")
    later, _ = padded_epoch(samples, outputs, ref, 100, epoch=1)
    long = [event for event in first if len(ref.features(event)) > 100]
    assert len(long) > 100
    assert all(np.array_equal(first[event], again[event]) for event in first)
    assert any(not np.array_equal(first[event], later[event]) for event in long)
    buckets, fewer = padded_epoch(samples, outputs, ref, 100, bucket_samples=600)
    rows = sum(map(len, first.values()))
    assert all(np.array_equal(first[event], buckets[event]) for event in first) and rows < fewer < rows * 1.25 < places
    file = pipeline("neutrino", {**neutrino_paths(folder), "outputs.pulse_features.padded.max_rows": 100}, "padded.yaml")
    told, _ = padded_epoch(file.samples, None, ref, 100)
    assert all(np.array_equal(first[event], told[event]) for event in first)


def test_neutrino_events_by_sensor_are_the_reference(made):
    recipe_loader, reference = recipe("neutrino")
    folder = made("neutrino")
    ref, samples = reference.Reference(folder), recipe_loader.samples(folder)
    with samples.loader(recipe_loader.doms(folder, max_doms=48, first_pulses=2), batch_size=100, framework="numpy") as loader:
        check_doms(samples, ref, loader, 48, 2)
    file = pipeline("neutrino", {**neutrino_paths(folder), "lookups.sensors.paths": str(folder / "sensor_geometry.csv")}, "doms.yaml")
    with file.loader(batch_size=100, framework="numpy") as loader:
        check_doms(file.samples, ref, loader, 128, 8)


def check_doms(samples, ref, loader, max_doms, first_pulses):
    seen = []
    for batch in loader:
        all_doms = np.concatenate([batch["doms"], batch["charge"]], axis=2) if "charge" in batch else batch["doms"]
        assert all_doms.shape[1:] == (max_doms, 7 + 3 * first_pulses) and batch["mask"].shape[1:] == (max_doms,)
        for event, doms, mask in zip(batch["event_ids"].tolist(), all_doms, batch["mask"]):
            want = ref.doms(event, max_doms, first_pulses)
            assert mask.tolist() == [i < len(want) for i in range(max_doms)] and not doms[len(want) :].any()
            close(doms[: len(want)], want, f"event {event}")
        equal(batch["targets"], ref.targets(batch["event_ids"]))
        seen += batch["event_ids"].tolist()
    events_seen(samples, seen, ref.ids())


REAL_EVENTS = {
    "prometheus": (
        "prometheus_merged/total", "prometheus_merged/mc_truth", ["t", "sensor_pos_x", "sensor_id"], ["injection_azimuth", "injection_zenith"],
    ),
    "oscnext": ("oscnext/merged/SRTInIcePulses", "oscnext/merged/truth", ["dom_time", "charge", "rde", "awtd"], ["azimuth", "zenith"]),
}


def real_frame(folder):
    """All files of a folder as one DataFrame, pandas' index a column."""
    return pd.concat([pd.read_parquet(path).reset_index() for path in sorted(real("neutrino", folder).glob("*.parquet"))], ignore_index=True)


@pytest.mark.parametrize("name", REAL_EVENTS)
def test_neutrino_on_real_files_of_pulses(name):
    folder, truth, features, targets = REAL_EVENTS[name]
    pulses, angles = real_frame(folder), real_frame(truth).set_index("event_no")[targets]
    events = {event: rows[features].to_numpy(np.float64) for event, rows in pulses.groupby("event_no")}
    samples, seen = fb.open(f"{real('neutrino', folder)}/*.parquet").groups("event_no"), []
    outputs = {
        "pulses": fb.col(features, dtype="float32"), "segment_ids": fb.segment_ids(), "length": fb.n_rows(), "event": fb.col("event_no").first(),
        "targets": fb.lookup(f"{real('neutrino', truth)}/*.parquet", on="event_no", columns=targets).first(),
    }  # fmt: skip
    with samples.loader(outputs, batch_size=4, framework="numpy") as loader:
        for batch in loader:
            ids, rows = batch["event"].tolist(), [events[event] for event in batch["event"].tolist()]
            equal(batch["pulses"].values, np.concatenate(rows))
            equal(batch["segment_ids"].values, np.repeat(np.arange(len(ids)), batch["length"]), np.int64)
            equal(batch["length"], [len(r) for r in rows], np.int64)
            equal(batch["targets"], angles.loc[ids].to_numpy())
            seen += ids
    events_seen(samples, seen, set(events))


@pytest.mark.parametrize("name", REAL_EVENTS)
def test_neutrino_by_sensor_on_real_pulses_and_geometry(name, tmp_path):
    """Real pulses in the recipe's shape: oscNext's sensors found in IceCube's geometry by where they are."""
    recipe_loader, reference = recipe("neutrino")
    folder, truth, _, targets = REAL_EVENTS[name]
    pulses, meta, place = real_frame(folder), real_frame(truth), ["x", "y", "z"]
    if name == "oscnext":
        sensors = pd.read_parquet(real("neutrino", "geometry", "icecube86.parquet")).reset_index(drop=True)
        sensors = sensors.rename(columns={f"dom_{axis}": axis for axis in place})[["sensor_id", *place]].round(3)
        pulses = pulses.rename(columns={f"dom_{axis}": axis for axis in place} | {"dom_time": "time"}).round(dict.fromkeys(place, 3))
        pulses = pulses.merge(sensors, on=place, how="left", validate="many_to_one")
        pulses["auxiliary"] = ~pulses["awtd"].astype(bool)
    else:
        pulses = pulses.rename(columns={f"sensor_pos_{axis}": axis for axis in place} | {"t": "time"})
        sensors = pulses.drop_duplicates("sensor_id")[["sensor_id", *place]]
        pulses = pulses.assign(charge=1.0, auxiliary=False)
    columns = pulses[["event_no", "sensor_id", "time", "charge", "auxiliary"]].rename(columns={"event_no": "event_id"})
    assert columns.notna().all(axis=None)
    first = columns.groupby("event_id").apply(lambda rows: pd.Series({"first_pulse_index": rows.index[0], "last_pulse_index": rows.index[-1]}))
    meta = meta.rename(columns={"event_no": "event_id"} | dict(zip(targets, ["azimuth", "zenith"])))
    meta = first.join(meta.set_index("event_id")[["azimuth", "zenith"]]).reset_index().assign(batch_id=1)
    (tmp_path / "train").mkdir()
    columns.to_parquet(tmp_path / "train" / "batch_1.parquet", index=False)
    meta.to_parquet(tmp_path / "train_meta.parquet", index=False)
    sensors = sensors.set_index("sensor_id").reindex(range(int(sensors["sensor_id"].max()) + 1), fill_value=0.0)
    sensors.to_csv(tmp_path / "sensor_geometry.csv")
    ref, samples = reference.Reference(tmp_path), recipe_loader.samples(tmp_path)
    with samples.loader(recipe_loader.packed(tmp_path), batch_size=7, framework="numpy") as loader:
        check_packed(samples, ref, loader)
    with samples.loader(recipe_loader.doms(tmp_path, 16, 3), batch_size=7, framework="numpy") as loader:
        check_doms(samples, ref, loader, 16, 3)


def test_neutrino_on_real_photons_nested_in_events():
    for name in ("prometheus_example_photons.parquet", "22980001_photons.parquet"):
        path, seen = real("neutrino", name), []
        rows = pq.read_table(path).to_pylist()
        outputs = {"t": "photons.t", "sensor": "photons.sensor_id", "zenith": "mc_truth.initial_state_zenith", "index": fb.sample_index()}
        with fb.open(path).loader(outputs, batch_size=4, framework="numpy") as loader:
            for batch in loader:
                for i, event in enumerate(batch["index"].tolist()):
                    for output, field in (("t", "t"), ("sensor", "sensor_id")):
                        packed = batch[output]
                        assert packed.values[packed.offsets[i] : packed.offsets[i + 1]].tolist() == rows[event]["photons"][field]
                    assert batch["zenith"][i] == rows[event]["mc_truth"]["initial_state_zenith"]
                    seen.append(event)
        assert sorted(seen) == list(range(len(rows)))
