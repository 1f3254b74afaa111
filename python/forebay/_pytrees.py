"""Batches, and packed and padded samples in them, as pytrees of torch and JAX: both then move them and map over their tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ._batch import Batch
from ._sequences import Bytes, Padded, Ragged, Strings

_KINDS = (Ragged, Strings, Bytes, Padded)
_registered: set[str] = set()


def _flatten(samples: Any) -> tuple[list[Any], bool]:
    """The two tensors, and whether the second holds lengths: what is needed to make the samples again."""
    return list(samples._parts()), isinstance(samples, Padded) and samples._mask is None


def _unflattener(kind: type) -> Callable[[Any, bool], Any]:
    def unflatten(tensors: Any, has_lengths: bool) -> Any:
        first, second = tensors
        return Padded.with_lengths(first, second) if has_lengths else kind(first, second)

    return unflatten


def _register_with_torch(pytree: Any) -> None:
    node = pytree.register_pytree_node
    node(Batch, lambda b: (list(b.values()), list(b)), lambda values, names: Batch(zip(names, values)), serialized_type_name="forebay.Batch")
    for kind in _KINDS:
        node(kind, _flatten, _unflattener(kind), serialized_type_name=f"forebay.{kind.__name__}")


def _register_with_jax(tree_util: Any) -> None:
    node = tree_util.register_pytree_node
    node(Batch, lambda b: (tuple(b.values()), tuple(b)), lambda names, values: Batch(zip(names, values)))
    for kind in _KINDS:
        node(kind, _flatten, lambda has_lengths, tensors, make=_unflattener(kind): make(tensors, has_lengths))


def register() -> None:
    """With torch and JAX, where the program has imported them. Later calls register with what was imported since."""
    for module, register_with in (("torch.utils._pytree", _register_with_torch), ("jax.tree_util", _register_with_jax)):
        if module not in _registered and hasattr(sys.modules.get(module), "register_pytree_node"):
            _registered.add(module)
            register_with(sys.modules[module])
