#!/usr/bin/env python3
"""Training with Hugging Face Accelerate, stopped and resumed anywhere.

    accelerate launch --cpu --num_processes 2 train_accelerate.py --folder /tmp/rivers
    accelerate launch --cpu --num_processes 2 train_accelerate.py --folder /tmp/rivers --stop-after 20     # saves a checkpoint and ends
    accelerate launch --cpu --num_processes 4 train_accelerate.py --folder /tmp/rivers --resume            # goes on there, on other ranks

The loader is not given to accelerator.prepare(): it gives each rank its own share already.
"""

import argparse
from pathlib import Path

import rivers
import torch
from accelerate import Accelerator

import forebay as fb


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--folder", type=Path, required=True, help="where the data are made, and the checkpoint is kept")
    arguments.add_argument("--epochs", type=int, default=2)
    arguments.add_argument("--global-batch", type=int, default=320, help="samples a step, over all ranks")
    arguments.add_argument("--stop-after", type=int, help="save and end after so many steps")
    arguments.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    args = arguments.parse_args()

    accelerator = Accelerator()
    if accelerator.is_main_process and not (args.folder / "data").exists():
        rivers.make(args.folder / "data")
    accelerator.wait_for_everyone()

    model = rivers.model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    model, optimizer = accelerator.prepare(model, optimizer)  # not the loader
    outputs = {"x": rivers.INPUTS, "y": "flow", "row": fb.sample_index()}
    loader = fb.open(args.folder / "data").rows().loader(
        outputs, batch_size=args.global_batch // accelerator.num_processes, seed=0, superbatch="4 blocks", device=accelerator.device
    )  # fmt: skip
    accelerator.register_for_checkpointing(loader)  # save_state() and load_state() then keep its place
    checkpoint = args.folder / "checkpoint"
    if args.resume:
        accelerator.load_state(checkpoint)

    step = 0
    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        loss_sum = torch.zeros((), device=accelerator.device)
        rows = []
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            accelerator.backward(loss)  # averages gradients over ranks
            optimizer.step()
            loss_sum += loss.detach() * len(batch["y"])
            rows.append(batch["row"])
            step += 1
            if step == args.stop_after:
                break
        rows = accelerator.gather(torch.cat(rows))
        loss_mean = accelerator.reduce(loss_sum) / len(rows)
        weights = sum(p.detach().double().abs().sum() for p in model.parameters())
        accelerator.print(f"epoch {epoch} samples {len(rows)} distinct {len(rows.unique())} loss {loss_mean:.6f} weights {weights:.9f}")
        if step == args.stop_after:
            accelerator.save_state(checkpoint)
            break
    loader.close()
    accelerator.end_training()


if __name__ == "__main__":
    main()
