"""Batches, and packed and padded samples in them, as pytrees of torch and JAX: both then move them and map over their tensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ._batch import Batch
from ._sequences import Bytes, Padded, Ragged, Strings

_registered: set[str] = set()
_lock = threading.Lock()


def _flatten(samples: Any) -> tuple[tuple[Any, Any], bool]:
    """The two tensors, and whether the second holds lengths: what is needed to make the samples again."""
    return samples._parts(), isinstance(samples, Padded) and samples._has_lengths


def _unflattener(kind: type) -> Callable[[Any, bool], Any]:
    return lambda tensors, has_lengths: kind._made(*tensors, has_lengths) if kind is Padded else kind(*tensors)


# (type, flatten: tree → leaves and context, unflatten: leaves and context → tree, names of the leaves)
_NODES: list[tuple[type, Callable, Callable, Callable]] = [
    (Batch, lambda batch: (list(batch.values()), tuple(batch)), lambda values, names: Batch(zip(names, values)), list),
    *((kind, _flatten, _unflattener(kind), lambda _: ("values", "offsets")) for kind in (Ragged, Strings, Bytes)),
    (Padded, _flatten, _unflattener(Padded), lambda _: ("values", "rows")),
]


def _with_keys(flatten: Callable, names: Callable, key: Callable) -> Callable:
    def flatten_with_keys(tree: Any) -> tuple[list[Any], Any]:
        leaves, context = flatten(tree)
        return [(key(name), leaf) for name, leaf in zip(names(tree), leaves)], context

    return flatten_with_keys


def _with_torch(pytree: Any) -> None:
    for kind, flatten, unflatten, names in _NODES:
        with_keys = _with_keys(flatten, names, pytree.MappingKey)
        pytree.register_pytree_node(kind, flatten, unflatten, serialized_type_name=f"forebay.{kind.__name__}", flatten_with_keys_fn=with_keys)


def _with_jax(tree_util: Any) -> None:
    for kind, flatten, unflatten, names in _NODES:
        with_keys = _with_keys(flatten, names, tree_util.DictKey)
        tree_util.register_pytree_with_keys(kind, with_keys, lambda context, leaves, make=unflatten: make(leaves, context), flatten)


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
