"""The end of an epoch on several ranks: repeats are marked wherever they come; tail="uneven" gives every sample once."""

import itertools
import json

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
N = 400


@pytest.fixture
def files(parquet, tmp_path):
    sizes = [70, 3, 90, 37, 100, 60, 40]
    for i, (n, end) in enumerate(zip(sizes, itertools.accumulate(sizes))):
        parquet({"row": np.arange(end - n, end), "event": i * 100 + (2 * np.arange(n) ** 0.5).astype(int)}, f"data/{i}.parquet", row_group_size=25)
    return str(tmp_path / "data" / "*.parquet")


def by_length(options):
    return "batch_elements" in options or "bucket_samples" in options


def all_rows(ds, options):
    if not by_length(options):
        return list(range(N))
    with ds.groups("event").loader({"row": fb.col("row").first()}, batch_size=N, shuffle=False, framework="numpy") as loader:
        return next(iter(loader))["row"].tolist()


def batches(ds, rank, world, batch_size=64, **options):
    samples = ds.groups("event") if by_length(options) else ds.rows()
    with samples.loader({"row": fb.col("row").first(), "again": fb.is_repeat()}, batch_size=batch_size, rank=rank, world_size=world,
                        framework="numpy", **options) as loader:
        n, samples, report = len(loader), loader.samples_per_epoch, loader.report()
        out = list(loader)
        assert len(out) == n and sum(len(b["row"]) for b in out) == samples
        return out, report


KINDS = [{"shuffle": False}, {"shuffle": "block"}, {"shuffle": "full"}, {"superbatch": 100}, {"superbatch": 100, "memory": "8MiB"},
         {"batch_elements": 50}, {"batch_elements": 50, "bucket_samples": 40}, {"bucket_samples": 128}, {"part": "1/2"},
         {"part": "1/3", "shuffle": False}]  # fmt: skip


def ids(options):
    return ", ".join(f"{k}={v}" for k, v in options.items())


@pytest.mark.parametrize("options", KINDS, ids=ids)
@pytest.mark.parametrize("world", [1, 2, 4])
def test_samples_that_are_no_repeats_come_once(files, world, options):
    ds = fb.open(files)
    rows, again, wrapped = [], 0, set()
    for rank in range(world):
        out, report = batches(ds, rank, world, **options)
        wrapped.add(report.wrapped)
        for i, batch in enumerate(out):
            assert batch["again"].dtype == bool
            assert i + 1 == len(out) or not batch["again"].any() or "batch_elements" in options
            rows.extend(batch["row"][~batch["again"]].tolist())
            again += int(batch["again"].sum())
    assert len(set(rows)) == len(rows) and wrapped == {again} and (world > 1 or again == 0)
    if "part" not in options:
        assert sorted(rows) == all_rows(ds, options)
    if options == {"shuffle": False} and world == 2:
        assert again == 112


@pytest.mark.parametrize("options", KINDS, ids=ids)
@pytest.mark.parametrize(("world", "batch_size"), [(1, 64), (2, 64), (4, 64), (8, 64), (2, 400), (4, 8)])
def test_uneven_gives_every_sample_once(files, world, batch_size, options):
    ds = fb.open(files)
    for epoch in range(2):
        rows, lengths = [], []
        for rank in range(world):
            out, report = batches(ds, rank, world, batch_size, tail="uneven", epoch=epoch, **options)
            assert report.wrapped == report.dropped == 0 and not any(b["again"].any() for b in out)
            rows.extend(r for b in out for r in b["row"].tolist())
            lengths.append(len(out))
        assert len(set(rows)) == len(rows)
        assert max(lengths) - min(lengths) <= 1 or "batch_elements" in options
        if "part" not in options:
            assert sorted(rows) == all_rows(ds, options)


def test_the_global_sequence_is_that_of_one_rank(files):
    ds = fb.open(files)
    for options in KINDS[:5]:
        alone = [b["row"].tolist() for b in batches(ds, 0, 1, 128, **options)[0]]
        shares = [[b["row"].tolist() for b in batches(ds, rank, 4, 32, tail="uneven", **options)[0]] for rank in range(4)]
        assert [sum(parts, []) for parts in itertools.zip_longest(*shares, fillvalue=[])] == alone


@pytest.mark.parametrize("options", [{"shuffle": False}, {"superbatch": 100}, {}])
def test_an_uneven_epoch_is_resumed_anywhere_from_any_ranks_state(files, options):
    ds = fb.open(files)

    def loader(rank, world=4, **more):
        return ds.loader("row", batch_size=128 // world, rank=rank, world_size=world, framework="numpy", **{"tail": "uneven", **options, **more})

    whole = [[b["row"].tolist() for b in loader(rank)] for rank in range(4)]
    assert len({len(w) for w in whole}) == (2 if "shuffle" in options else 1)
    for rank in range(4):
        for k in range(len(whole[rank]) + 1):
            with loader(rank) as one:
                iterator = iter(one)
                for _ in range(k):
                    next(iterator)
                state = json.loads(json.dumps(one.state_dict()))
            assert state["tail"] == "uneven"
            for other in range(4):
                with loader(other) as two:
                    two.load_state_dict(state)
                    assert [b["row"].tolist() for b in two] == whole[other][k:]
                    assert two.state_dict()["epoch"] == 1
            with loader(0, 1, tail="auto") as alone:  # the kept tail of one rank is the same order
                alone.load_state_dict(state)
                assert sorted(r for b in alone for r in b["row"].tolist()) == sorted(r for w in whole for b in w[k:] for r in b)
            with loader(rank, tail="wrap") as wrapped, pytest.raises(ValueError, match="'uneven', this loader has 'wrap'"):
                wrapped.load_state_dict(state)


def test_groups_and_windows_mark_repeats_too(files):
    ds = fb.open(files)
    for samples, outputs in [(ds.windows(5, 3), {"row": fb.col("row").at(0)}), (ds.groups("event"), {"row": fb.col("row").first(), "all": "row"})]:
        rows = []
        for rank in range(2):
            with samples.loader({**outputs, "again": fb.is_repeat()}, batch_size=32, rank=rank, world_size=2, framework="numpy") as loader:
                rows.extend(r for b in loader for r in b["row"][~b["again"]].tolist())
        assert len(rows) == len(set(rows)) == len(samples)


def test_tails_are_refused_by_name(files):
    ds = fb.open(files)
    with pytest.raises(ValueError, match="or tail uneven, where nothing in the loop waits"):
        ds.loader("row", batch_size=8, rank=0, world_size=2, tail="keep")
    with pytest.raises(ValueError, match="'wrap' or 'uneven'"):
        ds.loader("row", batch_size=8, tail="odd")
    with pytest.raises(ValueError, match="both say what becomes of the last batch"):
        ds.loader("row", batch_size=8, tail="uneven", drop_last=False)


def test_pipelines_say_both(files, tmp_path):
    (tmp_path / "p.yaml").write_text(
        f"data: {files!r}\nsamples: rows\noutputs:\n  row: {{columns: row}}\n  again: {{from: is_repeat}}\n"
        "loader: {batch_size: 64, tail: uneven, shuffle: none}\n".replace("'", '"')
    )
    rows = []
    for rank in range(2):
        with fb.pipeline(tmp_path / "p.yaml").loader(rank=rank, world_size=2, framework="numpy") as loader:
            for batch in loader:
                assert not batch["again"].any()
                rows.extend(batch["row"].tolist())
    assert sorted(rows) == list(range(N))
    with fb.open(files).loader({"row": "row", "again": fb.is_repeat()}, batch_size=64, tail="uneven") as loader:
        loader.to_yaml(tmp_path / "q.yaml")
    text = (tmp_path / "q.yaml").read_text()
    assert "tail: uneven" in text and "from: is_repeat" in text
