"""Tables of every type, packs read by pyarrow, and what a pack of a seed has to be."""

import datetime
import math
import random
import shutil
import signal
import subprocess
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def floats(n, seed=0, columns=8):
    rng = np.random.default_rng(seed)
    return pa.table({"i": np.arange(n), **{f"x{c}": rng.standard_normal(n).astype("f4") for c in range(columns)}})


def values(rng, kind, n):
    """n random values of a type, None among them; lists of all lengths, nested ones too."""
    if pa.types.is_struct(kind):
        parts = [values(rng, field.type, n) for field in kind]
        return [None if rng.random() < 0.2 else dict(zip((f.name for f in kind), row)) for row in zip(*parts)]
    if pa.types.is_map(kind):
        return [None if rng.random() < 0.2 else [(f"k{i}", v) for i, v in enumerate(values(rng, kind.item_type, rng.randrange(4)))] for _ in range(n)]
    if pa.types.is_fixed_size_list(kind):
        return [None if rng.random() < 0.2 else values(rng, kind.value_type, kind.list_size) for _ in range(n)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [None if rng.random() < 0.2 else values(rng, kind.value_type, rng.randrange(5)) for _ in range(n)]
    return [None if rng.random() < 0.2 else value(rng, kind) for _ in range(n)]


def value(rng, kind):
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        return rng.randrange(100) if str(kind).startswith("u") else rng.randrange(-100, 100)
    if kind == pa.float16():
        return np.float16(rng.gauss(0, 1))
    if pa.types.is_floating(kind):
        return float(np.float32(rng.gauss(0, 1)))
    if pa.types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return rng.randbytes(rng.randrange(20))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return "".join(rng.choice("aöü€x") for _ in range(rng.randrange(12)))
    if pa.types.is_decimal(kind):
        return Decimal(rng.randrange(-(10**5), 10**5)).scaleb(-kind.scale)
    if pa.types.is_date64(kind):
        return datetime.date.fromordinal(rng.randrange(700_000, 740_000))
    return pa.scalar(rng.randrange(10**4), pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind).as_py()


TYPES = [
    pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.binary(5),
    pa.decimal128(12, 3), pa.decimal256(50, 2), pa.date32(), pa.time32("ms"), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ns", "UTC"),
    pa.duration("ms"), pa.list_(pa.int32()), pa.list_(pa.string()), pa.list_(pa.list_(pa.float32())), pa.list_(pa.float32(), 3), pa.list_(pa.string(), 2),
    pa.struct([("a", pa.int16()), ("b", pa.string()), ("c", pa.list_(pa.bool_()))]), pa.list_(pa.struct([("a", pa.float64()), ("b", pa.list_(pa.int8(), 2))])),
    pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.struct([("b", pa.list_(pa.string()))]))]), pa.null(),
    pa.time32("s"), pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.timestamp("ms"), pa.time64("ns"), pa.date64(), pa.duration("s"), pa.duration("ns"),
    pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(7, 2), pa.decimal256(30, 2), pa.large_string(), pa.large_binary(), pa.large_list(pa.int16()),
    pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.int64()),
    pa.list_(pa.time32("s")), pa.struct([("t", pa.timestamp("s")), ("s", pa.string_view())]),
]  # fmt: skip


def column(rng, kind, n):
    if pa.types.is_dictionary(kind):  # pyarrow makes none from a list of numbers
        few = [v[:2] if isinstance(v, str) else v and v % 7 for v in values(rng, kind.value_type, n)]
        return pa.array(few, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values(rng, kind, n), kind)


def every_type(n, seed, types=TYPES):
    rng = random.Random(seed)
    return pa.table({"i": pa.array(range(n)), **{f"c{i}": column(rng, kind, n) for i, kind in enumerate(types)}})


def write(table, folder, files=3, row_group_size=700):
    folder.mkdir()
    step = -(-len(table) // files)
    for i in range(files):
        with pa.OSFile(str(folder / f"{i}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table.slice(i * step, step), max_chunksize=row_group_size)
    return folder


def read(folder):
    files = sorted(folder.glob("part-*"))
    tables = [pa.ipc.open_file(f).read_all() if f.suffix == ".arrow" else pq.read_table(f) for f in files]
    for table in tables:
        table.validate(full=True)
    return pa.concat_tables(tables)


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}


def killed_until_done(command, out, moments):
    """`command`, whose last argument is the target, killed at these fractions of the time it takes, and going on each time, or begun anew where it had ended:
    (what is there at last, a pack that was never killed)."""
    lasted, killed = math.inf, 0
    for name in ("cold", "whole"):  # the first run reads the command itself from the disk
        begun = time.monotonic()
        subprocess.run([*command, out.with_name(name)], check=True, capture_output=True)
        lasted = min(lasted, time.monotonic() - begun)
    whole = contents(out.with_name("whole"))
    for moment in moments:
        process = subprocess.Popen([*command, out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert process.wait(lasted * moment) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            killed += process.wait() == -signal.SIGKILL
        if (out / "_pack.json").exists():  # it had ended, killed or not
            assert contents(out) == whole
            shutil.rmtree(out)
    assert killed  # most are, unless the machine is busier than it was: then packs end before their moment
    if not (out / "_pack.json").exists():
        subprocess.run([*command, out], check=True, capture_output=True)
    return contents(out), whole


def order_of(ds, seed):
    loader = ds.rows().loader({"i": "i"}, batch_size=1000, shuffle="full", seed=seed, streams=1, tail="keep")
    return np.concatenate([np.asarray(batch["i"]).ravel() for batch in loader])
