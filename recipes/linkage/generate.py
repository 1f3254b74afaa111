"""Makes encoded records for linkage: identifying columns, their Bloom filter, a number.

    python recipes/linkage/generate.py OUT [--scale small|medium|bench|full] [--rows N] [--bits N] [--seed N]

    OUT/records.tsv        first_name, surname, birth_date, zip, city, bloomfilter ('0' and '1'), uid
    OUT/text.parquet       the same as Parquet
    OUT/packed.parquet     bloomfilter as bytes of eight bits, the first bit the highest
    OUT/base64.parquet     bloomfilter as base64 of these bytes
    OUT/validation, test   the same of a tenth as many other records

Every two-gram of a record sets ten bits of its filter, which a keyed hash finds, so that the grams can be learnt from the bits. A few names have
a space, a hyphen, a quote, an accent or capitals in them; a few cities are missing.
"""

import base64
import functools
import hashlib
import pathlib
import sys

import numpy as np
import pandas as pd

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

SCALES = {
    "small": dict(rows=4_000, bits=1024),
    "medium": dict(rows=10_000, bits=1024),
    "bench": dict(rows=1_000_000, bits=1024),
    "full": dict(rows=10_000_000, bits=1024),
}
FOLDERS = {"train": ".", "val": "validation", "test": "test"}
HASHES = 10
SYLLABLES = "an ber cor da el fi gus hen is jo ka la mar nor ol per qui ro sa ti ur vik wal xa yv zo".split()


def positions(gram, bits):
    """The places that a two-gram sets."""
    digest = hashlib.sha256(b"a key" + gram.encode()).digest()
    a, b = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little") | 1
    return [(a + i * b) % bits for i in range(HASHES)]


def names(rng, n):
    """n names of two to four syllables, now and then with something odd in them."""
    pool = np.array(["".join(rng.choice(SYLLABLES, rng.integers(2, 5))) for _ in range(min(n, 5_000))], object)
    odd = [f(name) for name, f in zip(pool, [str.title, lambda s: f"O'{s}", lambda s: f"{s[:3]} {s[3:]}", lambda s: f"{s[:2]}-{s[2:]}"] * len(pool))]
    odd += [f'"{pool[0]}"', "  " + pool[-1] + " ", "Zoë", "Łukasz", "d. " + pool[0]]
    pick = rng.choice(pool, n)
    other = rng.random(n) < 0.1
    pick[other] = rng.choice(np.array(odd, object), int(other.sum()))
    return pick


def generate(out, rows=4_000, bits=1024, seed=0):
    """Write the records of one folder; returns them as a DataFrame."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    day = np.datetime64("1920-01-01") + rng.integers(0, 36_000, rows)
    city = np.where(rng.random(rows) < 0.02, None, names(rng, rows))
    table = pd.DataFrame(
        {
            "first_name": names(rng, rows),
            "surname": names(rng, rows),
            "birth_date": pd.Series(day).dt.strftime("%d.%m.%Y").to_numpy(object),
            "zip": rng.integers(0, 100_000, rows),
            "city": city,
        }
    )
    text = table.fillna("").astype(str).agg("".join, axis=1).str.lower()
    filters, places = np.zeros((rows, bits), np.uint8), {}
    for row, joined in enumerate(text):
        for gram in {joined[i : i + 2] for i in range(len(joined) - 1)}:
            if gram not in places:
                places[gram] = positions(gram, bits)
            filters[row, places[gram]] = 1
    uid = rng.permutation(rows * 3)[:rows]
    packed = np.packbits(filters, axis=1)
    as_text = (filters + ord("0")).view(f"S{bits}").reshape(rows).astype(str).astype(object)
    forms = {"text": as_text, "packed": [row.tobytes() for row in packed], "base64": [base64.b64encode(row).decode() for row in packed]}
    for form, column in forms.items():
        table.assign(bloomfilter=column, uid=uid).to_parquet(out / f"{form}.parquet", index=False)
    table = table.assign(bloomfilter=as_text, uid=uid)
    table.to_csv(out / "records.tsv", sep="\t", index=False)
    return table


def generate_parts(out, rows=4_000, bits=1024, seed=0):
    """Records to train with, and a tenth as many others to validate with, and to test with; returns the first."""
    out = pathlib.Path(out)
    for more, part in enumerate(("val", "test"), 1):
        generate(out / FOLDERS[part], rows // 10, bits, seed + more)
    return generate(out, rows, bits, seed)


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--rows", type=functools.partial(data.whole, least=10))
    parser.add_argument("--bits", type=data.count)
    out, table = data.write("linkage", parser, SCALES, generate_parts)
    print(f"{out}: {len(table):,} records to train with")


if __name__ == "__main__":
    main()
