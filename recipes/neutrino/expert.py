"""Events as an expert loads them: files of pulses as one matrix each, of which a batch's events are gathered in one take.

    train = expert.Events("data", ids, geometry, batch_size=512)
"""

import pathlib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch

from recipes.expert import Expert, runs
from recipes.neutrino import baseline


class Events(Expert):
    """Batches of doms, mask, targets and event_ids; the pulses are grouped by sensor as the owner's torch code does it."""

    def __init__(self, folder, ids, geometry, batch_size=512, seed=0, max_doms=128, first_pulses=8):
        self.folder, self.geometry, self.most = pathlib.Path(folder), geometry, (max_doms, first_pulses)
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
        packed = {
            "pulse_features": torch.from_numpy(pulses.take(runs(begins[rows], n), axis=0)),
            "pulse_to_event": torch.from_numpy(np.repeat(np.arange(len(rows)), n)),
            "event_lengths": n,
        }
        doms, mask = baseline.pack_doms(packed, self.geometry, *self.most)
        return {"doms": doms.numpy(), "mask": mask.numpy(), "targets": targets[rows], "event_ids": ids[rows]}
