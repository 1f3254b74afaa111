"""Write the golden files of tests/format/test_h5_helper.c, with h5py. The test states the same values by formula.

    python make_hdf5_helper_golden.py [folder]

What only libhdf5 reads: lossy filters, virtual and external data, sequences, references; and a little of everything else, to see
that it is described as our own parser would.
"""
import os
import sys

import h5py
import numpy as np

try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "hdf5_helper")
os.makedirs(folder, exist_ok=True)
os.chdir(folder)
LIBVER = ("earliest", "v110")  # as old as can be: libhdf5 1.10 is the oldest that the helper program is built with


def low_level(group, name, type_id, shape, chunk=None, nbit=False):
    """A data set of a type, or with a filter, that NumPy and h5py's upper half have no word for."""
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunk:
        dcpl.set_chunk(chunk)
    if nbit:
        dcpl.set_filter(h5py.h5z.FILTER_NBIT, 0)
    return h5py.h5d.create(group.id, name.encode(), type_id, h5py.h5s.create_simple(shape), dcpl)


with h5py.File("types.h5", "w", libver=LIBVER) as f:
    i = np.arange(40)
    f.create_dataset("filters/scale_offset_int", data=(1000 + i).astype("i4"), chunks=(16,), scaleoffset=True)
    f.create_dataset("filters/scale_offset_float", data=(i * 0.25).astype("f8"), chunks=(16,), scaleoffset=2)
    twelve = h5py.h5t.STD_I16BE.copy()
    twelve.set_precision(12)
    d = low_level(f["filters"], "nbit", twelve, (40,), (10,), nbit=True)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, (i * 50 - 1000).astype("i4"))

    n = f.create_group("numbers")
    n["int16_be"] = (i * 100 - 500).astype(">i2").reshape(8, 5)
    n["float16"] = (i * 0.5).astype("f2")
    n["flag"] = i % 3 == 0
    n.create_dataset("color", data=i % 4, dtype=h5py.enum_dtype({"red": 0, "green": 1, "blue": 2}, basetype=">i2"))
    bits = low_level(n, "bits", h5py.h5t.STD_B16BE, (40,))
    bits.write(h5py.h5s.ALL, h5py.h5s.ALL, (i * 3).astype("u2"), h5py.h5t.STD_B16LE)
    n.create_dataset("vectors", shape=(40,), dtype=np.dtype((">f4", 3))).id.write(
        h5py.h5s.ALL, h5py.h5s.ALL, (np.arange(120) * 0.5).astype("f4"), h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (3,)))
    n["scalar"] = np.float64(2.5)
    n.create_dataset("nothing", data=h5py.Empty("f4"))
    n.create_dataset("none", shape=(0, 3), maxshape=(None, 3), dtype="f4")
    n.create_dataset("unwritten", shape=(6,), dtype="i4", fillvalue=-7, chunks=(4,))

    c = np.zeros(10, dtype=np.dtype([("a", ">i2"), ("b", "<f8"), ("c", "S3")], align=True))
    c["a"], c["b"], c["c"] = np.arange(10) - 3, np.arange(10) * 1.5, [b"x%d" % k for k in range(10)]
    f["compound"] = c

    t = f.create_group("text")
    t["fixed"] = np.array([b"w%d" % (k * k) for k in range(12)], dtype="S6").reshape(3, 4)
    t.create_dataset("variable", data=["é" * (k % 4) + str(k) for k in range(12)], dtype=h5py.string_dtype())
    pair = np.dtype([("k", "<i4"), ("v", ">f4")])
    s = f.create_dataset("sequences", shape=(5,), dtype=h5py.vlen_dtype(pair))
    for k in range(5):
        s[k] = np.array([(k, j * 0.5) for j in range(k)], dtype=pair)
    r = f.create_dataset("references", shape=(4,), dtype=h5py.ref_dtype)
    r[0], r[1], r[3] = f["numbers/flag"].ref, f["text"].ref, f["compound"].ref
    r = f.create_dataset("regions", shape=(2,), dtype=h5py.regionref_dtype)
    r[0] = f["numbers/int16_be"].regionref[2:4, 1:3]
    f["opaque"] = np.arange(6, dtype="u4").view(np.dtype("V4"))

    a = f["numbers/float16"].attrs
    a["units"] = "m/s"
    a["words"] = np.array(["one", "", "three"], dtype=h5py.string_dtype())
    a.create("range", [-1.5, 4.0], dtype=">f4")
    a["color"] = np.array([2, 1], dtype=h5py.enum_dtype({"red": 0, "green": 1, "blue": 2}, basetype="i1"))
    a["points_at"] = f["text"].ref
    a["empty"] = h5py.Empty("i4")
    f.attrs["title"] = np.bytes_(b"golden")

    f["numbers/again"] = f["numbers/flag"]       # a second name
    f["numbers/up"] = f["/"]                     # a cycle
    f["a_soft"] = h5py.SoftLink("/text/fixed")   # before what it leads to
    f["b_soft"] = h5py.SoftLink("/nowhere")
    f["other"] = h5py.ExternalLink("virtual.h5", "/part")
    f["named"] = np.dtype("f4")

for part in range(2):
    with h5py.File(f"part_{part}.h5", "w", libver=LIBVER) as f:
        f["x"] = np.arange(20, dtype="i4").reshape(4, 5) + 100 * part
with h5py.File("virtual.h5", "w", libver=LIBVER) as f:
    layout = h5py.VirtualLayout(shape=(12, 5), dtype="i4")
    for part in range(2):
        layout[4 * part:4 * part + 4] = h5py.VirtualSource(f"part_{part}.h5", "x", shape=(4, 5))
    f.create_virtual_dataset("all", layout, fillvalue=-1)  # rows 8 to 12: from nowhere

with h5py.File("external.h5", "w", libver=LIBVER) as f:
    # 12 of 20 values in one file, behind 16 bytes of something else; the rest in another.
    f.create_dataset("x", shape=(20,), dtype="<i4", external=[("external_a.bin", 16, 48), ("external_b.bin", 0, 32)])
with open("external_a.bin", "wb") as f:
    f.write(b"#" * 16 + (np.arange(12) * 7).astype("<i4").tobytes())
with open("external_b.bin", "wb") as f:
    f.write((np.arange(12, 20) * 7).astype("<i4").tobytes())

if hdf5plugin:
    with h5py.File("plugin.h5", "w", libver=LIBVER) as f:
        f.create_dataset("x", data=np.arange(64, dtype="f4"), chunks=(64,), compression=hdf5plugin.SZ3(absolute=0.1))

total = sum(os.path.getsize(name) for name in os.listdir("."))
assert total < 150_000, total
print(total, "bytes")
