"""HDF5 data sets of which few chunks were ever written: the values are those that h5py reads, wherever the rows lie."""

import forebay as fb
import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

SHAPES = {
    "rows of one": ((40_000,), (1,), {}),
    "rows": ((3_000, 7), (10, 7), {}),
    "columns of chunks": ((60, 500), (7, 3), {}),
    "rows on the second axis": ((50, 900), (3, 11), {"axis": 1}),
    "cells": ((40, 30, 8), (3, 4, 5), {"axes": 2}),
    "cells of one": ((90, 70), (1, 1), {"axes": 2}),
}


@pytest.mark.parametrize("stored", [0, 3, 40])
@pytest.mark.parametrize("fill", [0, -7, float("nan")])
@pytest.mark.parametrize("name", SHAPES)
def test_values_are_those_of_h5py(tmp_path, name, fill, stored):
    shape, chunks, options = SHAPES[name]
    rng = np.random.default_rng(len(name) * 1000 + stored)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", shape, "f8", chunks=chunks, fillvalue=fill, compression=1 if stored == 40 else None)
        for _ in range(stored):
            at = tuple(int(rng.integers(n)) for n in shape)
            x[at] = rng.random()
        expected = x[...]
    rows = options.get("axes", 1)
    if "axis" in options:
        expected = expected.T
    expected = expected.reshape(-1, *expected.shape[rows:])
    with fb.open(tmp_path / "x.h5", cache_dir="", **options) as ds:
        assert len(ds) == len(expected)
        for shuffle in (False, True):
            loader = ds.rows().loader(
                {"x": fb.col("x").fill_missing(-1), "i": fb.sample_index()}, batch_size=977, shuffle=shuffle, superbatch="2 blocks", framework="numpy"
            )
            with loader:
                seen = 0
                for batch in loader:
                    np.testing.assert_array_equal(batch["x"], np.nan_to_num(expected[batch["i"]], nan=-1))
                    seen += len(batch["i"])
            assert seen == len(expected)


def test_a_name_of_a_missing_row_is_that_of_the_first(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", (1000,), "f4", chunks=(10,), fillvalue=float("nan"))
        x[:500] = 1
    with fb.open(tmp_path / "x.h5", cache_dir="") as ds, pytest.raises(fb.DataError, match="in row 500 "):
        for _ in ds.rows().loader({"x": fb.col("x", dtype="int32")}, batch_size=1000, shuffle=False, framework="numpy"):
            pass
