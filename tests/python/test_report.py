"""Reports: what limits as data, epoch by epoch, of a span of time, and as JSON."""

import json
import sys
import time
import types

import numpy as np
import pyarrow as pa
import pytest

import forebay as fb


@pytest.fixture
def table(parquet):
    return fb.open(parquet({"x": np.arange(20_000, dtype="f4"), "y": np.arange(20_000)}, row_group_size=2_000))


def test_each_epoch_is_apart(table):
    with table.rows().loader({"x": "x"}, batch_size=1_000, seed=1) as loader:
        assert loader.report().epochs == ()
        for _ in range(3):
            for _ in loader:
                pass
            time.sleep(0.02)  # as a validation would be
        for _ in loader:
            break
        report = loader.report()
    assert [e.epoch for e in report.epochs] == [0, 1, 2, 3]
    assert [e.ended for e in report.epochs] == [True, True, True, False]
    assert [e.samples for e in report.epochs[:3]] == [20_000] * 3 and report.epochs[3].samples == 1_000
    for name in ("batches", "samples", "wait_ns", "bytes_read", "bytes_delivered", "blocks_read"):
        assert sum(getattr(e, name) for e in report.epochs) == getattr(report, name), name
    first, second = report.epochs[:2]
    assert first.blocks_read == 10 and second.blocks_read == 0 and second.blocks_from_cache == 10
    assert first.gap_ns == 0 and all(e.gap_ns >= 20_000_000 for e in report.epochs[1:])
    assert report.gap_ns == sum(e.gap_ns for e in report.epochs) and report.work_ns < report.gap_ns
    assert 0 < first.wait_share <= 1 and first.samples_per_second > 0
    assert first.bytes_per_second["read"] > 0 and second.bytes_per_second["read"] == 0


@pytest.mark.parametrize("split, options", [(None, {}), (None, {"memory": "12MiB"}), (0.05, {"memory": "64MiB"})], ids=["whole", "direct", "thin"])
def test_what_is_read_is_counted_with_its_block(tmp_path, split, options):
    """At any time, also while other blocks are under way: whoever divides one count by the other gets what a block has."""
    pq = pytest.importorskip("pyarrow.parquet")
    rows, names = 2_000, [f"c{i}" for i in range(32)]
    block = {name: np.arange(rows, dtype="f8") + i for i, name in enumerate(names)}
    table = pa.table({name: np.tile(values, 50) for name, values in block.items()})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=rows, compression="none", use_dictionary=False, write_statistics=False)
    samples = fb.open(tmp_path / "x.parquet").rows()
    samples = samples if split is None else samples.split(part=split, rest=1 - split, by="samples")["part"]
    with samples.loader({"x": names}, batch_size=20, superbatch=4_000, **options) as loader:
        seen, decoded = set(), set()
        for _ in range(2):
            for _ in loader:
                report = loader.report()
                seen.add(report.bytes_read / report.blocks_read)
                decoded.add(report.bytes_decoded / report.blocks_read)
    assert len(seen) == 1 and seen.pop() >= rows * len(names) * 8
    assert decoded == {rows * len(names) * 8} if (split, options) == (None, {}) else max(decoded) <= rows * len(names) * 8
    assert (report.blocks_from_cache == 0) == ("12MiB" in options.values()), "only direct delivery keeps nothing"


def test_a_printed_report_says_how_sure_it_is_of_what_it_saw_too_early(table):
    with table.rows().loader({"x": "x"}, batch_size=1_000) as loader:
        next(iter(loader))
        report = loader.report()
    assert report.limit == "too_early" and f"\n         confidence 0.00: {report.reason}" in str(report)


def test_mixing_has_slices_and_length_buckets_beside_each_other(tmp_path, parquet):
    rng = np.random.default_rng(0)
    for i in range(30):
        key = np.repeat(np.arange(60), rng.integers(2, 20, 60))
        parquet({"x": np.arange(len(key), dtype="f4"), "k": key + 100 * i}, f"many/{i:02}.parquet", row_group_size=100)
    options = {"batch_size": 16, "superbatch": "400 samples", "streams": 2, "max_superbatch_batches": 8, "bucket_samples": 64}
    with fb.open(str(tmp_path / "many")).groups("k").loader({"x": fb.col("x").padded()}, **options) as loader:
        said = loader.report().mixing.split("; ")
    assert said[-2].startswith("a batch has samples of") and said[-1].endswith("% without length buckets)"), said


def test_epochs_as_json_say_what_follows_from_their_counts(table):
    with table.rows().loader({"x": "x"}, batch_size=1_000) as loader:
        for _ in loader:
            pass
        report = loader.report()
    (epoch,) = json.loads(report.to_json())["epochs"]
    assert epoch["wait_share"] == report.epochs[0].wait_share > 0
    assert epoch["bytes_per_second"] == report.epochs[0].bytes_per_second and epoch["bytes_per_second"]["assemble"] > 0
    assert epoch["torch_allocated_bytes"] is None and fb.Report.from_dict(json.loads(report.to_json())) == report


def test_what_torch_takes_of_a_gpu_is_said_of_each_epoch(table, monkeypatch):
    cuda = types.SimpleNamespace(is_initialized=lambda: True, max_memory_allocated=lambda: 1_000 * taken[0], max_memory_reserved=lambda: 4_000)
    taken = [0]
    with table.rows().loader({"x": "x"}, batch_size=5_000, framework="numpy") as loader:
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
        for _ in range(2):
            for _ in loader:
                taken[0] += 1
        epochs = loader.report().epochs
    assert [(e.torch_allocated_bytes, e.torch_reserved_bytes) for e in epochs] == [(4_000, 4_000), (8_000, 4_000)]


def test_an_epoch_that_gave_nothing_leaves_no_trace(table):
    with table.rows().loader({"x": "x"}, batch_size=1_000) as loader:
        iter(loader)
        loader.set_epoch(5)
        next(iter(loader))
        assert [e.epoch for e in loader.report().epochs] == [5]


def test_only_the_last_epochs_are_kept(table):
    with table.rows().loader({"x": "x"}, batch_size=20_000) as loader:
        for _ in range(130):
            for _ in loader:
                pass
        assert [e.epoch for e in loader.report().epochs] == list(range(2, 130))


def test_a_slow_program_is_the_limit_and_nothing_would_help(table):
    with table.rows().loader({"x": "x"}, batch_size=500) as loader:
        for _ in range(2):
            for _ in loader:
                time.sleep(0.012)
        report = loader.report()
    assert report.limit == "model" and report.cures == () and report.confidence > 0.2
    assert "batches" in report.reason and "after the first epoch" in report.reason
    assert [e.limit for e in report.epochs] == ["model", "model"]
    assert f"verdict  {report.verdict}\n         confidence {report.confidence:.2f}: {report.reason}" in str(report)


def test_moving_batches_is_told_from_work(table, monkeypatch):
    torch = pytest.importorskip("torch")

    def slow(batch, device):
        time.sleep(0.004)
        return batch

    monkeypatch.setattr(sys.modules["forebay._device"], "to_device", slow)
    with table.rows().loader({"x": "x"}, batch_size=500, device=torch.device("cpu")) as loader:
        for _ in range(2):
            for _ in loader:
                time.sleep(0.001)
        report = loader.report()
    assert report.limit == "transfer"
    assert report.transfer_ns > 78 * 4_000_000 and report.work_ns < report.transfer_ns
    assert report.cures[0].change == "move batches to the device in transform="


def test_a_span_of_time_is_judged_alone(table):
    with table.rows().loader({"x": "x"}, batch_size=100) as loader:
        for _ in loader:
            pass
        before = loader.report()
        for _ in loader:
            time.sleep(0.001)
        report = loader.report().since(before)
    assert report.samples == 20_000 and report.epochs_begun == 1 and report.limit == "model"
    with pytest.raises(fb.ArgumentError, match="later than the other"):
        before.since(loader_report_after(table))


def loader_report_after(table):
    with table.rows().loader({"x": "x"}, batch_size=100) as loader:
        for _ in range(3):
            for _ in loader:
                pass
        return loader.report()


def test_json_goes_there_and_back(table):
    with table.rows().loader({"x": "x"}, batch_size=1_000) as loader:
        for _ in loader:
            pass
        report = loader.report()
    values = json.loads(report.to_json())
    assert values["schema"] == 1 and values["epochs"][0]["samples"] == 20_000 and values["limit"] == report.limit
    assert fb.Report.from_dict(values) == report
    with pytest.raises(ValueError, match="newer forebay"):
        fb.Report.from_dict({**values, "schema": 2})
    for other in ([1], "text", {**values, "schema": "new"}):
        with pytest.raises(ValueError, match="no report of a loader"):
            fb.Report.from_dict(other)
    del values["wait_ns"]
    with pytest.raises(ValueError, match="wait_ns"):
        fb.Report.from_dict(values)
