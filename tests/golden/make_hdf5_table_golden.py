"""Make the small HDF5 and NetCDF-4 files of tests/golden/hdf5_table, which are read as tables. Needs h5py and netCDF4.

    python tests/golden/make_hdf5_table_golden.py
"""

import pathlib

import h5py
import netCDF4
import numpy as np

OUT = pathlib.Path(__file__).parent / "hdf5_table"
LIMIT_BYTES = 200 * 1024


def new(name, **options):
    return h5py.File(OUT / name, "w", **options)


def tables():
    """Three tables, one of them in a group of its own, and what is no column of any."""
    with new("tables.h5") as f:
        g = f.create_group("events")
        g.create_dataset("x", data=np.arange(100, dtype="f4"), chunks=(10,), compression="gzip", shuffle=True)
        g.create_dataset("image", data=np.arange(1200, dtype="f8").reshape(100, 3, 4))
        g["image"].dims[2].label = "column"
        g.create_dataset("id", data=np.arange(100, dtype=">i8"), chunks=(30,), fletcher32=True)
        g.create_dataset("flag", data=np.arange(100) % 2 == 0)
        g["x"].attrs["units"] = "GeV"
        f["hits/e"] = np.arange(7, dtype="f4")
        f["hits/t"] = np.arange(7, dtype="i4")
        f["hits/deep/w"] = np.arange(100, dtype="u1")
        f["hits/deep/pair"] = np.zeros((3, 2), "u2")
        f["alone"] = np.zeros((2, 2), "i1")
        f["scalar"] = 1.5
        f["null"] = h5py.Empty("f4")
        f["none"] = np.zeros((0,), "f4")
        f["flat"] = np.zeros((100, 0), "f4")
        f["linked"] = f["events"]
        f["soft"] = h5py.SoftLink("/hits")
        f["broken"] = h5py.SoftLink("/nowhere")


def types():
    n = 6
    with new("types.h5") as f:
        f["enum"] = np.arange(n, dtype=h5py.enum_dtype({"A": 0, "B": 300}, basetype="i2"))
        f["half"] = np.arange(n, dtype="f2")
        f["text"] = np.array([b"a", b"bc"] * 3, "S5")
        f.create_dataset("words", data=["v", "wx", "", "y", "zzz", "q"], dtype=h5py.string_dtype())
        f.create_dataset("lists", (n,), dtype=h5py.vlen_dtype("f8"))
        f["lists"][0] = [1.0, 2.0]
        f["opaque"] = np.zeros(n, "V7")
        f["complex"] = np.zeros(n, "c8")
        inner = np.dtype([("a", "<i2"), ("b", ">f8", (2, 3))])
        nested = [("id", "u4"), ("in", inner), ("s", "S3"), ("r", h5py.ref_dtype), ("ins", inner, (2,))]
        f.create_dataset("nested", (n,), np.dtype(nested))
        f["array"] = np.zeros((n, 2), "i4")
        t = h5py.h5t.array_create(h5py.h5t.STD_I16BE, (4, 5))
        h5py.h5d.create(f.id, b"packed", t, h5py.h5s.create_simple((n,)))
        h5py.h5d.create(f.id, b"bits", h5py.h5t.STD_B16LE, h5py.h5s.create_simple((n,)))
        h5py.h5d.create(f.id, b"time", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((n,)))
        f.create_dataset("ref", data=np.array([f["half"].ref] * n, h5py.ref_dtype), dtype=h5py.ref_dtype)
        f["long"] = np.zeros(n, "g")
        compounds = h5py.h5t.vlen_create(h5py.h5t.py_create(np.dtype([("a", "i4")])))
        h5py.h5d.create(f.id, b"records", compounds, h5py.h5s.create_simple((n,)))
        h5py.h5d.create(f.id, "caf\u00e9".encode(), h5py.h5t.STD_I8LE, h5py.h5s.create_simple((n,)))
        h5py.h5d.create(f.id, b"caf\xe9", h5py.h5t.STD_I8LE, h5py.h5s.create_simple((n,)))


def cells():
    with new("cells.h5") as f:
        f.create_dataset("v", data=np.arange(72, dtype="f4").reshape(4, 3, 6), chunks=(1, 3, 6))
        f.create_dataset("w", data=np.arange(360, dtype="i2").reshape(4, 3, 6, 5), chunks=(2, 2, 4, 5), compression="gzip")
        f["t"] = np.arange(4, dtype="f8")
        f["ty"] = np.arange(12, dtype="i4").reshape(4, 3)
        f["y"] = np.arange(3, dtype="f8")
        f["four"] = np.arange(4, dtype="u1")
        for name, labels in {"v": "tyx", "t": "t", "ty": "ty", "four": "q"}.items():
            for i, label in enumerate(labels):
                f[name].dims[i].label = label


def netcdf():
    with netCDF4.Dataset(OUT / "station.nc", "w") as f:
        f.createDimension("time", None)
        f.createDimension("station", 3)
        f.createDimension("nv", 2)
        time = f.createVariable("time", "i4", ("time",))
        time.units = "days since 1970-01-01"
        time[:] = np.arange(5)
        t = f.createVariable("t2m", "i2", ("station", "time"), fill_value=-32768)
        t.scale_factor, t.add_offset, t.units = np.float32(0.01), np.float32(273.15), "K"
        t.missing_value = np.array([-999, -32768], "i2")
        t.set_auto_maskandscale(False)
        t[:] = np.arange(15).reshape(3, 5)
        q = f.createVariable("flow", "f4", ("time", "station"), fill_value=np.float32(np.nan))
        q.missing_value = -9999.0
        q[:] = 1
        b = f.createVariable("byte", "i1", ("time",), fill_value=np.int8(-1))
        b.setncattr("_Unsigned", "true")
        b.set_auto_maskandscale(False)
        b[:] = np.arange(5)
        w = f.createVariable("wide", "i4", ("time", "nv"))
        w.scale_factor = np.float32(2)
        d = f.createVariable("double", "i2", ("time",))
        d.scale_factor, d.add_offset = 0.5, np.float32(1)
        one = f.createVariable("one", "i2", ("time",))
        one.scale_factor = np.float32(1)
        n = f.createVariable("name", str, ("station",))
        n[:] = np.array(["a", "bb", "ccc"], object)
        # A coordinate of two dimensions: its dimensions are known by number alone.
        g = f.createVariable("station", "f8", ("station", "nv"))
        g[:] = 0
        many = f.createVariable("many", "i2", ("time",))
        many.missing_value = np.arange(9, dtype="i2")
        odd = f.createVariable("odd", "u1", ("time",))
        odd.units = "\u00b0C"
    with h5py.File(OUT / "station.nc", "r+") as f:
        f["odd"].attrs["missing_value"] = np.int32(-1)  # no value of uint8; netCDF4 would not write it


def blocks():
    """Few bytes, many rows: chunks that were never written."""
    with new("blocks.h5") as f:
        d = f.create_dataset("x", (100000, 25), "f4", chunks=(1000, 25), compression="gzip")
        d[0] = 1
        d[50000] = 1
        f.create_dataset("label", (100000,), "i2", chunks=(9000,))[0] = 1
        f.create_dataset("whole", (100000,), "u1", chunks=(100000,))
        f.create_dataset("plain", (100000,), "f4")
        f.create_dataset("tiny/forcing", (20000, 5), "f4", chunks=(1, 5))[3] = 1
        f.create_dataset("wide/y", (3, 1000, 7), "f4", chunks=(1, 300, 4))[0, 0, 0] = 1


def elsewhere():
    """What only libhdf5 reads."""
    with new("elsewhere.h5") as f:
        f["here"] = np.arange(8, dtype="i4")
        f.create_dataset("external", (8,), "f8", external=[("elsewhere.raw", 0, 64)])
        layout = h5py.VirtualLayout((8,), "i4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (8,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("scaled", data=np.arange(8), chunks=(4,), scaleoffset=0)
    with new("only_virtual.h5") as f:
        layout = h5py.VirtualLayout((8,), "i4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (8,))
        f.create_virtual_dataset("virtual", layout)


def small():
    with new("user_block.h5", userblock_size=1024, libver="latest") as f:
        f.create_dataset("x", data=np.arange(50, dtype="f4"), chunks=(10,))
        f["y"] = np.arange(50, dtype="i2")
    with new("empty.h5") as f:
        f.create_dataset("a", (0, 3), "f4", maxshape=(None, 3))
        f.create_dataset("b", (0,), "i4", maxshape=(None,))
    with new("nothing.h5") as f:
        f["scalar"] = 1


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for make in (tables, types, cells, netcdf, blocks, elsewhere, small):
        make()
    total = sum(p.stat().st_size for p in OUT.iterdir())
    print(f"{total} bytes")
    assert total < LIMIT_BYTES
