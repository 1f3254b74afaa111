"""How busy a GPU is, by NVIDIA's management library: opened when it is asked for, and nothing where it is not installed."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import threading
from typing import Any


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU while something ran.

    Attributes
    ----------
    name : str
    utilisation : float
        Share of the time in which some kernel ran, as the driver counts it: it says nothing of how much of the GPU a kernel fills.
    memory_bytes, memory_total_bytes : int
        The most that was in use, by all processes; and what there is.
    """

    name: str
    utilisation: float
    memory_bytes: int
    memory_total_bytes: int


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Nvml:
    """One GPU of the library.

    Raises
    ------
    OSError
        When the library is not there, or has no such GPU.
    """

    def __init__(self, uuid: str | None = None, library: str = "libnvidia-ml.so.1") -> None:
        self._nvml = ctypes.CDLL(library)
        self._device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        if uuid is None:
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self._device))
        else:
            self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._device))
        text = ctypes.create_string_buffer(96)
        self._call("nvmlDeviceGetName", self._device, text, ctypes.c_uint(len(text)))
        self.name = text.value.decode("utf-8", "replace")

    def _call(self, function: str, *args: Any) -> None:
        try:
            status = getattr(self._nvml, function)(*args)
        except AttributeError:
            raise OSError(f"the NVML library has no {function}") from None
        if status != 0:
            raise OSError(f"{function} gave {status}")

    def sample(self) -> tuple[float, int, int]:
        """Utilisation, bytes used, bytes in all: now."""
        busy, memory = _Utilisation(), _Memory()
        self._call("nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(busy))
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return busy.gpu / 100, memory.used, memory.total


def of_torch() -> Nvml | None:
    """The GPU that torch uses; None without one, or without the library."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    try:
        return Nvml(None if uuid is None else f"GPU-{uuid}")
    except OSError:
        return None


class Watch:
    """A context in which a GPU is looked at ten times a second; :attr:`gpu` is what was seen, None when nothing was."""

    def __init__(self, nvml: Nvml | None, seconds: float = 0.1) -> None:
        self.gpu: Gpu | None = None
        self._nvml, self._seconds = nvml, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="forebay-nvml", daemon=True)

    def _look(self) -> None:
        assert self._nvml is not None
        samples = []
        try:
            while not self._over.wait(self._seconds):
                samples.append(self._nvml.sample())
        except OSError:
            pass
        if samples:
            busy, used, total = zip(*samples, strict=True)
            self.gpu = Gpu(self._nvml.name, sum(busy) / len(busy), max(used), total[-1])

    def __enter__(self) -> "Watch":
        if self._nvml is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._nvml is not None:
            self._thread.join()
