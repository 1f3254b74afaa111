"""Mixtures: values are those of each source read alone, proportions are as the weights say, and order, ranks and resume as of one data set."""

import json
import pickle
import random
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from refusals import refused

SIZES = {"table": 1200, "array": 700, "frame": 330}
X = {"table": "x", "array": "x", "frame": "gap"}  # what the column of values is called


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Parquet files, an HDF5 file and arrays for a frame: an id and a value a row."""
    folder, rng = tmp_path_factory.mktemp("mix"), np.random.default_rng(1)
    for i in range(6):
        part = {"id": np.arange(i * 200, i * 200 + 200), "x": rng.normal(size=200).astype("float32"), "s": [f"s{k % 7}" for k in range(200)]}
        pq.write_table(pa.table(part), folder / f"table{i}.parquet", row_group_size=50)
    with h5py.File(folder / "array.h5", "w") as file:
        file.create_dataset("id", data=np.arange(700), chunks=(64,), compression="gzip")
        file.create_dataset("x", data=rng.normal(size=700).astype("float32"), chunks=(64,))
    np.savez(folder / "frame.npz", id=np.arange(330), gap=rng.normal(size=330).astype("float32"))
    return folder


def opened(folder):
    with np.load(folder / "frame.npz") as frame:
        return {
            "table": fb.open(folder / "table*.parquet").rows(), "array": fb.open(folder / "array.h5").rows(),
            "frame": fb.open({name: frame[name] for name in frame}).rows(),
        }  # fmt: skip


@pytest.fixture(scope="module")
def sources(folder):
    return opened(folder)


def outputs(*more):
    return {name: {"x": x, "id": "id", "row": fb.sample_index(), "from": fb.source(), **dict(more)} for name, x in X.items()}


def loader_of(sources, weights=None, stop="first", batch_size=16, **options):
    options = {"superbatch": 150, "framework": "numpy", "tail": "keep", **options}
    return fb.mix(sources, weights=weights, stop=stop).loader(outputs(), batch_size=batch_size, **options)


def order(batches):
    """(source, row) of every sample."""
    return [(int(s), int(r)) for batch in batches for s, r in zip(batch["from"], batch["row"])]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("shuffle", [True, "full", False])
def test_every_sample_comes_once_with_the_values_of_its_source_alone(sources, framework, shuffle):
    pytest.importorskip(framework)
    alone = {}
    for i, (name, samples) in enumerate(sources.items()):
        with samples.loader({"x": X[name], "id": "id"}, batch_size=64, shuffle=False, framework="numpy", tail="keep") as loader:
            batches = list(loader)
            alone[i] = {key: np.concatenate([batch[key] for batch in batches]) for key in ("x", "id")}
    with loader_of(sources, stop="all", shuffle=shuffle, framework=framework) as loader:
        assert loader.outputs["from"].names == list(SIZES) and loader.outputs["from"].dtype == "int64"
        for epoch in range(2):
            seen = []
            for batch in loader:
                assert type(batch["x"]).__module__.partition(".")[0] == framework
                for s, r, x, number in zip(*(batch[name].tolist() for name in ("from", "row", "x", "id"))):
                    assert x == alone[s]["x"][r] and number == alone[s]["id"][r]
                    seen.append((s, r))
            assert sorted(seen) == [(i, r) for i, n in enumerate(SIZES.values()) for r in range(n)]
            assert {name: (s.samples, s.left, s.passes) for name, s in loader.sources(epoch).items()} == {k: (n, 0, 1) for k, n in SIZES.items()}


@pytest.mark.parametrize("stop, length", [("first", 660), (3000, 3000), ("all", 4798)])
def test_proportions_are_exact_over_an_epoch_and_hold_in_every_batch(sources, stop, length):
    weights = {"table": 0.25, "frame": 0.5, "array": 0.25}
    with loader_of(sources, weights, stop, batch_size=60) as loader:
        assert loader.samples_per_epoch == length and len(loader) == -(-length // 60)
        for epoch in range(2):
            total = np.zeros(3, int)
            for batch in loader:
                counts = np.bincount(batch["from"], minlength=3)
                assert np.abs(counts - len(batch["from"]) * np.array([0.25, 0.25, 0.5])).max() < 3
                total += counts
            assert np.abs(total - length * np.array([0.25, 0.25, 0.5])).max() <= 0.5 and (stop != "all" or total[0] == SIZES["table"])
            found = loader.sources()
            assert [s.samples for s in found.values()] == total.tolist()
            assert [s.passes for s in found.values()] == [-(-n // size) for n, size in zip(total.tolist(), SIZES.values())]


def test_weights_may_differ_by_epoch(sources):
    weights = [{"table": 1, "array": 0, "frame": 0}, {"table": 1, "array": 1, "frame": 2}]
    with loader_of(sources, weights, 400) as loader:
        counts = [np.bincount(np.concatenate([batch["from"] for batch in list(loader)]), minlength=3).tolist() for _ in range(3)]
    assert counts == [[400, 0, 0], [100, 100, 200], [100, 100, 200]]


def test_ranks_have_the_global_batches_of_one(sources):
    options = {"weights": {"table": 2, "array": 1, "frame": 1}, "seed": 5, "epoch": 1, "tail": "wrap"}
    with loader_of(sources, batch_size=32, rank=0, world_size=1, **options) as loader:
        one = [order([batch]) for batch in loader]
    for world in (2, 4):
        parts = []
        for rank in range(world):
            with loader_of(sources, batch_size=32 // world, rank=rank, world_size=world, **options) as loader:
                parts.append([order([batch]) for batch in loader])
        assert [sum(batches, []) for batches in zip(*parts)] == one


RESUMED = """
import json, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import test_mix
cases = json.loads(sys.stdin.read())
sources = test_mix.opened(Path(sys.argv[1]))
out = []
for i, state in enumerate(cases):
    with test_mix.loader_of(sources, {"table": 3, "array": 2, "frame": 1}, "all", seed=3, threads=1 + i % 4) as loader:
        loader.load_state_dict(state)
        out.append([[batch["from"].tolist(), batch["row"].tolist(), batch["x"].tobytes().hex()] for batch in loader])
Path(sys.argv[3]).write_text(json.dumps(out))  # to a pipe, an unbuffered Python drops what a write that is interrupted leaves over
"""


def test_an_epoch_goes_on_in_a_new_process_bit_for_bit(folder, sources, tmp_path):
    states, rest = [], []
    draw = random.Random(7)
    with loader_of(sources, {"table": 3, "array": 2, "frame": 1}, "all", seed=3) as loader:
        for _ in range(20):
            at = draw.randrange(1, len(loader))
            batches = []
            for i, batch in enumerate(loader, 1):
                if i == at:
                    states.append(loader.state_dict())
                elif i > at:
                    batches.append([batch["from"].tolist(), batch["row"].tolist(), batch["x"].tobytes().hex()])
            rest.append(batches)
    assert len(bytes.fromhex(states[0]["dataset"]["hashes"])) == 8 * 3  # one for each source
    command = [sys.executable, "-c", RESUMED, str(folder), str(__file__.rpartition("/")[0]), str(tmp_path / "rest.json")]
    done = subprocess.run(command, input=json.dumps(states), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "rest.json").read_text()) == rest


def test_a_state_names_the_source_that_is_another(sources):
    """Of sources in memory too, which have no files to hash."""
    memory = {name: fb.open({"x": np.arange(n, dtype="f4"), "id": np.arange(n)}).rows() for name, n in (("a", 50), ("b", 60), ("c", 70))}

    def loader(mixed, **how):
        return fb.mix(mixed, **how).loader("x", batch_size=8, framework="numpy")

    with loader(memory) as first:
        next(iter(first))
        state = json.loads(json.dumps(first.state_dict()))
    with loader(memory) as same:
        same.load_state_dict(state)
        assert same.state_dict()["batch"] == 1
    other = {**memory, "c": fb.open({"x": np.arange(71, dtype="f4"), "id": np.arange(71)}).rows()}
    with loader(other) as changed:
        refused(lambda: changed.load_state_dict(state), fb.ChangedError, "source 'c'")
    with loader(memory, weights={"a": 1, "b": 2, "c": 3}) as weighed:
        refused(lambda: weighed.load_state_dict(state), ValueError, "a mixture of other weights, or with another stop")
    with memory["a"].loader("x", batch_size=8, framework="numpy") as single, fb.mix({"a": memory["a"]}).loader("x", batch_size=8, framework="numpy") as one:
        refused(lambda: one.load_state_dict(single.state_dict()), ValueError, "saved over one data set, this loader is over a mixture")


def test_what_there_is_is_printed_and_pickles(sources):
    mixture = fb.mix({name: sources[name] for name in ("table", "array")}, weights=[{"table": 3, "array": 1}, {"table": 1, "array": 1}])
    assert mixture.names == ["table", "array"] and len(mixture) == 1900 and mixture.stop == "first" and mixture.sources["array"] is sources["array"]
    text = repr(mixture)
    assert "1,900 samples of 2 sources, an epoch ends with the first source" in text and "75.0%, then 50.0% of 1,200 rows" in text
    again = pickle.loads(pickle.dumps(mixture))
    assert repr(again) == text and again.weights == mixture.weights
    with again.loader({"x": "x", "from": fb.source()}, batch_size=50, framework="numpy") as loader:
        assert f"{len(loader):,} batches of 50 from 1,900 samples" in repr(loader) and loader.dataset is again
        list(loader)
        report = loader.report()
        assert report.epochs[-1].samples == sum(source.samples for source in loader.sources().values()) == 1600 and "samples" in str(report)
        assert len(loader.check()["x"]) == 50
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert len(copy) == 32 and copy.dataset.weights == mixture.weights
    with sources["table"].loader({"from": fb.source()}, batch_size=50, framework="numpy") as single:
        assert single.sources() == {} and single.outputs["from"].names is None and not next(iter(single))["from"].any()


def test_a_pipeline_file_of_one_data_set_may_say_its_source(sources, tmp_path):
    with sources["table"].loader({"from": fb.source(), "x": "x"}, batch_size=50, framework="numpy") as loader:
        loader.to_yaml(tmp_path / "p.yaml")
    assert "from: source" in (tmp_path / "p.yaml").read_text()
    with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as again:
        assert not next(iter(again))["from"].any()


def test_a_data_module_takes_a_mixture(sources):
    pytest.importorskip("lightning")
    import forebay.lightning

    mixture = fb.mix({"a": sources["table"], "b": sources["array"]}, stop="all")
    module = forebay.lightning.DataModule(mixture, mixture, outputs={"x": "x", "from": fb.source()}, batch_size=50)
    assert len(module.train_dataloader()) == len(module.val_dataloader()) == 38
    assert {int(i) for batch in module.val_dataloader() for i in batch["from"]} == {0, 1}


def test_outputs_for_all_sources_windows_and_columns_by_default():
    memory = {name: fb.open({"x": np.arange(n, dtype="f4"), "y": np.arange(n) * 2}) for name, n in (("a", 40), ("b", 90))}
    with fb.mix(memory, stop="all").loader(batch_size=10, framework="numpy") as loader:  # data sets stand for their rows
        batches = list(loader)
        assert sorted(batches[0]) == ["x", "y"] and sum(len(batch["x"]) for batch in batches) == 130
        assert all((batch["y"] == batch["x"] * 2).all() for batch in batches)
    windows = {"a": memory["a"].windows(4), "b": memory["b"].windows(4)}
    with fb.mix(windows).loader({"from": fb.source(), "x": "x"}, batch_size=10, framework="numpy") as loader:
        assert next(iter(loader))["x"].shape == (10, 4)


def test_groups_splits_and_lookups_are_of_each_source():
    """The same keys mean other events, of other lengths, in each source; half of the events of either come."""
    lengths, tables, sources = {"a": 4, "b": 6}, {}, {}
    for factor, (name, n) in enumerate(lengths.items(), 1):
        ds = fb.open({"event": np.repeat(np.arange(40), n), "x": np.arange(40 * n, dtype="f4")})
        sources[name] = ds.groups("event").split(train=range(0, 40, 2), rest=range(1, 40, 2), by="event")["train"]
        tables[name] = pa.table({"event": np.arange(40), f"v{name}": np.arange(40) * factor})
    outputs = {
        name: {"x": fb.col("x").padded(6), "v": fb.lookup(tables[name], on="event", columns=f"v{name}"), "event": fb.col("event").first(), "from": fb.source()}
        for name in lengths
    }
    seen = []
    with fb.mix(sources, stop="all").loader(outputs, batch_size=7, framework="numpy") as loader:
        for batch in loader:
            for s, event, v, values, mask in zip(batch["from"], batch["event"], batch["v"], batch["x"].values, batch["x"].mask):
                n = lengths["ab"[s]]
                assert v == event * (s + 1) and mask.sum() == n and (values[:n] == np.arange(event * n, event * n + n)).all()
                seen.append((int(s), int(event)))
    assert sorted(seen) == [(s, event) for s in (0, 1) for event in range(0, 40, 2)]


def test_mixtures_that_say_nothing_are_refused(sources):
    table = sources["table"]
    two = {"a": table, "b": sources["array"]}
    refused(lambda: fb.mix({}), ValueError, "a mixture of no sources")
    refused(lambda: fb.mix([table]), TypeError, "sources are named", "list")
    refused(lambda: fb.mix({"a": "data.parquet"}), TypeError, "source 'a': samples are expected, not str")
    refused(lambda: fb.mix({"a": fb.mix(two)}), TypeError, "mix its sources too")
    refused(lambda: fb.mix(two, weights={"a": 1, "bb": 1}), ValueError, "weights: 'bb' is no source of the mixture: did you mean 'b'?")
    refused(lambda: fb.mix(two, weights={"a": 1}), ValueError, "weights: source 'b' is missing", "0 leaves one out")
    refused(lambda: fb.mix(two, weights={"a": 1, "b": -1}), ValueError, "weights['b']=-1", "from 0 on")
    refused(lambda: fb.mix(two, weights={"a": 0, "b": 0}), ValueError, "weights are all 0")
    refused(lambda: fb.mix(two, weights={"a": 1, "b": float("nan")}), ValueError, "weights['b']=nan")
    refused(lambda: fb.mix(two, weights={"a": 1e308, "b": 1e308}), ValueError, "weights have no finite sum", "divide all of them")
    refused(lambda: fb.mix(two, weights={"a": 1, "b": np.array([1, 2])}), TypeError, "weights['b']=array([1, 2])", "a number from 0 on")
    refused(lambda: fb.mix({"a\0": table}), TypeError, "has no NUL")
    refused(lambda: fb.mix(two, stop="all_exhausted"), ValueError, "did you mean 'all'?")
    refused(lambda: fb.mix(two, stop="first_exhausted"), ValueError, "did you mean 'first'?")
    refused(lambda: fb.mix(two, proportion={"a": 1, "b": 1}), TypeError, "weights=")
    refused(lambda: fb.mix(two).windows(4), AttributeError, "before they are mixed")
    refused(lambda: fb.mix(two, weights=[0.5, 0.5]), TypeError, "weights are a dict")
    refused(lambda: fb.mix(two, weights=[]), TypeError, "weights are a dict")
    refused(lambda: fb.mix(two, stop="last"), ValueError, "stop='last'", "'first', 'all'")
    refused(lambda: fb.mix(two, stop=0), ValueError, "stop=0")
    refused(lambda: fb.mix(two, probabilities=[1, 2]), TypeError, "mix() has no argument 'probabilities'", "weights=")
    refused(lambda: fb.mix(two, weigths={"a": 1, "b": 1}), TypeError, "did you mean 'weights'?")
    refused(lambda: fb.mix(two).split(train=0.5), AttributeError, "before they are mixed")


def test_outputs_that_differ_name_both_sources(sources):
    two = fb.mix({"a": sources["table"], "b": sources["array"]})

    def given(a, b):
        return lambda: two.loader({"a": a, "b": b}, batch_size=8, framework="numpy")

    refused(given({"x": "x"}, {"x": "id"}), ValueError, "source 'b': output 'x' is int64, and of source 'a' float32")
    refused(given({"x": "x"}, {"x": fb.col(["x", "x"])}), ValueError, "source 'b': output 'x' has another shape", "source 'a': (B, 2), and there (B)")
    refused(given({"x": "x", "y": "x"}, {"x": "x"}), ValueError, "output 'y' is one of source 'a' and not of source 'b'")
    refused(given({"x": "x"}, {"x": "x", "y": "x"}), ValueError, "output 'y' is one of source 'b' and not of source 'a'")
    refused(given({"x": "x"}, {"x": "flow"}), fb.SchemaError, "source 'b'", "flow")
    refused(given({"x": fb.encode("id")}, {"x": fb.encode("id")}), ValueError, "stand for other names in source 'b' than in source 'a'")
    refused(lambda: two.loader({"a": {"x": "x"}, "c": {"x": "x"}}, batch_size=8), ValueError, "outputs: 'c' is no source")
    refused(lambda: two.loader({"a": {"x": "x"}}, batch_size=8), ValueError, "outputs: source 'b' is missing")
    refused(lambda: two.loader(batch_size=8), ValueError, "source 'b': there are 2 outputs, and source 'a' has 3: 's' is only there")
    with two.loader({"a": ["x"], "b": ["x"]}, batch_size=8, framework="numpy") as loader:  # lists, too: outputs of each source, none that are called a and b
        assert list(loader.outputs) == ["x"]
    with two.loader({"a": {"x": "x", "i": "id"}, "b": {"i": "id", "x": "x"}}, batch_size=8, framework="numpy") as loader:  # in any order
        assert list(loader.outputs) == ["x", "i"]


def test_options_that_no_mixture_has_are_refused_by_name(sources):
    mixture = fb.mix({"a": sources["table"], "b": sources["array"]})
    for options, what in (
        ({"part": "1/2"}, "parts"), ({"batch_elements": 50}, "batches by rows"),
        ({"diversity_files": 2}, "distinct files in a batch and batches from a superbatch"),
        ({"max_superbatch_batches": 2}, "distinct files in a batch and batches from a superbatch"),
    ):  # fmt: skip
        refused(lambda: mixture.loader("x", **{"batch_size": 8, **options}), fb.UnsupportedError, f"a mixture has no {what}")
    groups = fb.mix({"a": sources["table"].dataset.groups(rows=7), "b": sources["array"].dataset.groups(rows=9)})
    refused(lambda: groups.loader("x", batch_size=8, bucket_samples=100), fb.UnsupportedError, "a mixture has no length buckets")
    drawn = fb.mix({"a": sources["table"].resample(np.ones(1200), each_epoch=True), "b": sources["array"]})
    refused(lambda: drawn.loader("x", batch_size=8), fb.UnsupportedError, "samples that are drawn anew in every epoch")
    refused(lambda: mixture.loader("x", batch_size=8, memory="2KiB"), fb.BudgetError, "needs at least")
    refused(lambda: mixture.loader("x", batch_sise=8), TypeError, "did you mean 'batch_size'?")
    with mixture.loader("x", batch_size=8) as loader:
        refused(lambda: loader.to_yaml("mixture.yaml"), ValueError, "write the section mix by hand")


def test_a_damaged_file_names_its_source(folder, sources, tmp_path):
    path = tmp_path / "bad.parquet"
    data = bytearray((folder / "table0.parquet").read_bytes())
    page = pq.read_metadata(folder / "table0.parquet").row_group(2).column(1).data_page_offset
    data[page : page + 8] = b"\xff" * 8
    path.write_bytes(data)
    bad = fb.open(path, cache_dir="").rows()
    with fb.mix({"good": sources["array"], "bad": bad}, stop="all").loader("x", batch_size=8, framework="numpy") as loader:
        with pytest.raises(fb.Error, match=r"bad\.parquet") as caught:
            list(loader)
    assert "source 'bad'" in str(caught.value)


def test_moments_of_a_mixture_weigh_as_the_loader_does(tmp_path):
    """Against all that a loader hands out when every source comes whole, as often as its weight says."""
    rng = np.random.default_rng(4)
    values = {"a": rng.normal(10, 1, 400), "b": rng.normal(-5, 7, 100), "c": rng.normal(0, 3, 50)}
    values["b"][:20] = np.nan
    sources = {name: fb.open({"x": v, "event": np.arange(len(v)) // 5}).rows() for name, v in values.items()}
    weights = {"a": 1, "b": 1, "c": 0}
    mixture = fb.mix(sources, weights=weights, stop=800)  # a once, b four times
    with mixture.loader({"x": "x"}, batch_size=100, framework="numpy") as loader:
        seen = np.concatenate([batch["x"] for batch in loader])
    seen = seen[~np.isnan(seen)]
    m = fb.fit(mixture, "x")["x"]
    np.testing.assert_allclose([m.mean, m.std, m.min, m.max], [seen.mean(), seen.std(), seen.min(), seen.max()], rtol=1e-12)
    assert (m.n, m.missing) == (480, 20)
    pooled, all_rows = fb.fit(fb.mix(sources), "x")["x"], np.concatenate(list(values.values()))
    np.testing.assert_allclose([pooled.mean, pooled.std], [np.nanmean(all_rows), np.nanstd(all_rows)], rtol=1e-12)
    # Windows overlap: each row counts once in its source, and a source by its weight.
    windows = {name: samples.dataset.windows(4) for name, samples in sources.items()}
    w = fb.fit(fb.mix(windows, weights=weights), "x")["x"]
    np.testing.assert_allclose([w.mean, w.std], [m.mean, m.std], rtol=1e-12)
    # A group of five rows weighs five times a row.
    both = fb.mix({"a": sources["a"].dataset.groups("event"), "b": sources["b"]}, weights={"a": 1, "b": 1})
    p = np.array([5.0, 0.8])
    p /= p.sum()
    means, stds = (np.array([f(values[k]) for k in "ab"]) for f in (np.nanmean, np.nanstd))
    mean = (p * means).sum()
    g = fb.fit(both, "x")["x"]
    np.testing.assert_allclose([g.mean, g.std], [mean, np.sqrt((p * (stds**2 + (means - mean) ** 2)).sum())], rtol=1e-12)


def test_what_cannot_be_fitted_over_a_mixture_is_said(sources):
    changing = [{"table": 1, "array": 0, "frame": 1}, {"table": 1, "array": 1, "frame": 1}]
    for call, error, text in (
        (lambda: fb.fit(fb.mix(sources), "id", by="id"), ValueError, "moments by group are of one data set: fit each source of the mixture"),
        (lambda: fb.fit(fb.mix(sources, weights=changing), "id"), fb.UnsupportedError, "the weights differ from epoch to epoch"),
        (lambda: fb.fit(fb.mix(sources), "x"), fb.SchemaError, "source 'frame': .*'x'"),
        (lambda: fb.fit(fb.mix(sources), "s"), ValueError, "column 's' holds strings"),
    ):
        with pytest.raises(error, match=text):
            call()
    tiny = [{name: weight * 1e-200 for name, weight in row.items()} for row in changing]
    with pytest.raises(fb.UnsupportedError, match="differ from epoch to epoch"):
        fb.fit(fb.mix(sources, weights=tiny), "id")
    same = [{"table": 1, "array": 1, "frame": 0}, {"table": 2, "array": 2, "frame": 0}]
    assert fb.fit(fb.mix(sources, weights=same), "x") == fb.fit(fb.mix(sources, weights=same[0]), "x")  # a source without weight is not read


def test_a_report_has_each_source(sources):
    with loader_of(sources, {"table": 2, "array": 1, "frame": 1}, stop=1600, batch_size=40) as loader:
        first = next(iter(loader))
        early = loader.report()
        assert [s.samples for s in early.sources] == np.bincount(first["from"], minlength=3).tolist()
        batches = list(loader)
        report = loader.report()
    assert [s.name for s in report.sources] == list(SIZES)
    counts = np.bincount(np.concatenate([first["from"], *(batch["from"] for batch in batches)]), minlength=3)
    assert [s.samples for s in report.sources] == counts.tolist() and sum(counts) == report.samples
    assert sum(s.bytes_read for s in report.sources) == report.bytes_read and report.sources[2].bytes_read == 0 < report.sources[0].bytes_read
    assert 0 < sum(s.wait_ns for s in report.sources) <= report.wait_ns
    per_batch = [s.samples_per_batch for s in report.sources]
    np.testing.assert_allclose(per_batch, [20, 10, 10], atol=0.2)
    assert 1 < report.sources[0].files_per_batch <= 6 and [s.files_per_batch for s in report.sources[1:]] == [1, 1]
    np.testing.assert_allclose(sum(s.files_per_batch for s in report.sources), report.files_per_batch)
    assert [s.samples for s in report.since(early).sources] == (counts - np.bincount(first["from"], minlength=3)).tolist()
    older = fb.Report.from_dict({name: value for name, value in early.to_dict().items() if name != "sources"})
    assert report.since(older).sources == report.sources, "of an earlier report without sources there is nothing to take off"
    assert fb.Report.from_dict(json.loads(report.to_json())) == report
    assert f"\nsource   table: {counts[0]:,} samples" in str(report)
    with sources["table"].loader("x", batch_size=40, framework="numpy") as loader:
        assert loader.report().sources == ()


def test_padding_is_reported_by_source():
    long, short = (fb.open({"x": np.arange(1200), "e": np.repeat(np.arange(1200 // n), n)}).groups("e") for n in (6, 2))
    with fb.mix({"long": long, "short": short}, weights={"long": 1, "short": 1}, stop=300).loader(
        {"x": fb.col("x").padded()}, batch_size=30, framework="numpy"
    ) as loader:
        by_source = {s.name: s.padding for s in loader.report().sources}
    np.testing.assert_allclose(list(by_source.values()), [0, 2 / 3], atol=1e-9)


def test_the_orders_of_a_source_that_begins_anew_are_in_the_budget():
    """Measured from outside; and refused before they are made."""
    code = '''
import sys
import numpy as np
import forebay as fb

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))

few, many = fb.open({"x": np.zeros(1, "f4")}).rows(), fb.open({"x": np.zeros(100_000, "f4")}).rows()
def loader(weight, **options):
    mixture = fb.mix({"few": few, "many": many}, weights={"few": weight, "many": 1}, stop="all")
    return mixture.loader("x", batch_size=512, threads=1, framework="numpy", **options)
with loader(0.00001, memory="1GiB") as once:
    least = once.report().budget_minimum_bytes
    list(once)
before = resident()
with loader(0.1, memory="1GiB") as often:
    asked = often.report().budget_minimum_bytes - least
    list(often)
print(resident() - before, asked)
try:
    loader(0.1, memory=least)
except fb.BudgetError as error:
    print(error)
'''
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    figures, message = done.stdout.splitlines()
    taken, asked = map(int, figures.split())
    assert 10 << 20 < taken <= asked < 4 * taken
    assert "the orders of sources that an epoch begins anew" in message and "smaller weights" in message


def test_the_stated_minimum_is_enough(sources):
    """Three formats, each with scratch of its own; and the minimum grows with every source that a job can read."""
    options = {"weights": {"table": 1, "array": 1, "frame": 1}, "stop": "all", "threads": 3}
    with loader_of(sources, memory="1GiB", **options) as loader:
        least, ample = loader.report().budget_minimum_bytes, [order([batch]) for _ in range(2) for batch in loader]
    with loader_of(sources, memory=least, **options) as loader:
        assert [order([batch]) for _ in range(2) for batch in loader] == ample
        assert loader.report().budget_peak_bytes <= least
    refused(lambda: loader_of(sources, memory=least - 1, **options), fb.BudgetError, f"needs at least {least} bytes")
    alone = {}
    for name, samples in sources.items():
        with samples.loader({"x": X[name], "id": "id"}, batch_size=16, threads=3, superbatch=50, framework="numpy", memory="1GiB") as loader:
            alone[name] = loader.report().budget_minimum_bytes
    assert least > sum(alone.values()) * 0.8  # scratch of each format, which is most of it
    mixtures = [fb.mix({str(i): sources["frame"] for i in range(n)}, stop="all") for n in (2, 402)]
    loaders = [mixture.loader({"x": "gap"}, batch_size=16, superbatch=50, memory="1GiB") for mixture in mixtures]
    few, more = (loader.report().budget_minimum_bytes for loader in loaders)
    assert more - few > 400 * 2 * 8000  # two reads of each: their tasks alone are that
