"""Area under the curve of every class against the rest: `python recipes/jets/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch
from torchmetrics.functional.classification import multiclass_auroc

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training
from recipes.jets import generate


class Scores:
    """`predict` takes a batch to logits (B, classes)."""

    def __init__(self):
        self.seen = []

    def add(self, predict, batch):
        self.seen.append((predict(batch).float().softmax(-1).cpu(), batch["labels"].long().cpu()))

    def result(self):
        found, true = map(torch.cat, zip(*self.seen))
        classes = len(generate.LABELS)
        right = found.argmax(-1) == true
        scores = {"auc": multiclass_auroc(found, true, classes).item(), "accuracy": right.float().mean().item()}
        of = torch.bincount(true, minlength=classes)
        table = {"class": list(generate.LABELS), "events": of.tolist(), "auc": multiclass_auroc(found, true, classes, average=None).tolist()}
        table["recall"] = (torch.bincount(true[right], minlength=classes) / of.clamp(min=1)).tolist()
        return training.Evaluation(scores, table)


if __name__ == "__main__":
    evaluation.main("jets")
