"""What is made of values when a batch is built, side by side with NumPy and pandas: run by run.py under the name operations, or alone.

    bench/operations.py [--runs 5] [--rows 20000]

The question: what do bits, n-grams, one-hot, maps and expressions cost? Two answers.

* One core, no loader: bench_encode, beside memset of as many bytes of results at the same place, the ceiling. Goal: bits to float32 at
  80 % of it.
* The whole path: a table in memory, one thread, a loader's epoch in batches of 512 in file order, against what people write with NumPy and
  pandas over the same table, which lies ready for them (the reading is not timed on either side: the blocks are decoded and kept). Goal:
  n-grams 50 times pandas.
"""
import argparse
import statistics
import subprocess
import time

import common
import numpy as np
import pandas as pd
import pyarrow as pa

import forebay as fb

BATCH = 512
GOALS = {"bits_packed": 0.8, "bits_text": 0.8}  # of memset
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


def one_core(table, out, runs):
    """bench_encode's lines."""
    (program,) = common.build_c("bench_encode")
    lines = subprocess.run([str(program), "-n", str(max(runs, 5) * 3)], capture_output=True, text=True, check=True).stdout
    for result in map(common.keyed, lines.splitlines()):
        goal = GOALS.get(result["case"])
        passed = "" if goal is None else "pass" if result["share"] >= goal else "FAIL"
        table.row(result["case"], "one core, no loader", common.si(result["samples_per_s"]), f"{result['spread']:.0%}", "memset",
                  f"{result['share']:.0%}", f"≥ {goal:.0%}" if goal else "", passed)
        out.add(operation=result["case"], path="one core, no loader", rows_per_s_median=result["samples_per_s"], spread=result["spread"], peer="memset",
                peer_rows_per_s_median=result["samples_per_s"] / result["share"], ratio=result["share"], goal=goal or "", runs=runs, passed=passed)


def encode(settings, rows=20000):
    """Everything above; returns the Csv."""
    table = common.Table(f"What is made of values, {rows:,} rows",
                         [("operation", -28), ("path", -20), ("rows/s", 9), ("spread", 7), ("peer", -28), ("ratio", 8), ("goal", 7), ("", 4)])
    out = common.Csv("operations.csv", ["operation", "path", "rows_per_s_median", "spread", "peer", "peer_rows_per_s_median", "ratio", "goal", "runs", "passed"])
    one_core(table, out, settings.runs)
    data = make_table(rows)
    dataset = fb.open(data)
    for name, (output, peers) in cases(data).items():
        for peer, make in peers.items():
            same(dataset, output, make, rows)
            got = common.interleave({
                "ours": lambda output=output: loader_rate(dataset, output, rows, settings.seconds / 2),
                "peer": lambda make=make: peer_rate(make, rows, settings.seconds / 2),
            }, settings.runs)  # fmt: skip
            ours, theirs = statistics.median(got["ours"]), statistics.median(got["peer"])
            goal = PANDAS_GOAL if name.startswith("n-grams") else None
            passed = "" if goal is None else "pass" if ours / theirs >= goal else "FAIL"
            table.row(name, "loader, one thread", common.si(ours), f"{common.spread(got['ours']):.0%}", peer, f"{ours / theirs:,.1f}×",
                      f"≥ {goal}×" if goal else "", passed)
            out.add(operation=name, path="loader, one thread", rows_per_s_median=ours, spread=common.spread(got["ours"]), peer=peer,
                    peer_rows_per_s_median=theirs, ratio=ours / theirs, goal=goal or "", runs=settings.runs, passed=passed)
    return out


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
