"""Parts of an epoch by key: whole keys wherever they lie, every row once a sweep, value by value; budgets, ranks, resume, reads, pipelines."""

import logging
import pickle

import pytest

import forebay as fb
from rank_orders import check_ranks_and_states

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

KEYS = 37


def write(root, seed, files=3, sorted_by_key=True):
    """Basins of 5 to 160 rows, some of them in several places; rows, strings and lists that say which row they are of."""
    rng = np.random.default_rng(seed)
    keys = np.repeat(np.arange(KEYS), rng.integers(5, 160, KEYS))
    if not sorted_by_key:  # again, in another place, in runs of 1 to 20
        keys = np.concatenate([keys, np.repeat(rng.integers(0, KEYS, 120), rng.integers(1, 20, 120))])
    n = len(keys)
    table = pa.table({
        "row": np.arange(n), "key": keys, "basin": [f"b{k:02}" for k in keys], "real": keys / 2, "x": rng.normal(size=n).astype(np.float32),
        "word": [f"w{i}" * (i % 3) for i in range(n)], "hits": [[i] * (i % 4) for i in range(n)],
    })  # fmt: skip
    borders = np.linspace(0, n, files + 1).astype(int)
    for i, (begin, end) in enumerate(zip(borders, borders[1:])):
        pq.write_table(table.slice(begin, end - begin), root / f"f{i}.parquet", row_group_size=int(rng.integers(100, 400)), data_page_size=512,
                       write_page_index=bool(rng.integers(2)))  # fmt: skip
    return table


@pytest.fixture
def table(tmp_path):
    return write(tmp_path, 1)


OUTPUTS = ["row", "key", "x", "word", "hits"]


def loader(path, outputs=OUTPUTS, samples=None, **options):
    samples = samples or fb.open(str(path / "*.parquet")).rows()
    return samples.loader(outputs, **{"batch_size": 8, "framework": "numpy", "seed": 3, "part_key": "key", **options})


def rows_of(loader):
    return [b["row"].tolist() for b in loader]


def check_values(batch, table):
    rows = batch["row"]
    assert batch["key"].tolist() == table["key"].to_numpy()[rows].tolist()
    np.testing.assert_array_equal(batch["x"], table["x"].to_numpy()[rows])
    if "word" not in batch:
        return
    assert batch["word"].to_list() == [f"w{i}" * (i % 3) for i in rows]
    assert np.diff(batch["hits"].offsets).tolist() == [i % 4 for i in rows]
    np.testing.assert_array_equal(batch["hits"].values, np.repeat(rows, rows % 4))


@pytest.mark.parametrize("shuffle", [True, "full", "block", False])
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(("part", "parts"), [("10 keys", 4), ("1/3", 3), ("37 keys", 1), ("1 key", 37)])
def test_a_sweep_has_every_row_of_whole_keys_once(tmp_path, part, parts, spread, shuffle):
    table = write(tmp_path, 2, sorted_by_key=not spread)
    keys = table["key"].to_numpy()
    samples = fb.open(str(tmp_path / "*.parquet")).rows()  # once: an index that comes from the cache takes other memory than one that was made
    for outputs, options in ((OUTPUTS, {}), (OUTPUTS, {"superbatch": "200 samples"}), (OUTPUTS[:3], {"threads": 1}), (OUTPUTS, {"memory": "64MiB"})):
        with loader(tmp_path, outputs, samples, part=part, shuffle=shuffle, **options) as l:
            least = l.report().budget_minimum_bytes
        with loader(tmp_path, outputs, samples, part=part, shuffle=shuffle, **({"memory": least} | options)) as l:
            assert l.parts == parts
            for _ in range(2 if parts < 10 else 1):
                rows, parts_of = [], {}
                for p in range(parts):
                    n, n_samples, here = len(l), l.samples_per_epoch, []
                    for i, batch in enumerate(l):
                        check_values(batch, table)
                        here += batch["row"].tolist()
                    assert (i + 1, len(here)) == (n, n_samples)
                    assert shuffle is not False or here == sorted(here)
                    for key in set(keys[here].tolist()):
                        assert parts_of.setdefault(key, p) == p
                    rows += here
                assert sorted(rows) == list(range(len(keys))) and len(parts_of) == KEYS
            if outputs != OUTPUTS:  # those of one size: room for strings and lists is a guess, and what goes beyond it is allowed
                assert l.report().budget_peak_bytes <= l.report().budget_bytes


def test_the_order_depends_on_neither_budget_nor_threads_nor_the_column_that_has_the_keys(tmp_path, table):
    orders = []
    samples = fb.open(str(tmp_path / "*.parquet")).rows()
    with loader(tmp_path, samples=samples, part="10 keys", threads=1) as l:
        least = l.report().budget_minimum_bytes
    for options in ({}, {"memory": least, "threads": 1}, {"memory": "1GiB", "threads": 4}, {"part_key": "basin"}, {"part_key": "real"}):
        with loader(tmp_path, samples=samples, part="10 keys", **options) as l:
            orders.append([rows_of(l) for _ in range(5)])
    assert all(order == orders[0] for order in orders)
    with loader(tmp_path, part="10 keys", seed=4) as l:
        assert [rows_of(l) for _ in range(5)] != orders[0]


@pytest.mark.parametrize("kind", ["windows", "groups", "table", "selected", "oversampled", "elements"])
def test_samples_of_every_kind_come_in_parts_by_their_key(tmp_path, kind):
    table = write(tmp_path, 5, sorted_by_key=False)
    keys = table["key"].to_numpy()
    ds = fb.open(str(tmp_path / "*.parquet"))
    options = {"batch_elements": 40, "batch_size": None} if kind == "elements" else {}
    make = {
        "windows": lambda: ds.windows(4, 2, by="key", stride=3),
        "groups": lambda: ds.groups("key"),
        "elements": lambda: ds.groups("key"),
        "selected": lambda: ds.rows().select("row", low=100, high=900).limit(0.2, random=True),
        "oversampled": lambda: ds.rows().oversample("key", {3: 4, 5: 0}),
        "table": lambda: ds.groups("key", table=index_table(tmp_path, ds, keys), first="first", last="last", file="f", file_by="position"),
    }[kind]
    samples = make()
    outputs = {"i": fb.sample_index(), "n": fb.n_rows(), "row": fb.col("row")}
    default = {"part_key": None} if kind in ("windows", "groups", "table", "elements") else {}
    with loader(tmp_path, outputs, samples, part="10 keys", **default, **options) as l:
        least = l.report().budget_minimum_bytes
    with loader(tmp_path, outputs, samples, part="10 keys", memory=least, **default, **options) as l:
        seen, parts_of = [], {}
        for p in range(l.parts):
            for batch in l:
                packed = batch["row"].values if hasattr(batch["row"], "values") else np.reshape(batch["row"], -1)
                at = 0
                for i, n in zip(batch["i"].tolist(), batch["n"].tolist()):
                    rows = packed[at : at + n]
                    assert rows.tolist() == list(samples[i])
                    assert parts_of.setdefault(int(keys[rows[0]]), p) == p
                    at += n
                seen += batch["i"].tolist()
        assert sorted(seen) == list(range(len(samples)))


def index_table(root, ds, keys):
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    first_rows = np.cumsum([0] + [sum(b.row_end - b.row_begin for b in ds.blocks if b.file == f) for f in range(3)])
    begins = np.unique(np.concatenate([begins, first_rows[:-1]]))
    ends = np.append(begins[1:], len(keys)) - 1
    f = np.searchsorted(first_rows, begins, side="right") - 1
    path = root / "index.pq"
    pq.write_table(pa.table({"key": keys[begins], "first": begins - first_rows[f], "last": ends - first_rows[f], "f": f}), path)
    return fb.open(str(path))


def test_ranks_share_a_part_in_one_global_order_and_states_go_on_at_another_world_size(tmp_path, table):
    def make(rank, world, **options):
        return loader(tmp_path, part="1/4", batch_size=8 // world, rank=rank, world_size=world, tail="wrap", **options)

    check_ranks_and_states(make, lambda batch: batch["row"].tolist(), 6, later=lambda rank, world: make(rank, world, threads=1), every=5)


def test_a_state_of_other_parts_or_keys_is_refused(tmp_path, table):
    with loader(tmp_path, part="10 keys") as l:
        for options, text in (
            ({"part": "9 keys"}, "parts of 10 keys, this loader has parts of 9 keys"),
            ({"part": "1/3"}, "parts of 10 keys, this loader has 3 parts by key"),
            ({"part": "1/3", "part_key": None}, "parts of 10 keys, this loader has 3 parts:"),
            ({"part": None, "part_key": None}, "parts of 10 keys, this loader has no parts"),
            ({"part_key": "x"}, "parts by other keys"),
        ):
            with loader(tmp_path, **{"part": "10 keys", **options}) as other, pytest.raises(ValueError, match=text):
                other.load_state_dict(l.state_dict())
        old = l.state_dict()
        assert old["part_keys"] == 10 and old["part_keys_hash"] > 0


def test_what_cannot_be_is_refused_with_what_would_work(tmp_path, table):
    ds = fb.open(str(tmp_path / "*.parquet"))
    for options, text in (
        ({"part": "38 keys"}, "only 37 keys have samples: choose at most 37"),
        ({"part": "1/38"}, "only 37 keys"),
        ({"part": None}, "part='1000 keys' or part='1/10'"),
        ({"part": "2 files"}, "part='1000 keys' or part='1/10'"),
        ({"part": "9 rows"}, "'1000 keys' for one of so many keys"),
        ({"part": "9 keys", "part_key": None}, "rows have no key: name the column"),
        ({"part": "9 keys", "max_superbatch_batches": 3}, "together with parts by key"),
        ({"part": "9 keys", "diversity_files": 2}, "together with parts by key"),
    ):
        with pytest.raises(ValueError, match=text):
            loader(tmp_path, **options)
    with pytest.raises(TypeError, match="part_key=3"):
        loader(tmp_path, part="9 keys", part_key=3)
    with pytest.raises(fb.SchemaError, match="keys"):
        loader(tmp_path, part="9 keys", part_key="keys")
    with pytest.raises(fb.UnsupportedError, match="hits"):
        loader(tmp_path, part="9 keys", part_key="hits")
    assert len(ds) == len(table)
    gaps = table.set_column(1, "key", pa.array([None if i == 77 else k for i, k in enumerate(table["key"].to_pylist())]))
    pq.write_table(gaps, tmp_path / "gaps.pq")
    with pytest.raises(fb.DataError, match="gaps.pq: 'key' is missing in row 77 of the file, where .*Fill it, or leave such samples out"):
        fb.open(str(tmp_path / "gaps.pq")).rows().loader(OUTPUTS, batch_size=8, part="9 keys", part_key="key")


def test_of_a_block_the_rows_of_a_part_are_kept_and_read_once(tmp_path):
    """200 basins of 5,000 rows in one file: a tenth of them takes a tenth of the memory, and each part reads each block at most once."""
    keys = np.repeat(np.arange(200), 5_000)
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=len(keys)).astype(np.float32) for i in range(8)}
    pq.write_table(pa.table({"key": keys, **columns}), tmp_path / "one.parquet", row_group_size=100_000)
    samples = fb.open(str(tmp_path / "one.parquet")).windows(30, by="key")
    how = {"batch_size": 512, "framework": "numpy", "threads": 2, "part_key": "key"}
    outputs = {"x": list(columns), "key": fb.col("key").first()}
    with samples.loader(outputs, part="20 keys", **how) as l:
        least = l.report().budget_minimum_bytes
        assert l.report().reads_per_block <= 10 + 7 / 10
    with samples.loader(outputs, part="100 keys", **how) as l:
        assert l.report().budget_minimum_bytes - least >= 80 * 5_000 * (8 * 4 + 8) - 4096
    with samples.loader(outputs, part="20 keys", memory=least, **how) as l:
        for e in range(3):
            seen = {int(k) for b in l for k in np.unique(b["key"])}
            assert len(seen) == 20
        report = l.report()
        assert report.budget_peak_bytes <= report.budget_bytes == least
        assert report.blocks_read <= 4 * (10 + 7)  # ten blocks a part, the next part's read ahead, and once more where a stream's border cuts one


def test_the_loader_pickles_and_a_pipeline_file_says_the_same(tmp_path, table):
    with loader(tmp_path, part="10 keys") as l:
        expect = [rows_of(l) for _ in range(5)]
        assert l.report().parts == 4
        with pickle.loads(pickle.dumps(l)) as twin:
            assert [rows_of(twin) for _ in range(5)] == expect
        l.to_yaml(tmp_path / "p.yaml")
    text = (tmp_path / "p.yaml").read_text()
    assert "part: 10 keys" in text and "part_key: key" in text
    with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as l:
        assert [rows_of(l) for _ in range(5)] == expect
    (tmp_path / "q.yaml").write_text(text.replace("part: 10 keys", "part: 2 files"))
    with pytest.raises(ValueError, match="part: 1000 keys, or 1/10"):
        fb.pipeline(tmp_path / "q.yaml")


@pytest.mark.filterwarnings("ignore")
def test_each_epoch_of_the_trainer_is_the_next_part(tmp_path, table):
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    import torch

    import forebay.lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(1, 1), []

        def training_step(self, batch, index):
            self.seen.append((self.current_epoch, batch["row"].tolist()))
            return self.layer(batch["x"][:, None]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-6)

    data = forebay.lightning.DataModule(
        train=str(tmp_path / "*.parquet"), val=str(tmp_path / "*.parquet"), outputs={"row": "row", "x": "x"}, batch_size=8, seed=3,
        part="10 keys", part_key="key",
    )  # fmt: skip
    model = Model()
    trainer = pl.Trainer(max_epochs=5, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                         num_sanity_val_steps=0, limit_val_batches=0, default_root_dir=tmp_path, enable_checkpointing=False)  # fmt: skip
    trainer.fit(model, data)
    data.close()
    with loader(tmp_path, part="10 keys") as l:
        assert model.seen == [(e, rows) for e in range(5) for rows in rows_of(l)]


def test_a_budget_that_holds_all_blocks_but_little_else_is_kept(tmp_path):
    """A part may have keys of every block: with all of them kept whole, nothing must be left of the room that a part alone needs less of."""
    keys = np.repeat(np.arange(200), 3_000)
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=len(keys)).astype(np.float32) for i in range(8)}
    pq.write_table(pa.table({"key": keys, **columns}), tmp_path / "one.parquet", row_group_size=60_000)
    samples = fb.open(str(tmp_path / "one.parquet")).windows(30, by="key", stride=3)
    outputs, how = {"x": list(columns)}, {"batch_size": 256, "framework": "numpy", "threads": 2}
    with samples.loader(outputs, superbatch=10 * len(samples), **how) as l:
        all_kept = l.report().budget_minimum_bytes
    for memory in range(all_kept - (2 << 20), all_kept + (48 << 20), 8 << 20):
        with samples.loader(outputs, part="20 keys", part_key="key", memory=memory, **how) as l:
            for _ in range(3):
                assert sum(len(b["x"]) for b in l) == l.samples_per_epoch
            assert l.report().budget_peak_bytes <= l.report().budget_bytes == memory


@pytest.mark.parametrize("source", ["memory", "csv", "h5", "h5 chunked", "h5 mapped", "io threads"])
def test_parts_of_other_sources_hold_the_same_values(tmp_path, source):
    """Where bytes are read in place, mapped, in chunks or not read at all, and rows between keys are given back as well."""
    rng = np.random.default_rng(3)
    keys = np.repeat(rng.permutation(KEYS), rng.integers(5, 160, KEYS))
    x = rng.normal(size=(len(keys), 3)).astype(np.float32)
    columns = {"key": keys.astype(np.int32), "row": np.arange(len(keys)), "x": x}
    if source == "memory":
        ds = fb.open({"key": columns["key"], "row": columns["row"], "x": x})
    elif source == "csv":
        (tmp_path / "d.csv").write_text("key,row,x\n" + "".join(f"{k},{i},{v}\n" for k, i, v in zip(keys, columns["row"], x[:, 0].tolist())))
        ds = fb.open(str(tmp_path / "d.csv"))
    elif source == "io threads":
        pq.write_table(pa.table({"key": columns["key"], "row": columns["row"], "x": x[:, 0]}), tmp_path / "d.parquet", row_group_size=700)
        ds = fb.open(str(tmp_path / "d.parquet"), io="threads")
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "d.h5", "w") as f:
            for name, values in columns.items():
                f.create_dataset(name, data=values, chunks=(100, *values.shape[1:]) if source == "h5 chunked" else None)
        ds = fb.open(str(tmp_path / "d.h5"), **({"io": "mmap", "immutable": True} if source == "h5 mapped" else {}))
    with loader(tmp_path, ["row", "key", "x"], ds.rows(), part="5 keys") as l:
        least = l.report().budget_minimum_bytes
    for memory in (least, "256MiB"):
        with loader(tmp_path, ["row", "key", "x"], ds.rows(), part="5 keys", memory=memory) as l:
            seen = []
            for _ in range(l.parts):
                for batch in l:
                    rows = batch["row"]
                    np.testing.assert_array_equal(batch["key"], keys[rows])
                    np.testing.assert_allclose(np.reshape(batch["x"], (len(rows), -1)), x[rows] if np.ndim(batch["x"]) == 2 else x[rows, :1], rtol=1e-6)
                    seen += rows.tolist()
            assert sorted(seen) == list(range(len(keys)))
            assert l.report().budget_peak_bytes <= l.report().budget_bytes
