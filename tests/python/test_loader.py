"""The loader: order, epochs, options, errors."""

import pickle
import threading

import pytest

import forebay as fb
from loader_compare import assert_loader_delivers

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")


@pytest.fixture
def many(tmp_path, parquet):
    """12 files of 100 rows: a = row number, b = 2a, c = int8, with a text."""
    for i in range(12):
        a = np.arange(i * 100, i * 100 + 100)
        parquet({"a": a, "b": a * 2.0, "c": (a % 100).astype(np.int8), "s": [f"s{v}" for v in a]}, f"many/{i:02}.parquet", row_group_size=40)
    return fb.open(tmp_path / "many")


def rows(loader, name="a"):
    return np.concatenate([np.asarray(b[name]) for b in loader])


def test_file_order_is_file_order(many):
    with many.loader("a", batch_size=77, shuffle=False, framework="numpy") as loader:
        assert len(loader) == 16 and loader.batch_size == 77 and len(loader.dataset) == 1200 and loader.samples_per_epoch == 1200
        batches = list(loader)
        assert [len(b["a"]) for b in batches] == [77] * 15 + [45]
        assert [b.index for b in batches] == list(range(16)) and {b.epoch for b in batches} == {0}
        assert np.array_equal(np.concatenate([b["a"] for b in batches]), np.arange(1200))


@pytest.mark.parametrize("shuffle", [True, "superbatch", "full", "block"])
def test_every_shuffle_delivers_every_row_once_and_depends_on_seed_and_epoch(many, shuffle):
    def epoch(seed, number, **options):
        with many.loader("a", batch_size=50, shuffle=shuffle, seed=seed, epoch=number, framework="numpy", **options) as loader:
            return rows(loader)

    first = epoch(0, 0)
    assert np.array_equal(np.sort(first), np.arange(1200)) and not np.array_equal(first, np.arange(1200))
    assert np.array_equal(first, epoch(0, 0, threads=1)) and np.array_equal(first, epoch(0, 0, threads=8, prefetch=9))
    assert not np.array_equal(first, epoch(1, 0)) and not np.array_equal(first, epoch(0, 1))


def test_the_order_does_not_depend_on_the_outputs(many):
    with many.loader({"x": fb.col("a", dtype="float32")}, batch_size=50, framework="numpy") as one:
        first = rows(one, "x").astype(int)
    with many.loader(batch_size=50, framework="numpy") as two:
        assert np.array_equal(rows(two), first)
    with many.loader({"i": fb.sample_index()}, batch_size=50, framework="numpy") as three:
        assert np.array_equal(rows(three, "i"), first)


def test_iter_begins_the_next_epoch_break_ends_it_set_epoch_chooses(many):
    with many.loader("a", batch_size=100, seed=4, framework="numpy") as loader:
        assert loader.epoch is None
        epochs = [rows(loader) for _ in range(3)]
        assert loader.epoch == 2
        assert not np.array_equal(epochs[0], epochs[1])
        for batch in loader:
            assert batch.epoch == 3
            break
        loader.set_epoch(1)
        assert np.array_equal(rows(loader), epochs[1]) and loader.epoch == 1
        assert next(iter(loader)).epoch == 2
    with many.loader("a", batch_size=100, seed=4, epoch=2, framework="numpy") as loader:
        assert np.array_equal(rows(loader), epochs[2])
    with many.loader("a", batch_size=100, seed=4, framework="numpy") as loader:
        with pytest.raises(ValueError, match="epoch=-1"):
            loader.set_epoch(-1)


def test_an_older_iterator_of_the_same_loader_is_over(many):
    with many.loader("a", batch_size=10, framework="numpy") as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(fb.StateError, match="iter\\(\\) was called again"):
            next(first)
        next(second)
        del first
        assert len(rows(second)) == 1190
        assert list(second) == []


def test_tails(many):
    for tail, n, last in (("keep", 13, 12 * 100), ("drop", 12, 0), ("wrap", 13, 0)):
        with many.loader("a", batch_size=99, shuffle=False, tail=tail, framework="numpy") as loader:
            sizes = [len(b["a"]) for b in loader]
            assert len(sizes) == len(loader)
            assert sum(sizes) == {"keep": 1200, "drop": 1188, "wrap": 1287}[tail]
    with many.loader("a", batch_size=99, drop_last=True, framework="numpy") as loader:
        assert len(loader) == 12 and loader.samples_per_epoch == 1188
    with pytest.raises(ValueError, match="both say what becomes of the last batch"):
        many.loader("a", batch_size=9, drop_last=True, tail="keep")


def test_ranks_share_an_epoch(many):
    got = []
    for rank in range(4):
        with many.loader("a", batch_size=30, rank=rank, world_size=4, seed=2, framework="numpy") as loader:
            assert len(loader) == 10 and (loader.rank, loader.world_size) == (rank, 4)
            got.append(rows(loader))
    assert np.array_equal(np.sort(np.concatenate(got)), np.arange(1200))
    with pytest.raises(ValueError, match="go together"):
        many.loader("a", batch_size=1, rank=0)
    with pytest.raises(ValueError, match="rank=4"):
        many.loader("a", batch_size=1, rank=4, world_size=4)


def test_rank_and_world_size_come_from_the_environment_at_the_first_iter(many, monkeypatch):
    loader = many.loader("a", batch_size=30, seed=2, framework="numpy")
    assert loader.world_size == 1 and len(loader) == 40
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    part = rows(loader)
    assert (loader.rank, loader.world_size, len(loader)) == (1, 2, 20) and len(part) == 600
    with many.loader("a", batch_size=30, seed=2, rank=1, world_size=2, framework="numpy") as given:
        assert np.array_equal(rows(given), part)
    loader.close()


def test_outputs_stack_cast_fill_and_mark(parquet):
    table = pa.table(
        {
            "a": pa.array([1, 2, None, 4], pa.int32()),
            "b": pa.array([0.5, None, 1.5, 2.5], pa.float64()),
            "c": pa.array([1, 2, 3, 4], pa.int32()),
            "k": pa.array([True, False, None, True]),
        }
    )
    ds = fb.open(parquet(table))
    outputs = {
        "plain": "c", "axis": ["c"], "pair": fb.col("a", "b"), "filled": fb.col("a").fill_missing(-1), "miss": fb.col("a").is_missing(),
        "misses": fb.col("a", "b").is_missing(), "half": fb.col("b", dtype="float16").fill_missing(9), "k": fb.col("k").fill_missing(0),
        "row": fb.sample_index(), "wide": fb.col("a").cast("float64"),
    }  # fmt: skip
    with ds.loader(outputs, batch_size=4, shuffle=False, framework="numpy") as loader:
        infos = loader.outputs
        (b,) = loader
    nan = np.nan
    assert list(b) == list(outputs)
    assert b["plain"].tolist() == [1, 2, 3, 4] and b["plain"].dtype == np.int32
    assert b["axis"].tolist() == [[1], [2], [3], [4]]
    assert b["pair"].dtype == np.float32 and np.array_equal(b["pair"], [[1, 0.5], [2, nan], [nan, 1.5], [4, 2.5]], equal_nan=True)
    assert b["filled"].tolist() == [1, 2, -1, 4] and b["filled"].dtype == np.int32
    assert b["miss"].tolist() == [False, False, True, False] and b["miss"].dtype == np.bool_
    assert b["misses"].tolist() == [[False, False], [False, True], [True, False], [False, False]]
    assert b["half"].dtype == np.float16 and b["half"].tolist() == [0.5, 9, 1.5, 2.5]
    assert b["k"].tolist() == [True, False, False, True] and b["row"].tolist() == [0, 1, 2, 3]
    assert np.array_equal(b["wide"], [1, 2, nan, 4], equal_nan=True)
    assert infos["pair"] == fb.OutputInfo("float32", (4, 2), False, False) and infos["plain"].shape == (4,) and infos["row"].dtype == "int64"


def test_lists_and_strings_are_packed(parquet):
    table = pa.table({"l": [[1, 2], [], None, [3]], "s": ["é", "", None, "abc"], "z": [b"\0", None, b"", b"\xff\xfe"],
                      "n": pa.array([[{"x": 1}, {"x": 2}], [], None, []])})
    ds = fb.open(parquet(table))
    with ds.loader({"l": "l", "s": "s", "z": "z", "x": fb.col("n.x").ragged()}, batch_size=3, shuffle=False, framework="numpy") as loader:
        infos = loader.outputs
        first, second = loader
    assert type(first["l"]) is fb.Ragged and type(first["s"]) is fb.Strings and type(first["z"]) is fb.Bytes
    assert first["l"].values.tolist() == [1, 2] and first["l"].offsets.tolist() == [0, 2, 2, 2] and first["l"].values.dtype == np.int64
    assert first["l"].to_list() == [[1, 2], [], []] and second["l"].to_list() == [[3]]
    assert first["s"].to_list() == ["é", "", ""] and second["s"].to_list() == ["abc"] and first["s"].values.dtype == np.uint8
    assert first["z"].to_list() == [b"\0", b"", b""] and second["z"].to_list() == [b"\xff\xfe"]
    assert first["x"].to_list() == [[1, 2], [], []]
    assert infos["l"].ragged and not infos["l"].text and infos["s"].text and infos["l"].shape == (-1,)


def test_default_outputs_are_all_columns_that_can_be_tensors(parquet):
    table = pa.table({"a": [1], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "s": ["x"], "st": pa.array([{"p": 1.0, "q": "y"}])})
    with fb.open(parquet(table)).loader(batch_size=1, framework="numpy") as loader:
        assert list(loader.outputs) == ["a", "s", "st.p", "st.q"]


def test_batches_come_as_dict_tuple_or_namedtuple(many):
    kinds = {}
    for as_ in ("dict", "tuple", "namedtuple"):
        with many.loader(["a", "b"], batch_size=3, shuffle=False, framework="numpy", as_=as_) as loader:
            kinds[as_] = next(iter(loader))
    assert type(kinds["dict"]) is fb.Batch and isinstance(kinds["dict"], dict) and list(kinds["dict"]) == ["a", "b"]
    assert type(kinds["tuple"]) is tuple and kinds["tuple"][1].tolist() == [0, 2, 4]
    assert kinds["namedtuple"].b.tolist() == [0, 2, 4] and kinds["namedtuple"]._fields == ("a", "b")
    with pytest.raises(ValueError, match="'not a name' cannot be an attribute"):
        many.loader({"not a name": "a"}, batch_size=3, as_="namedtuple")
    with pytest.raises(ValueError, match="as_='list'"):
        many.loader("a", batch_size=3, as_="list")


def test_options_that_do_not_fit_are_refused_by_name(many):
    for options, kind, hint in (
        ({"batch_size": 0}, ValueError, "batch_size=0"), ({"batch_size": 1.5}, TypeError, "batch_size must be an integer"), ({}, TypeError, "batch_size"),
        ({"batch_size": 1, "shuffle": "random"}, ValueError, "shuffle='random'"), ({"batch_size": 1, "seed": -1}, ValueError, "seed=-1"),
        ({"batch_size": 1, "tail": "cut"}, ValueError, "tail='cut'"), ({"batch_size": 1, "memory": "8G"}, ValueError, "8GiB"),
        ({"batch_size": 1, "threads": 0}, ValueError, "threads=0"), ({"batch_size": 1, "framework": "jax"}, ValueError, "framework='jax'"),
        ({"batch_size": 1, "prefetch": 0}, ValueError, "prefetch=0"), ({"batch_size": 1, "colour": "red"}, TypeError, "colour"),
        ({"batch_size": 1, "streams": 0}, ValueError, "streams=0"), ({"batch_size": 1, "shuffle": 2}, ValueError, "shuffle=2"),
    ):  # fmt: skip
        with pytest.raises(kind, match=hint):
            many.loader("a", **options)


def test_columns_that_cannot_be_outputs_are_refused_by_name(many, parquet):
    with pytest.raises(fb.SchemaError, match="aa"):
        many.loader("aa", batch_size=1)
    with pytest.raises(fb.Error, match="'s'"):
        many.loader({"x": fb.col("a", "s")}, batch_size=1)
    table = pa.table({"st": pa.array([{"p": 1.0}]), "ll": pa.array([[[1]]])})
    ds = fb.open(parquet(table))
    with pytest.raises(fb.Error, match="st.p"):
        ds.loader("st", batch_size=1)
    with pytest.raises(fb.UnsupportedError, match="'ll'"):
        ds.loader("ll", batch_size=1)


def test_a_missing_integer_without_a_stand_in_is_an_error_naming_it(parquet):
    ds = fb.open(parquet({"a": pa.array([1] * 50 + [None] * 50, pa.int32())}))
    loader = ds.loader("a", batch_size=10, shuffle=False, framework="numpy")
    with pytest.raises(fb.DataError, match="'?a'?") as error:
        list(loader)
    assert isinstance(error.value, ValueError) and error.value.status == "FBY_E_DATA"
    with ds.loader({"a": fb.col("a").fill_missing(7)}, batch_size=100, shuffle=False, framework="numpy") as loader:
        assert next(iter(loader))["a"].tolist() == [1] * 50 + [7] * 50


def test_a_budget_too_small_says_the_smallest_that_would_do(many):
    with pytest.raises(fb.BudgetError, match="smallest|at least|minimum") as error:
        many.loader("a", batch_size=10, memory=1000)
    assert error.value.status == "FBY_E_BUDGET"


def test_a_file_that_vanishes_or_changes_is_an_error_and_the_loader_lives_on(tmp_path, parquet):
    for i in range(3):
        parquet({"a": np.arange(100) + i}, f"d/{i}.parquet")
    ds = fb.open(tmp_path / "d", cache_dir="")
    loader = ds.loader("a", batch_size=10, shuffle=False, framework="numpy")
    path = tmp_path / "d/1.parquet"
    data = path.read_bytes()
    path.write_bytes(data + b"more")
    with pytest.raises((fb.ChangedError, fb.ReadError), match="1.parquet"):
        list(loader)
    path.unlink()
    loader.set_epoch(0)
    with pytest.raises(fb.Error, match="1.parquet"):
        list(loader)
    loader.close()


def test_a_closed_loader_says_so(many):
    loader = many.loader("a", batch_size=10, framework="numpy")
    iterator = iter(loader)
    batch = next(iterator)
    loader.close()
    loader.close()
    assert loader.closed and repr(loader) == "<forebay.Loader, closed>" and len(loader) == 120
    for use in (lambda: iter(loader), lambda: next(iterator), loader.report):
        with pytest.raises(fb.StateError, match="closed"):
            use()
    assert len(batch["a"]) == 10


def test_closing_while_another_thread_waits(many):
    loader = many.loader("a", batch_size=1, framework="numpy")
    iterator = iter(loader)
    seen = []

    def consume():
        try:
            while True:
                next(iterator)
        except (fb.Error, StopIteration) as error:
            seen.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    loader.close()
    thread.join(20)
    assert not thread.is_alive() and loader.closed and seen


def test_two_loaders_over_one_dataset_run_side_by_side(many):
    with many.loader("a", batch_size=100, seed=1, framework="numpy") as one, many.loader("a", batch_size=100, seed=2, framework="numpy") as two:
        pairs = list(zip(one, two))
    assert np.array_equal(np.sort(np.concatenate([a["a"] for a, _ in pairs])), np.arange(1200))
    assert np.array_equal(np.sort(np.concatenate([b["a"] for _, b in pairs])), np.arange(1200))


def test_a_loader_pickles_as_its_specification(many):
    loader = many.loader({"x": fb.col("a").cast("float32"), "i": fb.sample_index()}, batch_size=64, seed=9, memory="2GiB", framework="numpy", as_="tuple")
    again = pickle.loads(pickle.dumps(loader))
    for (x, i), (y, j) in zip(loader, again, strict=True):
        assert np.array_equal(x, y) and np.array_equal(i, j)
    loader.close()
    again.close()


def test_a_small_budget_and_small_superbatches_deliver_the_same_rows(many):
    table = pa.table(many)
    assert_loader_delivers(many, table, shuffle=True, superbatch="4 blocks", streams=2, batch_size=32, memory="64MiB")
    assert_loader_delivers(many, table, shuffle=True, superbatch="100 samples", streams=1, batch_size=32)


def test_a_dataset_without_rows_is_a_table_but_no_source_of_batches(parquet):
    ds = fb.open(parquet({"a": pa.array([], pa.int32())}))
    assert len(ds) == 0 and ds.read()["a"].dtype == np.int32 and pa.table(ds).num_rows == 0
    with pytest.raises(fb.ArgumentError, match="no rows"):
        ds.loader("a", batch_size=4)


def test_the_report_tells_where_the_time_went(many):
    with many.loader(batch_size=50, framework="numpy", superbatch="6 blocks") as loader:
        for _ in loader:
            pass
        report = loader.report()
    assert (report.samples, report.batches, report.epochs_begun) == (1200, 24, 1)
    assert report.blocks_read >= 36 and report.bytes_delivered > 0 and report.elapsed_ns > 0 and report.samples_per_second > 0
    assert report.wait_ns <= report.elapsed_ns and report.threads >= 1 and report.verdict
    as_dict = report.to_dict()
    assert as_dict["samples"] == 1200 and as_dict["verdict"] == report.verdict
    assert as_dict["limit"] == report.limit and 0 <= as_dict["confidence"] <= 1
    text = str(report)
    for word in ("samples/s", "read", "decompress", "decode", "assemble", "wait", "work", "verdict", "memory", "superbatch"):
        assert word in text
    bars = [line for line in text.splitlines() if (line.endswith("%") or "%  " in line) and " confidence " not in line]
    assert len({line.index("%") for line in bars}) == 1, "the shares are aligned"
    assert max(map(len, text.splitlines())) < 400


def test_the_mixing_line_is_logged_once(many, caplog):
    with caplog.at_level("INFO", logger="forebay"), many.loader("a", batch_size=50, framework="numpy") as loader:
        list(loader)
        list(loader)
        messages = [r.getMessage() for r in caplog.records if r.name == "forebay"]
        assert messages.count(loader.report().mixing) == 1 and sum("limit: " in message for message in messages) == 2, messages


def test_the_repr_names_the_outputs(many):
    with many.loader({"x": ["a", "b"], "s": "s"}, batch_size=64) as loader:
        text = repr(loader)
    assert "19 batches of 64 from 1,200 samples" in text and "float32 (B, 2)" in text and "strings" in text
