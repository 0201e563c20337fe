"""What the actors of a run are told: plain data that travels from the driver to each of them once."""

from dataclasses import dataclass
from pathlib import Path

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.vision import ModelVision, model_vision
from workers.rasterize import RasterLimits
from workers.storage import StorageSettings


@dataclass(frozen=True, slots=True)
class ReadJob:
    """One run as the workers see it. `threads` is for an OCR actor that decodes on the CPU."""

    run_id: str
    target: str
    model: str
    model_revision: str | None
    mode: str
    prompt: str | None
    policy: DecodePolicy
    engine: EngineLimits
    raster: RasterLimits
    storage: StorageSettings
    max_batch: int
    threads: int

    @property
    def vision(self) -> ModelVision:
        """How the model sees; raises ValueError for a model or mode that does not exist."""
        return vision_of(self.model, self.mode)


def vision_of(model: str, mode: str) -> ModelVision:
    """How a model sees, by its name; a folder with weights sees as `mini` does."""
    return model_vision("mini" if Path(model).is_dir() else model, mode)
