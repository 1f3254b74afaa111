"""What NVML says of a GPU (forebay/_nvml.py), of a library that answers as NVML would: no GPU is needed."""

import ctypes.util
import shutil
import subprocess
import time

import pytest

import forebay as fb
from forebay import _nvml

STUB = """
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { *out = (void *)7; return i == 0 ? 0 : 2; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) { *out = (void *)8; return uuid[4] == 'x' ? 0 : 6; }
int nvmlDeviceGetName(void *d, char *out, unsigned n)
{
    const char *s = d == (void *)7 ? "Stub" : "Other";
    for (unsigned i = 0; i < n; i++)
        if (!(out[i] = s[i]))
            break;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *d, unsigned *out) { out[0] = 40; out[1] = 5; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *out) { out[0] = 100; out[1] = 70; out[2] = 30; return 0; }
"""


def test_nvml_is_opened_at_run_time(tmp_path):
    with pytest.raises(OSError):
        _nvml.Nvml(library="libno-such-nvml.so.1")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "nvml.c", tmp_path / "libnvml-stub.so"
    source.write_text(STUB)
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    nvml = _nvml.Nvml(library=str(library))
    assert nvml.name == "Stub" and nvml.sample() == (0.4, 30, 100)
    assert _nvml.Nvml("GPU-x", str(library)).name == "Other"
    with pytest.raises(OSError, match="gave 6"):
        _nvml.Nvml("GPU-y", str(library))
    with _nvml.Watch(nvml, 0.001) as watch:
        time.sleep(0.05)
    assert watch.gpu == fb.Gpu("Stub", pytest.approx(0.4), 30, 100)
    with _nvml.Watch(None) as watch:
        pass
    assert watch.gpu is None
    with pytest.raises(OSError, match="has no nvmlInit_v2"):
        _nvml.Nvml(library=ctypes.util.find_library("c") or "libc.so.6")
