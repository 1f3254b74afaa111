"""A callable of the user's on every batch: on one background thread an epoch, in order, a few finished results ahead.

    loader ──batch──► thread: transform ──► ready ──► the program's next()
                        ▲                               │
                        └──────────── room ◄────────────┘

Who may do what. The thread alone takes batches from the loader and appends to `ready`; the program alone takes from there. `room` holds one
token for each result that may still be made, `wake` one for each reason to look at `ready` again. Both are queues that may be written in a
finalizer; there is no lock. The thread knows nothing of the iterator that the program holds: when that goes, the epoch is over, and the thread
leaves at its next step.

Ends. `over` says why nothing more is wanted; it is set before anybody is woken. Only calls of the program (iter(), close(), load_state_dict())
wait for the thread, a finalizer never does. The thread is a daemon: a transform that never returns does not keep the interpreter alive.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import operator
import os
import pickle
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _forebay
from ._log import log

_END = object()
_EXIT_SECONDS = 5.0  # at exit, how long a call of the transform is waited for

_OVER = {
    "left": "this iterator is over",
    "closed": "the loader is closed: make a new one",
    "over": "this iterator is over: iter() was called again on its loader, or a state was loaded into it. One loader runs one epoch at a time; "
    "make a second loader to iterate twice at once",
}  # fmt: skip

_live: "weakref.WeakSet[Epoch]" = weakref.WeakSet()


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


class Epoch:
    """What the thread and the program share. Fields are set once unless they say otherwise."""

    def __init__(self, transform: Callable[[Any], Any], batches: Any, state: dict[str, Any], core: _forebay.Loader, slow_ns: int) -> None:
        self.batches: Any = batches  # the thread's; None when it has ended
        self.transform = transform
        self.name = name_of(transform)
        self.core = core  # is told the times of the thread and of the program
        self.pid = os.getpid()
        self.state = state  # of the loader when the epoch began
        self.epoch: int = state["epoch"]
        self.n_batches = operator.length_hint(batches)
        self.first = state["batch"]  # whose wait is the epoch's beginning
        self.position: tuple[int, int] = (state["epoch"], state["batch"])  # the program's: the batch it gets next
        self.ready: collections.deque[tuple[Any, BaseException | None]] = collections.deque()
        self.wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.room: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.slow_ns = slow_ns  # a wait that is longer is logged
        self.said_ns = self.unsaid = 0  # when one was logged last, and how many were not since; the program's
        self.inside = False  # the transform runs; set by the thread
        self.taken = False  # has the program got a result, an error or the end? Set by the program
        self.over: str | None = None  # why the epoch ended early: a key of _OVER, or "exit"; set by the program
        # numpy.errstate, decimal's context and the like are those of the code that called iter().
        self.thread = threading.Thread(target=contextvars.copy_context().run, args=(_work, self), name="forebay-transform", daemon=True)

    def wait(self, asked: int, waits_for: str) -> str:
        """Wait for a reason to look at `ready`. What it waited for, once that took long; "" before."""
        if waits_for:
            self.wake.get()  # Ctrl-C interrupts it
            return waits_for
        try:
            self.wake.get(timeout=max(0.0, (asked + self.slow_ns - time.perf_counter_ns()) / 1e9))
        except queue.Empty:
            return f"the transform {self.name}" if self.inside else "the loader, before the transform"
        return ""

    def log_slow(self, message: str) -> None:
        """Log a wait that took long: at most one of ten seconds."""
        now = time.perf_counter_ns()
        if self.said_ns and now - self.said_ns < 10_000_000_000:
            self.unsaid += 1
            return
        log.warning("%s%s", message, f" (and {self.unsaid} times since it was said last)" if self.unsaid else "")
        self.said_ns, self.unsaid = now, 0

    def stop(self, why: str) -> None:
        """Want nothing more. Does not wait; may be called in a finalizer. Not after a fork, where there is no thread."""
        if self.pid == os.getpid():
            self.over = self.over or why
            self.room.put(None)
            self.wake.put(None)

    def check_process(self) -> None:
        """Raise StateError in a child process after fork(). The core cannot say it: to it, the thread may still be inside."""
        if self.pid != os.getpid():
            raise _forebay.StateError(
                f"this loader began an epoch before a fork (in process {self.pid}): its threads do not exist here. Create the loader in the "
                "process that uses it; a PyTorch DataLoader over it needs num_workers=0"
            )

    @property
    def running(self) -> bool:
        """Has the thread not ended?"""
        return self.pid == os.getpid() and self.thread.is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread to end, unless this is the thread, in a call of the transform."""
        if self.running and self.thread is not threading.current_thread():
            self.thread.join(timeout)

    def where(self) -> dict[str, Any]:
        """The loader's state by what the program has received."""
        return {**self.state, "epoch": self.position[0], "batch": self.position[1]}

    def ended(self) -> BaseException:
        """What next() raises when the epoch ended early."""
        return SystemExit() if self.over == "exit" else _forebay.StateError(_OVER[self.over or "left"])


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


def _one(epoch: Epoch, number: int) -> Any:
    """The next result; errors are those of the loader and of the transform."""
    batch = next(epoch.batches, _END)
    if batch is _END:
        return _END
    began = time.perf_counter_ns()
    epoch.inside = True
    try:
        return _called(epoch.transform, batch, f"transform {epoch.name}, batch {number} of epoch {epoch.epoch}")
    finally:
        epoch.inside = False
        epoch.core.relayed_work(time.perf_counter_ns() - began)
        _forebay.span_end("transform", began)


def _work(epoch: Epoch) -> None:
    number = epoch.position[1]
    try:
        last = False
        while not last:
            epoch.room.get()
            if epoch.over is not None:
                break
            try:
                item: tuple[Any, BaseException | None] = (_one(epoch, number), None)
            except BaseException as error:
                item = (None, error)
            last = item[0] is _END or item[1] is not None
            epoch.ready.append(item)
            del item  # the program's alone
            epoch.wake.put(None)
            number += 1
    finally:
        epoch.batches = None  # an epoch that was left early is cancelled by that
        if epoch.over is not None:
            epoch.ready.clear()


class Iterator:
    """One epoch of results: made by :func:`begin`. One consumer at a time."""

    __slots__ = ("_done", "_epoch", "_user", "__weakref__")

    def __init__(self, epoch: Epoch) -> None:
        self._epoch: Epoch | None = epoch  # None: another iterator has it
        self._done = False
        self._user: int | None = None  # the thread that is in next()

    def __iter__(self) -> "Iterator":
        return self

    def __next__(self) -> Any:
        epoch = self._epoch
        if self._done:
            raise StopIteration
        if epoch is None:
            raise _forebay.StateError(_OVER["over"])
        epoch.check_process()
        me = threading.get_ident()
        if self._user not in (None, me):
            raise _forebay.StateError("another thread is waiting for a batch of this loader: one consumer at a time")
        self._user = me
        epoch.core.relay_ask()
        asked, waits_for = time.perf_counter_ns(), ""
        try:
            while epoch.over is None and not epoch.ready:
                waits_for = epoch.wait(asked, waits_for)
            if epoch.over is not None:
                raise epoch.ended()
            value, error = epoch.ready[0]
            delivered = error is None and value is not _END
        finally:
            self._user = None
        number = epoch.position[1]
        # The position is counted before the result leaves the queue: an interrupt here leaves the two at one.
        if delivered:
            epoch.position = (epoch.epoch, epoch.position[1] + 1)
        elif error is None:
            epoch.position = (epoch.epoch + 1, 0)
        self._done = not delivered
        epoch.taken = True
        epoch.ready.popleft()
        epoch.room.put(None)
        epoch.core.relay_get(delivered)
        if waits_for and delivered and number != epoch.first:
            epoch.log_slow(f"waited {(time.perf_counter_ns() - asked) / 1e6:.0f} ms for batch {number} of epoch {epoch.epoch}, for {waits_for}")
        if delivered:
            return value
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error  # its traceback has this frame: no cycle

    def __length_hint__(self) -> int:
        return 0 if self._done or self._epoch is None else self._epoch.n_batches - self._epoch.position[1]

    def __del__(self) -> None:
        if self._epoch is not None:
            self._epoch.stop("left")


def taken_over(iterator: Iterator) -> Iterator:
    """Another iterator over the same epoch, of which nothing was taken; this one is over."""
    epoch, iterator._epoch = iterator._epoch, None
    assert epoch is not None
    return Iterator(epoch)


def begin(
    transform: Callable[[Any], Any], batches: Any, state: dict[str, Any], prefetch: int, core: _forebay.Loader, iterator: Iterator | None = None,
    *, slow_ns: int,
) -> tuple[Epoch, Iterator]:
    """Start the thread of an epoch.

    Parameters
    ----------
    transform : callable
    batches : _forebay.Iterator
        Of the epoch; the thread's from here on.
    state : dict
        Of the loader, where the epoch begins.
    prefetch : int
        Results that may be finished before the program asks for them.
    core : _forebay.Loader
        Is told the times.
    iterator : Iterator, optional
        One that has given nothing, which gives this epoch's results from here on.
    slow_ns : int
        A wait that is longer is logged.
    """
    epoch = Epoch(transform, batches, state, core, slow_ns)
    for _ in range(prefetch):
        epoch.room.put(None)
    epoch.thread.start()
    _live.add(epoch)
    if iterator is None:
        return epoch, Iterator(epoch)
    iterator._epoch = epoch
    return epoch, iterator


def stop_all() -> list[Epoch]:
    """The interpreter exits: ask all threads to end."""
    epochs = list(_live)
    for epoch in epochs:
        epoch.stop("exit")
    return epochs


def join_all(epochs: list[Epoch]) -> None:
    """Wait for them, not for ever."""
    until = time.monotonic() + _EXIT_SECONDS
    for epoch in epochs:
        epoch.join(max(0.0, until - time.monotonic()))
