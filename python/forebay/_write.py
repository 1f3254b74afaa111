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


def write_yaml(loader: "Loader", path: str | os.PathLike[str]) -> None:
    """See :meth:`Loader.to_yaml`."""
    target = os.fspath(path)
    pipeline = getattr(loader.dataset, "_pipeline", None)
    if pipeline is not None:
        root, split = _of_pipeline(pipeline, target), loader.dataset._split  # type: ignore[attr-defined]
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


def _of_pipeline(pipeline: "Pipeline", target: str) -> dict[str, Any]:
    """The sections of another pipeline file, lookups and moments aside: outputs are written with what came of them."""
    if os.path.dirname(os.path.abspath(pipeline.path)) != os.path.dirname(os.path.abspath(target)):
        raise ValueError(f"its paths are relative to {pipeline.path}: write the new file beside it")
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


def _kind(samples: "Samples", base: str) -> dict[str, Any]:
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
