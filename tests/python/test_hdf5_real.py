"""Every HDF5 and NetCDF-4 file of the shared data against h5py: each data set whole, each attribute, how it is stored."""

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
h5py = pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin")

import hdf5_files as files  # noqa: E402

FILES = sorted(path for path in DATA.rglob("*") if path.is_file() and path.suffix in (".h5", ".hdf5", ".nc", ".nc4") and h5py.is_hdf5(path))
pytestmark = pytest.mark.skipif(not FILES, reason=f"no HDF5 files in {DATA}")
NAMES = [str(path.relative_to(DATA)) for path in FILES]
# (file, data set): why it is read by the helper program. All others are read by the library itself.
NOT_DIRECT = {}


def settle(value):
    """An attribute of h5py as Forebay gives it; None for one that holds neither numbers nor text."""
    if isinstance(value, h5py.Empty):
        return None
    if isinstance(value, (str, bytes, np.bytes_)):
        return files.text(bytes(value) if isinstance(value, np.bytes_) else value)
    value = np.asarray(value)
    if value.dtype.kind in "biuf":
        return value
    if value.dtype.kind == "S":
        return [files.text(bytes(v)) for v in value.flat]
    if value.dtype == object and all(isinstance(v, (str, bytes)) for v in value.flat):
        return [files.text(v) for v in value.flat]
    return None


def assert_attributes(got, item, where):
    names = []
    for name in item.attrs:
        try:
            want = settle(item.attrs[name])
        except (OSError, TypeError):
            continue  # not for h5py
        names.append(name)
        if want is None:
            with pytest.raises(ValueError, match="neither numbers nor text"):
                got[name]
        elif isinstance(want, str):
            assert got[name] == want, f"{where} {name}"
        elif isinstance(want, list):
            assert list(np.asarray(got[name], dtype=object).flat) == want, f"{where} {name}"
        else:
            assert files.same_bits(got[name], want), f"{where} {name}: {got[name]!r} instead of {want!r}"
    assert set(names) <= set(got)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_data_set_and_attribute_as_h5py_reads_it(path):
    name = str(path.relative_to(DATA))
    with h5py.File(path) as file, fb.open(path, cache_dir="", stored_values=True) as ds:
        contents = ds.contents()
        assert_attributes(contents["/"].attributes, file, "/")
        objects = []
        file.visititems(lambda where, item: objects.append(("/" + where, item)))
        assert {where for where, _ in objects} <= set(contents)
        data = [(where, item) for where, item in objects if isinstance(item, h5py.Dataset)]
        for where, item in objects:
            assert_attributes(contents[where].attributes, item, where)
        # Many scalars in one file: opening it for each of 300 would take all the time. What is left out is read as a table below.
        for where, item in data if len(data) < 50 else data[::7] + [pair for pair in data if pair[1].size > 1]:
            files.assert_same(ds.read(where), files.expected(item), where)
        for where, item in data:
            found = contents[where]
            assert found.kind == "array" and found.shape == (item.shape or ())
            assert item.dtype.hasobject or found.decoded_bytes == item.nbytes, where
            assert found.direct == ((name, where) not in NOT_DIRECT), f"{where}: {found.why}"
            assert (found.chunks or None) == item.chunks, where
            if item.chunks:
                assert found.n_chunks_written == item.id.get_num_chunks() and found.layout == "chunked"
                sizes = []
                item.id.chunk_iter(lambda info: sizes.append(info.size))
                assert found.stored_bytes == sum(sizes), where


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_the_largest_table_through_arrow_and_a_loader(path):
    with h5py.File(path) as file, fb.open(path, cache_dir="", stored_values=True) as ds:
        columns = {item.column: files.expected(file[item.path]) for item in ds.contents().arrays if item.column}
        assert columns and all(len(values) == len(ds) for values in columns.values())
        read = ds.read()
        outputs = {"row": fb.sample_index()}
        for name, values in columns.items():
            files.assert_same(read[name], values, name)
            if values.dtype.kind in "biuf":
                outputs[name] = fb.col(name)
        table = pa.table(ds)
        assert table.num_rows == len(ds) and table.column_names == list(ds.columns)
        for name, values in columns.items():
            if values.dtype.kind in "biuf" and values.ndim == 1:
                files.assert_same(table.column(name).to_numpy(), values, name)
        seen = []
        with ds.loader(outputs, batch_size=max(1, len(ds) // 7 + 1), shuffle=True, seed=1, framework="numpy") as loader:
            for batch in loader:
                rows = batch["row"]
                seen.append(rows)
                for name in outputs:
                    if name != "row":
                        files.assert_same(batch[name], columns[name][rows], name)
        assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(len(ds)))


def test_the_tables_that_were_not_taken_are_named_and_can_be_had():
    path = DATA / "neutrino" / "liquido_electrons.h5"
    if not path.exists():
        pytest.skip(f"no {path}")
    with fb.open(path, cache_dir="") as ds, h5py.File(path) as file:
        assert ds.columns == ("HitData",) and len(ds) == 121_096
        notes = "\n".join(ds.notes)
        assert "SiPMIDxyz" in notes and "TruthData" in notes
        with fb.open(path, table="/SiPMIDxyz", cache_dir="") as other:
            got = other.read()
            assert len(other) == 12_860
            for member in ("SiPMID", "x", "y", "z"):
                files.assert_same(got["SiPMIDxyz." + member], file["SiPMIDxyz"][member], member)
        with fb.open(path, table="TruthData", cache_dir="") as other:
            files.assert_same(other.read()["TruthData"], file["TruthData"][()], "TruthData")


def test_a_series_stored_station_by_time_is_read_along_either_axis():
    path = DATA / "hydrology" / "ngen_gauge_01073000_forcing.nc"
    if not path.exists():
        pytest.skip(f"no {path}")
    with h5py.File(path) as file:
        want = {name: file[name][()] for name in ("TMP_2maboveground", "precip_rate", "Time")}
        for axis in (1, "time"):
            with fb.open(path, axis=axis, cache_dir="") as ds:
                assert len(ds) == 720
                got = ds.read()
                for name, values in want.items():
                    files.assert_same(got[name], values.T, name)
                with ds.loader({"row": fb.sample_index(), "t": fb.col("TMP_2maboveground")}, batch_size=31, framework="numpy") as loader:
                    for batch in loader:
                        files.assert_same(batch["t"], want["TMP_2maboveground"].T[batch["row"]], "t")
        with fb.open(path, axes=2, cache_dir="") as ds:
            assert len(ds) == 5 * 720
            got = ds.read()
            for name, values in want.items():
                files.assert_same(got[name], values.reshape(-1), name)
            assert list(got["ids"]) == [files.text(v) for v in file_ids(path) for _ in range(720)]


def file_ids(path):
    with h5py.File(path) as file:
        return list(file["ids"][()])
