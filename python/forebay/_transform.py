"""A callable of the user's on every batch: on one background thread an epoch.

The thread asks the loader for the batch whose turn it is, and gives back what the transform made of it. Order, how far ahead of the program, and
when the epoch is over are the library's (src/loader/transform.c).

The thread knows nothing of the iterator that the program holds: when that goes, the epoch is over, and the thread ends at its next step. It is a
daemon: a transform that never returns does not keep the interpreter alive.
"""

from __future__ import annotations

import contextvars
import functools
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import _forebay

_EXIT_SECONDS = 5.0  # at exit, how long a call of the transform is waited for

_THREAD = "forebay-transform"  # its name


def name_of(transform: Any) -> str:
    """What a transform is called in messages."""
    while isinstance(transform, functools.partial):
        transform = transform.func
    return getattr(transform, "__qualname__", None) or type(transform).__qualname__


def checked(transform: Any) -> Callable[[Any], Any] | None:
    """The transform that was given, or None.

    Raises
    ------
    TypeError
        For what cannot be called, and for coroutine functions.
    """
    if transform is None:
        return None
    if not callable(transform):
        raise TypeError(f"transform={transform!r}: give a function (or another callable) that takes a batch and returns one")
    code = getattr(transform, "__code__", None)
    if code is not None and code.co_flags & 0x80:  # CO_COROUTINE
        raise TypeError(f"transform {name_of(transform)} is an async function: give a plain one; it runs on a thread of its own")
    return transform


class Carried:
    """A transform on its way through pickle, which says what is wrong with one that cannot go."""

    __slots__ = ("transform",)

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __copy__(self) -> "Carried":
        return self

    def __deepcopy__(self, memo: Any) -> "Carried":
        return self

    def __reduce__(self):
        # cloudpickle and dill send functions that pickle does not: where one of them is about, it may be the one that asks.
        if not any(name in sys.modules for name in ("cloudpickle", "dill")):
            try:
                pickle.dumps(self.transform)
            except Exception as error:
                raise pickle.PicklingError(
                    f"the loader's transform {name_of(self.transform)} cannot be pickled ({error}): define it at the top level of a module, or as "
                    "functools.partial of such a function, or as an object of such a class; not as a lambda or inside another function"
                ) from error
        return (Carried, (self.transform,))


def _called(transform: Callable[[Any], Any], batch: Any, where: str) -> Any:
    """What the transform makes of a batch; its errors say at which batch."""
    try:
        result = transform(batch)
    except StopIteration as error:  # it would end the program's loop without a word
        raise RuntimeError(f"{where}: it raised StopIteration") from error
    except BaseException as error:
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"forebay: in {where}")
        raise
    if result is None:
        raise TypeError(f"{where}: it returned None: return the batch, changed in place, or what is to take its place")
    return result


def once(transform: Callable[[Any], Any], batch: Any) -> Any:
    """One batch outside of any epoch."""
    return _called(transform, batch, f"transform {name_of(transform)}, the first batch in file order")


def tried(transform: Callable[[Any], Any], batch: Any, outputs: Mapping[str, Any]) -> Any:
    """Call the transform on the first batch in file order, when its loader is made.

    Raises
    ------
    ArgumentError
        From what it raised: with its name, and what it was given (`outputs`: name to dtype and shape).
    """
    try:
        return once(transform, batch)
    except Exception as error:
        given = [f"{name} {info.dtype} {'ragged' if info.ragged else info.shape}" for name, info in outputs.items()]
        more = f" and {len(given) - 8} more" if len(given) > 8 else ""
        raise _forebay.ArgumentError(
            f"transform {name_of(transform)} fails on the first batch in file order: {type(error).__name__}: {error}. It was given "
            f"{', '.join(given[:8])}{more}; check=False makes the loader without trying it"
        ) from error


def _work(core: Any, begun: int, transform: Callable[[Any], Any], epoch: int, number: int) -> None:
    name = name_of(transform)
    while True:
        batch = None
        try:
            batch = core.transform_next(begun)
            if batch is None:
                return
            result, failed = _called(transform, batch, f"transform {name}, batch {number} of epoch {epoch}"), False
        except BaseException as error:
            result, failed = error.with_traceback(error.__traceback__.tb_next), True  # without this frame, which holds the loader
        batch = None  # the program's alone
        core.transform_done(result, failed)
        del result
        number += 1


def start(core: Any, transform: Callable[[Any], Any], epoch: int, batch: int) -> threading.Thread:
    """Start the thread of an epoch that has begun at a batch."""
    # numpy.errstate, decimal's context and the like are those of the code that called iter().
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(_work, core, core.epochs_begun, transform, epoch, batch), name=_THREAD, daemon=True)
    try:
        thread.start()
    except BaseException:
        core.cancel()  # nobody would transform its batches
        raise
    return thread


def join_all() -> None:
    """The interpreter exits, and all loaders are closed: wait for their threads, not for ever."""
    until = time.monotonic() + _EXIT_SECONDS
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join(max(0.0, until - time.monotonic()))
