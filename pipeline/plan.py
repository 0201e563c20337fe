"""What a run would come to, before it is begun: documents, pages, visual tokens, hours and money.

Opens every document once, as the survey of a run does, and writes nothing but the plan, if a file is named for it.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from fastocr_core.vision import ModelVision
from pipeline.cluster import choose_widths
from pipeline.config import ConfigError, Resolved, RunConfig
from pipeline.listing import BATCH_DOCUMENTS, batches
from pipeline.local_ray import ray_session
from pipeline.manifest import limited, marked
from pipeline.plan_rows import PlanTable
from pipeline.plan_sums import Plan, Rate
from pipeline.plan_words import plan_facts, plan_lines
from pipeline.progress import Observer
from pipeline.source import Listing, list_source, listing_notes
from pipeline.survey import TASKS_AHEAD, Start, counted, in_order, in_this_process, on_ray
from workers.job import vision_of
from workers.model_copy import ModelSource
from workers.survey import SurveyTask
from workers.surveyed import SurveyedBatch

OUTPUT_ENDINGS = (".json", ".parquet")


def rate_from(resolved: Resolved, pages_per_second: float | None, devices: int | None) -> Rate:
    """The rate that was asked for. Raises `ConfigError`."""
    if pages_per_second is not None and not (math.isfinite(pages_per_second) and pages_per_second > 0):
        raise ConfigError(f"A rate of {pages_per_second:g} pages per second reads nothing; give more than 0.")
    config = resolved.config
    return Rate(
        pages_per_second=pages_per_second,
        image_tokens_per_second=config.shards.image_tokens_per_second,
        assumed=pages_per_second is None and resolved.origins["shards.image_tokens_per_second"] == "default",
        devices=devices or config.cluster.ocr_actors or 1,
        price=config.cluster.gpu_hour_price,
    )


def planned_vision(config: RunConfig) -> ModelVision:
    """How the model of a plan sees; its weights are not needed. Raises `ConfigError`."""
    source = ModelSource(config.model, config.model_revision, config.storage, config.cluster.model_cache)
    try:
        return vision_of(source, config.mode)
    except (ValueError, FileNotFoundError) as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from error


def plan_source(
    resolved: Resolved,
    pages_per_second: float | None,
    devices: int | None,
    output: Path | None,
    observer: Observer,
) -> Sequence[str]:
    """List, open and count; returns the plan in words and writes it to `output`, if given.

    Raises `ConfigError` or `StorageError`.
    """
    config = resolved.config
    rate = rate_from(resolved, pages_per_second, devices)
    vision = planned_vision(config)
    refuse_output(output)
    listing = list_source(config.source, config.storage, observer.listing)
    for remark in listing_notes(listing):
        observer.note(remark)
    observer.note(f"{len(listing.objects)} objects found; opening each once to count its pages.")
    table = PlanTable(output) if output is not None and output.suffix == ".parquet" else None
    with table or nullcontext():
        plan = make_plan(config, listing, vision, observer, table)
    if output is not None and output.suffix == ".json":
        output.write_text(
            json.dumps(plan_facts(plan, config.source, config.model, rate), indent=2) + "\n", "utf-8"
        )
    return list(plan_lines(plan, config.source, config.model, rate))


def refuse_output(output: Path | None) -> None:
    """What cannot be written is better said before the work than after; raises `ConfigError`."""
    if output is None:
        return
    if output.suffix not in OUTPUT_ENDINGS:
        raise ConfigError(f"{output}: a plan is written as {' or '.join(OUTPUT_ENDINGS)}.")
    if output.is_dir() or not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise ConfigError(f"{output} cannot be written; name a file in a folder that you may write to.")


def make_plan(
    config: RunConfig,
    listing: Listing,
    vision: ModelVision,
    observer: Observer,
    table: PlanTable | None = None,
) -> Plan:
    """Open every document of a listing once and add up. A small source is opened in this process, without Ray.

    `table`, if given, takes a row for every document. Raises `StorageError`.
    """
    task = SurveyTask(config.raster, vision, config.storage)
    few = len(listing.objects) <= BATCH_DOCUMENTS and config.cluster.ray_address is None
    plan = Plan()
    with nullcontext() if few else ray_session(config.cluster):
        start, ahead = (in_this_process(task), 1) if few else _ray_start(task, config)
        with closing(in_order(batches(listing.objects), start, ahead)) as findings:
            for batch in _wanted(counted(findings, len(listing.objects), observer), config.limit):
                plan.add(batch, skip_duplicates=config.skip_duplicates)
                if table is not None:
                    table.add(batch)
    return plan


def _ray_start(task: SurveyTask, config: RunConfig) -> tuple[Start, int]:
    widths = choose_widths(config.cluster)
    return on_ray(task, widths), TASKS_AHEAD * widths.survey_tasks


def _wanted(found: Iterable[SurveyedBatch], limit: int | None) -> Iterator[SurveyedBatch]:
    return marked(limited(found, limit))
