"""The OCR actor of a run, with the paced reader in place of a model. All else is what every run does."""

from typing import TYPE_CHECKING

from fastocr_core.bench.rhythm import Rhythm
from workers.job import ReadJob
from workers.recognize import RecognizeShards

if TYPE_CHECKING:
    from fastocr_core.models.base import ModelAdapter


def paced_shards(rhythm: Rhythm) -> type[RecognizeShards]:
    """An actor that reads in this rhythm."""

    class PacedShards(RecognizeShards):
        def load(self, job: ReadJob, place: str) -> "ModelAdapter":
            from fastocr_core.bench.paced_model import PacedAdapter

            return PacedAdapter(rhythm)

    return PacedShards
