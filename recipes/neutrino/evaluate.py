"""The angle between the direction that was found and the true one, of every event: `python recipes/neutrino/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training


def direction(targets):
    """Unit vectors (B, 3) of azimuth and zenith (B, 2)."""
    azimuth, zenith = targets.float().unbind(-1)
    return torch.stack([zenith.sin() * azimuth.cos(), zenith.sin() * azimuth.sin(), zenith.cos()], -1)


class Scores:
    """`predict` takes a batch to directions (B, 3) of any length. Radians; the table in degrees."""

    def __init__(self):
        self.angles, self.ids = [], []

    def add(self, predict, batch):
        cosine = torch.nn.functional.cosine_similarity(predict(batch).float(), direction(batch["targets"]), dim=-1)
        self.angles.append(cosine.clamp(-1, 1).acos().cpu())
        self.ids += batch["event_ids"].tolist()

    def result(self):
        angles = torch.cat(self.angles)
        scores = {"angular error": angles.mean().item(), "median error": angles.median().item()}
        return training.Evaluation(scores, {"event_id": self.ids, "degrees": angles.rad2deg().tolist()})


if __name__ == "__main__":
    evaluation.main("neutrino")
