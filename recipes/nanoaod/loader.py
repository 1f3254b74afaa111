"""Events of NanoAOD with Forebay: jagged columns side by side, padded to a fixed number of jets and muons.

    events = loader.events({"dy": "data/dy", "tt": "data/tt"})
    train = events.loader(loader.outputs(), batch_size=1024, memory="4GiB", device="cuda")
"""

import forebay as fb

JETS = ("Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass", "Jet_btagDeepFlavB")
MUONS = ("Muon_pt", "Muon_eta", "Muon_phi", "Muon_charge")
PROCESSES = {"dy": 0, "tt": 1}


def events(files, least_muons=1):
    """Events with so many muons; `files` are those of each process by name."""
    return fb.open(files, source_column="process").rows().select("nMuon", low=least_muons)


def outputs(max_jets=8, max_muons=4):
    """jets (B, max_jets, 5) and muons (B, max_muons, 4) with masks, the leading ones of each event; met (B, 2), label (B), event (B)."""
    return {
        "jets": fb.col(*JETS, dtype="float32").padded(max_jets, keep="first", to_max=True),
        "muons": fb.col(*MUONS, dtype="float32").padded(max_muons, keep="first", to_max=True),
        "met": fb.col("MET_pt", "MET_phi", dtype="float32"),
        "label": fb.col("process").map(PROCESSES),
        "event": fb.col("event").cast("int64"),
    }
