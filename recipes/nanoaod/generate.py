"""Makes collision events in the layout of CMS NanoAOD as Parquet: one row an event, a list column for every property of jets, muons and particles.

    python recipes/nanoaod/generate.py OUT [--scale small|medium|bench|full] [--files N] [--events N] [--row-group N] [--seed N]

    OUT/dy/nano_<i>.parquet, OUT/tt/nano_<i>.parquet   as awkward-array writes them: large_list<float not null>, ZSTD, no dictionaries

Events of two processes: Z bosons with a pair of muons and few jets (dy), and pairs of top quarks (tt), with more jets, of which two have high b-tags,
and more missing energy, so that there is something to learn. Generated particles (GenPart) make up most of a file, as they do in real ones.
"""

import functools
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if __package__ in (None, ""):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from recipes import data

PROCESSES = ("dy", "tt")
SCALES = {
    "small": dict(files=4, events=1_500, row_group=500),
    "medium": dict(files=6, events=10_000, row_group=5_000),
    "bench": dict(files=10, events=50_000, row_group=20_000),
    "full": dict(files=200, events=500_000, row_group=100_000),
}


def jagged(counts, values):
    """A list column: values, event by event."""
    values = pa.array(values)
    kind = pa.large_list(pa.field("item", values.type, nullable=False))
    return pa.LargeListArray.from_arrays(np.concatenate([[0], np.cumsum(counts)]), values).cast(kind)


def falling(rng, counts, mean, least):
    """Transverse momenta, the largest of an event first, as NanoAOD sorts them."""
    pt, of = least + rng.exponential(mean, counts.sum()), np.repeat(np.arange(len(counts)), counts)
    return pt[np.lexsort((-pt, of))].astype(np.float32)


def made(rng, n, process, first):
    """A table of n events; `first` is the number of the first."""
    top = process == "tt"
    n_jet, n_muon, n_gen = rng.poisson(4.5 if top else 2.0, n), rng.poisson(1.1 if top else 2.0, n), rng.poisson(60, n)

    def kinematics(name, counts, mean, least):
        size = counts.sum()
        yield f"{name}_pt", falling(rng, counts, mean, least)
        yield f"{name}_eta", np.clip(rng.normal(0, 1.2, size), -2.5, 2.5).astype(np.float32)
        yield f"{name}_phi", rng.uniform(-np.pi, np.pi, size).astype(np.float32)

    jets = dict(kinematics("Jet", n_jet, 60 if top else 30, 15))
    leading = np.arange(n_jet.sum()) - np.repeat(np.cumsum(n_jet) - n_jet, n_jet) < 2
    b = rng.beta(1, 8, n_jet.sum())
    b[leading & top] = rng.beta(4, 2, int((leading & top).sum()))
    jets |= {"Jet_mass": (jets["Jet_pt"] * 0.15).astype(np.float32), "Jet_btagDeepFlavB": b.astype(np.float32)}
    jets["Jet_jetId"] = rng.choice(np.array([2, 6], np.int32), n_jet.sum())
    muons = dict(kinematics("Muon", n_muon, 25, 3))
    muons |= {"Muon_charge": rng.choice(np.array([-1, 1], np.int32), n_muon.sum()), "Muon_tightId": rng.random(n_muon.sum()) < 0.8}
    gen = dict(kinematics("GenPart", n_gen, 20, 0))
    gen["GenPart_pdgId"] = rng.choice(np.array([1, 2, 5, 13, 21, 22], np.int32), n_gen.sum())
    gen["GenPart_status"] = rng.integers(1, 70, n_gen.sum()).astype(np.int32)
    columns = {
        "run": np.full(n, 1, np.uint32), "luminosityBlock": (1 + np.arange(n) // 100).astype(np.uint32), "event": np.arange(first, first + n).astype(np.uint64),
        "nJet": n_jet.astype(np.uint32), "nMuon": n_muon.astype(np.uint32), "nGenPart": n_gen.astype(np.uint32),
        "MET_pt": rng.exponential(60 if top else 20, n).astype(np.float32), "MET_phi": rng.uniform(-np.pi, np.pi, n).astype(np.float32),
        "genWeight": rng.normal(1, 0.1, n).astype(np.float32), "HLT_IsoMu24": rng.random(n) < 0.7,
    }  # fmt: skip
    for counts, lists in ((n_jet, jets), (n_muon, muons), (n_gen, gen)):
        columns |= {name: jagged(counts, values) for name, values in lists.items()}
    table = pa.table(columns)
    return table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))


def generate(out, files=3, events=1_500, row_group=500, seed=0):
    """Write everything."""
    for p, process in enumerate(PROCESSES):
        folder = pathlib.Path(out) / process
        folder.mkdir(parents=True, exist_ok=True)
        for f in range(files):
            table = made(np.random.default_rng((seed, p, f)), events, process, first=1 + (p * files + f) * events)
            pq.write_table(table, folder / f"nano_{f}.parquet", row_group_size=row_group, compression="zstd", use_dictionary=False)


def main():
    parser = data.command(__doc__, SCALES)
    parser.add_argument("--files", type=functools.partial(data.whole, least=3), help="of each process")
    parser.add_argument("--events", type=data.count, help="a file")
    parser.add_argument("--row-group", type=data.count, help="rows")
    out, _ = data.write("nanoaod", parser, SCALES, generate)
    print(f"{out}: written")


if __name__ == "__main__":
    main()
