"""Tasks of a pack: the options that tests of them share, and as fixtures the source and the whole pack."""

import os
import pathlib
import subprocess

import pytest

import forebay as fb
from pack_cases import contents, floats, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")

OPTIONS = {"seed": 5, "memory": "16MiB", "batch": 500, "rows_per_file": 20_000}
FLAGS = ["--seed", "5", "--memory", "16MiB", "--batch", "500", "--rows-per-file", "20000"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write(floats(300_000, columns=10), tmp_path_factory.mktemp("tasks") / "src", row_group_size=4_000)


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory):
    """The bytes of one process, whose memory and threads are other ones."""
    out = tmp_path_factory.mktemp("whole") / "out"
    fb.pack(source, out, **{**OPTIONS, "memory": "1GiB", "threads": 3})
    return contents(out)


def by_phase(tasks):
    return [[task for task in tasks if task.phase == phase] for phase in ("plan", "scatter", "write", "verify", "finish")]


def run_all(source, out, tasks, given):
    for task in tasks:
        fb.pack_task(source, out, task, **given)


def run(arguments, **options):
    return subprocess.run([str(word) for word in arguments], capture_output=True, text=True, check=False, **options)
