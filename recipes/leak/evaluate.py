"""Recordings: probabilities are averaged over short segments, then the long ones vote: `python recipes/leak/evaluate.py CHECKPOINT`.

--way batches    16 recordings a batch
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


def shape(folder):
    """Long and short segments of a recording."""
    with h5py.File(folder / "val.h5") as file:
        return file["segments_mel"].shape[1:3]


def evaluate(predict, batches, folder):
    """How many leaks are found, and how many alarms are right. `predict` takes (B, 1, mels, frames) to (B, classes)."""
    table = {"recording": [], "label": [], "found": [], "votes_for_leak": [], "probability_of_leak": []}
    for batch in batches:
        segments = batch["mel"].flatten(0, 1) if isinstance(batch["mel"], torch.Tensor) else batch["mel"].values
        probability = predict(segments).softmax(-1).unflatten(0, (-1, *shape(folder))).mean(2)  # (B, long, classes)
        votes = probability.argmax(-1)
        table["recording"] += batch["file"].tolist()
        table["label"] += [generate.LABELS[k] for k in batch["label"].tolist()]
        table["found"] += [generate.LABELS[k] for k in votes.mode(1).values.tolist()]
        table["votes_for_leak"] += (votes == LEAK).float().mean(1).tolist()
        table["probability_of_leak"] += probability[..., LEAK].mean(1).tolist()
    found, true = (torch.tensor([name == generate.LABELS[LEAK] for name in table[column]]) for column in ("found", "label"))
    right = (found & true).sum().item()
    recall, others = right / max(true.sum().item(), 1), (~found & ~true).sum().item() / max((~true).sum().item(), 1)
    scores = {"balanced accuracy": (recall + others) / 2, "recall": recall, "precision": right / max(found.sum().item(), 1)}
    return training.Evaluation(scores, table)


def packed(folder, args):
    """Whole recordings, up to 4,096 segments a batch."""
    samples = loader.packed_recordings(folder / "val.h5")
    return samples.loader(loader.packed_outputs(samples.dataset), batch_elements=4096, shuffle=False, memory=args.memory, framework="torch")


def today(folder, args):
    """One recording at a time."""
    for i, (mel, label) in enumerate(baseline.recordings(folder / "val.h5")):
        yield {"mel": mel[None], "label": torch.tensor([label]), "file": torch.tensor([i])}


if __name__ == "__main__":
    evaluation.main("leak", ways={"packed": packed, "today": today})
