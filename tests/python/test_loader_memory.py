"""What memory= and warmup= may say, in Python and pipeline files: shares of what is free, all of the data, full superbatches from the first on."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb


@pytest.fixture
def ds(tmp_path):
    (tmp_path / "data").mkdir()
    for k in range(60):
        table = pa.table({"x": np.random.default_rng(k).normal(size=(2000)).astype("f4"), "k": np.full(2000, k, "i4")})
        pq.write_table(table, tmp_path / "data" / f"{k:02}.parquet")
    return fb.open(tmp_path / "data")


def budget(ds, **options):
    with ds.rows().loader("x", batch_size=64, threads=2, framework="numpy", **options) as loader:
        return loader.report()


def test_a_share_is_of_what_is_free(ds):
    free = budget(ds).memory_available_bytes
    for share in (70, 25):
        got = budget(ds, memory=f"{share}%").budget_bytes
        assert abs(got - share / 100 * free) < 0.05 * free
    assert budget(ds, memory="12.5%").budget_bytes < budget(ds, memory=" 50 %").budget_bytes


def test_every_opening_names_the_same_minimum(ds, tmp_path):
    """Read anew, with an index that is being written, and from it."""
    least = set()
    for cache in ("", "", tmp_path / "cache", tmp_path / "cache", tmp_path / "cache"):
        with fb.open(tmp_path / "data", cache_dir=str(cache)) as again:
            least.add(budget(again).budget_minimum_bytes)
    assert least == {budget(ds).budget_minimum_bytes}


def test_ranks_of_a_host_share_it(ds):
    alone = budget(ds, memory="50%").budget_bytes
    assert budget(ds, memory="50%", rank=0, world_size=4).budget_bytes < 0.3 * alone


def test_all_holds_everything_and_no_more(ds):
    options = {"batch_size": 64, "threads": 2, "superbatch": "8 blocks", "framework": "numpy"}
    with ds.rows().loader({"k": "k", "x": "x"}, memory="all", **options) as loader:
        assert loader.report().budget_bytes < 64 << 20
        for _ in range(3):
            for _ in loader:
                pass
        report = loader.report()
        assert report.blocks_read == 60 and report.budget_peak_bytes <= report.budget_bytes == report.keep_all_bytes
        with ds.rows().loader({"k": "k", "x": "x"}, memory=report.budget_minimum_bytes, **options) as small:
            loader.set_epoch(0)
            assert [batch["k"].tolist() for batch in small] == [batch["k"].tolist() for batch in loader]


def test_all_of_lists_and_strings(tmp_path):
    rng = np.random.default_rng(0)
    lists, texts = [rng.integers(0, 9, rng.integers(0, 30)).tolist() for _ in range(20_000)], ["text" * int(n) for n in rng.integers(0, 9, 20_000)]
    pq.write_table(pa.table({"l": lists, "s": texts}), tmp_path / "l.parquet", row_group_size=500)
    with fb.open(tmp_path).rows().loader(["l", "s"], batch_size=64, superbatch="4 blocks", memory="all", framework="numpy") as loader:
        for _ in range(3):
            for _ in loader:
                pass
        report = loader.report()
        assert report.blocks_read == 40 and report.budget_bytes == report.keep_all_bytes


def strings_that_expand(folder, how):
    """2,000 rows in ten blocks, of which metadata says little: the values of dictionaries, prefixes, heaps and few long rows."""
    rng = np.random.default_rng(2)
    words = [f"{i}-" * 20_000 for i in range(4)]
    texts, numbers = [words[i] for i in rng.integers(0, 4, 2000)], pa.array(np.arange(2000))
    if how == "lists":
        lists = pa.array([np.zeros(100_000 if i % 211 == 17 else 3, "f4") for i in range(2000)], pa.list_(pa.float32()))
        pq.write_table(pa.table({"v": lists, "i": numbers}), folder / "a.parquet", row_group_size=200)
    elif how == "heap":
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("v", data=[text[: 1000 * (i % 40)] for i, text in enumerate(texts)], dtype=h5py.string_dtype(), chunks=(200,))
            file.create_dataset("i", data=np.arange(2000), chunks=(200,))
    else:
        prefixes = {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY", "i": "PLAIN"}} if how == "prefixes" else {}
        pq.write_table(pa.table({"v": texts, "i": numbers}), folder / "a.parquet", row_group_size=200, **prefixes)
    return fb.open(folder)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("how", ["dictionary", "prefixes", "heap", "lists", "padded"])
def test_all_holds_what_metadata_says_little_of(tmp_path, how, shuffle):
    ds = strings_that_expand(tmp_path, "lists" if how == "padded" else how)
    values = fb.col("v").padded() if how == "padded" else "v"
    loader = ds.rows().loader({"v": values, "i": "i"}, batch_size=8, threads=2, superbatch="2 blocks", shuffle=shuffle, memory="all", framework="numpy")
    with loader:
        for _ in range(3):
            for _ in loader:
                pass
        report = loader.report()
        assert report.blocks_read == len(ds.blocks) and report.budget_peak_bytes <= report.budget_bytes


def test_all_is_refused_with_its_size_where_it_is_not_free(ds):
    done = subprocess.run([sys.executable, "-c", """
import resource, sys
import numpy as np
import forebay as fb
ds = fb.open({"x": np.zeros(100_000_000 // 4, np.float32)})
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (80 << 20), resource.RLIM_INFINITY))
try:
    ds.rows().loader("x", batch_size=64, threads=1, memory="all")
except fb.BudgetError as error:
    print(error)
"""], capture_output=True, text=True, check=True)  # fmt: skip
    said = re.search(r"to hold everything takes (\d+) bytes .*, and ([\d.]+) MiB are available to this loader \(.*RLIMIT_AS", done.stdout)
    assert said and 100_000_000 < int(said[1]) < 200_000_000 and float(said[2]) <= 80, done.stdout


@pytest.mark.parametrize(
    ("memory", "says"),
    [("0%", "above 0% and at most 100%"), ("101%", "above 0% and at most 100%"), ("70 percent", "not a unit"), ("lots%", "not a size"),
     ("everything", "not a size"), ("5GiB%", "above 0%"), ("ALL", "not a size")],
)
def test_what_is_no_budget_is_refused(ds, memory, says):
    with pytest.raises(ValueError, match=says):
        budget(ds, memory=memory)


def test_a_share_that_is_too_small_says_the_least(ds):
    with pytest.raises(fb.BudgetError, match="needs at least"):
        budget(ds, memory="0.0001%")


@pytest.mark.parametrize("memory", ["70%", "all", "64MiB"])
def test_a_pipeline_file_says_the_same(ds, tmp_path, memory):
    (tmp_path / "p.yaml").write_text(f"data: data\noutputs: {{x: x}}\nloader: {{batch_size: 64, threads: 2, memory: {memory}}}\n")
    with fb.pipeline(tmp_path / "p.yaml").loader() as loader:
        assert abs(loader.report().budget_bytes / budget(ds, memory=memory).budget_bytes - 1) < 0.05
        loader.to_yaml(tmp_path / "q.yaml")
    assert memory in (tmp_path / "q.yaml").read_text()
    (tmp_path / "p.yaml").write_text("data: data\nloader: {batch_size: 64, memory: 170%}\n")
    with pytest.raises(ValueError, match=r"p\.yaml:2:\d+: loader: memory: '170%': a share"):
        fb.pipeline(tmp_path / "p.yaml")


def files_per_batch(ds, **options):
    with ds.rows().loader("k", batch_size=256, superbatch="24 blocks", framework="numpy", **options) as loader:
        return [len(np.unique(batch["k"])) for batch in loader]


def test_without_warmup_the_first_batches_mix_as_later_ones(ds):
    grown, full = files_per_batch(ds), files_per_batch(ds, warmup=False)
    assert grown[0] <= 9 and np.mean(grown[:20]) < 10  # a block of each stream at first
    assert full[0] >= 20 and min(full[:90]) >= 20  # while the first superbatch lasts
    assert len(full) == len(grown)
    with ds.rows().loader("k", batch_size=256, superbatch="24 blocks", framework="numpy", warmup=False) as loader:
        assert "smaller superbatches" not in loader.report().mixing
        rows = np.concatenate([batch["k"] for batch in loader])
        assert np.bincount(rows).tolist() == [2000] * 60


def test_a_state_knows_the_warmup(ds, tmp_path):
    options = {"batch_size": 256, "superbatch": "24 blocks", "framework": "numpy"}
    with ds.rows().loader("k", warmup=False, **options) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
        sixth = next(batches)["k"].tolist()
    assert state["no_warmup"] is True
    with ds.rows().loader("k", warmup=False, **options) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["k"].tolist() == sixth
    with ds.rows().loader("k", **options) as loader:
        with pytest.raises(ValueError, match="warm-up"):
            loader.load_state_dict(state)
        old = {name: value for name, value in loader.state_dict().items() if name != "no_warmup"}
        loader.load_state_dict(old)  # of a library that had none
    (tmp_path / "p.yaml").write_text("data: data\nloader: {batch_size: 256, superbatch: 24 blocks, warmup: false}\n")
    with fb.pipeline(tmp_path / "p.yaml").loader(framework="numpy") as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["k"].tolist() == sixth
    with pytest.raises(TypeError, match="warmup must be True or False"):
        ds.rows().loader("k", warmup="no", **options)


def test_pages_of_long_values_are_in_the_budget(tmp_path):
    """Writers look at the size of a page once in 1,024 values: of 50,000 bytes each, that is 51 MB."""
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"s": ["x" * 50_000] * 1200}), path, use_dictionary=False, compression="gzip")
    with fb.open(path, cache_dir="") as ds:
        with pytest.raises(fb.BudgetError) as error:
            ds.loader("s", batch_size=16, memory="1MiB", threads=1)
        memory = int(re.search(r"needs at least (\d+) bytes", str(error.value))[1])
        with ds.loader("s", batch_size=16, memory=memory, threads=1, framework="numpy") as loader:
            assert sum(1 for _ in loader) == 75
            assert loader.report().budget_peak_bytes <= memory + (8 << 20)  # the page is 51 MB


def test_the_docs_say_how_many_files_the_first_batches_mix(tmp_path):
    """Of superbatch="50 blocks", files of one block and 8 streams."""
    for k in range(400):
        pq.write_table(pa.table({"k": np.full(512, k, np.int32)}), tmp_path / f"{k:03}.parquet")
    options = {"batch_size": 512, "superbatch": "50 blocks", "memory": "256MiB", "framework": "numpy", "threads": 2}
    with fb.open(tmp_path, cache_dir="").rows().loader("k", **options) as loader:
        grown = [len(np.unique(batch["k"])) for batch in loader]
    with fb.open(tmp_path, cache_dir="").rows().loader("k", warmup=False, **options) as loader:
        full = [len(np.unique(batch["k"])) for batch in loader]
    assert grown[:16] == [8] * 16 and grown[16:40] == [24] * 24  # 5 % of the epoch are 20 batches
    assert grown[100:300] == [48] * 200 and full[:40] == [48] * 40
    text = (pathlib.Path(__file__).parents[2] / "docs/loader.md").read_text().replace("\n", " ")
    assert "the first batches have samples of 8 files, the next ones of 24, and later ones of 48" in text
