"""What batches are made of: torch, NumPy, plain buffers, DLPack, Arrow; ownership."""

import copy
import gc
import pickle
import sys

import pytest

import forebay as fb
from arrow_compare import assert_arrays_equal

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


@pytest.fixture
def ds():
    n = 500
    return fb.open(
        pa.table(
            {
                "a": pa.array(np.arange(n) % 2),
                "b": pa.array(np.arange(n) * 0.25),
                "s": [f"é{i}" for i in range(n)],
                "l": pa.array([list(range(i % 4)) for i in range(n)], pa.list_(pa.float32())),
            }
        )
    )


def first(ds, outputs, framework, **options):
    with ds.loader(outputs, batch_size=100, shuffle=False, framework=framework, **options) as loader:
        return next(iter(loader))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_arrays_have_the_dtype_are_writable_and_own_their_memory(ds, dtype):
    batch = first(ds, {"x": fb.col("a", "a", dtype=dtype)}, "numpy")
    gc.collect()
    x = batch["x"]
    assert type(x) is np.ndarray and x.dtype == dtype and x.shape == (100, 2) and x.flags.writeable and x.flags.c_contiguous
    assert x.ctypes.data % 64 == 0
    assert np.array_equal(x[:, 1], (np.arange(100) % 2).astype(dtype))
    x[:] = 1
    assert x.sum() == 200


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_torch_tensors_have_the_dtype_are_writable_and_own_their_memory(ds, dtype):
    torch = pytest.importorskip("torch")
    batch = first(ds, {"x": fb.col("a", "a", dtype=dtype)}, "torch")
    gc.collect()
    x = batch["x"]
    assert type(x) is torch.Tensor and x.dtype == getattr(torch, dtype) and tuple(x.shape) == (100, 2) and x.is_contiguous()
    assert x.to(torch.float64)[:, 1].tolist() == [float(i % 2) for i in range(100)]
    x[:] = 1
    assert x.to(torch.float64).sum() == 200


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_plain_tensors_speak_dlpack_and_the_buffer_protocol(ds, dtype):
    x = first(ds, {"x": fb.col("a", "a", dtype=dtype)}, "buffer")["x"]
    assert type(x) is fb.Tensor and (x.dtype, x.shape, x.ndim, len(x)) == (dtype, (100, 2), 2, 100)
    width = 1 if dtype == "bool" else np.dtype(dtype if dtype != "bfloat16" else "f2").itemsize
    assert x.__dlpack_device__() == (1, 0) and f"{dtype} (100, 2)" in repr(x) and x.nbytes == 200 * width
    want = [[float(i % 2)] * 2 for i in range(100)]
    assert x.tolist() == want and type(x.tolist()[0][0]) is type(np.zeros(1, dtype if dtype != "bfloat16" else "f4").tolist()[0])
    if dtype == "bfloat16":
        with pytest.raises(BufferError, match="no bfloat16.*ml_dtypes"):
            memoryview(x)
    else:
        view = memoryview(x)
        assert not view.readonly and view.shape == (100, 2) and view.c_contiguous and view.nbytes == x.nbytes
        array = np.asarray(x)
        assert array.dtype == dtype and array.flags.writeable and array.astype(float).tolist() == want
        for again in (np.from_dlpack(x), np.asarray(memoryview(x))):
            assert np.shares_memory(array, again) and again.dtype == dtype
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(x)
    assert tensor.dtype == getattr(torch, dtype) and tensor.to(torch.float64).tolist() == want


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint64"])
def test_tolist_knows_every_value(dtype):
    values = np.array([0.0, -0.0, 1.5, -2.0, 1e-7, 65504.0, np.inf, -np.inf, np.nan] if "float" in dtype else [0, 1, 100])
    x = first(fb.open({"x": values}), {"x": fb.col("x", dtype=dtype)}, "buffer")["x"].tolist()
    torch = pytest.importorskip("torch")
    assert np.array_equal(x, torch.from_numpy(values).to(getattr(torch, dtype)).tolist(), equal_nan=True)


def test_dlpack_capsules_come_in_both_forms_and_refuse_what_they_cannot_do(ds):
    x = first(ds, "b", "buffer")["b"]
    assert '"dltensor"' in repr(x.__dlpack__()) and '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(2, 3), dl_device=(1, 0), copy=False))
    for bad in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            x.__dlpack__(**bad)
    with pytest.raises(TypeError):
        x.__dlpack__(1)
    with pytest.raises(BufferError, match="Fortran"):
        import ctypes

        class Buffer(ctypes.Structure):
            _fields_ = [("raw", ctypes.c_byte * 256)]

        pair = first(ds, {"x": ["a", "b"]}, "buffer")["x"]
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(pair), ctypes.byref(Buffer()), ctypes.c_int(0x0040 | 0x0018))


def test_a_capsule_that_nobody_takes_gives_its_memory_back(ds):
    x = first(ds, "b", "buffer")["b"]
    before = sys.getrefcount(x)
    for _ in range(1000):
        x.__dlpack__()
        x.__dlpack__(max_version=(1, 0))
    assert sys.getrefcount(x) == before


def test_bfloat16_for_numpy_needs_ml_dtypes(ds):
    outputs = {"x": fb.col("b", dtype="bfloat16")}
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(ValueError, match="install ml_dtypes, or ask for another dtype"):
            ds.loader(outputs, batch_size=10, framework="numpy")
    else:
        assert first(ds, outputs, "numpy")["x"].dtype == ml_dtypes.bfloat16


def test_the_framework_is_torch_when_the_program_has_it(run_python):
    done = run_python(
        """
        import sys
        import numpy as np
        import forebay as fb
        ds = fb.open({"a": np.arange(10.0)})
        kind = lambda: type(next(iter(ds.loader("a", batch_size=5)))["a"]).__module__.partition(".")[0]
        print(kind(), ds.loader("a", batch_size=5, framework="buffer").framework)
        try:
            import torch
            print(kind())
        except ImportError:
            print("torch")
        """
    )
    assert done.stdout.split() == ["numpy", "buffer", "torch"]


def test_packed_outputs_work_in_every_framework(ds):
    for framework in ("numpy", "torch", "buffer"):
        if framework == "torch":
            pytest.importorskip("torch")
        batch = first(ds, {"l": "l", "s": "s"}, framework)
        assert batch["s"].to_list() == [f"é{i}" for i in range(100)]
        assert batch["l"].to_list() == [[float(k) for k in range(i % 4)] for i in range(100)]
        assert len(batch["l"]) == len(batch["l"].offsets) - 1


def test_a_batch_is_a_dict_that_knows_its_place(ds):
    with ds.loader(["a", "b"], batch_size=100, shuffle=False, epoch=3, framework="numpy") as loader:
        batches = list(loader)
    batch = batches[2]
    assert isinstance(batch, dict) and list(batch) == ["a", "b"] and (batch.index, batch.epoch, batch.size) == (2, 3, 100)
    for again in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), fb.Batch(batch)):
        assert type(again) is fb.Batch and np.array_equal(again["b"], batch["b"]) and again.index is None and again.size is None
        with pytest.raises(fb.StateError, match="no Arrow form"):
            again.__arrow_c_array__()
    assert type(copy.deepcopy(batch)["b"]) is np.ndarray


def test_lightnings_way_of_rebuilding_a_batch_works(ds):
    torch = pytest.importorskip("torch")
    batch = first(ds, ["a", "b"], "torch")
    moved = type(batch)({name: tensor.to("cpu", copy=True) for name, tensor in batch.items()})
    assert torch.equal(moved["a"], batch["a"])
    from torch.utils.data._utils.pin_memory import pin_memory  # what DataLoader(pin_memory=True) runs, here without a device

    try:
        pin_memory(batch, None)
    except RuntimeError as error:
        pytest.skip(f"no pinned memory here: {error}")


def test_a_batch_is_an_arrow_record_batch(ds):
    outputs = {"a": "a", "pair": fb.col("a", "b", dtype="float32"), "s": "s", "l": "l", "flag": fb.col("a", dtype="bool"), "h": fb.col("b", dtype="float16")}
    batch = first(ds, outputs, "numpy")
    got = pa.record_batch(batch.arrow)
    assert got.equals(pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__()))
    assert got.num_rows == 100 and got.schema.names == list(outputs)
    table = pa.table(ds).slice(0, 100)
    assert got["a"].to_pylist() == table["a"].to_pylist() and got["s"].to_pylist() == table["s"].to_pylist()
    assert_arrays_equal(got["l"], table["l"].combine_chunks())
    assert pa.types.is_fixed_size_list(got["pair"].type) and got["pair"].to_pylist() == batch["pair"].tolist()
    assert got["flag"].to_pylist() == batch["flag"].tolist() and got["h"].to_pylist() == batch["h"].tolist()
    kept = got["b" if "b" in got.schema.names else "a"]
    del batch, got
    gc.collect()
    assert kept.to_pylist() == table["a"].to_pylist()
    with pytest.raises(fb.UnsupportedError, match="bfloat16"):
        pa.record_batch(first(ds, {"x": fb.col("b", dtype="bfloat16")}, "buffer").arrow)


def test_kept_batches_stay_valid_and_untouched_while_the_loader_runs_on(ds):
    with ds.loader({"x": ["a", "b"], "s": "s"}, batch_size=10, shuffle=True, seed=5, framework="numpy") as loader:
        kept = []
        for _ in range(4):
            kept += list(loader)
        held = loader.report()
        assert held.batches_out == len(kept) == 200 and held.batches_out_bytes > 0
        copies = [(b["x"].copy(), b["s"].to_list()) for b in kept]
        for _ in range(3):
            for batch in loader:
                batch["x"][:] = -7
    del ds
    gc.collect()
    for batch, (x, s) in zip(kept, copies):
        assert np.array_equal(batch["x"], x) and batch["s"].to_list() == s and (x >= 0).all()


def test_tensors_outlive_batch_loader_and_dataset():
    def make(framework):
        ds = fb.open({"x": np.arange(1000.0)})
        loader = ds.loader("x", batch_size=1000, shuffle=False, framework=framework)
        x = next(iter(loader))["x"]
        loader.close()
        ds.close()
        return x

    assert make("numpy").sum() == memoryview_sum(make("buffer")) == 499500.0
    torch = pytest.importorskip("torch")
    view = make("torch")[10:20]
    gc.collect()
    assert torch.equal(view, torch.arange(10.0, 20.0, dtype=torch.float64))


def memoryview_sum(x):
    return sum(memoryview(x).tolist())
