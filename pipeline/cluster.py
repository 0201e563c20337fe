"""How many actors of each kind, and how much of the machines each of them claims.

Claims are fractions on small machines: with whole CPUs the actors would leave none for the tasks that feed
them, and the graph would wait for ever.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.config import ClusterSettings

SMALL_MACHINE_CPUS = 4
SMALL_CLAIM_CPUS = 0.25
NUMBER_TASK_CPUS = 0.01
CPU_READERS_PER_RASTERIZER = 8


@dataclass(frozen=True, slots=True)
class Widths:
    """Actors per stage and what each claims."""

    ocr_actors: int
    ocr_cpus: float
    ocr_gpus: float
    ocr_threads: int
    rasterize_actors: int
    rasterize_cpus: float
    number_cpus: float
    survey_tasks: int
    survey_cpus: float


def choose_widths(settings: ClusterSettings) -> Widths:
    """Widths for the connected cluster."""
    import ray

    return widths_for(settings, ray.cluster_resources(), len(os.sched_getaffinity(0)))


def widths_for(settings: ClusterSettings, resources: Mapping[str, float], local_cpus: int) -> Widths:
    """Widths for these resources: an OCR actor per GPU, or one on the CPU; the other CPUs draw pages."""
    cpus = max(1, int(resources.get("CPU", 1)))
    gpus = resources.get("GPU", 0.0)
    gpus_each = settings.gpus_per_ocr_actor
    if gpus_each is None:
        gpus_each = 1.0 if gpus >= 1 else 0.0
    ocr_actors = settings.ocr_actors or (max(1, int(gpus // gpus_each)) if gpus_each else 1)
    beside_gpus, beside_cpu = cpus - ocr_actors - 1, cpus // CPU_READERS_PER_RASTERIZER
    rasterize_actors = max(1, beside_gpus if gpus_each else beside_cpu)
    rasterize_actors = settings.rasterize_actors or rasterize_actors
    roomy = cpus >= SMALL_MACHINE_CPUS and rasterize_actors + ocr_actors < cpus
    claim = 1.0 if roomy else min(SMALL_CLAIM_CPUS, 0.5 * cpus / (rasterize_actors + ocr_actors))
    return Widths(
        ocr_actors=ocr_actors,
        ocr_cpus=claim,
        ocr_gpus=gpus_each,
        ocr_threads=settings.ocr_threads or max(1, local_cpus // ocr_actors),
        rasterize_actors=rasterize_actors,
        rasterize_cpus=claim,
        number_cpus=NUMBER_TASK_CPUS,
        survey_tasks=cpus,
        survey_cpus=1.0 if cpus >= SMALL_MACHINE_CPUS else 0.5,
    )
