"""What the actors of a run are told: plain data that travels from the driver to each of them once."""

from dataclasses import dataclass

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.vision import ModelVision, model_vision
from workers.model_copy import ModelSource
from workers.rasterize import RasterLimits
from workers.schema import ManifestPage
from workers.storage import StorageSettings


@dataclass(frozen=True, slots=True)
class ReadJob:
    """One run as the workers see it. `threads` is for an OCR actor that decodes on the CPU, `model_cache` where a
    node keeps copies of models. `self_test`: each OCR actor reads two known pages before it takes any other.
    """

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
    model_cache: str | None = None
    self_test: bool = True
    skip_duplicates: bool = False

    def skips(self, page: ManifestPage) -> bool:
        """Whether a page is not read because it is read in another document with the same bytes."""
        return self.skip_duplicates and page.duplicate_of is not None

    @property
    def model_source(self) -> ModelSource:
        """Where the model lies."""
        return ModelSource(self.model, self.model_revision, self.storage, self.model_cache)

    @property
    def vision(self) -> ModelVision:
        """How the model sees; raises as `vision_of`."""
        return vision_of(self.model_source, self.mode)


def vision_of(source: ModelSource, mode: str) -> ModelVision:
    """How a model sees. ValueError for a model or mode that does not exist, and what `ModelSource` raises."""
    return model_vision(source.described(), mode)
