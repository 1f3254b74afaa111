"""The Parquet writer, read back by pyarrow, Forebay, polars and DuckDB: values, types, statistics, page indexes, checksums.

FOREBAY_CASES sets how many random tables (default 300), FOREBAY_SEED the first seed.
"""

import datetime
import decimal
import hashlib
import os

import numpy as np
import pytest

import forebay as fb
from arrow_compare import assert_tables_equal, plain
from parquet_writer import Refused, write
from thrift_compact import Reader, parquet_footer

pa = pytest.importorskip("pyarrow")
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from random_tables import Case  # noqa: E402

CASES = int(os.environ.get("FOREBAY_CASES", 300))
FIRST = int(os.environ.get("FOREBAY_SEED", 1))
CODECS = ["none", "lz4", "zstd", "snappy"]
GROUPS = 10


class Written(Case):
    """Random tables of what the writer takes: no dictionaries, and types that pyarrow's writer is not asked for."""

    def leaf(self, n):
        array = super().leaf(n)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if self.rng.random() < 0.3:
            other = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view(), pa.large_string(): pa.string_view()}.get(array.type)
            array = array.cast(other) if other is not None else array
        if pa.types.is_decimal128(array.type) and array.type.precision <= 18 and self.rng.random() < 0.5:
            small = pa.decimal32 if array.type.precision <= 9 else pa.decimal64
            array = array.cast(small(array.type.precision, array.type.scale))
        return array

    def array(self, n, depth):
        array = super().array(n + 3, depth)[int(self.rng.integers(0, 3)) :][:n]  # offsets
        if pa.types.is_list(array.type) and self.rng.random() < 0.3:
            array = array.cast(pa.large_list(array.type.value_field))
        return array


def check_metadata(path, table):
    """What the metadata say of every column chunk, and its page index, hold for the values."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    meta = file.metadata
    assert meta.num_rows == table.num_rows
    assert meta.created_by == f"forebay version {fb.__version__.split('+')[0]}"
    first = 0
    for g in range(meta.num_row_groups):
        group = meta.row_group(g)
        rows = table.slice(first, group.num_rows)
        first += group.num_rows
        for c in range(group.num_columns):
            column = group.column(c)
            assert column.has_offset_index
            if "." in column.path_in_schema:
                continue
            values = rows[column.path_in_schema]
            stats = column.statistics
            assert stats is None or stats.null_count == values.null_count
            if stats is not None and stats.has_min_max:
                check_bounds(stats, values)


def bounds_of(stats):
    """pyarrow leaves float16 as bytes."""
    both = stats.min, stats.max
    return tuple(np.frombuffer(v, "f2")[0] for v in both) if stats.logical_type.type == "FLOAT16" else both


def check_bounds(stats, values):
    values = plain(values)
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary())
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        numbers = np.asarray(values.cast(pa.float64()))
        numbers = numbers[~np.isnan(numbers)]
        low, high = bounds_of(stats)
        assert low == numbers.min() and high == numbers.max()
        assert low != 0 or np.signbit(low)
        assert high != 0 or not np.signbit(high)
        return
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type):
        both = pc.min_max(values)
        assert (stats.min, stats.max) == (both["min"].as_py(), both["max"].as_py())
    if stats.physical_type == "BYTE_ARRAY":
        texts = [as_bytes(v) for v in values.to_pylist()]
        low, high = as_bytes(stats.min), as_bytes(stats.max)
        assert low <= min(texts) and max(texts) <= high
        assert len(low) <= 64 and (len(high) <= 64 or high == max(texts))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def check(table, path, **options):
    write(table, path, **options)
    got = pq.read_table(path, partitioning=None, page_checksum_verification=True)
    assert_tables_equal(got, table)
    got.validate(full=True)
    check_metadata(path, table)
    if table.num_columns:
        assert_tables_equal(pa.table(fb.open(path, cache_dir="", verify_crc=True)), table)
    return got


def random_case(seed, folder):
    rng = np.random.default_rng(seed)
    case = Written(seed)
    options = {
        "codec": CODECS[seed % 4],
        "page_bytes": int(rng.choice([0, 1, 64, 1000])),
        "row_group_size": int(rng.choice([1, 10, 100, 10_000], p=[0.05, 0.15, 0.3, 0.5])),
    }
    if case.rows > 500:
        options["row_group_size"] = max(100, options["row_group_size"])
    path = folder / f"{seed}.parquet"
    try:
        check(case.table, path, **options)
        # another way through memory: other chunks, no spare bytes; the same bytes
        again = folder / "again.parquet"
        copied = pa.ipc.open_stream(pa.BufferReader(to_ipc(case.table))).read_all()
        write(copied, again, **options)
        assert digest(path) == digest(again)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{case}, written with {options}\nfile kept as {path}") from error
    path.unlink()


def to_ipc(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_tables_come_back(group, tmp_path):
    for seed in range(FIRST + group, FIRST + CASES, GROUPS):
        random_case(seed, tmp_path)


def flat_table(n=5000, seed=7):
    rng = np.random.default_rng(seed)
    mask = rng.random(n) < 0.2
    words = [f"word {i}" for i in rng.integers(0, 30, n)]
    return pa.table(
        {
            "i64": pa.array(rng.integers(-(2**62), 2**62, n), mask=mask),
            "u8": rng.integers(0, 255, n, dtype="u1"),
            "u64": rng.integers(0, 2**64 - 1, n, dtype="u8"),
            "f32": rng.standard_normal(n, dtype="f4"),
            "f64": pa.array(rng.standard_normal(n), mask=mask),
            "smooth": np.sin(np.arange(n) / 100),
            "text": pa.array(words, mask=mask),
            "flag": pa.array(rng.random(n) < 0.5, mask=mask),
            "day": pa.array(rng.integers(0, 20000, n).astype("i4"), pa.date32()),
            "at": pa.array(rng.integers(0, 2**50, n), pa.timestamp("us", "UTC"), mask=mask),
            "money": pa.array([decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**9), 10**9, n)], pa.decimal128(12, 2)),
            "large": pa.array([decimal.Decimal(int(v)) * 10**10 for v in rng.integers(-(10**9), 10**9, n)], pa.decimal128(30, 0)),
            "list": pa.array([None if m else list(range(k)) for m, k in zip(mask, rng.integers(0, 5, n))], pa.list_(pa.int32())),
            "pair": pa.array([None if m else {"x": float(k), "y": str(k)} for m, k in zip(mask, rng.integers(0, 5, n))]),
        }
    )


@pytest.mark.parametrize("codec", CODECS)
def test_polars_and_duckdb_read_the_same(tmp_path, codec):
    path = tmp_path / "a.parquet"
    table = flat_table()
    write(table, path, codec=codec, page_bytes=4096, row_group_size=2000)
    polars = pytest.importorskip("polars")
    assert_tables_equal(polars.read_parquet(path).to_arrow(), table)
    duckdb = pytest.importorskip("duckdb")
    got = duckdb.sql(f"select * from '{path}'").to_arrow_table()
    for name in table.column_names:
        if name != "at":  # a zone of its own
            assert got[name].to_pylist() == table[name].to_pylist(), name
    # filters use statistics and page indexes: wrong ones lose rows
    for low in (-(2**61), 0, 2**61):
        want = int(pc.sum(pc.fill_null(pc.greater(table["i64"], low), False)).as_py() or 0)
        assert duckdb.sql(f"select count(*) from '{path}' where i64 > {low}").fetchall()[0][0] == want
        assert polars.scan_parquet(path).filter(polars.col("i64") > low).collect().height == want
    assert duckdb.sql(f"select count(*) from '{path}' where text = 'word 7'").fetchall()[0][0] == pc.sum(pc.equal(table["text"], "word 7")).as_py()


def encodings(path, column, group=0):
    return set(pq.ParquetFile(path).metadata.row_group(group).column(column).encodings)


def test_each_chunk_has_the_encoding_that_pays(tmp_path):
    rng = np.random.default_rng(1)
    n = 100_000
    table = pa.table(
        {
            "few": rng.integers(0, 100, n),
            "many": rng.integers(0, 2**62, n),
            "noise": rng.standard_normal(n, dtype="f4"),
            "constant": np.full(n, 3.5),
            "words": pa.array([f"a word {i}" for i in rng.integers(0, 1000, n)]),
            "names": pa.array([f"{i}" for i in range(n)]),
            "flags": rng.random(n) < 0.5,
        }
    )
    path = tmp_path / "a.parquet"
    check(table, path)
    for column, name in enumerate(table.column_names):
        want = "RLE_DICTIONARY" if name in ("few", "constant", "words") else "PLAIN"
        assert want in encodings(path, column), name
        assert ("RLE_DICTIONARY" in encodings(path, column)) == (want == "RLE_DICTIONARY"), name
    meta = pq.ParquetFile(path).metadata.row_group(0)
    assert meta.column(0).total_compressed_size < n  # 7 bits a value
    assert meta.column(3).total_compressed_size < 200
    check(table, path, codec="zstd")
    assert "BYTE_STREAM_SPLIT" in encodings(path, 2)
    assert "BYTE_STREAM_SPLIT" not in encodings(path, 1)


def test_more_distinct_values_than_a_dictionary_holds(tmp_path):
    texts = [f"{i % 40_000:060}" for i in range(100_000)]  # 2.5 MiB of them
    path = tmp_path / "a.parquet"
    check(pa.table({"s": texts}), path)
    assert "RLE_DICTIONARY" not in encodings(path, 0)
    repeated_late = np.concatenate([np.arange(5000), np.zeros(1_000_000, np.int64)])
    check(pa.table({"v": repeated_late}), path)


@pytest.mark.parametrize("nulls", [0, 3])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_a_dictionary_is_given_up_when_the_first_values_hardly_repeat(tmp_path, dtype, nulls):
    """When more than 15 in 16 of the first 4,096 that are no nulls differ, and not when exactly so many do."""
    columns = {}
    for distinct in (3840, 3841, 4096):
        first = np.random.default_rng(5).permutation(np.arange(4096) % distinct)
        values = np.roll(np.resize(first, 64_000), nulls).astype(dtype)
        columns[str(distinct)] = pa.array(values, mask=np.arange(64_000) < nulls)
    path = tmp_path / "a.parquet"
    check(pa.table(columns), path)
    assert ["RLE_DICTIONARY" in encodings(path, i) for i in range(3)] == [True, False, False]


def test_pages_begin_with_rows_and_are_of_the_size_asked_for(tmp_path):
    n = 600_000
    path = tmp_path / "a.parquet"
    table = pa.table({"a": np.random.default_rng(1).standard_normal(n), "b": np.arange(n, dtype="i8") * 7919})
    check(table, path)
    ds = fb.open(path, cache_dir="")
    assert len(ds) == n
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    pages = -(-n * 8 // (1 << 20))
    assert 30 * pages < column.total_compressed_size - n * 8 < 60 * pages  # a header each, and nothing else


def page_rows(data, column, rows):
    """Checks a column chunk's OffsetIndex: pages lie side by side and hold its rows in order. Their [first, last) rows."""
    meta, offset = column[3], column[4]
    reader = Reader(data, offset)
    pages = reader.struct()[1]
    assert reader.at == offset + column[5]
    ends = [page[1] + page[2] for page in pages]
    assert pages[0][1] == meta[9] and ends[-1] == meta.get(11, meta[9]) + meta[7]
    assert [page[1] for page in pages[1:]] == ends[:-1]
    for page in pages:  # a header stands there, of a page of that size
        reader = Reader(data, page[1])
        header = reader.struct()
        assert header[1] == 0 and reader.at + header[3] == page[1] + page[2]
    firsts = [page[3] for page in pages] + [rows]
    assert firsts[0] == 0 and firsts == sorted(firsts)
    return list(zip(firsts, firsts[1:]))


@pytest.mark.parametrize("rises", [True, False, None])
def test_page_indexes_say_where_rows_and_values_are(tmp_path, rises):
    n = 6000
    rng = np.random.default_rng(3)
    numbers = rng.integers(-(2**40), 2**40, n)
    if rises is not None:
        numbers = np.sort(numbers)[:: 1 if rises else -1]
    mask = rng.random(n) < 0.1
    mask[1000:3000] = True  # pages of nulls alone
    table = pa.table(
        {
            "i": pa.array(numbers, mask=mask),
            "s": pa.array([f"{v + 2**40:020}" * 4 for v in numbers], mask=mask),
            "l": pa.array([None if m else [int(v)] * (int(v) % 4) for v, m in zip(numbers, mask)], pa.list_(pa.int64())),
        }
    )
    path = tmp_path / "a.parquet"
    check(table, path, page_bytes=2000, row_group_size=4000, codec="lz4")
    data = path.read_bytes()
    first = 0
    for group in parquet_footer(data)[4]:
        for name, column in zip(table.column_names, group[1]):
            pages = page_rows(data, column, group[3])
            assert len(pages) > 5
            reader = Reader(data, column[6])
            index = reader.struct()
            assert reader.at == column[6] + column[7]
            assert {len(index[i]) for i in (1, 2, 3, 5)} == {len(pages)}
            if rises is not None:
                assert index[4] == (1 if rises else 2)
            for (begin, end), all_null, low, high, nulls in zip(pages, index[1], index[2], index[3], index[5]):
                values = plain(table[name].slice(first + begin, end - begin))
                if name == "l":
                    values, empty = values.flatten(), sum(not v for v in values.to_pylist())
                    assert nulls == empty
                else:
                    assert nulls == values.null_count
                values = values.drop_null().to_pylist()
                assert all_null == (not values)
                if name == "s" and values:
                    assert low == min(values).encode()[:64] and max(values).encode() < high and len(high) == 64
                elif values:
                    assert [int.from_bytes(v, "little", signed=True) for v in (low, high)] == [min(values), max(values)]
                else:
                    assert low == high == b""
        first += group[3]
    assert first == n


def test_long_strings_and_rows_are_pages_of_their_own(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"s": ["x" * 100_000_000, "y", None, "z" * 3_000_000], "l": [[b"1" * 2_000_000] * 3, None, [], [b"2"]]})
    for codec in ("none", "zstd"):
        check(table, path, codec=codec)
    stats = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert stats.min == "x" * 64 and stats.max == "z" * 63 + "{"


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (["ab", "b"], "ab", "b"),
        (["é" * 40], "é" * 32, "é" * 31 + "ê"),
        (["日" * 40], "日" * 21, "日" * 20 + "旦"),
        (["\x7f" * 70], "\x7f" * 64, "\x7f" * 70),
        (["a" + "\x7f" * 70], "a" + "\x7f" * 63, "b"),
        (["\U0010ffff" * 20], "\U0010ffff" * 16, "\U0010ffff" * 20),
        ([b"\xff" * 70], b"\xff" * 64, b"\xff" * 70),
        ([b"\x01" + b"\xff" * 70], b"\x01" + b"\xff" * 63, b"\x02"),
        (pa.array([b"\x01" * 100], pa.binary(100)), b"\x01" * 100, b"\x01" * 100),
    ],
)
def test_long_bounds_are_cut_and_still_hold(tmp_path, values, low, high):
    path = tmp_path / "a.parquet"
    check(pa.table({"v": values}), path)
    stats = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    assert (stats.min, stats.max) == (low, high)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([np.nan, np.nan], None),
        ([np.nan, 1, -2], (-2, 1)),
        ([0.0], (-0.0, 0.0)),
        ([-0.0], (-0.0, 0.0)),
        ([0.0, 5], (-0.0, 5)),
        ([-5, -0.0], (-5, 0.0)),
        ([np.inf, -np.inf], (-np.inf, np.inf)),
        ([np.inf, np.nan], (np.inf, np.inf)),
        ([1.0] * 40 + [np.nan] * 40, (1, 1)),
    ],
)
def test_bounds_of_floats_leave_nan_out_and_sign_zeros(tmp_path, dtype, values, bounds):
    path = tmp_path / "a.parquet"
    check(pa.table({"v": np.array(values, dtype)}), path)
    stats = pq.ParquetFile(path).metadata.row_group(0).column(0).statistics
    if bounds is None:
        assert stats is None or not stats.has_min_max
        assert not pq.ParquetFile(path).metadata.row_group(0).column(0).has_column_index
    else:
        low, high = bounds_of(stats)
        assert (low, high) == bounds
        assert np.signbit(low) == np.signbit(bounds[0]) and np.signbit(high) == np.signbit(bounds[1])


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.list_(pa.string()))}),
        pa.table({"a": [1], "b": [[None]]}),
        pa.table({"a": pa.array([None] * 1000, pa.int64()), "s": pa.array([None] * 1000, pa.string()), "n": pa.nulls(1000)}),
        pa.table({"l": pa.array([[]] * 100, pa.list_(pa.int8())), "m": pa.array([None] * 100, pa.map_(pa.string(), pa.int8()))}),
        pa.table({"f": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int16(), 2)), "z": pa.array([[], None, []], pa.list_(pa.int16(), 0))}),
        pa.table({"": [1, 2], "a.b": [3, 4], "é": [5, 6], "A": [7, 8], "a": [9, 10]}),
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_small_and_odd_tables(tmp_path, table, codec):
    path = tmp_path / "a.parquet"
    write(table, path, codec=codec)
    assert_tables_equal(pq.read_table(path, partitioning=None), table)


def test_a_table_without_columns_keeps_its_rows(tmp_path):
    path = tmp_path / "a.parquet"
    write(pa.table({"a": [1, 2, 3]}).select([]), path)
    assert pq.ParquetFile(path).metadata.num_rows == 3
    assert pq.ParquetFile(path).metadata.num_columns == 0


def test_metadata_of_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    write(pa.table({"a": [1]}), path, metadata=("forebay.source", "a data set, α"))
    assert pq.ParquetFile(path).metadata.metadata[b"forebay.source"] == "a data set, α".encode()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array(["a"]).dictionary_encode(), "dictionary"),
        (pa.array([{}], pa.struct([])), "structs without fields"),
        (pa.array([b""], pa.binary(0)), "fixed size of 0 bytes"),
        (pa.array([decimal.Decimal(100)], pa.decimal128(5, -2)), "decimals of 5 digits"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "interval"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "union"),
        (pa.array([[1]], pa.list_view(pa.int8())), "list views"),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([5])), "run-end"),
        (pa.array([2**62], pa.timestamp("s")), "more milliseconds"),
    ],
)
def test_what_parquet_has_no_counterpart_of_is_refused_by_name(tmp_path, array, message):
    table = pa.Table.from_arrays([pa.StructArray.from_arrays([array], ["inner"])], ["outer"])
    with pytest.raises(Refused, match=message) as refusal:
        write(table, tmp_path / "a.parquet")
    assert "column 'outer.inner'" in str(refusal.value)


def test_nulls_in_a_column_without_nulls_are_refused(tmp_path):
    array = pa.array([1, None])
    with pytest.raises(Refused, match="column 'a'.*without nulls"):
        write(pa.Table.from_arrays([array], schema=pa.schema([pa.field("a", pa.int64(), False)])), tmp_path / "a.parquet")


def test_codecs_that_parquet_does_not_have_are_refused(tmp_path):
    with pytest.raises(Refused, match="'lz5'"):
        write(pa.table({"a": [1]}), tmp_path / "a.parquet", codec="lz5")


def test_types_that_parquet_does_not_have_come_back(tmp_path):
    """As pyarrow's own files give them back: by the Arrow schema in the metadata."""
    types = [pa.timestamp("us", "Europe/Zurich"), pa.duration("ms"), pa.large_string(), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2), pa.date64(),
             pa.string_view(), pa.map_(pa.string(), pa.duration("s")), pa.struct([pa.field("d", pa.duration("ns"), False)])]  # fmt: skip
    table = pa.Table.from_arrays([pa.array([None], t) for t in types], [str(i) for i in range(len(types))])
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    check(table, ours)
    pq.write_table(table, theirs)
    assert pq.read_schema(ours).types == pq.read_schema(theirs).types
    assert pq.read_schema(ours).types[:5] == types[:5]
    assert pa.table(fb.open(ours, cache_dir="")).schema.types[1] == pa.duration("ms")


def test_seconds_become_milliseconds(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"t": pa.array([datetime.time(1, 2, 3)], pa.time32("s")), "at": pa.array([datetime.datetime(1969, 1, 1)], pa.timestamp("s"))})
    got = check(table, path)
    assert got.schema.types == [pa.time32("ms"), pa.timestamp("ms")]
