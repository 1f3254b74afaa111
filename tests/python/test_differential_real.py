"""Every Parquet file of the real data, against pyarrow: through Arrow, and through the loader in file order and shuffled."""

import pytest

import forebay as fb
from arrow_compare import assert_tables_equal
from loader_compare import assert_loader_delivers, deliverable
from real_data import DATA

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

FILES = sorted(DATA.rglob("*.parquet")) if DATA.is_dir() else []

pytestmark = pytest.mark.skipif(not FILES, reason=f"no real data in {DATA} (FOREBAY_TEST_DATA says where it is)")


@pytest.fixture(scope="module", params=FILES, ids=lambda p: str(p.relative_to(DATA)))
def pair(request):
    return fb.open(request.param, cache_dir=""), pq.read_table(request.param, partitioning=None)


def test_every_value_through_arrow(pair):
    ds, want = pair
    assert len(ds) == want.num_rows and ds.columns == tuple(want.column_names)
    assert_tables_equal(pa.table(ds), want)


def test_every_tensor_column_in_file_order(pair):
    ds, want = pair
    _, refused = deliverable(ds)
    for path, kind in refused:  # what the loader does not take is nested lists, and strings in lists
        assert "list<list<" in kind or "map" in kind or kind in ("string", "binary") or "list" in kind, (path, kind)
    assert_loader_delivers(ds, want, batch_size=1000)


def test_every_tensor_column_shuffled(pair):
    ds, want = pair
    assert_loader_delivers(ds, want, shuffle=True, seed=11, batch_size=333)
    if len(want.column_names) < 100:
        assert_loader_delivers(ds, want, shuffle="full", seed=11, batch_size=333)


def test_directories_of_files_are_one_table():
    for folder in sorted({f.parent for f in FILES}):
        files = sorted(folder.glob("*.parquet"))
        if len({str(pq.read_schema(f).remove_metadata()) for f in files}) != 1:
            continue
        want = pa.concat_tables([pq.read_table(f, partitioning=None) for f in files])
        ds = fb.open(f"{folder}/*.parquet", cache_dir="")
        assert len(ds.files) == len(files)
        assert_tables_equal(pa.table(ds), want)
        assert_loader_delivers(ds, want, shuffle=True, batch_size=4096)


def test_the_summary_of_every_file_can_be_printed():
    for file in FILES:
        text = repr(fb.open(file, cache_dir=""))
        assert file.name in text and "rows" in text and len(text.splitlines()) < 80
