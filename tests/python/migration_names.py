"""What the blocks of docs/migration.md take for granted: files, a frame, a model, and the names of a program around them."""

import pathlib

import accelerate
import lightning
import numpy as np
import pandas as pd
import torch

import forebay as fb
import forebay.lightning

rng = np.random.default_rng(0)
df = pd.DataFrame({name: rng.standard_normal(4_000).astype("f4") for name in ("prcp", "tmax", "flow", "label")})
df["uid"] = [f"u{i}" for i in range(len(df))]
for folder in ("data", "train", "val"):
    pathlib.Path(folder).mkdir()
    for i in range(2):
        df.to_parquet(f"{folder}/{i}.parquet", row_group_size=500)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch):
        return (self.layer(batch["x"])[:, 0] - batch["y"]).square().mean()

    def validation_step(self, batch):
        self.log("loss", self.training_step(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)


DEVICE = "cuda" if torch.cuda.is_available() else None
COLUMNS = features = columns = ["prcp", "tmax"]
outputs, epochs, tqdm, Accelerator = {"x": features}, 2, iter, accelerate.Accelerator
model = Model()
optimizer = model.configure_optimizers()
trainer = lightning.Trainer(max_epochs=1, accelerator="auto", logger=False, enable_progress_bar=False, enable_model_summary=False)
