"""What tests of the recipes share: their modules, generated and real data, comparisons."""

import importlib
import sys

import numpy as np
import pytest

import forebay as fb
from real_data import DATA, ROOT, generated

sys.path.insert(0, str(ROOT))


def recipe(name):
    """(loader, reference) of a recipe."""
    return tuple(importlib.import_module(f"recipes.{name}.{module}") for module in ("loader", "reference"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made("jets", flat=True): the folder with what the recipe's generator writes."""

    def make(name, **options):
        return generated(tmp_path_factory, name, importlib.import_module(f"recipes.{name}.generate"), **options)

    return make


def pipeline(name, overrides, file="pipeline.yaml"):
    """A recipe's pipeline file with the paths of data that a test made."""
    return fb.pipeline(ROOT / "recipes" / name / file, overrides)


def real(*parts):
    """A path of the real data; skips without it."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no real data: {path} is not there")
    return path


def close(got, want, what=""):
    """Equal to 1e-6 relative: for what was normalised."""
    assert got.dtype == np.float32 and got.shape == want.shape, f"{what}: {got.dtype} {got.shape} instead of {want.shape}"
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=what)


def equal(got, want, dtype=np.float32):
    """Equal bit for bit."""
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.asarray(want).astype(dtype))
