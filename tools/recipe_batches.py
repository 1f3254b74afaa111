#!/usr/bin/env python3
"""Are the batches of the recipes the same on two machines, bit for bit? Two epochs of each of their pipeline files, hashed.

    tools/recipe_batches.py generate DATA        what the generators write, a folder for each recipe: once, for both machines
    tools/recipe_batches.py DATA OUT.json        with the Forebay of one machine, and with that of the other
    tools/batch_hashes.py ONE.json OTHER.json    what differs

What generators write may differ from machine to machine, so both read the same files.
"""
import hashlib
import importlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

from batch_hashes import add

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "recipes").glob("*/*.yaml"))


def generate(data):
    sys.path.insert(0, str(ROOT))
    for name in sorted({path.parent.name for path in FILES}):
        print(f"generating {name}", flush=True)
        importlib.import_module(f"recipes.{name}.generate").generate(data / name)


def hashes(path, data):
    """Of two epochs: of each batch. Paths of a pipeline file are relative to it: it is read beside a link `data`."""
    import forebay as fb

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder)
        (Path(folder) / "data").symlink_to(data / path.parent.name)
        epochs = []
        with fb.pipeline(Path(folder) / path.name).loader(framework="numpy") as loader:
            for _ in range(2):
                epochs.append([])
                for batch in loader:
                    hasher = hashlib.blake2b(digest_size=8)
                    add(hasher, batch)
                    epochs[-1].append(hasher.hexdigest())
    return epochs


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    if words[0] == "generate":
        return generate(Path(words[1]).resolve())
    found = {}
    for path in FILES:
        name = f"{path.parent.name}/{path.name}"
        found[name] = hashes(path, Path(words[0]).resolve())
        print(f"{name:24} {', '.join(f'{len(epoch)} batches' for epoch in found[name])}", flush=True)
    Path(words[1]).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
