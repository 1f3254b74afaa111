"""What a user forgot, said where the loader is made: the target in the input, what is left out, digits and streams that are lost."""

import os
import sys
import warnings

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
N = 40


@pytest.fixture
def ds():
    return fb.open({"prcp": np.arange(N * 1.0), "flow": np.arange(N * 1.0)})


def loader(samples, outputs):
    return samples.loader(outputs, batch_size=4, framework="numpy")


@pytest.mark.parametrize("target", [fb.col("flow").steps(7, 10), fb.col("flow").at(9), fb.col("flow").steps(9, 10)])
def test_an_input_that_covers_the_target_is_pointed_out(ds, target):
    samples = ds.windows(7, 3)
    said = r"output 'x' takes all 10 steps of a window, and with them those of 'flow' that output 'y' asks for, steps? \d.* of 10: write .steps\(0, \d\)"
    with pytest.warns(UserWarning, match=said):
        loader(samples, {"x": ["prcp", "flow"], "y": target}).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (fb.col("prcp", "flow").steps(0, 7), "prcp", fb.col("prcp", "flow").steps(0, 10), fb.col("flow").first(), fb.col("flow").is_missing()):
            loader(samples, {"x": x, "y": target}).close()
        loader(samples, {"x": "flow", "y": "flow"}).close()
        loader(samples, {"x": "flow", "y": fb.col("flow").steps(0, 7)}).close()
        loader(ds.rows(), {"x": "flow", "y": "flow"}).close()


def test_an_input_that_covers_the_target_is_pointed_out_of_what_is_computed_too(ds):
    flow = fb.col("flow")
    covered = [
        (fb.expr("flow * 2 + prcp"), flow.at(9)), (["prcp", "flow"], fb.expr("flow / 2").at(9)), (["prcp", "flow"], fb.expr("flow - prcp").steps(7, 10)),
    ]  # fmt: skip
    for x, y in covered:
        with pytest.warns(UserWarning, match="output 'x' takes all 10 steps of a window, and with them those of 'flow' that output 'y' asks for"):
            loader(ds.windows(7, 3), {"x": x, "y": y}).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in [
            (fb.expr("flow * 2").steps(0, 7), flow.at(9)), (fb.expr("prcp + 1"), flow.at(9)), ("prcp", fb.expr("flow - prcp").at(9)),
            (fb.expr("flow * 2"), fb.expr("flow * 2").at(0)), (fb.expr("flow * 2").at(9), flow.at(9)),
        ]:  # fmt: skip
            loader(ds.windows(7, 3), {"x": x, "y": y}).close()


def test_every_way_to_a_loader_says_it(tmp_path, parquet):
    parquet({"a": np.arange(30.0)}, "a.parquet")
    (tmp_path / "p.yaml").write_text(
        "data: a.parquet\nsamples: {windows: {input: 4, output: 2}}\noutputs: {x: a, y: {columns: a, steps: [4, 6]}}\nloader: {batch_size: 4}\n"
    )
    pipeline, windows = fb.pipeline(tmp_path / "p.yaml"), fb.open(tmp_path / "a.parquet").windows(4, 2)
    outputs, options = {"x": "a", "y": fb.col("a").steps(4, 6)}, {"batch_size": 4, "framework": "numpy"}
    for make in (
        lambda: fb.Loader(windows, outputs, **options),
        lambda: windows.loader(outputs, **options),
        lambda: fb.mix({"w": windows}).loader(outputs, **options),
        lambda: pipeline.loader(framework="numpy"),
        lambda: pipeline.samples.loader(pipeline.outputs, **options),
        lambda: windows.loader(outputs, transform=lambda batch: batch, **options),
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            made = make()
            made.check()
            made.close()
        assert [one.filename for one in seen] == [__file__] and "takes all 6 steps of a window" in str(seen[0].message)


def here() -> int:
    return sys._getframe(1).f_lineno


def test_warnings_point_at_the_line_that_led_to_them(tmp_path, parquet):
    for i in range(3):
        parquet({"a": np.arange(40)}, f"d/{i}.parquet")
    rows = fb.open(tmp_path / "d").rows()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            loader = rows.loader("a", batch_size=10, part="1 files", seed=15)
            next(iter(loader)), (third := here())
        loader.load_state_dict(loader.state_dict())
        loader.set_epoch(3), (left := here())
    assert [(one.filename, one.lineno) for one in seen] == [(__file__, third), (__file__, left)]


def test_what_was_said_is_not_said_by_loaders_that_are_made_of_one():
    """Nor are the program's filters touched, which would make Python forget what it has said once."""
    windows = fb.open({"a": np.arange(30.0)}).windows(4, 2)
    outputs = {"x": "a", "y": fb.col("a").steps(4, 6)}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            with windows.loader(outputs, batch_size=4, framework="numpy", transform=lambda batch: batch) as loader:
                loader.check()
                fb.diagnose(lambda batch: None, loader, seconds=0.05, batch_sizes=[2, 3])
    assert len(seen) == 1


def test_a_warning_that_is_an_error_leaves_no_loader(tmp_path, parquet):
    parquet({"a": np.arange(30.0)}, "a.parquet")
    (tmp_path / "p.yaml").write_text("data: a.parquet\noutputs: {x: a, y: {columns: lable, optional: true}}\nloader: {batch_size: 4}\n")
    pipeline = fb.pipeline(tmp_path / "p.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="no column 'lable'") as caught:
            pipeline.loader(framework="numpy")
    made = [entry.frame.f_locals["self"] for entry in caught.traceback for name in entry.frame.f_locals if name == "self"]
    assert [one._core.closed for one in made if isinstance(one, fb.Loader)][-1:] == [True]
    with pytest.warns(UserWarning, match="no column 'lable'"), pipeline.loader(framework="numpy") as loader:
        assert list(loader.outputs) == ["x"]


def test_a_key_that_inputs_and_target_share_is_no_target():
    keyed = fb.open({"k": np.repeat([1, 2], N // 2), "prcp": np.arange(N * 1.0), "flow": np.arange(N * 1.0)})
    groups = fb.fit(keyed, ["prcp", "flow"], by="k")
    flow, prcp = (fb.col(name).standardize(groups, by="k") for name in ("flow", "prcp"))
    samples = keyed.windows(7, 3, by="k")
    with pytest.warns(UserWarning, match="with them those of 'flow' that output 'y' asks for"):
        loader(samples, {"x": fb.col("prcp", "flow").standardize(groups, by="k"), "y": flow.at(9)}).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader(samples, {"x": prcp, "y": flow.at(9)}).close()


def test_a_printed_loader_says_which_steps_each_output_takes(ds):
    flow = fb.col("flow")
    outputs = {"x": fb.col("prcp").steps(0, 7), "all": "prcp", "y": flow.at(9), "m": flow.is_missing(), "i": fb.sample_index()}
    with loader(ds.windows(7, 3), outputs) as made:
        lines = dict(line.split(None, 1) for line in str(made).splitlines()[1:])
    ends = {name: text.rpartition("), ")[2] for name, text in lines.items()}
    assert ends == {"x": "steps 0 to 6 of 10", "all": "steps 0 to 9 of 10", "y": "step 9 of 10", "m": "steps 0 to 9 of 10", "i": lines["i"]}
    with loader(ds.windows(7, 3), None) as made:
        assert str(made).count("steps 0 to 9 of 10") == 2
    with loader(ds.rows(), None) as made:
        assert "steps" not in str(made)


@pytest.fixture
def regions(parquet, tmp_path):
    for name in "abc":
        columns = {"prcp": np.arange(N * 1.0), "flow": np.arange(N * 1.0)}
        parquet({k: v for k, v in columns.items() if name != "b" or k != "flow"}, f"data/{name}.parquet")
    return str(tmp_path / "data" / "*.parquet")


def test_files_of_which_missing_values_leave_no_window_are_counted_and_named(regions, parquet):
    ds = fb.open(regions, missing_columns="fill")
    with pytest.warns(UserWarning,
                      match=r"leaves out 37 of 111 windows, with them all of 1 of 3 files, such as '.*b.parquet' \(1 of 3 files lacks the column 'flow'"):
        samples = ds.windows(4, drop_missing=["prcp", "flow"])
    assert len(samples) == 2 * (N - 3)
    assert samples.notes == [repr(samples).partition("\n  ")[2]] and "37 of 111" in samples.notes[0]
    assert samples.split(by="time", train=0.5, val=0.5)["train"].notes == samples.notes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples = ds.windows(4, drop_missing="prcp")
        assert len(samples) == 3 * (N - 3) and samples.notes == [] and "\n" not in repr(samples)
        assert ds.rows().notes == []


def test_windows_dropped_for_missing_values_are_counted(parquet, tmp_path):
    flow = np.arange(N * 1.0)
    flow[[3, 20, 21]] = np.nan
    for name, values in {"a": flow, "b": np.full(N, np.nan), "c": np.arange(N * 1.0), "d": flow[:3]}.items():
        parquet({"flow": values, "gauge": np.full(len(values), 7)}, f"data/{name}.parquet")
    ds = fb.open(str(tmp_path / "data" / "*.parquet"))
    for options, starts in ({}, range(N - 4)), ({"stride": 3}, range(0, N - 4, 3)), ({"by": "gauge"}, range(N - 4)):
        kept = sum(not np.isnan(flow[s : s + 5]).any() for s in starts)
        with pytest.warns(UserWarning, match="with them all of 1 of 4 files, such as '.*b.parquet': take"):
            samples = ds.windows(3, 2, drop_missing="flow", **options)
        assert len(samples) == kept + len(starts)
        assert f"leaves out {2 * len(starts) - kept} of {3 * len(starts)} windows, " in samples.notes[0]
    one = fb.open(str(tmp_path / "data" / "a.parquet"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = sum(not np.isnan(flow[s : s + 5]).any() for s in range(N - 4))
        assert one.windows(5, drop_missing="flow").notes == [f"drop_missing leaves out {N - 4 - whole} of {N - 4} windows"]


def test_keys_whose_rows_do_not_lie_together_are_said(parquet, tmp_path):
    scattered, runs = np.tile(np.arange(100), 100), np.repeat(np.tile(np.arange(10), 100), 10)
    parquet({"k": scattered, "name": [f"n{i}" for i in scattered], "sorted": np.sort(scattered), "state": runs, "x": np.arange(10_000.0)}, "keys/a.parquet")
    path = str(tmp_path / "keys" / "a.parquet")
    for key in "k", "name":
        said = f"rows with one value of '{key}' do not lie together: of the first 1024 groups .* 924 have .* 'forebay pack --by {key} --shuffle none'"
        for _ in range(2):  # the second time from the cache folder
            with pytest.warns(UserWarning, match=said):
                samples = fb.open(path, cache_dir=tmp_path / "cache").groups(key)
            assert len(samples) == 10_000 and len(samples.notes) == 1
    with pytest.warns(UserWarning, match="of the first 1024 series .* a series is a run of rows"):
        fb.open(path).windows(1, by="k")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in "sorted", "state", "x":  # in order, in long runs that come again, and each value once
            assert fb.open(path).groups(key).notes == []


def test_windows_that_do_not_look_at_the_times_that_there_are_are_said(parquet, tmp_path):
    days = np.array(["2001-01-01", "2001-01-02", "2001-03-01", "2001-03-02", "2001-03-03"], "datetime64[D]")
    path = parquet({"flow": np.arange(5.0), "date": days, "gauge": np.repeat("g", 5)}, "a.parquet")
    os.utime(path, (1e9, 1e9))  # of a file that was just written nothing is kept
    ds = fb.open(path)
    for options in {}, {"by": "gauge"}, {"drop_missing": "flow"}:
        with pytest.warns(UserWarning, match=r"windows do not look at 'date': .* with a step, to leave out windows over gaps"):
            assert len(ds.windows(3, **options)) == 3
    repeated = fb.open(parquet({"gauge": np.repeat("g", 5), "date": np.repeat(days[:1], 5)}, "d.parquet"))
    for _ in range(2):  # the second time from the cache folder
        with pytest.warns(UserWarning, match="look at 'date'"):
            fb.open(path, cache_dir=tmp_path / "cache").windows(3, drop_missing="flow")
        assert any((tmp_path / "cache").rglob("*.*"))
    instants = fb.open(parquet({"at": days.astype("datetime64[ms]"), "x": np.arange(5.0)}, "b.parquet"))
    with pytest.warns(UserWarning, match=r"look at 'at':"):
        instants.windows(3)
    looking = [ds.windows(3, time="date", step="1 day"), ds.windows(3, time="date")]
    exempt = [ds.windows(1), ds.rows(), repeated.windows(3, by="date"), repeated.windows(3, by=["gauge", "date"])]
    assert all(made.notes == [] for made in [*looking, *exempt])
    assert len(ds.windows(3, time="date", step="1 day")) == 1
    assert fb.open(parquet({"x": np.arange(5.0), "time": np.arange(5)}, "c.parquet")).windows(3).notes == []  # numbers may be anything


def test_samples_of_a_pipeline_file_are_warned_of_once(parquet, tmp_path):
    parquet({"x": np.arange(9.0), "day": np.arange("2001-01-01", "2001-01-10", dtype="datetime64[D]")}, "a.parquet")
    source = "data: a.parquet, samples: {windows: {input: 2}}, outputs: {y: x}"
    (tmp_path / "p.yaml").write_text("{" + source + ", splits: {train: 0.5, test: 0.5, by: samples}, loader: {batch_size: 2, split: train}}")
    (tmp_path / "m.yaml").write_text("{mix: {sources: {a: {" + source + "}, b: {" + source + "}}}, loader: {batch_size: 2}}")
    for name, of in {"p": [""], "m": ["source 'a': ", "source 'b': "]}.items():
        pipeline = fb.pipeline(tmp_path / f"{name}.yaml")
        with pytest.warns(UserWarning, match="do not look at 'day'") as seen:
            pipeline.loader().close()
        assert [str(one.message).partition("windows do")[0] for one in seen] == of and all(one.filename == __file__ for one in seen)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pipeline.loader(*["test"] * (name == "p")).close()


def test_an_optional_output_that_one_file_lacks_is_said_with_the_file(regions, ds):
    said = "output 'y' is optional, and left out of all batches: column 'flow' is missing in 1 of 3 files, such as '.*b.parquet'; .*missing_columns"
    with pytest.warns(UserWarning, match=said):
        with loader(fb.open(regions).rows(), {"x": "prcp", "y": fb.col("flow").optional()}) as made:
            assert list(made.outputs) == ["x"]
    with pytest.warns(UserWarning, match="'y' is optional, and left out of all batches: no column 'flwo' .*; did you mean 'flow'"):
        loader(ds.rows(), {"x": "prcp", "y": fb.col("flwo").optional()}).close()
    with pytest.warns(UserWarning) as seen:  # however many they are
        loader(ds.rows(), {"x": "prcp", **{f"y{k}": fb.col(f"nowhere{k}").optional() for k in range(12)}}).close()
    assert [str(one.message).split("'")[1] for one in seen] == [f"y{k}" for k in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader(fb.open(regions, missing_columns="fill").rows(), {"x": "prcp", "y": fb.col("flow").optional()}).close()


def test_an_optional_output_whose_column_cannot_be_one_is_said(parquet, tmp_path):
    for name, values in {"a": np.arange(N), "b": ["text"] * N}.items():
        parquet({"x": np.arange(N * 1.0), "y": values}, f"types/{name}.parquet")
    with pytest.warns(UserWarning, match="'y' is optional, and left out of all batches: column 'y' is int64 in '.*a.parquet' but string in '.*b.parquet'"):
        loader(fb.open(str(tmp_path / "types")), {"x": "x", "y": fb.col("y").optional()}).close()


def quiet(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().close()


def test_large_integers_that_stacking_rounds_are_pointed_out():
    ds = fb.open({"a": np.arange(N) + 2**40, "b": np.arange(N, dtype=np.int32), "small": np.arange(N, dtype=np.int16), "f": np.arange(N, dtype=np.float32)})
    integers = r"float32, which rounds .*: 'a' \(int64\), 'b' \(int32\)\. .*\.cast\(\"int64\"\)"
    for columns, said in ((("a", "b"), integers), (("f", "a"), r"'a' \(int64\)\. .*\.cast\(\"float64\"\)")):
        with pytest.warns(UserWarning, match=said):
            loader(ds, {"x": list(columns)}).close()
        for dtype in ("float64", "float32"):
            quiet(lambda columns=columns, dtype=dtype: loader(ds, {"x": fb.col(*columns).cast(dtype)}))
    many = {f"s{i}": ds.rows() for i in range(20)}
    with pytest.warns(UserWarning) as seen:  # of many sources the first
        loader(fb.mix(many), {"x": ["a", "b"], "y": fb.col("nowhere").optional()}).close()
    assert [sum(words in str(one.message) for one in seen) for words in ("is optional", "which rounds")] == [20, 8]
    quiet(lambda: loader(ds, {"x": ["small", "f"], "a": "a", "y": fb.col("a", "f").scale(0.5)}))


def test_columns_that_are_no_default_outputs_are_named(parquet):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": np.arange(N * 1.0), "nested": [[[1], [2]]] * N, "words": [["a"]] * N, "hits": [[{"name": "h", "t": 2.0}]] * N})
    for ds in (fb.open(table), fb.open(parquet(table, "nested.parquet"))):
        with pytest.warns(UserWarning, match=r"'nested' \(list<list<.*>>\), 'words' \(list<string>\), 'hits' \(list<struct<.*>>\) cannot: .*'hits\.t'"):
            made = loader(ds, None)
        with made:
            assert list(made.outputs) == ["x"]
        quiet(lambda ds=ds: loader(ds, {"x": "x", "t": fb.col("hits.t").ragged()}))


def test_streams_and_reads_that_the_batch_makes_of_the_order_are_pointed_out(parquet):
    ds = fb.open(parquet({"x": np.arange(10_000.0)}, "x.parquet", row_group_size=100))

    def make(**options):
        return ds.loader("x", framework="numpy", superbatch="10 blocks", **options)

    with pytest.warns(UserWarning, match=r"has 1 stream, not 8: .* of 63 samples.*batch_size 56 or 64 keeps 8, streams=1 says"):
        made = make(batch_size=63)
    with made:
        assert ", 1 stream\n" in str(made.report())
    with pytest.warns(UserWarning, match=r"has 4 streams, not 16: .* batch_size 16 keeps 16"):
        make(batch_size=4, streams=16).close()
    with pytest.warns(UserWarning, match=r"max_superbatch_batches=2 cuts the largest block \(100 samples\) into 100 slices.*: 6 or more"):
        make(batch_size=1, streams=1, max_superbatch_batches=2).close()
    for options in ({"batch_size": 64}, {"batch_size": 4}, {"batch_size": 63, "streams": 1}, {"batch_size": 63, "shuffle": False},
                    {"batch_size": 1, "streams": 1, "max_superbatch_batches": 6}):  # fmt: skip
        quiet(lambda options=options: make(**options))
