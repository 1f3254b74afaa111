"""Recordings: probabilities are averaged over short segments, then the long ones vote: `python recipes/leak/evaluate.py CHECKPOINT`.

--way batches    16 recordings a batch, or --batch-size
--way packed     recordings packed to 4,096 segments a batch
--way today      one recording at a time, as the owner's loop does it
"""

import pathlib
import sys

import h5py
import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training
from recipes.leak import baseline, generate, loader

LEAK = 0
RECORDINGS = 16  # a batch


class Scores:
    """How many leaks are found, and how many alarms are right. `predict` takes a batch to the logits of its segments, (segments, classes)."""

    def __init__(self, folder):
        self.table = {"recording": [], "label": [], "found": [], "votes_for_leak": [], "probability_of_leak": []}
        with h5py.File(folder / "val.h5") as file:
            self.shape = file["segments_mel"].shape[1:3]  # long and short segments of a recording

    def add(self, predict, batch):
        probability = predict(batch).float().softmax(-1).unflatten(0, (-1, *self.shape)).mean(2)  # (B, long, classes)
        votes, table = probability.argmax(-1), self.table
        table["recording"] += batch["file"].tolist()
        table["label"] += [generate.LABELS[k] for k in batch["label"].tolist()]
        table["found"] += [generate.LABELS[k] for k in votes.mode(1).values.tolist()]
        table["votes_for_leak"] += (votes == LEAK).float().mean(1).tolist()
        table["probability_of_leak"] += probability[..., LEAK].mean(1).tolist()

    def result(self):
        found, true = (torch.tensor([name == generate.LABELS[LEAK] for name in self.table[column]]) for column in ("found", "label"))
        right = (found & true).sum().item()
        recall, others = right / max(true.sum().item(), 1), (~found & ~true).sum().item() / max((~true).sum().item(), 1)
        there = [share for share, of in ((recall, true), (others, ~true)) if of.any()]  # a few recordings may have no leak
        scores = {"balanced accuracy": sum(there) / len(there), "recall": recall, "precision": right / max(found.sum().item(), 1)}
        return training.Evaluation(scores, self.table)


def packed(folder, args):
    """Whole recordings, up to 4,096 segments a batch."""
    samples = loader.packed_recordings(folder / f"{args.split}.h5")
    return samples.loader(loader.packed_outputs(samples.dataset), batch_elements=4096, shuffle=False, memory=args.memory, framework="torch")


def today(folder, args):
    """One recording at a time."""
    for i, (mel, label) in enumerate(baseline.recordings(folder / f"{args.split}.h5")):
        yield {"mel": mel[None], "label": torch.tensor([label]), "file": torch.tensor([i])}


if __name__ == "__main__":
    evaluation.main("leak", ways={"packed": packed, "today": today}, memory="32MiB", batch_size=RECORDINGS)
