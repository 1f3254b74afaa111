"""Nash-Sutcliffe (NSE) and Kling-Gupta (KGE) efficiency of every basin, in units of the discharge: `python recipes/hydrology/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training


class Scores:
    """`predict` takes a batch to (B, output), standardised; the inverse of `moments` takes that back. Scores are medians over basins."""

    def __init__(self, moments, target, names):
        self.moments, self.target, self.names, self.seen = moments, target, names, []

    def add(self, predict, batch):
        self.seen.append([values.float().cpu() for values in (predict(batch), batch["y"])] + [batch["gauge"].cpu()])

    def result(self):
        found, true, gauge = map(torch.cat, zip(*self.seen))
        found, true = (torch.as_tensor(self.moments.inverse(values.numpy(), self.target)).double() for values in (found, true))
        table = {"gauge_id": [], "windows": [], "NSE": [], "KGE": []}
        for basin in gauge.unique():
            of = gauge == basin
            f, t = found[of].flatten(), true[of].flatten()
            r = torch.corrcoef(torch.stack([f, t]))[0, 1]
            table["gauge_id"].append(self.names[basin])
            table["windows"].append(int(of.sum()))
            table["NSE"].append((1 - ((f - t) ** 2).sum() / ((t - t.mean()) ** 2).sum()).item())
            table["KGE"].append((1 - ((r - 1) ** 2 + (f.std() / t.std() - 1) ** 2 + (f.mean() / t.mean() - 1) ** 2).sqrt()).item())
        return training.Evaluation({name: torch.tensor(table[name]).nanmedian().item() for name in ("NSE", "KGE")}, table)


if __name__ == "__main__":
    evaluation.main("hydrology")
