"""The library's Parquet writer, for tests: any pyarrow table to a file, through tests/write/parquet_from_arrow.c.

It is a library of the build folder (FOREBAY_BUILD, default build/), which `make` builds beside the C tests.
"""

import ctypes
import os
import pathlib

import pytest

BUILD = pathlib.Path(os.environ.get("FOREBAY_BUILD", pathlib.Path(__file__).parents[2] / "build"))


class Request(ctypes.Structure):
    _fields_ = [
        ("stream", ctypes.c_void_p),
        ("path", ctypes.c_char_p),
        ("codec", ctypes.c_char_p),
        ("level", ctypes.c_int),
        ("page_bytes", ctypes.c_uint32),
        ("key", ctypes.c_char_p),
        ("value", ctypes.c_char_p),
        ("message", ctypes.c_char * 1000),
    ]


class Refused(Exception):
    pass


def writer():
    """The function that writes; skips the test where it is not built."""
    path = BUILD / "tests" / "libparquet_from_arrow.so"
    if not path.exists():
        pytest.skip(f"{path} is not built: make build")
    return ctypes.CDLL(str(path)).parquet_from_arrow


def write(table, path, codec="none", level=0, page_bytes=0, row_group_size=None, metadata=None):
    """As pyarrow.parquet.write_table: a row group for each batch of the table. Raises Refused with the writer's message."""
    import pyarrow as pa

    stream = ctypes.create_string_buffer(5 * ctypes.sizeof(ctypes.c_void_p))
    address = ctypes.addressof(stream)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=row_group_size))
    reader._export_to_c(address)
    key, value = metadata or (None, None)
    request = Request(address, os.fsencode(path), codec.encode(), level, page_bytes, key and key.encode(), value and value.encode())
    if writer()(ctypes.byref(request)) != 0:
        raise Refused(request.message.decode())
