"""CSV files against pyarrow.csv, pandas and Python's csv module, on tables and texts that a seed makes: types, nulls, quotes, gzip, many files."""

import csv
import datetime
import gzip
import io
import json
import os
import pathlib
import random
import subprocess
import time

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pacsv = pytest.importorskip("pyarrow.csv")
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", pathlib.Path(__file__).parents[2] / "build/forebay"))


def read(path, **options):
    with fb.open(path, cache_dir="", **options) as ds:
        return pa.table(ds)


def put(path, text, how=None):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(how(data) if how else data)
    return path


# ---- texts: against the csv module ----

PIECES = ["a", "b c", "é", "水", "\U0001f600", ",", ";", "\t", "|", '"', '""', "\n", "\r\n", "\r", " ", "#", "'", "x" * 50, "0", "-"]


@pytest.mark.parametrize("seed", range(60))
def test_texts_are_what_the_csv_module_reads(tmp_path, seed):
    rng = random.Random(seed)
    delimiter = rng.choice(",;\t|")
    columns = rng.randint(1, 6)
    ending = rng.choice(["\n", "\r\n"])
    pieces = [piece for piece in PIECES if "\r" in ending or "\r" not in piece]  # some versions of csv do not quote a \r in lines that end with \n
    rows = [["".join(rng.choices(pieces, k=rng.randint(0, 6))) for _ in range(columns)] for _ in range(rng.choice([1, 3, 50, 400]))]
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=ending, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    names = [f"column {i} " + rng.choice(["é", "水", ' "q" ', "two\nlines", "#"]) for i in range(columns)]
    writer.writerow(names)
    for row in rows:
        writer.writerow([*row[:-1], row[-1] + "z"])  # letters: the last column is text, no line is empty
    text = out.getvalue()
    name = "t.tsv" if delimiter == "\t" else "t.csv"
    path = put(tmp_path / name, rng.choice(["", "\ufeff"]) + text) if rng.random() < 0.5 else put(tmp_path / (name + ".gz"), text, gzip.compress)
    expected = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    if columns == 1 and delimiter not in ",\t":
        return  # no line shows the delimiter
    got = read(path)
    assert got.num_rows == len(rows) and got.column_names == expected[0] == names
    for c in range(columns):
        if got.schema.field(c).type == pa.large_string():
            assert [v or "" for v in got.column(c).to_pylist()] == [row[c] for row in expected[1:]]


# ---- types: against pyarrow.csv ----


def number_text(rng):
    style = rng.randrange(6)
    if style == 0:
        return repr(np.frombuffer(rng.randbytes(8), np.float64)[0].item())
    if style == 1:
        return f"{rng.uniform(-1e6, 1e6):.{rng.randint(0, 20)}f}"
    if style == 2:
        return f"{rng.randint(0, 10**rng.randint(1, 30))}.{rng.randint(0, 10**rng.randint(1, 30))}e{rng.randint(-330, 330)}"
    if style == 3:
        return rng.choice(["nan", "NaN", "inf", "-inf", "1e400", "-1e-400", "4.9e-324", "2.2250738585072011e-308", "0.1", "-0.0", ".5", "5."])
    if style == 4:
        return str(rng.randint(-(2**53), 2**53))
    return repr(rng.random())


def test_numbers_are_the_nearest_doubles(tmp_path):
    rng = random.Random(7)
    texts = [number_text(rng) for _ in range(20000)]
    texts = [t for t in texts if "inf" in t or not np.isinf(float(t))] + ["9007199254740993.0", "0." + "0" * 400 + "1e400"]
    path = put(tmp_path / "n.csv", "x,pad\n" + "".join(f"{t},\n" for t in texts))
    got = read(path)
    assert got.schema.field("x").type == pa.float64() and got.schema.field("pad").type == pa.null()
    want = np.array([float(t) for t in texts])
    bad = np.flatnonzero((np.asarray(got["x"]).view("i8") != want.view("i8")) & ~(np.isnan(want) & np.isnan(np.asarray(got["x"]))))
    assert not bad.size, [texts[i] for i in bad[:5]]


def random_column(rng, n):
    kind = rng.choice(["int", "wide", "float", "bool", "date", "local", "utc", "text", "mixed", "null"])
    day = datetime.date(1, 1, 1)
    moment = datetime.datetime(1900, 1, 1)

    def one():
        if kind == "int":
            return str(rng.choice([rng.randint(-5, 5), 2**63 - 1, -(2**63)]))
        if kind == "wide":
            return str(rng.choice([rng.randint(-5, 5), 2**63, 10**25]))
        if kind == "float":
            return rng.choice([repr(rng.gauss(0, 1)), str(rng.randint(0, 9)), "1e-7", "nan"])
        if kind == "bool":
            return rng.choice(["true", "False"])
        if kind == "date":
            return str(day + datetime.timedelta(days=rng.randrange(3652059)))
        if kind == "local":
            return (moment + datetime.timedelta(microseconds=rng.randrange(10**16))).isoformat(sep=rng.choice(" T"))
        if kind == "utc":
            return (moment + datetime.timedelta(seconds=rng.randrange(10**10))).isoformat() + rng.choice(["Z", "+01:00", "-0930"])
        if kind == "mixed":
            return rng.choice(["1", "true", "2020-01-01", "x"])
        return "" if kind == "null" else rng.choice(["é,", 'q"q', "a\nb", "word"])

    holes = rng.choice([0, 0.3])
    values = ["" if rng.random() < holes else one() for _ in range(n)]
    return kind, values


@pytest.mark.parametrize("seed", range(60))
def test_tables_are_what_pyarrow_reads(tmp_path, seed):
    rng = random.Random(1000 + seed)
    n = rng.choice([1, 2, 9, 64, 500])
    kinds, columns = zip(*(random_column(rng, n) for _ in range(rng.randint(2, 8))), strict=True)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([f"c{i}" for i in range(len(columns))])
    writer.writerows(zip(*columns, strict=True))
    path = put(tmp_path / "t.csv", out.getvalue())
    got = read(path)
    types = {}
    for name, kind in zip(got.column_names, kinds, strict=True):  # the type that we found: pyarrow agrees on the values
        found = got.schema.field(name).type
        types[name] = found
        if all(v is None for v in got[name].to_pylist()):
            assert found == pa.null()
        else:
            allowed = {"int": [pa.int64()], "float": [pa.int64(), pa.float64()], "bool": [pa.bool_()], "date": [pa.date32()],
                       "local": [pa.timestamp("us")], "utc": [pa.timestamp("us", "UTC")], "text": [pa.large_string()]}  # fmt: skip
            assert found in allowed.get(kind, [found]), (name, kind)
            assert kind != "wide" or found in (pa.int64(), pa.large_string()), "an integer beyond int64 was rounded"
    convert = pacsv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""], true_values=["true"], false_values=["False"],
        timestamp_parsers=[pacsv.ISO8601, "%Y-%m-%dT%H:%M:%S%z"],
    )  # fmt: skip
    want = pacsv.read_csv(path, convert_options=convert, parse_options=pacsv.ParseOptions(newlines_in_values=True))
    for name in got.column_names:
        a, b = got[name].combine_chunks(), want[name].combine_chunks()
        if pa.types.is_float64(a.type):
            assert a.is_null().equals(b.is_null())
            assert np.array_equal(np.asarray(a.fill_null(0)), np.asarray(b.fill_null(0)), equal_nan=True)
        elif kinds[int(name[1:])] != "local":  # pyarrow's parser takes no fractions in some versions
            assert a.equals(b), name
        else:
            texts = columns[int(name[1:])]
            assert a.to_pylist() == [datetime.datetime.fromisoformat(t) if t else None for t in texts]


def test_a_pandas_frame_comes_back(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    n = 1000
    frame = pd.DataFrame(
        {
            "i": rng.integers(-(2**62), 2**62, n),
            "f": np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n)),
            "b": rng.random(n) < 0.5,
            "t": pd.date_range("1999-12-31 23:00", periods=n, freq="97min", unit="us"),
            "s": [f"s{i}, \"{i}\"" for i in range(n)],
        }
    )
    for name, options in {"a.csv": {"index": False}, "b.tsv": {"index": False, "sep": "\t"}, "c.csv.gz": {}, "d.csv": {"index": False, "sep": ";"}}.items():
        frame.to_csv(tmp_path / name, **options)
        with fb.open(tmp_path / name, cache_dir="") as ds:
            back = pa.table(ds).to_pandas()
        if name == "c.csv.gz":
            assert back.pop("Unnamed: 0").equals(pd.Series(range(n)))
        pd.testing.assert_frame_equal(back, frame, check_dtype=False)


# ---- numbers that are identifiers ----

SAID = pytest.mark.parametrize("name, how", [("a.csv", None), ("a.tsv", None), ("a.csv.gz", gzip.compress), ("a.tsv.gz", gzip.compress)])


@SAID
def test_numbers_that_would_lose_what_is_written_are_text(tmp_path, name, how):
    columns = {
        "gauge": (["01021990", "1021990", ""], "text"),
        "sign": (["1", "+2", "3"], "text"),
        "long": (["1", "9223372036854775808", "2"], "text"),
        "padded": (["00.5", "1", "2"], "text"),
        "mixed": (["9007199254740993", "0.5", "nan"], "text"),
        "vast": (["0.5", "-1e400", "1e308"], "text"),
        "fine": (["0", "-0", "9223372036854775807"], "int"),
        "float": (["0.5", "-0.5", "1e+05"], "float"),
        "tiny": (["1e-400", "-1.7976931348623157e308", "inf"], "float"),
        "date": (["2020-01-01", "2020-02-01", ""], "date"),
    }
    mark = "\t" if "tsv" in name else ","
    text = mark.join(columns) + "\n" + "\n".join(mark.join(row) for row in zip(*(c[0] for c in columns.values()), strict=True)) + "\n"
    path = put(tmp_path / name, text, how)
    with fb.open(path, cache_dir="") as ds:
        table, notes = pa.table(ds), [note for note in ds.notes if "is text" in note]
    kinds = {"text": pa.large_string(), "int": pa.int64(), "float": pa.float64(), "date": pa.date32()}
    for column, (values, kind) in columns.items():
        assert table.schema.field(column).type == kinds[kind], column
        if kind == "text":
            assert table[column].to_pylist() == [v or None for v in values]
    assert len(notes) == 6
    assert "'gauge'" in notes[0] and "line 2" in notes[0] and 'dtypes={"gauge": "int64"}' in notes[0]
    assert "'sign'" in notes[1] and "line 3" in notes[1] and "'long'" in notes[2] and 'dtypes={"long": "float64"}' in notes[2]


def test_a_number_beyond_float64_is_not_infinity(tmp_path):
    path = put(tmp_path / "vast.csv", "x,y\n0.5,1\n1e400,2\n")
    assert read(path)["x"].to_pylist() == ["0.5", "1e400"]
    with pytest.raises(pa.ArrowInvalid, match=r"vast.csv', line 3: column 'x' is '1e400', which does not fit in float64"):
        read(path, dtypes={"x": "float64"})
    with pytest.raises(fb.SchemaError, match=r"no column 'xx'; did you mean 'x'\?"):
        put(tmp_path / "more.csv", "x\n7.5\n")
        read(tmp_path, dtypes={"xx": str})


def test_what_the_note_says_of_numbers_that_are_text_can_be_done(tmp_path):
    for text, dtype, values in (("00.5\n1", "float64", [0.5, 1]), ("1\n+0.5", "float64", [1, 0.5]), ("+1e3\n2", "float64", [1000, 2]),
                                ("+inf\n2", "float64", [float("inf"), 2]), ("007\n1", "int64", [7, 1])):
        path = put(tmp_path / "x.csv", f"a\n{text}\n")
        with fb.open(path, cache_dir="") as ds:
            assert f'dtypes={{"a": "{dtype}"}} makes it a number' in ds.notes[0], text
        with fb.open(path, cache_dir="", dtypes={"a": dtype}) as ds:
            assert pa.table(ds)["a"].to_pylist() == values


@SAID
def test_dtypes_say_it_outright(tmp_path, name, how):
    mark = "\t" if "tsv" in name else ","
    text = "uid,n,x,b,big\n007,07,1,1,18446744073709551615\n12,+5,,false,0\n".replace(",", mark)
    path = put(tmp_path / name, text, how)
    dtypes = {"uid": str, "n": np.int16, "x": "float32", "b": bool, "big": np.dtype("uint64")}
    cache = str(tmp_path / "cache")
    for _ in range(2):
        with fb.open(path, cache_dir=cache, dtypes=dtypes) as ds:
            table = pa.table(ds)
            assert not [note for note in ds.notes if "is text" in note]
            (batch,) = ds.rows().loader({"n": "n", "x": fb.col("x").fill_missing(-1), "uid": "uid"}, batch_size=2, shuffle=False, framework="numpy")
        assert table.to_pydict() == {"uid": ["007", "12"], "n": [7, 5], "x": [1.0, None], "b": [True, False], "big": [2**64 - 1, 0]}
        assert [str(table.schema.field(c).type) for c in dtypes] == ["large_string", "int16", "float", "bool", "uint64"]
        assert batch["n"].dtype == "int16" and np.asarray(batch["x"]).ravel().tolist() == [1, -1] and batch["uid"].to_list() == ["007", "12"]
        with fb.open(path, cache_dir=cache) as ds:  # what was said is not kept in the index cache
            assert pa.table(ds)["n"].to_pylist() == ["07", "+5"]
    with fb.open(path, cache_dir="", dtypes={"n": str, "x": str}) as ds:
        assert pa.table(ds).select(["n", "x"]).to_pydict() == {"n": ["07", "+5"], "x": ["1", None]}


@pytest.mark.parametrize("value, dtype",
                         [("300", "uint8"), ("-1", "uint64"), ("1.5", "int64"), ("x", "float32"), ("1e39", "float32"), ("70000", "float16"),
                          ("", None), ("2", "bool")])
def test_a_value_that_is_not_what_was_said_is_named_with_its_line(tmp_path, value, dtype):
    path = put(tmp_path / "a.csv", 'x,s\n1,"two\nlines"\n\n0,\n' + f"{value},z\n")
    if dtype is None:
        with fb.open(path, cache_dir="", dtypes={"x": "int8"}) as ds:
            assert pa.table(ds)["x"].to_pylist() == [1, 0, None]
        return
    with fb.open(path, cache_dir="", dtypes={"x": dtype}) as ds:
        with pytest.raises(Exception, match=f"a.csv', line 6: column 'x' is '{value}', which does not fit in {dtype}"):
            pa.table(ds)
        with pytest.raises(fb.DataError, match="line 6"):
            list(ds.rows().loader({"x": "x"}, batch_size=3))


def test_a_column_that_is_text_in_one_file_is_text_in_all(tmp_path):
    put(tmp_path / "a.csv", "id,x,t\n12,1,2020-01-01\n13,2,2020-01-02\n")
    put(tmp_path / "b.csv", "id,x,t\n012,1.5,2020-01-03\n")
    put(tmp_path / "c.csv", "id,x,t\n,,\n")
    put(tmp_path / "d.csv", "id,x,t\n5,n/a,2020-01-04\n")
    with fb.open(tmp_path, cache_dir="") as ds:
        table, notes = pa.table(ds), " ".join(ds.notes)
        batches = list(ds.rows().loader({"id": "id"}, batch_size=5, shuffle=False))
    assert table["id"].to_pylist() == ["12", "13", "012", None, "5"] and [v for b in batches for v in b["id"].to_list()] == ["12", "13", "012", "", "5"]
    assert table["x"].to_pylist() == ["1", "2", "1.5", None, "n/a"] and table.schema.field("t").type == pa.date32()
    assert "'id' is text, because a number would lose" in notes and "'b.csv', line 2" in notes
    assert "'x' is text in all files, because it is in 'd.csv'; it could be numbers in 'a.csv'" in notes
    with fb.open(tmp_path, cache_dir="", dtypes={"id": "int32"}) as ds:
        assert pa.table(ds)["id"].to_pylist() == [12, 13, 12, None, 5]


def test_dtypes_that_cannot_be(tmp_path):
    import pyarrow.parquet as pq

    path = put(tmp_path / "a.csv", "gauge,x\n1,2\n")
    pq.write_table(pa.table({"gauge": [1]}), tmp_path / "a.parquet")
    with pytest.raises(fb.SchemaError, match="there is no column 'guage'; did you mean 'gauge'"):
        fb.open(path, cache_dir="", dtypes={"guage": str})
    with pytest.raises(fb.SchemaError, match="a.parquet.*CSV and TSV"):
        fb.open(tmp_path / "a.parquet", cache_dir="", dtypes={"gauge": str})
    with pytest.raises(ValueError, match="'x' is said to be 'int'; use str, bytes, bool"):
        fb.open(path, cache_dir="", dtypes={"x": "int"})
    with pytest.raises(TypeError, match="mapping"):
        fb.open(path, cache_dir="", dtypes=["x"])
    with pytest.raises(ValueError, match="dtypes= is about files"):
        fb.open({"x": np.zeros(3)}, dtypes={"x": str})


def test_dtypes_of_pipelines(tmp_path):
    path = put(tmp_path / "a.csv", "id,x\n007,2\n")
    text = f"data: {{paths: {path}, dtypes: {{id: int64, x: str}}}}\nsamples: rows\noutputs: {{id: id, x: x}}\nloader: {{batch_size: 1}}\n"
    (tmp_path / "p.yaml").write_text(text)
    (batch,) = fb.pipeline(tmp_path / "p.yaml").loader()
    assert np.asarray(batch["id"]).ravel().tolist() == [7] and batch["x"].to_list() == ["2"]
    (tmp_path / "q.yaml").write_text(f"data: {{paths: {path}, dtypes: [id]}}\noutputs: {{id: id}}\n")
    with pytest.raises(fb.Error, match="dtypes: a map of columns to dtypes"):
        fb.pipeline(tmp_path / "q.yaml")


@pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")
def test_dtypes_of_the_command(tmp_path):
    path = put(tmp_path / "a.csv", "id,x\n007,2\n")
    for dtype, value in ("str", "007"), ("int64", 7):
        command = [CLI, "head", path, "--dtype", f"id={dtype}", "--dtype=x=float32", "--no-cache", "--json"]
        out = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(out.stdout)["rows"] == [{"id": value, "x": 2.0}]
    wrong = subprocess.run([CLI, "head", path, "--dtype", "id"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "COLUMN=DTYPE" in wrong.stderr


# ---- as a data set ----


def test_many_groups_and_the_loader_see_the_same_rows(tmp_path):
    n = 150_000  # more than two groups by rows, and the gzip file one by size
    rng = np.random.default_rng(5)
    x, label = rng.standard_normal(n), rng.integers(0, 9, n)
    text = "x,id,label,name,gap\n" + "".join(f"{x[i].item()!r},{i},{label[i]},n{i % 7},{i if i % 5 else ''}\n" for i in range(n))
    for path in (put(tmp_path / "a.csv", text), put(tmp_path / "b.csv.gz", text, gzip.compress)):
        with fb.open(path, cache_dir="") as ds:
            assert len(ds) == n
            table = pa.table(ds)
            assert np.array_equal(table["x"], x) and table["name"][n - 1].as_py() == f"n{(n - 1) % 7}"
            outputs = {"x": fb.col("x").cast("float32"), "id": "id", "gap": fb.col("gap").fill_missing(-1), "name": "name"}
            seen = []
            for batch in ds.rows().loader(outputs, batch_size=1000, seed=1, memory="256MiB"):
                i = np.asarray(batch["id"]).ravel()
                assert np.array_equal(np.asarray(batch["x"]).ravel(), x[i].astype("f4"))
                assert np.array_equal(np.asarray(batch["gap"]).ravel(), np.where(i % 5, i, -1))
                seen.append(i)
            assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(n))


def test_types_of_many_files_join(tmp_path):
    put(tmp_path / "a.csv", "q,p\n1,1\n2,2\n")
    put(tmp_path / "b.csv", "q,p\n1.5,\n,\n")
    table = read(str(tmp_path / "{gauge}.csv"))
    assert table.schema.field("q").type == pa.float64()
    assert table["q"].to_pylist() == [1, 2, 1.5, None] and table["p"].to_pylist() == [1, 2, None, None]
    assert table["gauge"].to_pylist() == ["a", "a", "b", "b"]


def test_in_a_directory_csv_counts_when_no_other_format_is_there(tmp_path):
    import pyarrow.parquet as pq

    put(tmp_path / "a.csv", "x\n1\n")
    put(tmp_path / "b.tsv", "x\n2\n")
    put(tmp_path / "LICENSE", "words")
    assert read(tmp_path)["x"].to_pylist() == [1, 2]
    cache = tmp_path / "cache"
    data = tmp_path / "data"
    data.mkdir()
    put(data / "README.csv", "y\n1\n")
    for _ in range(2):
        with fb.open(data, cache_dir=str(cache)) as ds:
            assert ds.columns == ("y",)
    pq.write_table(pa.table({"x": [5]}), data / "x.parquet")
    for _ in range(2):
        with fb.open(data, cache_dir=str(cache)) as ds:
            assert ds.columns == ("x",) and any("README.csv" in note for note in ds.notes)


def test_the_index_cache_serves_the_second_opening(tmp_path):
    path = put(tmp_path / "a.csv.gz", "x,s\n" + "".join(f"{i},w{i}\n" for i in range(100)), gzip.compress)
    os.utime(path, (1e9, 1e9))
    tables = []
    for _ in range(2):
        with fb.open(path, cache_dir=str(tmp_path / "cache")) as ds:
            tables.append(pa.table(ds))
    assert tables[0].equals(tables[1]) and tables[0]["s"][99].as_py() == "w99"


# ---- errors ----


@pytest.mark.parametrize(
    "text, words",
    [
        ("a,b\n1,2\n3\n", ["line 3", "1 field where the first line has 2"]),
        ('a,b\n"x\ny",2\n3,4,5\n', ["line 4", "3 fields"]),
        ('a,b\n1,"2"x\n', ["line 2", "closing quote"]),
        ('a,b\n\n1,"2\n', ["line 3", "inside a quoted field"]),
        (b"a,b\n1,\xe9\n", ["line 2", "field 2", "UTF-8"]),
        (b"a,\xe9\n1,2\n", ["line 1", "UTF-8"]),
        ("\ufeffa,b\n".encode("utf-16"), ["UTF-16"]),
        (b"\n\n", ["nothing is there"]),
        (b"", ["empty"]),
        (b"PK\x03\x04\x00\x00", ["Zip"]),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, words):
    path = put(tmp_path / "bad.csv", text)
    with pytest.raises(fb.Error) as caught:
        fb.open(path, cache_dir="")
    assert "bad.csv" in str(caught.value) and all(word in str(caught.value) for word in words), str(caught.value)


def test_many_small_gzip_members_cost_no_more_than_one(tmp_path):
    """bgzip begins a member every 20 KB; each was inflated by a thread of its own."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"k,x\n1,2\n") + 300_000 * gzip.compress(b"") + gzip.compress(b"3,4\n"))
    began = time.process_time()
    assert read(path).to_pydict() == {"k": [1, 3], "x": [2, 4]}
    assert time.process_time() - began < 1.5


def test_a_gzip_file_that_is_cut_or_has_several_members(tmp_path):
    text = b"x\n" + b"1\n" * 1000
    whole = gzip.compress(text[:500]) + gzip.compress(b"") + gzip.compress(text[500:]) + bytes(20)
    assert read(put(tmp_path / "a.csv.gz", whole)).num_rows == 1000
    for damaged in (whole[:-30], whole[:40], whole[:30] + b"\xff" + whole[31:], whole[:-20] + b"tail"):
        with pytest.raises(fb.Error, match="gz"):
            read(put(tmp_path / "b.csv.gz", damaged))


def test_a_file_that_changes_under_the_data_set_is_noticed(tmp_path):
    path = put(tmp_path / "a.csv", "x,y\n1,2\n3,4\n")
    stat = os.stat(path)
    for text in ("x,y\n1,a\n3,4\n", "x,y\n12\n3,44\n", "x,y\n1,2,3,4\n", "x,y\n1,2\n3,\"\n", "x,y\n\n\n\n\n\n3,4", "x,y\n1,2\n\xe9,4\n"):
        put(path, "x,y\n1,2\n3,4\n")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with fb.open(path, cache_dir="") as ds:
            assert len(text) == 12
            put(path, text.encode("latin-1"))
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            with pytest.raises((pa.ArrowException, OSError, ValueError, fb.Error), match="has changed|not the file that was opened"):
                pa.table(ds)


def test_a_header_alone_is_columns_without_rows(tmp_path):
    (tmp_path / "h.csv").write_text("a,b\n")
    ds = fb.open(tmp_path / "h.csv", cache_dir="")
    for columns in (None, ["a", "b"]):
        read = ds.read(columns)
        assert {name: (values.shape, values.dtype) for name, values in read.items()} == {"a": ((0,), object), "b": ((0,), object)}
    said = fb.open(tmp_path / "h.csv", dtypes={"a": "int16", "b": str}, cache_dir="").read()
    assert (said["a"].dtype, said["b"].dtype, len(said["a"])) == (np.int16, object, 0)
    assert len(fb.open(tmp_path / "h.csv", cache_dir="").rows()) == 0


def test_names_that_are_numbers_or_missing(tmp_path):
    with fb.open(put(tmp_path / "a.csv", "1.5,2\n3,4\n"), cache_dir="") as ds:
        assert ds.columns == ("1.5", "2") and any("nothing but numbers" in note for note in ds.notes)
    with fb.open(put(tmp_path / "b.csv", ",a\n3,4\n"), cache_dir="") as ds:
        assert ds.columns == ("Unnamed: 0", "a")
    with fb.open(put(tmp_path / "c.csv", "a,b\n"), cache_dir="") as ds:
        assert len(ds) == 0 and ds.columns == ("a", "b")
