"""Random tables and random ways to write them as Parquet: everything pyarrow can write. A case is a function of its seed alone."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]


class Case:
    """table, and the options it is written with."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        rng = self.rng
        self.rows = int(rng.choice([0, 1, 2, 7, 8, 9, 64, 100, 333, 1000, 2500], p=[0.02, 0.06, 0.04, 0.06, 0.06, 0.06, 0.15, 0.25, 0.18, 0.08, 0.04]))
        self.int96 = bool(rng.random() < 0.05)  # nanoseconds: years 1677 to 2262
        fields, arrays = [], []
        for i in range(int(rng.integers(1, 5))):
            array = self.array(self.rows, depth=0)
            nullable = array.null_count > 0 or pa.types.is_null(array.type) or rng.random() < 0.7
            fields.append(pa.field(f"c{i}", array.type, nullable))
            arrays.append(array)
        self.table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        self.options = self.writer_options()

    # ---- values ----

    def nulls(self, n):
        rate = self.rng.choice([0, 0, 0.02, 0.3, 0.9, 1.0], p=[0.35, 0.1, 0.15, 0.25, 0.1, 0.05])
        if self.rng.random() < 0.2 and n:  # in runs
            mask = np.zeros(n, bool)
            a, b = sorted(self.rng.integers(0, n + 1, 2))
            mask[a:b] = True
            return mask if rate else np.zeros(n, bool)
        return self.rng.random(n) < rate

    def integers(self, n, dtype):
        info = np.iinfo(dtype)
        style = self.rng.integers(0, 5)
        if style == 0:
            return self.rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        if style == 1:
            return self.rng.integers(0, int(self.rng.choice([1, 2, 3, 50])), n).astype(dtype)
        if style == 2:
            return (np.arange(n) * int(self.rng.integers(1, 100))).astype(dtype)
        if style == 3:
            return np.repeat(self.rng.integers(0, 100, n // 10 + 1), 10)[:n].astype(dtype)
        return self.rng.choice(np.array([info.min, info.max, 0, 1], dtype=dtype), n)

    def floats(self, n, dtype):
        style = self.rng.integers(0, 4)
        if style == 0:
            values = self.rng.standard_normal(n)
        elif style == 1:
            values = self.rng.integers(0, 20, n) * 0.5
        elif style == 2:
            values = self.rng.choice(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-300, 5e-324, 1.0]), n)
        else:
            raw = self.rng.integers(0, 256, n * np.dtype(dtype).itemsize, dtype=np.uint8)
            return raw.view(dtype)
        with np.errstate(all="ignore"):
            return values.astype(dtype)

    def words(self, n):
        style = self.rng.integers(0, 4)
        if style == 0:
            pool = ["", "a", "é", "longer words", "日本語"]
            return [pool[i] for i in self.rng.integers(0, len(pool), n)]
        if style == 1:
            return [f"prefix/{i // 7:05}/{i}" for i in range(n)]
        if style == 2:
            return ["x" * int(k) for k in self.rng.integers(0, 300, n)]
        return [bytes(self.rng.integers(97, 123, int(k), dtype=np.uint8)).decode() for k in self.rng.integers(0, 12, n)]

    def leaf(self, n):
        rng = self.rng
        mask = self.nulls(n)
        kind = rng.choice(["int", "int", "float", "float", "bool", "string", "binary", "fixed", "timestamp", "date", "time", "decimal", "dictionary",
                           "half", "duration", "null", "date64"],
                          p=[0.15, 0.1, 0.12, 0.1, 0.07, 0.12, 0.05, 0.04, 0.06, 0.03, 0.03, 0.05, 0.03, 0.02, 0.01, 0.01, 0.01])  # fmt: skip
        if kind == "int":
            dtype = rng.choice(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
            return pa.array(self.integers(n, dtype), mask=mask)
        if kind == "float":
            return pa.array(self.floats(n, rng.choice(["f4", "f8"])), mask=mask)
        if kind == "half":
            return pa.array(self.floats(n, "f2"), mask=mask)
        if kind == "bool":
            values = rng.random(n) < rng.choice([0.0, 0.01, 0.5, 1.0])
            return pa.array(values, mask=mask)
        if kind == "string":
            return pa.array([None if m else w for w, m in zip(self.words(n), mask)], rng.choice([pa.string(), pa.string(), pa.large_string()]))
        if kind == "binary":
            return pa.array([None if m else bytes(rng.integers(0, 256, int(k), dtype=np.uint8)) for k, m in zip(rng.integers(0, 20, n), mask)], pa.binary())
        if kind == "fixed":
            width = int(rng.choice([1, 2, 5, 16]))
            return pa.array([None if m else bytes(rng.integers(0, int(rng.choice([2, 256])), width, dtype=np.uint8)) for m in mask], pa.binary(width))
        if kind == "timestamp":
            unit = str(rng.choice(["s", "ms", "us", "ns"]))
            values = rng.integers(-(2**40), 2**40, n)
            if self.int96 and unit in ("s", "ms"):
                values >>= 8 if unit == "s" else 0
            return pa.array(values, pa.timestamp(unit, rng.choice([None, "UTC", "Europe/Zurich"])), mask=mask)
        if kind == "date":
            return pa.array(rng.integers(-100_000, 100_000, n).astype("i4"), pa.date32(), mask=mask)
        if kind == "date64":
            return pa.array(rng.integers(-10_000, 10_000, n) * 86_400_000, pa.date64(), mask=mask)
        if kind == "time":
            unit = str(rng.choice(["s", "ms", "us", "ns"]))
            most = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
            dtype = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
            return pa.array(rng.integers(0, most, n).astype("i4" if unit in ("s", "ms") else "i8"), dtype, mask=mask)
        if kind == "duration":
            return pa.array(rng.integers(-(2**50), 2**50, n), pa.duration(str(rng.choice(["s", "ms", "us", "ns"]))), mask=mask)
        if kind == "decimal":
            precision = int(rng.choice([1, 4, 9, 10, 18, 19, 28, 38, 50, 76]))
            scale = int(rng.integers(0, precision + 1))
            most = 10 ** int(rng.integers(1, precision + 1)) - 1
            wide = [int(rng.integers(-(2**62), 2**62)) * 2 ** int(rng.integers(0, 190)) % (2 * most + 1) - most if not m else None for m in mask]
            values = [None if w is None else decimal.Decimal(w).scaleb(-scale, decimal.Context(prec=80)) for w in wide]
            return pa.array(values, pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale))
        if kind == "dictionary":
            return pa.array([None if m else w for w, m in zip(self.words(n), mask)], pa.string()).dictionary_encode()
        return pa.nulls(n)

    def array(self, n, depth):
        if depth >= 3 or self.rng.random() < (0.65, 0.7, 0.8)[min(depth, 2)]:
            return self.leaf(n)
        kind = self.rng.choice(["list", "struct", "map", "fixed"], p=[0.5, 0.35, 0.1, 0.05])
        mask = self.nulls(n)
        if kind == "struct":
            children = [self.array(n, depth + 1) for _ in range(int(self.rng.integers(1, 4)))]
            fields = [pa.field("xyz"[i], c.type, bool(c.null_count or pa.types.is_null(c.type) or self.rng.random() < 0.7)) for i, c in enumerate(children)]
            if not all(f.nullable for f in fields) and mask.any():
                fields = [f.with_nullable(True) for f in fields]
            return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(mask))
        if kind == "fixed":
            size = int(self.rng.integers(1, 4))
            return pa.FixedSizeListArray.from_arrays(self.leaf(n * size), size)
        longest = int(self.rng.choice([1, 3, 10, 200], p=[0.3, 0.4, 0.25, 0.05]))
        lengths = self.rng.integers(0, longest + 1, n)
        lengths[mask] = 0
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        total = int(offsets[-1])
        if kind == "map":
            keys = pa.array([f"k{i}" for i in range(total)], pa.string())
            return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(mask, False)), keys, self.leaf(total))
        if total > 4000:
            depth = 3
        return pa.ListArray.from_arrays(pa.array(offsets), self.array(total, depth + 1), mask=pa.array(mask))

    # ---- how it is written ----

    def writer_options(self):
        rng = self.rng
        options = {
            "compression": str(rng.choice(CODECS)),
            "row_group_size": int(rng.choice([1, 10, 100, 500, 100_000], p=[0.02, 0.1, 0.3, 0.2, 0.38])) if self.rows < 1500 else 600,
            "data_page_size": int(rng.choice([1, 64, 500, 4096, 1 << 20], p=[0.05, 0.2, 0.25, 0.2, 0.3])),
            "data_page_version": str(rng.choice(["1.0", "2.0"])),
            "version": str(rng.choice(["1.0", "2.4", "2.6"], p=[0.2, 0.2, 0.6])),
            "use_dictionary": bool(rng.random() < 0.5),
            "write_statistics": bool(rng.random() < 0.5),
            "write_page_index": bool(rng.random() < 0.3),
            "write_page_checksum": bool(rng.random() < 0.3),
            "store_schema": bool(rng.random() < 0.7),
            "use_compliant_nested_type": bool(rng.random() < 0.8),
            "write_batch_size": int(rng.choice([1, 16, 1024])),
            "dictionary_pagesize_limit": int(rng.choice([16, 1000, 1 << 20])),
            "use_deprecated_int96_timestamps": self.int96,
        }
        if options["write_batch_size"] == 1 and self.rows > 300:
            options["write_batch_size"] = 16
        return options

    ENCODINGS = {
        "INT32": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
        "INT64": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
        "FLOAT": ["PLAIN", "BYTE_STREAM_SPLIT"],
        "DOUBLE": ["PLAIN", "BYTE_STREAM_SPLIT"],
        "BYTE_ARRAY": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
        "FIXED_LEN_BYTE_ARRAY": ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"],
        "BOOLEAN": ["PLAIN", "RLE"],
    }

    def write(self, path):
        """Writes it; with no dictionary, every leaf in an encoding of its own."""
        options = dict(self.options)
        try:
            pq.write_table(self.table, path, **options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # what version 1.0 or int96 cannot express
            options.update(version="2.6", use_deprecated_int96_timestamps=False)
            pq.write_table(self.table, path, **options)
        if options["use_dictionary"] or options["use_deprecated_int96_timestamps"] or self.rng.random() < 0.3:
            return
        schema = pq.ParquetFile(path).schema
        leaves = [schema.column(i) for i in range(len(schema))]
        options["column_encoding"] = {c.path: str(self.rng.choice(self.ENCODINGS[c.physical_type])) for c in leaves if c.physical_type in self.ENCODINGS}
        self.encodings = options["column_encoding"]
        pq.write_table(self.table, path, **options)

    def __str__(self):
        schema = self.table.schema.to_string(show_schema_metadata=False)
        return f"seed {self.seed}: {schema!r}, {self.rows} rows, {self.options}, {getattr(self, 'encodings', '')}"
