"""Keys of several columns: groups and series are runs of rows that are equal in all of them, against NumPy; across pieces, blocks and files."""

import pickle

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(root, seed, rows=3000, files=3):
    """Columns that change at different rows, some of them together, some back to what they were."""
    rng = np.random.default_rng(seed)

    def runs(values):
        lengths = rng.integers(1, 40, rows)
        return np.repeat(rng.choice(values, rows), lengths)[:rows]

    table = pa.table({"row": np.arange(rows), "a": runs(np.arange(3)), "b": pa.array(runs(["", "x", "xy", "y"])), "c": runs(np.array([0.0, 0.5])),
                      "x": rng.normal(size=rows).astype(np.float32)})  # fmt: skip
    for i in range(files):
        part = table.slice(rows * i // files, rows * (i + 1) // files - rows * i // files)
        (root / f"site={i}").mkdir()
        pq.write_table(part, root / f"site={i}" / "d.parquet", row_group_size=int(rng.integers(37, 300)))
    return table, [rows * i // files for i in range(files)]


def begins(table, columns, files):
    """The rows where a group begins."""
    first = np.zeros(len(table), bool)
    first[files] = True
    for name in columns:
        values = table[name].to_numpy(zero_copy_only=False)
        first[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(first)


@pytest.mark.parametrize("columns", [("a", "b"), ("b", "a"), ("a", "b", "c"), ("c", "site"), ("site", "a", "b"), ("a",)])
def test_groups_are_runs_that_are_equal_in_all_columns(tmp_path, columns):
    for seed in range(3):
        root = tmp_path / str(seed)
        root.mkdir()
        table, files = write(root, seed)
        ds = fb.open(str(root / "site={site}" / "d.parquet"))
        starts = begins(table, [name for name in columns if name != "site"], files)
        ends = np.append(starts[1:], len(table))
        for key in (columns, list(columns)):
            samples = ds.groups(key, threads=1 + seed)
            assert [(samples[i].start, samples[i].stop) for i in range(len(samples))] == list(zip(starts.tolist(), ends.tolist()))
        with ds.groups(columns).loader(["row"], batch_size=64, framework="numpy") as l:
            seen = np.concatenate([b["row"].values for b in l])
        assert sorted(seen.tolist()) == list(range(len(table)))


def test_windows_lie_in_series_of_several_columns(tmp_path):
    table, files = write(tmp_path, 7)
    ds = fb.open(str(tmp_path / "site={site}" / "d.parquet"))
    starts = begins(table, ["a", "b"], files)
    ends = np.append(starts[1:], len(table))
    expect = [row for s, e in zip(starts, ends) for row in range(s, e - 4 + 1, 2)]
    samples = ds.windows(3, 1, stride=2, by=("a", "b"))
    assert [samples[i].start for i in range(len(samples))] == expect
    assert len(ds.windows(3, 1, stride=2, by="a")) != len(expect) != len(ds.windows(3, 1, stride=2, by="b"))


def test_such_samples_pickle_are_cached_and_go_into_pipeline_files(tmp_path):
    table, files = write(tmp_path, 9)
    ds = fb.open(str(tmp_path / "site={site}" / "d.parquet"))
    samples, single = ds.groups(("a", "b")), ds.groups("a")
    assert len(pickle.loads(pickle.dumps(samples))) == len(samples) == len(ds.groups(("a", "b"))) != len(single)
    for made, text in ((samples, "key:"), (ds.windows(3, by=["a", "b"]), "by:")):
        with made.loader(["row"], batch_size=16, framework="numpy", seed=3) as l:
            expect = [np.asarray(getattr(b["row"], "values", b["row"])).tolist() for b in l]
            l.to_yaml(tmp_path / "p.yaml")
        assert text in (tmp_path / "p.yaml").read_text()
        with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as l:
            assert [np.asarray(getattr(b["row"], "values", b["row"])).tolist() for b in l] == expect


def test_they_are_selected_split_and_cut_into_parts_by_one_column(tmp_path):
    table, files = write(tmp_path, 11)
    ds = fb.open(str(tmp_path / "site={site}" / "d.parquet"))
    samples = ds.groups(("a", "b"))
    starts = begins(table, ["a", "b"], files)
    a = table["a"].to_numpy()[starts]
    assert len(samples.select("a", values=[1])) == (a == 1).sum()
    for call in (lambda: samples.select(values=[1]), lambda: samples.split(x=0.5, y=0.5, by="groups"), lambda: samples.oversample(None, {1: 2}),
                 lambda: samples.loader(["row"], batch_size=4, part="2 keys")):  # fmt: skip
        with pytest.raises(ValueError, match="of several columns, 'a' and others: name one column"):
            call()
    with samples.loader({"row": fb.col("row").first()}, batch_size=4, part="2 keys", part_key="a", framework="numpy") as l:
        assert l.parts == 2


def test_what_is_no_key_is_refused(tmp_path):
    table, _ = write(tmp_path, 13)
    ds = fb.open(str(tmp_path / "site={site}" / "d.parquet"))
    with pytest.raises(TypeError, match="a column is named by a str, not int: 3"):
        ds.groups(("a", 3))
    for key in ((), ("a", "a")):
        with pytest.raises(ValueError, match="several different ones"):
            ds.groups(key)
    with pytest.raises(ValueError, match="2 to 8 of them"):
        ds.groups(tuple(f"c{i}" for i in range(9)))
    with pytest.raises(fb.SchemaError, match="nowhere"):
        ds.groups(("a", "nowhere"))
    with pytest.raises(ValueError, match="no index table"):
        ds.groups(("a", "b"), table=ds, first="row", last="row")
    gaps = table.slice(0, 100).set_column(2, "b", pa.array(["x"] * 60 + [None] + ["x"] * 39))
    pq.write_table(gaps, tmp_path / "gaps.parquet")
    with pytest.raises(fb.DataError, match="the key 'a', or another column of it, is missing in row 60"):
        fb.open(str(tmp_path / "gaps.parquet")).groups(("a", "b"))


def test_a_block_that_is_read_in_pieces_has_the_groups_of_one_that_is_not(tmp_path):
    """The scan takes a million rows at a time: what goes on over such a border, and what changes just there, in one column or in both."""
    piece, rows = 1 << 20, 2_200_000
    a, b = np.zeros(rows, np.int8), np.zeros(rows, np.int8)
    a[piece:] = 1  # just there
    b[2 * piece - 5 :] = 1  # the other column, before the second border
    b[2_150_000:] = 0
    pq.write_table(pa.table({"a": a, "b": b}), tmp_path / "p.parquet", row_group_size=rows)
    ds = fb.open(str(tmp_path / "p.parquet"))
    assert len(ds.blocks) == 1
    samples = ds.groups(("a", "b"))
    assert [samples[i].start for i in range(len(samples))] == [0, piece, 2 * piece - 5, 2_150_000]
