"""Which samples meet in a batch: diversity, batches by elements, length buckets; each against NumPy over whole epochs."""

import json

import pytest

import forebay as fb

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# ---- diversity: 120 files of 150 rows ----

FILES, ROWS, BATCH = 120, 150, 64


@pytest.fixture(scope="module")
def basins(tmp_path_factory):
    path = tmp_path_factory.mktemp("basins")
    for i in range(FILES):
        pq.write_table(pa.table({"file": np.full(ROWS, i), "row": np.arange(i * ROWS, (i + 1) * ROWS)}), path / f"b{i:03}.parquet")
    return str(path / "*.parquet")


def loader(path, **options):
    return fb.open(path).rows().loader(["file", "row"], **{"batch_size": BATCH, "framework": "numpy", "seed": 3, **options})


def test_every_batch_has_the_files_asked_for_and_every_row_comes_once(basins):
    options = {"superbatch": "12 blocks", "memory": "16MiB"}
    with loader(basins, **options) as plain:
        assert min(len(np.unique(b["file"])) for b in plain if len(b["file"]) == BATCH) < 25
    with loader(basins, **options, diversity_files=35, max_superbatch_batches=20) as l:
        for _ in range(2):
            batches = list(l)
            np.testing.assert_array_equal(np.sort(np.concatenate([b["row"] for b in batches])), np.arange(FILES * ROWS))
            assert min(len(np.unique(b["file"])) for b in batches if len(b["file"]) == BATCH) >= 35
        r = l.report()
        assert 0 < r.slice_samples < ROWS and r.reads_per_block > 2
        assert r.files_per_batch_uniform + 2 > r.files_per_batch > 35 <= r.files_per_batch_least
        assert "times an epoch" in r.mixing and r.epoch_bytes > 0


def test_diversity_goes_on_from_a_state_and_refuses_another(basins):
    with loader(basins, superbatch="12 blocks", diversity_files=30) as l, loader(basins, superbatch="12 blocks", diversity_files=30, threads=1) as other:
        rows, states = [], []
        for batch in l:
            rows.append(batch["row"])
            states.append(json.loads(json.dumps(l.state_dict())))
        for k in (0, 5, len(rows) // 2):
            other.load_state_dict(states[k])
            for got, expect in zip(other, rows[k + 1 :]):
                np.testing.assert_array_equal(got["row"], expect)
        with loader(basins, superbatch="12 blocks") as plain, pytest.raises(ValueError, match="0 = as it comes"):
            plain.load_state_dict(states[0])


def test_what_cannot_be_diverse_is_refused(basins):
    with pytest.raises(ValueError, match="only 120 files"):
        loader(basins, diversity_files=121)
    with pytest.raises(ValueError, match="uniform shuffle"):
        loader(basins, diversity_files=64)
    with pytest.raises(ValueError, match="'superbatch' alone"):
        loader(basins, diversity_files=5, shuffle=False)
    with pytest.raises(ValueError, match="at least 2"):
        loader(basins, max_superbatch_batches=1)
    with pytest.raises((ValueError, TypeError)):
        loader(basins, diversity_files=-1)


# ---- groups of unlike length: batches by rows, length buckets ----

GROUPS = 700


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(1)
    lengths = np.minimum(1 + rng.geometric(0.08, GROUPS), 90)
    lengths[::97] = 300  # some are longer than a batch
    event = np.repeat(np.arange(GROUPS), lengths)
    for i, part in enumerate(np.array_split(np.arange(GROUPS), 5)):
        rows = np.isin(event, part)
        pq.write_table(pa.table({"event": event[rows], "t": np.flatnonzero(rows).astype(np.float32)}), path / f"e{i}.parquet", row_group_size=500)
    return str(path / "*.parquet"), lengths


def group_loader(path, **options):
    samples = fb.open(path).groups("event") if isinstance(path, str) else path
    return samples.loader({"i": fb.sample_index(), "n": fb.n_rows(), "t": "t"}, **{"framework": "numpy", "seed": 5, "superbatch": "300 samples", **options})


def check_whole(batch, lengths):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    np.testing.assert_array_equal(batch["n"], lengths[batch["i"]])
    expect = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in batch["i"]])
    np.testing.assert_array_equal(batch["t"].values, expect.astype(np.float32))


def packed(lengths, order, elements, limit):
    """Greedy packing of whole groups, in order."""
    batches, rows = [[]], 0
    for i in order:
        if batches[-1] and (rows + lengths[i] > elements or len(batches[-1]) == limit):
            batches.append([])
            rows = 0
        batches[-1].append(int(i))
        rows += lengths[i]
    return batches


@pytest.mark.parametrize("limit", [None, 6])
def test_in_file_order_groups_are_packed_up_to_a_number_of_rows(events, limit):
    path, lengths = events
    with group_loader(path, batch_elements=200, batch_size=limit, shuffle=False) as l:
        batches = list(l)
        for b in batches:
            check_whole(b, lengths)
        expect = packed(lengths, range(GROUPS), 200, limit)
        assert [b["i"].tolist() for b in batches] == expect
        assert len(l) == len(expect)
        assert l.batch_size == limit
        assert l.outputs["n"].shape == (-1,)
        assert "up to 200 rows" in repr(l)


def test_shuffled_groups_are_packed_in_the_order_drawn(events):
    path, lengths = events
    with group_loader(path, batch_elements=200) as l:
        for e in range(2):
            n = len(l)
            batches = [b["i"].tolist() for b in l]
            order = [i for b in batches for i in b]
            assert sorted(order) == list(range(GROUPS)) and order != sorted(order)
            assert batches == packed(lengths, order, 200, GROUPS)
            assert len(batches) == n


@pytest.mark.parametrize("options", [{"batch_size": 16}, {"batch_elements": 400}])
def test_buckets_batch_groups_of_similar_length(events, options):
    path, lengths = events

    def waste(loader):
        padded = rows = 0
        for b in loader:
            check_whole(b, lengths)
            padded += len(b["n"]) * int(b["n"].max())
            rows += int(b["n"].sum())
        return 1 - rows / padded

    full = {"superbatch": "10000 samples", **options}
    with group_loader(path, **full) as plain, group_loader(path, **full, bucket_samples=256) as l:
        before, after = waste(plain), waste(l)
        assert after < 0.6 * before
        r = l.report()
        assert abs(r.padding - after) < 0.02 and abs(r.padding_unsorted - before) < 0.1
        assert "without length buckets" in r.mixing
        orders = [[b["i"].tolist() for b in l] for _ in range(2)]
        assert orders[0] != orders[1]
        for order in orders:
            assert sorted(i for b in order for i in b) == list(range(GROUPS))
        if "batch_size" in options:
            assert {len(b) for b in orders[0][:-1]} == {16}
        means = [lengths[b].mean() for b in orders[0]]
        assert means != sorted(means)  # the batches themselves are shuffled


@pytest.mark.parametrize("options", [{"batch_elements": 200}, {"batch_size": 16, "bucket_samples": 64}, {"batch_elements": 300, "bucket_samples": 100}])
def test_variable_batches_go_on_from_a_state_and_refuse_another_world_size(events, options):
    path, _ = events
    with group_loader(path, **options) as l, group_loader(path, **options, threads=1) as other:
        order, states = [], []
        for b in l:
            order.append(b["i"].tolist())
            states.append(json.loads(json.dumps(l.state_dict())))
        for k in range(0, len(order), 7):
            other.load_state_dict(states[k])
            assert len(other) == len(order)
            assert [b["i"].tolist() for b in other] == order[k + 1 :]
        changed = {**options, "batch_size": 8} if "batch_size" in options else options
        with group_loader(path, **changed, rank=0, world_size=2) as two, pytest.raises(ValueError, match="1 ranks, this loader is one of 2"):
            two.load_state_dict(states[0])


def test_ranks_have_equal_lengths_and_every_group(events):
    path, _ = events
    ranks = [group_loader(path, batch_elements=150, rank=r, world_size=3) for r in range(3)]
    n = {len(l) for l in ranks}
    batches = [[b["i"].tolist() for b in l] for l in ranks]
    assert n == {len(b) for b in batches} and len(n) == 1
    groups = [i for b in batches for batch in b for i in batch]
    assert set(groups) == set(range(GROUPS))
    for l in ranks:
        l.close()


def test_buckets_go_with_a_cap_on_batches_from_a_superbatch(events):
    samples, lengths = fb.open(events[0]).groups("event"), events[1]
    how = {"batch_size": 8, "bucket_samples": 64, "max_superbatch_batches": 20}
    with group_loader(samples, **how) as l:
        least = l.report().budget_minimum_bytes
        assert l.report().slice_samples > 0
    orders = []
    for memory in (least, "256MiB"):
        with group_loader(samples, **how, memory=memory) as l:
            batches = []
            for b in l:
                check_whole(b, lengths)
                batches.append(b["i"].tolist())
            assert sorted(i for b in batches for i in b) == list(range(GROUPS))
            orders.append(batches)
            r = l.report()
            assert r.padding < r.padding_unsorted
    assert orders[0] == orders[1]
    with group_loader(samples, **how) as l, group_loader(samples, **how) as other:
        for k, b in enumerate(l):
            if k % 9 == 4:
                other.load_state_dict(l.state_dict())
                assert [c["i"].tolist() for c in other] == orders[0][k + 1 :]


def test_what_does_not_fit_is_refused(events, basins):
    path, _ = events
    with pytest.raises(TypeError, match="batch_size=.*batch_elements="):
        group_loader(path)
    with pytest.raises(ValueError, match="change the order"):
        group_loader(path, batch_size=8, bucket_samples=64, shuffle=False)
    for options in ({"batch_elements": 100}, {"batch_size": 8, "bucket_samples": 64}):
        with pytest.raises(ValueError, match="distinct files in a batch cannot be chosen together.* no number of files could be promised"):
            group_loader(path, **options, diversity_files=2)
    with pytest.raises(ValueError, match="batches from a superbatch cannot be chosen together with batches by rows"):
        group_loader(path, batch_elements=100, max_superbatch_batches=4)
    with pytest.raises(ValueError, match="one length"):
        loader(basins, bucket_samples=64)
