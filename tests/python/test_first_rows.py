"""Outputs that take the first row of a group or window alone: of their columns only first rows are kept, and they are the right ones."""

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """1,600 events of 1 to 60 rows in four files, over row groups, with numbers, nulls, strings and lists; the columns in file order."""
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(0)
    tables = []
    for f in range(4):
        lengths = rng.integers(1, 61, 400)
        event = np.repeat(np.arange(400) + 1000 * f, lengths)
        n = len(event)
        table = pa.table(
            {
                "event_id": event,
                "group": event // 40,
                "t": rng.random(n).astype("f4"),
                "q": pa.array(rng.random(n), mask=rng.random(n) < 0.3),
                "k": rng.integers(0, 5, n).astype("i2"),
                "word": pa.array(["x" * (i % 9) + str(i) for i in range(n)], mask=rng.random(n) < 0.1),
                "same": pa.array([f"one of few texts, number {i // 900}" for i in range(n)]).dictionary_encode(),
                "hits": pa.array([list(range(i % 7)) for i in range(n)], pa.list_(pa.int32())),
                "pair": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int64(), 2)),
            }
        )
        tables.append(table)
        pq.write_table(table, folder / f"{f}.parquet", row_group_size=3500, data_page_size=4096)
    return fb.open(f"{folder}/*.parquet"), pa.concat_tables(tables, promote_options="default").to_pydict()


ALL = {"x": fb.col("t", "q", dtype="float32"), "k": "k"}
TABLE = {"k": [0, 1, 2, 3, 4], "v": [1.5, 2.5, 3.5, 4.5, 5.5]}


def firsts():
    return {
        "event": fb.col("event_id").first(),
        "q": fb.col("q", dtype="float32").fill_missing(-1).first(),
        "gone": fb.col("q").is_missing().first(),
        "scaled": fb.col("t").scale(2).first(),
        "word": fb.col("word").first(),
        "same": fb.col("same").first(),
        "hits": fb.col("hits").first(),
        "few": fb.col("hits").padded(max_rows=3, pad=-1).first(),
        "pair": fb.col("pair").first(),
        "group": fb.encode("group").first(),
        "looked": fb.lookup(TABLE, on="k", columns="v").first(),  # of a column that another output takes all rows of
        "second": fb.lookup({"group": range(100), "v": range(100)}, on="group", columns="v").first(),
    }


def check(batch, columns):
    x = batch["x"]
    for i, (row, n) in enumerate(zip(batch["row"].tolist(), batch["n"].tolist())):
        want = np.array([columns["t"][row : row + n], columns["q"][row : row + n]], dtype="f4").T
        got = x.values[x.offsets[i] : x.offsets[i + 1]] if hasattr(x, "offsets") else x[i]
        np.testing.assert_array_equal(got, want)
        k = batch["k"]
        assert (k.values[k.offsets[i] : k.offsets[i + 1]] if hasattr(k, "offsets") else k[i]).tolist() == columns["k"][row : row + n]
        assert batch["event"][i] == columns["event_id"][row]
        assert batch["q"][i] == np.float32(-1 if columns["q"][row] is None else columns["q"][row])
        assert batch["gone"][i] == (columns["q"][row] is None)
        assert batch["scaled"][i] == np.float32(np.float64(columns["t"][row]) * 2)
        assert batch["word"][i] == (columns["word"][row] or "") and batch["same"][i] == columns["same"][row]
        hits = batch["hits"]
        assert hits.values[hits.offsets[i] : hits.offsets[i + 1]].tolist() == columns["hits"][row]
        few = batch["few"].values[i][batch["few"].mask[i]].tolist()
        assert len(few) == min(3, len(columns["hits"][row])) and set(few) <= set(columns["hits"][row]) and few == sorted(few)
        pair = batch["pair"]
        assert pair.values[pair.offsets[i] : pair.offsets[i + 1]].tolist() == columns["pair"][row]
        assert batch["group"][i] == batch["names"].index(columns["group"][row]) and batch["second"][i] == columns["group"][row]
        assert batch["looked"][i] == columns["k"][row] + 1.5


def epochs(samples, columns, n_epochs=2, **options):
    """The samples of each epoch, every value of them checked."""
    options = {"batch_size": 32, "framework": "numpy", "seed": 5, **options}
    outputs = {"i": fb.sample_index(), "row": fb.row_index(), "n": fb.n_rows(), **ALL, **firsts()}
    seen = []
    with samples.loader(outputs, **options) as loader:
        names = loader.outputs["group"].names.tolist()
        for _ in range(n_epochs):
            seen.append([])
            for batch in loader:
                words = {name: batch[name].to_list() for name in ("word", "same")}
                check({**batch, **words, "names": names}, columns)
                seen[-1] += batch["i"].tolist()
        assert loader.report().budget_peak_bytes <= max(loader.report().budget_bytes, 1)
    return seen


def least(samples, outputs, **options):
    with samples.loader(outputs, **{"batch_size": 32, "framework": "numpy", "threads": 2, **options}) as loader:
        return loader.report().budget_minimum_bytes


KINDS = {
    "groups": lambda ds: ds.groups("event_id"),
    "windows": lambda ds: ds.windows(20, 5, stride=25),
    "windows that overlap": lambda ds: ds.windows(20, 5, stride=7),
    "windows of most rows": lambda ds: ds.windows(3, stride=1),  # nothing is to be spared
    "few": lambda ds: ds.groups("event_id").limit(0.02, random=True, seed=3),
    "one": lambda ds: ds.groups("event_id").select([1005]),
    "some": lambda ds: ds.groups("event_id").select("k", values=[1, 3]),
    "many times": lambda ds: ds.groups("event_id").oversample("k", {2: 5, 3: 0}),
    "drawn": lambda ds: ds.groups("event_id").resample("t", n=900, seed=2, each_epoch=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    {"shuffle": "full"}, {"superbatch": "300 samples"}, {"shuffle": False, "threads": 1}, {"shuffle": "block", "memory": "256MiB"},
], ids=str)  # fmt: skip
def test_first_rows_of_samples_of_every_kind_are_right(events, kind, options):
    ds, columns = events
    samples = KINDS[kind](ds)
    batch_size = min(32, len(samples))
    seen = epochs(samples, columns, 1 if len(samples) > 20_000 else 2, batch_size=batch_size, **options)
    assert kind == "drawn" or all(sorted(epoch) == list(range(len(samples))) for epoch in seen)


@pytest.mark.parametrize("options", [
    {"part": "1/3"}, {"part": "20 keys", "part_key": "group"}, {"part": "20 keys", "part_key": "group", "superbatch": "100 samples"},
    {"diversity_files": 3, "superbatch": "400 samples"}, {"max_superbatch_batches": 8, "superbatch": "1000 samples"},
    {"batch_elements": 900, "batch_size": None}, {"bucket_samples": 200, "superbatch": "1000 samples"}, {"threads": 4, "prefetch": 1},
], ids=str)  # fmt: skip
def test_first_rows_are_right_in_every_order(events, options):
    ds, columns = events
    samples = ds.groups("event_id")
    seen = epochs(samples, columns, 4 if "part" in options else 2, **options)
    assert "part" in options or sorted(seen[0]) == list(range(len(samples)))
    if options.get("part") == "1/3":
        assert sorted(sum(seen[:3], [])) == list(range(len(samples)))


def test_first_rows_are_right_at_the_least_budget_and_over_ranks(events):
    """Of samples of one size, of which the budget holds exactly: room for what varies is a guess, and what goes beyond it is allowed."""
    ds, columns = events
    samples = ds.windows(10, stride=25, by="group")
    numbers = {name: output for name, output in firsts().items() if name not in ("word", "same", "hits", "few", "pair")}
    outputs = {"i": fb.sample_index(), "row": fb.row_index(), **ALL, **numbers}
    for options in (
        {"superbatch": "300 samples"}, {"shuffle": "full"}, {"superbatch": "300 samples", "rank": 1, "world_size": 2},
        {"superbatch": "400 samples", "diversity_files": 3}, {"superbatch": "100 samples", "part": "30 keys"}, {"part": "5 keys", "batch_size": 8},
        {"part": "1/2"},
    ):  # fmt: skip
        memory = least(samples, outputs, **options)
        with samples.loader(outputs, **{"batch_size": 32, "memory": memory, "threads": 2, "framework": "numpy", **options}) as loader:
            for _ in range(3):
                n = 0
                for batch in loader:
                    rows = batch["row"].tolist()
                    assert batch["event"].tolist() == [columns["event_id"][r] for r in rows]
                    assert batch["second"].tolist() == [columns["group"][r] for r in rows]
                    np.testing.assert_array_equal(batch["x"][:, :, 0], np.array([columns["t"][r : r + 10] for r in rows], "f4"))
                    n += len(rows)
                assert n >= len(samples) // options.get("world_size", 1) or "part" in options
            assert loader.report().budget_peak_bytes <= memory


def test_of_columns_of_first_rows_only_these_are_kept(events):
    """What samples take of the others, not what rows would."""
    ds, columns = events
    samples, rows = ds.groups("event_id"), len(columns["t"])
    how = {"shuffle": "full"}
    plain, some = least(samples, ALL, **how), least(samples, {**ALL, "event": fb.col("event_id").first(), "group": fb.col("group").first()}, **how)
    whole = least(samples, {**ALL, "event": fb.col("event_id"), "group": fb.col("group")}, **how)
    assert whole - plain > rows * 16
    assert some - plain < (whole - plain) / 2  # two blocks are there as a whole for a moment, and their bytes as they are read
    texts = least(samples, {**ALL, "same": fb.col("same").first()}, **how)
    assert texts - plain < rows * 16 / 2  # a string takes 16 bytes beside its own, which the file bounds


@pytest.mark.parametrize("io", ["threads", "mmap"])
def test_first_rows_of_rows_that_are_read_in_place_are_right(tmp_path, io):
    """HDF5's contiguous data sets: rows as stored go straight into a panel, or stay in the map."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(4)
    event = np.repeat(np.arange(500), rng.integers(1, 30, 500))
    place, label = rng.random((len(event), 3)).astype("f4"), rng.integers(0, 9, len(event))
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["event"], f["place"], f["label"] = event, place, label
    outputs = {"row": fb.row_index(), "n": fb.n_rows(), "place": "place", "event": fb.col("event").first(), "label": fb.col("label").first()}
    ds = fb.open(tmp_path / "a.h5", io=io, immutable=io == "mmap")
    for options in ({"shuffle": "full"}, {"superbatch": "50 samples"}, {"shuffle": False}):
        with ds.groups("event").loader(outputs, batch_size=20, framework="numpy", **options) as loader:
            for _ in range(2):
                seen = 0
                for batch in loader:
                    np.testing.assert_array_equal(batch["event"], event[batch["row"]])
                    np.testing.assert_array_equal(batch["label"], label[batch["row"]])
                    wanted = [place[row : row + n] for row, n in zip(batch["row"], batch["n"])]
                    np.testing.assert_array_equal(batch["place"].values, np.concatenate(wanted))
                    seen += len(batch["row"])
                assert seen == 500
