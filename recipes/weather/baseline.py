"""How such fields are loaded by hand: h5py, a window an item, unpacked and standardised in Python.

    train = baseline.loader(paths, mean, std, batch_size=32)
"""

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

VARIABLES = ("t2m", "u10", "v10")


def moments(paths):
    """(mean, std) of every variable, a variable of a file at a time."""
    mean, std = {}, {}
    for name in VARIABLES:
        n, total, squares = 0, 0.0, 0.0
        for path in paths:
            with h5py.File(path) as file:
                stored = file[name][()]
                values = stored[stored != file[name].attrs["_FillValue"]] * file[name].attrs["scale_factor"] + file[name].attrs["add_offset"]
            n, total, squares = n + len(values), total + values.sum(dtype=np.float64), squares + np.square(values, dtype=np.float64).sum()
        mean[name], std[name] = total / n, np.sqrt(squares / n - (total / n) ** 2)
    return mean, std


class FieldDataset(Dataset):
    """One window an item; files are opened once a process."""

    def __init__(self, paths, mean, std, input=4, output=2):
        self.paths, self.mean, self.std, self.input, self.length = [str(path) for path in paths], mean, std, input, input + output
        self.open, self.index = {}, []
        for f, path in enumerate(self.paths):
            with h5py.File(path) as file:
                self.index += [(f, s) for s in range(len(file["time"]) - self.length + 1)]

    def __len__(self):
        return len(self.index)

    def _opened(self, path):
        """The file, and of every variable what unpacks it."""
        file = h5py.File(path)
        return file, {name: [file[name].attrs[of] for of in ("_FillValue", "scale_factor", "add_offset")] for name in VARIABLES}

    def _variable(self, file, unpack, name, start):
        values, (fill, factor, offset) = file[name][start : start + self.length], unpack[name]
        missing = values == fill
        values = (values * factor + offset - self.mean[name]) / self.std[name]
        values[missing] = 0
        return values.astype(np.float32)

    def __getitem__(self, i):
        f, start = self.index[i]
        if f not in self.open:
            self.open[f] = self._opened(self.paths[f])
        file, unpack = self.open[f]
        fields = np.stack([self._variable(file, unpack, name, start) for name in VARIABLES], 1)  # (length, variables, lat, lon)
        time = int(file["time"][start + self.input - 1])
        return {"x": torch.from_numpy(fields[: self.input]), "y": torch.from_numpy(fields[self.input :, 0]), "time": time}


def loader(paths, mean, std, batch_size=32, workers=8, **options):
    """A shuffling DataLoader."""
    return DataLoader(FieldDataset(paths, mean, std, **options), batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
