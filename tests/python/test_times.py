"""Times in a unit and expressions of whole numbers: exact int64, beside Python's integers and NumPy's datetimes."""

import datetime
import re

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

UNITS = ["s", "ms", "us", "ns"]
EDGES = [0, 1, -1, 2**31, -(2**31), 2**53 + 1, -(2**53) - 1, 1_700_000_000_123_456_789, -1_700_000_000_123_456_789]


def values(ds, outputs, **options):
    batches = list(ds.rows().loader(outputs, batch_size=5, shuffle=False, framework="numpy", **options))
    return {name: np.concatenate([b[name] for b in batches]) for name in outputs}


@pytest.mark.parametrize("stored", ["D", *UNITS])
def test_times_are_exact_in_every_unit(stored, tmp_path):
    per = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    limit = (2**63 - 1) // per[stored]
    ticks = [t % (2 * limit) - limit if abs(t) > limit else t for t in EDGES] + [limit, -limit]
    ticks = [t for t in ticks if abs(t) < 2**31] if stored == "D" else ticks
    kind = pa.date32() if stored == "D" else pa.timestamp(stored)
    columns = {"t": pa.array(np.array(ticks, f"M8[{stored}]"), kind)}
    if stored != "D":
        columns["d"] = pa.array(np.array(ticks, f"m8[{stored}]"))
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    ds = fb.open(tmp_path / "t.parquet")
    for unit in UNITS:
        want = [t * per[stored] // per[unit] for t in ticks]  # Python's integers
        outputs = {"t": fb.col("t").cast(f"timestamp[{unit}]"), "n": fb.col("t").cast(np.dtype(f"M8[{unit}]"))}
        if stored != "D":
            outputs["d"] = fb.col("d").cast(f"duration[{unit}]")
        found = values(ds, outputs)
        for name in outputs:
            assert found[name].dtype == np.int64
            assert found[name].tolist() == want, (name, unit)
    assert repr(fb.col("t").cast("timestamp[ns]")) == "col('t').cast('timestamp[ns]')"


def test_times_of_windows_arrays_and_pipeline_files(tmp_path):
    day = np.datetime64("1960-01-01", "D") + np.arange(40)
    hours = (np.datetime64("2000-01-01T00", "us") + np.arange(80) * np.timedelta64(3_600_000_001, "us")).reshape(40, 2)
    when = pa.FixedSizeListArray.from_arrays(pa.array(hours.ravel()), 2)
    pq.write_table(pa.table({"day": day}), tmp_path / "t.parquet")
    np.testing.assert_array_equal(
        values(fb.open(pa.table({"when": when})), {"when": fb.col("when", dtype="timestamp[ms]")})["when"], hours.astype("M8[ms]").astype("i8")
    )
    samples = fb.open(tmp_path / "t.parquet").windows(3, 2)
    outputs = {"end": fb.col("day").at(2).cast("timestamp[ns]"), "all": fb.col("day").cast("timestamp[s]").steps(3, 5)}
    loader = samples.loader(outputs, batch_size=9, shuffle=False, framework="numpy")
    batches = list(loader)
    found = {name: np.concatenate([b[name] for b in batches]) for name in outputs}
    np.testing.assert_array_equal(found["end"], day[2:-2].astype("M8[ns]").astype("i8"))
    np.testing.assert_array_equal(found["all"], np.stack([day[3:-1], day[4:]], 1).astype("M8[s]").astype("i8"))
    loader.to_yaml(tmp_path / "w.yaml")
    assert "timestamp[ns]" in (tmp_path / "w.yaml").read_text()
    for a, b in zip(batches, fb.pipeline(tmp_path / "w.yaml").loader(framework="numpy"), strict=True):
        for name in outputs:
            np.testing.assert_array_equal(a[name], b[name])
    (tmp_path / "p.yaml").write_text("data: t.parquet\noutputs:\n  x: {columns: day, dtype: 'timestamp[us]'}\nloader: {batch_size: 40, shuffle: false}\n")
    (batch,) = fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")
    np.testing.assert_array_equal(batch["x"], day.astype("M8[us]").astype("i8"))
    for wrong in ("timestamp[m]", "timestamp"):
        (tmp_path / "p.yaml").write_text(f"data: t.parquet\noutputs:\n  x: {{columns: day, dtype: '{wrong}'}}\nloader: {{batch_size: 40}}\n")
        with pytest.raises(ValueError, match=re.escape(wrong)):
            fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")


def test_times_that_are_missing_or_too_large():
    ds = fb.open(pa.table({"t": pa.array([datetime.datetime(2000, 1, 1), None, datetime.datetime(3000, 1, 1)], pa.timestamp("us"))}))
    with pytest.raises(fb.DataError, match=r"output 't': row 1 of the .*a time is missing.*fill_missing"):
        values(ds, {"t": fb.col("t").cast("timestamp[ms]")})
    assert values(ds, {"t": fb.col("t").fill_missing(0).cast("timestamp[s]")})["t"].tolist() == [946_684_800, 0, 32_503_680_000]
    with pytest.raises(fb.DataError, match=r"row 2 of the .*the time 32503680000000000 \(as stored\) is beyond what int64 holds in ns: take a coarser unit"):
        values(ds, {"t": fb.col("t").fill_missing(0).cast("timestamp[ns]")})


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda: fb.col("x").cast("timestamp[ns]"), "holds no times"), (lambda: fb.col("t").cast("duration[s]"), "is no duration: ask for a timestamp"),
        (lambda: fb.col("d").cast("timestamp[s]"), "is no timestamp: ask for a duration"),
        (lambda: fb.col("t").cast("timestamp[s]").cast("float32"), "are int64, not float32"),
        (lambda: fb.col("t").scale(2).cast("timestamp[s]"), "operations make a float"), (lambda: fb.col("t").cast("timestamp[m]"), "is not a dtype"),
        (lambda: fb.col("l").cast("timestamp[s]"), "holds lists of times: take them without the cast"),
        (lambda: fb.col("s").cast("timestamp[ns]"), "column 's' of type string holds strings: text is no time: make timestamps of it, as pandas"),
        (lambda: fb.col("t", "t").cast("timestamp[s]"), "takes 1 column"), (lambda: fb.col("t").one_hot(3).cast("timestamp[s]"), "before anything is made"),
    ],
)  # fmt: skip
def test_casts_to_times_that_cannot_be(make, error):
    table = {"t": np.array([0, 1], "M8[s]"), "d": np.array([0, 1], "m8[s]"), "x": np.array([0, 1]), "l": pa.array([[1], []], pa.list_(pa.timestamp("s")))}
    ds = fb.open(pa.table({**table, "s": ["2000-01-01"] * 2}))
    with pytest.raises((ValueError, fb.UnsupportedError), match=error):
        ds.rows().loader({"x": make()}, batch_size=1)


# ---- expressions of whole numbers ----

WHOLE = ["a + b", "a - b", "a * c", "-a", "a // c", "a % c", "b // -3", "abs(b)", "min(a, b, c)", "max(a, c)",
"(a - 1600000000000000000) // 86400000000000", "a - a + 9223372036854775807", "2 * (c + u)"]


def whole(text, row):
    names = {**row, "abs": abs, "min": min, "max": max}
    return eval(text, {"__builtins__": {}}, names)  # noqa: S307  what Python's integers give


@pytest.mark.parametrize("text", WHOLE)
def test_expressions_of_integers_are_pythons(text):
    rng = np.random.default_rng(1)
    n = 700
    columns = {
        "a": rng.integers(-(2**61), 2**61, n), "b": rng.integers(-(2**61), 2**61, n), "c": rng.choice([-3, -2, -1, 1, 2, 3], n).astype("i1"),
        "u": rng.integers(0, 2**32, n).astype("u4"),
    }  # fmt: skip
    found = values(fb.open(columns), {"x": fb.expr(text)})["x"]
    assert found.dtype == np.int64
    assert found.tolist() == [whole(text, {name: int(v[i]) for name, v in columns.items()}) for i in range(n)]


def test_times_and_arrays_in_whole_expressions(tmp_path):
    t = np.datetime64("2024-01-01T12:34:56.123456789", "ns") + np.arange(6) * np.timedelta64(1, "ns")
    grid = np.arange(12, dtype="i4").reshape(6, 2)
    table = pa.table({"t": t, "g": pa.FixedSizeListArray.from_arrays(pa.array(grid.ravel()), 2), "flag": grid[:, 0] > 3})
    ds = fb.open(table)
    ns = t.astype("i8")
    outputs = {
        "since": fb.expr("t - 1704067200000000000"), "day": fb.expr("t // 86400000000000", dtype="int32"), "g": fb.expr("g * 3 - 1"),
        "float": fb.expr("t % 1000000000", dtype="float32"), "flag": fb.expr("flag + 1"), "mixed": fb.expr("g * 0.5"),
        "quotient": fb.expr("g / 2"), "more": fb.expr("g > 3"),
    }  # fmt: skip
    found = values(ds, outputs)
    assert found["since"].tolist() == (ns - 1704067200000000000).tolist() and found["since"].dtype == np.int64
    assert found["day"].dtype == np.int32 and found["day"].tolist() == (ns // (86_400 * 10**9)).tolist()
    np.testing.assert_array_equal(found["g"], grid.astype("i8") * 3 - 1)
    np.testing.assert_array_equal(found["float"], (ns % 10**9).astype("f4"))
    np.testing.assert_array_equal(found["flag"], (grid[:, 0] > 3) + 1)
    assert [found[name].dtype for name in ("mixed", "quotient", "more")] == [np.float32] * 3
    np.testing.assert_array_equal(found["quotient"], grid / 2)


def test_floor_division_of_floats_is_numpys():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=500) * 10, np.concatenate([rng.normal(size=496), [0.0, 0.1, -0.0, np.inf]])
    a[-3] = 1.0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(values(fb.open({"a": a, "b": b}), {"x": fb.expr("a // b", dtype="float64")})["x"], np.floor_divide(a, b))


@pytest.mark.parametrize(
    "text, error",
    [
        ("a + 9223372036854775807", "row 1 of the .*the expression is beyond int64"), ("-b", "row 2 .*is beyond int64"), ("abs(b)",
        "row 2 .*is beyond int64"),
        ("b // (a - 2)", "row 2 .*is beyond int64"), ("a * b * 2", "row 2 .*is beyond int64"), ("b - 1", "row 2 .*is beyond int64"),
        ("a // (a - 1)", "row 2 .*divides by 0"),
        ("b % a", "row 0 .*divides by 0"),
    ],
)  # fmt: skip
def test_overflow_and_division_by_0_name_the_row(text, error):
    ds = fb.open({"a": np.array([0, 3, 1]), "b": np.array([5, 7, -(2**63)])})
    with pytest.raises(fb.DataError, match=f"output 'x': {error}"):
        values(ds, {"x": fb.expr(text)})


def test_missing_integers_in_expressions():
    ds = fb.open(pa.table({"a": pa.array([1, None, 2**62, 7]), "b": pa.array([1, 2, 2, None], pa.int8())}))
    with pytest.raises(fb.DataError, match="row 1 of the .*a value of the expression is missing, and int64 has no NaN: dtype float32 or float64 has"):
        values(ds, {"x": fb.expr("a // b")})
    np.testing.assert_array_equal(values(ds, {"x": fb.expr("a // b", dtype="float64")})["x"], [1, np.nan, 2.0**61, np.nan])
    np.testing.assert_array_equal(values(ds, {"x": fb.expr("100 // (b + 70000) - 1", dtype="float16")})["x"], [-1, -1, -1, np.nan])
    np.testing.assert_array_equal(values(ds, {"x": fb.expr("isnan(b) ? 0 : b")})["x"], np.array([1, 2, 2, 0], "f4"))
    with pytest.raises(fb.DataError, match="row 2 .*4611686018427387904 does not fit int8"):
        values(fb.open({"a": np.array([1, 2, 2**62])}), {"x": fb.expr("a + 0", dtype="int8")})
