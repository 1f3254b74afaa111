"""Make tests/golden/hdf5_filter: stored chunks of HDF5 data sets as h5py and hdf5plugin write them, with what they hold.

Run it only to add a case or to change one on purpose (other versions of the encoders write other bytes):
    python tests/golden/make_hdf5_filter_golden.py

data.bin      the bytes that all chunks were made of, one after the other
cases.bin     for each case: u32 bytes of name, name, u32 offset in data.bin, u32 bytes of record, record
A record is also the input of fuzz/fuzz_filter.c (a few are copied to fuzz/corpus/filter):
              u32 bytes of the chunk, u32 mask, u8 verify, u8 filters,
              for each filter u16 id, u8 values, u32 values …; then the stored bytes
All numbers are little-endian. Each case is read back through libhdf5 before it is kept.
"""

import pathlib
import re
import struct
import tempfile

import h5py
import hdf5plugin
import numpy as np

HERE = pathlib.Path(__file__).parent
OUT = HERE / "hdf5_filter"
CORPUS = HERE.parent.parent / "fuzz" / "corpus" / "filter"
LIMIT_BYTES = 300_000
ELEMENTS = [1, 2, 3, 4, 8, 12, 16]
DEFLATE, SHUFFLE, FLETCHER32, SZIP = 1, 2, 3, 4
LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD = 32000, 32001, 32004, 32008, 32015
SZIP_NN, SZIP_EC = 32, 4

data = bytearray()
cases = []
offsets = {}


def values(element, n, noise=False):
    """n elements whose bytes look like measurements: smooth in the high ones, noisy in the low ones. Kept in data.bin once."""
    key = (element, n, noise)
    if key not in offsets:
        random = np.random.default_rng(len(offsets) + 1)
        if noise:
            raw = random.bytes(element * n)
        else:
            steps = random.integers(-3, 4, (n, element)).cumsum(axis=0) // (1 + 8 * np.arange(element)) + 65
            raw = steps.astype(np.uint8).tobytes()
        offsets[key] = len(data)
        data.extend(raw)
    at = offsets[key]
    return at, bytes(data[at : at + element * n])


def dtype(element, kind="V"):
    return np.dtype(f"{kind}{element}")


def add_filters(plist, filters):
    for code, options in filters:
        if code == DEFLATE:
            plist.set_deflate(*options)
        elif code == SHUFFLE:
            plist.set_shuffle()
        elif code == FLETCHER32:
            plist.set_fletcher32()
        elif code == SZIP:
            plist.set_szip(*options)
        else:
            plist.set_filter(code, h5py.h5z.FLAG_OPTIONAL, tuple(options))


def create(file, name, element_type, shape, filters):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(shape)
    add_filters(plist, filters)
    space = h5py.h5s.create_simple(shape)
    # Opaque elements have any size, but szip wants numbers.
    return h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(element_type), space, plist)


def read_back(dset, element_type, shape):
    out = np.zeros(shape, element_type)
    dset.read(h5py.h5s.ALL, h5py.h5s.ALL, out, dset.get_type())
    return out.tobytes()


def stored_filters(dset):
    plist = dset.get_create_plist()
    return [plist.get_filter(i)[:3] for i in range(plist.get_nfilters())]


def record(n, mask, verify, filters, stored):
    head = struct.pack("<IIBB", n, mask, verify, len(filters))
    for code, _flags, params in filters:
        head += struct.pack("<HB", code, len(params)) + struct.pack(f"<{len(params)}I", *params)
    return head + stored


def case(name, element, n, filters, skip=0, noise=False, kind="V", shape=None, corpus=False):
    """One chunk of n elements through filters; those in skip are left out of this chunk, as its mask then says."""
    at, raw = values(element, n, noise)
    shape = shape or (n,)
    element_type = dtype(element, kind)
    array = np.frombuffer(raw, element_type).reshape(shape)
    start = (0,) * len(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "golden.h5"
        # The chunk as it is stored without the skipped filters, put into a data set with all of them. The file is closed in
        # between: libhdf5 2.0.0 forgets the mask of a chunk that it has just written.
        with h5py.File(path, "w") as file:
            partial = create(file, "partial", element_type, shape, [f for i, f in enumerate(filters) if not skip >> i & 1])
            partial.write(h5py.h5s.ALL, h5py.h5s.ALL, array, partial.get_type())
            create(file, "whole", element_type, shape, filters)
        with h5py.File(path, "r+") as file:
            mask, stored = file["partial"].id.read_direct_chunk(start)
            # Filters of "partial" that gave up, at their places in "whole".
            kept = [i for i in range(len(filters)) if not skip >> i & 1]
            mask = skip | sum(1 << i for k, i in enumerate(kept) if mask >> k & 1)
            file["whole"].id.write_direct_chunk(start, stored, mask)
        with h5py.File(path, "r") as file:
            whole = file["whole"].id
            assert read_back(whole, element_type, shape) == raw, name
            made = record(len(raw), mask, True, stored_filters(whole), stored)
    cases.append((name, at, made))
    if corpus:
        (CORPUS / re.sub("[^0-9a-z]+", "_", name)).write_bytes(made)


def hand_made(name, at, n, filters, stored, mask=0):
    cases.append((name, at, record(n, mask, True, [(code, 0, params) for code, params in filters], stored)))


def pipelines(element):
    """Filters alone and together, by name."""
    shuffle, deflate, fletcher = (SHUFFLE, ()), (DEFLATE, (6,)), (FLETCHER32, ())
    lzf, lz4, zstd = (LZF, ()), (LZ4, (0,)), (ZSTD, (3,))
    bits = {codec: (BITSHUFFLE, (0, code)) for codec, code in [("none", 0), ("lz4", 2), ("zstd", 3)]}
    yield "deflate", [deflate]
    yield "shuffle", [shuffle]
    yield "shuffle deflate fletcher32", [shuffle, deflate, fletcher]
    yield "fletcher32 shuffle lzf", [fletcher, shuffle, lzf]  # the sum's bytes are a remainder of the shuffle
    yield "shuffle lz4", [shuffle, lz4]
    yield "shuffle zstd", [shuffle, zstd]
    for codec, filter_ in bits.items():
        yield f"bitshuffle {codec}", [filter_]
    yield "blosc lz4 shuffle", [(BLOSC, (0, 0, 0, 0, 5, 1, 1))]
    if element in (1, 4, 12):
        yield "lzf", [lzf]
        yield "lz4", [lz4]
        yield "lz4 small blocks", [(LZ4, (100,))]
        yield "zstd", [zstd]
        yield "fletcher32", [fletcher]
        yield "deflate shuffle", [deflate, shuffle]  # a deflated stream, shuffled: the remainder is any
        yield "lzf deflate", [lzf, deflate]  # the size between them is stated nowhere
        yield "shuffle deflate lzf fletcher32", [shuffle, deflate, lzf, fletcher]
        yield "bitshuffle lz4 small blocks", [(BITSHUFFLE, (16, 2))]
        yield "bitshuffle none small blocks deflate", [(BITSHUFFLE, (24, 0)), deflate]
        for code, inner in enumerate(["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]):
            if inner != "snappy":
                yield f"blosc {inner} bitshuffle", [(BLOSC, (0, 0, 0, 0, 5, 2, code))]


def make():
    for element in ELEMENTS:
        for n in (8 * 34 + 5, 127):
            for name, filters in pipelines(element):
                if n == 127 and len(filters) == 1 and filters[0][0] in (LZ4, ZSTD, DEFLATE):
                    continue
                case(f"{name} of {n} x {element}", element, n, filters, corpus=element == 4 and n == 127)
        case(f"single element of {element}", element, 1, [(SHUFFLE, ()), (DEFLATE, (1,))])
    # More than one default block of bitshuffle, and a tail.
    for element, n in ((1, 8192 + 77), (4, 2048 + 1024 + 3), (16, 512 + 130)):
        case(f"bitshuffle lz4 of blocks {element}", element, n, [(BITSHUFFLE, (0, 2))])
        case(f"bitshuffle zstd of blocks {element}", element, n, [(BITSHUFFLE, (0, 3))])
    # Skipped filters, by choice and because the encoder gave up.
    combo = [(SHUFFLE, ()), (DEFLATE, (6,)), (LZF, ()), (FLETCHER32, ())]
    for skip in range(1, 16):
        case(f"skip {skip:04b}", 4, 150, combo, skip=skip, corpus=skip in (1, 6, 15))
    case("lzf gives up", 4, 150, [(SHUFFLE, ()), (LZF, ())], noise=True)
    # Incompressible bytes: stored blocks of each codec.
    for name, filters in pipelines(8):
        case(f"noise {name}", 8, 90, filters, noise=True)
    # szip takes numbers of 1, 2, 4 and 8 bytes; lines that fill whole blocks, and such as do not.
    for kind in ("u", ">u"):
        for element in (1, 2, 4, 8):
            for shape in ((320,), (5, 64), (9, 37)):
                n = int(np.prod(shape))
                for coding in (SZIP_NN, SZIP_EC):
                    name = f"szip {'big' if kind[0] == '>' else 'little'} {element} {shape} {coding}"
                    case(name, element, n, [(SZIP, (coding, 16))], kind=kind, shape=shape, corpus=shape == (9, 37) and kind == "u")
    # blosc's blocks: a stream for each byte of an element, and one alone (too many bytes, too few elements; zstd is never split).
    for code, inner in enumerate(["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]):
        for element, n in ((4, 277), (8, 277), (16, 277), (4, 127)):
            if inner != "snappy" and (element == 4 or inner in ("lz4", "zlib")):
                case(f"blosc {inner} shuffle of {n} x {element}", element, n, [(BLOSC, (0, 0, 0, 0, 9, 1, code))], corpus=n == 277 and element == 4)
        if inner in ("lz4", "zlib", "zstd"):
            case(f"blosc {inner} plain of 277 x 4", 4, 277, [(BLOSC, (0, 0, 0, 0, 9, 0, code))])
    # What HDF5 before 1.6.3 stored: the halves of the sum with their bytes swapped.
    at, raw = values(4, 127)
    for n in (4 * 127, 4 * 127 - 1):
        stored = raw[:n] + struct.pack("<I", fletcher32(raw[:n]))
        hand_made(f"fletcher32 of {n}", at, n, [(FLETCHER32, ())], stored)
        low, high = stored[n : n + 2], stored[n + 2 :]
        hand_made(f"historic fletcher32 of {n}", at, n, [(FLETCHER32, ())], raw[:n] + low[::-1] + high[::-1])


def fletcher32(raw):
    """Straight from its definition; libhdf5 agrees, which the cases with it in a pipeline show."""
    sum1 = sum2 = 0
    for i in range(0, len(raw), 2):
        word = raw[i] << 8 | (raw[i + 1] if i + 1 < len(raw) else 0)
        sum1 += word
        sum2 += sum1
    fold = lambda s: (s - 1) % 65535 + 1 if s else 0
    return fold(sum2) << 16 | fold(sum1)


def main():
    assert hdf5plugin.get_filters()
    OUT.mkdir(exist_ok=True)
    CORPUS.mkdir(parents=True, exist_ok=True)
    make()
    packed = bytearray()
    for name, at, made in cases:
        packed += struct.pack("<I", len(name)) + name.encode() + struct.pack("<II", at, len(made)) + made
    (OUT / "data.bin").write_bytes(data)
    (OUT / "cases.bin").write_bytes(packed)
    size = len(packed) + len(data)
    assert size <= LIMIT_BYTES, size
    print(f"{len(cases)} cases, {size} bytes")


if __name__ == "__main__":
    main()
