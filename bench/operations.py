"""What is made of values and of samples when a batch is built: run by run.py under the name operations, or alone.

    bench/operations.py [--runs 5] [--rows 20000]

The question: what do bits, n-grams, one-hot, maps, expressions, matrices, windows and masks cost? Three answers.

* One core, no loader: bench_encode, beside vector stores of as many bytes of results to the same batches. Goal: packed bits and text to float32 at 80 % of
  them, with batches in the L3 cache (16 MiB of them) and in memory (64 MiB). Text is a quarter of what is made of it: vector stores with
  as many bytes read in between stand beside, goal 95 %. memset is there too: in the L3 cache it writes lines
  without reading them, with instructions that store one value, so nothing that is computed can follow.
* One core, samples: bench_sample. Goals: symmetric matrices 60 % of memset and memcpy, windows 85 % of memcpy of the same bytes.
* The whole path: a table in memory, one thread, a loader's epoch in batches of 512 in file order, against what people write with NumPy and
  pandas over the same table, which lies ready for them (the reading is not timed on either side: the blocks are decoded and kept). Goal:
  n-grams 50 times pandas. SpecAugment: the same loader with and without (operations_sample.py).
"""
import argparse
import statistics
import subprocess
import time

import common
import numpy as np
import operations_sample
import pyarrow as pa

import forebay as fb

BATCH = 512
STORE_GOAL = 0.8  # bits, of vector stores
READ_STORE_GOAL = 0.95  # bits of text, of vector stores with its bytes read in between
SYMMETRIC_GOAL, WINDOW_GOAL = 0.6, 0.85
PANDAS_GOAL = 50


def make_table(rows):
    """Persons of the lengths that names, dates and towns have, their bits as text and as bytes, a class, numbers."""
    rng = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))

    def words(least, most):
        lengths = rng.integers(least, most, rows)
        return ["".join(rng.choice(letters, n)).capitalize() for n in lengths]

    bits = rng.integers(0, 2, (rows, 1024), dtype=np.uint8)
    return pa.table({
        "first_name": words(3, 9), "surname": words(4, 12), "born": pa.array(rng.integers(-40000, 0, rows).astype("datetime64[D]")),
        "house": rng.integers(1, 300, rows), "town": words(4, 14), "text": ["".join(row) for row in np.where(bits, "1", "0")],
        "packed": pa.array([row.tobytes() for row in np.packbits(bits, axis=1)], pa.binary(128)),
        "label": rng.integers(0, 8, rows), "a": rng.random(rows, np.float32), "b": rng.random(rows, np.float32), "c": rng.random(rows, np.float32),
    })  # fmt: skip


# ---- what people write ----

IDENTIFYING = ["first_name", "surname", "born", "house", "town"]


def pandas_grams(frame, place):
    """astype(str), joined, lower-cased, and a row of the multi-hot matrix a row: the bigrams by Series.apply."""
    texts = frame[IDENTIFYING].astype(str).apply("".join, axis=1).str.lower()

    def row(text):
        labels = np.zeros(len(place), np.float32)
        for i in range(len(text) - 1):
            k = place.get(text[i : i + 2])
            if k is not None:
                labels[k] = 1
        return labels

    return np.stack(texts.apply(row).tolist())


def pandas_bits(frame):
    return np.array(frame["text"].apply(list).tolist(), dtype=np.float32)


def numpy_text_bits(texts):
    return (np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1) - ord("0")).astype(np.float32)


def numpy_packed_bits(packed):
    return np.unpackbits(packed, axis=1).astype(np.float32)


def cases(table):
    """{operation: (output, {peer: function of batch slices})}."""
    frame = table.to_pandas()
    grams = fb.ngram_vocabulary()
    place = {gram: i for i, gram in enumerate(grams)}
    texts = frame["text"].tolist()
    packed = np.frombuffer(b"".join(table["packed"].to_pylist()), np.uint8).reshape(len(frame), -1)
    label, a, b, c = (table[name].to_numpy() for name in ("label", "a", "b", "c"))
    mapping = {i: i // 2 for i in range(8)}
    return {
        "n-grams (5 columns, 1,296)": (fb.ngrams(*IDENTIFYING, lower=True), {"pandas astype(str), apply": lambda s: pandas_grams(frame[s], place)}),
        "bits of text": (fb.col("text").bits(1024), {
            "pandas apply(list)": lambda s: pandas_bits(frame[s]), "NumPy frombuffer": lambda s: numpy_text_bits(texts[s]),
        }),
        "bits of bytes": (fb.col("packed").bits(), {"NumPy unpackbits": lambda s: numpy_packed_bits(packed[s])}),
        "one-hot of 8": (fb.col("label").one_hot(8), {"NumPy eye": lambda s: np.eye(8, dtype=np.float32)[label[s]]}),
        "map": (fb.col("label").map(mapping), {"pandas map": lambda s: frame["label"][s].map(mapping).to_numpy()}),
        "expression": (fb.expr("(a - b) / (c + 1) * 2"), {"NumPy": lambda s: (a[s] - b[s]) / (c[s] + 1) * 2}),
    }  # fmt: skip


# ---- measuring ----


def loader_rate(dataset, output, rows, least_s):
    """Rows a second of whole epochs, the first one apart: then all blocks are decoded."""
    loader = dataset.rows().loader({"x": output}, batch_size=BATCH, shuffle=False, threads=1, framework="numpy")
    for _ in loader:
        pass
    epochs, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < least_s:
        for _ in loader:
            pass
        epochs += 1
    seconds = time.perf_counter() - begin
    loader.close()
    return epochs * rows / seconds


def peer_rate(make, rows, least_s):
    done, begin = 0, time.perf_counter()
    while done < rows or time.perf_counter() - begin < least_s:
        first = done % rows
        last = min(first + BATCH, rows)
        make(slice(first, last))
        done += last - first
        if time.perf_counter() - begin > 20:
            break
    return done / (time.perf_counter() - begin)


def same(dataset, output, make, rows):
    """Both give the same: the first batch, value for value."""
    loader = dataset.rows().loader({"x": output}, batch_size=BATCH, shuffle=False, framework="numpy")
    got = next(iter(loader))["x"]
    loader.close()
    np.testing.assert_allclose(got, make(slice(0, min(BATCH, rows))), rtol=1e-5)


def lines_of(program, *options):
    text = subprocess.run([str(program), *map(str, options)], capture_output=True, text=True, check=True).stdout
    return [common.keyed(line) for line in text.splitlines()]


class Results:
    """A row of the table and of the CSV file at once."""

    def __init__(self, rows, runs):
        self.table = common.Table(f"What is made of values and samples, {rows:,} rows",
                                  [("operation", -34), ("path", -36), ("rows/s", 9), ("spread", 7), ("peer", -28), ("ratio", 8), ("goal", 7), ("", 4)])
        self.csv = common.Csv("operations.csv", ["operation", "path", "rows_per_s_median", "spread", "peer", "peer_rows_per_s_median", "ratio", "goal",
                                                 "runs", "passed"])
        self.runs = runs

    def add(self, operation, path, rate, spread, peer, ratio, goal=None):
        passed = common.verdict(None if goal is None else ratio >= goal)
        shown = f"{ratio:,.1f}×" if goal is None and ratio >= 2 or (goal or 0) > 1 else f"{ratio:.0%}"
        self.table.row(operation, path, common.si(rate), "" if spread is None else f"{spread:.0%}", peer, shown,
                       "" if goal is None else f"≥ {goal}×" if goal > 1 else f"≥ {goal:.0%}", passed)
        self.csv.add(operation=operation, path=path, rows_per_s_median=float(rate), spread="" if spread is None else float(spread), peer=peer,
                     peer_rows_per_s_median=rate / ratio, ratio=float(ratio), goal=goal or "", runs=self.runs, passed=passed)


def one_core(out):
    """bench_encode's lines, and bench_sample's."""
    encode_c, sample_c = common.build_c("bench_encode", "bench_sample")
    repeats = max(out.runs, 5) * 3
    for ring, case, where in ((16, "", "L3 cache"), (64, "bits", "memory")):
        for r in lines_of(encode_c, "-n", repeats, "-m", ring, "-c", case):
            goal = STORE_GOAL if r["case"] in ("bits_packed", "bits_text") else None
            path = f"one core, batches in {where}"
            out.add(r["case"], path, r["samples_per_s"], r["spread"], "vector stores", r["share"], goal)
            if goal:
                out.add(r["case"], path, r["samples_per_s"], r["spread"], "memset", r["share_of_memset"])
            if r["case"] == "bits_text":
                out.add(r["case"], path, r["samples_per_s"], r["spread"], "vector stores and reads", r["share_of_read_store"], READ_STORE_GOAL)
    for size in (64, 128):
        for features in (1, 2, 4):
            for r in lines_of(sample_c, "symmetric", size, features):
                name = f"symmetric {size} × {size} × {features}, " + ("full" if r["points"] == "all_points" else "half to full")
                rate = r["made_gbps"] * 1e9 / (size * size * features * 4)
                out.add(name, "one core", rate, None, "memset and memcpy", r["share"], SYMMETRIC_GOAL)
    for stored, name in ((15, "windows of 365 × 15 and 7"), (16, "windows, 15 of 16 columns")):
        (r,) = lines_of(sample_c, "window", stored)
        out.add(name, "one core", r["windows_per_s"], None, "memcpy", r["share"], WINDOW_GOAL)
        out.add(name, "one core, the batch read next", r["windows_per_s"], None, "memcpy", r["share_when_read_next"])


def encode(settings, rows=20000):
    """Everything above; returns the Csv."""
    out = Results(rows, settings.runs)
    one_core(out)
    dataset = fb.open(data := make_table(rows))
    for name, (output, peers) in cases(data).items():
        for peer, make in peers.items():
            same(dataset, output, make, rows)
            got = common.interleave({
                "ours": lambda output=output: loader_rate(dataset, output, rows, settings.seconds / 2),
                "peer": lambda make=make: peer_rate(make, rows, settings.seconds / 2),
            }, settings.runs)  # fmt: skip
            ours, theirs = statistics.median(got["ours"]), statistics.median(got["peer"])
            goal = PANDAS_GOAL if name.startswith("n-grams") else None
            out.add(name, "loader, one thread", ours, common.spread(got["ours"]), peer, ours / theirs, goal)
    for stored, frames in ((stored, frames) for stored in ("float32", "float16") for frames in (1, 4, 16, 64)):
        r = operations_sample.augment_beside(frames, stored)
        out.add(f"SpecAugment of 32 × {frames} float32" + (" of float16" if stored == "float16" else ""), "loader, CPU time", r["masked"],
                r["spread"], "the same without masks", r["share"], None)
    return out.csv


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=1.0, help="measure each run so long")
    parser.add_argument("--write", action="store_true", help="write results/operations.csv")
    settings = parser.parse_args()
    print(f"{common.machine()}; commit {common.commit()}", flush=True)
    common.warn_when_busy()
    result = encode(settings, settings.rows)
    if settings.write:
        result.write()


if __name__ == "__main__":
    main()
