"""Events as an expert loads them: files of pulses as one matrix each. A batch's events are gathered in one take; one sort then brings the pulses of a
sensor together, and what they add up to is a reduction over runs.

    train = expert.Events("data", ids, geometry, batch_size=512)
"""

import pathlib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from recipes.expert import Expert, runs
from recipes.neutrino import baseline


def in_order(group, time):
    """The order by group, then by time, equal ones as they stand. Times are whole ns, so that one integer of 64 bits holds both."""
    return np.argsort((group << 32) + time.astype(np.int64), kind="stable")


def kept_sensors(event, earliest, events, max_doms):
    """Of sensors that stand by event and number, those that each event has first; and the rows they get in a table of (events * max_doms)."""
    sensors = np.bincount(event, minlength=events)
    rank = np.arange(len(event)) - np.repeat(np.cumsum(sensors) - sensors, sensors)
    kept = rank < max_doms
    return in_order(event, earliest)[kept], (event * max_doms + rank)[kept]


def grouped(pulses, lengths, geometry, max_doms, first_pulses):
    """Doms (B, D, 7 + 3K) and mask (B, D), as `baseline.pack_doms` defines them, of B events whose pulses stand one event after the other."""
    dom = np.repeat(np.arange(len(lengths)), lengths) * len(geometry) + pulses[:, 2].astype(np.int64)
    order = in_order(dom, pulses[:, 0])
    dom, (time, charge, _, auxiliary) = dom[order], pulses[order].T
    begins = np.flatnonzero(np.diff(dom, prepend=-1))
    count, (event, sensor) = np.diff(begins, append=len(dom)), np.divmod(dom[begins], len(geometry))
    scaled, divisor = (time - 1e4) / 3e4, count.astype(np.float32)
    mean = np.add.reduceat(scaled, begins) / divisor
    std = np.sqrt(np.add.reduceat((scaled - np.repeat(mean, count)) ** 2, begins) / divisor)
    values = np.stack([scaled, np.log10(np.maximum(charge, np.float32(1e-6))) / 3, auxiliary - 0.5], axis=1)

    kept, at = kept_sensors(event, time[begins], len(lengths), max_doms)
    first, n, last = begins[kept], count[kept], 4 + 3 * first_pulses
    table = np.zeros((len(kept), last + 3), np.float32)
    table[:, :3], table[:, 3] = geometry.take(sensor[kept], axis=0), n
    for k in range(first_pulses):  # most sensors have one pulse: fewer have a pulse k with every k
        more = np.flatnonzero(n > k)
        table[more, 4 + 3 * k : 7 + 3 * k] = values.take(first[more] + k, axis=0)
    table[:, last], table[:, last + 1], table[:, last + 2] = scaled[first], std[kept], np.add.reduceat(charge, begins)[kept]

    doms, mask = np.zeros((len(lengths) * max_doms, last + 3), np.float32), np.zeros(len(lengths) * max_doms, bool)
    doms[at], mask[at] = table, True
    return doms.reshape(len(lengths), max_doms, -1), mask.reshape(len(lengths), max_doms)


class Events(Expert):
    """Batches of doms, mask, targets and event_ids."""

    def __init__(self, folder, ids, geometry, batch_size=512, seed=0, max_doms=128, first_pulses=8):
        self.folder, self.geometry, self.most = pathlib.Path(folder), np.asarray(geometry, np.float32), (max_doms, first_pulses)
        meta = pd.read_parquet(self.folder / "train_meta.parquet")
        files = [rows for _, rows in meta[meta["event_id"].isin(ids)].groupby("batch_id")]
        pulses = max(int(rows["last_pulse_index"].max()) + 1 for rows in files)
        super().__init__(files, sum(map(len, files)), pulses * len(baseline.FEATURES) * 4, batch_size, seed)

    def read(self, pieces):
        pulses, begins, at = [], [], 0
        for events in pieces:
            path = self.folder / "train" / f"batch_{events['batch_id'].iloc[0]}.parquet"
            table = pq.read_table(path, columns=list(baseline.FEATURES))
            pulses.append(np.stack([column.to_numpy().astype(np.float32) for column in table.itercolumns()], axis=1))
            begins.append(events["first_pulse_index"].to_numpy() + at)
            at += len(table)
        events = pd.concat(pieces)
        lengths = (events["last_pulse_index"] - events["first_pulse_index"] + 1).to_numpy()
        targets, ids = events[["azimuth", "zenith"]].to_numpy(np.float32), events["event_id"].to_numpy()
        return (np.concatenate(pulses), np.concatenate(begins), lengths, targets, ids), len(events)

    def take(self, lot, rows):
        pulses, begins, lengths, targets, ids = lot
        n = lengths[rows]
        doms, mask = grouped(pulses.take(runs(begins[rows], n), axis=0), n, self.geometry, *self.most)
        return {"doms": doms, "mask": mask, "targets": targets[rows], "event_ids": ids[rows]}
