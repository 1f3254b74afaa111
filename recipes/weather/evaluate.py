"""Errors of forecasts in kelvin, weighted by area, beside those of persistence: `python recipes/weather/evaluate.py CHECKPOINT`."""

import pathlib
import sys

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import evaluation, training
from recipes.weather import generate


class Scores:
    """`predict` takes a batch to (B, output, lat, lon), standardised; `std` is that of the target. Skill is 1 for no error and 0 for that of the mean."""

    def __init__(self, latitude, std):
        weight = torch.as_tensor(latitude).deg2rad().cos().clamp(min=0)[:, None]
        self.weight, self.std, self.sums, self.n = weight / weight.mean(), std, 0, 0

    def add(self, predict, batch):
        y, last = batch["y"].double(), batch["x"][:, -1:, 0].double()
        guesses = (predict(batch).double(), last, torch.zeros_like(y))
        errors = [((guess - y) ** 2 * self.weight.to(y.device)).mean((-2, -1)).sum(0) for guess in guesses]
        self.sums, self.n = self.sums + torch.stack(errors), self.n + len(y)

    def result(self):
        (found, persistence, mean), std = self.sums / self.n, self.std
        table = {"hours": [generate.HOURS * (k + 1) for k in range(len(found))], "rmse": (std * found.sqrt()).tolist()}
        table |= {"rmse_of_persistence": (std * persistence.sqrt()).tolist(), "skill": (1 - found / mean).tolist()}
        scores = {"skill": 1 - (found.mean() / mean.mean()).item(), "rmse": std * found.mean().sqrt().item()}
        return training.Evaluation({**scores, "rmse of persistence": std * persistence.mean().sqrt().item()}, table)


if __name__ == "__main__":
    evaluation.main("weather")
