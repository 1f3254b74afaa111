"""HDF5 data sets whose values lie in other files, and a helper program that fails: nothing stale is read, nothing is silently absent."""

import os
import pathlib
import signal
import warnings

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")
import hdf5_files as files  # noqa: E402
import interrupts  # noqa: E402

N = 60


@pytest.fixture(scope="module", autouse=True)
def helper(tmp_path_factory):
    """Skips where the helper program is not built."""
    path = tmp_path_factory.mktemp("helper") / "scale.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(N), scaleoffset=0, chunks=(16,))
    try:
        fb.open(path, cache_dir="").close()
    except fb.UnsupportedError as error:
        pytest.skip(f"no helper program: {error}")


def write(path, **arrays):
    """A new file in the place of what is there: another inode, another time."""
    new = path.with_suffix(".new")
    with files.new_file(new, "v110") as file:
        for name, values in arrays.items():
            file[name] = values
    age(new)
    new.rename(path)
    return path


def age(path):
    """Old enough for the index cache, and each file at a time of its own."""
    age.count += 1
    time = 1_600_000_000 + age.count
    os.utime(path, (time, time))


age.count = 0


@pytest.fixture
def virtual(tmp_path):
    write(tmp_path / "one.h5", v=np.arange(N // 2))
    write(tmp_path / "two.h5", v=np.arange(N // 2, N))
    with files.new_file(tmp_path / "main.h5", "v110") as file:
        layout = h5py.VirtualLayout((N,), "<i8")
        layout[: N // 2] = h5py.VirtualSource("one.h5", "v", (N // 2,))
        layout[N // 2 :] = h5py.VirtualSource("two.h5", "v", (N // 2,))
        file.create_virtual_dataset("v", layout, fillvalue=-7)
        file["y"] = np.arange(N) * 2
    age(tmp_path / "main.h5")
    return tmp_path


@pytest.fixture
def linked(tmp_path):
    write(tmp_path / "b.h5", x=np.arange(N) + 300_000)
    with files.new_file(tmp_path / "a.h5") as file:
        file["x"] = h5py.ExternalLink("b.h5", "/x")
        file["y"] = np.arange(N)
    age(tmp_path / "a.h5")
    return tmp_path


@pytest.fixture
def raw(tmp_path):
    (tmp_path / "raw.bin").write_bytes(np.arange(N, dtype="<i4").tobytes())
    age(tmp_path / "raw.bin")
    with files.new_file(tmp_path / "main.h5", "v110") as file:
        files.create(file, "/v", np.dtype("<i4"), (N,), None, files.properties(external=[("raw.bin", 0, 4 * N)]))
        file["y"] = np.arange(N) * 2
    age(tmp_path / "main.h5")
    return tmp_path


def arrays(ds):
    return {name: np.asarray(values) for name, values in ds.read().items()}


# ---- other files that change ----


@pytest.mark.parametrize("other", [np.arange(N, dtype="<f8"), np.arange(N, dtype="<i4"), np.arange(N + 1), np.array([b"abcdefgh"] * N)])
def test_a_linked_file_of_another_type_or_shape_is_an_error_and_no_nonsense(linked, other):
    with fb.open(linked / "a.h5", cache_dir="") as ds:
        assert np.array_equal(ds.read("x")["x"], np.arange(N) + 300_000)
        write(linked / "b.h5", x=other)
        with pytest.raises(fb.ChangedError, match="a.h5.*/x.*b.h5"):
            ds.read(["x"])
        assert np.array_equal(ds.read(["y"])["y"], np.arange(N))  # what has nothing to do with it


def test_a_replaced_source_of_the_same_size_and_time_is_known_by_its_type(linked):
    """A stamp that lies: the helper program is told what was promised."""
    path = linked / "b.h5"
    before = path.stat()
    with fb.open(linked / "a.h5", cache_dir="") as ds:
        write(path, x=np.arange(N, dtype="<f8"))
        size = path.stat().st_size
        if size != before.st_size:
            pytest.skip("libhdf5 made files of different sizes of types of the same size")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(fb.ChangedError, match="a.h5.*x"):
            ds.read(["x"])


def test_a_source_that_changes_while_the_data_set_is_open(virtual):
    with fb.open(virtual / "main.h5", cache_dir="") as ds:
        assert np.array_equal(ds.read("v")["v"], np.arange(N))
        write(virtual / "two.h5", v=np.zeros(N // 2, "<i8"))
        with pytest.raises(fb.ChangedError, match="main.h5.*v.*two.h5"):
            ds.read(["v"])
    with fb.open(virtual / "main.h5", cache_dir="") as ds:
        (virtual / "two.h5").unlink()
        with pytest.raises(fb.ChangedError, match="two.h5 is gone"):
            ds.read(["v"])


def test_raw_data_that_changes_while_the_data_set_is_open(raw):
    with fb.open(raw / "main.h5", cache_dir="") as ds:
        (raw / "raw.bin").write_bytes(b"")
        with pytest.raises(fb.ChangedError, match="main.h5.*v.*raw.bin"):
            ds.read(["v"])


def test_files_behind_links_and_virtual_data_sets_are_in_the_fingerprint_and_validate_the_index(linked, tmp_path):
    cache = tmp_path / "cache"

    def opened():
        with fb.open(linked / "a.h5", cache_dir=cache) as ds:
            return ds.fingerprint, ds.open_stats["files_from_cache"], arrays(ds)["x"]

    first, cached, _ = opened()
    assert not cached
    again, cached, values = opened()
    assert again == first and cached and values[0] == 300_000
    write(linked / "b.h5", x=np.arange(N) / 4)
    changed, cached, values = opened()
    assert changed != first and not cached and np.array_equal(values, np.arange(N) / 4)
    (linked / "b.h5").unlink()
    with fb.open(linked / "a.h5", cache_dir=cache, missing_sources="fill") as ds:
        assert ds.columns == ("y",) and "b.h5" in str(ds.notes)


def test_every_file_on_the_way_counts(tmp_path):
    """A link through a second file to a virtual data set, whose source is a link to raw data."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "raw.bin").write_bytes(np.arange(N, dtype="<i4").tobytes())
    with files.new_file(tmp_path / "sub" / "d.h5", "v110") as file:
        raw = str(tmp_path / "sub" / "raw.bin")
        files.create(file, "/d", np.dtype("<i4"), (N,), None, files.properties(external=[(raw, 0, 4 * N)]))
    with files.new_file(tmp_path / "sub" / "c.h5", "v110") as file:
        layout = h5py.VirtualLayout((N,), "<i4")
        layout[:] = h5py.VirtualSource("d.h5", "d", (N,))
        file.create_virtual_dataset("c", layout)
    with files.new_file(tmp_path / "b.h5") as file:
        file["b"] = h5py.ExternalLink("sub/c.h5", "/c")
    with files.new_file(tmp_path / "a.h5") as file:
        file["a"] = h5py.ExternalLink("b.h5", "/b")
    names = ["b.h5", "sub/c.h5", "sub/d.h5", "sub/raw.bin"]
    for name in [*names, "a.h5"]:
        age(tmp_path / name)
    for name in names:
        with fb.open(tmp_path / "a.h5", cache_dir="") as ds:
            assert np.array_equal(ds.read(["a"])["a"], np.arange(N))
            age(tmp_path / name)
            with pytest.raises(fb.ChangedError, match=pathlib.Path(name).name):
                ds.read(["a"])


# ---- other files that are not there ----


def test_a_missing_source_is_an_error_unless_the_fill_value_is_asked_for(virtual):
    (virtual / "two.h5").unlink()
    with pytest.raises(fb.ReadError, match="main.h5.*'/v'.*two.h5.*missing_sources"):
        fb.open(virtual / "main.h5", cache_dir="")
    with fb.open(virtual / "main.h5", cache_dir="", missing_sources="fill") as ds:
        assert np.array_equal(ds.read(["v"])["v"], [*range(N // 2), *[-7] * (N // 2)])
        write(virtual / "two.h5", v=np.arange(N // 2, N))
        with pytest.raises(fb.ChangedError, match="two.h5 was not there"):
            ds.read(["v"])
    with pytest.raises(ValueError, match="missing_sources"):
        fb.open(virtual / "main.h5", missing_sources="zeros")


def test_a_source_without_the_data_set_is_missing_too(virtual):
    write(virtual / "two.h5", other=np.arange(N // 2))
    with pytest.raises(fb.ReadError, match="two.h5.*no data set 'v'"):
        fb.open(virtual / "main.h5", cache_dir="")


@pytest.mark.parametrize("left", [None, b"", b"123"])
def test_missing_and_short_raw_data_is_an_error_unless_the_fill_value_is_asked_for(raw, left):
    (raw / "raw.bin").unlink()
    if left is not None:
        (raw / "raw.bin").write_bytes(left)
        age(raw / "raw.bin")
    with pytest.raises(fb.ReadError, match="main.h5.*'/v'.*raw.bin"):
        fb.open(raw / "main.h5", cache_dir="")
    if left is not None:
        with fb.open(raw / "main.h5", cache_dir="", missing_sources="fill") as ds:
            assert len(ds.read(["v"])["v"]) == N


def test_what_was_filled_is_not_kept(virtual, tmp_path):
    cache, two = tmp_path / "cache", (virtual / "two.h5").read_bytes()
    (virtual / "two.h5").unlink()
    with fb.open(virtual / "main.h5", cache_dir=cache, missing_sources="fill") as ds:
        filled = ds.fingerprint
    with pytest.raises(fb.ReadError, match="two.h5"):
        fb.open(virtual / "main.h5", cache_dir=cache)
    (virtual / "two.h5").write_bytes(two)
    age(virtual / "two.h5")
    with fb.open(virtual / "main.h5", cache_dir=cache) as ds:
        assert ds.fingerprint != filled and np.array_equal(ds.read(["v"])["v"], np.arange(N))


def test_a_virtual_data_set_of_its_own_file_has_no_other_files(tmp_path):
    path = tmp_path / "own.h5"
    with files.new_file(path, "v110") as file:
        file["part"] = np.arange(N)
        layout = h5py.VirtualLayout((N,), "<i8")
        layout[:] = h5py.VirtualSource(".", "part", (N,))
        file.create_virtual_dataset("v", layout)
        layout[: N // 2] = h5py.VirtualSource(".", "gone", (N // 2,))
        file.create_virtual_dataset("g/w", layout)
    with pytest.raises(fb.ReadError, match="own.h5.*'/g/w'.*no data set 'gone'"):
        fb.open(path, cache_dir="")
    with h5py.File(path, "a") as file:
        del file["g"]
    age(path)
    for cached in (False, True):
        with fb.open(path, cache_dir=tmp_path / "cache") as ds:
            assert np.array_equal(ds.read(["v"])["v"], np.arange(N)) and bool(ds.open_stats["files_from_cache"]) == cached


def test_numbered_sources_end_at_the_first_gap(tmp_path):
    for i in range(3):
        write(tmp_path / f"part{i}.h5", v=np.arange(10) + 10 * i)
    with files.new_file(tmp_path / "main.h5", "v110") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        space = h5py.h5s.create_simple((0,), (h5py.h5s.UNLIMITED,))
        space.select_hyperslab((0,), (h5py.h5s.UNLIMITED,), (10,), (10,))
        plist.set_virtual(space, b"part%b.h5", b"v", h5py.h5s.create_simple((10,)))
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I64LE, h5py.h5s.create_simple((30,), (h5py.h5s.UNLIMITED,)), plist)
    age(tmp_path / "main.h5")
    with fb.open(tmp_path / "main.h5", cache_dir="") as ds:
        assert np.array_equal(ds.read(["v"])["v"], np.arange(30))
        write(tmp_path / "part3.h5", v=np.arange(10))
        with pytest.raises(fb.ChangedError, match="part3.h5|shape"):
            ds.read(["v"])


# ---- a helper program that fails for a while ----


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(50), scaleoffset=0, chunks=(10,))
        file["plain"] = np.arange(50)
    age(path)
    return path


OPEN = """
    import resource, sys
    import forebay as fb
    held = []
    {before}
    try:
        ds = fb.open(sys.argv[1], cache_dir=sys.argv[2])
    except fb.ReadError as error:
        print("refused:", error)
    else:
        print(*ds.columns, ds.open_stats["files_from_cache"])
"""


@pytest.mark.parametrize(
    "before, environment",
    [
        ("pass", {"FOREBAY_HDF5_HELPER": "/nonexistent/forebay-hdf5"}),
        ("pass", {"FOREBAY_HDF5_HELPER": "/bin/false"}),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)); held += [open('/dev/null') for _ in range({leave})]", {}),
    ],
    ids=["missing", "broken", "descriptors"],
)
def test_a_failure_that_passes_is_an_error_at_open_and_is_not_kept(packed, tmp_path, run_python, before, environment):
    cache = tmp_path / "cache"
    refused = 0
    for leave in range(7) if "leave" in before else [0]:
        script = OPEN.format(before=before.replace("{leave}", str(leave)))
        done = run_python(script, packed, cache, env=environment, check=False)
        if "refused" in done.stdout:
            refused += 1
            assert "p.h5" in done.stdout
        elif done.returncode == 0:
            assert "x" in done.stdout.split(), done.stdout  # all of it, or an error
        with fb.open(packed, cache_dir=cache) as ds:
            assert set(ds.columns) == {"x", "plain"} and np.array_equal(ds.read(["x"])["x"], np.arange(50))
        for entry in cache.iterdir():
            entry.unlink()
    assert refused


def test_a_helper_program_that_is_not_wanted_leaves_out_by_name_for_now(packed, tmp_path, run_python):
    done = run_python(OPEN.format(before="pass"), packed, tmp_path / "cache", env={"FOREBAY_HDF5_HELPER": "none"})
    assert done.stdout.split() == ["plain", "0"]
    with fb.open(packed, cache_dir=tmp_path / "cache") as ds:
        assert set(ds.columns) == {"x", "plain"}


@pytest.mark.parametrize("gone", ["file", "data set"])
def test_a_link_that_leads_nowhere_is_an_error_unless_it_is_left_out_by_name(linked, tmp_path, gone):
    cache = tmp_path / "cache"
    (linked / "b.h5").rename(linked / "c.h5")
    if gone == "data set":
        write(linked / "b.h5", other=np.arange(N))
    for _ in range(2):
        with pytest.raises(fb.ReadError, match="a.h5.*'x'.*b.h5.*missing_sources"):
            fb.open(linked / "a.h5", cache_dir=cache)
        with pytest.raises(fb.ReadError, match="a.h5.*'x'.*b.h5.*missing_sources"):
            fb.open(linked / "a.h5", cache_dir=cache, table="/x")
        with fb.open(linked / "a.h5", cache_dir=cache, missing_sources="fill") as ds:
            assert ds.columns == ("y",) and "'x' is left out" in " ".join(ds.notes)
            with pytest.raises(fb.SchemaError, match="no column 'x'.*b.h5"):
                ds.loader({"x": "x"}, batch_size=4)
    (linked / "c.h5").rename(linked / "b.h5")
    for missing in ("error", "fill"):
        with fb.open(linked / "a.h5", cache_dir=cache, missing_sources=missing) as ds:
            assert set(ds.columns) == {"x", "y"} and np.array_equal(ds.read(["x"])["x"], np.arange(N) + 300_000)


def test_a_link_elsewhere_in_the_file_is_no_error(linked):
    (linked / "b.h5").unlink()
    with h5py.File(linked / "a.h5", "a") as file:
        file["table/z"] = np.arange(N)
    with fb.open(linked / "a.h5", cache_dir="", table="/table") as ds:
        assert ds.columns == ("z",)


@pytest.mark.parametrize("first_stored_plain", [False, True])
def test_a_filter_that_a_source_of_a_virtual_data_set_lacks_is_named(tmp_path, first_stored_plain):
    """At open; where its first chunk went without the filter, which is all that is looked at then, when it is read. libhdf5 has no lzf."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        x = file.create_dataset("x", data=np.zeros(N, "<i8"), chunks=(N // 2,), compression="lzf")
        if first_stored_plain:
            x.id.write_direct_chunk((0,), np.zeros(N // 2, "<i8").tobytes(), filter_mask=1)
    with files.new_file(tmp_path / "v.h5", "v110") as file:
        layout = h5py.VirtualLayout((N,), "<i8")
        layout[:] = h5py.VirtualSource("s.h5", "x", (N,))
        file.create_virtual_dataset("v", layout)
    with pytest.raises(fb.ReadError, match=r"v\.h5.*/v.*s\.h5.*no filter 32000 \(lzf\)"):
        with fb.open(tmp_path / "v.h5", cache_dir="") as ds:
            assert first_stored_plain
            ds.read("v")


def test_a_filter_plugin_that_is_not_there_is_an_error_that_is_not_kept(tmp_path, run_python):
    import hdf5plugin

    path, cache = tmp_path / "z.h5", tmp_path / "cache"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(N, dtype="<f4"), chunks=(N,), **hdf5plugin.Zfp(reversible=True))
        file["plain"] = np.arange(N)
    age(path)
    missing = {"HDF5_PLUGIN_PATH": str(tmp_path)}
    for _ in range(2):
        done = run_python(OPEN.format(before="pass"), path, cache, env=missing)
        assert "refused" in done.stdout and "z.h5" in done.stdout and "no filter 32013" in done.stdout and "HDF5_PLUGIN_PATH" in done.stdout
    done = run_python(OPEN.format(before="pass"), path, cache, env={**missing, "FOREBAY_HDF5_HELPER": "none"})
    assert done.stdout.split() == ["plain", "0"]
    done = run_python(OPEN.format(before="pass"), path, cache, env={"HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH})
    if "refused" in done.stdout:  # the wheel's plugins are for a libhdf5 of their own
        assert "no filter 32013" in done.stdout
    else:
        assert set(done.stdout.split()) == {"x", "plain", "0"}


def test_the_main_file_cut_short_is_said_to_have_changed(packed):
    with fb.open(packed, cache_dir="") as ds:
        os.truncate(packed, packed.stat().st_size // 2)
        with pytest.raises(fb.ChangedError, match="p.h5"):
            ds.read(["x"])


# ---- what is left out for good ----


def test_a_loader_of_all_columns_says_what_it_goes_without(tmp_path):
    path = tmp_path / "t.h5"
    with files.new_file(path) as file:
        file["x"] = np.arange(N)
        files.create(file, "/when", h5py.h5t.UNIX_D32LE, (N,), None, files.properties())
    age(path)
    for _ in range(2):  # from the file, from the index
        with fb.open(path, cache_dir=tmp_path / "cache") as ds:
            with pytest.warns(UserWarning, match="left out: 'when': its type") as said, ds.loader(batch_size=4):
                pass
            assert said[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with ds.loader({"x": "x"}, batch_size=4):
                    pass


@pytest.fixture
def prefixes(tmp_path, monkeypatch):
    """A virtual data set and a link, both to s.h5, for which two folders are looked at before the file's own."""
    for folder in ("first", "second", "own"):
        (tmp_path / folder).mkdir()
    for variable in ("HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX"):
        monkeypatch.setenv(variable, f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    with files.new_file(tmp_path / "own" / "v.h5", "v110") as file:
        layout = h5py.VirtualLayout((N,), "<i8")
        layout[:] = h5py.VirtualSource("s.h5", "x", (N,))
        file.create_virtual_dataset("v", layout)
    with files.new_file(tmp_path / "own" / "l.h5", "v110") as file:
        file["v"] = h5py.ExternalLink("s.h5", "/x")
    for name in "vl":
        age(tmp_path / "own" / f"{name}.h5")
    return tmp_path


@pytest.mark.parametrize("name", ["v", "l"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_source_that_appears_where_it_is_looked_for_first_is_a_change(prefixes, name, cached):
    path, options = prefixes / "own" / f"{name}.h5", {"cache_dir": prefixes / "cache" if cached else ""}
    write(prefixes / "own" / "s.h5", x=np.arange(N))
    with fb.open(path, **options) as ds:
        assert ds.read("v")["v"].tolist() == list(range(N))
    with fb.open(path, **options) as ds:
        write(prefixes / "second" / "s.h5", x=np.arange(N) + 100)
        with pytest.raises(fb.ChangedError, match="second/s.h5 was not there before"):
            ds.read("v")
    with fb.open(path, **options) as ds:
        assert ds.read("v")["v"][0] == 100
        write(prefixes / "first" / "s.h5", x=np.arange(N) + 200)
        with pytest.raises(fb.ChangedError, match="first/s.h5 was not there before"):
            ds.read("v")
    with fb.open(path, **options) as ds:
        assert ds.read("v")["v"][0] == 200


@pytest.mark.parametrize("name", ["v", "l"])
def test_other_prefixes_are_another_data_set_in_the_index_cache(prefixes, monkeypatch, name):
    seen = set()
    for folder, value in (("first", 1), ("second", 2)):
        write(prefixes / folder / "s.h5", x=np.full(N, value))
    for folder, value in (("first", 1), ("second", 2), ("first", 1)):
        for variable in ("HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX"):
            monkeypatch.setenv(variable, str(prefixes / folder))
        with fb.open(prefixes / "own" / f"{name}.h5", cache_dir=prefixes / "cache") as ds:
            assert ds.read("v")["v"].tolist() == [value] * N
            seen.add(ds.fingerprint)
    assert len(seen) == 2


@pytest.mark.parametrize("name", ["v", "l"])
@pytest.mark.parametrize("cached", [False, True])
def test_the_environment_is_that_of_the_opening(prefixes, monkeypatch, name, cached):
    path, options = prefixes / "own" / f"{name}.h5", {"cache_dir": prefixes / "cache" if cached else ""}
    for folder, value in (("first", 1), ("second", 2)):
        write(prefixes / folder / "s.h5", x=np.full(N, value))
    if cached:
        fb.open(path, **options).close()
    with fb.open(path, **options) as ds:
        assert ds._info["files_from_cache"] == cached
        for variable in ("HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX"):
            monkeypatch.setenv(variable, str(prefixes / "second"))
        with fb.open(path, cache_dir="") as other:  # whose helper program is another
            assert other.read("v")["v"].tolist() == [2] * N
        assert ds.read("v")["v"].tolist() == [1] * N
        monkeypatch.setenv("FOREBAY_HDF5_HELPER", "/nonexistent")
        for pid, (program, _) in interrupts.children(os.getpid()).items():
            if program == "forebay-hdf5":
                os.kill(pid, signal.SIGKILL)
        assert ds.read("v")["v"].tolist() == [1] * N


def test_raw_data_that_appears_beside_the_file_is_a_change(raw, monkeypatch):
    there = raw / "there"
    there.mkdir()
    (raw / "raw.bin").rename(there / "raw.bin")
    monkeypatch.chdir(there)
    with fb.open(raw / "main.h5", cache_dir="", external="anywhere") as ds:
        name = ds.columns[0]
        assert ds.read(name)[name].tolist() == list(range(N))
        (raw / "raw.bin").write_bytes(np.arange(N, dtype="<i4").tobytes())
        with pytest.raises(fb.ChangedError, match="raw.bin was not there before"):
            ds.read(name)
