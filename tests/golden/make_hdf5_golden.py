"""Write the golden files of tests/format/test_h5_object.c and test_h5_datatype.c, with h5py. The tests state what is in them.

    python make_hdf5_golden.py [folder]

Each file is below 20 KB. Names say what is special: earliest and latest are libhdf5's bounds of the file format, which decide the
versions of superblock, object headers and messages.
"""
import ctypes
import os
import sys

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5p, h5s, h5t

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "hdf5")
os.makedirs(folder, exist_ok=True)
BOUNDS = {"earliest": ("earliest", "v108"), "latest": ("latest", "latest")}


def path_of(name):
    return os.path.join(folder, name + ".h5")


def low_level(parent, name, tid, data=None, shape=None, dcpl=None, maxshape=None):
    """A data set of a type that NumPy does not have; data are its bytes."""
    shape = shape if shape is not None else (len(data) // tid.get_size(),)
    space = h5s.create_simple(shape, maxshape) if shape != () else h5s.create(h5s.SCALAR)
    d = h5d.create(parent.id, name.encode(), tid, space, dcpl)
    if data is not None:
        d.write(h5s.ALL, h5s.ALL, np.frombuffer(data, dtype=np.void(tid.get_size()).dtype).reshape(shape), tid)
    return d


def integer(base, precision, offset):
    t = base.copy()
    t.set_precision(precision)
    t.set_offset(offset)
    return t


def sized(base, size):
    t = base.copy()
    t.set_precision(size * 8)
    t.set_size(size)
    return t


def types(bound):
    with h5py.File(path_of("types_" + bound), "w", libver=BOUNDS[bound]) as f:
        ints = np.arange(-3, 5)
        for code in ("i1", "u1", "<i2", ">i2", "<u4", ">i4", ">u4", "<i8", ">i8", ">u8"):
            f.create_dataset(code.replace("<", "le_").replace(">", "be_"), data=(ints * 3).astype(code))
        for code in ("<f2", ">f2", "<f4", ">f4", "<f8", ">f8"):
            f.create_dataset(code.replace("<", "le_").replace(">", "be_"), data=(ints * 0.5).astype(code))
        low_level(f, "int24", sized(h5t.STD_I32LE, 3), b"".join(int(v * 70000).to_bytes(3, "little", signed=True) for v in ints))
        low_level(f, "be_uint40", sized(h5t.STD_U64BE, 5), b"".join(int((v + 3) << 33).to_bytes(5, "big") for v in ints))
        low_level(f, "be_int12_at_4", integer(h5t.STD_I16BE, 12, 4), b"".join(int(v * 16).to_bytes(2, "big", signed=True) for v in ints))
        low_level(f, "uint20_at_7", integer(h5t.STD_U32LE, 20, 7), b"".join(int((v + 3) << 7).to_bytes(4, "little") for v in ints))
        low_level(f, "bitfield16", h5t.STD_B16LE, b"\x01\x02\xff\xff")
        bfloat = h5t.IEEE_F32LE.copy()
        bfloat.set_fields(15, 7, 8, 0, 7)
        bfloat.set_precision(16)
        bfloat.set_size(2)
        bfloat.set_ebias(127)
        low_level(f, "bfloat16", bfloat, b"\x80\x3f\x00\xc0")  # 1, -2
        f.create_dataset("bool", data=np.array([True, False, True]))
        f.create_dataset("enum", data=np.array([7, -1], "i2"), dtype=h5py.enum_dtype({"RED": -1, "GREEN": 300, "BLUE": 7}, "i2"))
        low_level(f, "opaque", h5t.create(h5t.OPAQUE, 5), b"abcdefghij")
        tagged = h5t.create(h5t.OPAQUE, 3)
        tagged.set_tag(b"a tag")
        low_level(f, "tagged", tagged, b"xyz")
        low_level(f, "time", h5t.UNIX_D32LE.copy(), shape=(2,))
        f.create_dataset("text7", data=np.array([b"seven", b"7"], "S7"))
        space_padded = h5t.FORTRAN_S1.copy()
        space_padded.set_size(4)
        low_level(f, "fortran", space_padded, b"ab  ")
        utf8 = h5t.C_S1.copy()
        utf8.set_size(6)
        utf8.set_cset(h5t.CSET_UTF8)
        low_level(f, "utf8", utf8, "grün\0".encode())
    with h5py.File(path_of("parts_" + bound), "w", libver=BOUNDS[bound]) as f:
        f.create_dataset("strings", data=["one", "zwei", ""], dtype=h5py.string_dtype())
        f.create_dataset("strings_ascii", data=["a"], dtype=h5py.string_dtype("ascii"))
        ragged = f.create_dataset("ragged", (2,), h5py.vlen_dtype(np.dtype(">f4")))
        ragged[0] = [1, 2, 3]
        f.create_dataset("complex", data=np.array([1 + 2j, 3 - 4j], "c8"))
        inner = np.dtype([("u", "u1"), ("v", ">f8", (2, 3))])
        outer = np.dtype({"names": ["a", "long name of a member", "s"], "formats": ["<i4", inner, "S3"], "offsets": [4, 16, 300], "itemsize": 320})
        f.create_dataset("compound", data=np.zeros(2, outer))
        f.create_dataset("flat_compound", data=np.array([(1, 2.5)], [("i", "<i2"), ("x", "<f4")]))
        low_level(f, "array", h5t.array_create(h5t.STD_I16BE, (4, 2)), shape=(3,))
        low_level(f, "array_of_strings", h5t.array_create(h5t.py_create(h5py.string_dtype(), logical=True), (2,)), shape=(3,))
        f.create_dataset("reference", (2,), h5py.ref_dtype)
        f.create_dataset("region", (2,), h5py.regionref_dtype)
        low_level(f, "x86_extended", h5t.NATIVE_LDOUBLE, shape=(2,))
        f.create_dataset("null", data=h5py.Empty("f4"))


def objects(bound, **kw):
    """Layouts, filters, fill values, shapes, links, attributes."""
    name = "objects_" + bound + ("_user_block" if "userblock_size" in kw else "")
    with h5py.File(path_of(name), "w", libver=BOUNDS[bound], **kw) as f:
        f.attrs["title"] = "objects"
        f.attrs["b"] = np.arange(6, dtype="<i4").reshape(2, 3)
        f.attrs["a"] = 1.5
        f.attrs["empty"] = h5py.Empty("i2")
        f.create_dataset("scalar", data=np.float64(2.5))
        f.create_dataset("contiguous", data=np.arange(12, dtype="<i2").reshape(3, 4))
        f.create_dataset("never_written", (5, 0), "f4")
        f.create_dataset("late", (7,), "f4", fillvalue=-1.5)
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_layout(h5d.COMPACT)
        low_level(f, "compact", h5t.STD_U8LE, b"compact!", dcpl=dcpl)
        f.create_dataset("chunked", data=np.arange(24, dtype="<f4").reshape(4, 6), chunks=(4, 6), compression=4, shuffle=True,
                         fletcher32=True, fillvalue=9)
        f.create_dataset("growing", data=np.arange(6, dtype="<i8"), chunks=(4,), maxshape=(None,), compression="lzf")
        if bound == "latest":
            f.create_dataset("fixed_array", data=np.arange(5, dtype="<i2"), chunks=(2,))
            f.create_dataset("btree2", (2, 2), "<i2", chunks=(1, 2), maxshape=(None, None))
            early = h5p.create(h5p.DATASET_CREATE)
            early.set_chunk((2,))
            early.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            low_level(f, "implicit", h5t.STD_I16LE, shape=(4,), dcpl=early)
        g = f.create_group("group")
        g["hard"] = f["contiguous"]
        g["soft"] = h5py.SoftLink("/contiguous")
        g["external"] = h5py.ExternalLink("other.h5", "/x")
        g.create_group("below").attrs["k"] = b"v"


def declined():
    with h5py.File(path_of("declined"), "w", libver="latest") as f:
        layout = h5py.VirtualLayout((4,), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (4,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("external", (4,), "f4", external=[("raw.bin", 0, 16)])
        f.create_dataset("fine", data=np.arange(3))


def attributes():
    """8 attributes are the most that an object header holds."""
    with h5py.File(path_of("dense"), "w", libver="latest") as f:
        for i in range(30):
            f.attrs["attribute_%02d" % (i * 7 % 30)] = i
    with h5py.File(path_of("track_order"), "w", libver="latest", track_order=True) as f:
        for i in range(20):
            f.attrs["attribute_%02d" % (i * 7 % 20)] = i
        d = f.create_dataset("x", data=np.arange(3), track_order=True)
        for name in ("z", "y", "a"):
            d.attrs[name] = name
    with h5py.File(path_of("many_earliest"), "w", libver=BOUNDS["earliest"]) as f:
        for i in range(20):  # several continuations
            f.attrs["attribute_%02d" % (i * 7 % 20)] = "value %d" % i
            f.create_dataset("x%02d" % i, data=[i]) if i % 8 == 0 else None


def committed(bound):
    with h5py.File(path_of("committed_" + bound), "w", libver=BOUNDS[bound]) as f:
        f["point"] = np.dtype([("x", "<f8"), ("y", "<f8")])
        f["real"] = np.dtype(">f4")
        f.create_dataset("points", (3,), f["point"])
        d = f.create_dataset("plain", data=np.arange(3))
        d.attrs.create("unit", np.array([1, 2]), dtype=f["real"])
        f["real"].attrs["note"] = "attributes of a type"


def shared_heap():
    """Messages in the file's shared message heap. h5py does not have the property: the library it has loaded does."""
    with open("/proc/self/maps") as maps:
        lib = ctypes.CDLL(next(line.split()[-1] for line in maps if "libhdf5-" in line or "libhdf5." in line))
    fcpl = h5p.create(h5p.FILE_CREATE)
    every = 1 << 1 | 1 << 3 | 1 << 5 | 1 << 11 | 1 << 12  # dataspace, datatype, fill value, filters, attribute
    lib.H5Pset_shared_mesg_nindexes.argtypes = [ctypes.c_int64, ctypes.c_uint]
    lib.H5Pset_shared_mesg_index.argtypes = [ctypes.c_int64, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint]
    assert lib.H5Pset_shared_mesg_nindexes(fcpl.id, 1) == 0 and lib.H5Pset_shared_mesg_index(fcpl.id, 0, every, 16) == 0
    lib.H5Pset_istore_k.argtypes = [ctypes.c_int64, ctypes.c_uint]
    lib.H5Pset_sym_k.argtypes = [ctypes.c_int64, ctypes.c_uint, ctypes.c_uint]
    assert lib.H5Pset_istore_k(fcpl.id, 40) == 0 and lib.H5Pset_sym_k(fcpl.id, 20, 6) == 0
    fapl = h5p.create(h5p.FILE_ACCESS)
    fapl.set_libver_bounds(h5f.LIBVER_LATEST, h5f.LIBVER_LATEST)
    f = h5py.File(h5f.create(path_of("shared_heap").encode(), h5f.ACC_TRUNC, fcpl, fapl))
    for name in ("a", "b"):
        d = f.create_dataset(name, data=np.zeros((2, 2), [("x", "<f8"), ("y", "<i4")]), fillvalue=None)
        d.attrs["long"] = np.arange(10)
    f.create_dataset("small", data=np.int8(1))
    f.close()


def drivers():
    for bound in BOUNDS:
        member = os.path.join(folder, "family_" + bound + "_%d.h5")
        with h5py.File(member, "w", driver="family", memb_size=16384, libver=BOUNDS[bound]) as f:
            f["x"] = [1, 2, 3]
    with h5py.File(path_of("swmr"), "w", libver="latest") as f:
        f.create_dataset("x", data=np.arange(4), chunks=(4,), maxshape=(None,))
        f.swmr_mode = True
        f.flush()
        with open(path_of("swmr"), "rb") as written:
            image = written.read()
    with open(path_of("swmr"), "wb") as copy:  # as it is while it is being written
        copy.write(image)
    fcpl = h5p.create(h5p.FILE_CREATE)
    fcpl.set_sizes(4, 4)
    f = h5py.File(h5f.create(path_of("sizes_of_4").encode(), h5f.ACC_TRUNC, fcpl))
    f.create_dataset("x", data=np.arange(10, dtype="<i4"), chunks=(5,), maxshape=(None,))
    f["x"].attrs["ragged"] = np.array(["a", "bc"], h5py.string_dtype())
    f.close()


for b in BOUNDS:
    types(b)
    objects(b)
    committed(b)
objects("latest", userblock_size=1024)
objects("earliest", userblock_size=512)
declined()
attributes()
shared_heap()
drivers()
sizes = {n: os.path.getsize(os.path.join(folder, n)) for n in sorted(os.listdir(folder))}
print(sizes, sum(sizes.values()))
assert max(sizes.values()) < 20 << 10 and sum(sizes.values()) < 200 << 10
