"""States kept aside and put back: of models, optimizers and whatever else has a state_dict(), of loaders, and of the generators of random numbers."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _module(model: Any) -> Callable[[], None]:
    """Parameters, buffers (those that are not saved too), gradients and modes, in place: compiled code and CUDA graphs keep their pointers."""
    torch = sys.modules["torch"]
    tensors = [*model.parameters(), *model.buffers()]
    kept = [(tensor, tensor.detach().clone(), None if tensor.grad is None else tensor.grad.detach().clone()) for tensor in tensors]
    modes = [(module, module.training) for module in model.modules()]
    names = {(id(module), name) for module in model.modules() for name in (*module._parameters, *module._buffers)}

    def restore() -> None:
        with torch.no_grad():
            for tensor, value, grad in kept:
                tensor.copy_(value)
                tensor.grad = grad
        for module, training in modes:
            module.training = training
        extra = [name for module in model.modules() for name in (*module._parameters, *module._buffers) if (id(module), name) not in names]
        if extra:
            raise ValueError(f"the step added {', '.join(sorted(set(extra)))} to the model")

    return restore


def _optimizer(optimizer: Any) -> Callable[[], None]:
    """A torch optimizer: its state and its groups' options, as they are and not cast as load_state_dict() does."""
    state = {parameter: copy.deepcopy(values) for parameter, values in optimizer.state.items()}
    options = [{name: copy.deepcopy(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]

    def restore() -> None:
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, kept in zip(optimizer.param_groups, options, strict=True):
            for name in set(group) - set(kept) - {"params"}:
                del group[name]
            group.update(kept)

    return restore


def _keep(thing: Any) -> Callable[[], None]:
    torch = sys.modules.get("torch")
    if _is_module(thing):
        return _module(thing)
    if torch is not None and isinstance(thing, torch.optim.Optimizer):
        return _optimizer(thing)
    if hasattr(thing, "_kept"):  # a loader of this package
        return thing._kept()
    kept = copy.deepcopy(thing.state_dict())
    return lambda: thing.load_state_dict(kept)


def _random() -> list[tuple[str, Callable[[], None]]]:
    """The generators that programs share: Python's, NumPy's and torch's, where they are imported."""
    python = random.getstate()
    kept: list[tuple[str, Callable[[], None]]] = [("Python's random", lambda: random.setstate(python))]
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and hasattr(numpy, "random"):
        legacy = numpy.random.get_state()
        kept.append(("NumPy's random", lambda: numpy.random.set_state(legacy)))
    if torch is not None:
        cpu = torch.get_rng_state()
        kept.append(("torch's random", lambda: torch.set_rng_state(cpu)))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            devices = torch.cuda.get_rng_state_all()
            kept.append(("CUDA's random", lambda: torch.cuda.set_rng_state_all(devices)))
    return kept


class States:
    """What was kept, to be put back by :meth:`restore`.

    Attributes
    ----------
    not_restored : list of str
        What cannot be put back, and why.
    """

    def __init__(self, loader: Any, model: Any, optimizer: Any, others: Iterable[Any] = ()) -> None:
        self.not_restored: list[str] = []
        self._kept: list[tuple[str, Callable[[], None]]] = []
        for what, thing in (("model", model), ("optimizer", optimizer), *(("restore", other) for other in others)):
            if thing is None:
                self.not_restored.append(f"the {what} that the step uses: give {what}=" if what != "restore" else "None in restore=")
            else:
                self._add(f"{what} ({type(thing).__name__})", thing)
        if hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict"):
            self._add(f"loader ({type(loader).__name__})", loader)
        else:
            self.not_restored.append(f"the loader's place in its epoch: {type(loader).__name__} has no state_dict(); a new iter() begins anew")
        self._kept += _random()

    def _add(self, what: str, thing: Any) -> None:
        try:
            self._kept.append((what, _keep(thing)))
        except Exception as error:
            self.not_restored.append(f"the {what}: it cannot be kept ({type(error).__name__}: {error})")

    def restore(self) -> None:
        """Put everything back. What fails is added to `not_restored`; the rest is put back all the same."""
        for what, put_back in self._kept:
            try:
                put_back()
            except Exception as error:
                self.not_restored.append(f"the {what}: {type(error).__name__}: {error}")
