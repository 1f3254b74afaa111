"""What the batches of events must hold, by definition: pandas and NumPy, one event at a time. An event is named by its event_id."""

import pathlib

import numpy as np
import pandas as pd

FEATURES = ("time", "charge", "sensor_id", "auxiliary")


class Reference:
    """Events of folders as generate.py writes them."""

    def __init__(self, folder, ids=None):
        folder = pathlib.Path(folder)
        meta = pd.read_parquet(folder / "train_meta.parquet")
        if ids is not None:
            meta = meta[meta["event_id"].isin(set(ids))]
        self.meta = meta.set_index("event_id")
        self.pulses = {batch: pd.read_parquet(folder / "train" / f"batch_{batch}.parquet").reset_index() for batch in meta["batch_id"].unique()}
        self.columns = {batch: {name: frame[name].to_numpy() for name in (*FEATURES, "event_id")} for batch, frame in self.pulses.items()}
        self.geometry = pd.read_csv(folder / "sensor_geometry.csv").set_index("sensor_id")[["x", "y", "z"]].to_numpy()

    def ids(self):
        """All event ids."""
        return set(self.meta.index.tolist())

    def event(self, event_id):
        """Its pulses as columns."""
        row = self.meta.loc[event_id]
        rows = slice(int(row["first_pulse_index"]), int(row["last_pulse_index"]) + 1)
        columns = self.columns[int(row["batch_id"])]
        assert (columns["event_id"][rows] == event_id).all()
        return {name: columns[name][rows] for name in FEATURES}

    def targets(self, ids):
        """(B, 2): azimuth, zenith."""
        return self.meta.loc[list(ids), ["azimuth", "zenith"]].to_numpy(np.float64)

    def packed(self, ids):
        """(pulse_features (ΣL, 4), pulse_to_event (ΣL), event_lengths (B)) in float32."""
        events = [self.features(i) for i in ids]
        n = [len(event) for event in events]
        return np.concatenate(events), np.repeat(np.arange(len(n)), n), np.array(n)

    def features(self, event_id):
        """(L, 4) in float32."""
        event = self.event(event_id)
        return np.stack([event[name].astype(np.float64) for name in FEATURES], 1).astype(np.float32)

    def doms(self, event_id, max_doms, first_pulses):
        """(n, 7 + 3K): of each sensor, the earliest first: its place, count, first K pulses, earliest time, std of time, summed charge."""
        event = self.event(event_id)
        time, charge = event["time"].astype(np.float64), event["charge"]
        scaled = (time - 1e4) / 3e4
        pulses = np.stack([scaled, np.log10(np.maximum(charge, 1e-6)) / 3, event["auxiliary"] - 0.5], 1)
        sensors = {}
        for row in np.argsort(time, kind="stable"):  # ties as they lie
            sensors.setdefault(event["sensor_id"][row], []).append(row)
        order = {sensor: i for i, sensor in enumerate(dict.fromkeys(event["sensor_id"].tolist()))}  # equal earliest times: by first appearance
        rows = []
        for sensor, at in sensors.items():
            first = np.zeros((first_pulses, 3))
            first[: len(at)] = pulses[at[:first_pulses]]
            channels = [*self.geometry[sensor], len(at), *first.ravel(), scaled[at[0]], scaled[at].std(), charge[at].sum()]
            rows.append(((time[at[0]], order[sensor]), channels))
        rows.sort(key=lambda row: row[0])
        return np.array([row for _, row in rows[:max_doms]])


def is_subset_in_order(part, whole):
    """Are the rows of `part` rows of `whole`, in its order?"""
    at = 0
    for row in part:
        while at < len(whole) and not np.array_equal(whole[at], row):
            at += 1
        if at == len(whole):
            return False
        at += 1
    return True
