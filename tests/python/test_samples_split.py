"""Splits of samples: by single samples, within classes, by a column of times, by the target of windows; what does not fit."""

import datetime
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from real_data import ROOT


def firsts(samples):
    """The first rows of all samples."""
    return [samples[i].start for i in range(len(samples))]


def write(folder, files=3, rows=200, seed=0):
    """Files of rows with a label of uneven classes, words, times that overlap between files, and events of five rows."""
    rng = np.random.default_rng(seed)
    tables = []
    for k in range(files):
        label = rng.choice(4, rows, p=[0.6, 0.25, 0.1, 0.05])
        when = np.datetime64("2020-01-01", "us") + rng.integers(0, 1000, rows) * np.timedelta64(1, "h")
        tables.append(pa.table({
            "label": label.astype(np.int8), "word": [f"w{x}" for x in label], "score": rng.normal(size=rows), "whole": label.astype(np.float32),
            "flag": label > 0, "when": when, "hours": rng.integers(0, 500, rows), "event": k * rows + np.arange(rows) // 5, "x": np.arange(rows, dtype="f4"),
        }))  # fmt: skip
        pq.write_table(tables[-1], folder / f"f{k}.parquet", row_group_size=64)
    return fb.open(folder), pa.concat_tables(tables)


KINDS = {
    "rows": lambda ds: ds.rows(), "windows": lambda ds: ds.windows(7, 2, stride=2), "groups": lambda ds: ds.groups("event"),
    "chosen": lambda ds: ds.rows().select("label", values=[0, 2]), "limited": lambda ds: ds.groups("event").limit(77, random=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stratify", [None, "label"])
def test_samples_are_drawn_one_by_one_and_all_are_in_one_part(tmp_path, kind, stratify):
    ds, _ = write(tmp_path)
    samples = KINDS[kind](ds)
    n = len(samples)
    if stratify and kind in ("limited", "groups"):  # few of the rare classes
        samples = samples.select("label", values=[0, 1])
        n = len(samples)
    parts = samples.split(train=0.7, val=0.2, test=0.1, by="samples", seed=3, stratify=stratify)
    got = {name: firsts(part) for name, part in parts.items()}
    assert sorted(sum(got.values(), [])) == firsts(samples)
    if not stratify:
        ends = [int(f * n + 1e-6) for f in (0.7, 0.9, 1)]
        assert [len(part) for part in parts.values()] == np.diff([0, *ends]).tolist()
    again, other = (samples.split(train=0.7, val=0.2, test=0.1, by="samples", seed=s, stratify=stratify) for s in (3, 4))
    assert {name: firsts(part) for name, part in again.items()} == got
    assert firsts(other["train"]) != got["train"]
    back = pickle.loads(pickle.dumps(parts["val"]))
    assert firsts(back) == got["val"] and got["val"] == sorted(got["val"])
    with parts["val"].loader({"row": fb.row_index()}, batch_size=16, framework="numpy") as loader:
        assert sorted(np.concatenate([batch["row"] for batch in loader]).tolist()) == got["val"]


def test_a_draw_is_uniform():
    ds = fb.open({"x": np.arange(10.0)})
    times = np.zeros(10)
    for seed in range(2000):
        times[firsts(ds.rows().split(a=0.3, b=0.7, by="samples", seed=seed)["a"])] += 1
    assert times.sum() == 6000 and np.abs(times - 600).max() < 5 * np.sqrt(600 * 0.7)


@pytest.mark.parametrize("column", ["label", "word", "whole", "flag"])
def test_every_part_has_its_share_of_every_class(tmp_path, column):
    ds, table = write(tmp_path, files=4, rows=250)
    classes = np.array(table[column].to_pylist())
    fractions = {"train": 0.7, "val": 0.15, "test": 0.15}
    parts = ds.rows().split(**fractions, stratify=column, seed=1)
    for name, part in parts.items():
        rows = np.array(firsts(part))
        assert abs(len(rows) - fractions[name] * 1000) < 2
        for value in np.unique(classes):
            assert abs((classes[rows] == value).sum() - fractions[name] * (classes == value).sum()) < 1
    assert sum(map(len, parts.values())) == 1000


def test_roundings_even_out_over_many_small_classes_and_rest_is_in_no_part():
    ds = fb.open({"c": np.repeat(np.arange(300), 3)})
    parts = ds.rows().split(train=0.8, val=0.1, by="samples", stratify="c", seed=5)
    assert abs(len(parts["train"]) - 720) <= 1 and abs(len(parts["val"]) - 90) <= 1
    assert set(np.bincount(np.array(firsts(parts["train"])) // 3, minlength=300)) == {2, 3}
    assert not set(firsts(parts["train"])) & set(firsts(parts["val"]))


def test_what_is_missing_is_a_class_and_a_class_of_an_index_table_counts():
    label = np.where(np.arange(90) % 3 == 0, np.nan, np.arange(90) % 3)
    parts = fb.open({"label": label}).rows().split(a=0.5, b=0.5, stratify="label")
    assert [np.isnan(label[firsts(part)]).sum() for part in parts.values()] == [15, 15]
    meta = {"first": np.arange(0, 80, 4), "last": np.arange(3, 80, 4), "kind": np.arange(20) % 2}
    events = fb.open({"x": np.arange(80.0)}).groups(table=meta, first="first", last="last")
    for part in events.split(a=0.5, b=0.5, stratify="kind").values():
        assert np.bincount(np.array(firsts(part)) // 4 % 2).tolist() == [5, 5]


def test_repeats_stay_together(tmp_path):
    ds, table = write(tmp_path)
    twice = ds.rows().oversample("label", {1: 3, 2: 0})
    for options in ({"by": "samples"}, {"stratify": "label"}, {"time": "when"}):
        parts = twice.split(a=0.5, b=0.5, **options)
        rows = {name: firsts(part) for name, part in parts.items()}
        assert not set(rows["a"]) & set(rows["b"]) and sorted(rows["a"] + rows["b"]) == firsts(twice)
        distinct = len(set(firsts(twice)))
        if "time" not in options:
            assert abs(len(set(rows["a"])) - distinct / 2) <= 1


@pytest.mark.parametrize("kind", ["rows", "groups", "chosen", "limited"])
@pytest.mark.parametrize("column", ["when", "hours", "score"])
def test_other_samples_are_cut_by_a_column_of_times(tmp_path, kind, column):
    ds, table = write(tmp_path)
    samples = KINDS[kind](ds)
    rows = np.array(firsts(samples))
    times = np.asarray(table[column].to_pylist())[rows]
    parts = samples.split(train=0.6, val=0.2, test=0.2, by="time", time=column)
    ordered = np.sort(times)
    cuts = [ordered[int(f * len(times) + 1e-6)] for f in (0.6, 0.8)]
    want = {"train": times < cuts[0], "val": (times >= cuts[0]) & (times < cuts[1]), "test": times >= cuts[1]}
    for name, part in samples.split(train=0.6, val=0.2, test=0.2, time=column).items():
        assert firsts(part) == rows[want[name]].tolist() == firsts(parts[name])
    half = samples.split(first=0.5, time=column)["first"]
    assert firsts(half) == rows[times < ordered[int(0.5 * len(times) + 1e-6)]].tolist()


def test_negative_times_and_fractions_keep_their_order():
    times = np.array([3.5, -1.5, 0.0, -0.0, -7.25, 2.0, -3.0, 9.0])
    parts = fb.open({"t": times}).rows().split(a=0.5, b=0.5, time="t")
    assert firsts(parts["a"]) == [1, 4, 6] and len(parts["b"]) == 5  # 0.0 and -0.0 are one time


@pytest.mark.parametrize(("inputs", "output"), [(5, 0), (4, 1), (4, 3), (0, 2)])
@pytest.mark.parametrize("by", [None, "key"])
def test_a_window_is_in_the_part_that_its_target_begins_in(tmp_path, inputs, output, by):
    keys, rows = [np.repeat(["a", "b"], [31, 29]), np.repeat(["c", "d"], [7, 50])], []
    for k, key in enumerate(keys):
        pq.write_table(pa.table({"key": key, "x": np.arange(len(key))}), tmp_path / f"{k}.parquet", row_group_size=13)
    samples = fb.open(tmp_path).windows(inputs, output, **({"by": by} if by else {}))
    parts = samples.split(train=0.6, val=0.25, test=0.15, by="time", at="target")
    length, base, want = inputs + output, 0, {name: [] for name in parts}
    series = [31, 29, 7, 50] if by else [60, 57]
    for n in series:
        ends = [int(f * n + 1e-6) for f in (0, 0.6, 0.85, 1)]
        for start in range(n - length + 1):
            target = start + inputs if output else start + length - 1
            (part,) = (name for name, lo, hi in zip(parts, ends, ends[1:]) if lo <= target < hi)
            want[part].append(base + start)
        base += n
    assert {name: firsts(part) for name, part in parts.items()} == want
    assert sorted(sum(want.values(), [])) == firsts(samples)
    strict = samples.split(train=0.6, val=0.25, test=0.15, by="time")
    assert sum(map(len, strict.values())) < len(samples)
    chosen = samples.limit(20, random=True)
    some = chosen.split(train=0.6, val=0.25, test=0.15, by="time", at="target")
    assert {name: set(firsts(part)) for name, part in some.items()} == {name: set(rows) & set(firsts(chosen)) for name, rows in want.items()}


def test_no_window_is_lost_to_a_cut_that_only_inputs_reach_over(tmp_path):
    for name, rows in (("a", 20), ("b", 10)):
        pq.write_table(pa.table({"x": np.arange(rows)}), tmp_path / f"{name}.parquet")
    samples = fb.open(tmp_path).windows(4, 3)  # 7 rows: 14 windows in 'a', 4 in 'b'
    fractions = {"train": 0.5, "val": 0.3, "test": 0.2}
    # 'a' is cut before rows 10 and 16: targets begin in rows 4 to 9, 10 to 15, 16 and 17. 'b' before rows 5 and 8: in row 4, 5 to 7, and none
    by_target = samples.split(**fractions, by="time", at="target")
    assert {name: len(part) for name, part in by_target.items()} == {"train": 6 + 1, "val": 6 + 3, "test": 2 + 0}
    # a window needs 7 rows of one part: of the 10 of 'a' in train there are 4 windows; other parts have 6, 4, 5, 3 and 2 rows
    with pytest.raises(ValueError, match=r"split 'val' \(0.3\) holds no sample: .* the longest series has 20 rows, and a window takes 7"):
        samples.split(**fractions, by="time")
    assert len(samples.split(train=0.5, by="time")["train"]) == 4
    # 'a' has 2 rows between train and val, 'b' 1: fewer than the 2 by which targets reach over a cut are too few
    apart = samples.split(train=0.5, gap=0.1, val=0.4, by="time", at="target")
    ends = [start + 7 for start in firsts(apart["train"]) if start < 20]
    assert max(ends) == 12 == min(start + 4 for start in firsts(apart["val"]))
    with pytest.raises(ValueError, match=r"split 'train' \(0.1\) holds no sample: .* the longest series has 20 rows, and before the first target lie 4"):
        samples.split(train=0.1, test=0.9, by="time", at="target")


def test_the_docs_say_how_many_windows_each_rule_leaves_in_each_part():
    windows = fb.open({"x": np.arange(3650.0)}).windows(365, 7)
    for at, row in (("window", '| `by="time"` |'), ("target", '| `by="time", at="target"` |')):
        parts = windows.split(train=0.7, val=0.15, test=0.15, by="time", at=at)
        counts = [*map(len, parts.values())]
        counts.append(len(windows) - sum(counts))
        assert f"{row} {' | '.join(f'{n:,}' for n in counts)} |\n" in (ROOT / "docs/samples.md").read_text()


def test_windows_are_cut_at_a_common_date_by_selecting(tmp_path):
    day, rows = np.timedelta64(1, "D"), {"a": 30, "b": 20}
    begins = {"a": np.datetime64("2000-01-01"), "b": np.datetime64("2000-01-11")}
    for name, n in rows.items():
        pq.write_table(pa.table({"date": (begins[name] + np.arange(n) * day).astype("M8[ns]"), "x": np.arange(n)}), tmp_path / f"{name}.parquet")
    windows = fb.open(tmp_path).windows(4, 3)
    cut = datetime.date(2000, 1, 21)
    with pytest.raises(ValueError, match="time: windows are cut in the order of the rows .* select by it: 'date' in the first row"):
        windows.split(train=0.5, val=0.5, by="time", time="date")
    for text in (False, True):
        low, high = cut - datetime.timedelta(days=4), cut - datetime.timedelta(days=6)
        train = windows.select("date", high=str(high) if text else high)  # all seven days before the cut: the first one by the 14th
        test = windows.select("date", low=str(low) if text else low)  # the first day of the target on the cut or later: the first one from the 17th on
        assert firsts(train) == [*range(14), *range(30, 30 + 4)] and firsts(test) == [*range(16, 24), *range(30 + 6, 30 + 14)]


def test_a_state_tells_parts_apart(tmp_path):
    ds, _ = write(tmp_path)
    windows = ds.windows(4, 2)
    state = {}
    for at in ("window", "target"):
        with windows.split(a=0.5, b=0.5, by="time", at=at)["a"].loader("x", batch_size=8, framework="numpy") as loader:
            state[at] = loader.state_dict()
    with windows.split(a=0.5, b=0.5, by="time")["a"].loader("x", batch_size=8, framework="numpy") as loader:
        loader.load_state_dict(state["window"])
        with pytest.raises(ValueError, match="samples"):
            loader.load_state_dict(state["target"])


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda ds: ds.rows().split(a=0.6, b=0.5, by="samples"), ValueError, "split 'b': 0.5: fractions are above 0 and together at most 1"),
        (lambda ds: ds.rows().split(a=1.5, by="samples"), ValueError, "a=1.5: fractions are above 0 and together at most 1: 0.8 for 80 %"),
        (lambda ds: ds.rows().split(a=float("nan"), by="samples"), ValueError, "a=nan: fractions"),
        (lambda ds: ds.rows().split(a=0.5, b=0.001, by="samples"), ValueError, r"split 'b' \(0.001 of 600 samples\) holds no sample"),
        (lambda ds: ds.rows().split(a=0.5, stratify="nope"), fb.SchemaError, "nope"),
        (lambda ds: ds.rows().split(a=0.5, stratify="score"), ValueError, r"stratify: 'score' is -?[0-9.e-]+ in sample \d+: a class is a whole number"),
        (lambda ds: ds.rows().limit(6).split(a=0.5, b=0.5, stratify="event"), ValueError, "'event' is 1 in 1 sample, and there are 2 splits"),
        (lambda ds: ds.rows().split(a=0.5, stratify="label", by="files"), ValueError, "stratify goes with by samples"),
        (lambda ds: ds.rows().split(a=0.5, stratify=0.5), TypeError, "stratify= names a column, as a str, not float; splits have other names"),
        (lambda ds: ds.rows().split(a=0.5, time=0.5), TypeError, "time= names a column"),
        (lambda ds: ds.rows().split(a=[1], b=[2], by="samples"), ValueError, "split 'a' lists keys"),
        (lambda ds: ds.rows().split(a=0.5, by="time"), ValueError, "name the column of the time of these samples .time=.when.."),
        (lambda ds: ds.rows().split(a=0.5, time="word"), ValueError, "'word' holds strings"),
        (lambda ds: ds.rows().split(a=0.5, time="nope"), fb.SchemaError, "nope"),
        (lambda ds: ds.rows().split(a=0.5, by="samples", time="when"), ValueError, "time goes with by time"),
        (lambda ds: ds.rows().split(a=0.5, b=0.001, c=0.499, time="flag"), ValueError, "split 'a' .* those of one time of 'flag' stay together"),
        (lambda ds: ds.windows(5).split(a=0.5, time="when"), ValueError, "in the order of the rows"),
        (lambda ds: ds.rows().split(a=0.5, time="when", at="target"), ValueError, "at is about windows"),
        (lambda ds: ds.windows(5).split(a=0.5, by="time", at="end"), ValueError, "use 'window' or 'target'"),
        (lambda ds: ds.rows().split(a=0.5, by="sample"), ValueError, "'files', 'time', 'samples' or 'groups'"),
        (lambda ds: ds.rows().resample("whole", each_epoch=True).split(a=0.5, by="samples"), ValueError, "drawn anew in every epoch"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, make, error, says):
    ds, _ = write(tmp_path)
    with pytest.raises(error, match=says):
        make(ds)


def test_a_part_that_no_key_falls_to_says_why_and_what_does():
    windows = fb.open({"x": np.arange(100.0)}).windows(5)
    with pytest.raises(ValueError, match=r"split '(a|b)': none of the 96 samples is left: .*each file is one.*split by time or samples") as refused:
        windows.split(a=0.5, b=0.5, by="groups")
    assert "''" not in str(refused.value)
    for by in ("time", "samples"):
        assert len(windows.split(a=0.5, b=0.5, by=by)) == 2


def test_a_sample_without_a_time_is_named():
    ds = fb.open({"t": np.array([1.0, np.nan, 3.0])})
    with pytest.raises(fb.DataError, match="sample 1 has no value of 't'"):
        ds.rows().split(a=0.5, b=0.5, time="t")


def test_a_frame_and_an_array_of_cells_are_split_too(tmp_path):
    h5py = pytest.importorskip("h5py")
    pandas = pytest.importorskip("pandas")
    frame = fb.open(pandas.DataFrame({"x": np.arange(50), "y": np.arange(50) % 2}))
    parts = frame.rows().split(train=0.8, val=0.2, stratify="y")
    assert [len(part) for part in parts.values()] == [40, 10]
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = np.arange(6 * 4 * 5, dtype="f4").reshape(6, 4, 5)
        file["label"] = np.arange(6) % 2
    cells = fb.open(tmp_path / "c.h5").cells(2)
    halves = cells.split(a=0.5, b=0.5, stratify="label")
    for part in halves.values():
        assert np.bincount(np.array(firsts(part)) // 4 % 2).tolist() == [6, 6]


def test_parts_are_kept_on_disk_and_found_again(tmp_path):
    (tmp_path / "d").mkdir()
    write(tmp_path / "d", files=70, rows=80)
    import os
    import time

    for path in (tmp_path / "d").iterdir():
        os.utime(path, (time.time() - 10,) * 2)
    first = {}
    for _ in range(2):
        ds = fb.open(tmp_path / "d", cache_dir=tmp_path / "cache")
        for options in ({"stratify": "label"}, {"time": "when"}, {"time": "hours"}, {"stratify": "word"}):
            got = {name: firsts(part) for name, part in ds.rows().split(a=0.6, b=0.4, **options).items()}
            assert first.setdefault(str(options), got) == got
    assert len(list((tmp_path / "cache").rglob("*.fbychoice"))) == 8


PIPELINE = """
data: data
samples: {samples}
splits: {{train: 0.8, val: 0.2, {how}}}
loader: {{batch_size: 8, split: train}}
"""


@pytest.mark.parametrize(
    ("samples", "how", "make"),
    [
        ("rows", "by: samples, seed: 3", lambda ds: ds.rows().split(train=0.8, val=0.2, by="samples", seed=3)),
        ("rows", "stratify: word", lambda ds: ds.rows().split(train=0.8, val=0.2, stratify="word")),
        ("rows", "by: time, time: when", lambda ds: ds.rows().split(train=0.8, val=0.2, time="when")),
        ("{groups: event}", "time: hours", lambda ds: ds.groups("event").split(train=0.8, val=0.2, time="hours")),
        ("{windows: {input: 5, output: 1}}", "by: time, at: target", lambda ds: ds.windows(5, 1).split(train=0.8, val=0.2, by="time", at="target")),
    ],
)
def test_a_pipeline_file_says_the_same(tmp_path, samples, how, make):
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    (tmp_path / "p.yaml").write_text(PIPELINE.format(samples=samples, how=how))
    pipeline = fb.pipeline(tmp_path / "p.yaml")
    for name, part in make(fb.open(tmp_path / "data")).items():
        assert firsts(pipeline[name]) == firsts(part)
    with pipeline.loader() as loader:
        assert len(loader) == -(-len(pipeline["train"]) // 8)


@pytest.mark.parametrize(
    ("samples", "how", "says"),
    [
        ("rows", "by: time", r"p\.yaml:4:\d+: splits: by: time of samples that are no windows needs time"),
        ("rows", "by: samples, stratify: 3", "splits: stratify"),
        ("rows", "stratify: score", "splits: stratify: 'score' is"),
        ("rows", "by: samples, at: end", "splits: at: unknown word 'end'"),
        ("rows", "by: samples, train: 0.1", "train.*twice|duplicate|already"),
        ("rows", "by: samples, test: 0.1", "splits: test: fractions are above 0 and together at most 1"),
    ],
)
def test_a_pipeline_file_is_told_what_does_not_fit(tmp_path, samples, how, says):
    (tmp_path / "data").mkdir()
    write(tmp_path / "data")
    (tmp_path / "p.yaml").write_text(PIPELINE.format(samples=samples, how=how))
    with pytest.raises((ValueError, fb.Error), match=says):
        fb.pipeline(tmp_path / "p.yaml").loader()


def test_the_rule_by_target_keeps_the_windows_that_the_other_loses_to_warm_up(tmp_path):
    rows, fractions, inputs, output = [900, 700, 1100, 450, 380, 2000], {"train": 0.7, "val": 0.15, "test": 0.15}, 90, 7
    for k, n in enumerate(rows):
        pq.write_table(pa.table({"x": np.arange(n)}), tmp_path / f"{k}.parquet")
    windows, length = fb.open(tmp_path).windows(inputs, output), inputs + output
    by_target, inside = dict.fromkeys(fractions, 0), dict.fromkeys(fractions, 0)
    for n in rows:
        ends = [int(f * n + 1e-6) for f in (0, 0.7, 0.85, 1)]
        for name, lo, hi in zip(fractions, ends, ends[1:]):
            by_target[name] += max(0, min(hi, n - output + 1) - max(lo, inputs))  # first rows of an output
            inside[name] += max(0, hi - lo - length + 1)
    assert {name: len(part) for name, part in windows.split(**fractions, by="time", at="target").items()} == by_target
    assert {name: len(part) for name, part in windows.split(**fractions, by="time").items()} == inside
    assert sum(by_target.values()) == len(windows) and sum(inside.values()) < 0.8 * len(windows)
