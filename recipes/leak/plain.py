"""The same training as the plain loop that its owner has: `python recipes/leak/plain.py --checkpoint kept.pt`. Run again, it goes on where that was
written, in the middle of an epoch too."""

import argparse
import pathlib
import sys

import torch

import forebay.torch

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import training
from recipes.leak import train


def main(argv=None):
    """The losses of the batches of this run."""
    with training.said_by("plain.py"):
        return _main(argv)


def _main(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    add, defaults = parser.add_argument, train.RECIPE.defaults
    add("--data", type=pathlib.Path, default=pathlib.Path(__file__).parent / "data", help="generated when it is not there")
    add("--batch-size", type=training.count, default=defaults["batch_size"])
    add("--epochs", type=training.count, default=defaults["epochs"])
    add("--learning-rate", type=training.positive, default=defaults["learning_rate"])
    add("--accumulate", type=training.count, default=1, help="batches a step of the optimizer")
    add("--half", action="store_true", help="bfloat16, or float16 with scaled gradients on a GPU")
    add("--memory", help="the loader's budget: by default as of train.py")
    add("--checkpoint", type=pathlib.Path, help="a file, written every --checkpoint-every steps and after each epoch; gone on from when it is there")
    add("--checkpoint-every", type=training.count, default=100)
    add("--seed", type=training.whole, default=0)
    add("--device", type=training.device, default="auto")
    args = parser.parse_args(argv)
    training.ready(train.RECIPE, args.data, None)
    args.memory = args.memory or training.budget(train.RECIPE, args.data)

    if args.checkpoint:
        args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    network = train.Network().to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), args.learning_rate)
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.half and args.device.type == "cuda")
    device = {"device": str(args.device)} if args.device.type == "cuda" else {}
    batches = train.data("train", args.data, args, seed=args.seed, **device)
    kept = {"network": network, "optimizer": optimizer, "scaler": scaler, "batches": batches}
    epoch, steps, losses = 0, 0, []
    if args.checkpoint and args.checkpoint.exists():
        state = training.unpickled(args.checkpoint)
        if other := {"epoch", "steps", *kept} ^ set(state if isinstance(state, dict) else ()):
            raise SystemExit(f"plain.py: {args.checkpoint} is not what --checkpoint kept: {min(other)}")
        epoch, steps = state["epoch"], state["steps"]
        for name, part in kept.items():
            part.load_state_dict(state[name])

    def save():
        partial = args.checkpoint.with_name(f"{args.checkpoint.name}-partial")
        torch.save({"epoch": epoch, "steps": steps, **{name: part.state_dict() for name, part in kept.items()}}, partial)
        partial.replace(args.checkpoint)

    while epoch < args.epochs:
        began, place = len(losses), batches.state_dict()["batch"]
        for batch in batches:
            batch = forebay.torch.to_device(batch, args.device)
            with torch.autocast(args.device.type, enabled=args.half):
                loss = train.loss(network, batch)
            scaler.scale(loss / args.accumulate).backward()
            losses.append(loss.detach())
            place += 1
            if place % args.accumulate and place < len(batches):
                continue
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            steps += 1
            if args.checkpoint and steps % args.checkpoint_every == 0 and place < len(batches):
                save()
        print(f"epoch {epoch}: loss {torch.stack(losses[began:]).mean():.4f}")
        epoch += 1
        if args.checkpoint:
            save()
    batches.close()
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    main()
