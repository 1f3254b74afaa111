"""Write the golden files of tests/format/test_h5_tree.c and test_h5_heap.c, with h5py, and what h5py finds in them.

    python make_hdf5_tree_golden.py [folder]

Beside each file is a text of the same name: a line for each link, as "<path> <kind> <attribute> <attribute> …", where kind is
group, dataset, type, alias (another link to an object of a line above), or none (it leads to nothing of this file).
"""
import os
import sys

import h5py
import numpy as np

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "hdf5_tree")
os.makedirs(folder, exist_ok=True)
KINDS = {h5py.Group: "group", h5py.Dataset: "dataset", h5py.Datatype: "type"}


def describe(f):
    lines, seen = [], set()

    def visit(path, group, name):
        link = group.get(name, getlink=True) if group is not None else None
        obj = f if group is None else None
        if isinstance(link, (h5py.HardLink, h5py.SoftLink)):
            try:
                obj = group[name]
            except (KeyError, OSError, RuntimeError):  # nothing there, another file, a loop
                pass
        if obj is None:
            lines.append(path + " none")
            return
        key = h5py.h5o.get_info(obj.id).addr
        if isinstance(link, h5py.SoftLink) or key in seen:
            lines.append(path + " alias")
            return
        seen.add(key)
        kind = KINDS[type(obj)] if group is not None else "group"
        lines.append(" ".join([path, kind] + sorted(obj.attrs)))
        if kind == "group":
            for child in obj:
                visit(path.rstrip("/") + "/" + child, obj, child)

    visit("/", None, None)
    return sorted(lines)


def create(path, libver, order=False, userblock=0):
    fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    if order:
        fcpl.set_link_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
        fcpl.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    if userblock:
        fcpl.set_userblock(userblock)
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    low = {"earliest": h5py.h5f.LIBVER_EARLIEST, "latest": h5py.h5f.LIBVER_LATEST}[libver]
    fapl.set_libver_bounds(low, h5py.h5f.LIBVER_LATEST)
    fapl.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    return h5py.File(h5py.h5f.create(path.encode(), h5py.h5f.ACC_TRUNC, fcpl, fapl))


def write(name, fill, **kw):
    path = os.path.join(folder, name + ".h5")
    with create(path, **kw) as f:
        fill(f)
    with h5py.File(path, "r") as f, open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as out:
        out.write("".join(line + "\n" for line in describe(f)))


def many_links(n):
    def fill(f):
        one = f.create_dataset("0", data=np.int8(1))
        for i in range(n):
            f["link%d" % (i * 7919 % 1000)] = one
    return fill


def links(f):
    a = f.create_group("a")
    b = a.create_group("b")
    c = b.create_group("c")
    c.create_dataset("x", data=np.arange(3, dtype="i4")).attrs["unit"] = "m"
    c.attrs["n"] = 1
    f["type"] = np.dtype("f8")
    a["to_self"] = h5py.SoftLink("/a")
    c["zz_up"] = f["a"]  # a cycle of hard links
    c["zz_root"] = f["/"]
    f["z_other_name"] = c["x"]
    f["z_other_group"] = b
    f["soft_absolute"] = h5py.SoftLink("/a/b/c/x")
    a["soft_relative"] = h5py.SoftLink("b/./c/x")
    a["soft_of_soft"] = h5py.SoftLink("/soft_absolute")
    a["soft_through_soft"] = h5py.SoftLink("/a/to_self/b//c")
    a["soft_dangling"] = h5py.SoftLink("/nothing/here")
    a["soft_up"] = h5py.SoftLink("../type")
    a["loop1"] = h5py.SoftLink("loop2")
    a["loop2"] = h5py.SoftLink("loop1")
    f["external"] = h5py.ExternalLink("other.h5", "/x")
    f["through_external"] = h5py.SoftLink("/external/y")
    for i in range(20):  # the first are too long to be followed
        f["chain%02d" % i] = h5py.SoftLink("chain%02d" % (i + 1))
    f["chain20"] = h5py.SoftLink("/a/b")


def attributes(f):
    few = f.create_group("few")
    few.attrs["only"] = 1.5
    for name, order in (("by_name", False), ("by_order", True)):
        d = f.create_dataset(name, data=np.zeros(2), track_order=order)
        for i in range(30):
            d.attrs["attribute%d" % (i * 7 % 30)] = np.arange(i, dtype="i2")
    # An attribute above 4 KB lies outside the heap's blocks.
    f["by_name"].attrs["huge"] = np.zeros(5000, dtype="u1")
    f["by_name"].attrs["texts"] = ["one", "two and more"]


def values(f):
    """Variable-length strings in several collections: the test states them by formula."""
    f.create_dataset("text", data=["s%d" % i * (i % 9) for i in range(400)], dtype=h5py.string_dtype())
    f.create_dataset("long", data=["x" * 5000, "", "end"], dtype=h5py.string_dtype())
    f.create_dataset("list", (20,), dtype=h5py.vlen_dtype(np.int16))
    for i in range(20):
        f["list"][i] = np.arange(i, dtype="i2") * 3


write("many_old", many_links(300), libver="earliest")  # a B-tree of two levels
write("many_new", many_links(500), libver="latest")  # B-tree 2 of two levels, a heap of several blocks
write("many_ordered", many_links(100), libver="latest", order=True)
write("links_old", links, libver="earliest", userblock=512)
write("links_new", links, libver="latest")
write("attributes", attributes, libver="latest")
write("values", values, libver="earliest")
total = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
assert total < 160_000, total
