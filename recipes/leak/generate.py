"""Makes mel spectrograms of listening posts on water pipes: one HDF5 file a split, five axes, one label a recording.

    python recipes/leak/generate.py OUT [--scale small|medium|bench|full] [--files N] [--long N] [--short N] [--mels N] [--frames N] [--dtype float16]
                                        [--channel] [--gzip] [--seed N]

    OUT/{train,val,test}.h5    segments_mel (files, long, short, [1,] mels, frames); labels (files) int16; attributes labels_json, config_json

Recordings with a leak hum in a few bands, some too faintly to be found. val.h5 and test.h5 have a quarter as many recordings as train.h5.
"""

import json
import pathlib
import sys

import h5py
import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

LABELS = ("leak", "no_leak", "pump", "street")
SCALES = {
    "small": dict(files=160, long=7, short=3, mels=32, frames=1),
    "medium": dict(files=800, long=20, short=3, mels=32, frames=1),
    "bench": dict(files=7_913, long=79, short=3, mels=32, frames=1),
    "full": dict(files=79_130, long=79, short=3, mels=64, frames=4),
}


def generate(out, files=60, long=7, short=3, mels=32, frames=1, dtype="float16", channel=False, gzip=False, seed=0, splits=None):
    """Write all splits, the others a quarter of train's recordings each; or `splits` alone, {name: recordings}."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    middle = (1,) if channel else ()
    splits = splits or {"train": files, "val": max(1, files // 4), "test": max(1, files // 4)}
    for s, (split, n) in enumerate(splits.items()):
        rng = np.random.default_rng((seed, s))
        labels = rng.choice(len(LABELS), n, p=[0.1, 0.6, 0.15, 0.15]).astype(np.int16)
        shape = (long, short, *middle, mels, frames)
        storage = dict(chunks=(min(n, 16), *shape), compression="gzip", compression_opts=4) if gzip else {}
        with h5py.File(out / f"{split}.h5", "w") as file:
            file.attrs["labels_json"] = json.dumps(LABELS)
            file.attrs["config_json"] = json.dumps({"n_mels": mels, "frames": frames, "long": long, "short": short})
            file["labels"] = labels
            cells = file.create_dataset("segments_mel", (n, *shape), dtype, **storage)
            for begin in range(0, n, 256):
                of = labels[begin : begin + 256]
                values = rng.standard_normal((len(of), *shape), np.float32)
                loud = rng.uniform(0.1, 1.3, (len(of), *[1] * len(shape))).astype(np.float32)
                values[of == 0, ..., mels // 4 : mels // 2, :] += loud[of == 0]
                values[of == 2, ..., : mels // 8, :] += 1.5 * loud[of == 2]
                cells[begin : begin + len(of)] = values.astype(dtype)


def main():
    parser = data.command(__doc__, SCALES)
    for name in ("files", "long", "short", "mels", "frames"):
        parser.add_argument(f"--{name}", type=data.count)
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16")
    parser.add_argument("--channel", action="store_true", help="an axis of length 1 before the mels")
    parser.add_argument("--gzip", action="store_true")
    out, _ = data.write("leak", parser, SCALES, generate)
    print(f"{out}: written")


if __name__ == "__main__":
    main()
