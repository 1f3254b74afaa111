"""Mistakes of users, and what to write instead: arguments that there are not, PyTorch's data utilities around a loader or samples."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")

_NO_PROCESSES = "there are no worker processes: threads= of this one read and decode"

# What users of other loaders write.
LOADER_WORDS = {
    "num_workers": _NO_PROCESSES,
    "workers": _NO_PROCESSES,
    "n_threads": "threads= is their number",
    "worker_init_fn": f"{_NO_PROCESSES}, and seed= says what is drawn",
    "multiprocessing_context": _NO_PROCESSES,
    "persistent_workers": "threads live as long as the loader",
    "collate_fn": "outputs= says what a batch holds; transform= is called with every batch",
    "pin_memory": "device= brings batches to a device, from pinned memory",
    "pin_memory_device": "device= brings batches to a device",
    "prefetch_factor": "prefetch= is the number of finished batches that are kept ready",
    "sampler": "shuffle= is the order; samples.select(), .resample() and .oversample() choose what comes, and how often",
    "batch_sampler": "batch_size=, batch_elements= and bucket_samples= say what a batch is; shuffle= is the order",
    "generator": "seed= is what the order is drawn from",
    "timeout": "an error of a thread is raised at the batch it belongs to, so no time is needed",
    "in_order": "batches always come in their order",
    "buffer_size": "superbatch= is how much is mixed with each other",
    "shuffle_buffer": "superbatch= is how much is mixed with each other",
    "shuffle_buffer_size": "superbatch= is how much is mixed with each other",
    "drop_remainder": "drop_last= or tail= is what becomes of the last samples",
    "columns": "outputs= names the columns",
    "features": "outputs= names the columns",
    "dtype": "fb.col(…).cast('float32') is an output in a dtype",
    "dataset": "a loader is of samples: ds.rows().loader(…)",
    "epochs": "every iter() is one epoch: loop over them",
    "num_epochs": "every iter() is one epoch: loop over them",
    "cache": "memory= is what blocks are kept in",
    "cache_size": "memory= is what blocks are kept in",
    "num_replicas": "rank= and world_size= go together",
}

# Of windows, groups and splits.
_INPUT = "input= is the number of rows that go in, the first argument"
_OUTPUT = "output= is the number of rows behind them, the second argument"
WINDOW_WORDS = {
    **dict.fromkeys(("input_length", "length", "size", "window", "window_size", "seq_length", "seq_len", "lookback", "history", "context_length"), _INPUT),
    **dict.fromkeys(("output_length", "horizon", "target_length", "prediction_length", "forecast", "label_width", "lead"), _OUTPUT),
    **dict.fromkeys(("key", "group", "groupby", "on"), "by= names the column of which each run of equal values is a series"),
    "freq": "step= is the time from one row to the next",
    "shift": "stride= is how many rows apart windows begin",
    "dropna": "drop_missing= names the columns of which no value may be missing",
}
GROUP_WORDS = {
    **dict.fromkeys(("by", "on", "column", "groupby", "group"), "the key comes first: groups('event_id')"),
    **dict.fromkeys(("n", "size", "length", "batch_size"), "rows= cuts every file into groups of so many rows"),
}
_SEED = "seed= is what is drawn with"
SPLIT_WORDS = {
    **dict.fromkeys(("random_state", "generator", "rng"), _SEED),
    "shuffle": f"by='samples', 'files' and 'groups' are drawn, and {_SEED}; by='time' keeps their order",
    **dict.fromkeys(("test_size", "train_size", "lengths", "fractions"), "every split has a name and its fraction: split(train=0.8, test=0.2)"),
    "groups": "by= names the column of the groups",
    "n_splits": "every split has a name and its fraction; for folds, split(a=0.2, b=0.2, …) and leave out one split at a time",
}

SELECT_WORDS = {
    **dict.fromkeys(("min", "minimum", "ge", "start", "begin", "lower"), "low= is the least value that is taken"),
    **dict.fromkeys(("max", "maximum", "lt", "stop", "end", "upper"), "high= is the first value that is not"),
    **dict.fromkeys(("value", "eq", "equals", "isin", "is_in"), "values=[1, 2] lists those that are taken"),
}

OPEN_WORDS = {
    **dict.fromkeys(("fill_missing", "fill_value", "na_values", "missing"),
                    'missing_columns="fill" opens files that lack columns; fb.col(\'flow\').fill_missing(0) replaces values'),
    **dict.fromkeys(("dtype", "schema", "schema_overrides", "convert_dtypes"), "dtypes={'uid': str} says the types of CSV columns"),
    **dict.fromkeys(("columns", "usecols"), "the outputs of a loader name the columns that are read"),
}  # fmt: skip

# What users of frames, arrays and tensors write behind a column, samples or a data set.
_CAST = "cast('{}') says the dtype of the output, in any spelling of NumPy and torch"
_COMPUTE = "fb.expr('sqrt(x) / (y + 1)') computes with columns; transform= of a loader is code of yours for whole batches"
COLUMN_WORDS = {
    **dict.fromkeys(("long", "int", "astype", "to", "type"), _CAST.format("int64")),
    **{word: _CAST.format(dtype) for word, dtype in (("float", "float32"), ("double", "float64"), ("half", "float16"), ("bool", "bool"))},
    **dict.fromkeys(("fillna", "fill", "nan_to_num"), "fill_missing(0) is put where a value is missing, fill_nan(0) where a result is NaN"),
    **dict.fromkeys(("isna", "isnull", "isnan", "missing"), "is_missing() and is_null() are masks"),
    **dict.fromkeys(("normalize", "zscore", "mean", "std"), "standardize(mean, std), or standardize(moments) with what fb.fit(data, columns) found"),
    **dict.fromkeys(("apply", "map_batches", "pipe", "sqrt", "exp", "abs", "pow", "round", "sin", "cos", "where", "log2"), _COMPUTE),
    **dict.fromkeys(("permute", "transpose", "T"), "channels_first() and channels_last() move an axis; transform= of a loader does anything else"),
    **dict.fromkeys(("view", "flatten", "squeeze"), "reshape(128, 13) gives a row's value other axes, reshape(-1) one"),
    "unsqueeze": "a list of one name keeps its axis, fb.col(['x']); reshape(1, -1) gives a row's value other axes",
    **dict.fromkeys(("rename", "alias"), "an output's name is its key: {'x': fb.col('prcp')}"),
    **dict.fromkeys(("shift", "lag", "rolling"), "ds.windows(365, 7) has consecutive rows, of which steps(0, 365) are taken"),
    **dict.fromkeys(("dropna", "drop_nulls"), "ds.windows(…, drop_missing='flow') leaves windows out"),
    **dict.fromkeys(("ffill", "interpolate"), "forward_fill() has the value before, in a window"),
    "pad": "padded(max_rows) is for samples of different lengths",
}
_FILTER = "select('year', low=1990) and select('kind', values=[1]) choose by a column, select([…]) by key, take(indices) and samples[mask] by number"
_LOADER = "loader(outputs, batch_size=512, shuffle=True) gives batches"
_SPLIT = "split(train=0.8, val=0.2, by='samples') draws single samples"
SAMPLES_WORDS = {
    **dict.fromkeys(("filter", "where", "query", "sel", "isel", "loc", "iloc", "subset", "dropna"), _FILTER),
    **dict.fromkeys(("batch", "shuffle", "dataloader", "to_torch", "iter_batches", "repeat", "cache", "prefetch"), _LOADER),
    **dict.fromkeys(("map", "apply", "map_batches", "with_transform", "set_transform"), _COMPUTE),
    **dict.fromkeys(("random_split", "train_test_split"), _SPLIT),
    **dict.fromkeys(("sample", "head", "skip"), "limit(1000), limit(0.01, random=True) have fewer; resample(weights) draws"),
    **dict.fromkeys(("columns", "schema", "features"), "they are of the data set: samples.dataset.columns"),
}
LOADER_ATTRIBUTES = {
    **dict.fromkeys(("to", "cuda", "cpu", "pin_memory"), "device= of the loader, where batches go"),
    **dict.fromkeys(("shuffle", "batch", "map", "filter", "repeat", "take", "skip", "cache", "prefetch"),
                    "it is made whole: samples.loader(outputs, batch_size=512, shuffle=True, transform=…) of samples.select(…) or .limit(…)"),
    **dict.fromkeys(("next", "get_batch"), "next(iter(loader)) is the first batch of an epoch"),
    **dict.fromkeys(("split", "random_split"), "split the samples, and make a loader of each split"),
}  # fmt: skip
DATASET_WORDS = {
    **{word: f"ds.rows().{hint}" for word, hint in SAMPLES_WORDS.items() if hint in (_FILTER, _LOADER, _SPLIT)},
    **dict.fromkeys(("map", "apply", "map_batches"), _COMPUTE),
    **dict.fromkeys(("split", "select", "limit", "take", "oversample", "resample"), "samples have it: those of ds.rows(), ds.windows(…) or ds.groups(…)"),
    **dict.fromkeys(("groupby", "group_by"), "groups('event_id') has the rows of a key as one sample"),
    "rolling": "windows(365, 7) has consecutive rows",
    **dict.fromkeys(("merge", "join"), "fb.lookup(table, on='id', columns=[…]) puts a table's values into batches"),
    **dict.fromkeys(("head", "to_pandas", "to_table", "to_numpy", "to_arrow"), "pyarrow.table(ds) and polars.DataFrame(ds) have it, ds.read() NumPy arrays"),
    **dict.fromkeys(("mean", "std", "describe"), "fb.fit(ds, columns) computes moments"),
    **dict.fromkeys(("shape", "dtypes"), "len(ds) rows of ds.columns, whose types are in ds.schema"),
}

_EACH_SOURCE = "it is done to the samples of a source, before they are mixed: fb.mix({'a': a.split(…)['train'], 'b': b.select(…)})"
MIX_ATTRIBUTES = {
    **dict.fromkeys(("rows", "windows", "groups", "cells", "split", "select", "filter", "limit", "take"), _EACH_SOURCE),
    **dict.fromkeys(("oversample", "resample", "random_split", "map"), _EACH_SOURCE),
    **dict.fromkeys(("dataset", "columns", "schema"), "each source has its own: mixture.sources['a'].dataset"),
    **dict.fromkeys(("batch", "shuffle", "dataloader", "to_torch", "iter_batches", "repeat"), _LOADER),
}
MIX_WORDS = {
    **dict.fromkeys(("probabilities", "proportion", "proportions", "ratios", "p"),
                    "weights={'a': 3, 'b': 1} says how often each source comes relative to the others"),
    **dict.fromkeys(("stopping_strategy", "stop_strategy", "until"), "stop='first' ends with the first source, 'all' when every sample came"),
    **dict.fromkeys(("n_samples", "length", "epoch_size"), "stop=100_000 ends an epoch after so many samples"),
    **dict.fromkeys(("seed", "batch_size", "outputs"), "it belongs to the loader: fb.mix({…}).loader(outputs, batch_size=512, seed=1)"),
}  # fmt: skip

_TORCH = ("torch.utils.data", "torchdata.")
_TRAINERS = ("lightning.", "pytorch_lightning.")

TORCH_LOADER = (
    "a Forebay loader gives whole batches and reads ahead in threads of its own: iterate it directly (for batch in loader), without a DataLoader and "
    "its num_workers. Where code wants a DataLoader: torch.utils.data.DataLoader(forebay.torch.IterableDataset(loader), batch_size=None). To split, "
    "split the samples: splits = samples.split(train=0.8, val=0.2, by='samples'), then splits['train'].loader(batch_size=512)"
)
TORCH_MIX = (
    "a mixture has no values for a DataLoader to take: write mixture.loader(outputs, batch_size=512, shuffle=True) in place of the DataLoader"
)
TORCH_SAMPLES = (
    "{what} say which rows belong together, and have no values for a DataLoader, Trainer, random_split or Subset to take: write "
    "{name}.loader(batch_size=512, shuffle=True) in place of the DataLoader, and "
    "{name}.split(train=0.8, val=0.2, by='samples') in place of random_split"
)


class Known:
    """Objects whose missing attributes say what to write instead, where users of other libraries would look for them."""

    _other_words: ClassVar[dict[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that has said itself why there is none
                return object.__getattribute__(self, name)
            hint = type(self)._other_words.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}: {hint}" if hint else text, name=name, obj=self)


def named_splits(function: F) -> F:
    """A decorator of split(): the error for what is given without a name, or under the name that another library has for it."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if args:
            raise TypeError("split() takes splits by their names: split(train=0.8, val=0.2)")
        for name in options:
            if name in SPLIT_WORDS:
                raise TypeError(f"split() has no argument {name!r}: {SPLIT_WORDS[name]}")
        return function(self, **options)

    return call  # type: ignore[return-value]


def outside() -> int:
    """For warnings.warn() in the caller: the stacklevel of the line outside this package that led there."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "forebay":
        level, frame = level + 1, frame.f_back
    return level


def nearest(name: str, names: Iterable[str], cutoff: float, n: int = 1) -> list[str]:
    """The n names at most that `name` may have been meant for, the closest first."""
    import difflib  # only when something was misspelt: import forebay stays quick

    return difflib.get_close_matches(name, list(names), n, cutoff)


def unknown_argument(function: str, name: str, names: Iterable[str], words: dict[str, str] | None = None) -> TypeError:
    """The TypeError for an argument that the function does not have."""
    if words and name in words:
        return TypeError(f"{function}() has no argument {name!r}: {words[name]}")
    plain = {known.replace("_", ""): known for known in names}
    near = nearest(name.replace("_", "").lower(), plain, 0.7)
    said = f": did you mean {plain[near[0]]!r}?" if near else f"; it has {', '.join(plain.values()) or 'none'}"
    return TypeError(f"{function}() has no argument {name!r}{said}")


def advised(name: str | None = None, words: dict[str, str] | None = None) -> Callable[[F], F]:
    """A decorator: the error for an argument that the function does not have says what to write instead."""

    def decorate(function: F) -> F:
        code = inspect.unwrap(function).__code__  # inspect.signature() of every method would take as long as the rest of the import
        by_place = code.co_argcount
        names = code.co_varnames[: by_place + code.co_kwonlyargcount]
        by_name, several = names[by_place:], code.co_flags & inspect.CO_VARARGS
        known, shown = frozenset(names), [p for p in names if p not in ("self", "samples")]

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not known.issuperset(options):
                raise unknown_argument(name or function.__name__, next(o for o in options if o not in known), shown, words)
            if len(args) > by_place and by_name and not several:
                raise TypeError(f"{name or function.__name__}() takes {args[by_place]!r:.60} by name: {', '.join(f'{p}=' for p in by_name)}")
            return function(*args, **options)

        return call  # type: ignore[return-value]

    return decorate


def advised_methods(cls: type[C]) -> type[C]:
    """A decorator: `advised` for all public methods that the class itself has."""
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, advised()(method))
    return cls


def refuse_torch(message: str, function: str | None = None, *, trainers: bool = False) -> None:
    """Raise TypeError when the method that calls this was called by one of PyTorch's data utilities (`trainers`: or by Lightning): by any, or by the
    function of this name."""
    if "torch" not in sys.modules:
        return
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__", "").startswith((*_TORCH, *_TRAINERS) if trainers else _TORCH) and function in (None, frame.f_code.co_name):
        raise TypeError(message)
