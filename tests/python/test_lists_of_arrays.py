"""Lists whose elements are arrays, of Arrow files and tables: packed values (ΣL, n) with offsets, or padded."""

import h5py
import numpy as np
import pyarrow as pa
import pytest

import forebay as fb


def lists(ragged):
    offsets, values = np.asarray(ragged.offsets), np.asarray(ragged.values)
    return [values[a:b] for a, b in zip(offsets, offsets[1:])]


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_lists_of_arrays_are_outputs(tmp_path, codec):
    values = [[[1.5, 2], [3, 4]], None, [], [[5, 6]], [[7, 8], [9, 10], [11, 12]], [[0, 1]]] * 500
    kind = pa.list_(pa.list_(pa.float32(), 2))
    table = pa.table({"x": pa.array(values, kind), "y": range(3000)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=700)
    expected = [np.array(v or [], "f4").reshape(-1, 2) for v in values]
    for source in (table, table.slice(1, 2000), tmp_path / "a.arrow"):
        loader = fb.open(source).rows().loader(batch_size=64, shuffle=True, memory="16MiB")  # by default, too
        assert loader.outputs["x"].shape == (-1, 2) and loader.outputs["x"].ragged
        for batch in loader:
            for y, x in zip(np.asarray(batch["y"]), lists(batch["x"])):
                np.testing.assert_array_equal(x, expected[y])
    padded = fb.open(table).rows().loader({"x": fb.col("x").padded(max_rows=2, keep="first", pad=-1)}, batch_size=6, shuffle=False)
    first = next(iter(padded))["x"]
    assert first.values.shape == (6, 2, 2) and np.asarray(first.mask).sum(1).tolist() == [2, 0, 0, 1, 2, 1]
    assert np.asarray(first.values)[4].tolist() == [[7, 8], [9, 10]] and np.asarray(first.values)[1].tolist() == [[-1, -1], [-1, -1]]
    for wrong in (fb.col("x").scale([2.0, 3.0], axis=-1), fb.col("x").crop(1), fb.col("x", "x")):
        with pytest.raises((fb.Error, ValueError)):
            fb.open(table).rows().loader({"x": wrong}, batch_size=6)


def test_those_of_hdf5_are_refused_when_the_loader_is_made(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        element = np.dtype([("a", "f4", (2,))])
        values = file.create_dataset("x", (3,), h5py.vlen_dtype(element))
        for i in range(3):
            values[i] = np.zeros(i, element)
        file["y"] = np.arange(3)
    rows = fb.open(tmp_path / "a.h5").rows()
    with pytest.raises(fb.Error, match="column 'x.a'.* cannot be a tensor"):
        rows.loader({"x": "x.a"}, batch_size=3)
