"""Events with Forebay: packed, padded, or grouped once more by sensor.

    events = loader.samples("data", ids=my_900_000_events)
    train = events.loader(loader.packed("data"), batch_size=512, memory="8GiB", device="cuda")
"""

import forebay as fb

FEATURES = ("time", "charge", "sensor_id", "auxiliary")


def samples(folder, ids=None):
    """All events of the table, or those with these ids. The pulses are not scanned: the table says where events are."""
    ds = fb.open(f"{folder}/train/batch_{{batch_id}}.parquet")
    table = f"{folder}/train_meta.parquet"
    events = ds.groups("event_id", table=table, file="batch_id", first="first_pulse_index", last="last_pulse_index")
    return events if ids is None else events.select(ids)


def targets(folder):
    """targets (B, 2) and event_ids (B), which every form of batch has."""
    meta = f"{folder}/train_meta.parquet"
    return {
        "targets": fb.lookup(meta, on="event_id", columns=["azimuth", "zenith"]).first(),
        "event_ids": fb.col("event_id").first(),
    }


def packed(folder):
    """pulse_features: values (ΣL, 4) and offsets; pulse_to_event (ΣL); event_lengths (B)."""
    return {
        "pulse_features": fb.col(FEATURES, dtype="float32"),
        "pulse_to_event": fb.segment_ids(),
        "event_lengths": fb.n_rows(),
        **targets(folder),
    }


def padded(folder, max_len=256):
    """pulse_features: values (B, L, 4) and mask (B, L). Longer events keep a random subset of their pulses, in order.

    Give the loader ``bucket_samples=20_000``: batches of events of like lengths, so that little is padding.
    """
    return {"pulse_features": fb.col(FEATURES, dtype="float32").padded(max_len), **targets(folder)}


def doms(folder, max_doms=128, first_pulses=8):
    """doms (B, D, 7 + 3K) and mask (B, D).

    x, y, z, count, K × (time, charge, auxiliary), earliest time, std of time, summed charge (not its logarithm).
    """
    dom = fb.group_channels(
        key="sensor_id", order="time", first_rows=first_pulses, max_groups=max_doms,
        positions=fb.Lookup(f"{folder}/sensor_geometry.csv", "sensor_id", ["x", "y", "z"]),
        features=[fb.col("time").standardize(1e4, 3e4), fb.col("charge").log10(1e-6).scale(1 / 3), fb.col("auxiliary").offset(-0.5)],
        aggregates={"time": ["min", "std"], fb.col("charge"): "sum"},
    )  # fmt: skip
    return {"doms": dom, "mask": dom.mask(), **targets(folder)}
