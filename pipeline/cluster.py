"""How many actors of each kind, how much of the machines each of them claims, and on which machines they run.

Claims are fractions on small machines: with whole CPUs the actors would leave none for the tasks that feed
them, and the graph would wait for ever.
"""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.config import ClusterSettings, ConfigError

SMALL_MACHINE_CPUS = 4
SMALL_CLAIM_CPUS = 0.25
NUMBER_TASK_CPUS = 0.01
CPU_READERS_PER_RASTERIZER = 8
# A shard ends with its slowest page. For all slots to stay full meanwhile, an actor must hold what they read in that
# time: with one page in ten that takes twenty times as long as the others, seven pages to a slot, and one in it.
PAGES_PER_SLOT = 8
LEAST_SHARDS_IN_FLIGHT, MOST_SHARDS_IN_FLIGHT = 4, 128
# Custom resources say where, not how many: a node that offers 1 has room for a thousand actors.
RESOURCE_CLAIM = 0.001

Claim = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Widths:
    """Actors per stage and what each claims; `…_resources` are claims of custom resources, by name."""

    ocr_actors: int
    ocr_cpus: float
    ocr_gpus: float
    ocr_threads: int
    rasterize_actors: int
    rasterize_cpus: float
    number_cpus: float
    survey_tasks: int
    survey_cpus: float
    rasterize_resources: Claim = ()
    ocr_resources: Claim = ()


def choose_widths(settings: ClusterSettings) -> Widths:
    """Widths for the connected cluster."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return widths_for(settings, ray.cluster_resources(), len(os.sched_getaffinity(0)), nodes)


def widths_for(
    settings: ClusterSettings,
    resources: Mapping[str, float],
    local_cpus: int,
    nodes: Iterable[Mapping[str, float]] = (),
) -> Widths:
    """Widths for these resources: an OCR actor per GPU, or one on the CPU; the other CPUs draw pages.

    `nodes` are the resources of each node, needed where the settings name custom ones. Raises `ConfigError` if no
    node offers those for drawing and no number of actors is given.
    """
    cpus = max(1, int(resources.get("CPU", 1)))
    gpus = resources.get("GPU", 0.0)
    gpus_each = settings.gpus_per_ocr_actor
    if gpus_each is None:
        gpus_each = 1.0 if gpus >= 1 else 0.0
    ocr_actors = settings.ocr_actors or (max(1, int(gpus // gpus_each)) if gpus_each else 1)
    survey_tasks = cpus
    if settings.rasterize_resource is not None:
        survey_tasks = _cpus_offering(settings.rasterize_resource, nodes, settings.rasterize_actors)
        rasterize_actors = survey_tasks - 1
    else:
        rasterize_actors = cpus - ocr_actors - 1 if gpus_each else cpus // CPU_READERS_PER_RASTERIZER
    rasterize_actors = settings.rasterize_actors or max(1, rasterize_actors)
    roomy = cpus >= SMALL_MACHINE_CPUS and rasterize_actors + ocr_actors < cpus
    claim = 1.0 if roomy else min(SMALL_CLAIM_CPUS, 0.5 * cpus / (rasterize_actors + ocr_actors))
    return Widths(
        ocr_actors=ocr_actors,
        ocr_cpus=settings.cpus_per_ocr_actor or claim,
        ocr_gpus=gpus_each,
        ocr_threads=settings.ocr_threads or max(1, local_cpus // ocr_actors),
        rasterize_actors=rasterize_actors,
        rasterize_cpus=settings.cpus_per_rasterize_actor or claim,
        number_cpus=NUMBER_TASK_CPUS,
        survey_tasks=survey_tasks,
        survey_cpus=1.0 if cpus >= SMALL_MACHINE_CPUS else 0.5,
        rasterize_resources=_claim(settings.rasterize_resource),
        ocr_resources=_claim(settings.ocr_resource),
    )


def shards_in_flight(settings: ClusterSettings, pages: int, shards: int) -> int:
    """How many shards an OCR actor holds at once, where `shards` of `pages` pages in all are to be read.

    The shard that is read last counts for little more than its slow pages, so there is one more.
    """
    if settings.shards_in_flight is not None:
        return settings.shards_in_flight
    wanted = math.ceil(PAGES_PER_SLOT * settings.max_batch * shards / max(1, pages)) + 1
    return min(max(wanted, LEAST_SHARDS_IN_FLIGHT), MOST_SHARDS_IN_FLIGHT)


def _cpus_offering(name: str, nodes: Iterable[Mapping[str, float]], actors: int | None) -> int:
    """CPUs of the nodes that offer a custom resource; `actors` if there are none yet but will be."""
    cpus = int(sum(node.get("CPU", 0.0) for node in nodes if node.get(name, 0.0) > 0))
    if not cpus and actors is None:
        raise ConfigError(
            f"No node of the cluster offers the resource {name!r}: start some that do, or give "
            "cluster.rasterize_actors if the cluster will grow them."
        )
    return max(1, cpus or actors or 1)


def _claim(name: str | None) -> Claim:
    return () if name is None else ((name, RESOURCE_CLAIM),)
