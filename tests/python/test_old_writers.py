"""Parquet files as old versions of their writers made them: read as pyarrow reads them."""

import time

import forebay as fb
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N_DISTINCT = 40


def varint(value):
    value, out = value << 1, bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


I32, I64, BYTES, LIST, STRUCT = 5, 6, 8, 9, 12  # types of the compact protocol


def count(n):
    return bytes([n]) if n < 128 else bytes([n & 0x7F | 0x80]) + count(n >> 7)


def element(kind, value):
    if kind in (I32, I64):
        return varint(value)
    if kind == BYTES:
        return count(len(value)) + value
    if kind == LIST:
        inner, values = value
        return bytes([0xF0 | inner]) + count(len(values)) + b"".join(element(inner, each) for each in values)
    return thrift(*value)


def thrift(*fields):
    """A struct of (id, type, value)."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([number - last << 4 | kind]) + element(kind, value)
        last = number
    return out + b"\0"


def replaced(content, old, new):
    assert len(old) == len(new) and content.count(old) >= 1, (old, new)
    return content.replace(old, new)


def as_written_by(content, writer):
    """The file with another created_by, as long as pyarrow's own."""
    own = pq.read_metadata(pa.BufferReader(content)).created_by.encode()
    return replaced(content, own, writer.encode().ljust(len(own)))


@pytest.fixture
def without_headers(tmp_path):
    """A file of two dictionary-encoded columns and two row groups, whose stated sizes lack the headers of the dictionary pages (PARQUET-816)."""

    def write(writer):
        path = tmp_path / "nation.parquet"
        table = pa.table({"a": np.arange(2000) % N_DISTINCT, "b": np.arange(2000) % N_DISTINCT * 1000})
        pq.write_table(table, path, compression="none", row_group_size=1000, use_dictionary=True, write_statistics=False)
        content, meta = path.read_bytes(), pq.read_metadata(path)
        for g in range(meta.num_row_groups):
            for c in range(meta.num_columns):
                column = meta.row_group(g).column(c)
                size = column.total_compressed_size
                header = column.data_page_offset - column.dictionary_page_offset - 8 * N_DISTINCT
                assert 0 < header < 100 and column.total_uncompressed_size == size
                if 2 * (b"\x16" + varint(size)) in content:  # else done with another column of that size
                    content = replaced(content, 2 * (b"\x16" + varint(size)), 2 * (b"\x16" + varint(size - header)))
        path.write_bytes(as_written_by(content, writer))
        smaller = pq.read_metadata(path).row_group(1).column(1).total_compressed_size
        assert smaller < meta.row_group(1).column(1).total_compressed_size
        return path, table

    return write


@pytest.mark.parametrize("writer", ["parquet-mr", "parquet-mr version 1.2.8", "parquet-mr version 1.2.8 (build)", "parquet-mr version 0.9.9"])
def test_sizes_without_the_header_of_the_dictionary_page(without_headers, writer):
    path, table = without_headers(writer)
    assert pq.read_table(path).equals(table)
    for _ in range(2):  # by the file, then by the index cache
        with fb.open(path, cache_dir=path.parent / "cache") as ds:
            assert pa.table(ds).equals(table)
            with ds.loader({"x": ["a", "b"]}, batch_size=7, shuffle=False, framework="numpy") as loader:
                got = np.concatenate([batch["x"] for batch in loader])
            np.testing.assert_array_equal(got[:, 1], table["b"].to_numpy())
            windows = ds.windows(3, stride=500)
            with windows.loader({"a": fb.col("a")}, batch_size=2, shuffle=False, framework="numpy") as loader:
                assert [batch["a"][0, 0] for batch in loader] == [0, 0]


@pytest.mark.parametrize("writer", ["parquet-mr version 1.2.9", "parquet-mr version 1.10.0", "parquet-mrs", "impala version 1.0"])
def test_other_writers_are_taken_at_their_word(without_headers, writer):
    path, _ = without_headers(writer)
    with pytest.raises(OSError):
        pq.read_table(path)
    with fb.open(path, cache_dir="") as ds, pytest.raises(fb.FormatError, match="nation.parquet"):
        ds.read()


def test_sizes_that_are_right_stay(tmp_path):
    """A writer that does not state its version may have been a later one."""
    path, table = tmp_path / "x.parquet", pa.table({"a": np.arange(2000) % N_DISTINCT, "b": np.arange(2000) % N_DISTINCT})
    pq.write_table(table, path, row_group_size=1000)
    path.write_bytes(as_written_by(path.read_bytes(), "parquet-mr"))
    with fb.open(path, cache_dir="") as ds:
        assert pa.table(ds).equals(table)


def test_metadata_that_is_no_text(tmp_path):
    """Versions of fastparquet wrote keys and values as they were given: bytes, and numbers."""
    path = tmp_path / "x.parquet"
    table = pa.table({"a": [1, 2]}).replace_schema_metadata({b"\xff\xfe": b"\x80\x81", b"key": b"abc"})
    pq.write_table(table, path)
    path.write_bytes(replaced(path.read_bytes(), b"\x18\x03key\x18\x03abc\x00", b"\x18\x03key\x16\x81\x81\x81\x01\x00"))
    assert pq.read_table(path)["a"].to_pylist() == [1, 2]
    with fb.open(path, cache_dir="") as ds:
        assert ds.read()["a"].tolist() == [1, 2]
        assert pa.table(ds)["a"].to_pylist() == [1, 2]


def test_chunks_on_top_of_each_other_are_not_measured_one_by_one(tmp_path):
    """A small file of one chunk that is the chunk of 2,000 columns, with 5,000 pages each: 10 million headers, of pages that nobody asked for."""
    page = thrift((1, I32, 0), (2, I32, 1), (3, I32, 1), (5, STRUCT, [(1, I32, 1), (2, I32, 2), (3, I32, 3), (4, I32, 3)])) + b"\0"
    dictionary = thrift((1, I32, 2), (2, I32, 8), (3, I32, 8), (7, STRUCT, [(1, I32, 1), (2, I32, 0)])) + bytes(8)
    chunk, n_columns, n_rows = dictionary + 5000 * page, 2000, 6000
    names = [f"c{i}".encode() for i in range(n_columns)]
    schema = [[(4, BYTES, b"root"), (5, I32, n_columns)], *([(1, I32, 2), (3, I32, 0), (4, BYTES, name)] for name in names)]
    columns = [
        [(2, I64, 4), (3, STRUCT, [(1, I32, 2), (2, LIST, (I32, [2, 0])), (3, LIST, (BYTES, [name])), (4, I32, 0), (5, I64, n_rows),
                                   (6, I64, len(chunk)), (7, I64, len(chunk)), (9, I64, 4)])]
        for name in names
    ]  # fmt: skip
    group = [(1, LIST, (STRUCT, columns)), (2, I64, n_columns * len(chunk)), (3, I64, n_rows)]
    footer = thrift((1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, n_rows), (4, LIST, (STRUCT, [group])), (6, BYTES, b"parquet-mr version 1.2.8"))
    path = tmp_path / "small.parquet"
    path.write_bytes(b"PAR1" + chunk + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    began = time.process_time()
    with fb.open(path, cache_dir="") as ds:
        assert (len(ds.schema), len(ds)) == (n_columns, n_rows)
        with pytest.raises(fb.FormatError, match="small.parquet"):
            ds.read(["c0"])
    assert time.process_time() - began < 1.5
