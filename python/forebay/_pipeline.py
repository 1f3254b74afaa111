"""Pipeline files: data, samples, splits, tables, outputs and loader in one YAML file, the same for C, the command and Python."""

from __future__ import annotations

import array
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _forebay
from ._advice import advised
from ._dataset import Dataset
from ._forebay import printable
from ._outputs import PipelineOutput
from ._samples import Samples

if TYPE_CHECKING:
    from ._loader import Loader

_KINDS = ("rows", "windows", "groups")
_NOT_OPTIONS = ("split",)  # keys of the section loader that are no parameters of Loader


class Pipeline:
    """A pipeline file: made by :func:`pipeline`.

    Reading it checks all that can be checked without the data. The data set, samples, lookups and moments are opened when they are asked
    for, once. ``pipeline["train"]`` are the samples of a split, whose ``loader()`` has the file's outputs and options.
    """

    def __init__(self, path: str, overrides: tuple[str, ...], cache_dir: str | None, core: Any) -> None:
        self._path, self._overrides, self._cache_dir, self._core = path, overrides, cache_dir, core
        self._dataset: Dataset | None = None
        self._samples: dict[str | None, PipelineSamples] = {}
        self._outputs: dict[str, PipelineOutput] | None = None

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, in order."""
        return tuple(self._core.splits())

    @property
    def dataset(self) -> Dataset:
        """The data set. Opening it raises what :func:`forebay.open` does, with the place in the file."""
        if self._dataset is None:
            self._dataset = _PipelineDataset(self)
        return self._dataset

    @property
    def samples(self) -> "PipelineSamples":
        """All samples, whatever the splits."""
        return self._of(None)

    @property
    def outputs(self) -> dict[str, PipelineOutput]:
        """The outputs by name, for :class:`Loader`: ``samples.loader({**pipeline.outputs, "more": fb.col("x")}, …)``.

        Lookups are read and moments fitted when this is first asked for. Empty when the file describes none.
        """
        if self._outputs is None:
            rows = self._core.outputs()
            self._outputs = {name: PipelineOutput(self, name, i, source, columns) for i, (name, source, columns) in enumerate(rows)}
        return dict(self._outputs)

    @property
    def options(self) -> dict[str, Any]:
        """The section loader as parameters of :class:`Loader`."""
        return {name: value for name, value in self._section().items() if name not in _NOT_OPTIONS and value is not None}

    def __getitem__(self, split: str) -> "PipelineSamples":
        if not isinstance(split, str):
            raise TypeError(f"a split is named by a str, not {type(split).__name__}: {split!r}")
        return self._of(split)

    def loader(self, split: str | None = None, **overrides: Any) -> "Loader":
        """A loader with the file's outputs and options.

        Parameters
        ----------
        split : str, optional
            By default the one that the section loader names; all samples where there are no splits.
        **overrides
            Parameters of :class:`Loader` in place of the file's: ``pipeline.loader("train", batch_size=64, device="cuda")``. With
            ``outputs=`` other outputs.

        Raises
        ------
        ValueError
            For a split that is not there; when there are splits, and neither the call nor the file names one.
        """
        if split is None:
            split = self._section().get("split")
        if split is None and self.splits:
            raise ValueError(f"which split? pipeline.loader({self.splits[0]!r}); the file has {', '.join(self.splits)}")
        return self._of(split).loader(**overrides)

    def to_dict(self) -> dict[str, Any]:
        """The file as plain values, overrides applied."""
        return self._core.tree()

    def __repr__(self) -> str:
        splits = f": {', '.join(self.splits)}" if self.splits else ""
        return printable(f"<forebay.Pipeline {self._path}{splits}>")

    def __reduce__(self):
        return (_reopen, (os.path.abspath(self._path), self._overrides, self._cache_dir))

    def _section(self) -> dict[str, Any]:
        return self._core.tree().get("loader") or {}

    def _of(self, split: str | None) -> "PipelineSamples":
        if split not in self._samples:
            core, kind = self._core.samples(split)
            self._samples[split] = PipelineSamples(self, split, core, _KINDS[kind])
        return self._samples[split]


class PipelineSamples(Samples):
    """Samples of a pipeline file: its :meth:`loader` has the file's outputs and options."""

    def __init__(self, pipeline: Pipeline, split: str | None, core: Any, kind: str) -> None:
        super().__init__(pipeline.dataset, kind, core, (kind,))
        self._pipeline, self._split = pipeline, split

    def loader(self, outputs: Any = None, **options: Any) -> "Loader":
        """As :meth:`Samples.loader`; what is not given is the file's."""
        from ._loader import Loader

        given = {**self._pipeline.options, **options}
        if "batch_size" not in given and "batch_elements" not in given:
            raise ValueError(f"{self._pipeline.path}: loader: batch_size is missing, and none is given (nor batch_elements)")
        if outputs is None:
            outputs = self._pipeline.outputs or None
        try:
            return Loader(self, outputs, **given)
        except _forebay.Error as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (self._pipeline._core.locate(error.args[0]),)
            raise

    def _with(self, method: str, args: tuple, text: str) -> Samples:
        raise ValueError("samples of a pipeline file are as the file says: write select, limit, oversample and splits there")

    def split(self, **parts: Any) -> Any:
        raise ValueError("samples of a pipeline file are as the file says: its splits are pipeline['name']")

    def __reduce__(self):
        return (_samples_of, (self._pipeline, self._split))


class _PipelineDataset(Dataset):
    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline._core.dataset(), None)
        self._pipeline = pipeline

    def __reduce__(self):
        return (_dataset_of, (self._pipeline,))


def _reopen(path: str, overrides: tuple[str, ...], cache_dir: str | None) -> Pipeline:
    return Pipeline(path, overrides, cache_dir, _forebay.open_pipeline(path, overrides, cache_dir))


def _samples_of(pipeline: Pipeline, split: str | None) -> PipelineSamples:
    return pipeline._of(split)


def _dataset_of(pipeline: Pipeline) -> Dataset:
    return pipeline.dataset


@advised()
def pipeline(
    path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None, *, cache_dir: str | os.PathLike[str] | None = None
) -> Pipeline:
    """Read a pipeline file.

    Parameters
    ----------
    path : path
        YAML. docs/pipelines.md has every key; ``forebay plan FILE`` shows what it gives. Paths in it are relative to its directory.
    overrides : mapping, optional
        Values in place of the file's, by their path: ``{"loader.batch_size": 64, "data.paths": "other/*.parquet"}``.
    cache_dir : path, optional
        Where the index cache lives, as of :func:`forebay.open`, of data sets that name none; ``""`` is no cache, whatever they name.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    FormatError, UnsupportedError
        For what is no YAML, or YAML that is not used here (tags, merge keys).
    ValueError
        For a key or value that does not fit, with file, line and column, and the nearest key that there is.

    Examples
    --------
    >>> pipeline = fb.pipeline("basins.yaml")
    >>> for batch in pipeline.loader("train"):
    ...     model(batch["x"], batch["static"])
    """
    texts = tuple(f"{key}={_override(value)}" for key, value in (overrides or {}).items())
    return _reopen(os.fspath(path), texts, None if cache_dir is None else os.fsdecode(cache_dir))


def _override(value: Any) -> str:
    import json

    return json.dumps(value)  # which is YAML


# ---- writing ----


def write(loader: "Loader", path: str | os.PathLike[str]) -> None:
    """See :meth:`Loader.to_yaml`."""
    target = os.fspath(path)
    if isinstance(loader.dataset, PipelineSamples):
        root, split = _of_pipeline(loader.dataset._pipeline, target), loader.dataset._split
    else:
        root, split = _of_samples(loader.dataset, os.path.dirname(os.path.abspath(target)))
    root["loader"] = {**({"split": split} if split is not None else {}), **_options(loader._options)}
    rows = loader._arguments["outputs"]
    if rows is None:
        root.pop("outputs", None)
    _forebay.write_tree(target, root, rows, ())


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("transform") is not None:
        raise ValueError("transform= is code, which a pipeline file cannot hold: leave it out, and give it to pipeline.loader(transform=…)")
    left_out = ("epoch", "framework", "device", "as_", "transform", "transform_prefetch", "check", "drop_last", "rank", "world_size")
    out = {name: value for name, value in given.items() if name not in left_out and value is not None}
    if given.get("shuffle", True) is None:
        out["shuffle"] = False  # left out, it would be true
    if given.get("drop_last") is not None:
        out["tail"] = "drop" if given["drop_last"] else "keep"
    if out.get("tail") == "auto":
        del out["tail"]
    return out


def _of_pipeline(pipeline: Pipeline, target: str) -> dict[str, Any]:
    """The sections of another pipeline file, lookups and moments aside: outputs are written with what came of them."""
    if os.path.dirname(os.path.abspath(pipeline.path)) != os.path.dirname(os.path.abspath(target)):
        raise ValueError(f"its paths are relative to {pipeline.path}: write the new file beside it")
    tree = pipeline.to_dict()
    return {name: tree[name] for name in ("data", "samples", "splits") if name in tree}


def _source(dataset: Dataset, base: str) -> dict[str, Any]:
    if dataset._origin is None:
        raise ValueError("a data set in memory cannot be written into a pipeline file: it names files")
    source, options = dataset._origin
    if isinstance(source, Mapping):
        paths: Any = {name: _relative(value, base) for name, value in source.items()}
    else:
        paths = _relative(source, base) if isinstance(source, (str, bytes)) else [_relative(item, base) for item in source]
    plain = {"io": "auto", "axis": 0, "axes": 1}
    kept = {name: value for name, value in options.items() if value is not None and value is not False and value != plain.get(name)}
    return {"paths": paths, **kept}


def _relative(path: Any, base: str) -> str:
    """Relative to the file where the data lie below its directory, so that both can move together."""
    whole = os.path.abspath(os.fsdecode(path))
    return os.path.relpath(whole, base) if whole.startswith(base.rstrip("/") + "/") else whole


def _of_samples(samples: Samples, base: str) -> tuple[dict[str, Any], str | None]:
    root: dict[str, Any] = {"data": _source(samples.dataset, base)}
    kind = _kind(samples, base)
    splits: dict[str, Any] | None = None
    name: str | None = None
    into = kind  # where steps go: before a split among the samples, after it into its part
    for method, args, pick, _ in samples._steps:
        if method in ("split", "split_keys"):
            if splits is not None:
                raise ValueError("a split of a split cannot be written into a pipeline file")
            splits, name, into = _split(args) if method == "split" else _split_keys(args, pick)
        else:
            step, value = _step(method, args, base)
            if step in into and step != "select":
                raise ValueError(f"{step} twice cannot be written into a pipeline file")
            if step == "select":
                into.setdefault("select", []).append(value)
            else:
                into[step] = value
    if kind != {"rows": True}:
        root["samples"] = kind
    if splits is not None:
        root["splits"] = splits
    return root, name


def _kind(samples: Samples, base: str) -> dict[str, Any]:
    recipe = samples._recipe or ("rows",)
    if recipe[0] == "rows":
        return {"rows": True}
    _, begin, end, stride, key, time, step, drop, table, first, last, file, by_position = recipe
    key = list(key) if isinstance(key, tuple) else key
    if recipe[0] == "windows":
        parts = {"input": begin, "output": end, "stride": stride, "by": key, "time": time, "step": step or None, "drop_missing": list(drop) or None}
    else:
        parts = {"key": key, "rows": begin or None, "first": first, "last": last, "file": file, "file_by": "position" if by_position else None}
        if table is not None:
            parts["table"] = _source(table, base)
    return {recipe[0]: {name: value for name, value in parts.items() if value is not None}}


def _split(args: tuple) -> tuple[dict[str, Any], str, dict[str, Any]]:
    kind, begin, end, seed = args
    part: dict[str, Any] = {"fraction": end - begin}
    before = {"before": begin} if begin > 0 else {}
    return {**before, "part": part, "by": ("files", "time")[kind], "seed": seed}, "part", part


def _split_keys(args: tuple, pick: int) -> tuple[dict[str, Any], str, dict[str, Any]]:
    column, given, seed, ignore, _ = args
    parts: dict[str, Any] = {}
    for i, (fraction, keys) in enumerate(given):
        parts[f"part_{i}"] = {"fraction": fraction} if keys is None else {"keys": _values(keys)}
    how = {"by": column if column is not None else "groups", "seed": seed, "unknown": "ignore" if ignore else "error"}
    return {**parts, **how}, f"part_{pick}", parts[f"part_{pick}"]


def _values(values: bytes | tuple) -> list[Any]:
    return list(values) if isinstance(values, tuple) else array.array("q", values).tolist()


def _step(method: str, args: tuple, base: str) -> tuple[str, dict[str, Any]]:
    if method == "limit":
        n, random, seed = args
        return "limit", {"n": n, **({"random": True, "seed": seed} if random else {})}
    out: dict[str, Any] = {}
    if method == "select":
        name, values, low, high, exclude, ignore, side, key, column, _ = args
        out = {"column": name, "values": None if values is None else _values(values), "low": low, "high": high, "exclude": exclude or None}
        out["unknown"] = "ignore" if ignore else None
        if side is not None:
            out.update(table=_source(side, base), table_key=key, table_column=column)
    elif method == "oversample":
        column, classes, factors, ignore, _ = args
        out = {"column": column, "values": _values(classes), "factors": array.array("I", factors).tolist(), "unknown": "ignore" if ignore else None}
    elif method == "resample":
        each, column, classes, weights, n, seed, _, each_epoch = args
        if each is not None:
            raise ValueError("weights of single samples cannot be written into a pipeline file: put them into a column")
        out = {"column": column, "n": n or None, "seed": seed, "each_epoch": each_epoch or None}
        if classes is not None:
            out.update(values=_values(classes), class_weights=array.array("d", weights).tolist())
    else:
        raise ValueError(f"samples made by {method} cannot be written into a pipeline file")
    return method, {name: value for name, value in out.items() if value is not None}
