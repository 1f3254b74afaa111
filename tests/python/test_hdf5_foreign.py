"""An HDF5 file may name any path. Only regular files near it are read, unless the user says more."""

import os
import time

import forebay as fb
import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

SECRET = b"only for its owner: 0123456789abcdef"


@pytest.fixture
def places(tmp_path):
    """A folder of data, and one beside it that is nobody's business."""
    data, private = tmp_path / "data", tmp_path / "private"
    data.mkdir()
    private.mkdir()
    (private / "secret").write_bytes(SECRET)
    with h5py.File(private / "secret.h5", "w") as f:
        f["x"] = np.arange(9.0)
    with h5py.File(data / "probe.h5", "w") as f:
        f.create_dataset("x", data=np.arange(9), scaleoffset=0)
    with fb.open(data / "probe.h5", cache_dir="") as ds:
        if any("left out" in note for note in ds.notes):
            pytest.skip("forebay-hdf5 was not built")
    (data / "probe.h5").unlink()
    return data, private


def raw(path, named, n=len(SECRET)):
    with h5py.File(path, "w") as f:
        f["y"] = np.arange(n)
        f.create_dataset("x", (n,), "u1", external=[(os.fsencode(named), 0, n)])


def virtual(path, named):
    with h5py.File(path, "w") as f:
        layout = h5py.VirtualLayout((9,), "f8")
        layout[:] = h5py.VirtualSource(os.fspath(named), "x", (9,))
        f["y"] = np.arange(9)
        f.create_virtual_dataset("x", layout)


def link(path, named):
    with h5py.File(path, "w") as f:
        f["y"] = np.arange(9)
        f["x"] = h5py.ExternalLink(os.fspath(named), "/x")


def left_out(path, words, **options):
    """Not read, and the notes say what was named."""
    with fb.open(path, cache_dir="", **options) as ds:
        assert ds.columns == ["y"] or list(ds.columns) == ["y"]
        note = " ".join(ds.notes)
        assert "'x' is left out" in note
        for word in words:
            assert str(word) in note, note


def test_files_of_the_system_are_not_read(places):
    raw(places[0] / "a.h5", "/etc/passwd")
    left_out(places[0] / "a.h5", ["/etc/passwd", "external="])


@pytest.mark.parametrize("name", ["/proc/self/environ", "/proc/self/maps", "/dev/zero", "/sys/kernel/notes"])
def test_what_nothing_allows_is_not_advised(places, name):
    if not os.path.exists(name):
        pytest.skip(f"no {name} here")
    raw(places[0] / "a.h5", name)
    with fb.open(places[0] / "a.h5", cache_dir="") as ds:
        note = " ".join(ds.notes)
    assert "'x' is left out" in note and "no regular file" in note and "external=" not in note, note


@pytest.mark.parametrize("unlimited", [True, False])
def test_numbers_in_a_folder_of_a_virtual_data_set_without_end_are_refused(places, unlimited):
    """libhdf5 looks beside the file where the folder is not there, finds the same file for every number, and never ends."""
    data, _ = places
    with h5py.File(data / "part.h5", "w") as f:
        f["x"] = np.arange(4.0)
    space = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
    mapped = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
    mapped.select_hyperslab((0,), (h5py.h5s.UNLIMITED if unlimited else 1,), stride=(4,), block=(4,))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_virtual(mapped, b"/nowhere/%b/part.h5" if unlimited else b"/nowhere/1/part.h5", b"x", h5py.h5s.create_simple((4,)))
    with h5py.File(data / "v.h5", "w") as f:
        f["y"] = np.arange(4)
        h5py.h5d.create(f.id, b"x", h5py.h5t.IEEE_F64LE, space, dcpl)
    begin = time.monotonic()
    with fb.open(data / "v.h5", cache_dir="") as ds:
        assert ("x" in ds.columns) != unlimited
        assert not unlimited or "folder's name" in " ".join(ds.notes)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("make, named", [(raw, "secret"), (virtual, "secret.h5"), (link, "secret.h5")])
def test_files_elsewhere_are_read_when_the_user_says_so(places, make, named):
    data, private = places
    make(data / "a.h5", private / named)
    left_out(data / "a.h5", [private / named, "outside", "external="])
    left_out(data / "a.h5", ["outside"], external=data)
    for said in ("anywhere", private, [data, private], private.parent):
        with fb.open(data / "a.h5", cache_dir="", external=said) as ds:
            got = ds.read(["x"])["x"]
            np.testing.assert_array_equal(got, np.frombuffer(SECRET, "u1") if make is raw else np.arange(9.0))


@pytest.mark.parametrize("make, named", [(raw, "secret"), (virtual, "secret.h5"), (link, "secret.h5")])
def test_symbolic_links_are_resolved(places, make, named):
    data, private = places
    (data / named).symlink_to(private / named)
    make(data / "a.h5", named if make is not raw else data / named)
    left_out(data / "a.h5", [private / named, "outside"])


def test_below_the_root_of_the_data_set(places):
    data, _ = places
    (data / "parts").mkdir()
    (data / "common").mkdir()
    with h5py.File(data / "common" / "b.h5", "w") as f:
        f["x"] = np.arange(9.0)
    link(data / "parts" / "a.h5", "../common/b.h5")
    left_out(data / "parts" / "a.h5", ["outside"])
    with fb.open(data / "*" / "a.h5", cache_dir="") as ds:
        np.testing.assert_array_equal(ds.read(["x"])["x"], np.arange(9.0))


@pytest.mark.parametrize("make", [raw, virtual, link])
def test_pipes_are_refused(places, make):
    data, _ = places
    os.mkfifo(data / "pipe")
    make(data / "a.h5", data / "pipe")
    left_out(data / "a.h5", ["pipe", "no regular file"], external="anywhere")


def test_a_source_that_becomes_a_link_elsewhere_is_an_error(places):
    data, private = places
    with h5py.File(data / "b.h5", "w") as f:
        f["x"] = np.arange(9.0)
    virtual(data / "a.h5", "b.h5")
    with fb.open(data / "a.h5", cache_dir="") as ds:
        np.testing.assert_array_equal(ds.read(["x"])["x"], np.arange(9.0))
        (data / "b.h5").unlink()
        (data / "b.h5").symlink_to(private / "secret.h5")
        with pytest.raises(fb.Error):  # it was changed, or is elsewhere: never zeros, never the secret
            ds.read(["x"])


def test_the_user_may_name_what_he_likes(places):
    data, private = places
    (data / "a.h5").symlink_to(private / "secret.h5")
    with fb.open(data / "a.h5", cache_dir="") as ds:
        np.testing.assert_array_equal(ds.read(["x"])["x"], np.arange(9.0))
    os.mkfifo(data / "pipe.h5")
    with pytest.raises(fb.Error, match="fifo"):
        fb.open(data / "pipe.h5", cache_dir="")


def test_the_program_has_nothing_of_the_environment(places, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    data, _ = places
    with h5py.File(data / "a.h5", "w") as f:
        f.create_dataset("x", data=np.arange(9), scaleoffset=0)
    with fb.open(data / "a.h5", cache_dir="", external=data) as ds:
        ds.read(["x"])
    seen = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            if name == "forebay-hdf5" and int(rest.split()[1]) == os.getpid():
                with open(f"/proc/{entry}/environ", "rb") as f:
                    assert b"SECRET" not in f.read()
                with open(f"/proc/{entry}/status") as f:
                    status = f.read()
                assert "NoNewPrivs:\t1" in status
                seen += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    assert seen == 1


def test_folders_that_allow_nothing_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
    for said, kind in (("nothere", fb.FileMissingError), ("Anywhere", fb.FileMissingError), (tmp_path / "a.h5", fb.ArgumentError)):
        with pytest.raises(kind, match="external: "):
            fb.open(tmp_path / "a.h5", cache_dir="", external=said)
