"""One training step, taken apart: how long it takes, its forward, backward and optimizer parts, its floating-point operations, its memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from ._batch import map_tensors, to_device

# Dense peaks as NVIDIA states them, in FLOP/s: (what the name of the device has in it, by dtype).
_PEAKS = (
    ("H200", {"half": 989e12, "tf32": 494e12, "float32": 67e12}),
    ("H100 PCIe", {"half": 756e12, "tf32": 378e12, "float32": 51e12}),
    ("H100", {"half": 989e12, "tf32": 494e12, "float32": 67e12}),
    ("A100", {"half": 312e12, "tf32": 156e12, "float32": 19.5e12}),
    ("L40S", {"half": 362e12, "tf32": 183e12, "float32": 91.6e12}),
    ("A40", {"half": 149.7e12, "tf32": 74.8e12, "float32": 37.4e12}),
    ("V100", {"half": 125e12, "float32": 15.7e12}),
    ("L4", {"half": 121e12, "tf32": 60e12, "float32": 30.3e12}),
    ("T4", {"half": 65e12, "float32": 8.1e12}),
)


def torch() -> Any:
    """The module, where the program has imported it."""
    return sys.modules.get("torch")


def cuda() -> Any:
    """torch.cuda, where the program uses it."""
    module = torch()
    return module.cuda if module is not None and module.cuda.is_available() and module.cuda.is_initialized() else None


def wait_for(result: Any) -> None:
    """Wait until the device has done what was asked of it; `result` is what the last step returned."""
    gpu, jax = cuda(), sys.modules.get("jax")
    if gpu is not None:
        gpu.synchronize()
    if jax is not None:
        jax.block_until_ready(result)


def fresh(batch: Any) -> Any:
    """The batch for another step: a dict or list of its own over the same tensors, so that a step may take values out of it."""
    return batch.copy() if type(batch) in (dict, list) else type(batch)(batch) if isinstance(batch, dict) else batch


class _Clock:
    """Marks of the time: of the GPU's stream where there is a GPU, else of the host."""

    def __init__(self) -> None:
        self._gpu = cuda()

    def mark(self) -> Any:
        if self._gpu is None:
            return time.perf_counter()
        event = self._gpu.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two marks; the device has been waited for."""
        return end - begin if self._gpu is None else begin.elapsed_time(end) / 1e3


class Parts:
    """Where a step's time goes: a context in which the calls of model, autograd and optimizer are timed.

    A model's and an optimizer's calls are seen by their hooks. Of autograd there is no hook around a whole backward pass, so its entry is replaced
    while the context lasts. A part is without those that run inside it, such as the passes of an optimizer's closure.
    """

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.dtype: str | None = None  # of the model's result
        self._clock = _Clock()
        self._spans: dict[str, list[tuple[int, Any, Any]]] = {"forward": [], "backward": [], "optimizer": []}  # sign, begin, end
        self._open: list[tuple[str, Any]] = []  # those that have begun, the innermost last
        self._model, self._optimizer = model, optimizer
        self._handles: list[Any] = []

    def _begin(self, part: str) -> None:
        self._open.append((part, self._clock.mark()))

    def _end(self, part: str) -> None:
        while self._open:  # what failed inside has begun and not ended
            opened, begin = self._open.pop()
            if opened == part:
                end = self._clock.mark()
                self._spans[part].append((1, begin, end))
                if self._open:
                    self._spans[self._open[-1][0]].append((-1, begin, end))
                return

    def __enter__(self) -> "Parts":
        module = torch()
        if module is None:
            return self
        if isinstance(self._model, module.nn.Module):
            self._handles += [
                self._model.register_forward_pre_hook(lambda *_: self._begin("forward")),
                self._model.register_forward_hook(lambda _, __, result: self._forward(result), always_call=True),
            ]
        if isinstance(self._optimizer, module.optim.Optimizer):
            self._handles += [
                self._optimizer.register_step_pre_hook(lambda *_: self._begin("optimizer")),
                self._optimizer.register_step_post_hook(lambda *_: self._end("optimizer")),
            ]
        self._backward = module.autograd.backward

        def backward(*args: Any, **options: Any) -> Any:
            self._begin("backward")
            try:
                return self._backward(*args, **options)
            finally:
                self._end("backward")

        module.autograd.backward = backward
        return self

    def _forward(self, result: Any) -> None:
        self._end("forward")
        if self.dtype is None and hasattr(result, "dtype"):
            self.dtype = str(result.dtype).removeprefix("torch.")

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()
        if torch() is not None:
            torch().autograd.backward = self._backward

    def seconds(self, part: str, steps: float) -> float | None:
        """Of a step, on average; None when no call of it was seen. steps: of a speed that is not that of these calls, as many as take their time."""
        spans = self._spans[part]
        return sum(sign * self._clock.seconds(begin, end) for sign, begin, end in spans) / steps if spans else None


class Paging:
    """A context in which pages are counted that the kernel gives the process, and its share of the process's CPU time."""

    pages: int
    share: float

    def __enter__(self) -> "Paging":
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        return self

    def __exit__(self, *exc: object) -> None:
        now, before = resource.getrusage(resource.RUSAGE_SELF), self._before
        kernel, own = now.ru_stime - before.ru_stime, now.ru_utime - before.ru_utime
        self.pages, self.share = now.ru_minflt - before.ru_minflt, kernel / max(kernel + own, 1e-9)


def flops(step: Callable[[Any], Any], batch: Any, model: Any) -> int | None:
    """Floating-point operations of one step, as torch counts them: matrix products, convolutions, attention. None where it cannot."""
    module = torch()
    if module is None or isinstance(model, module.nn.Module) and any(isinstance(part, module.nn.RNNBase) for part in model.modules()):
        return None  # a recurrent layer is one operation, of which it counts nothing
    try:
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            step(fresh(batch))
        return int(counter.get_total_flops()) or None
    except Exception:  # of compiled models and operations that it does not know
        return None


def peak_flops(dtype: str | None) -> float | None:
    """What the GPU can do at most with results of this dtype, in FLOP/s; None where that is not known."""
    gpu = cuda()
    if gpu is None or dtype is None:
        return None
    name = gpu.get_device_name()
    kinds = next((kinds for part, kinds in _PEAKS if part in name), {})
    if dtype in ("float16", "bfloat16"):
        return kinds.get("half")
    return kinds.get("tf32" if _allows_tf32(torch().backends.cuda.matmul) else "float32") if dtype == "float32" else None


def _allows_tf32(matmul: Any) -> bool:
    """As the program has set it; from torch 2.9 on, reading the older flag is an error where the newer one was set."""
    newer = getattr(matmul, "fp32_precision", None)
    return bool(matmul.allow_tf32) if newer is None else newer == "tf32"


def transfer(batch: Any) -> float | None:
    """Seconds that the batch takes from pinned memory to the GPU; None when it is not there, and no GPU is in use."""
    gpu = cuda()
    if gpu is None:
        return None
    host = map_tensors(to_device(batch, "cpu"), lambda tensor: tensor.pin_memory())
    taken = []
    for _ in range(5):
        gpu.synchronize()
        began = time.perf_counter()
        to_device(host, f"cuda:{gpu.current_device()}")
        gpu.synchronize()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


class Peak:
    """A context; :attr:`bytes` is the most memory in use meanwhile: torch's of the GPU, or the process's where that is none. None: it cannot be told."""

    bytes: int | None = None

    def __enter__(self) -> "Peak":
        self._gpu = cuda()
        if self._gpu is not None:
            self._gpu.reset_peak_memory_stats()
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # VmHWM begins anew
        except OSError:
            pass
        return self

    def __exit__(self, *exc: object) -> None:
        self.bytes = (self._gpu.max_memory_reserved() if self._gpu is not None else 0) or None
        if self.bytes is not None:
            return
        try:
            with open("/proc/self/status") as file:
                self.bytes = next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), None)
        except OSError:
            pass


def memory_limit() -> int | None:
    """Bytes that the GPU has; None without one."""
    gpu = cuda()
    return None if gpu is None else gpu.mem_get_info()[1]


def is_out_of_memory(error: BaseException) -> bool:
    """Did the step want more memory than there is?"""
    module = torch()
    return isinstance(error, MemoryError) or (module is not None and isinstance(error, module.cuda.OutOfMemoryError))
