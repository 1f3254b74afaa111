"""Pipeline files: data, samples, splits, tables, outputs and loader in one YAML file, the same for C, the command and Python."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping
from typing import Any

from . import _forebay, _hints
from ._advice import advised
from ._dataset import Dataset
from ._forebay import printable
from ._loader import Loader
from ._mix import Mix, mix
from ._outputs import PipelineOutput
from ._samples import Samples
from ._sources import folder, is_path

_NOT_OPTIONS = ("split",)  # keys of the section loader that are no parameters of Loader


class Pipeline:
    """A pipeline file: made by :func:`pipeline`.

    Reading it checks all that can be checked without the data. The data set, samples, lookups and moments are opened when they are asked
    for, once. ``pipeline["train"]`` are the samples of a split, whose ``loader()`` has the file's outputs and options.
    """

    def __init__(self, path: str, overrides: tuple[str, ...], cache_dir: str | None, core: Any) -> None:
        self._path, self._overrides, self._cache_dir, self._core = path, overrides, cache_dir, core
        self._dataset: Dataset | None = None
        self._samples: dict[str | None, PipelineSamples | PipelineMix] = {}
        self._outputs: dict[str, PipelineOutput] | None = None
        self._sources: dict[str, Pipeline] = {name: _PipelineSource(self, name, source) for name, source in core.sources()}

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, in order."""
        return tuple(self._core.splits())

    @property
    def sources(self) -> dict[str, "Pipeline"]:
        """Of a file that describes a mixture, what each source is: a pipeline with data, samples, splits and outputs of its own. Else empty."""
        return dict(self._sources)

    @property
    def dataset(self) -> Dataset:
        """The data set; of a mixture each source has its own. Opening it raises what :func:`forebay.open` does, with the place in the file."""
        if self._dataset is None:
            self._dataset = _PipelineDataset(self)
        return self._dataset

    @property
    def samples(self) -> "PipelineSamples | PipelineMix":
        """All samples, whatever the splits; of a mixture a :class:`Mix` of them."""
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

    def __getitem__(self, split: str) -> "PipelineSamples | PipelineMix":
        if not isinstance(split, str):
            raise TypeError(f"a split is named by a str, not {type(split).__name__}: {split!r}")
        return self._of(split)

    def loader(self, split: str | None = None, **overrides: Any) -> Loader:
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
        return self._chosen(split).loader(**overrides)

    def to_dict(self) -> dict[str, Any]:
        """The file as plain values, overrides applied."""
        return self._core.tree()

    def __repr__(self) -> str:
        splits = f": {', '.join(self.splits)}" if self.splits else ""
        mixed = f", a mixture of {', '.join(self._sources)}" if self._sources else ""
        return printable(f"<forebay.Pipeline {self._path}{mixed}{splits}>")

    def __reduce__(self):
        return (_reopen, (os.path.abspath(self._path), self._overrides, self._cache_dir))

    def _section(self) -> dict[str, Any]:
        return self._core.tree().get("loader") or {}

    def _prefix(self) -> str:
        """Of what is said of its samples."""
        return ""

    def _chosen(self, split: str | None) -> "PipelineSamples | PipelineMix":
        """Samples of the split that is named, or that is meant when none is."""
        return self._of(self._core.choose_split(split))

    def _of(self, split: str | None) -> "PipelineSamples | PipelineMix":
        if split not in self._samples and self._sources:
            self._samples[split] = PipelineMix(self, split)
        elif split not in self._samples:
            core, kind = self._core.samples(split)
            samples = PipelineSamples(self, split, core, kind)
            if not self._samples:  # what is said of one split is said of all
                _hints.warn_of_samples(samples, self._prefix())
            self._samples[split] = samples
        return self._samples[split]

    def _loader(self, samples: Any, outputs: Any, options: dict[str, Any], make: Any) -> Loader:
        """A loader of samples of the file, with its options in place of those that are not given."""
        given = {**self.options, **options}
        if "batch_size" not in given and "batch_elements" not in given:
            raise ValueError(f"{printable(self.path)}: loader: batch_size is missing, and none is given (nor batch_elements)")
        try:
            return make(samples, outputs, **given)
        except _forebay.Error as error:
            if len(error.args) == 1 and isinstance(error.args[0], str):
                error.args = (self._core.locate(error.args[0]),)
            raise


class _PipelineSource(Pipeline):
    """A source of a mixture; its loaders have the file's options."""

    def __init__(self, mixture: Pipeline, name: str, core: Any) -> None:
        super().__init__(mixture._path, mixture._overrides, mixture._cache_dir, core)
        self._mixture, self._name = mixture, name

    def _section(self) -> dict[str, Any]:
        return self._mixture._section()

    def _prefix(self) -> str:
        return f"source {self._name!r}: "

    def __repr__(self) -> str:
        return printable(f"<source {self._name!r} of {self._path}>")

    def __reduce__(self):
        return (_source_of, (self._mixture, self._name))


class PipelineMix(Mix):
    """The mixture of a pipeline file: its :meth:`loader` has the file's outputs and options."""

    def __init__(self, pipeline: Pipeline, split: str | None) -> None:
        section = pipeline._core.tree()["mix"]
        sources: dict[str, Any] = {name: source._of(split) for name, source in pipeline._sources.items()}
        made = mix(sources, weights=section.get("weights"), stop=section.get("stop") or "first")
        super().__init__(made._sources, made._weights, made._stop)
        self._pipeline, self._split = pipeline, split

    def loader(self, outputs: Any = None, **options: Any) -> Loader:
        """As :meth:`Mix.loader`; what is not given is the file's."""
        if outputs is None:
            each = {name: source.outputs or None for name, source in self._pipeline._sources.items()}
            outputs = each if any(each.values()) else None
        return self._pipeline._loader(self, outputs, options, Mix.loader)

    def __reduce__(self):
        return (_samples_of, (self._pipeline, self._split))


class PipelineSamples(Samples):
    """Samples of a pipeline file: its :meth:`loader` has the file's outputs and options."""

    def __init__(self, pipeline: Pipeline, split: str | None, core: Any, kind: str) -> None:
        super().__init__(pipeline.dataset, kind, core, (kind,))
        self._pipeline, self._split = pipeline, split

    def loader(self, outputs: Any = None, **options: Any) -> Loader:
        """As :meth:`Samples.loader`; what is not given is the file's."""
        return self._pipeline._loader(self, self._pipeline.outputs or None if outputs is None else outputs, options, Loader)

    def _file_outputs(self) -> Any:
        return self._pipeline.outputs or None

    def _text(self) -> str:
        return self._pipeline._core.text(self._split)

    def _with(self, method: str, args: tuple, text: str) -> Samples:
        raise ValueError("samples of a pipeline file are as the file says: write select, limit, oversample and splits there")

    def split(self, **splits: Any) -> Any:
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


def _source_of(pipeline: Pipeline, name: str) -> Pipeline:
    return pipeline._sources[name]


def _samples_of(pipeline: Pipeline, split: str | None) -> PipelineSamples | PipelineMix:
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
    if not is_path(path):
        raise TypeError(f"forebay.pipeline() takes the path of a YAML file, a str or os.PathLike, not {type(path).__name__}: {reprlib.repr(path)}")
    if overrides is not None and not isinstance(overrides, Mapping):
        raise TypeError(f"overrides= is a mapping of keys to values, such as {{'loader.batch_size': 64}}, not {type(overrides).__name__}")
    texts = tuple(f"{key}={_override(value)}" for key, value in (overrides or {}).items())
    return _reopen(os.fsdecode(path), texts, None if cache_dir is None else folder(cache_dir, "cache_dir"))


def _override(value: Any) -> str:
    return json.dumps(value)  # which is YAML
