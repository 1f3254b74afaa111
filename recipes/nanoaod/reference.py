"""What the batches of NanoAOD events must hold, by definition: pyarrow and NumPy, one event at a time. An event is named by its number."""

import numpy as np
import pyarrow.parquet as pq

from recipes.nanoaod.loader import JETS, MUONS, PROCESSES

SCALARS = ("event", "nMuon", "MET_pt", "MET_phi")


class Reference:
    """Events of files by process, {"dy": [paths], …}, with at least so many muons."""

    def __init__(self, files, least_muons=1):
        self.events = {}
        for process, paths in files.items():
            for path in paths:
                for row in pq.read_table(path, columns=[*SCALARS, *JETS, *MUONS]).to_pylist():
                    if row["nMuon"] >= least_muons:
                        self.events[row["event"]] = {**row, "label": PROCESSES[process]}

    def ids(self):
        """All events' numbers."""
        return set(self.events)

    def objects(self, ids, columns, most):
        """(B, most, F) and its mask: the first so many of each event, zeros after them."""
        values, mask = np.zeros((len(ids), most, len(columns)), np.float32), np.zeros((len(ids), most), bool)
        for b, i in enumerate(ids):
            for f, name in enumerate(columns):
                of = self.events[i][name][:most]
                values[b, : len(of), f] = of
                mask[b, : len(of)] = True
        return values, mask

    def scalars(self, ids):
        """met (B, 2) and label (B)."""
        of = [self.events[i] for i in ids]
        return np.array([[e["MET_pt"], e["MET_phi"]] for e in of], np.float32), np.array([e["label"] for e in of])
