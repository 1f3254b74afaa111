#!/usr/bin/env python3
"""Seeds for the fuzzers from a folder that tests wrote into: its data files, by what they begin with, each once.

    tools/fuzz_seeds.py FOLDER OUT      OUT/parquet, OUT/hdf5, OUT/ipc, OUT/csv, named by their hashes
"""

import hashlib
import os
import sys
from pathlib import Path

MOST_BYTES = 65536  # what the fuzzers make at most (-max_len in the Makefile)
HDF5 = b"\x89HDF\r\n\x1a\n"


def target_of(name: str, data: bytes) -> str | None:
    if data.startswith(b"PAR1"):
        return "parquet"
    if HDF5 in (data[at : at + 8] for at in (0, 512, 1024, 2048)):  # behind a user block
        return "hdf5"
    if data.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "ipc"
    if name.endswith((".csv", ".tsv", ".csv.gz")):
        return "csv"
    return None


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, out = map(Path, sys.argv[1:])
    counts: dict[str, int] = {}
    for parent, _, names in os.walk(folder):  # links are not followed
        for name in names:
            path = Path(parent, name)
            if path.is_symlink() or not path.is_file() or not 0 < path.stat().st_size <= MOST_BYTES:
                continue
            try:
                data = path.read_bytes()
            except PermissionError:  # of a test about permissions
                continue
            target = target_of(name, data)
            if target is None:
                continue
            seed = out / target / hashlib.sha256(data).hexdigest()[:16]
            if not seed.exists():
                seed.parent.mkdir(parents=True, exist_ok=True)
                seed.write_bytes(data)
                counts[target] = counts.get(target, 0) + 1
    print(", ".join(f"{n} for {target}" for target, n in sorted(counts.items())) or "no seeds")
    return 0 if counts else 1


if __name__ == "__main__":
    sys.exit(main())
