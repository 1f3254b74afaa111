"""What happened when: traces for Perfetto, and spans of the program in traces, reports and the profilers of torch and NVIDIA."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import _forebay
from ._sizes import count

_totals: dict[str, tuple[int, int]] = {}  # name: calls and nanoseconds of spans that ended
_totals_lock = threading.Lock()


class trace:
    """Record what happens inside a ``with`` block into a file that https://ui.perfetto.dev and chrome://tracing open.

    In it are reads, decodes, assemblies and transforms of all loaders by thread, the program's calls of next(), the memory that loaders hold, and
    the program's own :class:`forebay.span`. While nothing is recorded, nothing is kept.

    Parameters
    ----------
    path : path
        The file; written when the block ends, also by an exception.
    events : int
        How many of its last events each thread keeps, 112 bytes each.

    Raises
    ------
    StateError
        When the process records already.
    ReadError
        When the file cannot be written.

    Examples
    --------
    >>> with fb.trace("run.json"):
    ...     for batch in itertools.islice(loader, 500):
    ...         with fb.span("step"):
    ...             step(batch)
    """

    def __init__(self, path: "str | os.PathLike[str]", *, events: int = 65536) -> None:
        self._path = os.fspath(path)
        self._events = count(events, "events", 1, 2**24)

    def __enter__(self) -> "trace":
        folder = os.path.dirname(self._path)
        if folder and not os.path.isdir(folder):  # said now, and not when everything was recorded
            raise _forebay.FileMissingError(errno.ENOENT, f"cannot write the trace {self._path}: there is no folder {folder}")
        if os.path.isdir(self._path):
            raise _forebay.ReadError(errno.EISDIR, f"cannot write the trace {self._path}: it is a folder")
        _forebay.trace_begin(self._events)
        return self

    def __exit__(self, *exc: object) -> None:
        _forebay.trace_end(self._path)

    def __repr__(self) -> str:
        return f"<forebay.trace to {_forebay.printable(str(self._path))}>"


def _torch_profiler() -> Any:
    """torch.autograd, while one of torch's profilers runs."""
    autograd = sys.modules.get("torch.autograd")
    return autograd if autograd is not None and autograd._profiler_enabled() else None


def _nvtx_paths() -> list[str]:
    """Where the library may be: the system's, and NVIDIA's packages on PyPI, which the system's loader does not know. CUDA 13 has headers alone."""
    import importlib.util

    name = "libnvToolsExt.so.1"
    try:
        package = importlib.util.find_spec("nvidia.nvtx")
    except ImportError:  # there is no nvidia
        package = None
    folders = (package.submodule_search_locations if package else None) or []
    return [name, *(os.path.join(folder, "lib", name) for folder in folders)]


@functools.cache
def _nvtx_library() -> tuple[Callable[[bytes], Any], Callable[[], Any]] | None:
    """Push and pop of NVIDIA's tools extension, where it is installed."""
    import ctypes  # slow to import, and few programs run under such a tool

    for path in _nvtx_paths():
        try:
            library = ctypes.CDLL(path)
            return library.nvtxRangePushA, library.nvtxRangePop
        except (OSError, AttributeError):
            continue
    return None


def _nvtx() -> tuple[Callable[[bytes], Any], Callable[[], Any]] | None:
    """The same while a program such as nsys listens, which says so in the environment."""
    return _nvtx_library() if "NVTX_INJECTION64_PATH" in os.environ or "NSYS_PROFILING_SESSION_ID" in os.environ else None


class span(contextlib.ContextDecorator):
    """A part of the program with a name: a ``with`` block, or a function that it decorates.

    Its calls and time are in ``loader.report().spans``, it shows in a :class:`forebay.trace`, in torch's profiler while one runs
    (``record_function``), and in Nsight Systems (NVTX).

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> with fb.span("forward"):
    ...     loss = model(batch)
    >>> @fb.span("optimizer")
    ... def update(): ...
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a span has a name: span({name!r})")
        self.name = name
        self._threads = threading.local()  # what each thread that shares the object has open: ranges nest by thread

    def _recreate_cm(self) -> "span":
        return span(self.name)  # a decorated function may run in several threads, and call itself

    def __call__(self, function: Any) -> Any:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"span {self.name!r} cannot decorate {function.__qualname__}: calling it does not run it. Use a with block inside")
        return super().__call__(function)

    def _open(self) -> list[tuple[int, Any, Any]]:
        stack: list[tuple[int, Any, Any]] | None = getattr(self._threads, "stack", None)
        if stack is None:
            stack = self._threads.stack = []
        return stack

    def __enter__(self) -> "span":
        torch, nvtx = _torch_profiler(), _nvtx()
        record = None
        if torch is not None:
            record = torch.profiler.record_function(self.name)
            record.__enter__()
        if nvtx is not None:
            nvtx[0](self.name.encode())
        self._open().append((time.perf_counter_ns(), record, nvtx))
        return self

    def __exit__(self, *exc: Any) -> None:
        stack = self._open()
        if not stack:  # entered on another thread, as by a generator that the collector closes: ranges end where they began
            return
        begun, record, nvtx = stack.pop()
        _forebay.span_end(self.name, begun)
        spent = time.perf_counter_ns() - begun
        with _totals_lock:
            calls, ns = _totals.get(self.name, (0, 0))
            _totals[self.name] = calls + 1, ns + spent
        if nvtx is not None:
            nvtx[1]()
        if record is not None:
            record.__exit__(*exc)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return span, (self.name,)

    def __repr__(self) -> str:
        return f"<forebay.span {self.name!r}>"


def totals() -> dict[str, tuple[int, int]]:
    """Of every span that ended in this process: calls and nanoseconds."""
    with _totals_lock:
        return dict(_totals)


def since(before: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """What was added to earlier totals."""
    added = ((name, calls - before.get(name, (0, 0))[0], ns - before.get(name, (0, 0))[1]) for name, (calls, ns) in totals().items())
    return {name: (calls, ns) for name, calls, ns in added if calls}


def next_range() -> Any:
    """For the extension, while torch's profiler runs: its range for a call of next(), entered."""
    record = sys.modules["torch.autograd"].profiler.record_function("forebay next")
    record.__enter__()
    return record


def profiler() -> tuple[Callable[[], bool], Callable[[], Any]] | None:
    """What asks whether torch's profiler runs, and what then enters a range; None without torch."""
    autograd = sys.modules.get("torch.autograd")
    return None if autograd is None else (autograd._profiler_enabled, next_range)
