"""Basins as an expert loads them: many files at once as one standardised matrix, in which a window is a run of floats.

    train = expert.Basins("data", gauges, TARGET, FEATURES, STATIC, batch_size=512)

Which windows there are, and the moments, are found in one pass over the files.
"""

import pathlib

import numpy as np
import pyarrow.parquet as pq

from recipes.expert import Expert

DAY = np.timedelta64(1, "D")


def static_of(folder, names):
    """{gauge_id: its attributes} out of the tables of the folder."""
    found = {}
    for path in sorted(folder.glob("attributes/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found.setdefault(row["gauge_id"], {}).update(row)
    return {gauge: [row[name] for name in names] for gauge, row in found.items()}


class Basins(Expert):
    """Batches of X, y, future, static, gauge (the file's number) and input_end_date in ns."""

    def __init__(self, folder, gauges, target, features, static, batch_size=512, seed=0, input=365, output=7, part=(0.0, 0.7)):
        folder, wanted = pathlib.Path(folder), set(gauges)
        self.paths = sorted(path for path in folder.glob("series/*/*.parquet") if path.stem in wanted)
        self.columns, self.input, self.length, self.part = [target, *features], input, input + output, part
        of = static_of(folder, static)
        self.static = np.array([of[path.stem] for path in self.paths], np.float32)
        self.mean, self.std, samples, most = self._scan()
        super().__init__(range(len(self.paths)), samples, most * len(self.columns) * 4, batch_size, seed)

    def _file(self, i):
        """Values (days, columns), dates in ns, first rows of the windows."""
        table = pq.read_table(self.paths[i], columns=["date", *self.columns])
        values, dates = np.stack([table[name].to_numpy().astype(np.float32) for name in self.columns], axis=1), table["date"].to_numpy()
        gaps = np.append(np.diff(dates) != DAY, False)
        gone = np.concatenate([[0], np.cumsum(np.isnan(values).any(axis=1))])
        jumps = np.concatenate([[0], np.cumsum(gaps)])
        begin, end = (int(share * len(values) + 1e-6) - self.input for share in self.part)
        first = np.arange(max(0, begin), min(max(0, end), len(values) - self.length + 1))
        return values, dates, first[(gone[first + self.length] == gone[first]) & (jumps[first + self.length - 1] == jumps[first])]

    def _scan(self):
        """Mean and std of the columns over the rows that lie in windows, each once; windows, most rows of a file."""
        n, total, squares, samples, most = 0, 0.0, 0.0, 0, 0
        for i in range(len(self.paths)):
            values, _, first = self._file(i)
            inside = np.zeros(len(values) + 1, np.int64)
            inside[first] += 1
            inside[first + self.length] -= 1
            rows = values[np.cumsum(inside[:-1]) > 0].astype(np.float64)
            n, total, squares = n + len(rows), total + rows.sum(0), squares + (rows**2).sum(0)
            samples, most = samples + len(first), max(most, len(values))
        std = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
        return *(of.astype(np.float32) for of in (total / n, np.where(std == 0, 1, std))), samples, most

    def read(self, pieces):
        matrices, begins, files, ends, at = [], [], [], [], 0
        for i in pieces:
            values, dates, first = self._file(i)
            matrices.append((values - self.mean) / self.std)
            begins.append(first + at)
            files.append(np.full(len(first), i))
            ends.append(dates[first + self.input - 1].astype(np.int64))
            at += len(values)
        runs = np.lib.stride_tricks.sliding_window_view(np.concatenate(matrices).reshape(-1), self.length * len(self.columns))
        windows = tuple(map(np.concatenate, (begins, files, ends)))
        return (runs, *windows), len(windows[0])

    def take(self, lot, rows):
        runs, begins, files, ends = lot
        values = runs[begins[rows] * len(self.columns)].reshape(len(rows), self.length, len(self.columns))
        past, ahead = values[:, : self.input], values[:, self.input :]
        of = files[rows]
        return {"X": past[..., 1:], "y": ahead[..., 0], "future": ahead[..., 1:], "static": self.static[of], "gauge": of, "input_end_date": ends[rows]}
