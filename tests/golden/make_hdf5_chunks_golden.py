"""Make the small HDF5 files of tests/golden/hdf5_chunks, whose chunk indexes are of every kind, and what libhdf5 says of them.

expected.txt has, for each data set, the line
    dataset <file> <name> <address of its object header> <kind> <number of chunks>
and for each of its chunks, sorted, the line
    <row-major number in the grid> <offset in the file> <stored bytes> <filter mask>
Every chunk is checked against the file's bytes: some versions of libhdf5 leave the user block out of the offset, and the
iteration over an extensible array (2.0.0 too) takes the first dimension for the unlimited one, so that it finds every chunk and
names it wrongly; it is then named by its values. Needs h5py.

    python tests/golden/make_hdf5_chunks_golden.py
"""

import pathlib
import zlib

import h5py
import numpy as np

OUT = pathlib.Path(__file__).parent / "hdf5_chunks"
LIMIT_BYTES = 200 * 1024
KINDS = ["btree1", "single", "implicit", "fixed", "extensible", "btree2"]
GZIP = {"compression": "gzip", "compression_opts": 9}


def values(shape, dtype="u1"):
    """Not zero anywhere, and different from chunk to chunk."""
    return (np.arange(int(np.prod(shape))).reshape(shape) % 251 + 1).astype(dtype)


def full(f, name, shape, chunks, **options):
    f.create_dataset(name, data=values(shape, options.pop("dtype", "u1")), chunks=chunks, **options)


def sparse(f, name, shape, chunks, written, **options):
    """Only the chunks that hold the elements `written`, in that order."""
    d = f.create_dataset(name, shape, chunks=chunks, dtype=options.pop("dtype", "u1"), **options)
    for i, at in enumerate(written):
        d[at] = i % 251 + 1


def early(f, name, shape, chunks, maxshape):
    """Space allocated at creation: without filters and unlimited dimensions the index is implicit."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    plist.set_obj_track_times(False)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(shape, maxshape)
    h5py.h5d.create(f.id, name.encode(), h5py.h5t.STD_U8LE, space, plist)
    f[name][...] = values(shape)


def grown_and_shrunk(f, name, **options):
    """Grown twice, then shrunk so that chunks fall away; the last rows are written after that."""
    d = f.create_dataset(name, (10, 6), chunks=(3, 4), dtype="u1", **options)
    d[...] = values((10, 6))
    d.resize((31, 9))
    d[10:] = 7
    d.resize((14, 5))
    d.resize((20, 5))
    d[19] = 9


def masked(f, name, **options):
    """Chunks written as they are, with filters skipped."""
    d = f.create_dataset(name, (24,), chunks=(4,), dtype="u1", shuffle=True, **GZIP, **options)
    d[...] = values((24,))
    d.id.write_direct_chunk((8,), bytes([5, 6, 7, 8]), filter_mask=3)
    d.id.write_direct_chunk((20,), zlib.compress(bytes([5, 6, 7, 8])), filter_mask=1)


def btree1(f):
    full(f, "plain", (10,), (3,), dtype="<i2")
    full(f, "edges", (7, 5), (3, 2), dtype="<f4", shuffle=True, **GZIP)
    full(f, "levels", (100,), (1,))
    full(f, "rank4", (3, 4, 2, 5), (2, 3, 2, 4), fletcher32=True)
    sparse(f, "sparse", (20, 20, 20), (2, 7, 5), [(19, 0, 3), (0, 19, 19), (8, 8, 8), (0, 0, 0)], maxshape=(None, 20, None))
    grown_and_shrunk(f, "resized", maxshape=(None, None))
    masked(f, "masked")
    f.create_dataset("never", (100,), chunks=(10,), dtype="f8")
    f.create_dataset("no_rows", (0, 3), maxshape=(None, 3), chunks=(10, 3), dtype="f8")


def single(f):
    full(f, "plain", (5, 4), (5, 4))
    full(f, "filtered", (100,), (100,), dtype="<i4", shuffle=True, **GZIP)
    f.create_dataset("never", (5, 4), chunks=(5, 4), dtype="u1")


def implicit(f):
    early(f, "plain", (10, 7), (4, 3), (10, 7))
    early(f, "with_room", (5, 4), (4, 3), (9, 20))


def fixed(f):
    full(f, "plain", (7, 5), (3, 2))
    full(f, "filtered", (7, 5), (3, 2), dtype="<f4", **GZIP)
    full(f, "with_room", (7, 5, 2), (3, 2, 1), maxshape=(20, 9, 2))
    sparse(f, "sparse", (30, 30), (3, 4), [(29, 29), (0, 1), (14, 14)], **GZIP)
    sparse(f, "paged", (2060,), (1,), [2059, 5, 2050, 0, 2048, 1023])
    sparse(f, "paged_filtered", (515, 2), (1, 1), [(0, 0), (514, 1), (400, 1), (511, 1)], shuffle=True, **GZIP)
    masked(f, "masked")
    f.create_dataset("never", (100,), chunks=(10,), dtype="f8")


def extensible(f):
    full(f, "plain", (50,), (1,), maxshape=(None,))
    full(f, "axis1", (5, 11, 4), (2, 3, 3), maxshape=(5, None, 9))
    full(f, "axis2", (3, 2, 40), (1, 2, 2), maxshape=(4, 2, None), dtype="<u2", shuffle=True, **GZIP)
    sparse(f, "blocks", (3000,), (1,), [2999, 0, 4, 19, 20, 51, 52, 67, 300, 1500], maxshape=(None,))
    sparse(f, "super_blocks", (20_000,), (1,), [19_999, 3, 70, 140, 9000], maxshape=(None,))
    sparse(f, "paged", (140_000,), (1,), [131_096, 134_500], maxshape=(None,))
    grown_and_shrunk(f, "resized", maxshape=(None, 12), **GZIP)
    masked(f, "masked", maxshape=(None,))
    f.create_dataset("never", (100,), maxshape=(None,), chunks=(10,), dtype="f8")


def btree2(f):
    full(f, "plain", (7, 5), (3, 2), maxshape=(None, None))
    full(f, "filtered", (7, 5), (3, 2), maxshape=(None, None), dtype="<f4", **GZIP)
    full(f, "levels", (15, 20), (1, 1), maxshape=(None, None))
    sparse(f, "sparse", (99, 2, 70), (2, 2, 5), [(98, 1, 69), (0, 0, 0), (50, 0, 3)], maxshape=(None, 2, None), shuffle=True, **GZIP)
    grown_and_shrunk(f, "resized", maxshape=(None, None))
    masked(f, "masked_1d", maxshape=(None,))  # an extensible array: one dimension
    f.create_dataset("never", (9, 9), maxshape=(None, None), chunks=(2, 2), dtype="f8")


def behind_a_user_block(f):
    full(f, "single", (5, 4), (5, 4))
    early(f, "implicit", (10, 7), (4, 3), (10, 7))
    full(f, "fixed", (7, 5), (3, 2))
    full(f, "extensible", (50,), (1,), maxshape=(None,))
    full(f, "btree2", (7, 5), (3, 2), maxshape=(None, None), **GZIP)


def with_short_addresses(f):
    full(f, "single", (5, 4), (5, 4), **GZIP)
    early(f, "implicit", (10, 7), (4, 3), (10, 7))
    full(f, "fixed", (7, 5), (3, 2), **GZIP)
    full(f, "extensible", (50,), (1,), maxshape=(None,))
    full(f, "btree2", (7, 5), (3, 2), maxshape=(None, None), **GZIP)


def decode(d, raw, mask):
    """What the chunk's bytes are without the filters that were applied."""
    names = [d.id.get_create_plist().get_filter(i)[0] for i in range(d.id.get_create_plist().get_nfilters())]
    for i in reversed(range(len(names))):
        if mask >> i & 1:
            continue
        if names[i] == h5py.h5z.FILTER_DEFLATE:
            raw = zlib.decompress(raw)
        elif names[i] == h5py.h5z.FILTER_SHUFFLE and d.dtype.itemsize > 1:
            raw = np.frombuffer(raw, "u1").reshape(d.dtype.itemsize, -1).T.tobytes()
        elif names[i] == h5py.h5z.FILTER_FLETCHER32:
            raw = raw[:-4]
    return np.frombuffer(raw, d.dtype).reshape(d.chunks)


def places_of(d, have):
    """The chunks of the grid that read as `have`."""
    grid = [-(-n // c) for n, c in zip(d.shape, d.chunks)]
    for number, place in enumerate(np.ndindex(*grid)):
        want = d[tuple(slice(p * c, (p + 1) * c) for p, c in zip(place, d.chunks))]
        if np.array_equal(have[tuple(slice(0, n) for n in want.shape)], want):
            yield number


def chunks_of(d, data, base):
    """What libhdf5 says, where the bytes agree; what the bytes say, where it names chunks wrongly."""
    grid = [-(-n // c) for n, c in zip(d.shape, d.chunks)]
    told, wrong = [], False
    for i in range(d.id.get_num_chunks()):
        info = d.id.get_chunk_info(i)
        place = [o // c for o, c in zip(info.chunk_offset, d.chunks)]
        want = d[tuple(slice(o, o + c) for o, c in zip(info.chunk_offset, d.chunks))]
        options = []
        for offset in {info.byte_offset, info.byte_offset + base}:
            try:
                options.append((decode(d, data[offset : offset + info.size], info.filter_mask), offset))
            except (zlib.error, ValueError):
                continue
        right = [o for have, o in options if want.size and np.array_equal(have[tuple(slice(0, n) for n in want.shape)], want)]
        number = int(np.ravel_multi_index(place, grid, mode="clip"))
        told.append((number, right[0] if right else options[0][1], info.size, info.filter_mask))
        wrong |= not right
    if wrong:
        print(f"{'':6}  {d.name}: named by their values")
        found = []
        for _, offset, size, mask in told:
            places = list(places_of(d, decode(d, data[offset : offset + size], mask)))
            assert len(places) == 1, places
            found.append((places[0], offset, size, mask))
        told = found
    assert len({t[0] for t in told}) == len({t[1] for t in told}) == len(told)
    return sorted(told)


def create(path, libver, userblock_size=0, address_bytes=8):
    creation, access = h5py.h5p.create(h5py.h5p.FILE_CREATE), h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    creation.set_userblock(userblock_size)
    creation.set_sizes(address_bytes, 8)
    creation.set_obj_track_times(False)
    access.set_libver_bounds(getattr(h5py.h5f, f"LIBVER_{libver.upper()}"), h5py.h5f.LIBVER_LATEST)
    return h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, creation, access))


def make(lines, file, kind, fill, **options):
    path = OUT / file
    with create(path, **options) as f:
        fill(f)
    data = path.read_bytes()
    with h5py.File(path) as f:
        for name, d in f.items():
            found = chunks_of(d, data, f.userblock_size)
            k = "extensible" if name.endswith("_1d") else kind or name
            assert k in KINDS
            lines.append(f"dataset {file} {name} {h5py.h5o.get_info(d.id).addr} {KINDS.index(k)} {len(found)}")
            lines += [" ".join(map(str, chunk)) for chunk in found]
    print(f"{len(data):6d}  {file}")
    return len(data)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lines = []
    size = make(lines, "btree1.h5", "btree1", btree1, libver="earliest")
    size += make(lines, "btree1_user_block.h5", "btree1", lambda f: full(f, "plain", (7, 5), (3, 2)), libver="earliest", userblock_size=512)
    for fill in (single, implicit, fixed, extensible, btree2):
        size += make(lines, f"{fill.__name__}.h5", fill.__name__, fill, libver="latest")
    size += make(lines, "user_block.h5", None, behind_a_user_block, libver="latest", userblock_size=1024)
    size += make(lines, "short_addresses.h5", None, with_short_addresses, libver="latest", address_bytes=4)
    size += make(lines, "btree1_short_addresses.h5", "btree1", lambda f: full(f, "plain", (7, 5), (3, 2)), libver="earliest", address_bytes=4)
    text = "\n".join(lines) + "\n"
    (OUT / "expected.txt").write_text(text)
    size += len(text)
    print(f"{size:6d}  all")
    assert size <= LIMIT_BYTES


if __name__ == "__main__":
    main()
