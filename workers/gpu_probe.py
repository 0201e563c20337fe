"""How busy and how full a GPU is, asked of NVIDIA's management library (NVML) where it is installed.

Measuring never fails the work: without a GPU, the package `nvidia-ml-py` or the permission, there is simply
no such measurement.
"""

import contextlib
import importlib
from typing import Any


class GpuProbe:
    """One NVIDIA device."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def sample(self) -> dict[str, float]:
        """`gpu_utilisation`, 0 to 1, and `gpu_memory_bytes`, of the whole device; what it does not tell is left out.

        A slice of a device (MIG) tells its memory and no utilisation.
        """
        measured: dict[str, float] = {}
        with contextlib.suppress(self._library.NVMLError):
            measured["gpu_utilisation"] = self._library.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100
        with contextlib.suppress(self._library.NVMLError):
            measured["gpu_memory_bytes"] = float(self._library.nvmlDeviceGetMemoryInfo(self._handle).used)
        return measured


def gpu_probe(gpu_id: str | None) -> GpuProbe | None:
    """The device with this number or UUID, as Ray names it; None where it cannot be asked."""
    if gpu_id is None:
        return None
    library = nvml()
    if library is None:
        return None
    try:
        if gpu_id.isdigit():
            return GpuProbe(library, library.nvmlDeviceGetHandleByIndex(int(gpu_id)))
        return GpuProbe(library, library.nvmlDeviceGetHandleByUUID(gpu_id))
    except library.NVMLError:
        return None


def nvml() -> Any | None:
    """The started library, or None where there is none."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
    except library.NVMLError:
        return None
    return library
