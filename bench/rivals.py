"""The contestants: Forebay, and what people use today, each written as well as we can write it.

    bench/rivals.py NAME FOLDER [--seconds 5] [--batch 1024] [--work 0] [--columns 64] …

Runs one contestant over the Parquet files of FOLDER in this process and prints one line of JSON: rows a second after a warm-up, the
consumer thread's CPU inside next(), what was delivered. Every contestant gives shuffled float32 torch tensors of shape (batch, columns),
epoch after epoch; a step of `--work` seconds keeps the consumer's core busy after each batch. A contestant whose package is
missing prints {"skipped": reason}.

forebay          the loader; --memory, --superbatch, --threads, --no-shuffle
torch_rows       one row per item: a map-style Dataset with an LRU of 50 pyarrow tables, in a DataLoader (--workers)
hf_map           Hugging Face datasets, map-style, rows joined into one column once, indexed a batch at a time by a random batch sampler
hf_stream        Hugging Face datasets, streaming, Arrow-formatted, with a shuffle buffer of 10,000 rows
litdata          LitData: rows optimised into chunks beforehand, streamed shuffled
grain            Grain: MapDataset over a decoded .npy file (nothing to decode), shuffled, batched, threads of its own
expert_table     the expert's generator in the training process: 50 files a superbatch through one read_table, one float32 matrix by
                 RecordBatch.to_tensor(row_major=True), one NumPy take a batch
expert           the same tuned as far as we could: a pool of threads decodes a file each, into one matrix that is reused
expert_workers   the same as IterableDataset in a DataLoader with two worker processes, files split among them
expert_thread    the same in the training process, the next superbatch decoded by threads while this one is consumed
"""
import argparse
import collections
import importlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import common
from make_data import table_files

SUPERBATCH_FILES = 50


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise common.Missing(f"{name} is not installed (bench/setup.sh): {error}") from None


# ---- Forebay ----


class Forebay:
    def __init__(self, files, options):
        import torch  # noqa: F401  (so that batches are torch tensors)

        import forebay as fb

        names = columns_of(files, options.columns)
        settings = {"batch_size": options.batch, "shuffle": not options.no_shuffle, "seed": options.seed, "framework": "torch"}
        for key in ("memory", "superbatch", "threads", "prefetch"):
            if getattr(options, key) is not None:
                settings[key] = getattr(options, key)
        self.dataset = fb.open([str(f) for f in files])
        self.loader = self.dataset.rows().loader({"x": fb.col(*names, dtype="float32")}, **settings)

    def epoch(self, _number):
        for batch in self.loader:
            yield batch["x"]

    def iterator(self, number):
        """Without the generator above, whose CPU is not the loader's."""
        self.loader.set_epoch(number)
        return iter(self.loader), lambda batch: batch["x"]

    def report(self):
        r = self.loader.report()
        return {
            "bytes_read": r.bytes_read, "bytes_decoded": r.bytes_decoded, "blocks_read": r.blocks_read, "blocks_from_cache": r.blocks_from_cache,
            "report_samples": r.samples, "budget_bytes": r.budget_bytes, "budget_peak_bytes": r.budget_peak_bytes,
            "superbatch_rows": r.superbatch_samples, "same_block": r.same_block, "same_block_uniform": r.same_block_uniform,
            "worker_cpu_s": r.worker_cpu_ns / 1e9, "threads": r.threads, "io_engine": r.io_engine, "verdict": r.verdict,
            "library_cpu_s_in_next": r.consumer_cpu_ns / 1e9, "read_s": r.read_ns / 1e9, "decompress_s": r.decompress_ns / 1e9,
            "decode_s": r.decode_ns / 1e9, "assemble_s": r.assemble_ns / 1e9, "elapsed_s": r.elapsed,
        }  # fmt: skip

    def close(self):
        self.loader.close()
        self.dataset.close()


# ---- one row per item ----


class RowDataset:
    """What most people write first: __getitem__ gives one row, tables are kept in an LRU of 50 files."""

    def __init__(self, files, columns):
        import pyarrow.parquet as pq

        self.files, self.columns = [str(f) for f in files], columns
        rows = [pq.ParquetFile(f).metadata.num_rows for f in self.files]
        self.ends = np.cumsum(rows)
        self.tables = collections.OrderedDict()

    def __len__(self):
        return int(self.ends[-1])

    def __getitem__(self, i):
        import pyarrow.parquet as pq
        import torch

        f = int(np.searchsorted(self.ends, i, side="right"))
        data = self.tables.get(f)
        if data is None:
            data = pq.read_table(self.files[f], columns=self.columns)
            self.tables[f] = data
            if len(self.tables) > SUPERBATCH_FILES:
                self.tables.popitem(last=False)
        else:
            self.tables.move_to_end(f)
        row = i - (int(self.ends[f - 1]) if f else 0)
        return torch.tensor([data.column(c)[row].as_py() for c in range(data.num_columns)], dtype=torch.float32)


class TorchRows:
    def __init__(self, files, options):
        import torch
        from torch.utils.data import DataLoader

        generator = torch.Generator()
        generator.manual_seed(options.seed)
        self.loader = DataLoader(RowDataset(files, columns_of(files, options.columns)), batch_size=options.batch, shuffle=True,
                                 num_workers=options.workers, generator=generator, persistent_workers=options.workers > 0)

    def epoch(self, _number):
        return iter(self.loader)


# ---- Hugging Face datasets ----


def _hf(options):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_DATASETS_CACHE", str(Path(options.cache) / "hf"))
    datasets = need("datasets")
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def as_one_column(data):
    """A table of columns as a table of one column x of rows: what is shuffled and indexed then is one array, not 64."""
    import pyarrow as pa

    rows = data.combine_chunks().to_batches()[0].to_tensor(null_to_nan=True, row_major=True).to_numpy()
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])})


def to_rows(data):
    """A pyarrow table with the column x as a torch matrix."""
    import torch

    x = data["x"].combine_chunks()
    return torch.from_numpy(x.flatten().to_numpy(zero_copy_only=False).reshape(len(x), -1))


class HfMap:
    def __init__(self, files, options):
        import torch
        from torch.utils.data import BatchSampler, DataLoader, RandomSampler

        datasets = _hf(options)
        names = columns_of(files, options.columns)
        data = datasets.load_dataset("parquet", data_files=[str(f) for f in files], split="train").select_columns(names)
        data = data.with_format("arrow").map(as_one_column, batched=True, batch_size=5_000, remove_columns=names)  # once, on disk
        generator = torch.Generator()
        generator.manual_seed(options.seed)
        sampler = BatchSampler(RandomSampler(data, generator=generator), options.batch, drop_last=False)
        # batch_size=None with a sampler of index lists: one data[indices] a batch instead of one dict a row.
        self.loader = DataLoader(data.with_format("arrow"), sampler=sampler, batch_size=None, collate_fn=to_rows,
                                 num_workers=options.workers, persistent_workers=options.workers > 0)

    def epoch(self, _number):
        return iter(self.loader)


class HfStream:
    def __init__(self, files, options):
        datasets = _hf(options)
        names = columns_of(files, options.columns)
        data = datasets.load_dataset("parquet", data_files=[str(f) for f in files], split="train", streaming=True).select_columns(names)
        data = data.with_format("arrow").map(as_one_column, batched=True, batch_size=5_000, remove_columns=names)
        self.data, self.batch = data.shuffle(seed=options.seed, buffer_size=10_000), options.batch

    def epoch(self, number):
        self.data.set_epoch(number)
        for batch in self.data.iter(batch_size=self.batch):
            yield to_rows(batch)


# ---- LitData ----


def _litdata_rows(path):
    import torch

    matrix = torch.from_numpy(read_rows(path, None))
    for row in matrix:
        yield row.clone()


class LitData:
    def __init__(self, files, options):
        litdata = need("litdata")
        folder = Path(options.cache) / f"litdata-{Path(files[0]).parent.name}"
        if not (folder / "index.json").exists():
            litdata.optimize(fn=_litdata_rows, inputs=[str(f) for f in files], output_dir=str(folder), chunk_bytes="64MB", num_workers=2,
                             mode="overwrite")
        data = litdata.StreamingDataset(str(folder), shuffle=True, seed=options.seed)
        self.loader = litdata.StreamingDataLoader(data, batch_size=options.batch, num_workers=options.workers)

    def epoch(self, _number):
        return iter(self.loader)


# ---- Grain ----


class NpySource:
    """Random access to rows of a decoded file: grain's best case, no format to decode."""

    def __init__(self, path):
        self.path, self.rows = path, np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Grain:
    def __init__(self, files, options):
        grain = need("grain")
        path = Path(options.cache) / f"grain-{Path(files[0]).parent.name}.npy"
        if not path.exists():
            np.save(path, np.concatenate([read_rows(f, None) for f in files]))
        self.grain, self.source, self.options = grain, NpySource(path), options

    def epoch(self, number):
        import torch

        # Batched before it becomes an iterator, so that its threads make batches; the other way round is ten times slower.
        data = self.grain.MapDataset.source(self.source).shuffle(seed=self.options.seed + number).batch(self.options.batch)
        for batch in data.to_iter_dataset(self.grain.ReadOptions(num_threads=common.cpus(), prefetch_buffer_size=8)):
            yield torch.from_numpy(batch)


# ---- the expert ----


def read_rows(path, columns, out=None):
    """A file as a float32 matrix, the best way pyarrow has. One thread: the pool runs a file on each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(path, memory_map=False, pre_buffer=False).read(columns=columns, use_threads=False).to_batches()
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    matrix = batches[0].to_tensor(null_to_nan=True, row_major=True).to_numpy()
    if out is None:
        return matrix
    out[: len(matrix)] = matrix
    return len(matrix)


class ExpertEpochs:
    """The generator itself: superbatches of 50 files in random order, one matrix for all of them, one take a batch."""

    def __init__(self, files, columns, batch, seed, threads, ahead=False):
        import pyarrow.parquet as pq

        self.files, self.columns, self.batch, self.seed = [str(f) for f in files], columns, batch, seed
        self.rows = [pq.ParquetFile(f).metadata.num_rows for f in self.files]
        self.threads, self.ahead = threads, ahead
        self.matrices, self.pool = None, None

    def _fill(self, matrix, group):
        """Decode the files of a group into the matrix; futures."""
        ends = np.cumsum([0] + [self.rows[f] for f in group])
        return int(ends[-1]), [self.pool.submit(read_rows, self.files[f], self.columns, matrix[ends[i] : ends[i + 1]])
                               for i, f in enumerate(group)]

    def epoch(self, number):
        import torch

        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads)
            largest = sum(sorted(self.rows)[-SUPERBATCH_FILES:])
            self.matrices = [np.empty((largest, len(self.columns)), np.float32) for _ in range(1 + self.ahead)]
        rng = np.random.default_rng([self.seed, number])
        order = rng.permutation(len(self.files))
        groups = [order[i : i + SUPERBATCH_FILES] for i in range(0, len(order), SUPERBATCH_FILES)]
        pending = self._fill(self.matrices[0], groups[0])
        for i in range(len(groups)):
            matrix = self.matrices[i % len(self.matrices)]
            n, futures = pending
            for future in futures:
                future.result()
            if self.ahead and i + 1 < len(groups):
                pending = self._fill(self.matrices[(i + 1) % 2], groups[i + 1])
            shuffled = rng.permutation(n)
            for start in range(0, n, self.batch):
                # take beats fancy indexing, and mode="clip" skips its bounds check.
                yield torch.from_numpy(matrix.take(shuffled[start : start + self.batch], axis=0, mode="clip"))
            if not self.ahead and i + 1 < len(groups):
                pending = self._fill(matrix, groups[i + 1])


class Expert:
    def __init__(self, files, options, ahead=False):
        self.epochs = ExpertEpochs(files, columns_of(files, options.columns), options.batch, options.seed, common.cpus(), ahead)

    def epoch(self, number):
        return self.epochs.epoch(number)


class ExpertTable:
    """The same idea as most experts write it: one read_table for the 50 files, one conversion, one take a batch."""

    def __init__(self, files, options):
        self.files, self.columns = [str(f) for f in files], columns_of(files, options.columns)
        self.batch, self.seed = options.batch, options.seed

    def epoch(self, number):
        import pyarrow.parquet as pq
        import torch

        rng = np.random.default_rng([self.seed, number])
        order = rng.permutation(len(self.files))
        for i in range(0, len(order), SUPERBATCH_FILES):
            data = pq.read_table([self.files[f] for f in order[i : i + SUPERBATCH_FILES]], columns=self.columns)
            rows = data.combine_chunks().to_batches()[0].to_tensor(null_to_nan=True, row_major=True).to_numpy()
            shuffled = rng.permutation(len(rows))
            for start in range(0, len(rows), self.batch):
                yield torch.from_numpy(rows.take(shuffled[start : start + self.batch], axis=0))


class ExpertThread(Expert):
    def __init__(self, files, options):
        super().__init__(files, options, ahead=True)


class ExpertWorkers:
    def __init__(self, files, options):
        from torch.utils.data import DataLoader, IterableDataset, get_worker_info

        files, columns = [str(f) for f in files], columns_of(files, options.columns)

        class Dataset(IterableDataset):
            number = 0

            def __iter__(self):
                info = get_worker_info()
                mine, threads = (files[info.id :: info.num_workers], 1) if info else (files, common.cpus())
                self.number += 1
                return ExpertEpochs(mine, columns, options.batch, options.seed, threads).epoch(self.number)

        workers = options.workers or 2
        self.loader = DataLoader(Dataset(), batch_size=None, num_workers=workers, persistent_workers=True, prefetch_factor=4)

    def epoch(self, _number):
        return iter(self.loader)


CONTESTANTS = {
    "forebay": Forebay, "torch_rows": TorchRows, "hf_map": HfMap, "hf_stream": HfStream, "litdata": LitData, "grain": Grain,
    "expert_table": ExpertTable, "expert": Expert, "expert_workers": ExpertWorkers, "expert_thread": ExpertThread,
}  # fmt: skip


# ---- the clock ----


def columns_of(files, n):
    import pyarrow.parquet as pq

    names = pq.read_schema(files[0]).names
    names = [name for name in names if name != "y"]
    return names[:n] if n else names


class Step:
    """A training step that keeps one core busy for a while without holding Python's lock."""

    def __init__(self, seconds):
        self.seconds, self.data = seconds, np.full(16_384, 1.000001, np.float32)

    def __call__(self):
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            np.multiply(self.data, np.float32(1), out=self.data)


class Meter:
    """Counts what is delivered; the warm-up apart."""

    def __init__(self, contestant, options):
        self.contestant, self.options = contestant, options
        self.rows = self.batches = self.epochs = 0
        self.next_cpu, self.measuring = 0.0, False
        self.begin = time.perf_counter()
        self.first_batch = None
        if options.warmup_epochs == 0:
            self.measure()

    def measure(self):
        self.measuring, self.started = True, time.perf_counter()
        self.before = self.contestant.report() if hasattr(self.contestant, "report") else {}

    def add(self, x, cpu):
        """A batch was taken; True when it was the last."""
        now = time.perf_counter()
        if self.first_batch is None:
            self.first_batch = now - self.begin
            if tuple(x.shape[1:]) != (self.options.columns,) or str(x.dtype) != "torch.float32":
                raise ValueError(f"a batch of shape {tuple(x.shape)} and dtype {x.dtype}: not what was asked for")
        if self.measuring:
            self.rows += x.shape[0]
            self.batches += 1
            self.next_cpu += cpu
            return now - self.started >= self.options.seconds
        if now - self.begin >= self.options.warmup_limit:
            self.measure()
        return False

    def epoch_done(self, number):
        """True when enough epochs were measured."""
        if self.measuring:
            self.epochs += 1
            return self.options.epochs and self.epochs >= self.options.epochs
        if number + 1 >= self.options.warmup_epochs:
            self.measure()
        return False

    def result(self):
        elapsed = time.perf_counter() - self.started
        result = {
            "name": self.options.name, "rows": self.rows, "batches": self.batches, "epochs": self.epochs, "seconds": elapsed,
            "rows_per_s": self.rows / elapsed, "first_batch_s": self.first_batch,
        }  # fmt: skip
        if self.options.cpu:
            result["next_cpu_share"] = self.next_cpu / elapsed
        after = self.contestant.report() if hasattr(self.contestant, "report") else {}
        for key, value in after.items():
            # Counters since the measuring began; the rest as it is now.
            counter = key.startswith(("bytes_", "blocks_", "report_samples")) or key.endswith("_s") or key == "library_cpu_s_in_next"
            result[key] = value - self.before[key] if counter else value
        return result


def clock_cost():
    """CPU seconds that reading the thread's clock before and after something adds to it: a system call, about a fifth of what is measured."""
    costs = []
    for _ in range(20):
        total = 0.0
        for _ in range(1000):
            cpu = time.thread_time()
            cpu = time.thread_time() - cpu
            total += cpu
        costs.append(total / 1000)
    return sorted(costs)[len(costs) // 2]


def run(contestant, options):
    """Epoch after epoch until the time is up. The first warm-up epoch, when it is a whole one, also gives a checksum."""
    clock = clock_cost() if options.cpu else 0.0
    step = Step(options.work) if options.work else None
    meter = Meter(contestant, options)
    checked_rows, checksum, number, done = 0, 0.0, 0, False
    while not done:
        if hasattr(contestant, "iterator"):
            iterator, pick = contestant.iterator(number)
        else:
            iterator, pick = iter(contestant.epoch(number)), lambda batch: batch
        check, rows, total = number == 0 and not meter.measuring, 0, 0.0
        cpu = 0.0
        while not done:
            if options.cpu:
                cpu = time.thread_time()
                batch = next(iterator, None)
                cpu = time.thread_time() - cpu - clock
            else:
                batch = next(iterator, None)
            if batch is None:
                if check:
                    checked_rows, checksum = rows, total
                done = meter.epoch_done(number)
                break
            x = pick(batch)
            if check:
                rows += x.shape[0]
                total += float(x[:, 0].double().sum())
            if step:
                step()
            done = meter.add(x, cpu)
        number += 1
    return meter.result() | {"checked_rows": checked_rows, "checksum": checksum}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(CONTESTANTS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="measure so long")
    parser.add_argument("--warmup-epochs", type=int, default=1, help="epochs before measuring")
    parser.add_argument("--warmup-limit", type=float, default=8.0, help="seconds after which the warm-up ends in any case")
    parser.add_argument("--epochs", type=int, default=0, help="stop after so many, when the seconds last")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=float, default=0.0, help="seconds of work after each batch")
    parser.add_argument("--cpu", action="store_true", help="measure the consumer thread's CPU inside next()")
    parser.add_argument("--workers", type=int, default=0, help="worker processes, where the contestant has them")
    parser.add_argument("--cache", default=None, help="where prepared copies lie")
    parser.add_argument("--memory", type=lambda text: int(text) if text.isdigit() else text, default=None, help="bytes, or 64MiB")
    parser.add_argument("--superbatch", type=int, default=None, help="rows")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--prefetch", type=int, default=None)
    parser.add_argument("--no-shuffle", action="store_true")
    parser.add_argument("--touch", type=int, default=0, metavar="MB", help="first use and free so much memory: a virtual machine's host then has it ready")
    options = parser.parse_args()
    if options.touch:
        np.ones(options.touch << 18, np.float32).sum()
    files = table_files(options.folder)
    if options.cache is None:
        options.cache = str(options.folder.parent / "rivals")
    os.makedirs(options.cache, exist_ok=True)
    try:
        import torch

        if options.work:
            torch.set_num_threads(1)
        contestant = CONTESTANTS[options.name](files, options)
        result = run(contestant, options)
    except common.Missing as missing:
        result = {"skipped": str(missing)}
    print(json.dumps(result), flush=True)
    sys.stderr.flush()
    common.leave()


if __name__ == "__main__":
    main()
