"""What tests of the recipes' train.py share: without the packages that it needs they are skipped, and the recipes can be imported."""

import sys

import pytest

from real_data import ROOT

for package in ("torch", "lightning", "torchmetrics", "pyarrow", "pandas", "h5py", "netCDF4", "polars"):
    pytest.importorskip(package)

sys.path.insert(0, str(ROOT))
