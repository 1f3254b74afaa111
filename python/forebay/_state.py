"""A loader's state as the dict that programs save: JSON has a form for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _options

_FORMAT = "forebay.loader"
# What is about the data stands in a dict of its own.
_DATASET = ("identity", "fingerprint", "contents", "inodes", "rows", "files", "blocks", "samples", "samples_hash")
_HASHES = 32  # FBY_STATE_FILES


def _rows() -> list[dict[str, Any]]:
    return [row for row in _options.table("state") if row["type"] != "other"]


def to_dict(core: dict[str, Any], sources: int = 1) -> dict[str, Any]:
    """What _forebay.Loader.state() gives, for people and JSON. Hashes are of files, or of the sources of a mixture."""
    state: dict[str, Any] = {"format": _FORMAT}
    first = ("version", "epoch", "batch", "seed", "shuffle", "tail", "superbatch", "streams", "global_batch", "world_size")
    names = [row["name"] for row in _rows() if row["name"] not in _DATASET]
    state.update((name, core[name]) for name in (*first, *(name for name in names if name not in first)))
    dataset = {name: core[name] for name in _DATASET}
    dataset["hashes"] = core["hashes"][: 8 * min(core["files"] if sources == 1 else sources, _HASHES)].hex()
    state["dataset"] = dataset
    return state


def _checked(value: Any, row: dict[str, Any]) -> Any:
    kind = row["type"]
    if kind == "choice":
        fits = value in row["choices"]
    elif kind == "chars":
        fits = isinstance(value, str) and len(value.encode()) < row["most"]
    elif kind == "bool":
        fits = isinstance(value, bool)
    else:
        fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << (32 if kind == "u32" else 64)
    if not fits:
        raise ValueError(f"the state is damaged: {row['name']} is {value!r}")
    return value


def from_dict(state: Any) -> dict[str, Any]:
    """The argument of _forebay.Loader.set_state().

    Raises
    ------
    TypeError, ValueError
        For what is no state of a loader.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is the dict that state_dict() gave, not {type(state).__name__}")
    if state.get("format") != _FORMAT:
        raise ValueError(f"this is no state of a forebay loader: its keys are {', '.join(map(repr, list(state)[:8])) or 'none'}")
    core: dict[str, Any] = {}
    try:
        for row in _rows():
            where = state["dataset"] if row["name"] in _DATASET else state
            if row["name"] in where or not row["later"]:  # states of older libraries did without what came later
                core[row["name"]] = _checked(where[row["name"]], row)
        core["hashes"] = bytes.fromhex(state["dataset"]["hashes"]).ljust(8 * _HASHES, b"\0")
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and "damaged" in str(error):
            raise
        raise ValueError(f"the state is damaged: {type(error).__name__}: {error}") from None
    return core
