"""How such events are loaded by hand: columns of all files in memory as Arrow, an event an item, cut and padded in Python.

    train = baseline.loader({"dy": paths, "tt": paths}, batch_size=1024)
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, Dataset

JETS = ("Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagDeepFlavB")
MUONS = ("Muon_pt", "Muon_eta", "Muon_phi", "Muon_charge")


class EventDataset(Dataset):
    """One event an item."""

    def __init__(self, files, least_muons=1, max_jets=8, max_muons=4):
        self.max_jets, self.max_muons, tables, labels = max_jets, max_muons, [], []
        for label, paths in enumerate(files.values()):
            for path in paths:
                table = pq.read_table(path, columns=["event", "nMuon", "MET_pt", "MET_phi", *JETS, *MUONS])
                tables.append(table.filter(pc.greater_equal(table["nMuon"], least_muons)))
                labels += [label] * len(tables[-1])
        self.columns = {name: column.combine_chunks() for name, column in zip(tables[0].column_names, pa.concat_tables(tables).columns)}
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def _objects(self, i, columns, most):
        values, mask = np.zeros((most, len(columns)), np.float32), np.zeros(most, bool)
        for f, name in enumerate(columns):
            of = self.columns[name][i].values.to_numpy()[:most]
            values[: len(of), f] = of
            mask[: len(of)] = True
        return torch.from_numpy(values), torch.from_numpy(mask)

    def __getitem__(self, i):
        met = torch.tensor([self.columns[name][i].as_py() for name in ("MET_pt", "MET_phi")])
        return *self._objects(i, JETS, self.max_jets), *self._objects(i, MUONS, self.max_muons), met, self.columns["event"][i].as_py(), self.labels[i]


def loader(files, batch_size=1024, workers=8):
    """A shuffling DataLoader of (jets, their mask, muons, their mask, met, event, label)."""
    return DataLoader(EventDataset(files), batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
