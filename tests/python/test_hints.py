"""What a user forgot, said where the loader is made: steps of the target in the input, outputs and files that are left out."""

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
    with pytest.warns(UserWarning, match=r"output 'x' takes all 10 steps of a window, and with them those of 'flow' that output 'y' asks for, steps? \d.* of 10: write .steps\(0, \d\)"):
        loader(samples, {"x": ["prcp", "flow"], "y": target}).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (fb.col("prcp", "flow").steps(0, 7), "prcp", fb.col("prcp", "flow").steps(0, 10), fb.col("flow").first(), fb.col("flow").is_missing()):
            loader(samples, {"x": x, "y": target}).close()
        loader(samples, {"x": "flow", "y": "flow"}).close()
        loader(samples, {"x": "flow", "y": fb.col("flow").steps(0, 7)}).close()
        loader(ds.rows(), {"x": "flow", "y": "flow"}).close()


def test_a_printed_loader_says_which_steps_each_output_takes(ds):
    with loader(ds.windows(7, 3), {"x": fb.col("prcp").steps(0, 7), "all": "prcp", "y": fb.col("flow").at(9), "m": fb.col("flow").is_missing(), "i": fb.index()}) as made:
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


def test_files_without_a_column_that_drops_windows_are_counted_and_named(regions):
    ds = fb.open(regions, missing_columns="fill")
    with pytest.warns(UserWarning, match="drops every window .* 1 of 3 files lacks the column 'flow', such as '.*b.parquet'"):
        samples = ds.windows(4, drop_missing=["prcp", "flow"])
    assert len(samples) == 2 * (N - 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(ds.windows(4, drop_missing="prcp")) == 3 * (N - 3)


def test_an_optional_output_that_one_file_lacks_is_said_with_the_file(regions, ds):
    with pytest.warns(UserWarning, match="output 'y' is optional, and left out of all batches: 1 of 3 files lacks the column 'flow', such as '.*b.parquet'"):
        with loader(fb.open(regions).rows(), {"x": "prcp", "y": fb.col("flow").optional()}) as made:
            assert list(made.outputs) == ["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader(ds.rows(), {"x": "prcp", "y": fb.col("nowhere").optional()}).close()  # labels that are not there at inference
        loader(fb.open(regions, missing_columns="fill").rows(), {"x": "prcp", "y": fb.col("flow").optional()}).close()
