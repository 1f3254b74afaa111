"""Precision and recall of two-grams, over all records and of every gram: `python recipes/linkage/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training
from recipes.linkage import baseline


def ratio(a, b):
    """a / b, and 0 where there is nothing."""
    return a / b.clamp(min=1)


class Scores:
    """`predict` takes a batch to logits of two-grams; above 0 is found."""

    def __init__(self):
        self.counts = 0

    def add(self, predict, batch):
        guess, true = predict(batch) > 0, batch[1] > 0
        self.counts = self.counts + torch.stack([true.sum(0), guess.sum(0), (guess & true).sum(0)]).cpu()

    def result(self):
        (there, found, right), total = self.counts.double(), self.counts.sum(1).double()
        table = {"gram": baseline.all_two_grams(), "there": there.long().tolist(), "found": found.long().tolist()}
        table |= {"precision": ratio(right, found).tolist(), "recall": ratio(right, there).tolist()}
        scores = {"f1": ratio(2 * total[2], total[0] + total[1]), "precision": ratio(total[2], total[1]), "recall": ratio(total[2], total[0])}
        return training.Evaluation({name: value.item() for name, value in scores.items()}, table)


if __name__ == "__main__":
    evaluation.main("linkage")
