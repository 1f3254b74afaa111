"""Mistakes that users make: each message says what is wrong, where, and what to write instead."""

import datetime

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from refusals import refused


@pytest.fixture
def folder(tmp_path):
    """Two files, 'a' and 'b', of 100 days each."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in "ab":
        table = {
            "time": pa.array(np.arange(100) * 86_400_000_000_000, pa.timestamp("ns")),
            "date": [f"2020-01-{i % 28 + 1:02d}" for i in range(100)],
            "x": pa.array(range(100), pa.float32()),
            "id": [name] * 100,
            "f": [float("nan")] + [1.0] * 99,
        }
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("framework", ["numpy", "torch", "buffer"])
def test_keys_of_a_batch_lead_back(folder, framework):
    pytest.importorskip(framework if framework == "torch" else "numpy")
    names, numbers = fb.open(folder), fb.open({"x": np.array([1.0, 2.0, 3.0, 5.0]), "g": np.array([99, 99, 97, 97])})
    by_name, by_number = fb.fit(names, "x", by="id"), fb.fit(numbers, "x", by="g")
    values = np.zeros((2, 1))
    batch = next(iter(names.rows().loader({"id": fb.col("id")}, batch_size=2, framework=framework)))
    assert by_name.inverse(values, "x", batch["id"]).tolist() == [[49.5], [49.5]]
    batch = next(iter(numbers.rows().loader({"g": fb.col("g")}, batch_size=4, shuffle="none", framework=framework)))
    assert by_number.inverse(np.zeros((4, 1)), "x", batch["g"]).ravel().tolist() == [1.5, 1.5, 4.0, 4.0]
    assert by_number.inverse(values, "x", list(np.array([99, 97]))).ravel().tolist() == [1.5, 4.0]
    refused(lambda: by_name.inverse(values, "x", np.array([97, 98], np.uint8)), TypeError, "the groups by 'id' have names", "batch[…].to_list()")
    refused(lambda: by_number.inverse(values, "x", ["99", "97"]), TypeError, "are whole numbers", "'99'")
    refused(lambda: by_name.inverse(values, "x", ["a", "q"]), KeyError, "nothing was fitted for id='q'; the groups are 'a', 'b'")


def test_a_step_that_never_fits_is_said(folder):
    ds = fb.open(folder)
    for _ in range(2):  # the second time the scan might be known
        refused(
            lambda: ds.windows(10, time="time", step=1), ValueError,
            "'time' never goes on by the step 1 (1 ns) from one row to the next", "from the first row to the second it is 86400000000000 (1 day)",
            "timestamp[ns]",
        )  # fmt: skip
    refused(lambda: ds.windows(10, time="time", step=datetime.timedelta(hours=1)), ValueError, "the step 3600000000000 (1 hour)")
    refused(lambda: ds.windows(10, time="time", step="1 hour"), ValueError, "never goes on by the step 1 hour from", "to the second it is 1 day:")
    assert len(ds.windows(10, time="time", step=datetime.timedelta(days=1))) == 182
    pq.write_table(pa.table({"t": [3.0, 2.0, 1.0]}), folder / "c.parquet")
    falling = fb.open(folder / "c.parquet")
    for step in (None, 1):
        refused(lambda: falling.windows(2, time="t", step=step), ValueError, "'t' falls, from the first row to the second by 1,", "sort the rows")  # noqa: B023
    days = pa.array([datetime.datetime(2020, 1, day) for day in (3, 2, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"t": days}), folder / "d.parquet")
    refused(lambda: fb.open(folder / "d.parquet").windows(2, time="t", step="1 day"), ValueError, "'t' falls, from the first row to the second by 1 day")
    pq.write_table(pa.table({"t": [1.0, 1.0, 1.0]}), folder / "e.parquet")
    refused(lambda: fb.open(folder / "e.parquet").windows(2, time="t"), ValueError, "'t' never rises from one row to the next", "rows in its order?")


def test_dates_as_text_are_told_from_dates(folder):
    ds = fb.open(folder)
    refused(lambda: ds.windows(10, time="date"), fb.UnsupportedError, "'date' of type string cannot be a time", "pd.to_datetime")
    refused(lambda: ds.rows().select("date", low="2020-01-01"), TypeError, "strings are listed, values=['2020-01-01']", "pd.to_datetime")


def test_ids_that_are_not_there(folder):
    sources = {"north": folder, "south": folder}
    refused(lambda: fb.open(sources, ids=["a", "zz"]), fb.SchemaError, "no file in any of the 2 sources for 1 of the ids: 'zz'; others are there, such as 'b'")
    refused(lambda: fb.open(folder / "{gauge}.parquet", ids=["q"]), fb.SchemaError, "'q'", "is {gauge} the part of the pattern that they are (id_column)?")
    refused(lambda: fb.open(folder, ids=["data"]), fb.SchemaError, "without a pattern, ids are names of files without extension", "'data/{id}/values.parquet'")


def test_text_in_one_place_and_a_number_in_another(folder, tmp_path):
    ds = fb.open({"k": np.arange(2), "z": np.ones(2)})
    refused(lambda: ds.rows().select("y", values=[1], on="k", table={"k": ["1", "2"], "y": [0, 1]}), ValueError,
            "the key 'k' is a number in the data, and text in the side table: cast one")
    refused(lambda: ds.rows().select("k", values=["1"]), ValueError, "'k' holds numbers, and the values given are strings: give numbers")
    refused(lambda: fb.open(folder).rows().select("id", values=[1]), ValueError, "'id' holds strings, and the values given are numbers: give strings")
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    pq.write_table(pa.table({"k": [1]}), mixed / "1.parquet")
    pq.write_table(pa.table({"k": ["1"]}), mixed / "2.parquet")
    refused(lambda: fb.open(mixed).rows().select("k", values=["1"]), fb.SchemaError, "'k' is int64 in", "1.parquet' but string in", "2.parquet'")
    (mixed / "3.csv").write_text("k\n001\n")
    both = [mixed / "1.parquet", mixed / "3.csv"]
    refused(lambda: fb.open(both).rows().select("k", values=[1]), fb.SchemaError, 'state its type in CSV files with dtypes')
    assert len(fb.open(both, dtypes={"k": "int64"}).rows().select("k", values=[1])) == 2


def test_keys_of_a_table_that_are_text_there_and_numbers_here(tmp_path):
    digits, zeros = tmp_path / "digits.csv", tmp_path / "zeros.csv"
    digits.write_text("k,y\n11,1\n12,2\n")
    zeros.write_text("k,y\n011,1\n012,2\n")
    names, numbers = fb.open({"k": ["12", "11"]}), fb.open({"k": np.array([12, 11])})

    def values(ds, table):
        return next(iter(ds.loader({"y": fb.lookup(table, on="k", columns="y")}, batch_size=2, shuffle=False, framework="numpy")))["y"].tolist()

    for ds, path, dtype, said in ((names, digits, str, "str"), (numbers, zeros, "int64", "int64")):
        refused(lambda: values(ds, fb.Lookup(path, "k")), fb.UnsupportedError, f"(dtypes of the table read that column of a CSV file as {said})")  # noqa: B023
        assert values(ds, fb.Lookup(path, "k", dtypes={"k": dtype})) == [2.0, 1.0]
    refused(lambda: fb.Lookup([fb.open(digits), fb.open(zeros)], "k"), fb.SchemaError, "the key 'k' is a string in table 1", "k as str")
    assert fb.Lookup([[digits], [zeros]], "k", dtypes={"k": str}).keys == ["11", "12", "011", "012"]
    refused(lambda: fb.Lookup(fb.open(digits), "k", dtypes={"k": str}), ValueError, "this data set is open: give it to fb.open")
    refused(lambda: fb.Lookup({"k": [1]}, "k", dtypes={"k": str}), ValueError, "columns in memory have their types")
    (tmp_path / "names.csv").write_text("k,z\n12,1\n11,2\n")
    (tmp_path / "p.yaml").write_text(
        "data: {paths: names.csv, dtypes: {k: str}}\nlookups: {t: {paths: digits.csv, key: k, dtypes: {k: str}}}\n"
        "outputs: {y: {lookup: t, on: k, columns: y}}\nloader: {batch_size: 2, shuffle: none}\n"
    )
    assert next(iter(fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy")))["y"].tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "word, said",
    [
        ("batchsize", "did you mean 'batch_size'?"), ("suffle", "did you mean 'shuffle'?"), ("num_workers", "no worker processes: threads="),
        ("collate_fn", "transform= is called with every batch"), ("pin_memory", "device="), ("prefetch_factor", "prefetch="), ("sampler", "samples.select()"),
        ("worker_init_fn", "seed="), ("buffer_size", "superbatch="), ("qqq", "it has outputs, batch_size"),
    ],
)  # fmt: skip
def test_an_argument_that_is_not_there(folder, word, said):
    refused(lambda: fb.open(folder).rows().loader("x", **{"batch_size": 4, word: 1}), TypeError, f"loader() has no argument {word!r}", said)


def test_arguments_of_other_functions(folder):
    ds = fb.open(folder)
    refused(lambda: fb.open(folder, chache_dir=""), TypeError, "open() has no argument 'chache_dir': did you mean 'cache_dir'?")
    refused(lambda: ds.windows(10, stepp=1), TypeError, "did you mean 'step'?")
    refused(lambda: ds.groups("id", thread=1), TypeError, "did you mean 'threads'?")
    refused(lambda: fb.fit(ds, "x", bye="id"), TypeError, "did you mean 'by'?")
    refused(lambda: ds.rows().split(train=0.8, sede=1), ValueError, "sede=1: fractions are above 0", "did you mean seed=?")


def test_a_part_without_samples_says_why(folder):
    ds = fb.open(folder)
    refused(lambda: ds.rows().split(train=0.1, val=0.9), ValueError, "split 'train' (0.1)", "files stay whole, and there are 2 of them",
            "split by samples or the values of a column")
    refused(lambda: ds.rows().split(train=0.5, val=0.5, by="time"), ValueError, "name the column of the time of these samples")
    refused(lambda: ds.groups("id").split(train=0.1, val=0.9), ValueError, "files stay whole", "split by samples or groups, or")
    refused(lambda: ds.windows(5).split(train=0.1, val=0.9), ValueError, "files stay whole", "split by time or groups")
    refused(lambda: ds.windows(60).split(train=0.5, val=0.5, by="time"), ValueError, "split 'train' (0.5)",
            "the longest series has 100 rows, and a window takes 60")
    refused(lambda: fb.open(folder / "a.parquet").groups("id").split(train=0.8, val=0.2, by="groups"), ValueError, "split 'train'", "none of the 1 samples")


def test_errors_of_values_name_the_file_and_the_column(folder, tmp_path):
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    pq.write_table(pa.table({"n": [0]}), pairs / "0.parquet")
    pq.write_table(pa.table({"adj": pa.array([[1.0] * 3, [1.0] * 780], pa.list_(pa.float32()))}), pairs / "1.parquet")
    loader = fb.open(pairs / "1.parquet").rows().loader({"m": fb.col("adj").symmetric(size=32)}, batch_size=2, shuffle="none")
    refused(lambda: next(iter(loader)), fb.DataError, "1.parquet: column 'adj', output 'm': row 1 of the file: 40 points", "room for 32: give size=40 or more")


@pytest.mark.parametrize("source", ["parquet", "hdf5", "memory"])
def test_nan_in_an_integer_says_what_helps(folder, tmp_path, source):
    with h5py.File(tmp_path / "f.h5", "w") as f:
        f["f"] = np.array([np.nan, 1.0])
    ds = fb.open({"parquet": folder, "hdf5": tmp_path / "f.h5", "memory": {"f": np.array([np.nan, 1.0])}}[source])
    loader = ds.rows().loader({"f": fb.col("f").cast("int64")}, batch_size=2, shuffle="none")
    refused(lambda: next(iter(loader)), fb.DataError, "'f'", "the value nan", "does not fit int64", "fill_missing(0)", "a float dtype")


def test_tables_of_one_file_are_told_apart_by_their_rows(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["a"], f["b"] = np.zeros((100, 3)), np.zeros((60, 3))
    refused(lambda: fb.open(tmp_path / "x.h5").rows().loader("b", batch_size=2), fb.SchemaError, "'b': it has 60 rows and this table has 100", 'table="/b"')


def test_chunks_that_are_advised_can_be_copied(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("small", data=np.zeros((5000, 8), "f4"), chunks=(2, 8))
        f.create_dataset("large", data=np.zeros((5000, 4096), "f4"), chunks=(5000, 4096), compression="gzip")
    notes = " ".join(fb.open(tmp_path / "x.h5").contents().notes)
    assert "h5repack -l small:CHUNK=5000x8 " in notes and "h5repack -l large:CHUNK=64x4096 " in notes and "…" not in notes


def test_a_null_of_an_integer_output_names_what_fills_it(parquet):
    table = pa.table({"a": pa.array([1, None], pa.int32()), "l": [[1, None], [2]]})
    for ds in (fb.open(table), fb.open(parquet(table, "nulls.parquet"))):
        for output in ("a", fb.col("l").ragged()):
            with ds.loader({"x": output}, batch_size=2, framework="numpy") as loader:
                refused(lambda loader=loader: list(loader), fb.DataError, "is null", ".fill_missing(0)", "ops: [fill_missing: 0]")


def test_the_table_of_a_lookup_is_named_as_what_lacks_a_column(parquet):
    table = {"id": [1], "v": [2.0]}
    for given in (table, parquet(pa.table(table), "side.parquet")):
        refused(lambda given=given: fb.lookup(given, on="site"), fb.SchemaError, "the table beside the data: ", "'site'", "key= names its column for on='site'")
        with pytest.raises(fb.SchemaError, match="the table beside the data: [^;]*'w'(?!.*key=)"):
            fb.lookup(given, on="id", columns="w")


def test_text_that_pandas_made_integers_of_is_explained():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0], "bits": pandas.Series([10**40], dtype=object)})
    refused(lambda: fb.open(frame), ValueError, "column 'bits' holds integers of more than 64 bits", "dtype={'bits': str}")


def test_an_empty_file_is_said_to_be_empty(tmp_path):
    (tmp_path / "empty.csv").touch()
    refused(lambda: fb.open(tmp_path / "empty.csv"), fb.FormatError, "empty.csv' is empty: 0 bytes")


def test_an_axis_that_no_table_has_is_answered_with_those_of_the_largest_data_set(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["few"] = np.zeros((10, 4)), np.zeros(3)
    said = "the largest data set, 'x', has 2 axes, without names"
    refused(lambda: fb.open(tmp_path / "a.h5", axis="time"), fb.SchemaError, "no data set has a dimension 'time'", said)
    refused(lambda: fb.open(tmp_path / "a.h5").cells(9), fb.SchemaError, "no data set has 9 axes", said)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["x"].dims[0].attach_scale(file.create_dataset("lat", data=np.zeros(10)))
        file["lat"].make_scale("lat")
        file["x"].dims[0].attach_scale(file["lat"])
    refused(lambda: fb.open(tmp_path / "a.h5", axis="time"), fb.SchemaError, "'x', has 2 axes (lat, _)")


@pytest.fixture
def basins(tmp_path):
    folder = tmp_path / "basins"
    folder.mkdir()
    for name in ("01013500", "01022500"):
        table = {
            "date": pa.array(np.arange(100) * 86_400_000_000_000, pa.timestamp("ns")), "prcp": np.arange(100, dtype="f4"), "gauge_id": [name] * 100,
            "basin": np.full(100, int(name)), "label": np.arange(100) % 3, "streamflow": np.arange(100.0),
        }  # fmt: skip
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return fb.open(folder)


def test_words_of_other_libraries_say_what_to_write(basins):
    windows = basins.windows(10, 2)
    for call, error, parts in (
        (lambda: basins.windows(input_length=10), TypeError, ["windows() has no argument 'input_length': input= is"]),
        (lambda: basins.windows(10, horizon=7), TypeError, ["output= is the number of rows behind them"]),
        (lambda: basins.groups(by="gauge_id"), TypeError, ["groups() has no argument 'by': the key comes first"]),
        (lambda: windows.split([0.8, 0.2]), TypeError, ["splits by their names: split(train=0.8, val=0.2)"]),
        (lambda: windows.split(test_size=0.2), TypeError, ["every split has a name and its fraction"]),
        (lambda: windows.split(train=0.8, val=0.2, random_state=42), TypeError, ["'random_state': seed="]),
        (lambda: windows.split(train=0.8, val=0.2, shuffle=True), TypeError, ["by='time' keeps their order"]),
        (lambda: windows.filter("label"), AttributeError, ["'Samples' object has no attribute 'filter'", "select('kind', values=[1])"]),
        (lambda: windows.shuffle(3), AttributeError, ["shuffle=True"]),
        (lambda: basins.batch(32), AttributeError, ["'Dataset' object has no attribute 'batch'", "ds.rows().loader(outputs, batch_size=512"]),
        (lambda: basins.merge(basins), AttributeError, ["fb.lookup("]),
        (lambda: fb.col("label").long(), AttributeError, ["'Column' object has no attribute 'long': cast('int64')"]),
        (lambda: fb.col("label").float(), AttributeError, ["cast('float32')"]),
        (lambda: basins.split(train=0.8, val=0.2), AttributeError, ["has no attribute 'split': samples have it: those of ds.rows()"]),
        (lambda: fb.col("label").fillna(0), AttributeError, ["fill_missing(0)"]),
        (lambda: fb.fit(windows, "prcp").mean, AttributeError, ["moments['prcp'].mean"]),
        (lambda: windows.loader("prcp", batch_size=4).to("cuda"), AttributeError, ["'Loader' object has no attribute 'to': device= of the loader"]),
        (lambda: windows.loader("prcp", batch_size=4).shuffle(9), AttributeError, ["it is made whole: samples.loader("]),
        (lambda: basins["prcp"], TypeError, ["a data set holds no values: ds.read('prcp')['prcp'] is a column"]),
        (lambda: next(iter(basins)), TypeError, ["ds.rows().loader("]),
        (lambda: fb.open([pa.table({"x": [1]}), pa.table({"x": [2]})]), TypeError, ["item 0 of the list is a Table: of several tables in memory, make one"]),
        *((compute, TypeError, ["operators do not compute with columns: fb.expr('a / (b + 1)')"]) for compute in (
            lambda: fb.col("prcp") + 1, lambda: 1 / fb.col("prcp"), lambda: -fb.col("prcp"), lambda: fb.col("prcp") > 1)),
    ):  # fmt: skip
        refused(call, error, *parts)
    for thing in (basins, windows, fb.col("x"), fb.fit(windows, "prcp")):  # other names are as ever, and are told from those that are there
        with pytest.raises(AttributeError) as raised:
            thing.no_such_thing
        assert str(raised.value).endswith("object has no attribute 'no_such_thing'") and raised.value.obj is thing
        for name in ("__len__x__", "_private"):
            assert not hasattr(thing, name)


def test_shapes_and_types_of_lists(basins):
    torch = pytest.importorskip("torch")
    windows, groups = basins.windows(10, 2), basins.groups("basin")
    assert len(groups.select(torch.tensor([1013500]))) == len(groups.select([torch.tensor(1013500)])) == 1
    assert len(windows.select("label", low=torch.tensor(1))) == len(windows.select("label", low=1))
    half = windows.split(a=torch.tensor(0.5), b=np.float32(0.5))
    assert {name: len(part) for name, part in half.items()} == {"a": 89, "b": 89}
    for call, error, parts in (
        (lambda: groups.select(torch.tensor([[1013500]])), ValueError, ["ids is a list in one axis, not of shape (1, 1)"]),
        (lambda: windows.select([]), ValueError, ["ids is empty: list at least one"]),
        (lambda: windows.select(torch.tensor([])), ValueError, ["ids is empty"]),
        (lambda: windows.select("label", values=torch.tensor(1)), TypeError, ["values is a list: write [tensor(1)]"]),
        (lambda: windows.select(lambda x: x > 3), TypeError, ["ids is a list, array, set or Series, not function"]),
        (lambda: windows.select("label > 1"), ValueError, ["select('label > 1'): say which", "keys are a list"]),
        (lambda: windows.select(["1013500"]), ValueError, ["no sample has '1013500' of 'file name'", "Did you mean '01013500'?"]),
        (lambda: windows.split(train=80, val=20), ValueError, ["train=80: fractions", "0.8 for 80 %, and n / len(samples) for n samples"]),
        (lambda: windows.split(train="0.8"), TypeError, ["train='0.8': a split is a fraction, train=0.8, or a list of keys"]),
        (lambda: windows.split(train=["01013500"], val=[]), ValueError, ["val is empty"]),
        (lambda: basins.rows().split(train=0.8, stratify=np.arange(200) % 3), TypeError, ["stratify= names a column, as a str, not ndarray"]),
        (lambda: windows["train"], TypeError, ["splits are in the dict that split() returned"]),
        (lambda: windows[np.zeros(len(windows), bool)], ValueError, ["no sample is listed: a list, slice or mask takes at least one of the 178"]),
        (lambda: windows.limit("10%"), TypeError, ["limit(1000), limit(0.1)"]),
        (lambda: windows.oversample("label", 8), TypeError, ["a mapping of classes to numbers, not int: oversample('leak', {1: 8})"]),
        (lambda: windows.resample({0: 1.0, 1: 2.0}), ValueError, ["name the column that the classes are of"]),
        (lambda: windows.resample(np.ones((len(windows), 1))), ValueError, ["in one axis, not of shape (178, 1)"]),
        (lambda: basins.windows(10, time="date", step=1.0), TypeError, ["step=1.0: words such as '1 day', a timedelta"]),
        (lambda: basins.windows(10, by="prcp"), ValueError, ["the key 'prcp' changes from row to row"]),
        (lambda: basins.groups("gauge"), fb.SchemaError, ["did you mean 'gauge_id'?"]),
        (lambda: basins.rows().loader({"x": "flow"}, batch_size=4), fb.SchemaError, ["did you mean 'streamflow'?"]),
    ):  # fmt: skip
        refused(call, error, *parts)


def test_outputs_and_moments_that_cannot_be(basins):
    windows = basins.windows(10, 2)
    for output, error, parts in (
        ({"prcp", "streamflow"}, TypeError, ["a set has no order: give a list of columns, ['prcp', 'streamflow']"]),
        (3, TypeError, ["a column name, a list of names or fb.col(...) is expected, not int"]),
        ("gauge_id", fb.UnsupportedError, ["only the value of its first row can be taken, .first()"]),
    ):
        refused(lambda output=output: windows.loader({"x": output}, batch_size=4), error, *parts)
    for call, error, parts in (
        (lambda: windows.loader({"prcp", "label"}, batch_size=4), TypeError, ["a set has no order"]),
        (lambda: fb.col({"prcp", "label"}), TypeError, ["a set has no order"]),
        (lambda: fb.col(fb.col("prcp")), TypeError, ["a column is named by a str, not Column"]),
        (lambda: fb.col(3), TypeError, ["a column is named by a str, not int: 3"]),
        (lambda: fb.col("x").at(-1), ValueError, ["step=-1: steps are counted from the first row of a window: of n rows the last one is n - 1"]),
        (lambda: fb.col("x").steps(5, 2), ValueError, ["rows 5 to end - 1 are taken, so end is above 5"]),
        (lambda: windows.loader("prcp", batch_size=4, memory=0.7), TypeError, ["a share of what is available '70%'"]),
        (lambda: fb.fit(windows, "gauge_id"), ValueError, ["column 'gauge_id' holds strings: moments are of numbers"]),
        (lambda: fb.fit(windows, {"x": "prcp"}), TypeError, ["columns= are names or fb.col(…), not outputs by name"]),
        (lambda: fb.fit("basins", "prcp"), TypeError, ["not str: fb.open(…) opens files and frames"]),
        (lambda: fb.fit(windows, "prcp")["flow"], KeyError, ["nothing was fitted for column 'flow': these moments are of prcp"]),
        (lambda: fb.fit(windows, "prcp").inverse([1.0], "prcp"), TypeError, ["not a list: numpy.asarray(values)"]),
    ):
        refused(call, error, *parts)


def test_what_is_about_hdf5_is_not_ignored_of_other_files(basins, folder):
    for call, word in (
        (lambda: basins.cells(3), "axes (cells)"), (lambda: fb.open(folder, axis="time"), "axis"), (lambda: fb.open(folder, axis=1), "axis"),
        (lambda: fb.open(folder, table="/x"), "table"),
    ):  # fmt: skip
        refused(call, ValueError, f"{word}: that is about the data sets of HDF5 and NetCDF-4 files, and ", "is parquet: it has one table of rows")


def test_words_that_a_column_or_a_loader_does_not_take_are_told_what_they_have():
    ds = fb.open({"v": np.arange(6.0)})
    for call, said in (
        (lambda: fb.col("v", dtyp="float32"), r"col\(\) has no argument 'dtyp': did you mean 'dtype'\?"),
        (lambda: fb.col("v").padded(max_len=3), r"padded\(\) has no argument 'max_len'.*max_rows"),
        (lambda: fb.col("v").standardize(mean=1, sdt=2), r"standardize\(\) has no argument 'sdt'.*std"),
        (lambda: fb.col("v").crop(3, randm=True), r"crop\(\) has no argument 'randm': did you mean 'random'\?"),
        (lambda: fb.col("v").one_hot(3, ignore=True), r"one_hot\(\) has no argument 'ignore'.*ignore_unknown"),
        (lambda: fb.col("v").log1p(eps=1), r"log1p\(\) has no argument 'eps'; it has none"),
        (lambda: fb.fit(ds, fb.sample_index()), r"columns= are names or fb.col\(…\), and sample_index\(\) is no column"),
    ):
        with pytest.raises(TypeError, match=said):
            call()
    with ds.loader("v", batch_size=2, framework="numpy") as loader:
        with pytest.raises(TypeError, match=r"iterated, not indexed: next\(iter\(loader\)\) is the first batch"):
            loader[0]
        assert len(list(loader)) == 3
    with pytest.raises(ValueError, match="'50 blks': 'blks' is not a unit: write '50 blocks', '100000 samples', or '256MiB'"):
        ds.loader("v", batch_size=2, superbatch="50 blks")
    with pytest.raises(fb.DataError, match=r"unless first_wins=True \(of a pipeline file: first_wins: true\) lets the first one count"):
        fb.Lookup({"id": [1, 1], "p": [1, 2]}, "id")


def test_what_has_samples_is_no_samples_to_pack(folder, tmp_path):
    samples = fb.open(folder).rows()
    outputs = {"x": "x"}
    (tmp_path / "plain.yaml").write_text(f"data: {{paths: {folder}}}\noutputs: {{x: x}}\n")
    (tmp_path / "split.yaml").write_text(f"data: {{paths: {folder}}}\nsplits: {{train: 0.5, val: 0.5}}\noutputs: {{x: x}}\n")
    refused(lambda: fb.pack(fb.pipeline(tmp_path / "plain.yaml"), tmp_path / "out"), TypeError, "fb.pack(pipeline.samples, to)")
    refused(lambda: fb.pack(fb.pipeline(tmp_path / "split.yaml"), tmp_path / "out"), TypeError, "one of its splits, fb.pack(pipeline['train'], to)")
    parts = samples.split(train=0.5, val=0.5, by="files")
    refused(lambda: fb.pack(parts, tmp_path / "out", outputs=outputs), TypeError, "fb.pack(splits['train'], to, outputs={…})")
    with samples.loader(outputs, batch_size=2) as loader:
        refused(lambda: fb.pack(loader, tmp_path / "out"), TypeError, "fb.pack(loader.dataset, to, outputs={…})")
        assert fb.pack(loader.dataset, tmp_path / "out", outputs=outputs).rows == 200  # what it says works
    assert fb.pack(fb.pipeline(tmp_path / "split.yaml")["train"], tmp_path / "train").rows == 100


def test_a_source_of_a_mixture_whose_outputs_are_not_named():
    a, b = fb.open({"u": np.arange(4.0), "v": np.arange(4.0)}), fb.open({"u": np.arange(4.0), "v": np.arange(4.0)})
    mixture = fb.mix({"a": a, "b": b})
    said = ("no outputs are named for source", "every column that can be a tensor, 2,", "has outputs of its own, 1:", "name the same outputs for each")
    refused(lambda: mixture.loader({"a": {"u": "u"}, "b": None}, batch_size=2), ValueError, "source 'b'", *said)
    refused(lambda: mixture.loader({"a": None, "b": {"u": "u"}}, batch_size=2), ValueError, "source 'a'", *said)
    steps = {"u": fb.col("u").steps(0, 1)}  # rows have none: that is what is said
    refused(lambda: mixture.loader({"a": None, "b": steps}, batch_size=2), ValueError, "source 'b'", "steps")
    assert set(mixture.loader({"a": {"u": "u", "v": "v"}, "b": None}, batch_size=2).outputs) == {"u", "v"}
