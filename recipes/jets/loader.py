"""Jets with Forebay: particles, symmetric matrices of their pairs, labels.

    ds = fb.open("data/train_*.h5")
    train = ds.loader(loader.outputs(ds), batch_size=512, memory="8GiB", device="cuda")
"""

import forebay as fb


def outputs(ds, edges="matrix"):
    """node_features (B, P, F), edge_features (B, P, P, E), labels (B), n_particles (B).

    edges="flat" leaves the pairs as they are stored, (B, P(P-1)/2, E); "pad" finds the number of pairs by the pad value alone.
    """
    particles, features = int(ds.attrs["max_particles"]), len(ds.attrs["feature_names"])
    pairs = fb.col("adjacency_matrix")
    return {
        "node_features": fb.col("feature_matrix").reshape(particles, features),
        "edge_features": {"matrix": pairs.symmetric(count="n_particles"), "pad": pairs.symmetric(pad=-999), "flat": pairs}[edges],
        "labels": "labels",
        "n_particles": "n_particles",
    }
