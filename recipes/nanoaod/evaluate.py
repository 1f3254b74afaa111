"""Area under the curve of top quarks against Z bosons, and every event's probability: `python recipes/nanoaod/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch
from torchmetrics.functional.classification import binary_auroc

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training


def evaluate(predict, batches):
    """`predict` takes a batch to logits (B)."""
    table = {"event": [], "label": [], "probability": []}
    for batch in batches:
        table["event"] += batch["event"].tolist()
        table["label"] += batch["label"].tolist()
        table["probability"] += predict(batch).sigmoid().tolist()
    found, true = torch.tensor(table["probability"]), torch.tensor(table["label"])
    right = (found > 0.5) == (true > 0)
    return training.Evaluation({"auc": binary_auroc(found, true.long()).item(), "accuracy": right.float().mean().item()}, table)


if __name__ == "__main__":
    evaluation.main("nanoaod")
