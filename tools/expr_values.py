#!/usr/bin/env python3
"""Are the library functions of `expr` on two machines within one unit in the last place? Their values over inputs that are the same everywhere.

    python tools/expr_values.py OUT.npy         with the Forebay of one machine, and with that of the other
    python tools/expr_values.py ONE.npy OTHER.npy      how far apart they are, function by function; exit 1 when by more than one unit

exp, log and their like come from the C library, which promises no more. All else in Forebay is the same bit for bit: tools/batch_hashes.py.
"""
import sys

import numpy as np

FUNCTIONS = ["sqrt(x)", "exp(x)", "log(x)", "log10(x)", "log1p(x)", "sin(x)", "cos(x)", "tan(x)", "atan2(x, y)", "x ^ y", "x % y", "floor(x / y)"]
N = 200_000


def inputs():
    """Half of them anything a float64 can be, half of them of everyday size; by integer arithmetic and exact operations alone."""
    bits = np.random.default_rng(0).integers(0, 2**64, 2 * N, dtype=np.uint64)
    anything, everyday = bits.view(np.float64), (bits >> np.uint64(11)).astype(np.float64) * 2.0**-47 - 32
    x, y = np.where(np.arange(2 * N) % 2, anything, everyday).reshape(2, N)
    return {"x": x, "y": y}


def values():
    import forebay as fb

    outputs = {f"f{i}": fb.expr(text, dtype="float64") for i, text in enumerate(FUNCTIONS)}
    batches = fb.open(inputs()).rows().loader(outputs, batch_size=N, shuffle=False, framework="numpy")
    return np.stack([np.concatenate(parts) for parts in zip(*([batch[name] for name in outputs] for batch in batches))])


def ordered(x):
    """Integers in the order of the numbers, next to each other where the numbers are."""
    i = np.ascontiguousarray(x).view(np.int64)
    return np.where(i < 0, np.iinfo(np.int64).min - i, i)


def compare(one, other):
    worst = 0
    for text, a, b in zip(FUNCTIONS, one, other):
        nan = np.isnan(a) | np.isnan(b)
        apart = np.abs(ordered(a) - ordered(b))[~nan]
        most = int(apart.max()) if np.array_equal(np.isnan(a), np.isnan(b)) else 2**62
        print(f"{text:14} {int((apart > 0).sum()):7,} of {N:,} differ, by {most} at most")
        worst = max(worst, most)
    return worst > 1


if __name__ == "__main__":
    if len(sys.argv) == 2:
        np.save(sys.argv[1], values())
    elif len(sys.argv) == 3:
        sys.exit(compare(*map(np.load, sys.argv[1:])))
    else:
        sys.exit(__doc__)
