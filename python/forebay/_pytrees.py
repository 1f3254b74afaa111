"""Batches, and packed and padded samples in them, as pytrees of torch and JAX: both then move them and map over their tensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ._batch import Batch
from ._sequences import Bytes, Padded, Ragged, Strings

_NAMES = {kind: ("values", "offsets") for kind in (Ragged, Strings, Bytes)} | {Padded: ("values", "rows")}
_registered: set[str] = set()
_lock = threading.Lock()


def _flatten(samples: Any) -> tuple[tuple[Any, Any], bool]:
    """The two tensors, and whether the second holds lengths: what is needed to make the samples again."""
    return samples._parts(), isinstance(samples, Padded) and samples._has_lengths


def _unflattener(kind: type) -> Callable[[Any, bool], Any]:
    like = {has_lengths: Padded(None, *((None, ()) if has_lengths else ((), None))) for has_lengths in (False, True)}

    def unflatten(tensors: Any, has_lengths: bool) -> Any:
        first, second = tensors
        return like[has_lengths]._with(first, second) if kind is Padded else kind(first, second)

    return unflatten


def _with_torch(pytree: Any) -> None:
    def node(kind: type, flatten: Callable, unflatten: Callable, keys: Callable) -> None:
        def flatten_with_keys(tree: Any) -> tuple[list[Any], Any]:
            leaves, context = flatten(tree)
            return [(pytree.MappingKey(key), leaf) for key, leaf in zip(keys(tree), leaves)], context

        pytree.register_pytree_node(kind, flatten, unflatten, serialized_type_name=f"forebay.{kind.__name__}", flatten_with_keys_fn=flatten_with_keys)

    node(Batch, lambda batch: (list(batch.values()), list(batch)), lambda values, names: Batch(zip(names, values)), list)
    for kind, names in _NAMES.items():
        node(kind, _flatten, _unflattener(kind), lambda samples, names=names: names)


def _with_jax(tree_util: Any) -> None:
    def node(kind: type, flatten: Callable, unflatten: Callable, keys: Callable) -> None:
        def flatten_with_keys(tree: Any) -> tuple[list[Any], Any]:
            leaves, context = flatten(tree)
            return [(tree_util.DictKey(key), leaf) for key, leaf in zip(keys(tree), leaves)], context

        tree_util.register_pytree_with_keys(kind, flatten_with_keys, lambda context, leaves: unflatten(leaves, context), flatten)

    node(Batch, lambda batch: (tuple(batch.values()), tuple(batch)), lambda values, names: Batch(zip(names, values)), list)
    for kind, names in _NAMES.items():
        node(kind, _flatten, _unflattener(kind), lambda samples, names=names: names)


def _imported(name: str) -> Any:
    """The module, if its package has been imported, and not only in part."""
    package = sys.modules.get(name.partition(".")[0])
    return None if package is None or getattr(package.__spec__, "_initializing", False) else sys.modules.get(name)


def register() -> None:
    """With torch and JAX, where the program has imported them. Later calls register with what was imported since. Threads: any."""
    for name, register_with in (("torch.utils._pytree", _with_torch), ("jax.tree_util", _with_jax)):
        module = None if name in _registered else _imported(name)
        if module is None:
            continue
        with _lock:
            if name not in _registered:
                register_with(module)
                _registered.add(name)
