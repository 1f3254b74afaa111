"""Durations in Parquet files: Parquet has no such type, Arrow's writers say it in the metadata under "ARROW:schema"."""

import base64

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb


def table():
    return pa.table(
        {
            "n": pa.array([1, 2, None], pa.int64()),
            "s": pa.array([1, None, -(86400 * 10**8)], pa.duration("s")),
            "ns": pa.array([5, 6, 7], pa.duration("ns")),
            "struct": pa.array([{"x": 1, "y": 2}, None, {"x": 3, "y": None}], pa.struct([("x", pa.duration("us")), ("y", pa.int64())])),
            "list": pa.array([[1, 2], None, []], pa.list_(pa.duration("ms"))),
            "structs": pa.array([[{"q": 4, "r": 5}], [], None], pa.list_(pa.struct([("q", pa.duration("us")), ("r", pa.int64())]))),
            "map": pa.array([[(5, 1)], None, []], pa.map_(pa.duration("s"), pa.int64())),
            "values": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.duration("ms"))),
        }
    )


def test_every_unit_at_every_depth(tmp_path):
    t = table()
    pq.write_table(t, tmp_path / "t.parquet")
    with fb.open(tmp_path / "t.parquet") as ds:
        got = pa.table(ds)
        kinds = {f.name: (f.kind, f.unit) for f in ds.schema}
    assert kinds["s"] == ("duration", "s") and kinds["ns"] == ("duration", "ns") and kinds["n"][0] == "int"
    for name in t.column_names:
        assert got[name].to_pylist() == t[name].to_pylist(), name
    assert got.schema.field("struct").type == t.schema.field("struct").type
    assert got.schema.field("list").type.value_type == pa.duration("ms")
    assert got.schema.field("structs").type.value_type == t.schema.field("structs").type.value_type
    assert got.schema.field("map").type.key_type == pa.duration("s") and got.schema.field("map").type.item_type == pa.int64()
    assert got.schema.field("values").type.item_type == pa.duration("ms")


def test_a_frame_of_pandas_comes_back_and_goes_through_a_loader(tmp_path):
    frame = pd.DataFrame({"late": pd.to_timedelta([90, 15, 7], unit="s"), "v": [1.0, 2.0, 3.0]})
    frame.to_parquet(tmp_path / "f.parquet")
    with fb.open(tmp_path / "f.parquet") as ds:
        pd.testing.assert_frame_equal(pa.table(ds).to_pandas(), frame, check_dtype=True)
        assert ds.read()["late"].dtype == frame["late"].to_numpy().dtype
        with ds.rows().loader({"late": fb.col("late")}, batch_size=3, shuffle=False, framework="numpy") as loader:
            (batch,) = loader
        assert batch["late"].dtype == np.int64 and batch["late"].tolist() == frame["late"].to_numpy().view("int64").tolist()


def test_the_index_on_disk_keeps_them(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "d").mkdir()
    for i in range(3):
        pq.write_table(table(), tmp_path / "d" / f"{i}.parquet")
    schemas = []
    for _ in range(2):
        with fb.open(tmp_path / "d") as ds:
            schemas.append(str(ds.schema))
    assert schemas[0] == schemas[1] and "duration[ns]" in schemas[0]


def parquet_with(path, schema_value):
    """Int64 columns n and d, and what is to stand under "ARROW:schema"."""
    plain = pa.table({"n": pa.array([1, 2], pa.int64()), "d": pa.array([3, 4], pa.int64())})
    with pq.ParquetWriter(path, plain.schema, store_schema=False) as writer:
        writer.write_table(plain)
        writer.add_key_value_metadata({b"ARROW:schema": schema_value})
    return path


def message(schema):
    return bytes(schema.serialize())


def kinds(path):
    with fb.open(path, cache_dir="") as ds:
        assert pa.table(ds)["n"].cast(pa.int64()).to_pylist() == [1, 2]
        return [f.kind for f in ds.schema]


REAL = pa.schema([("n", pa.int64()), ("d", pa.duration("us"))])


@pytest.mark.parametrize(
    "value, expected",
    [
        (base64.b64encode(message(REAL)), ["int", "duration"]),
        (base64.b64encode(message(REAL)).rstrip(b"="), ["int", "duration"]),
        (base64.b64encode(message(REAL)[4:]), ["int", "duration"]),  # before Arrow 0.15: no continuation marker
        (base64.b64encode(message(pa.schema([("n", pa.int64()), ("e", pa.duration("us"))]))), ["int", "int"]),  # of another file
        (base64.b64encode(message(pa.schema([("d", pa.duration("us"))]))), ["int", "int"]),
        (base64.b64encode(message(pa.schema([("n", pa.string()), ("d", pa.struct([("x", pa.duration("s"))]))]))), ["int", "int"]),
        (b"", ["int", "int"]),
        (b"no base64", ["int", "int"]),
        (base64.b64encode(b"\xff" * 64), ["int", "int"]),
    ],
)
def test_what_does_not_fit_says_nothing(tmp_path, value, expected):
    assert kinds(parquet_with(tmp_path / "t.parquet", value)) == expected


def test_damage_never_harms_the_values(tmp_path):
    rng = np.random.default_rng(7)
    whole, seen = message(REAL), set()
    for i in range(400):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)] if i % 4 == 0 else whole)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        seen.add(tuple(kinds(parquet_with(tmp_path / "t.parquet", base64.b64encode(bytes(damaged))))))
    assert {("int", "int"), ("int", "duration")} <= seen
