"""Reads pages: sparse decoding of OCR vision-language models.

Names are loaded on first use, because every CPU worker imports `fastocr_core.vision`, which runs this file
first and must not pay the seconds and the memory of torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastocr_core.collector import collector_paused

if TYPE_CHECKING:
    from fastocr_core.accelerate import accelerate
    from fastocr_core.config import DecodePolicy, EngineLimits
    from fastocr_core.engine import Engine
    from fastocr_core.models import load
    from fastocr_core.output import PageText

_HOMES = {
    "accelerate": "fastocr_core.accelerate",
    "load": "fastocr_core.models",
    "Engine": "fastocr_core.engine",
    "DecodePolicy": "fastocr_core.config",
    "EngineLimits": "fastocr_core.config",
    "PageText": "fastocr_core.output",
}

__all__ = ["DecodePolicy", "Engine", "EngineLimits", "PageText", "accelerate", "load"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fastocr_core' has no attribute {name!r}")
    with collector_paused():
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
