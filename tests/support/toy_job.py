"""The job of a rasterize or OCR actor that a test makes by hand, without a run around it: the toy model, usual limits."""

from dataclasses import replace
from pathlib import Path

from fastocr_core.config import DecodePolicy, EngineLimits
from workers.job import ReadJob
from workers.rasterize import RasterLimits
from workers.storage import StorageSettings


def toy_job(target: str | Path, **changes: object) -> ReadJob:
    """A job that writes to `target`; `changes` are fields of `ReadJob`."""
    job = ReadJob(
        run_id="run",
        target=str(target),
        model="tiny",
        model_revision=None,
        mode="auto",
        prompt=None,
        policy=DecodePolicy.dense(),
        engine=EngineLimits(),
        raster=RasterLimits(),
        storage=StorageSettings(),
        max_batch=1,
        threads=1,
    )
    return replace(job, **changes)  # type: ignore[arg-type]
