"""The recipes' notebooks run from their first cell to their last, and show what they promise; what is in git has no outputs."""

import os

import pytest

from real_data import ROOT

for package in ("torch", "lightning", "torchmetrics", "pyarrow", "pandas", "h5py", "polars", "matplotlib", "nbclient", "ipykernel"):
    pytest.importorskip(package)
import nbclient
import nbformat

NOTEBOOKS = sorted((ROOT / "recipes").glob("*/*.ipynb"))


def notebook(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.parent.name)
def test_a_notebook_runs(path, tmp_path):
    book = notebook(path)
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(path.parent)}})
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "FOREBAY_CACHE": str(tmp_path / "cache")})
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    html = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert any('title="Forebay report"' in page for page in html), "the picture of the report is missing"
    curves = [cell for cell in book.cells if "clock.curve" in cell.source]
    assert len(curves) == 1 and any("image/png" in output.get("data", {}) for output in curves[0].outputs), "the loss curve is missing"
    said = "".join(output.text for output in shown if output.output_type == "stream" and output.name == "stdout")
    assert "samples/s" in said and "validation: loss" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.parent.name)
def test_a_notebook_is_kept_without_outputs(path):
    book = notebook(path)
    nbformat.validate(book)
    assert path.stat().st_size < 20_000
    assert all(cell.outputs == [] and cell.execution_count is None for cell in book.cells if cell.cell_type == "code")


def test_there_are_notebooks():
    assert {"hydrology", "jets"} <= {path.parent.name for path in NOTEBOOKS}
