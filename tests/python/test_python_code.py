"""Names that a Python file of the repository uses and nothing defines: found here, not when somebody runs it."""

import subprocess
import sys

import pytest

from real_data import ROOT


def test_names_are_defined():
    pytest.importorskip("ruff")
    found = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise"], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
