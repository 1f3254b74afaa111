"""Generated HDF5 files of which the helper program reads a part, against h5py: filters and types of libhdf5, links to other files."""

import os
import subprocess
import sys

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")
pa = pytest.importorskip("pyarrow")

import hdf5_files as files  # noqa: E402
from hdf5_compare import add, assert_table, assert_whole, h5py_values, precision  # noqa: E402

N = 67


@pytest.fixture(scope="session")
def helper(tmp_path_factory):
    """Skips where the helper program is not built."""
    path = tmp_path_factory.mktemp("helper") / "scale.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(N), scaleoffset=0, chunks=(16,))
    with fb.open(path, cache_dir="") as ds:
        try:
            ds.read("/x")
        except fb.UnsupportedError as error:
            pytest.skip(f"no helper program: {error}")


def test_scale_offset_and_nbit(tmp_path, helper):
    path = tmp_path / "f.h5"
    with files.new_file(path, "v108") as file:
        file.create_dataset("/scale_int", data=files.numbers("<i4", (N, 3), 1) % 1000, scaleoffset=0, chunks=(16, 2))
        file.create_dataset("/scale_float", data=files.numbers("<f4", (N, 3), 1), scaleoffset=3, chunks=(16, 2))
        kind = precision(h5py.h5t.STD_I32LE, 12, 0)
        values = (np.arange(N * 3).reshape(N, 3) % 2048).astype(np.int32)
        made = files.create(file, "/nbit", kind, (N, 3), None, files.properties(chunk=(16, 2), filters=[(files.NBIT, ())]))
        made.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values, h5py.h5t.NATIVE_INT32)
    want = h5py_values(path, ("/scale_int", "/scale_float")) | {"/nbit": values}
    assert_whole(path, want, not_direct=want)
    assert_table(path, want)
    with fb.open(path, cache_dir="") as ds:
        assert "nbit" in ds.contents()["/nbit"].why and "scale" in ds.contents()["/scale_int"].why


def test_external_data_virtual_data_sets_and_links_to_other_files(tmp_path, helper):
    path = tmp_path / "f.h5"
    values = files.numbers("<i4", (N, 3), 1)
    (tmp_path / "raw.bin").write_bytes(b"12345678" + values.tobytes())
    with files.new_file(tmp_path / "part.h5", "v110") as file:
        file["part"] = values
    with files.new_file(path, "v110") as file:
        files.create(file, "/external", np.dtype("<i4"), (N, 3), None, files.properties(external=[(str(tmp_path / "raw.bin"), 8, values.nbytes)]))
        layout = h5py.VirtualLayout((N, 3), "<i4")
        layout[:40] = h5py.VirtualSource(str(tmp_path / "part.h5"), "part", (N, 3))[:40]
        file.create_virtual_dataset("/virtual", layout, fillvalue=-3)
        file["/linked"] = h5py.ExternalLink(str(tmp_path / "part.h5"), "/part")
        add(file, "/ordinary", np.dtype("<i4"), (N, 3), None, None, (), 4)
    want = h5py_values(path, ("/external", "/virtual", "/ordinary"))
    assert np.array_equal(want["/external"], values)
    assert_whole(path, want, not_direct=("/external", "/virtual"))
    assert_table(path, want)


@pytest.fixture
def linked(tmp_path, monkeypatch):
    """main.h5 with links into part.h5 beside it, to what is not there, in circles, and to a pipe; read from another folder."""
    monkeypatch.chdir("/")
    folder = tmp_path / "files"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    with files.new_file(folder / "part.h5") as file:
        file["floats"] = files.numbers("<f4", (N, 2), 1)
        file["g/a"] = np.arange(N)
        file["g/deep/b"] = np.arange(N) * 2.5
        file["g/soft"] = h5py.SoftLink("/floats")
        file["g/main"] = h5py.ExternalLink("main.h5", "/")  # a circle of groups
        file["g/other"] = h5py.ExternalLink("third.h5", "/words")
        file["circle"] = h5py.ExternalLink("main.h5", "/circle")
    with files.new_file(folder / "third.h5") as file:
        file["words"] = np.array([f"w{i}" for i in range(N)], object)
    with files.new_file(folder / "main.h5") as file:
        file["x"] = np.arange(N)
        for name, where, path in (
            ("floats", "part.h5", "/floats"), ("absolute", str(folder / "third.h5"), "/words"), ("group", "part.h5", "/g"), ("no_file", "gone.h5", "/x"),
            ("no_object", "part.h5", "/gone"), ("circle", "part.h5", "/circle"), ("self", "main.h5", "/self"), ("pipe", "pipe", "/x"),
            ("device", "/dev/zero", "/x"), ("again", "main.h5", "/x"),
        ):  # fmt: skip
            file[name] = h5py.ExternalLink(where, path)
        file["soft"] = h5py.SoftLink("/group/deep/b")
    return folder


def test_links_to_other_files_are_followed_by_the_helper_program(linked, helper):
    want = {"x": np.arange(N), "floats": files.numbers("<f4", (N, 2), 1), "absolute": [f"w{i}" for i in range(N)],
            "group/a": np.arange(N), "group/deep/b": np.arange(N) * 2.5}  # fmt: skip
    with fb.open(linked / "main.h5", cache_dir="", missing_sources="fill") as ds:
        assert set(ds.columns) == set(want), ds.notes  # each object once: group/other is /absolute, group/soft is /floats
        contents = ds.contents()
        read, table = ds.read(), pa.table(ds)
        for name, values in want.items():
            assert contents["/" + name].direct == (name == "x")
            assert np.array_equal(read[name], values), name
            assert np.array_equal(ds.read("/" + name), values), name
            assert table[name].to_pylist() == np.asarray(values).tolist()
        assert "part.h5:/floats" in contents["/floats"].why and "part.h5:/g" in contents["/group/deep/b"].why
        for name, other in (("/group/other", "absolute"), ("/soft", "group/deep/b"), ("/group/soft", "floats"), ("/again", "x")):
            assert np.array_equal(ds.read(name), want[other]), name
        with fb.open(linked / "main.h5", table="/group", cache_dir="") as part:
            assert set(part.columns) == {"a", "deep/b"} and np.array_equal(part.read("deep/b")["deep/b"], want["group/deep/b"])
        with ds.loader({"row": fb.sample_index(), "f": "floats", "b": "group/deep/b"}, batch_size=7, framework="numpy") as loader:
            for batch in loader:
                assert np.array_equal(batch["f"], want["floats"][batch["row"]]) and np.array_equal(batch["b"], want["group/deep/b"][batch["row"]])


@pytest.mark.parametrize(
    "name, why",
    [("no_file", "gone.h5"), ("no_object", "'gone' doesn't exist"), ("circle", "too many links"), ("self", "too many links"),
     ("pipe", "no regular file"), ("device", "no regular file")],
)  # fmt: skip
def test_links_that_lead_to_nothing_say_why(linked, helper, name, why):
    with fb.open(linked / "main.h5", cache_dir="", missing_sources="fill") as ds:
        assert contents_why(ds, "/" + name, why) and any(f"'{name}' is left out" in note and why in note for note in ds.notes), ds.notes
        with pytest.raises(fb.SchemaError, match=f"no column '{name}'.*{why}"):
            ds.loader({"y": name}, batch_size=4)


def contents_why(ds, path, why):
    found = ds.contents()[path]
    return found.kind == "link" and why in found.why


def test_a_linked_file_that_changes_is_read_anew_and_one_that_vanishes_is_an_error(linked, helper):
    with fb.open(linked / "main.h5", cache_dir="", missing_sources="fill") as ds:
        assert np.array_equal(ds.read("/floats"), files.numbers("<f4", (N, 2), 1))
        with files.new_file(linked / "new.h5") as file:
            file["floats"] = files.numbers("<f4", (N, 2), 2)
        (linked / "new.h5").rename(linked / "part.h5")
        assert np.array_equal(ds.read("/floats"), files.numbers("<f4", (N, 2), 2))
        (linked / "part.h5").unlink()
        with pytest.raises(fb.Error, match="main.h5.*floats.*part.h5"):
            ds.read(["floats"])


def test_links_to_other_files_without_the_helper_program(linked, tmp_path):
    script = "import forebay as fb, sys\nds = fb.open(sys.argv[1], cache_dir='')\nprint(ds.columns, *ds.notes)"
    environment = os.environ | {"FOREBAY_HDF5_HELPER": "none"}
    done = subprocess.run([sys.executable, "-c", script, linked / "main.h5"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("('x',)") and "'floats' is left out: a link to another file (part.h5:/floats)" in done.stdout
    assert "FOREBAY_HDF5_HELPER" in done.stdout


def test_filters_that_are_nobodys_say_which_they_are(tmp_path, helper):
    """Plugins that neither we nor the helper's libhdf5 have: named, and what does not need them is read."""
    import hdf5plugin

    path = tmp_path / "f.h5"
    with files.new_file(path, "v108") as file:
        add(file, "/blosc2", np.dtype("<f4"), (N, 3), (16, 3), None, [files.plugin(hdf5plugin.Blosc2())], 1)
        add(file, "/zfp", np.dtype("<f4"), (N, 3), (16, 3), None, [files.plugin(hdf5plugin.Zfp(reversible=True))], 2)
        add(file, "/group/ordinary", np.dtype("<f4"), (N, 3), (16, 3), None, files.FILTERS["gzip"], 3)
    want = h5py_values(path)
    with fb.open(path, cache_dir="", table="/group") as ds:
        contents = ds.contents()
        files.assert_same(ds.read("/group/ordinary"), want["/group/ordinary"], "/group/ordinary")
        for name, number in (("/blosc2", "32026"), ("/zfp", "32013")):
            assert not contents[name].direct and number in contents[name].why
            try:
                files.assert_same(ds.read(name), want[name], name)  # where HDF5_PLUGIN_PATH has them
            except fb.ReadError as error:
                assert "f.h5" in str(error) and number in str(error) and "HDF5_PLUGIN_PATH" in str(error), error


def test_an_optional_filter_that_no_chunk_passed_need_not_be_there(tmp_path, helper):
    """Set, as h5py sets them, and skipped in every chunk: nothing of it is missing."""
    path = tmp_path / "f.h5"
    values = files.numbers("<f4", (16, 3), 1)
    with files.new_file(path, "v108") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((16, 3))
        properties.set_filter(32013, h5py.h5z.FLAG_OPTIONAL, (0,) * 6)
        space = h5py.h5s.create_simple((16, 3))
        data = h5py.h5d.create(file.id, b"/x", h5py.h5t.py_create(values.dtype), space, properties)
        data.write_direct_chunk((0, 0), values.tobytes(), 1)  # the mask: filter 0 was skipped
    with fb.open(path, cache_dir="") as ds:
        assert not any("left out" in note for note in ds.notes), ds.notes
        files.assert_same(ds.read("/x"), values, "/x")


def test_types_that_only_the_helper_reads(tmp_path, helper):
    path = tmp_path / "f.h5"
    with files.new_file(path, "v108") as file:
        add(file, "/x", np.dtype("<i4"), (N,), None, None, (), 1)
        references = file.create_dataset("/references", (3,), h5py.ref_dtype)
        references[0], references[1] = file["/x"].ref, file["/"].ref
    with fb.open(path, cache_dir="") as ds:
        assert list(ds.read("/references")) == ["/x", "/", ""]
        assert not ds.contents()["/references"].direct
        files.assert_same(ds.read("/x"), files.numbers("<i4", (N,), 1), "/x")


def test_integers_of_thousands_of_bytes_are_left_out_by_name(tmp_path, helper):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        kind = h5py.h5t.STD_I64LE.copy()
        kind.set_size(9000)
        kind.set_precision(65535)
        h5py.h5d.create(file.id, b"wide", kind, h5py.h5s.create_simple((5,)))
        file["x"] = np.arange(5.0)
    with fb.open(tmp_path / "x.h5", cache_dir="") as ds:
        (note,) = ds.notes
        assert "'wide' is left out" in note and "integers of 9000 bytes" in note


@pytest.mark.parametrize("mib", [20, 40, 80])
def test_text_larger_than_what_the_program_has_at_first(tmp_path, helper, mib):
    """Behind a link, so that the program reads it: it is given more memory, until the text fits, and goes on with less afterwards."""
    long = [f"{i}{'a' * 6000}" for i in range((mib << 20) // 6000)]
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file.create_dataset("x", data=np.array(long, dtype=object), dtype=h5py.string_dtype())
        file.create_dataset("y", data=np.array(long[:50], dtype=object), dtype=h5py.string_dtype())
    with h5py.File(tmp_path / "main.h5", "w") as file:
        file["x"] = h5py.ExternalLink("source.h5", "/x")
        file["y"] = h5py.ExternalLink("source.h5", "/y")
    with fb.open(tmp_path / "main.h5", cache_dir="", table="/x") as ds:
        assert ds.read("x", memory="2GiB")["x"].tolist() == long
    with fb.open(tmp_path / "main.h5", cache_dir="", table="/y") as ds:
        assert ds.read("y")["y"].tolist() == long[:50]
