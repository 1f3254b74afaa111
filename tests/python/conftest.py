"""Shared fixtures."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_user_cache(tmp_path_factory, monkeypatch):
    """Tests never write to the user's cache directory."""
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path_factory.getbasetemp() / "forebay-cache"))


@pytest.fixture
def one_torch_thread():
    """Networks as small as those of tests gain nothing from more, and on a busy machine threads that wait for each other lose much."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run_python(tmp_path):
    """
    Runs a script in a fresh interpreter and returns the finished process; a hang is a failure. Python 3.12 and later warn of every fork
    beside threads, which is what some scripts are about.
    """

    def run(script, *args, timeout=60, check=True, env=None):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(script))
        environment = {**os.environ, "PYTHONWARNINGS": "ignore:This process:DeprecationWarning", **(env or {})}
        done = subprocess.run([sys.executable, str(path), *map(str, args)], capture_output=True, text=True, timeout=timeout, env=environment)
        if check and done.returncode != 0:
            raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run


@pytest.fixture
def parquet(tmp_path):
    """Writes a table (or a dict) as a Parquet file and returns its path."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    made = []

    def write(table, name=None, **options):
        path = tmp_path / (name or f"t{len(made)}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
        made.append(path)
        return path

    return write
