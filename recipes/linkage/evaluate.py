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


def evaluate(predict, batches):
    """`predict` takes bits to logits of two-grams; above 0 is found."""
    counts = 0
    for bits, labels, _ in batches:
        guess, true = predict(bits) > 0, labels > 0
        counts = counts + torch.stack([true.sum(0), guess.sum(0), (guess & true).sum(0)])
    (there, found, right), total = counts.double(), counts.sum(1).double()
    table = {"gram": baseline.all_two_grams(), "there": there.long().tolist(), "found": found.long().tolist()}
    table |= {"precision": ratio(right, found).tolist(), "recall": ratio(right, there).tolist()}
    scores = {"f1": ratio(2 * total[2], total[0] + total[1]), "precision": ratio(total[2], total[1]), "recall": ratio(total[2], total[0])}
    return training.Evaluation({name: value.item() for name, value in scores.items()}, table)


if __name__ == "__main__":
    evaluation.main("linkage")
