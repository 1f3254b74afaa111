"""A loader's state as the dict that programs save: JSON has a form for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FORMAT = "forebay.loader"
_SHUFFLES = ("superbatch", "full", "block", "none")
_TAILS = ("auto", "keep", "drop", "wrap", "uneven")
_NUMBERS = {"version": 32, "streams": 32, "world_size": 32, "epoch": 64, "batch": 64, "seed": 64, "global_batch": 64, "superbatch": 64}
# Not in states of older libraries: those did without.
_LATER = {"part_files": 32, "n_parts": 32, "diversity_files": 32, "max_superbatch_batches": 32, "batch_elements": 64, "bucket_samples": 64,
          "part_keys": 32, "part_keys_hash": 64}  # fmt: skip
_COUNTS = ("rows", "files", "blocks", "samples", "samples_hash")
_HASHES = 32  # FBY_STATE_FILES


def to_dict(core: dict[str, Any]) -> dict[str, Any]:
    """What _forebay.Loader.state() gives, for people and JSON."""
    state: dict[str, Any] = {"format": _FORMAT}
    state.update((name, core[name]) for name in ("version", "epoch", "batch", "seed"))
    state["shuffle"] = _SHUFFLES[core["shuffle"]]
    state["tail"] = _TAILS[core["tail"]]
    state.update((name, core[name]) for name in ("superbatch", "streams", "global_batch", "world_size", *_LATER))
    dataset = {name: core[name] for name in ("identity", "fingerprint", "contents", "inodes", *_COUNTS)}
    dataset["hashes"] = core["hashes"][: 8 * min(core["files"], _HASHES)].hex()
    state["dataset"] = dataset
    return state


def _number(where: Mapping, name: str, bits: int) -> int:
    value = where[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise ValueError(f"the state is damaged: {name} is {value!r}")
    return value


def from_dict(state: Any) -> dict[str, Any]:
    """The arguments of _forebay.Loader.set_state().

    Raises
    ------
    TypeError, ValueError
        For what is no state of a loader.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"a state is the dict that state_dict() gave, not {type(state).__name__}")
    if state.get("format") != _FORMAT:
        raise ValueError(f"this is no state of a forebay loader: its keys are {', '.join(map(repr, list(state)[:8])) or 'none'}")
    try:
        core: dict[str, Any] = {name: _number(state, name, bits) for name, bits in _NUMBERS.items()}
        core.update((name, _number(state, name, bits) if name in state else 0) for name, bits in _LATER.items())
        dataset = state["dataset"]
        core.update((name, _number(dataset, name, 64)) for name in _COUNTS)
        core["shuffle"], core["tail"] = _SHUFFLES.index(state["shuffle"]), _TAILS.index(state["tail"])
        core["identity"], core["fingerprint"] = str(dataset["identity"]), str(dataset["fingerprint"])
        core["contents"] = str(dataset.get("contents", ""))  # not in states of older libraries
        core["inodes"] = _number(dataset, "inodes", 64) if "inodes" in dataset else 0
        core["hashes"] = bytes.fromhex(dataset["hashes"]).ljust(8 * _HASHES, b"\0")
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and "damaged" in str(error):
            raise
        raise ValueError(f"the state is damaged: {type(error).__name__}: {error}") from None
    return core
