"""Random tables written by pyarrow in random ways, read back value by value: through Arrow, through the loader, and from memory.

FOREBAY_CASES sets how many (default 2,000), FOREBAY_SEED the first seed. A failure prints its seed: FOREBAY_SEED=<seed> FOREBAY_CASES=1 repeats it.
"""

import os
import pathlib
import tempfile

import pytest

import forebay as fb
from arrow_compare import assert_tables_equal
from loader_compare import assert_loader_delivers

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from random_tables import Case  # noqa: E402

CASES = int(os.environ.get("FOREBAY_CASES", 2000))
FIRST = int(os.environ.get("FOREBAY_SEED", 1))
GROUPS = min(20, CASES)


def read_back(path, case):
    """What pyarrow reads; where pyarrow 26 cannot read its own file (dictionaries in delta encodings, lists in tiny pages) what was
    written, or None when that was written with other types than it has."""
    try:
        want = pq.read_table(path, partitioning=None)
        if want.num_rows == case.rows:
            return want
    except (OSError, pa.ArrowInvalid):
        pass
    return None if case.options["version"] != "2.6" or case.int96 else case.table


def check(seed, folder):
    case = Case(seed)
    path = folder / "case.parquet"
    try:
        case.write(path)
        want = read_back(path, case)
        if want is None:
            return
        ds = fb.open(path, cache_dir="", verify_crc=True)
        assert len(ds) == want.num_rows
        assert_tables_equal(pa.table(ds), want)
        if case.rows:
            # Small budgets of time: one order a case, every order many times over all of them.
            shuffle = (False, True, "full", "block")[seed % 4]
            options = {"superbatch": "3 blocks"} if seed % 8 >= 6 and shuffle is True else {}
            assert_loader_delivers(ds, want, shuffle=shuffle, seed=seed, batch_size=(1, 7, 64, 1000)[seed // 4 % 4] if case.rows < 500 else 200,
                                   threads=2, **options)
        if seed % 5 == 0 and want is not case.table:  # which may have seconds, that Parquet has not
            memory = fb.open(want)
            assert_tables_equal(pa.table(memory), want)
            if case.rows:
                assert_loader_delivers(memory, want, shuffle=seed % 2 == 0, seed=seed, batch_size=100, threads=2)
    except Exception as error:
        kept = pathlib.Path(tempfile.gettempdir()) / f"forebay-seed-{seed}.parquet"
        if path.exists():
            path.replace(kept)
        raise AssertionError(f"{type(error).__name__}: {error}\n{case}\nfile kept as {kept}") from error


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_what_pyarrow_writes_forebay_reads(group, tmp_path):
    for seed in range(FIRST + group, FIRST + CASES, GROUPS):
        check(seed, tmp_path)
