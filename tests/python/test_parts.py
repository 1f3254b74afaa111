"""Parts of an epoch: whole files, every row once a sweep; lengths; resume; under Lightning, reloading its dataloaders or not."""

import itertools
import json
import logging
import pickle

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FILES, ROWS = 11, [40, 7, 25, 33, 40, 18, 5, 60, 12, 40, 31]


@pytest.fixture
def files(tmp_path):
    first = 0
    for i, n in enumerate(ROWS):
        table = pa.table({"file": np.full(n, i), "row": np.arange(first, first + n), "x": np.arange(n, dtype=np.float32)[:, None].ravel()})
        pq.write_table(table, tmp_path / f"f{i:02}.parquet", row_group_size=13)
        first += n
    return str(tmp_path / "*.parquet")


def loader(files, **options):
    return fb.open(files).rows().loader(["file", "row"], **{"batch_size": 8, "framework": "numpy", "seed": 3, **options})


def epoch(loader):
    batches = list(loader)
    return np.concatenate([b["file"] for b in batches]), np.concatenate([b["row"] for b in batches]), len(batches)


@pytest.mark.parametrize(("part", "parts"), [("4 files", 3), ("1/3", 3), ("1 file", 11), ("1/4", 4)])
def test_a_sweep_has_every_row_once_and_whole_files(files, part, parts):
    with loader(files, part=part) as l:
        assert l.parts == parts
        sweeps = []
        for _ in range(2):
            rows, seen = [], []
            for _ in range(parts):
                n, samples = len(l), l.samples_per_epoch  # of the part that comes
                file, row, batches = epoch(l)
                assert batches == n
                assert len(row) == samples == sum(ROWS[f] for f in set(file.tolist()))
                seen.append(frozenset(file.tolist()))
                rows.extend(row.tolist())
            assert sorted(rows) == list(range(sum(ROWS)))
            assert sum(map(len, seen)) == FILES
            sweeps.append(tuple(seen))
        assert sweeps[0] != sweeps[1]


def test_len_is_that_of_the_epoch_that_runs_or_comes_next(files):
    with loader(files, part="4 files") as l:
        lengths = []
        for e in range(6):
            l.set_epoch(e)
            lengths.append(len(l))
        assert len(set(lengths)) > 1
        l.set_epoch(0)
        for e in range(5):
            for k, _ in enumerate(l):
                assert len(l) == lengths[e]
            assert k + 1 == lengths[e]
            assert len(l) == lengths[e + 1]
        it = iter(l)
        next(it)
        assert it.__length_hint__() == lengths[5]


def test_a_state_goes_on_inside_any_part_and_fits_json(files):
    with loader(files, part="4 files") as l, loader(files, part="4 files", threads=1) as other:
        for e in range(4):
            rows = []
            states = []
            for batch in l:
                rows.append(batch["row"])
                states.append(json.loads(json.dumps(l.state_dict())))
            for k in (0, 1, len(rows) // 2, len(rows) - 1):
                assert states[k]["epoch"] == e
                other.load_state_dict(states[k])
                assert len(other) == len(rows)
                rest = [b["row"] for b in other]
                assert len(rest) == len(rows) - k - 1
                for a, b in zip(rest, rows[k + 1 :]):
                    np.testing.assert_array_equal(a, b)


def test_a_state_of_other_parts_is_refused_and_one_without_goes_on_without(files):
    with loader(files, part="4 files") as l, loader(files) as plain:
        with pytest.raises(ValueError, match="no parts, this loader has parts of 4 files"):
            l.load_state_dict(plain.state_dict())
        with pytest.raises(ValueError, match="parts of 4 files, this loader has no parts"):
            plain.load_state_dict(l.state_dict())
        old = plain.state_dict()
        del old["part_files"], old["n_parts"]  # as 0.1 wrote it
        plain.load_state_dict(old)
        for damage in (-1, "4", 2**40, True):
            with pytest.raises(ValueError, match="damaged: part_files"):
                l.load_state_dict({**l.state_dict(), "part_files": damage})


def test_what_cannot_be_is_refused_with_what_would_work(files):
    for part in ("4", "files", "4 rows", "0.5", 4, "2/3", "1/x", "-1 files"):
        with pytest.raises(ValueError, match="1000 files"):
            loader(files, part=part)
    with pytest.raises(ValueError, match="at most 11"):
        loader(files, part="1/12")
    with pytest.raises(ValueError):
        loader(files, part="0 files")


def test_ranks_share_a_part_and_have_equal_lengths(files):
    orders = {}
    for world in (1, 2, 4):
        ranks = [loader(files, part="1/3", batch_size=8 // world, rank=r, world_size=world, tail="wrap") for r in range(world)]
        orders[world] = []
        for _ in range(4):
            batches = [[b["row"] for b in l] for l in ranks]
            assert len({len(b) for b in batches}) == 1
            orders[world].append([np.concatenate(step).tolist() for step in zip(*batches)])
        for l in ranks:
            l.close()
    assert orders[1] == orders[2] == orders[4]


# ---- what ranks read ----

COLUMNS = ["x0", "x1", "x2", "x3"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """24 files of 60,000 to 100,000 rows in row groups of 10,000: 43 MiB in 205 blocks. k changes every 2 to 40 rows."""
    root = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    for i in range(24):
        n = int(rng.integers(60_000, 100_000))
        columns = {name: rng.normal(size=n).astype(np.float32) for name in COLUMNS}
        key = np.repeat(np.arange(n), rng.integers(2, 41, n))[:n] + 1_000_000 * i
        pq.write_table(pa.table({**columns, "k": key}), root / f"{i:02}.parquet", row_group_size=10_000)
    return fb.open(root)


def read_by_all(samples, world, **options):
    """(bytes, blocks) that the ranks read together. Footers are read when the data set is opened and are not counted."""
    total, blocks = 0, 0
    for rank in range(world):
        how = {"batch_size": 512 // world, "superbatch": "200000 samples", "seed": 5, "threads": 2, "framework": "numpy", **options}
        with samples.loader({"x": COLUMNS}, rank=rank, world_size=world, **how) as l:
            for _ in l:
                pass
            total, blocks = total + l.report().bytes_read, blocks + l.report().blocks_read
    return total, blocks


@pytest.mark.parametrize("kind", ["rows", "rows within a small budget", "windows", "groups"])
def test_ranks_share_the_bytes_of_an_epoch(large, kind):
    samples = {"windows": lambda: large.windows(30, stride=10), "groups": lambda: large.groups("k")}.get(kind, large.rows)()
    options = {"memory": "24MiB"} if kind == "rows within a small budget" else {}
    if kind in ("windows", "groups"):
        options["superbatch"] = f"{len(samples) // 9} samples"
    alone, alone_blocks = read_by_all(samples, 1, **options)
    assert alone_blocks >= len(large.blocks) == 205 and alone >= 16 * len(large)
    for world in (2, 4, 8):
        together, blocks = read_by_all(samples, world, **options)
        assert alone_blocks <= blocks <= alone_blocks + world - 1  # a border between two ranks cuts one block, which both read
        assert together <= 1.05 * alone


@pytest.mark.parametrize("options", [{"superbatch": "400000 samples"}, {"part": "1/3"}, {"shuffle": "block"}], ids=["superbatch", "part", "block"])
def test_ranks_need_the_memory_of_their_share_and_keep_within_it(large, options):
    smallest = []
    for world in (1, 2, 4, 8):
        how = {"batch_size": 512 // world, "rank": world - 1, "world_size": world, "tail": "wrap", "threads": 1, "framework": "numpy", **options}
        with large.loader({"x": COLUMNS}, **how) as l:
            smallest.append(l.report().budget_minimum_bytes)
        with pytest.raises(fb.BudgetError, match=f"at least {smallest[-1]} bytes"):
            large.loader({"x": COLUMNS}, memory=smallest[-1] - 1, **how)
        with large.loader({"x": COLUMNS}, memory=smallest[-1], **how) as l:
            for _ in range(2):
                assert sum(len(b["x"]) for b in l) > 0
            assert l.report().budget_peak_bytes <= l.report().budget_bytes == smallest[-1]
    assert smallest == sorted(smallest, reverse=True) and smallest[-1] < 0.8 * smallest[0]


def test_ranks_share_the_bytes_of_a_part_that_is_mixed_as_a_whole(large):
    first = {}
    for epoch in range(2):  # the part, and the next one, which is read while it ends
        with large.loader("k", batch_size=4096, part="1/3", epoch=epoch, seed=5, framework="numpy") as l:
            first[epoch] = {int(f) for b in l for f in np.unique(b["k"] // 1_000_000)}
    blocks_of = [sum(b.file in files for b in large.blocks) for files in first.values()]
    assert sum(map(len, first.values())) == 16 and all(n > 60 for n in blocks_of)
    for world in (1, 2, 4):
        _, blocks = read_by_all(large.rows(), world, superbatch=None, part="1/3")
        assert blocks_of[0] <= blocks <= sum(blocks_of) + 2 * (world - 1) <= 1.05 * sum(blocks_of)


def test_without_shuffle_the_parts_are_the_files_in_order(files):
    with loader(files, part="4 files", shuffle=False) as l:
        rows = [row for _ in range(3) for row in epoch(l)[1].tolist()]
        assert rows == list(range(sum(ROWS)))


def test_the_loader_pickles_with_its_parts(files):
    with loader(files, part="4 files") as l, pickle.loads(pickle.dumps(l)) as twin:
        assert twin.parts == 3
        np.testing.assert_array_equal(epoch(l)[1], epoch(twin)[1])


def test_the_report_says_how_many_parts(files):
    with loader(files, part="4 files") as l:
        assert l.report().parts == 3 and "3 parts" in str(l.report())
    with loader(files) as l:
        assert l.report().parts == 1 and "parts" not in str(l.report())


# ---- Lightning ----


@pytest.fixture
def lightning():
    module = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return module


def make_model(pl, stop=None):
    import torch

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen, self.last, self.validations = [], [], 0

        def training_step(self, batch, index):
            self.seen.append((self.current_epoch, batch["row"].tolist()))
            if self.trainer.is_last_batch:
                self.last.append((self.current_epoch, index))
            return self.layer(batch["x"][:, None]).square().mean()

        def on_train_batch_end(self, *_):
            if self.global_step == stop:
                raise KeyboardInterrupt

        def validation_step(self, batch, index):
            self.validations += 1

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-6)

    return Model()


def fit(pl, files, tmp_path, stop=None, ckpt=None, epochs=7, **options):
    import forebay.lightning

    data = forebay.lightning.DataModule(
        train=files, val=files, outputs={"row": "row", "x": "x"}, batch_size=8, seed=3, part="4 files", **options.pop("data", {})
    )
    model = make_model(pl, stop)
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        default_root_dir=tmp_path, enable_checkpointing=False, **options,
    )  # fmt: skip
    try:
        trainer.fit(model, data, ckpt_path=ckpt)
    except (KeyboardInterrupt, SystemExit):
        pass
    if stop:
        trainer.save_checkpoint(tmp_path / "stopped.ckpt")
    data.close()
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reload", [0, 1, 3])
def test_each_epoch_of_the_trainer_is_the_next_part(lightning, files, tmp_path, reload):
    model = fit(lightning, files, tmp_path, reload_dataloaders_every_n_epochs=reload)
    with loader(files, part="4 files") as l:
        expect = [(e, b["row"].tolist()) for e in range(7) for b in l]
    assert model.seen == expect
    lengths = [len(list(g)) for _, g in itertools.groupby(expect, key=lambda s: s[0])]
    assert len(set(lengths)) > 1
    assert model.last == [(e, n - 1) for e, n in enumerate(lengths)]  # Lightning knew which batch was the last
    assert model.validations == 7 * -(-sum(ROWS) // 8)  # all files, at the end of every part


@pytest.mark.filterwarnings("ignore")
def test_ten_epochs_of_a_thousand_files_see_ten_thousand_once(lightning, tmp_path):
    """As basins are trained: an epoch is a part of 1,000 files, ten are all of them, and the next ten are drawn anew."""
    import forebay.lightning

    n, rows, sweeps = 10_000, 3, 2
    pq.write_table(pa.table({"x": np.arange(rows, dtype=np.float32)}), tmp_path / "0.parquet")
    raw = (tmp_path / "0.parquet").read_bytes()
    for file in range(1, n):
        (tmp_path / f"{file}.parquet").write_bytes(raw)
    model = make_model(lightning)
    data = forebay.lightning.DataModule(
        train=f"{tmp_path}/*.parquet", outputs={"row": fb.sample_index(), "x": "x"}, batch_size=1_000, seed=3, part="1000 files"
    )
    trainer = lightning.Trainer(
        max_epochs=10 * sweeps, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(model, data)
    data.close()
    seen = [np.bincount(np.concatenate([batch for e, batch in model.seen if e == epoch]) // rows, minlength=n) for epoch in range(10 * sweeps)]
    assert all((of > 0).sum() == 1_000 and of.sum() == 1_000 * rows for of in seen)
    for sweep in range(sweeps):
        assert (sum(seen[10 * sweep : 10 * (sweep + 1)]) == rows).all()
    assert not np.array_equal(seen[0], seen[10])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reload", [0, 1])
@pytest.mark.parametrize("step", [1, 20])
def test_a_trainer_stopped_inside_a_part_goes_on_there(lightning, files, tmp_path, reload, step):
    whole = fit(lightning, files, tmp_path, reload_dataloaders_every_n_epochs=reload)
    first = fit(lightning, files, tmp_path, stop=step, reload_dataloaders_every_n_epochs=reload)
    second = fit(lightning, files, tmp_path, ckpt=tmp_path / "stopped.ckpt", reload_dataloaders_every_n_epochs=reload)
    assert [rows for _, rows in first.seen] == [rows for _, rows in whole.seen[:step]]
    assert [rows for _, rows in second.seen] == [rows for _, rows in whole.seen[step:]]


def test_a_part_of_more_files_than_there_are_is_all_of_them(files):
    with pytest.warns(UserWarning, match=r'^part="1000 files" is more files than there are with samples: every epoch is all of them, one part$'):
        many = loader(files, part="1000 files", superbatch="6 blocks", streams=1)  # of 29
    all_of_them = loader(files, part="11 files", superbatch="6 blocks", streams=1)
    assert many.report().parts == 1 and many.report().mixing == all_of_them.report().mixing
    assert "mixes over fewer blocks, in smaller superbatches" in many.report().mixing
    assert len(many) == len(all_of_them)
