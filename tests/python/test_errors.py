"""Errors that Python has a name for are Python's own, and Forebay's as well."""

import pickle
import sys

import h5py
import numpy as np
import pytest

import forebay as fb


@pytest.fixture
def ds():
    return fb.open({"x": np.arange(8.0)})


@pytest.fixture
def path(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
    return tmp_path / "a.h5"


def open_while_written(path):
    with h5py.File(path, "a"):
        fb.open(path)


def next_batch(ds):
    with ds.rows().loader({"x": fb.col("x").scale(1e300).cast("float32")}, batch_size=8) as loader:
        next(iter(loader))


CASES = {
    "a value that does not fit": (lambda ds, path: next_batch(ds), fb.DataError, ValueError),
    "no such column": (lambda ds, path: ds.rows().loader({"x": "q"}, batch_size=4), fb.SchemaError, KeyError),
    "no such table": (lambda ds, path: fb.open(path, table="q"), fb.SchemaError, KeyError),
    "no such file": (lambda ds, path: fb.open(path.with_name("q.h5")), fb.FileMissingError, FileNotFoundError),
    "open for writing": (lambda ds, path: open_while_written(path), fb.FileLockedError, BlockingIOError),
    "too small a budget": (lambda ds, path: ds.rows().loader(batch_size=4, memory=1), fb.BudgetError, MemoryError),
    "no window fits": (lambda ds, path: ds.windows(99), fb.ArgumentError, ValueError),
    "beyond the files": (lambda ds, path: ds.files[9], IndexError, IndexError),
    "beyond the samples": (lambda ds, path: ds.rows()[9], IndexError, IndexError),
    "no such field": (lambda ds, path: ds.schema["q"], KeyError, KeyError),
    "not a path": (lambda ds, path: fb.open(3), TypeError, TypeError),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_one_of_pythons_own(ds, path, case):
    call, kind, pythons = CASES[case]
    with pytest.raises(pythons) as caught:
        call(ds, path)
    error = caught.value
    assert type(error) is kind
    if isinstance(error, fb.Error):
        assert error.status.startswith("FBY_E_") and error.file_offset is None
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == str(error) and again.status == error.status
    if isinstance(error, OSError):
        assert error.errno and str(error).startswith(f"[Errno {error.errno}] ")


def test_a_data_error_has_the_file_the_column_the_row_and_the_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.array([1.0, 2.0, 70000.0])
    for output, where in ((fb.col("x").cast("float16"), "data set '/x'"), (fb.col("x").one_hot(3), "output 'y'")):
        with fb.open(tmp_path / "a.h5").rows().loader({"y": output}, batch_size=3) as loader, pytest.raises(fb.DataError) as caught:
            next(iter(loader))
        assert caught.value.status == "FBY_E_DATA"
        for part in ("a.h5", "column 'x'", "row 2", "70000", where):
            assert part in str(caught.value)


def test_a_schema_error_reads_as_a_sentence(ds):
    with pytest.raises(KeyError) as caught:
        ds.groups("q")
    assert str(caught.value).startswith("no column 'q'")


def test_every_error_is_exported():
    ours = {value for value in vars(sys.modules["forebay._forebay"]).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert ours == {value for name, value in vars(fb).items() if name in fb.__all__ and isinstance(value, type) and issubclass(value, Exception)}
