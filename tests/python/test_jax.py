"""forebay.jax: batches as JAX arrays; forebay.numpy beside it."""

import sys

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
N = 300


@pytest.fixture
def ds():
    a = np.arange(N)
    return fb.open({"a": a, "x": np.stack([a, -a], 1).astype("float32"), "k": a % 3 == 0, "h": a.astype("int16")})


def test_batches_are_jax_arrays_of_the_same_values(ds):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import forebay.jax

    with forebay.jax.Loader(ds.rows(), batch_size=50, seed=1) as loader, ds.loader(batch_size=50, seed=1, framework="numpy") as plain:
        assert len(loader) == 6 and loader.batch_size == 50 and len(loader.dataset) == N
        for x, y in zip(loader, plain, strict=True):
            assert list(x) == list(y)
            for name in ("a", "x", "k", "h"):
                assert isinstance(x[name], jax.Array) and np.array_equal(np.asarray(x[name]), y[name])
            assert x["a"].dtype == np.int32 and x["h"].dtype == np.int16 and x["k"].dtype == np.bool_
    assert float(jax.jit(lambda v: (v**2).sum())(x["x"])) == float((y["x"] ** 2).sum())


def test_lists_are_packed_jax_arrays(parquet):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import forebay.jax

    pytest.importorskip("pyarrow")
    lists = [list(range(v % 3)) for v in range(20)]
    with forebay.jax.Loader(fb.open(parquet({"l": lists})), batch_size=20, shuffle=False) as loader:
        (batch,) = loader
    assert isinstance(batch["l"].values, jax.Array) and batch["l"].to_list() == lists


def test_jax_arrays_outlive_the_loader_and_resume(ds):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import forebay.jax

    loader = forebay.jax.Loader(ds.rows(), "x", batch_size=50, shuffle=False, as_="tuple", device=jax.devices("cpu")[0])
    iterator = iter(loader)
    held = [next(iterator)[0] for _ in range(2)]
    state = loader.state_dict()
    rest = [np.asarray(x).tolist() for (x,) in iterator]
    loader.load_state_dict(state)
    assert [np.asarray(x).tolist() for (x,) in loader] == rest
    loader.close()
    assert np.array_equal(np.asarray(held[1])[:, 0], np.arange(50, 100))


def test_x64_keeps_64_bits(run_python):
    pytest.importorskip("jax", reason="JAX is not installed")
    run_python(
        """
        import jax, numpy as np
        jax.config.update("jax_enable_x64", True)
        import forebay as fb, forebay.jax
        ds = fb.open({"a": np.arange(10) + 2**40, "d": np.arange(10) / 3})
        batch = next(iter(forebay.jax.Loader(ds, batch_size=10, shuffle=False)))
        assert batch["a"].dtype == np.int64 and batch["a"][3] == 2**40 + 3 and batch["d"].dtype == np.float64 and batch["d"][1] == 1 / 3
        """,
        timeout=120,
    )


def test_numpy_also_where_torch_is_imported(run_python):
    pytest.importorskip("torch")
    run_python(
        """
        import torch, numpy as np
        import forebay as fb, forebay.numpy
        ds = fb.open({"a": np.arange(10)})
        assert type(next(iter(ds.loader(batch_size=10)))["a"]) is torch.Tensor
        assert type(next(iter(forebay.numpy.loader(ds, batch_size=10)))["a"]) is np.ndarray
        """,
        timeout=120,
    )


@pytest.mark.parametrize("name, needs", [("torch", "PyTorch"), ("jax", "JAX"), ("numpy", "NumPy"), ("lightning", "Lightning")])
def test_a_framework_that_is_not_there_is_named(run_python, name, needs):
    run_python(
        f"""
        import sys
        for missing in ("{name}", "{name}.pytorch", "pytorch_lightning"):
            sys.modules[missing] = None
        import forebay
        try:
            import forebay.{name}
        except ImportError as error:
            assert "forebay.{name} needs {needs}" in str(error), error
        else:
            raise SystemExit("imported without {name}")
        assert not [m for m in ("torch", "jax", "lightning") if sys.modules.get(m)]
        """
    )


def test_batches_go_to_the_device_that_jax_computes_on(ds):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    import forebay.jax

    if jax.default_backend() == "cpu":
        pytest.skip("JAX has no other device than the CPU")
    parameters = jax.numpy.ones(2)
    for options in ({}, {"transform": lambda batch: {**batch, "y": batch["x"] + 1}}):
        with forebay.jax.Loader(ds.rows(), {"x": "x", "a": "a"}, batch_size=50, shuffle=False, **options) as loader:
            for i, batch in enumerate(loader):
                assert all(array.devices() == parameters.devices() for array in batch.values())
                result = jax.jit(lambda p, x: x @ p)(parameters, batch["x"])
                assert result.devices() == parameters.devices() and batch["a"].tolist() == list(range(50 * i, 50 * i + 50))
        with jax.default_device(jax.devices("cpu")[0]), forebay.jax.Loader(ds.rows(), {"x": "x"}, batch_size=50, **options) as loader:
            assert all(array.devices() == {jax.devices("cpu")[0]} for batch in loader for array in batch.values())
