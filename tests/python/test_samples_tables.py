"""Groups from an index table, as train_meta.parquet gives them, and splits by keys: against what the table says."""

import os
import pickle
import time

import numpy as np
import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(tmp_path, rng, n_files=5, n_events=60):
    """Files of pulses and their table: batch_id, event_id, first and last pulse (inclusive), zenith."""
    rows, tables = {name: [] for name in ("batch_id", "event_id", "first", "last", "zenith")}, []
    for batch in range(1, n_files + 1):
        lengths = rng.integers(1, 20, n_events)
        event = 1000 * batch + np.arange(n_events) * 7
        ends = np.cumsum(lengths)
        rows["batch_id"] += [batch] * n_events
        rows["event_id"] += event.tolist()
        rows["first"] += (ends - lengths).tolist()
        rows["last"] += (ends - 1).tolist()
        rows["zenith"] += rng.random(n_events).tolist()
        tables.append(pa.table({"event_id": np.repeat(event, lengths), "charge": rng.random(ends[-1])}))
        pq.write_table(tables[-1], tmp_path / f"batch_{batch}.parquet", row_group_size=int(rng.integers(30, 200)))
    return pa.table(rows), pa.concat_tables(tables)


def places(samples):
    return [(samples[i].start, len(samples[i])) for i in range(len(samples))]


INDEX = {"first": "first", "last": "last"}


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_the_table_are_those_of_the_key(tmp_path, seed):
    rng = np.random.default_rng(seed)
    meta, pulses = write(tmp_path, rng)
    pq.write_table(meta, tmp_path / "meta.parq", row_group_size=97)
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    by_key = ds.groups("event_id")
    for table in (tmp_path / "meta.parq", meta, meta.take(rng.permutation(len(meta)))):
        samples = ds.groups("event_id", table=table, file="batch_id", **INDEX)
        assert places(samples) == places(by_key) and samples.max_rows == by_key.max_rows
    plain = fb.open(tmp_path / "batch_*.parquet")
    named = plain.groups("event_id", table=meta, file="batch_{batch_id}.parquet", **INDEX)
    assert places(named) == places(by_key)
    names = meta.append_column("name", pa.array([f"batch_{b}" for b in meta["batch_id"].to_pylist()]))
    assert places(plain.groups(table=names, file="name", **INDEX)) == places(by_key)
    at = meta.set_column(0, "at", pa.array([b - 1 for b in meta["batch_id"].to_pylist()]))
    assert places(plain.groups(table=at, file="at", file_by="position", **INDEX)) == places(by_key)


def test_a_smaller_table_is_a_selection(tmp_path):
    rng = np.random.default_rng(3)
    meta, pulses = write(tmp_path, rng)
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    groups = places(ds.groups("event_id"))
    for n in (3, 100, 290):
        rows = np.sort(rng.choice(len(meta), n, replace=False))
        samples = ds.groups("event_id", table=meta.take(rows), file="batch_id", **INDEX)
        assert places(samples) == [groups[r] for r in rows]
        event, charge = pulses["event_id"].to_numpy(), pulses["charge"].to_numpy()
        with samples.loader({"charge": "charge", "event": fb.col("event_id").first(), "row": fb.row_index()}, batch_size=9, framework="numpy") as loader:
            seen = []
            for batch in loader:
                for row, e, c in zip(batch["row"], batch["event"], batch["charge"].to_list()):
                    assert e == event[row] and np.array_equal(c, charge[row : row + len(c)])
                seen += batch["row"].tolist()
            assert sorted(seen) == [groups[r][0] for r in rows]


def test_a_table_of_more_files_than_are_open(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(4))
    ds = fb.open([tmp_path / "batch_4.parquet", tmp_path / "batch_2.parquet"])
    samples = ds.groups("event_id", table=meta, file="batch_{batch_id}.parquet", **INDEX)
    assert places(samples) == places(ds.groups("event_id"))


def test_choosing_by_what_the_table_says(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(5))
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    samples = ds.groups("event_id", table=meta, file="batch_id", **INDEX)
    groups, zenith, ids = places(samples), meta["zenith"].to_numpy(), meta["event_id"].to_numpy()
    assert places(samples.select("zenith", high=0.3)) == [g for g, z in zip(groups, zenith) if z < 0.3]
    some = np.random.default_rng(1).choice(ids, 40, replace=False)
    chosen = samples.select(some)
    assert places(chosen) == [g for g, i in zip(groups, ids) if i in set(some.tolist())]
    assert places(chosen.select("zenith", low=0.5)) == [g for g, i, z in zip(groups, ids, zenith) if i in set(some.tolist()) and z >= 0.5]
    assert len(samples.resample("zenith", n=700)) == 700


def test_samples_of_a_table_pickle(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(6))
    pq.write_table(meta, tmp_path / "meta.parq")
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    samples = ds.groups("event_id", table=tmp_path / "meta.parq", file="batch_id", **INDEX).select("zenith", low=0.5)
    assert places(pickle.loads(pickle.dumps(samples))) == places(samples)


def test_wrong_tables_say_what_is_wrong(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(7), 3)
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    plain = fb.open(tmp_path / "batch_*.parquet")
    options = {"file": "batch_id", **INDEX}

    def change(column, row, value):
        values = meta[column].to_pylist()
        values[row] = value
        return meta.set_column(meta.schema.get_field_index(column), column, pa.array(values))

    for call, error, says in (
        (lambda: ds.groups("event_id", table=change("last", 70, 10**6), **options), fb.DataError, "row 70 of the index table: .*beyond its file.*batch_2"),
        (lambda: ds.groups("event_id", table=change("first", 5, None), **options), fb.DataError, "row 5 of the index table"),
        (lambda: ds.groups("event_id", table=change("first", 9, 0), **options), fb.DataError, "overlap.*batch_1"),
        (lambda: plain.groups("event_id", table=meta, **options), ValueError, "no row of the index table.*such as 'batch_1'.*batch_id"),
        (lambda: ds.groups("event_id", table=meta, **INDEX), ValueError, "has 3 files: name the index table's column"),
        (lambda: ds.groups("event_id", table=meta, file="batch_id", first="first"), ValueError, "needs first and last"),
        (lambda: ds.groups("event_id", table=meta, file="batch", **INDEX), fb.SchemaError, "index table"),
        (lambda: ds.groups("event_id", first="first"), ValueError, "give the table"),
        (lambda: ds.groups(), ValueError, "groups need the column of their key"),
        (lambda: ds.groups(table=meta, **options).select([1]), ValueError, "have no key"),
    ):
        with pytest.raises(error, match=says):
            call()


def test_a_table_of_other_files_is_known_by_the_keys(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(7))
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")

    def with_keys(keys):
        table = meta.set_column(meta.schema.get_field_index("event_id"), "event_id", keys)
        return ds.groups("event_id", table=table, file="batch_id", **INDEX)

    key = meta["event_id"].to_numpy()
    want = places(with_keys(pa.array(key)))
    with pytest.raises(fb.DataError, match=r"row 0 of '.*batch_1.parquet' has event_id = 1000, row 0 of the table.* says 1007"):
        with_keys(pa.array(key + 7))
    for of_table in (np.int16, np.uint64, np.float32, np.float64):  # whatever the table's type
        assert places(with_keys(pa.array(key.astype(of_table)))) == want
        with pytest.raises(fb.DataError, match="row 0 of .* has event_id = 1000, row 0 of the table.* says 1007"):
            with_keys(pa.array((key + 7).astype(of_table)))
    last = key.copy()
    last[-1] += 1
    with pytest.raises(fb.DataError, match=r"batch_5.parquet' has event_id = 5413, row 299 of the table.* says 5414"):
        with_keys(pa.array(last))
    late = meta.set_column(3, "last", pa.array([x + (i == 40) for i, x in enumerate(meta["last"].to_pylist())]))
    late = late.filter(pa.array([i != 41 for i in range(len(late))]))  # group 40 has a row of the next, which the table leaves out
    with pytest.raises(fb.DataError, match="has event_id = 1287, row 40 of the table.* says 1280"):
        ds.groups("event_id", table=late, file="batch_id", **INDEX)
    assert places(with_keys(pa.array([f"e{k}" for k in key]))) == want  # text and numbers cannot be compared
    assert places(ds.groups(table=meta.drop_columns("event_id"), file="batch_id", **INDEX)) == want


def test_of_a_large_data_set_all_keys_are_looked_at(tmp_path):
    n, files = 40, 30
    key = np.repeat(np.arange(n), 1000)
    for i in range(files):
        pq.write_table(pa.table({"k": key + 1000 * i, "x": np.zeros(len(key), np.float32)}), tmp_path / f"f{i:02}.parquet", row_group_size=20_000)
    ds = fb.open(tmp_path / "*.parquet")
    first = np.tile(np.arange(n) * 1000, files)
    name, keys = np.repeat([f"f{i:02}" for i in range(files)], n), np.concatenate([np.arange(n) + 1000 * i for i in range(files)])

    def groups(keys):
        table = pa.table({"k": keys, "file": name, "first": first, "last": first + 999})
        return ds.groups("k", table=table, file="file", **INDEX)

    assert len(groups(keys)) == n * files
    for wrong in (keys + 1, np.where(name == "f00", keys + 1, keys), np.where(name == "f29", keys + 1, keys), np.roll(keys, 1)):
        with pytest.raises(fb.DataError, match="the index table is not one of these files"):
            groups(wrong)
    for at in range(1, n * files, 97):  # one event anywhere
        shifted = keys.copy()
        shifted[at] += 7
        row = first[at]
        with pytest.raises(fb.DataError, match=rf"row {row} of '.*{name[at]}.parquet' has k = {keys[at]}, row {at} of the table.* says {shifted[at]}"):
            groups(shifted)
    last = pa.table({"k": keys, "file": name, "first": first, "last": first + 999 + (np.arange(n * files) == 777)})
    last = last.filter(pa.array(np.arange(n * files) != 778))
    with pytest.raises(fb.DataError, match=rf"row {first[777] + 1000} of .* has k = {keys[778]}, row 777 of the table.* says {keys[777]}"):
        ds.groups("k", table=last, file="file", **INDEX)


def test_the_keys_of_a_table_are_compared_once(tmp_path):
    cache = tmp_path / "cache"
    meta, _ = write(tmp_path, np.random.default_rng(7))
    old = time.time() - 3600
    for path in tmp_path.glob("*.parquet"):
        os.utime(path, (old, old))

    def groups(table):
        ds = fb.open(tmp_path / "batch_{batch_id}.parquet", cache_dir=cache)
        samples = ds.groups("event_id", table=table, file="batch_id", **INDEX)
        return samples.notes, len(list(cache.glob("*.fbychecked")))

    assert groups(meta)[1] == 1 and groups(meta) == ([], 1)
    (checked,) = cache.glob("*.fbychecked")
    checked.chmod(0o666)
    (note,), _ = groups(meta)  # and writes its own in its place
    assert note.startswith("an earlier check of the index table") and note.endswith("it belongs to another user, or others may write to it")
    assert groups(meta) == ([], 1)
    shifted = meta.set_column(meta.schema.get_field_index("event_id"), "event_id", pa.array(meta["event_id"].to_numpy() + 7))
    with pytest.raises(fb.DataError, match="the index table is not one of these files"):
        groups(shifted)
    assert len(list(cache.glob("*.fbychecked"))) == 1
    half = meta.slice(0, 150)
    assert groups(half)[1] == 2  # other groups are another question
    for path in tmp_path.glob("*.parquet"):  # written anew, the events renumbered
        t = pq.read_table(path)
        if "event_id" in t.column_names:
            pq.write_table(t.set_column(t.schema.get_field_index("event_id"), "event_id", pa.array(t["event_id"].to_numpy() + 1)), path)
            os.utime(path, (old, old))
    with pytest.raises(fb.DataError, match="the index table is not one of these files"):
        groups(meta)


@pytest.mark.parametrize("by", ["groups", "kind"])
def test_fractions_of_keys_are_exact_disjoint_and_stable(tmp_path, by):
    rng = np.random.default_rng(8)
    tables = [pa.table({"k": np.repeat(rng.permutation(50), rng.integers(1, 9, 50))}) for _ in range(3)]
    for i, t in enumerate(tables):
        t = t.append_column("kind", pa.array((t["k"].to_numpy() % 20).astype(str)))
        tables[i] = t
        pq.write_table(t, tmp_path / f"f{i}.parquet", row_group_size=31)
    ds, table = fb.open(tmp_path / "*.parquet"), pa.concat_tables(tables)
    samples = ds.groups("k")
    values = table["k" if by == "groups" else by].to_numpy(zero_copy_only=False)
    parts = samples.split(train=0.7, val=0.2, test=0.1, by=by, seed=4)
    again = samples.split(train=0.7, val=0.2, test=0.1, by=by, seed=4)
    keys = {name: {values[r.start] for r in part} for name, part in parts.items()}
    n = len(set(values))
    assert [len(k) for k in keys.values()] == [round(0.7 * n), round(0.2 * n), round(0.1 * n)]
    assert not keys["train"] & keys["val"] and not keys["val"] & keys["test"] and not keys["train"] & keys["test"]
    assert sum(len(part) for part in parts.values()) == len(samples)
    assert all(places(parts[name]) == places(again[name]) for name in parts)
    other = samples.split(train=0.7, val=0.3, by=by, seed=5)
    assert places(other["train"]) != places(parts["train"])
    reordered = fb.open([tmp_path / "f2.parquet", tmp_path / "f0.parquet", tmp_path / "f1.parquet"])
    moved = reordered.groups("k").split(train=0.7, val=0.2, test=0.1, by=by, seed=4)
    column = pa.concat_tables([tables[2], tables[0], tables[1]])["k" if by == "groups" else by].to_numpy(zero_copy_only=False)
    assert {name: {column[r.start] for r in part} for name, part in moved.items()} == keys


def test_lists_of_keys(tmp_path):
    meta, _ = write(tmp_path, np.random.default_rng(9), 2)
    ds = fb.open(tmp_path / "batch_{batch_id}.parquet")
    samples, ids = ds.groups("event_id"), meta["event_id"].to_pylist()
    parts = samples.split(train=ids[:50], val=np.array(ids[70:]))
    assert places(parts["train"]) == places(samples)[:50] and places(parts["val"]) == places(samples)[70:]
    by_file = samples.split(train=["2"], val=["1"], by="batch_id")
    assert places(by_file["val"]) == places(samples)[:60]
    for call, says in (
        (lambda: samples.split(train=ids[:5], val=ids[4:9]), f"{ids[4]} is listed twice"),
        (lambda: samples.split(train=ids[:5], val=[1, 2]), "no sample has 1, 2"),
        (lambda: samples.split(train=ids[:5], val=0.5), "list at least one key for all splits, or give fractions"),
        (lambda: samples.split(train=ids[:5], by="time"), "lists keys: that splits by keys"),
        (lambda: samples.split(train=0.5, val=0.6, by="groups"), "together at most 1"),
        (lambda: samples.split(train=0.999, val=0.0005, by="batch_id"), "none of the 120 samples"),
    ):
        with pytest.raises(ValueError, match=says):
            call()
