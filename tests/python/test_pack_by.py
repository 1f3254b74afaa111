"""fb.pack(by=KEY): each value has files of its own, its rows are mixed with each other alone, and nothing but seed and source decides a byte."""

import json
import os
import pathlib
import random
import re
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay import _forebay
from pack_cases import contents, write

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("FOREBAY_CLI", ROOT / "build/forebay"))
needs_cli = pytest.mark.skipif(not CLI.exists(), reason=f"no command at {CLI}: run make, or set FOREBAY_CLI")

REGIONS = ["north", "south", "a b", "a", "a-0", "a.b", "Zürich", "", "x/../y", "100%"]
NAMES = {"a b": "a%20b", "a-0": "a%2D0", "Zürich": "Z%C3%BCrich", "x/../y": "x%2F..%2Fy", "100%": "100%25"}


def regions(n, seed=0, values=REGIONS):
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, len(values) + 1)
    which = rng.choice(len(values), n, p=weights / weights.sum())
    return pa.table({"i": np.arange(n), "region": [values[w] for w in which], "x": rng.standard_normal(n).astype("f4")})


def read(path):
    return pa.ipc.open_file(path).read_all() if path.suffix == ".arrow" else pq.read_table(path)


def files(folder, value, extension="arrow"):
    return sorted(folder.glob(f"part-{NAMES.get(value, value)}-?????.{extension}"))


def rows_of(folder, value, extension="arrow"):
    return pa.concat_tables(read(f) for f in files(folder, value, extension))


@pytest.mark.parametrize("shuffle", ["full", "none"])
@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_each_value_has_files_of_its_own(tmp_path, shuffle, format):
    table = regions(20_000)
    options = {"shuffle": shuffle, "seed": 3, "batch": 100, "rows_per_file": 1500, "format": format, "verify": True}
    done = fb.pack(write(table, tmp_path / "src"), tmp_path / "out", by="region", **options)
    manifest = json.loads((tmp_path / "out/_pack.json").read_text())
    assert manifest["by"] == "region" and done.keys == len(REGIONS) and [k["value"] for k in manifest["keys"]] != sorted(REGIONS)
    for key in manifest["keys"]:
        value = key["value"]
        mine = np.array([i for i, r in enumerate(table["region"].to_pylist()) if r == value])
        found = rows_of(tmp_path / "out", value, format)
        assert len(files(tmp_path / "out", value, format)) == key["files"] == -(-len(mine) // 1500) and key["rows"] == len(mine)
        order = found["i"].to_numpy()
        assert found.equals(table.take(order).cast(found.schema))
        assert np.array_equal(np.sort(order), mine) and (shuffle == "full") != np.array_equal(order, mine)
    assert sum(k["files"] for k in manifest["keys"]) == done.files == len(list((tmp_path / "out").glob("part-*")))


def test_rows_come_in_the_order_of_file_names_and_a_pattern_tells_values(tmp_path):
    table = regions(5_000)
    fb.pack(table, tmp_path / "out", by="region", seed=3, rows_per_file=400)
    manifest = json.loads((tmp_path / "out/_pack.json").read_text())
    wanted = [k["value"] for k in manifest["keys"] for _ in range(k["rows"])]
    assert pa.table(fb.open(tmp_path / "out"))["region"].to_pylist() == wanted
    ds = fb.open(str(tmp_path / "out/part-{name}-{n}.arrow"))
    assert set(pa.table(ds)["name"].to_pylist()) == {NAMES.get(r, r) for r in REGIONS if r}


def test_the_order_of_a_value_depends_on_its_rows_and_the_seed_alone(tmp_path):
    table = regions(9_000)
    fb.pack(table, tmp_path / "all", by="region", seed=5)
    fb.pack(table.filter(pa.array([r == "south" for r in table["region"].to_pylist()])), tmp_path / "one", by="region", seed=5)
    fb.pack(table, tmp_path / "other", by="region", seed=6)
    assert rows_of(tmp_path / "all", "south").equals(rows_of(tmp_path / "one", "south"))
    assert not rows_of(tmp_path / "all", "south").equals(rows_of(tmp_path / "other", "south"))
    same = pa.table({"k": ["a", "b"] * 500, "i": [i // 2 for i in range(1000)]})  # as many rows, and another order
    fb.pack(same, tmp_path / "same", by="k", seed=5)
    assert not rows_of(tmp_path / "same", "a")["i"].equals(rows_of(tmp_path / "same", "b")["i"])


@pytest.mark.parametrize("rows_per_file", [700, 150_000])  # files that are smaller than a bucket, and larger
def test_neither_memory_nor_threads_nor_tasks_decide_a_byte(tmp_path, rows_per_file):
    table = regions(200_000)
    wide = table.append_column("y", pa.array(list(np.random.default_rng(1).standard_normal((200_000, 24)).astype("f4")), pa.list_(pa.float32(), 24)))
    source = write(wide, tmp_path / "src", files=5, row_group_size=10_000)
    options = {"by": "region", "seed": 11, "batch": 300, "rows_per_file": rows_per_file}
    small = fb.pack(source, tmp_path / "a", memory="16MiB", threads=1, **options)
    large = fb.pack(source, tmp_path / "b", memory="1GiB", threads=3, verify=True, **options)
    assert small.buckets > large.buckets
    tasks = fb.pack_tasks(source, tmp_path / "c", memory="24MiB", **options)
    pick = random.Random(3)
    for phase in _forebay.pack_phases():
        mine = [task for task in tasks if task.phase == phase] * 2
        pick.shuffle(mine)
        for task in mine:
            fb.pack_task(source, tmp_path / "c", task, memory="24MiB", **options)
    found = [{k: v for k, v in contents(tmp_path / name).items() if k != "_pack.json"} for name in "abc"]
    assert found[0] == found[1] == found[2]
    assert sum(task.rows for task in tasks if task.phase == "write") == 200_000


@pytest.mark.parametrize("values, rows_per_file", [(["one"], 200_000), (["one"], 30_000), (["a", "b", "c"], 25_000)])
def test_there_are_no_tasks_without_work(tmp_path, values, rows_per_file):
    source = write(regions(200_000, values=values), tmp_path / "src", row_group_size=2_000)
    options = {"by": "region", "seed": 5, "batch": 100, "rows_per_file": rows_per_file, "verify": True}
    done = fb.pack(source, tmp_path / "whole", **options)
    for name, memory in (("small", "16MiB"), ("large", "1GiB")):
        tasks = fb.pack_tasks(source, tmp_path / name, memory=memory, **options)
        writes = [task for task in tasks if task.phase == "write"]
        assert all(task.rows and task.outputs for task in writes) and sum(task.rows for task in writes) == 200_000
        assert [name for task in writes for name in task.outputs] == sorted(f".forebay-pack/{n}" for n in contents(tmp_path / "whole") if n != "_pack.json")
        for task in tasks:
            fb.pack_task(source, tmp_path / name, task, memory=memory, **options)
        assert contents(tmp_path / name) == contents(tmp_path / "whole")
    if rows_per_file == 200_000:
        assert len(writes) == done.files == 1


def test_a_task_reads_the_key_once_the_plan_is_written_no_more(tmp_path):
    source = write(regions(50_000), tmp_path / "src")
    options = {"by": "region", "seed": 1, "memory": "16MiB"}
    said = []
    fb.pack_task(source, tmp_path / "out", "plan:0", progress=lambda done, total, what: said.append(what), **options)
    assert "reading the key" in said
    said.clear()
    for task in fb.pack_tasks(source, tmp_path / "out", **options):
        fb.pack_task(source, tmp_path / "out", task, progress=lambda done, total, what: said.append(what), **options)
    assert "reading the key" not in said and "writing" in said


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
def test_integers_and_booleans_are_keys(tmp_path, kind):
    values = [0, 1] if kind == "bool" else [0, 3, 100, -7 if kind.startswith("i") else 250]
    keys = pa.array([values[i % len(values)] for i in range(100)], pa.int64()).cast(pa.type_for_alias(kind))
    fb.pack(pa.table({"k": keys, "i": range(100)}), tmp_path / "out", by="k")
    for i, value in enumerate(values):
        name = str(bool(value)).lower() if kind == "bool" else str(value).replace("-", "%2D")
        assert sorted(rows_of(tmp_path / "out", name)["i"].to_pylist()) == list(range(i, 100, len(values)))


def test_outputs_are_keys_too(tmp_path):
    table = regions(3_000)
    fb.pack(write(table, tmp_path / "src"), tmp_path / "out", by="region", outputs=["region", "x", "i"], seed=2, verify=True)
    for value in REGIONS:
        assert set(rows_of(tmp_path / "out", value)["region"].to_pylist()) == {value}


def test_what_is_no_key_is_refused_by_name(tmp_path):
    table = pa.table({"f": [0.5], "l": [[1]], "n": pa.array([None], pa.string()), "long": ["é" * 40], "i": [1], "d": pa.array([b"a"])})
    for by, error, words in [
        ("none", fb.SchemaError, "the key 'none': it is none of what is packed"),
        ("f", fb.UnsupportedError, "the key 'f' is float64: files are named by integers, texts and booleans"),
        ("l", fb.UnsupportedError, "the key 'l' is list<int64>: "),
        ("d", fb.UnsupportedError, "the key 'd' is binary: "),
        ("n", fb.DataError, "the key 'n' has a null in row 0"),
        ("long", fb.UnsupportedError, "too long to name files"),
    ]:
        with pytest.raises(error, match=words):
            fb.pack(table, tmp_path / "out", by=by)
    with pytest.raises(fb.SchemaError, match="the key 'f'"):
        fb.pack(table, tmp_path / "out", by="f", columns=["i"])
    with pytest.raises(fb.UnsupportedError, match="more than 65536 values"):
        fb.pack(pa.table({"k": range(70_000)}), tmp_path / "out", by="k")
    assert not (tmp_path / "out").exists()


def test_many_values_of_few_rows(tmp_path):
    table = pa.table({"k": [f"basin{i % 3000}" for i in range(30_000)], "i": range(30_000)})
    done = fb.pack(write(table, tmp_path / "src", row_group_size=500), tmp_path / "out", by="k", memory="16MiB", threads=2, verify=True)
    assert (done.keys, done.files) == (3000, 3000)
    assert sorted(rows_of(tmp_path / "out", "basin7")["i"].to_pylist()) == list(range(7, 30_000, 3000))


def test_no_rows(tmp_path):
    done = fb.pack(regions(10).slice(0, 0), tmp_path / "out", by="region", verify=True)
    assert (done.rows, done.files, done.keys) == (0, 1, 0)
    assert read(tmp_path / "out/part-00000.arrow").num_rows == 0


def test_an_unfinished_pack_by_another_key_is_not_gone_on_with(tmp_path):
    source = write(regions(100).append_column("other", pa.array([0, 1] * 50)), tmp_path / "src")
    fb.pack_task(source, tmp_path / "out", "plan:0", by="region")
    for by in ("other", None):
        with pytest.raises(ValueError, match='with other options: it has "by": "region", and this one ' + ('"by": "other"' if by else "no key")):
            fb.pack_task(source, tmp_path / "out", "scatter:0", by=by)


def test_a_misspelt_option_of_tasks_is_said():
    for call in (lambda: fb.pack_tasks("a", "b", bye="x"), lambda: fb.pack_task("a", "b", "plan:0", bye="x")):
        with pytest.raises(TypeError, match="has no argument 'bye': did you mean 'by'"):
            call()


@needs_cli
def test_the_command_says_what_does_for_a_null_key_and_for_a_null_in_hdf5(tmp_path):
    write(pa.table({"k": ["a", None], "v": [1, None], "s": ["x", "y"]}), tmp_path / "src")

    def said(*options):
        done = subprocess.run([CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", *options], capture_output=True, text=True)
        assert done.returncode != 0
        return done.stderr.split("try:")[1]

    plan = subprocess.run([CLI, "pack", tmp_path / "src", "--to", tmp_path / "out", "--by", "s", "--dry-run"], capture_output=True, text=True, check=True)
    assert "2, of about 1 row each" in plan.stdout
    assert "--outputs FILE" in said("--by", "k") and "--dtype" not in said("--by", "k")
    assert "--format arrow" in said("--by", "s", "--columns", "s,v", "--format", "hdf5")
    (tmp_path / "p.yaml").write_text("data: {paths: src}\nsamples: {rows: true}\noutputs: {k: k, s: s}\nloader: {batch_size: 2}\n")
    subprocess.run([CLI, "pack", "--outputs", tmp_path / "p.yaml", "--by", "k", "--to", tmp_path / "done"], check=True, cwd=tmp_path)
    assert (tmp_path / "done/part--00000.arrow").exists()


@needs_cli
def test_the_command_says_what_does_for_a_key_that_cannot_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")  # from which sizes are found, before the key is read
    (tmp_path / "b.csv").write_text("x,y\n1,2\nmany,3\n")
    (tmp_path / "p.yaml").write_text("data: {paths: ['a.csv', 'b.csv'], dtypes: {x: int64}}\nsamples: {rows: true}\noutputs: {x: x}\n")
    nul = fb.open(write(pa.table({"k": ["a", "b\0c"]}), tmp_path / "nul"))
    with pytest.raises(fb.DataError, match="a text with a NUL in row 1"):
        fb.pack(nul, tmp_path / "out", by="k")

    def said(*options):
        done = subprocess.run([CLI, "pack", *options, "--to", "out", "--no-cache"], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        return done.stderr.partition("try:")

    for format in ("arrow", "hdf5"):
        for paths in (["a.csv", "b.csv"], ["b.csv"]):
            message, _, step = said(*paths, "--by", "x", "--dtype", "x=int64", "--format", format)
            assert "many" in message and "--dtype" in step and "--outputs" not in step
        message, _, step = said("--outputs", "p.yaml", "--by", "x", "--format", format)
        assert "many" in message and "dtype" in step and "--" not in step
    message, _, step = said("nul", "--by", "k")
    assert "a text with a NUL" in message and not step


def test_what_killed_write_tasks_have_left_is_each_ones_own(tmp_path):
    values = [f"v{i % 7}" for i in range(150)]
    source = write(regions(400_000, values=sorted(set(values)) + values[:3] + ["w", "w-1", "w.2"]), tmp_path / "src", row_group_size=4_000)
    options = {"by": "region", "memory": "16MiB", "rows_per_file": 20_000}
    work = tmp_path / "out/.forebay-pack"
    tasks = fb.pack_tasks(source, tmp_path / "out", **options)
    fb.pack_task(source, tmp_path / "out", "plan:0", **options)
    writes = [task for task in tasks if task.phase == "write"]
    assert len(writes) > 1 and max(len(task.outputs) for task in writes) > 2
    others = [work / "part-none-00000.arrow.0000000000000000.new", work / ".0000000000000000.new", work / "x.new"]
    left = {task: [tmp_path / "out" / f"{name}.{i:016x}.new" for i, name in enumerate(task.outputs)] for task in writes}
    for path in [*others, *sum(left.values(), [])]:
        path.write_bytes(b"some of it")
    for task in tasks:
        if task.phase in ("scatter", "write"):
            fb.pack_task(source, tmp_path / "out", task, **options)
            left.pop(task, None)
            assert sorted(work.glob("*.new")) == sorted([*others, *sum(left.values(), [])])


@pytest.mark.parametrize("format", ["arrow", "parquet", "hdf5"])
def test_a_dry_run_counts_what_each_file_takes(tmp_path, format):
    if format == "hdf5":
        pytest.importorskip("h5py")
    source = write(pa.table({"k": [i % 200 for i in range(400)], "x": np.arange(400.0)}), tmp_path / "src")
    expected = fb.pack(source, tmp_path / "out", by="k", format=format, dry_run=True)
    one = fb.pack(source, tmp_path / "out", format=format, dry_run=True)
    done = fb.pack(source, tmp_path / "out", by="k", format=format)
    written = sum(p.stat().st_size for p in (tmp_path / "out").glob("part-*"))
    assert done.files == 200 and written / 4 < expected.expected_bytes < 2 * written
    assert expected.expected_bytes > 20 * one.expected_bytes


def test_a_plan_whose_counts_are_damaged_is_said(tmp_path):
    source = write(regions(1000), tmp_path / "src")
    fb.pack_task(source, tmp_path / "out", "plan:0", by="region")
    plan = tmp_path / "out/.forebay-pack/plan"
    found = bytearray(plan.read_bytes())
    found[-40] ^= 1
    plan.write_bytes(found)
    with pytest.raises(fb.Error, match="plan' is damaged"):
        fb.pack_task(source, tmp_path / "out", "scatter:0", by="region")


def test_polars_and_duckdb_read_a_value_by_the_name_of_its_files(tmp_path):
    table = regions(4_000)
    fb.pack(table, tmp_path / "out", by="region", format="parquet", rows_per_file=500)
    wanted = sorted(i for i, r in enumerate(table["region"].to_pylist()) if r == "south")
    pattern = str(tmp_path / "out/part-south-*.parquet")
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    assert sorted(polars.read_parquet(pattern)["i"].to_list()) == wanted
    assert sorted(row[0] for row in duckdb.sql(f"select i from '{pattern}'").fetchall()) == wanted


@needs_cli
def test_the_command_says_how_many_values_there_are(tmp_path):
    source = write(regions(1000), tmp_path / "src")
    dry = subprocess.run([CLI, "pack", source, "--to", tmp_path / "out", "--by", "region", "--dry-run"], check=True, capture_output=True, text=True).stdout
    assert "region, of 10 values" in dry and not (tmp_path / "out").exists()
    command = [CLI, "pack", source, "--to", tmp_path / "out", "--by", "region", "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert said["keys"] == 10 and said["files"] == 10
    assert "by the key region" in subprocess.run([CLI, "inspect", tmp_path / "out"], check=True, capture_output=True, text=True).stdout
    wrong = subprocess.run([CLI, "pack", source, "--to", tmp_path / "b", "--by", "x"], capture_output=True, text=True)
    assert wrong.returncode and "the key 'x'" in wrong.stderr


def bytes_read():
    return int(re.search(r"rchar: (\d+)", pathlib.Path("/proc/self/io").read_text())[1])


@pytest.mark.parametrize("small", [3, 400])
def test_one_large_value_among_small_ones_is_not_read_again_and_again(tmp_path, small):
    rng, n = np.random.default_rng(1), 1_200_000
    keys = np.where(rng.random(n) < 0.6, 0, 1 + rng.integers(0, small, n)).astype("i4")
    source = write(pa.table({"k": keys, "i": np.arange(n), "x": rng.standard_normal(n), "y": rng.standard_normal(n)}), tmp_path / "src", row_group_size=20_000)
    options = {"by": "k", "rows_per_file": n, "batch": 4_000, "memory": "16MiB", "seed": 8}
    scattered = read = 0
    for task in fb.pack_tasks(source, tmp_path / "out", **options):
        before = bytes_read()
        fb.pack_task(source, tmp_path / "out", task, **options)
        if task.phase == "write":
            read += bytes_read() - before
        scattered += sum(p.stat().st_size for p in (tmp_path / "out/.forebay-pack").glob("scatter-*")) if task.name == "write:0" else 0
    assert read < 2 * scattered
    fb.pack(source, tmp_path / "whole", **{**options, "memory": "1GiB"})
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
