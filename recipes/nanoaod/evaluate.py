"""Area under the curve of top quarks against Z bosons, and every event's probability: `python recipes/nanoaod/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch
from torchmetrics.functional.classification import binary_auroc

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training


class Scores:
    """`predict` takes a batch to logits (B)."""

    def __init__(self):
        self.table = {"event": [], "label": [], "probability": []}

    def add(self, predict, batch):
        self.table["event"] += batch["event"].tolist()
        self.table["label"] += batch["label"].tolist()
        self.table["probability"] += predict(batch).sigmoid().tolist()

    def result(self):
        found, true = torch.tensor(self.table["probability"]), torch.tensor(self.table["label"])
        right = (found > 0.5) == (true > 0)
        return training.Evaluation({"auc": binary_auroc(found, true.long()).item(), "accuracy": right.float().mean().item()}, self.table)


if __name__ == "__main__":
    evaluation.main("nanoaod")
