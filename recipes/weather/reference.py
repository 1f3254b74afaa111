"""What the batches of fields must hold, by definition: netCDF4 and NumPy. A window is named by the last time of its input."""

import netCDF4
import numpy as np


class Reference:
    """All windows of some files."""

    def __init__(self, paths, variables, target, input=4, output=2, step=6, time="time"):
        self.variables, self.target, self.input, self.length = tuple(variables), target, input, input + output
        self.files, self.windows = [], {}
        for f, path in enumerate(paths):
            with netCDF4.Dataset(path) as file:
                times = np.asarray(file[time][:])
                self.files.append({name: np.ma.filled(file[name][:].astype(np.float64), np.nan) for name in self.variables})
            for s in range(len(times) - self.length + 1):
                if (np.diff(times[s : s + self.length]) == step).all():
                    self.windows[int(times[s + input - 1])] = f, s

    def ids(self):
        """Of every window."""
        return set(self.windows)

    def moments(self):
        """{variable: (mean, std)} over the times that lie in windows, each once, without what is missing."""
        inside = [np.zeros(len(file[self.target]), bool) for file in self.files]
        for f, s in self.windows.values():
            inside[f][s : s + self.length] = True
        of = {name: np.concatenate([file[name][rows].ravel() for file, rows in zip(self.files, inside)]) for name in self.variables}
        return {name: (np.nanmean(values), np.nanstd(values)) for name, values in of.items()}

    def batch(self, ids):
        """x and y of the named windows in float64."""
        moments, x, y = self.moments(), [], []
        for f, s in (self.windows[i] for i in ids):
            scaled = {name: np.nan_to_num((self.files[f][name][s : s + self.length] - m) / std) for name, (m, std) in moments.items()}
            x.append(np.stack([scaled[name][: self.input] for name in self.variables], 1))
            y.append(scaled[self.target][self.input :])
        return np.stack(x), np.stack(y)
