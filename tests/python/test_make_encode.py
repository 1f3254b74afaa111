"""Bits, one-hot, maps, n-grams and expressions through loaders, against NumPy and pandas, every row of an epoch."""

import base64
import datetime
import json
import math
import pickle
import random
import sys

import numpy as np
import pytest

import forebay as fb
from loader_compare import deliver
from real_data import DATA
from refusals import refused

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")


def loading(ds, output):
    return lambda: ds.rows().loader({"x": output}, batch_size=8, framework="numpy")


# ---- bits ----


@pytest.fixture(scope="module")
def filters(tmp_path_factory):
    """(data set, bits): the same 1,024 bits as text, as bytes of a fixed and of a variable size, in little order, as base64."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (700, 1024)).astype("uint8")
    packed, little = np.packbits(bits, axis=1), np.packbits(bits, axis=1, bitorder="little")
    rows = [row.tobytes() for row in packed]
    table = pa.table(
        {
            "text": ["".join(map(str, row)) for row in bits],
            "fixed": pa.array(rows, pa.binary(128)),
            "binary": pa.array(rows, pa.binary()),
            "list": pa.array(list(packed), pa.list_(pa.uint8())),
            "little": pa.array([row.tobytes() for row in little], pa.binary(128)),
            "base64": [base64.b64encode(row).decode() for row in rows],
            "bare": [base64.b64encode(row).decode().rstrip("=") for row in rows],
            "code": pa.array(rng.integers(-(2**31), 2**31, 700), pa.int32()),
            "uid": pa.array(np.arange(700)),
        }
    )
    path = tmp_path_factory.mktemp("bits") / "filters.parquet"
    pq.write_table(table, path, row_group_size=150)
    return fb.open(path), bits


def test_bits_of_every_layout_are_the_same(filters):
    ds, bits = filters
    outputs = {name: fb.col(name).bits(1024) for name in ("text", "binary", "list")}
    outputs |= {"fixed": fb.col("fixed").bits(), "little": fb.col("little").bits(encoding="packed_little"), "base64": fb.col("base64").bits(1024, "base64")}
    outputs["bare"] = fb.col("bare").bits(1024, encoding="base64")
    got = deliver(ds.rows(), outputs)
    for name in outputs:
        assert got[name].dtype == np.float32, name
        np.testing.assert_array_equal(got[name], bits, err_msg=name)
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(np.packbits(bits, axis=1).ravel()), 128)
    np.testing.assert_array_equal(deliver(fb.open(pa.table({"x": arrays})).rows(), {"x": fb.col("x").bits()})["x"], bits)
    code = deliver(ds.rows(), {"code": fb.col("code").bits(encoding="packed_little"), "value": "code"})
    np.testing.assert_array_equal(code["code"], (code["value"].astype("uint32")[:, None] >> np.arange(32, dtype="uint32")) & 1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "int32"])
def test_bits_and_classes_have_the_dtype_that_was_asked_for(filters, dtype):
    ds, bits = filters
    got = deliver(ds.rows(), {"a": fb.col("text").bits(1024).cast(dtype), "b": fb.expr("uid % 5", dtype="int64")})
    assert got["a"].dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got["a"], bits.astype(dtype))
    np.testing.assert_array_equal(got["b"], np.arange(700) % 5)


def test_bits_that_cannot_work_are_refused_at_open(filters):
    ds, _ = filters
    refused(loading(ds, fb.col("text").bits()), ValueError, "how many bits has a value of column 'text'")
    refused(loading(ds, fb.col("fixed").bits(1000)), ValueError, "column 'fixed' has 128 bytes a row, and 1000 bits are 125 bytes")
    refused(loading(ds, fb.col("uid").bits(8)), fb.UnsupportedError, "lowest first, with the encoding \"packed_little\", and all of them: 64")
    assert deliver(ds.rows(), {"code": fb.col("uid").bits(64, "packed_little")})["code"].shape[1] == 64
    for column in ("uid", "number"):
        refused(loading(ds if column == "uid" else fb.open({"number": np.ones(3)}), fb.col(column).bits(8)), fb.UnsupportedError, "read it as text", "dtypes=")
    with pytest.raises(ValueError, match="encoding='hex'"):
        fb.col("text").bits(8, "hex")
    with pytest.raises(ValueError, match="one column"):
        fb.col("text", "list").bits(8)
    with pytest.raises(ValueError, match="made of them already"):
        fb.col("text").bits(8).one_hot(2)
    with pytest.raises(ValueError, match="write them first"):
        fb.col("fixed").bits().scale(2)


def test_a_bad_value_fails_its_batch_and_says_what_was_found(parquet):
    ds = fb.open(parquet({"text": ["0101"] * 50 + ["01x1"] + ["0101"] * 13}))
    loader = iter(ds.rows().loader({"x": fb.col("text").bits(4)}, batch_size=16, shuffle=False, framework="numpy"))
    for _ in range(3):
        next(loader)
    with pytest.raises(fb.DataError, match="output 'x'.*'x' at character 2, where '0' or '1' is expected"):
        next(loader)


# ---- one-hot and maps ----


def test_classes_and_maps_equal_numpy(parquet):
    rng = np.random.default_rng(2)
    n = 1000
    label = rng.integers(0, 5, n).astype("int16")
    null = rng.random(n) < 0.1
    gender = rng.choice(["male", "female", "other", ""], n)
    values = {"label": pa.array(label), "gap": pa.array(label, mask=null), "real": label.astype("float32"), "gender": pa.array(gender, mask=null)}
    ds = fb.open(parquet(values, row_group_size=300))
    merge = {0: 0, 1: 1, 2: 1, 3: 0, 4: 2}
    got = deliver(
        ds.rows(),
        {
            "hot": fb.col("label").one_hot(5),
            "real": fb.col("real").one_hot(5).cast("uint8"),
            "some": fb.col("gap").one_hot(3, ignore_unknown=True),
            "merged": fb.col("label").map(merge),
            "default": fb.col("gap").map({0: 0.5, 3: 1.5}, default=-1),
            "gender": fb.col("gender").map({"male": 0, "female": 1}, default=2),
            "kept": fb.col(["label"]).map(merge).cast("float32"),
        },
    )
    eye = np.eye(5, dtype="float32")
    np.testing.assert_array_equal(got["hot"], eye[label])
    np.testing.assert_array_equal(got["real"], eye[label].astype("uint8"))
    np.testing.assert_array_equal(got["some"], np.where(null[:, None], 0, eye[label][:, :3]))
    expect = np.array([merge[v] for v in label])
    np.testing.assert_array_equal(got["merged"], expect)
    assert got["merged"].dtype == np.int64 and got["default"].dtype == np.float32 and got["kept"].shape == (n, 1) and got["kept"].dtype == np.float32
    np.testing.assert_array_equal(got["default"], np.where(null, -1, np.select([label == 0, label == 3], [0.5, 1.5], -1)))
    np.testing.assert_array_equal(got["gender"], np.where(null, 2, np.select([gender == "male", gender == "female"], [0, 1], 2)))
    refused(loading(ds, fb.col("gender").one_hot(3)), fb.UnsupportedError, "strings become numbers by a map")
    refused(loading(ds, fb.col("gender").map({1: 2})), fb.UnsupportedError, "give the strings")
    refused(loading(ds, fb.col("label").map({1: 0.5}).cast("int8")), ValueError, "mapped to 0.5, which is no int8")
    with pytest.raises(fb.DataError, match="a missing value is not in the map"):
        deliver(ds.rows(), {"x": fb.col("gap").map(merge)})
    with pytest.raises(TypeError, match="all numbers or all strings"):
        fb.col("label").map({1: 2, "a": 3})
    with pytest.raises(TypeError, match="a number is expected"):
        fb.col("label").map({1: "a"})


def test_windows_and_groups_have_one_result_a_row(parquet):
    label = np.arange(60) % 4
    ds = fb.open(parquet({"label": label, "key": np.arange(60) // 7, "word": [f"w{i}" for i in range(60)]}))
    eye = np.eye(4, dtype="float32")
    got = deliver(ds.windows(5, 2), {"x": fb.col("label").one_hot(4).steps(0, 5), "y": fb.expr("label * 2 + 1").steps(5, 7)})
    rows = np.arange(54)[:, None] + np.arange(7)
    np.testing.assert_array_equal(got["x"], eye[label[rows[:, :5]]])
    np.testing.assert_array_equal(got["y"], label[rows[:, 5:]] * 2 + 1)
    got = deliver(ds.groups("key"), {"x": fb.col("label").one_hot(4), "w": fb.ngrams("word", vocabulary=["w1", "w7"])})
    np.testing.assert_array_equal(got["x"], eye[label])
    np.testing.assert_array_equal(got["w"][:, 0], [f"w{7 * k}".startswith("w1") for k in range(9)])  # of the group's first row


# ---- labels ----


def test_labels_of_a_file_are_merged(tmp_path):
    h5py = pytest.importorskip("h5py")
    names = {"none": 0, "drip": 1, "burst": 2}
    for content in (json.dumps(names), json.dumps({v: k for k, v in names.items()}), json.dumps(list(names))):
        with h5py.File(tmp_path / "a.h5", "w") as f:
            f["labels"] = np.array([0, 1, 2, 2, 0], "int16")
            f.attrs["labels_json"] = content
        ds = fb.open(tmp_path / "a.h5")
        assert fb.class_map(ds) == fb.class_map(content) == names
        mapping = fb.class_map(ds, {"quiet": ["none"], "leak": ["drip", "burst"]})
        assert mapping == {0: 0, 1: 1, 2: 1} == fb.class_map(ds, {"none": 0, "drip": 1, "burst": 1})
        np.testing.assert_array_equal(deliver(ds.rows(), {"y": fb.col("labels").map(mapping)})["y"], [0, 1, 1, 1, 0])
    with pytest.raises(ValueError, match="there is no class 'flood': there are 'none', 'drip', 'burst'"):
        fb.class_map(names, {"leak": ["flood"]})
    with pytest.raises(ValueError, match="merged into two"):
        fb.class_map(names, {"a": ["drip"], "b": ["drip"]})
    with pytest.raises(ValueError, match="no JSON"):
        fb.class_map("{")


# ---- n-grams ----


def reference_text(frame, separator="", lower=False, delete="", strip=False):
    """The joined text of every row, as the pandas code of data owners makes it."""
    texts = pd.Series([separator.join(row) for row in zip(*(frame[name] for name in frame))])
    if lower:
        texts = texts.str.lower()
    for character in delete:
        texts = texts.str.replace(character, "", regex=False)
    return texts.str.strip() if strip else texts


def reference_grams(texts, vocabulary, n=2, drop_spaces=False):
    place = {gram: i for i, gram in enumerate(vocabulary)}
    result = np.zeros((len(texts), len(place)), "float32")
    if drop_spaces:
        place = {gram: i for gram, i in place.items() if " " not in gram}
    rows, places = [], []
    for row, text in enumerate(texts):
        found = [place[gram] for gram in {text[i : i + n] for i in range(len(text) - n + 1)} if gram in place]
        places += found
        rows += [row] * len(found)
    result[rows, places] = 1
    return result


def test_the_standard_vocabulary_has_its_order():
    grams = fb.ngram_vocabulary()
    assert len(grams) == 1296 == len(set(grams)) and len(fb.ngram_vocabulary("letters", "digits", "letter-digit")) == 1036
    assert (grams[0], grams[27], grams[675], grams[676], grams[775], grams[776], grams[1036], grams[1295]) == ("aa", "bb", "zz", "00", "99", "a0", "0a", "9z")
    assert fb.ngram_vocabulary("digits", "letters")[:101][-1] == "aa"
    with pytest.raises(ValueError, match="no part"):
        fb.ngram_vocabulary("letter")


@pytest.mark.parametrize("variant",
                         [{}, {"lower": True}, {"lower": True, "delete": '" . /', "strip": True, "drop_spaces": True}, {"separator": " ", "missing": ""}])
def test_historical_persons_have_the_grams_that_pandas_finds(variant):
    path = DATA / "linkage" / "historical_figures_with_errors_50k.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    columns = ["first_name", "surname", "dob", "birth_place", "postcode_fake", "gender", "occupation"]
    frame = pd.read_parquet(path)[columns].astype(object)
    frame = frame.where(frame.notna(), variant.get("missing", "None")).astype(str)
    own = {k: v for k, v in variant.items() if k in ("separator", "lower", "delete", "strip")}
    texts = reference_text(frame, **own)
    vocabulary = fb.ngram_vocabulary() if "separator" not in variant else (*fb.ngram_vocabulary(), *(f" {c}" for c in "abcdefgh"), "é ", "  ")
    got = deliver(fb.open(path).rows(), {"x": fb.ngrams(*columns, vocabulary=vocabulary, dtype="uint8", **variant)}, batch_size=4096)["x"]
    assert got.shape == (len(frame), len(vocabulary)) and got.sum() > 20 * len(frame)
    expect = reference_grams(texts, vocabulary, drop_spaces=variant.get("drop_spaces", False))
    np.testing.assert_array_equal(got, expect)


def typed_columns(rng, n):
    """Columns of every type that becomes text, without missing values, and what pandas' astype(str) makes of them."""
    floats = np.where(rng.random(n) < 0.5, rng.normal(size=n) * 10.0 ** rng.integers(-8, 20, n), rng.integers(-(10**6), 10**6, n))
    columns = {"f64": floats, "f32": np.round(floats.astype("float32"), 3), "f16": rng.normal(0, 100, n).astype("float16")}
    columns |= {name: rng.integers(np.iinfo(name).min, np.iinfo(name).max, n, dtype=name, endpoint=True) for name in ("int8", "int64", "uint64", "uint16")}
    columns["flag"] = rng.random(n) < 0.5
    days = rng.integers(-30000, 30000, n).astype("datetime64[D]")
    columns |= {"day_s": days.astype("datetime64[s]"), "time_ms": days.astype("datetime64[ms]") + rng.integers(1, 86400, n) * 1000}
    columns["time_us"] = columns["time_ms"].astype("datetime64[us]") + 1
    columns["time_ns"] = columns["time_ms"].astype("datetime64[ns]") + 1
    frame = pd.DataFrame(columns)
    frame["utc"] = frame["time_ms"].dt.tz_localize("UTC")
    frame["date"] = [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(d)) for d in days.astype("int64")]
    return frame


def test_numbers_and_times_are_text_as_pandas_writes_it(tmp_path):
    """Every 6-gram of the text in the vocabulary: nothing of it can differ."""
    frame = typed_columns(np.random.default_rng(3), 400)
    old = tuple(map(int, np.__version__.split(".")[:2])) < (2, 4)
    names = [name for name in frame if not (old and name in ("f32", "f16"))]
    frame.to_parquet(tmp_path / "typed.parquet")
    ds = fb.open(tmp_path / "typed.parquet")
    for name in names:
        texts = frame[name].astype(str)
        padded = "|" + texts + "|||||"
        vocabulary = sorted({text[i : i + 6] for text in padded for i in range(len(text) - 5)})
        outputs = {"x": fb.ngrams("one", name, "five", n=6, vocabulary=vocabulary, dtype="bool")}
        framed = pd.DataFrame({"one": "|", name: frame[name], "five": "|||||"})
        framed.to_parquet(tmp_path / f"{name}.parquet")
        got = deliver(fb.open(tmp_path / f"{name}.parquet").rows(), outputs)["x"]
        np.testing.assert_array_equal(got, reference_grams(padded, vocabulary, n=6).astype(bool), err_msg=name)
    got = deliver(ds.rows(), {"x": fb.ngrams(*names, separator="/")})["x"]
    texts = reference_text(frame[names].astype(str), "/")
    np.testing.assert_array_equal(got, reference_grams(texts, fb.ngram_vocabulary()))


def test_missing_values_have_the_text_of_their_type(parquet):
    stamp = pa.array([None, datetime.datetime(2001, 2, 3)], pa.timestamp("us"))
    table = {"f": [None, 1.5], "i": [None, 7], "b": [None, True], "t": stamp, "s": [None, "x"], "d": pa.array([None, datetime.date(2001, 2, 3)])}
    ds = fb.open(parquet(table))
    for name, text in {"f": "nan", "i": "<NA>", "b": "<NA>", "t": "NaT", "s": "None", "d": "None"}.items():
        vocabulary = [text[i : i + 2] for i in range(len(text) - 1)]
        got = deliver(ds.rows(), {"x": fb.ngrams(name, vocabulary=vocabulary), "own": fb.ngrams(name, vocabulary=vocabulary, missing="")})
        assert got["x"][0].all() and not got["x"][1].any() and not got["own"].any(), name


def test_lower_is_what_python_does(parquet):
    """All characters that have a lower case, but Σ at the end of a word."""
    characters = [chr(c) for c in range(1, sys.maxunicode + 1) if not 0xD800 <= c < 0xE000 and (chr(c).lower() != chr(c)) and chr(c) != "Σ"]
    texts = [c + "q" for c in characters]
    vocabulary = sorted({(c.lower() + "q")[-2:] for c in characters})
    got = deliver(fb.open(parquet({"c": texts})).rows(), {"x": fb.ngrams("c", vocabulary=vocabulary, lower=True, dtype="bool")})["x"]
    differ = [c for c, a, b in zip(characters, got, reference_grams([t.lower() for t in texts], vocabulary)) if (a != b).any()]
    # the system's tables and Python's are of different versions of Unicode: letters that one of them does not know yet
    assert len(differ) <= 60 and all(ord(c) > 0x1C80 for c in differ), [hex(ord(c)) for c in differ]


def test_ngrams_that_cannot_work_are_refused(parquet):
    ds = fb.open(parquet({"name": ["a"], "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}))
    refused(loading(ds, fb.ngrams("name", vocabulary=["abc"])), ValueError, "the vocabulary is of 2 characters an entry, and 'abc'")
    refused(loading(ds, fb.ngrams("name", vocabulary=["ab", "ab"])), ValueError, "in the vocabulary twice")
    refused(loading(ds, fb.ngrams("vector")), fb.UnsupportedError, "several values a row")
    refused(loading(ds, fb.ngrams("surname")), fb.SchemaError, "surname")
    with pytest.raises(ValueError, match="vocabulary="):
        fb.ngrams("name", n=3)
    with pytest.raises(TypeError, match="not one str"):
        fb.ngrams("name", vocabulary="abc")


# ---- expressions ----


def random_expression(rng, depth):
    """(our text, NumPy's text)."""
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        leaf = rng.choice(["a", "b", "c.d", "`odd name`", f"{rng.uniform(0, 5):.3g}", "2", "0.5", "1e2"])
        return leaf, {"c.d": "cd", "`odd name`": "odd"}.get(leaf, leaf)
    x, y, z = (random_expression(rng, depth - 1) for _ in range(3))
    if kind < 0.5:
        ours, theirs = rng.choice([("+", "+"), ("-", "-"), ("*", "*"), ("/", "/"), ("%", "%")])
        return f"({x[0]} {ours} {y[0]})", f"np.float64({x[1]}) {theirs} ({y[1]})" if theirs != "%" else f"np.mod({x[1]}, {y[1]})".join("()")
    if kind < 0.6:
        op = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({x[0]} {op} {y[0]})", f"(({x[1]}) {op} ({y[1]})) * 1.0".join("()")
    if kind < 0.68:
        op = rng.choice(["and", "or"])
        return f"({x[0]} {op} {y[0]})", f"(np.logical_{op}({x[1]}, {y[1]}) * 1.0)"
    if kind < 0.72:
        return f"(not {x[0]})", f"(np.logical_not({x[1]}) * 1.0)"
    if kind < 0.78:
        return rng.choice([f"({x[0]} ? {y[0]} : {z[0]})", f"where({x[0]}, {y[0]}, {z[0]})"]), f"np.where(({x[1]}) != 0, {y[1]}, {z[1]})"
    if kind < 0.84:
        name = rng.choice(["min", "max"])
        return f"{name}({x[0]}, {y[0]}, {z[0]})", f"np.{name}imum(np.{name}imum({x[1]}, {y[1]}), {z[1]})"
    if kind < 0.88:
        return f"(abs({x[0]}) ^ 0.5)", f"(np.abs({x[1]}) ** 0.5)"
    if kind < 0.9:
        return f"(-{x[0]})", f"(-({x[1]}))"
    name = rng.choice(["abs", "sqrt", "log1p", "sin", "cos", "floor", "ceil", "round", "isnan", "exp", "log", "log10", "atan2"])
    if name == "atan2":
        return f"atan2({x[0]}, {y[0]})", f"np.arctan2({x[1]}, {y[1]})"
    theirs = {"round": "rint"}.get(name, name)
    return f"{name}({x[0]})", f"(np.{theirs}({x[1]}) * 1.0)"


def test_random_expressions_equal_numpy(parquet):
    n, rng = 600, np.random.default_rng(4)
    null = rng.random(n) < 0.1
    values = {"a": rng.normal(0, 3, n), "b": rng.integers(-4, 5, n).astype("int16"), "odd": rng.random(n).astype("float32"), "cd": rng.normal(0, 2, n)}
    struct = pa.StructArray.from_arrays([pa.array(values["cd"])], names=["d"])
    table = pa.table({"a": values["a"], "b": pa.array(values["b"], mask=null), "odd name": values["odd"], "c": struct})
    ds = fb.open(parquet(table, row_group_size=250))
    values = {name: v.astype("float64") for name, v in values.items()}
    values["b"][null] = np.nan
    picks = random.Random(5)
    seen = 0
    for _ in range(12):
        outputs, expect = {}, {}
        for k in range(10):
            ours, theirs = random_expression(picks, picks.randrange(1, 5))
            ours, theirs = f"{ours} + 0 * a", f"{theirs} + 0 * a"
            outputs[f"x{k}"] = fb.expr(ours, dtype="float64")
            with np.errstate(all="ignore"):
                expect[f"x{k}"] = (ours, eval(theirs, {"np": np, **values}))  # noqa: S307
        got = deliver(ds.rows(), outputs)
        for name, (text, value) in expect.items():
            with np.errstate(all="ignore"):
                scale = np.where(np.isfinite(value), np.abs(value), 0)
            close = np.isclose(got[name], value, rtol=1e-9, atol=1e-9 * max(1.0, float(scale.max())) * 1e-3, equal_nan=True) | (got[name] == value)
            # a sign or a step may flip where two roundings of a function differ: rarely, and never everywhere
            assert close.mean() > 0.97, (text, got[name][~close][:3], value[~close][:3])
            seen += 1
    assert seen == 120


def test_expressions_find_their_columns_and_say_where_they_are_wrong(parquet):
    ds = fb.open(parquet({"a": np.arange(8.0), "b.c": np.ones(8), "é": np.ones(8, "int8"), "s": ["x"] * 8}))
    assert fb.expr("a + 1e3 * sqrt(a) - pi").columns == ("a",)
    assert fb.expr("not a and `b.c` or é < nan").columns == ("a", "b.c", "é")
    got = deliver(ds.rows(), {"x": fb.expr("`b.c` + é * a ^ 2"), "y": fb.expr("a > 3", dtype="bool"), "z": fb.expr("a / 2", dtype="int32")})
    np.testing.assert_array_equal(got["x"], 1 + np.arange(8.0) ** 2)
    np.testing.assert_array_equal(got["y"], np.arange(8) > 3)
    np.testing.assert_array_equal(got["z"], np.arange(8) // 2)
    said = "output 'x': the expression at position 6: a number, a column, a function or '(' is expected, not the end"
    refused(loading(ds, fb.expr("a + (")), ValueError, said)
    refused(loading(ds, fb.expr("a < 1 < 2")), ValueError, "comparisons do not chain")
    refused(loading(ds, fb.expr("sine(a)+a")), ValueError, "there is no such function")
    refused(loading(ds, fb.expr("s + a")), fb.UnsupportedError, "column 's' of type string cannot be computed with")
    refused(loading(ds, fb.expr("q + a")), fb.SchemaError, "q")
    with pytest.raises(fb.DataError, match="the expression's value inf is no int32"):
        deliver(ds.rows(), {"x": fb.expr("1 / a", dtype="int32")})
    with pytest.raises(ValueError, match="names no column"):
        fb.expr("1 + 2")


def test_expressions_of_arrays_and_operations_before():
    rng = np.random.default_rng(6)
    image = rng.random((50, 12)).astype("float32")
    column = pa.FixedSizeListArray.from_arrays(pa.array(image.ravel()), 12)
    ds = fb.open(pa.table({"image": column, "noise": column, "t": np.arange(50.0)}))  # Parquet has no arrays of a fixed size
    got = deliver(ds.rows(), {"x": fb.expr("(image - noise / 2) * 4"), "hot": fb.col("t").scale(0.1).clip(0, 2).one_hot(3, ignore_unknown=True)})
    np.testing.assert_allclose(got["x"], (image - image / 2) * 4, rtol=1e-6)
    scaled = np.clip(np.arange(50) * 0.1, 0, 2).astype("float32")
    np.testing.assert_array_equal(got["hot"], (scaled[:, None] == np.arange(3)).astype("float32"))
    refused(loading(ds, fb.expr("image + t")), ValueError, "'image' and 't' differ in shape (12 and 1 values a row)")


# ---- all of them ----


def test_what_is_made_prints_pickles_and_is_shuffled(filters):
    ds, bits = filters
    outputs = {
        "bits": fb.col("text").bits(1024),
        "grams": fb.ngrams("uid", vocabulary=fb.ngram_vocabulary("digits")),
        "even": fb.expr("uid % 2 == 0", dtype="bool"),
        "map": fb.col("uid").map({i: i % 3 for i in range(700)}),
        "hot": fb.col("uid").one_hot(700),
        "uid": "uid",
    }
    for output in outputs.values():
        assert isinstance(output, str) or pickle.loads(pickle.dumps(output)) == output
    text = ["col('text').bits(1024)", "ngrams('uid', n=2, vocabulary=<100 grams>)", "expr('uid % 2 == 0').cast('bool')", "col('uid').map(<700 values>)"]
    assert [repr(outputs[name]) for name in ("bits", "grams", "even", "map")] == text
    assert repr(fb.col("a").bits(encoding="packed_little")) == "col('a').bits(encoding='packed_little')"
    loader = ds.rows().loader(outputs, batch_size=100, seed=3, framework="numpy", threads=2)
    seen = []
    for batch in loader:
        uid = batch["uid"]
        seen.append(uid)
        np.testing.assert_array_equal(batch["bits"], bits[uid])
        np.testing.assert_array_equal(batch["even"], uid % 2 == 0)
        np.testing.assert_array_equal(batch["map"], uid % 3)
        np.testing.assert_array_equal(batch["hot"].argmax(axis=1), uid)
        np.testing.assert_array_equal(batch["grams"], reference_grams([str(u) for u in uid], fb.ngram_vocabulary("digits")))
    assert sorted(np.concatenate(seen)) == list(range(700)) and not np.array_equal(np.concatenate(seen), np.arange(700))
    assert math.isclose(float(batch["bits"].mean()), 0.5, abs_tol=0.1)


def test_a_fill_value_stands_in_for_missing_classes(tmp_path):
    pq.write_table(pa.table({"c": pa.array([0, None, 2, None], pa.int32())}), tmp_path / "x.parquet")
    ds = fb.open(tmp_path / "x.parquet")
    loader = ds.rows().loader({"hot": fb.col("c").fill_missing(1).one_hot(3), "to": fb.col("c").fill_missing(1).map({0: 5, 1: 6, 2: 7})},
                              batch_size=4, shuffle=False)
    batch = next(iter(loader))
    assert np.asarray(batch["hot"]).tolist() == np.eye(3)[[0, 1, 2, 1]].tolist()
    assert np.asarray(batch["to"]).tolist() == [5, 6, 7, 6]
