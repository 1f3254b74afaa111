"""NetCDF-4: dimensions as names, missing values, scale and offset as netCDF4 applies them, and as they are stored on request."""

import contextlib

import pytest

import forebay as fb
from real_data import DATA

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("hdf5plugin")  # before netCDF4: the other way round its filters fail in h5py, also in other tests of the process
netCDF4 = pytest.importorskip("netCDF4")

import hdf5_files as files  # noqa: E402

FILES = sorted(path for path in DATA.rglob("*.nc*") if path.is_file())


def masked(values):
    """(values, missing) of what either side reads."""
    values = np.ma.MaskedArray(values)
    missing = np.ma.getmaskarray(values)
    data = values.data
    if data.dtype.kind == "f":
        missing = missing | np.isnan(data)
    return data, missing


def assert_masked(got, want, where, close=False):
    got, got_missing = masked(got)
    want, want_missing = masked(want)
    assert got.shape == want.shape, where
    assert np.array_equal(got_missing, want_missing), f"{where}: {int((got_missing != want_missing).sum())} of {got.size} are missing on one side only"
    there = ~want_missing
    if close:  # netCDF4 computes in the dtype of the attributes
        np.testing.assert_allclose(got[there].astype("f8"), want[there].astype("f8"), rtol=2e-7, err_msg=where)
    else:
        assert np.array_equal(got[there], want[there]), where


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(DATA)) for path in FILES])
def test_columns_of_real_files_as_netcdf4_reads_them(path):
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="") as ds:
        columns = {item.column: item for item in ds.contents().arrays if item.column}
        got = ds.read()
        checked = 0
        for name, item in columns.items():
            variable = file[item.path]
            names = tuple(variable.dimensions)
            assert item.dimensions == names, item.path
            if variable.dtype is not str:
                assert_masked(got[name], variable[...], name)
                checked += 1
        assert checked


def can_miss(field):
    """Can values of the field be missing?"""
    while field.children:
        field = field.children[0]
    return field.nullable


def write(path, n=50):
    """One variable per convention; (name, close) as they come."""
    random = np.random.default_rng(4)
    with netCDF4.Dataset(path, "w") as file:
        file.title = "made for a test"
        file.createDimension("time", None)
        file.createDimension("station", 7)
        time = file.createVariable("time", "f8", ("time",))
        time.units, time.calendar = "days since 2000-01-01", "standard"
        time[:] = np.arange(n)

        def make(name, dtype, values, dimensions=("time", "station"), fill=None, close=False, **attributes):
            variable = file.createVariable(name, dtype, dimensions, fill_value=fill, zlib=True, chunksizes=(8, 7)[: len(dimensions)])
            variable.set_auto_maskandscale(False)
            variable.setncatts(attributes)
            variable[...] = values
            made.append((name, close))

        made = []
        shape = (n, 7)
        small = random.integers(-100, 100, shape)
        holes = random.random(shape) < 0.2
        make("plain", "f4", random.random(shape).astype("f4"))
        make("filled_float", "f4", np.where(holes, np.float32(-9999), random.random(shape).astype("f4")), fill=-9999.0)
        make("filled_nan", "f8", np.where(holes, np.nan, random.random(shape)), fill=np.nan)
        make("filled_int", "i2", np.where(holes, -32768, small), fill=-32768)
        make("missing_value", "i4", np.where(holes, -1, small), missing_value=np.int32(-1))
        make("missing_list", "i4", np.where(holes, -1, np.where(small == 3, -2, small)), missing_value=np.array([-1, -2], "i4"))
        make("both", "i2", np.where(holes, -99, np.where(small == 3, -98, small)), fill=-99, missing_value=np.int16(-98))
        make("packed", "i2", np.where(holes, -32767, small), fill=-32767, scale_factor=0.01, add_offset=273.15)
        make("scaled_only", "i4", small, scale_factor=0.1)
        make("offset_only", "i2", small, add_offset=np.float64(5.5))
        make("scaled_float32", "i2", small, scale_factor=np.float32(0.02), close=True)
        make("scaled_both_float32", "u1", np.abs(small), scale_factor=np.float32(0.5), add_offset=np.float32(-3.25), close=True)
        make("scaled_float", "f4", random.random(shape).astype("f4"), scale_factor=2.0, close=True)
        make("byte", "i1", small)
        make("unsigned", "u2", np.abs(small), fill=65535)
        make("series", "i2", np.arange(n) - 5, dimensions=("time",), fill=-3, scale_factor=0.5)
        make("wide", "i8", small.astype("i8") * 2**40)
        make("default_float", "f4", np.where(holes, np.float32(netCDF4.default_fillvals["f4"]), random.random(shape).astype("f4")))
        make("default_double", "f8", np.where(holes, netCDF4.default_fillvals["f8"], random.random(shape)))
        make("default_int", "i4", np.where(holes, netCDF4.default_fillvals["i4"], small))
        make("default_packed", "i2", np.where(holes, netCDF4.default_fillvals["i2"], small), scale_factor=0.5)
        names = file.createVariable("label", str, ("time",))
        for i in range(n):
            names[i] = f"day {i}"
    return made


def test_conventions_as_netcdf4_applies_them(tmp_path):
    path = tmp_path / "f.nc"
    made = write(path)
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        got = ds.read()
        for name, close in made:
            assert contents["/" + name].direct, contents["/" + name].why
            assert contents["/" + name].dimensions == file[name].dimensions
            assert_masked(got[name], file[name][...], name, close)
            # Bytes have no default fill value; all else can hold it, unless the variable names its own.
            assert can_miss(ds.schema[name]) == (file[name].dtype.itemsize > 1 or "_FillValue" in file[name].ncattrs()), name
        assert list(got["label"]) == [f"day {i}" for i in range(50)]
        assert ds.attrs["title"] == "made for a test"
        assert contents["/time"].attributes["units"] == "days since 2000-01-01"
        assert got["time"].dtype == np.float64


def i1(*values):
    return np.array(values, "i1")


RANGES = {  # name: (dtype, fill, attributes)
    "range_int": ("i2", -5, {"valid_range": np.array([-20, 30], "i2")}),
    "range_float": ("f4", None, {"valid_range": np.array([-20.5, 30], "f4")}),
    "range_double_on_float": ("f4", None, {"valid_range": np.array([-20.5, 30.25], "f8")}),
    "inexact_on_float": ("f4", None, {"valid_range": np.array([-20.1, 30.1], "f8")}),
    "inexact_on_int": ("i4", None, {"valid_min": 0.5, "valid_max": np.float32(30)}),
    "least": ("f8", -999.0, {"valid_min": -20.0}),
    "most": ("u2", None, {"valid_max": np.uint16(40)}),
    "both": ("i8", None, {"valid_min": np.int64(-20), "valid_max": np.int64(30)}),
    "range_goes_first": ("i4", None, {"valid_range": np.array([-50, 50], "i4"), "valid_min": np.int32(-20), "valid_max": np.int32(30)}),
    "three_numbers": ("i4", None, {"valid_range": np.array([-50, 0, 50], "i4"), "valid_min": np.int32(-20)}),
    "packed": ("i2", -90, {"valid_range": np.array([-20, 30], "i2"), "scale_factor": 0.01, "add_offset": 273.15}),
    "missing_too": ("i2", None, {"valid_max": np.int16(30), "missing_value": np.int16(7)}),
    "nan": ("f4", np.nan, {"valid_min": np.float32(-20)}),
    "nan_bound": ("f4", None, {"valid_min": np.float32(np.nan), "valid_max": np.float32(30)}),
    "unsigned": ("i1", i1(-1)[0], {"_Unsigned": "true", "valid_range": i1(10, -56)}),  # 10 to 200
    "byte": ("i1", None, {"valid_min": i1(-20)[0]}),
    "byte_unsigned": ("u1", None, {"valid_max": np.uint8(200)}),
    "text": ("i4", None, {"valid_min": "-20"}),
    "everything_out": ("f4", None, {"valid_range": np.array([1000, 2000], "f4")}),
    "u8": ("u8", None, {"valid_range": np.array([2**63, 2**63 + 50], "u8")}),
}  # fmt: skip


def test_values_outside_of_the_valid_range_are_missing(tmp_path):
    path = tmp_path / "f.nc"
    rng = np.random.default_rng(8)
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", 300)
        file.createDimension("station", 3)
        for name, (dtype, fill, attributes) in RANGES.items():
            variable = file.createVariable(name, dtype, ("time", "station"), fill_value=fill, zlib=True)
            variable.set_auto_maskandscale(False)
            variable.setncatts(attributes)
            values = rng.integers(-100, 100, (300, 3))
            if dtype[0] == "u":
                values = np.abs(values).astype(dtype) + np.dtype(dtype).type({"u1": 100, "u2": 0, "u8": 2**63 - 50}[dtype])
            values = values.astype(dtype)
            if name == "nan":
                values[::7] = np.nan
            variable[...] = values
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="") as ds:
        assert len(ds) == 300
        got, table = ds.read(), pa.table(ds)
        outputs = {"row": fb.sample_index()} | {name: fb.col(name).fill_null(0) for name in RANGES if can_miss(ds.schema[name])}
        counted = 0
        for name in RANGES:
            with pytest.warns() if name.startswith(("inexact", "text")) else contextlib.nullcontext():
                want = file[name][...]
            assert_masked(got[name], want, name, close=name == "packed")
            counted += int(np.ma.getmaskarray(want).sum())
            assert table[name].combine_chunks().flatten().null_count == masked(want)[1].sum() or name == "nan"
        assert counted > 3000 and {"packed", "byte", "u8"} <= set(outputs)
        with ds.loader(outputs, batch_size=64, shuffle=True, framework="numpy") as loader:
            for batch in loader:
                for name in outputs:
                    if name != "row":
                        values, missing = (part[batch["row"]] for part in masked(got[name]))
                        assert np.array_equal(np.asarray(batch[name]), np.where(missing, 0, values)), name
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="", stored_values=True) as ds:
        file.set_auto_maskandscale(False)
        for name, values in ds.read().items():
            files.assert_same(values, file[name][...], name)


def test_the_loader_and_arrow_see_the_same_missing_values(tmp_path):
    path = tmp_path / "f.nc"
    made = write(path)
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="") as ds:
        table = pa.table(ds)
        want = {name: masked(file[name][...]) for name, _ in made}
        outputs = {"row": fb.sample_index()}
        for name, _ in made:
            outputs[name] = fb.col(name).fill_null(0) if can_miss(ds.schema[name]) else fb.col(name)
        got = ds.read()
        with ds.loader(outputs, batch_size=11, shuffle=True, framework="numpy") as loader:
            for batch in loader:
                rows = batch["row"]
                for name, _ in made:
                    values, missing = masked(got[name])
                    there = ~missing[rows]
                    assert np.array_equal(np.asarray(batch[name])[there], values[rows][there]), name
                    assert not np.asarray(batch[name])[~there].astype("f8").any(), f"{name}: a missing value is not filled"
        for name, _ in made:
            column = table.column(name).combine_chunks()
            while pa.types.is_fixed_size_list(column.type):
                column = column.flatten()
            assert column.null_count == int(want[name][1].sum()) or name == "filled_nan", name


def test_stored_values_are_what_the_file_holds(tmp_path):
    path = tmp_path / "f.nc"
    made = write(path)
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="", stored_values=True) as ds:
        file.set_auto_maskandscale(False)
        got = ds.read()
        for name, _ in made:
            files.assert_same(got[name], file[name][...], name)
            files.assert_same(ds.read("/" + name), file[name][...], name)


def test_groups_and_a_scalar_variable(tmp_path):
    path = tmp_path / "f.nc"
    write(path)
    with netCDF4.Dataset(path, "a") as file:
        group = file.createGroup("model").createGroup("run")
        group.createDimension("level", 3)
        inner = group.createVariable("t", "f4", ("time", "level"))
        inner[:] = np.arange(150).reshape(50, 3)
        scalar = file.createVariable("crs", "i4", ())
        scalar.grid_mapping_name = "latitude_longitude"
    with netCDF4.Dataset(path) as file, fb.open(path, cache_dir="") as ds:
        contents = ds.contents()
        assert contents["/model/run/t"].dimensions == ("time", "level") and contents["/model/run/t"].direct
        files.assert_same(ds.read("model/run/t")["model/run/t"], np.asarray(file["model/run/t"][...]), "t")
        assert contents["/crs"].attributes["grid_mapping_name"] == "latitude_longitude"


def test_rows_along_a_named_dimension(tmp_path):
    path = tmp_path / "f.nc"
    made = write(path)
    with netCDF4.Dataset(path) as file, fb.open(path, axis="station", cache_dir="") as ds:
        assert len(ds) == 7
        got = ds.read()
        for name, close in made:
            if file[name].dimensions == ("time", "station"):
                assert_masked(got[name], np.ma.transpose(file[name][...]), name, close)
            else:
                assert name not in got
    with pytest.raises(fb.Error, match="nowhere"):
        fb.open(path, axis="nowhere", cache_dir="")
