#!/usr/bin/env python3
"""Training with Ray Train, which starts anew after a failure and goes on from its last checkpoint.

    pip install "ray[train]" torch
    python train_ray.py --folder /tmp/rivers --workers 2
    python train_ray.py --folder /tmp/rivers --workers 2 --crash-at 30      # a worker dies once; the run goes on by itself

Every worker opens the same files and gets the share of its rank. `ray.train.get_context()` says which that is; a loader that is not told
finds it there by itself.
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray
import ray.train
import ray.train.torch
import rivers
import torch

import forebay as fb


def train(config):
    """On every worker."""
    context = ray.train.get_context()
    world, rank = context.get_world_size(), context.get_world_rank()
    model = ray.train.torch.prepare_model(rivers.model())
    weights = model.module if world > 1 else model  # under the wrapper that averages gradients
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    samples = fb.open(Path(config["folder"]) / "data").rows()
    loader = samples.loader(
        {"x": rivers.INPUTS, "y": "flow"}, batch_size=config["global_batch"] // world, seed=0, superbatch="4 blocks",
        rank=rank, world_size=world, device=ray.train.torch.get_device(),
    )  # fmt: skip

    step, samples, loss_sum = 0, 0, 0.0  # of the epoch under way, this rank's
    found = ray.train.get_checkpoint()
    if found:
        with found.as_directory() as folder:
            saved = torch.load(Path(folder) / "state.pt", weights_only=True)
        weights.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step, samples, loss_sum = saved["step"], saved["samples"], saved["loss_sum"]

    def report(metrics):
        """Metrics of all ranks and, from the first, a checkpoint that any number of workers can go on from."""
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                state = {"model": weights.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
                torch.save({**state, "step": step, "samples": samples, "loss_sum": loss_sum}, Path(folder) / "state.pt")
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=checkpoint)

    for epoch in range(loader.state_dict()["epoch"], config["epochs"]):
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"])[:, 0], batch["y"])
            optimizer.zero_grad()
            loss.backward()  # averages gradients over ranks
            optimizer.step()
            sums = torch.tensor([loss.item() * len(batch["y"]), len(batch["y"])], dtype=torch.float64)
            if world > 1:
                torch.distributed.all_reduce(sums)
            loss_sum, samples, step = loss_sum + sums[0].item(), samples + int(sums[1]), step + 1
            crash = Path(config["folder"]) / "crashed"
            if step == config["crash_at"] and rank == world - 1 and not crash.exists():
                crash.touch()
                os._exit(1)
            if step % 20 == 0:
                report({"step": step})
        metrics = {"epoch": epoch, "step": step, "samples": samples, "loss": loss_sum / samples}
        samples, loss_sum = 0, 0.0
        report({**metrics, "weights": sum(p.detach().double().abs().sum().item() for p in model.parameters())})
    loader.close()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--folder", type=Path, required=True, help="where the data are made, and Ray keeps its results")
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--epochs", type=int, default=2)
    arguments.add_argument("--global-batch", type=int, default=320, help="samples a step, over all workers")
    arguments.add_argument("--crash-at", type=int, help="the last worker dies at this step, once")
    args = arguments.parse_args()
    folder = args.folder.resolve()
    if not (folder / "data").exists():
        rivers.make(folder / "data")

    ray.init(num_cpus=args.workers, include_dashboard=False)
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"folder": str(folder), "epochs": args.epochs, "global_batch": args.global_batch, "crash_at": args.crash_at},
        scaling_config=ray.train.ScalingConfig(num_workers=args.workers),
        run_config=ray.train.RunConfig(
            storage_path=str(folder / "ray"), name="rivers", failure_config=ray.train.FailureConfig(max_failures=1)
        ),
    )
    metrics = trainer.fit().metrics
    print(" ".join(f"{name} {metrics[name]}" for name in ("epoch", "step", "samples", "loss", "weights")))
    ray.shutdown()


if __name__ == "__main__":
    main()
