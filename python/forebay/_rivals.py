"""What people load training data with today, over the user's own files and outputs, each as well as we can write it.

A spec names the files, the outputs (a name, its columns, a dtype) and the batch size. Every contestant gives dicts of torch tensors, shuffled, epoch
after epoch. NumPy, PyTorch and what a contestant is made of are imported when it is asked for; a package that is missing is a reason to leave
it out, and no error. This file imports nothing of Forebay, so that the benchmarks use it in environments without it.
"""

from __future__ import annotations

import collections
import importlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SUPERBATCH_BYTES = 256 << 20  # decoded: what those that decode themselves mix at once
KEPT_UNITS = 50  # what one row per item keeps decoded
COPY_BYTES = 4 << 30  # decoded: larger data are not copied to another format


ABSENT = " is not installed"


class LeftOutError(Exception):
    """Why a contestant cannot be measured."""


def need(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise LeftOutError(f"{name}{ABSENT}" if getattr(error, "name", "") == name.split(".")[0] else f"{name}: {error}") from None


# ---- the files ----


class Files:
    """Files as units that are read whole: row groups, record batches, runs of HDF5 rows. Opened by the process that reads."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.paths, self.format, self.outputs = spec["files"], spec["format"], spec["outputs"]
        self.columns = list(dict.fromkeys(name for output in self.outputs for name in output["columns"]))
        self.opened: dict[int, Any] = {}
        self.units: list[tuple[int, int, int]] = []  # file, first row or group, rows
        for i in range(len(self.paths)):
            self.units += [(i, begin, rows) for begin, rows in self._units(i) if rows]
        self.opened = {}  # handles do not pass to worker processes
        self.rows = sum(rows for *_, rows in self.units)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "opened": {}}

    def _open(self, i: int) -> Any:
        if i not in self.opened:
            if len(self.opened) >= 64:
                self.opened.pop(next(iter(self.opened)))
            if self.format == "parquet":
                self.opened[i] = need("pyarrow.parquet").ParquetFile(self.paths[i], memory_map=False, pre_buffer=False)
            elif self.format == "ipc":
                self.opened[i] = need("pyarrow").ipc.open_file(need("pyarrow").memory_map(self.paths[i]))
            elif self.format == "csv":
                self.opened[i] = need("pyarrow.csv").read_csv(self.paths[i])
            else:
                self.opened[i] = need("h5py").File(self.paths[i], "r")
        return self.opened[i]

    def _units(self, i: int) -> list[tuple[int, int]]:
        file = self._open(i)
        if self.format == "parquet":
            return [(g, file.metadata.row_group(g).num_rows) for g in range(file.num_row_groups)]
        if self.format == "ipc":
            return [(b, file.get_batch(b).num_rows) for b in range(file.num_record_batches)]
        if self.format == "csv":
            return [(0, file.num_rows)]
        data = [self._dataset(file, name) for name in self.columns]
        chunk = max((d.chunks[0] for d in data if d.chunks), default=1024)
        chunk *= -(-1000 // chunk)  # a unit is no smaller than 1,000 rows
        return [(begin, min(chunk, len(data[0]) - begin)) for begin in range(0, len(data[0]), chunk)]

    def _dataset(self, file: Any, name: str) -> Any:
        for path in (name, name.replace(".", "/")):
            if path in file:
                return file[path]
        raise LeftOutError(f"h5py finds no data set {name}")

    def table(self, unit: int) -> Any:
        """Columns of a unit, as an Arrow table."""
        i, group, _ = self.units[unit]
        if self.format == "parquet":
            return self._open(i).read_row_group(group, columns=self.columns, use_threads=False)
        if self.format == "ipc":
            pa = need("pyarrow")
            return pa.Table.from_batches([self._open(i).get_batch(group)]).select(self.columns)
        return self._open(i).select(self.columns)

    def read(self, unit: int) -> dict[str, Any]:
        """Outputs of a unit's rows, as NumPy."""
        if self.format != "hdf5":
            return arrays_of(self.table(unit), self.outputs)
        np, (i, begin, rows) = need("numpy"), self.units[unit]
        out = {}
        for output in self.outputs:
            columns = [self._dataset(self._open(i), name)[begin : begin + rows] for name in output["columns"]]
            values = np.stack(columns, axis=1) if output["matrix"] else columns[0]
            out[output["name"]] = values.astype(output["dtype"] or values.dtype, copy=False)
        return out


def arrays_of(table: Any, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Outputs of an Arrow table's rows, as NumPy: the best way that pyarrow has."""
    np, pa = need("numpy"), need("pyarrow")
    out = {}
    for output in outputs:
        columns = [table.column(name) for name in output["columns"]]
        types = {column.type for column in columns}
        dtype = output["dtype"]
        if output["matrix"] and len(types) == 1 and pa.types.is_floating(columns[0].type):
            (batch,) = table.select(output["columns"]).combine_chunks().to_batches()
            values = batch.to_tensor(null_to_nan=True, row_major=True).to_numpy()
        elif output["matrix"]:
            values = np.empty((len(table), len(columns)), dtype)
            for i, column in enumerate(columns):
                values[:, i] = column.to_numpy()
        else:
            values = column_of(columns[0])
        out[output["name"]] = values.astype(dtype, copy=False) if dtype else values
    return out


def column_of(column: Any) -> Any:
    """One column: numbers, or arrays of one shape."""
    pa, shape = need("pyarrow"), [len(column)]
    values = column.combine_chunks()
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    while pa.types.is_nested(values.type):
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        n = values.type.list_size if pa.types.is_fixed_size_list(values.type) else len(values.flatten()) // max(len(values), 1)
        if not pa.types.is_fixed_size_list(values.type) and (len(values.value_lengths().unique()) > 1):
            raise LeftOutError("lists of varying length: a contestant's batches are of one shape")
        shape.append(n)
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False).reshape(shape)


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    """Tensors that may be written to: what is Arrow's is copied."""
    torch = need("torch")
    return {name: torch.from_numpy(values if values.flags.writeable else values.copy()) for name, values in arrays.items()}


def bytes_a_row(files: Files) -> int:
    first = files.read(0)
    return max(1, sum(values.nbytes for values in first.values()) // max(1, files.units[0][2]))


# ---- the contestants ----


class TorchRows:
    """PyTorch's DataLoader, one row per item, as most write it first: two workers, each keeps the row groups that it read last."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        from torch.utils.data import DataLoader

        self.loader = DataLoader(Rows(Files(spec)), batch_size=spec["batch_size"], shuffle=True, num_workers=2, persistent_workers=True)

    def epoch(self, number: int) -> Any:
        return self.loader


class Rows:
    """Row i of the files; with a list of numbers, those rows together."""

    def __init__(self, files: Files, kept: int = KEPT_UNITS) -> None:
        np = need("numpy")
        self.files, self.kept = files, kept
        self.ends = np.cumsum([rows for *_, rows in files.units])
        self.units: collections.OrderedDict[int, dict[str, Any]] = collections.OrderedDict()

    def __len__(self) -> int:
        return self.files.rows

    def unit(self, u: int) -> dict[str, Any]:
        if u not in self.units:
            self.units[u] = self.files.read(u)
            if len(self.units) > self.kept:
                self.units.popitem(last=False)
        self.units.move_to_end(u)
        return self.units[u]

    def begin(self, u: int) -> int:
        return int(self.ends[u - 1]) if u else 0

    def __getitem__(self, i: Any) -> dict[str, Any]:
        np, torch = need("numpy"), need("torch")
        if isinstance(i, (int, np.integer)):
            u = int(np.searchsorted(self.ends, i, side="right"))
            return {name: torch.as_tensor(values[i - self.begin(u)]) for name, values in self.unit(u).items()}
        i = np.asarray(i)
        at, out = np.searchsorted(self.ends, i, side="right"), None
        for u in np.unique(at):
            mine = np.flatnonzero(at == u)
            unit = self.unit(int(u))
            if out is None:
                out = {name: np.empty((len(i), *values.shape[1:]), values.dtype) for name, values in unit.items()}
            for name, values in unit.items():
                out[name][mine] = values[i[mine] - self.begin(int(u))]
        return tensors(out or {})


class TorchBatches:
    """PyTorch's DataLoader, tuned: one batch per item, of rows of a few row groups at a time; as many workers as were fastest in a trial."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        np = need("numpy")
        from torch.utils.data import DataLoader

        files = Files(spec)
        together = units_together(files)
        self.rows, self.batch, self.rng, self.together = Rows(files, together + 2), spec["batch_size"], np.random.default_rng(0), together
        best = 0.0
        for workers in sorted({0, 2, len(os.sched_getaffinity(0))}):
            loader = DataLoader(self.rows, sampler=self, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
            n, begin = 0, time.perf_counter()
            for batch in loader:
                n += len(next(iter(batch.values())))
                if time.perf_counter() - begin > min(1.5, spec["seconds"]):
                    break
            rate = n / (time.perf_counter() - begin)
            if rate > best:
                best, self.loader, self.workers = rate, loader, workers

    def __iter__(self) -> Iterator[Any]:
        np = need("numpy")
        units = self.rng.permutation(len(self.rows.files.units))
        for i in range(0, len(units), self.together):
            chosen = units[i : i + self.together]
            rows = np.concatenate([np.arange(self.rows.begin(int(u)), self.rows.begin(int(u)) + self.rows.files.units[u][2]) for u in chosen])
            rows = self.rng.permutation(rows)
            for k in range(0, len(rows), self.batch):
                yield rows[k : k + self.batch]

    def epoch(self, number: int) -> Any:
        return self.loader


def units_together(files: Files) -> int:
    """How many units are a superbatch."""
    rows = max(1, files.rows // max(1, len(files.units)))
    return max(1, min(len(files.units), SUPERBATCH_BYTES // (rows * bytes_a_row(files))))


class Expert:
    """An expert's generator in the training process: some row groups at once, decoded by threads into one array; one NumPy take a batch."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        self.files, self.batch = Files(spec), spec["batch_size"]
        self.together = units_together(self.files)
        # libhdf5 runs one call at a time, and an open file of pyarrow's is one thread's
        self.threads = 1 if self.files.format == "hdf5" else len(os.sched_getaffinity(0))
        self.copies = [Files(spec) for _ in range(self.threads)]

    def epoch(self, number: int) -> Iterator[Any]:
        np = need("numpy")
        rng = np.random.default_rng(number)
        order = rng.permutation(len(self.files.units))
        with ThreadPoolExecutor(self.threads) as pool:
            for i in range(0, len(order), self.together):
                units = order[i : i + self.together]
                parts = pool.map(lambda t: [self.copies[t].read(u) for u in units[t :: self.threads]], range(self.threads))
                read = [arrays for part in parts for arrays in part]
                whole = {name: np.concatenate([arrays[name] for arrays in read]) for name in read[0]}
                del read
                rows = rng.permutation(len(next(iter(whole.values()))))
                for k in range(0, len(rows), self.batch):
                    yield tensors({name: values.take(rows[k : k + self.batch], axis=0, mode="clip") for name, values in whole.items()})


def _one_column_an_output(table: Any, outputs: list[dict[str, Any]]) -> Any:
    """What is shuffled and indexed is then one array for each output, and not one for each of its columns."""
    pa = need("pyarrow")
    arrays = {f"output {name}": values for name, values in arrays_of(table, outputs).items()}  # a column may have the same name
    flat = {name: pa.array(values.reshape(-1)) for name, values in arrays.items()}
    return pa.table({name: v if arrays[name].ndim == 1 else pa.FixedSizeListArray.from_arrays(v, arrays[name][0].size) for name, v in flat.items()})


class HuggingFace:
    """Hugging Face datasets, Arrow-formatted, a column an output, indexed a batch at a time in random order."""

    stream = False

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ["HF_DATASETS_CACHE"] = str(cache / "hf")
        datasets = need("datasets")
        datasets.disable_progress_bars()
        datasets.logging.set_verbosity_error()
        kinds = {"parquet": "parquet", "csv": "csv", "ipc": "arrow"}
        if spec["format"] not in kinds:
            raise LeftOutError("reads no such HDF5 files")
        names = list(dict.fromkeys(name for output in spec["outputs"] for name in output["columns"]))
        only = {"columns": names} if spec["format"] == "parquet" else {}  # files may differ in the others
        data = datasets.load_dataset(kinds[spec["format"]], data_files=spec["files"], split="train", streaming=self.stream, **only)
        self.batch, self.shapes = spec["batch_size"], {name: values.shape[1:] for name, values in Files(spec).read(0).items()}
        data, more = data.select_columns(names).with_format("arrow"), {"remove_columns": names, "fn_kwargs": {"outputs": spec["outputs"]}}
        data = data.map(_one_column_an_output, batched=True, batch_size=5_000, **more)  # once, on disk; streaming, as it is read
        self.data = data.shuffle(seed=0, buffer_size=10_000) if self.stream else data.with_format("arrow")

    def epoch(self, number: int) -> Iterator[Any]:
        np = need("numpy")
        order = np.random.default_rng(number).permutation(len(self.data))
        for k in range(0, len(order), self.batch):
            yield self.batch_of(self.data[order[k : k + self.batch]])

    def batch_of(self, table: Any) -> dict[str, Any]:
        return tensors({name: column_of(table.column(f"output {name}")).reshape(-1, *shape) for name, shape in self.shapes.items()})


class HuggingFaceStream(HuggingFace):
    """Hugging Face datasets, streaming, with a shuffle buffer of 10,000 rows."""

    stream = True

    def epoch(self, number: int) -> Iterator[Any]:
        self.data.set_epoch(number)
        for table in self.data.iter(batch_size=self.batch):
            yield self.batch_of(table)


def copied(spec: dict[str, Any], cache: Path) -> tuple[Files, list[Path]]:
    """Outputs of all rows in a .npy file each: for those that read no such files. Not timed."""
    np = need("numpy")
    files = Files(spec)
    if files.rows * bytes_a_row(files) > COPY_BYTES:
        raise LeftOutError(f"needs a copy of the data, which is larger than {COPY_BYTES >> 30} GiB decoded")
    paths = [cache / f"{i}.npy" for i in range(len(spec["outputs"]))]
    if not all(path.exists() for path in paths):
        at, arrays = 0, []
        for u in range(len(files.units)):
            read = files.read(u)
            if not arrays:
                arrays = [
                    np.lib.format.open_memmap(path.with_suffix(".part"), "w+", read[o["name"]].dtype, (files.rows, *read[o["name"]].shape[1:]))
                    for path, o in zip(paths, spec["outputs"], strict=True)
                ]
            for array, o in zip(arrays, spec["outputs"], strict=True):
                array[at : at + files.units[u][2]] = read[o["name"]]
            at += files.units[u][2]
        del arrays
        for path in paths:
            path.with_suffix(".part").rename(path)
    return files, paths


class Arrays:
    """Rows of the copy: random access, nothing to decode."""

    def __init__(self, names: list[str], paths: list[Path]) -> None:
        np = need("numpy")
        self.names, self.arrays = names, [np.load(path, mmap_mode="r") for path in paths]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, i: Any) -> dict[str, Any]:
        return {name: array[i] for name, array in zip(self.names, self.arrays, strict=True)}


class Grain:
    """Grain's MapDataset over a decoded copy, shuffled, batched, with threads of its own."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        self.grain = need("grain")
        _, paths = copied(spec, cache)
        self.source, self.batch = Arrays([o["name"] for o in spec["outputs"]], paths), spec["batch_size"]

    def epoch(self, number: int) -> Iterator[Any]:
        # Batched before it becomes an iterator, so that its threads make batches: the other way round is ten times slower.
        data = self.grain.MapDataset.source(self.source).shuffle(seed=number).batch(self.batch)
        for batch in data.to_iter_dataset(self.grain.ReadOptions(num_threads=len(os.sched_getaffinity(0)), prefetch_buffer_size=8)):
            yield tensors(batch)


def _litdata_rows(job: tuple[list[str], list[Path], int, int]) -> Iterator[Any]:
    names, paths, begin, end = job
    source = Arrays(names, paths)
    for i in range(begin, end):
        yield {name: need("torch").as_tensor(need("numpy").array(value)) for name, value in source[i].items()}


class LitData:
    """LitData: rows written into its chunks beforehand, streamed shuffled."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        litdata = need("litdata")
        files, paths = copied(spec, cache)
        folder, names = cache / "litdata", [o["name"] for o in spec["outputs"]]
        if not (folder / "index.json").exists():
            step = -(-files.rows // 8)
            jobs = [(names, paths, begin, min(begin + step, files.rows)) for begin in range(0, files.rows, step)]
            litdata.optimize(fn=_litdata_rows, inputs=jobs, output_dir=str(folder), chunk_bytes="64MB", num_workers=2, mode="overwrite")
        data = litdata.StreamingDataset(str(folder), shuffle=True, seed=0)
        self.loader = litdata.StreamingDataLoader(data, batch_size=spec["batch_size"], num_workers=2)

    def epoch(self, number: int) -> Any:
        return self.loader


def _scdataset_batch(fetched: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: values[rows] for name, values in fetched.items()}


class ScDataset:
    """scDataset: runs of rows fetched sorted, shuffled in a buffer of 16 batches."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        scdataset = need("scdataset")
        from torch.utils.data import DataLoader

        files = Files(spec)
        run = max(1, min(files.units[0][2], 1000))
        how = {"batch_size": spec["batch_size"], "fetch_factor": 16, "batch_callback": _scdataset_batch}
        data = scdataset.scDataset(Rows(files, units_together(files)), scdataset.BlockShuffling(block_size=run), **how)
        self.loader = DataLoader(data, batch_size=None, num_workers=0)

    def epoch(self, number: int) -> Any:
        return self.loader


class RayData:
    """Ray Data: blocks in random order, batches from a local shuffle buffer of 10,000 rows."""

    def __init__(self, spec: dict[str, Any], cache: Path) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = need("ray")
        need("ray.data")
        if spec["format"] not in ("parquet", "csv"):
            raise LeftOutError("reads no such files")
        ray.init(num_cpus=len(os.sched_getaffinity(0)), include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        names = list(dict.fromkeys(name for output in spec["outputs"] for name in output["columns"]))
        read = ray.data.read_parquet if spec["format"] == "parquet" else ray.data.read_csv
        self.data, self.outputs, self.batch = read(spec["files"]).select_columns(names), spec["outputs"], spec["batch_size"]

    def epoch(self, number: int) -> Iterator[Any]:
        data = self.data.randomize_block_order(seed=number)
        for table in data.iter_batches(batch_size=self.batch, batch_format="pyarrow", local_shuffle_buffer_size=10_000, local_shuffle_seed=number):
            yield tensors(arrays_of(table, self.outputs))


RIVALS: dict[str, Any] = {
    "PyTorch rows": TorchRows,
    "PyTorch batches": TorchBatches,
    "expert generator": Expert,
    "Hugging Face": HuggingFace,
    "Hugging Face streaming": HuggingFaceStream,
    "Grain": Grain,
    "LitData": LitData,
    "scDataset": ScDataset,
    "Ray Data": RayData,
}
