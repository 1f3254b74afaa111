"""Which helper program runs: the one of the installation, never one that merely lies near the library."""

import os
import pathlib
import shutil
import subprocess

import pytest

h5py = pytest.importorskip("h5py")
CLI = os.environ.get("FOREBAY_CLI")
pytestmark = pytest.mark.skipif(not CLI, reason="FOREBAY_CLI is not set")


@pytest.fixture
def copied(tmp_path):
    """The command and its library in DIR/forebay/build, as a build tree of somebody else's looks, and a file that needs the program."""
    library = next(pathlib.Path(CLI).resolve().parent.glob("libforebay.so.[0-9]"), None)
    if library is None:
        pytest.skip("the command is linked without a shared library")
    build = tmp_path / "forebay" / "build"
    build.mkdir(parents=True)
    shutil.copy(library, build / library.name)
    shutil.copy(CLI, build / "forebay")
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file.create_dataset("x", data=range(60), scaleoffset=0, chunks=(16,))
    return tmp_path


def put_program(path, ran, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho ran >>{ran}\nexit 3\n")
    path.chmod(mode)


def runs_program(folder):
    """Does the copy run one of ours? Its own library is loaded, whatever the command was linked with."""
    build = folder / "forebay" / "build"
    environment = {name: value for name, value in os.environ.items() if name != "FOREBAY_HDF5_HELPER"} | {"LD_LIBRARY_PATH": str(build)}
    subprocess.run([build / "forebay", "inspect", "--no-cache", folder / "packed.h5"], env=environment, capture_output=True, timeout=60)
    return (folder / "ran").exists()


PLACES = ["helper", "forebay/helper", "forebay/build/helper", "forebay/libexec/forebay", "libexec/forebay", "forebay", "."]


@pytest.mark.parametrize("place", PLACES)
def test_a_program_near_a_copied_build_tree_is_not_run(copied, place):
    put_program(copied / place / "forebay-hdf5", copied / "ran")
    assert not runs_program(copied)


def test_a_program_beside_the_library_is_run_unless_others_may_write_it(copied):
    program = copied / "forebay" / "build" / "forebay-hdf5"
    for folder_mode, mode in ((0o755, 0o757), (0o757, 0o755)):
        put_program(program, copied / "ran", mode)
        program.parent.chmod(folder_mode)
        assert not runs_program(copied)
    program.parent.chmod(0o755)
    assert runs_program(copied)
