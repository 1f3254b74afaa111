"""Forebay: shuffled, deterministic, ready-to-train batches from data files as they lie on disk.

Examples
--------
>>> import forebay as fb
>>> ds = fb.open("basins/*.parquet")
>>> print(ds)                                                    # schema, rows, files, blocks, sizes
>>> loader = ds.rows().loader({"x": ["prcp", "tmax"], "y": "flow"}, batch_size=512, memory="8GiB")
>>> for batch in loader:                                         # dict of tensors
...     batch["x"], batch["y"]
>>> print(loader.report())                                       # where the time went
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _forebay

__version__ = "0.2.0"

if _forebay.version != __version__:
    raise ImportError(
        f"the package forebay is version {__version__} and its extension {_forebay.__file__} is version "
        f"{_forebay.version}: two installations are mixed. Remove both (pip uninstall forebay) and install again."
    )

from ._batch import Batch
from ._class_map import class_map
from ._contents import Attributes, Contents, Object
from ._dataset import Dataset, Selection, open
from ._delivery import OutputInfo, SourceInfo
from ._files import Block, Chunk, File
from ._fit import GroupedMoments, Moment, Moments, fit
from ._forebay import (
    ArgumentError,
    BudgetError,
    CancelledError,
    ChangedError,
    DataError,
    Error,
    FileForbiddenError,
    FileLockedError,
    FileMissingError,
    FormatError,
    InternalError,
    NoMemoryError,
    ReadError,
    SchemaError,
    StateError,
    Tensor,
    UnsupportedError,
)
from ._loader import Loader
from ._log import start as _start_log
from ._lookup import Lookup, encode, lookup
from ._make_columns import expr, group_channels, ngram_vocabulary, ngrams
from ._mix import Mix, mix
from ._outputs import Column, Index, Literal, col, is_repeat, lit, n_rows, row_index, sample_index, segment_ids, source
from ._pipeline import Pipeline, pipeline
from ._pytrees import register as _register_pytrees
from ._samples import Samples
from ._schema import Field, Schema
from ._sequences import Bytes, Padded, Ragged, Strings
from ._trace import span, trace

if TYPE_CHECKING:
    from ._compare import Comparison, Runs, compare
    from ._diagnose import BatchSize, Diagnosis, diagnose
    from ._nvml import Gpu
    from ._pack import Pack, PackTask, pack, pack_task, pack_tasks
    from ._report import Cure, Epoch, Report, SourceReport, Span
    from ._versions import show_versions

__all__ = [
    "ArgumentError",
    "Attributes",
    "Batch",
    "BatchSize",
    "Block",
    "BudgetError",
    "Bytes",
    "CancelledError",
    "ChangedError",
    "Chunk",
    "Column",
    "Comparison",
    "Contents",
    "Cure",
    "DataError",
    "Dataset",
    "Diagnosis",
    "Epoch",
    "Error",
    "Field",
    "File",
    "FileForbiddenError",
    "FileLockedError",
    "FileMissingError",
    "FormatError",
    "Gpu",
    "GroupedMoments",
    "Index",
    "InternalError",
    "Literal",
    "Loader",
    "Lookup",
    "Mix",
    "Moment",
    "Moments",
    "NoMemoryError",
    "Object",
    "OutputInfo",
    "Pack",
    "PackTask",
    "Padded",
    "Pipeline",
    "Ragged",
    "ReadError",
    "Report",
    "Runs",
    "Samples",
    "Schema",
    "SchemaError",
    "Selection",
    "SourceInfo",
    "SourceReport",
    "Span",
    "StateError",
    "Strings",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "class_map",
    "col",
    "compare",
    "diagnose",
    "encode",
    "expr",
    "fit",
    "group_channels",
    "is_repeat",
    "lit",
    "lookup",
    "mix",
    "n_rows",
    "ngram_vocabulary",
    "ngrams",
    "open",
    "pack",
    "pack_task",
    "pack_tasks",
    "pipeline",
    "row_index",
    "sample_index",
    "segment_ids",
    "show_versions",
    "source",
    "span",
    "trace",
]

# What a training run seldom needs is imported when it is first asked for: import forebay stays quick.
_LATER = {
    **dict.fromkeys(("Comparison", "Runs", "compare"), "_compare"),
    **dict.fromkeys(("BatchSize", "Diagnosis", "diagnose"), "_diagnose"),
    "Gpu": "_nvml",
    **dict.fromkeys(("Pack", "PackTask", "pack", "pack_task", "pack_tasks"), "_pack"),
    **dict.fromkeys(("Cure", "Epoch", "Report", "SourceReport", "Span"), "_report"),
    "show_versions": "_versions",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_start_log()
_register_pytrees()
