"""A loader as a pipeline file: Loader.to_yaml()."""

from __future__ import annotations

import array
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _forebay

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._loader import Loader
    from ._pipeline import Pipeline
    from ._samples import Samples

_MOST_TAKEN = 100_000  # numbers of samples that a file lists


def write_yaml(loader: "Loader", path: str | os.PathLike[str]) -> None:
    """See :meth:`Loader.to_yaml`."""
    target = os.fspath(path)
    if loader.dataset._source_names is not None:
        raise ValueError(
            "to_yaml() does not write mixtures: write the section mix by hand (docs/pipelines.md#mix), with what to_yaml() writes for a loader of "
            "each source"
        )
    pipeline = getattr(loader.dataset, "_pipeline", None)
    if pipeline is not None:
        root, split = _of_pipeline(pipeline, target), loader.dataset._split  # type: ignore[attr-defined]
    else:
        root, split = _of_samples(loader.dataset, os.path.dirname(os.path.abspath(target)))
    root["loader"] = {**({"split": split} if split is not None else {}), **_options(loader._options)}
    rows = loader._rows
    if rows is None:
        root.pop("outputs", None)
    _forebay.write_tree(target, root, None if rows is None else [row.core() for row in rows], ())


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


def _of_pipeline(pipeline: "Pipeline", target: str) -> dict[str, Any]:
    """The sections of another pipeline file, lookups and moments aside: outputs are written with what came of them."""
    if os.path.dirname(os.path.abspath(pipeline.path)) != os.path.dirname(os.path.abspath(target)):
        raise ValueError(f"its paths are relative to {_forebay.printable(str(pipeline.path))}: write the new file beside it")
    tree = pipeline.to_dict()
    return {name: tree[name] for name in ("data", "samples", "splits") if name in tree}


def _source(dataset: "Dataset", base: str) -> dict[str, Any]:
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


def _of_samples(samples: "Samples", base: str) -> tuple[dict[str, Any], str | None]:
    root: dict[str, Any] = {"data": _source(samples.dataset, base)}
    kind = _kind(samples, base)
    splits: dict[str, Any] | None = None
    name: str | None = None
    into = kind  # where steps go: before a split among the samples, after it into its part
    for method, args, pick, _ in samples._steps:
        if method == "split":
            if splits is not None:
                raise ValueError("a split of a split cannot be written into a pipeline file")
            splits, name, into = _split(args, pick)
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


def _kind(samples: "Samples", base: str) -> dict[str, Any]:
    kind, options = samples._recipe or ("rows", {})
    if kind == "rows":
        return {"rows": True}
    left_out = ("key", "more_keys", "table", "step", "file_by_position")
    out = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value not in (None, ()) and name not in left_out}
    key = [options.get("key"), *options.get("more_keys", ())]
    out["by" if kind == "windows" else "key"] = key if len(key) > 1 else key[0]
    out["step"] = options.get("step") or None
    out["file_by"] = "position" if options.get("file_by_position") else None
    out["table"] = None if options.get("table") is None else _source(options["table"], base)
    return {kind: {name: value for name, value in out.items() if value is not None}}


def _split(args: tuple, pick: int) -> tuple[dict[str, Any], str, dict[str, Any]]:
    given, options = args
    splits: dict[str, Any] = {name: {"fraction": fraction} if keys is None else {"keys": _values(keys)} for name, fraction, keys in given}
    name, split = list(splits.items())[pick]
    how = {"by": options.get("column", options["kind"]), "seed": options["seed"], "unknown": "ignore" if options["ignore_unknown"] else "error"}
    how.update({word: options[word] for word in ("stratify", "time") if word in options}, **({"at": "target"} if options["at_target"] else {}))
    return {**splits, **how}, name, split


def _values(values: bytes | tuple, code: str = "q") -> list[Any]:
    return list(values) if isinstance(values, tuple) else array.array(code, values).tolist()


def _step(method: str, args: tuple, base: str) -> tuple[str, dict[str, Any]]:
    if method == "limit":
        n, random, seed = args
        return "limit", {"n": n, **({"random": True, "seed": seed} if random else {})}
    if method == "take":
        taken = memoryview(args[0])
        if taken.nbytes > 8 * _MOST_TAKEN:
            text = f"more than {_MOST_TAKEN:,} samples by their numbers are not written into a pipeline file"
            raise ValueError(f"{text}: mark them in a column, and select by it")
        return "take", _values(taken.tobytes())  # type: ignore[return-value]
    if method not in ("select", "oversample", "resample"):
        raise ValueError(f"samples made by {method} cannot be written into a pipeline file")
    (options,) = args
    if options.get("weights") is not None:
        raise ValueError("weights of single samples cannot be written into a pipeline file: put them into a column")
    out = {name: value for name, value in options.items() if name != "threads" and value is not False}
    if out.pop("ignore_unknown", False):
        out["unknown"] = "ignore"
    for name, code in (("values", "q"), ("factors", "I"), ("class_weights", "d")):
        if out.get(name) is not None:
            out[name] = _values(out[name], code)
    if out.get("table") is not None:
        out["table"] = _source(out["table"], base)
    return method, {name: value for name, value in out.items() if value is not None}
