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


def test_keys_that_were_never_written_are_runs_however_many_there_are(tmp_path, run_python):
    """2^40 rows of which 5 are stored: what is known from metadata alone is not decoded, which would take hours."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        k = f.create_dataset("k", (1 << 40,), "i4", chunks=(1 << 16,), fillvalue=7)
        x = f.create_dataset("x", (1 << 40,), "f4", chunks=(1 << 16,), fillvalue=float("nan"))
        f.create_dataset("c", (1 << 40,), "i2")  # contiguous, and not there
        k[5 << 30 : (5 << 30) + 5] = [1, 1, 2, 2, 2]
        x[1 << 33 : (1 << 33) + 50] = np.arange(50)
    done = run_python(
        """
        import sys
        import forebay as fb

        ds = fb.open(sys.argv[1], cache_dir="")
        missing = ds.windows(10, drop_missing="x")
        print(len(ds.groups("k")), len(ds.windows(4, by="k")), len(ds.groups(["k", "c"])), len(ds.groups("c")), len(missing), len(missing.limit(3)))
        """,
        tmp_path / "x.h5",
    )
    assert [int(n) for n in done.stdout.split()] == [4, (5 << 30) - 3 + (1 << 40) - (5 << 30) - 5 - 3, 4, 1, 41, 3]


@pytest.mark.parametrize("seed", range(6))
def test_groups_and_windows_are_those_of_the_values(tmp_path, seed):
    """Stored chunks among absent ones, in blocks that are scanned in several steps."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5_000_000))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        options = {"chunks": (int(rng.integers(1000, 200_000)),)} if seed else {}
        k = f.create_dataset("k", (n,), "i1", fillvalue=3, **options)
        x = f.create_dataset("x", (n,), "f4", chunks=(int(rng.integers(1000, 200_000)),), fillvalue=float("nan") if seed % 2 else 1)
        for _ in range(int(rng.integers(0, 5)) if seed else 0):
            lo = int(rng.integers(n))
            k[lo : lo + 2000] = np.sort(rng.integers(2, 5, len(k[lo : lo + 2000])))
            lo = int(rng.integers(n))
            x[lo : lo + 3000] = 1
        key, missing = k[...], np.isnan(x[...])
    begins = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    breaks = np.unique(np.r_[begins, np.flatnonzero(missing[1:] != missing[:-1]) + 1, n])
    stretches = [b - a for a, b in zip(breaks[:-1], breaks[1:], strict=True) if not missing[a]]
    with fb.open(tmp_path / "x.h5", cache_dir="") as ds:
        assert len(ds.groups("k")) == len(begins)
        assert len(ds.windows(7, by="k")) == sum(max(0, r - 6) for r in np.diff(np.r_[begins, n]))
        assert len(ds.windows(7, by="k", drop_missing="x")) == sum(max(0, r - 6) for r in stretches)


def test_times_that_were_never_written_go_on_nowhere(tmp_path, run_python):
    """Of 2^40 rows ten have a time: the others have the same one, which no row follows, or none."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name, fill in (("t", 0), ("nan", float("nan"))):
            t = f.create_dataset(name, (1 << 40,), "i8" if name == "t" else "f8", chunks=(1 << 16,), fillvalue=fill)
            t[5 << 30 : (5 << 30) + 10] = np.arange(1, 11)
        k = f.create_dataset("k", (1 << 40,), "i2", chunks=(1 << 16,), fillvalue=3)
        k[(5 << 30) + 6] = 4
    done = run_python(
        """
        import sys
        import forebay as fb

        ds = fb.open(sys.argv[1], cache_dir="")
        found = [ds.windows(4, time="t"), ds.windows(4, time="nan"), ds.windows(2, time="t", by="k"), ds.windows(3, time="t", drop_missing="nan")]
        print(*map(len, found))
        try:
            ds.windows(1, time="t")
        except fb.BudgetError as error:
            print(error)
        """,
        tmp_path / "x.h5",
    )
    counts, refused = done.stdout.splitlines()
    assert counts.split() == ["8", "7", "8", "8"]
    assert "x.h5" in refused and "memory budget" in refused


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("seed", range(8))
def test_windows_by_time_are_those_of_the_values(tmp_path, seed, length):
    """Stored chunks of times, keys and values among absent ones, with blocks that are scanned in several steps."""
    rng = np.random.default_rng(100 + seed)
    n = int(rng.integers(1, 40_000) if length == 1 else rng.integers(1, 3_000_000))
    fill = (0, 7, float("nan"))[seed % 3]
    values = {}
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name, dtype, fill_of in (("t", "f8" if seed % 3 == 2 else "i8", fill), ("k", "i1", 3), ("x", "f4", float("nan") if seed % 2 else 1)):
            x = f.create_dataset(name, (n,), dtype, chunks=(min(n, int(rng.integers(500, 200_000))),), fillvalue=fill_of)
            for _ in range(int(rng.integers(0, 5))):
                lo = int(rng.integers(n))
                part = x[lo : lo + 3000]
                x[lo : lo + 3000] = {"t": np.cumsum(rng.integers(0, 9, len(part)) > 0), "k": np.sort(rng.integers(2, 5, len(part))), "x": 1}[name]
            values[name] = x[...]
    t, k, x = values["t"], values["k"], values["x"]
    cut = ~(t[1:] > t[:-1])
    with fb.open(tmp_path / "x.h5", cache_dir="") as ds:
        for options in ({}, {"by": "k"}, {"drop_missing": "x"}, {"by": "k", "drop_missing": "x", "stride": 2}, {"step": 1}):
            breaks = ~(np.diff(t) == 1) if "step" in options else cut
            breaks = np.r_[True, breaks | (k[1:] != k[:-1]) if "by" in options else breaks]
            missing = np.isnan(t) | (np.isnan(x) if "drop_missing" in options else False)
            first = np.maximum.accumulate(np.where(breaks, np.arange(n), 0))  # of each row's series
            holes = np.r_[0, np.cumsum(missing)]
            starts = np.arange(max(0, n - length + 1))
            ends = starts + length
            right = (first[ends - 1] <= starts) & (holes[ends] == holes[starts]) & ((starts - first[starts]) % options.get("stride", 1) == 0)
            if not right.any():
                with pytest.raises(fb.Error):
                    ds.windows(length, time="t", **options)
                continue
            assert len(ds.windows(length, time="t", **options)) == right.sum(), options


def test_the_first_of_very_many_rows_take_little_memory(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (1 << 40,), "f4", chunks=(1024,), fillvalue=3)
    with fb.open(tmp_path / "x.h5", cache_dir="", memory="16MiB") as ds:
        first = ds.rows().limit(10)
        with first.loader(batch_size=16, shuffle=False, framework="numpy", memory="64MiB") as loader:
            (batch,) = loader
        assert len(first) == 10 and batch["x"].tolist() == [3] * 10
