"""THE picture: how the pages of a source become parts of a target, stage by stage, in reading order.

    survey -> plan -> [ shard numbers -> rasterize actors -> OCR actors ] -> publish -> close

The bracket is one Ray Data graph. Everything before and after is the driver's, and safe to repeat at any
point.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from fastocr_core.vision.families import hub_id_of
from pipeline.claim import claim_target, is_complete
from pipeline.cluster import Widths, choose_widths, shards_in_flight
from pipeline.commit import Publisher, close
from pipeline.config import ConfigError, RunConfig
from pipeline.ledger import check_run, counted_facts, document_rows
from pipeline.listing import FrozenListing, find_listing, freeze_listing
from pipeline.local_ray import ray_session
from pipeline.manifest import freeze, is_frozen, limited
from pipeline.progress import Observer
from pipeline.resume import RemainingWork, find_progress, remaining_work
from pipeline.source import Listing, list_source, listing_notes, newcomers, refuse_nested
from pipeline.survey import TASKS_AHEAD, on_ray, survey_listing
from workers.job import ReadJob, vision_of
from workers.layout import ATTEMPTS_FOLDER, RUN_KEY, WORK_FOLDER
from workers.manifest_reader import ManifestReader
from workers.model_copy import ModelSource
from workers.object_store import ObjectStore, StorageError, open_store
from workers.rasterize_shard import RasterizeShards
from workers.recognize import RecognizeShards, ShardDone
from workers.survey import SurveyTask


def execute(config: RunConfig, observer: Observer, reader: type[RecognizeShards] = RecognizeShards) -> None:
    """Bring the target to completion from wherever it stands; reads nothing if it is complete.

    What can be asked for wrongly is checked before the target is claimed, so that a slip does not spoil it.
    Raises `ConfigError`, `StorageError`, `CommitError` or `LedgerError`; documents and pages that cannot be
    read are rows, not errors. `reader` is the OCR actor; measurements have one of their own.
    """
    refuse_nested(config.source, config.target)
    config = _with_revision(config)
    store = open_store(config.target, config.storage)
    listing = None if store.exists(RUN_KEY) else _listed(config, observer)
    run_id = claim_target(store, config)
    if is_complete(store):
        observer.note("The target is complete; nothing is left to do.")
        _report_newcomers(config, store, observer, source_needed=False)
        store.delete_below(WORK_FOLDER)  # a late or killed driver may have left some
        return
    if not is_frozen(store):
        frozen = find_listing(store) or freeze_listing(store, (listing or _listed(config, observer)).objects)
        observer.note(f"{frozen.objects} objects found; opening each once to count its pages.")
        del listing
        with ray_session(config.cluster):
            survey(config, store, frozen, observer)
            read(config, run_id, store, observer, reader)
    else:
        left = _remaining(store).shards_to_read
        _report_newcomers(config, store, observer, source_needed=bool(left))
        if left:
            with ray_session(config.cluster):
                read(config, run_id, store, observer, reader)
    finish(store, observer)


def survey(config: RunConfig, store: ObjectStore, listing: FrozenListing, observer: Observer) -> None:
    """Open every document once, in parallel, and freeze what was found."""
    widths = choose_widths(config.cluster)
    vision = vision_of(_model_source(config), config.mode)
    task = SurveyTask(config.raster, vision, config.storage, store.root, listing.listing_id)
    ahead = TASKS_AHEAD * widths.survey_tasks
    with closing(survey_listing(store, listing, on_ray(task, widths), ahead, observer)) as found:
        batches = limited(found, config.limit)
        freeze(store, batches, widths.ocr_actors, config.shards, skip_duplicates=config.skip_duplicates)


def read(
    config: RunConfig,
    run_id: str,
    store: ObjectStore,
    observer: Observer,
    reader: type[RecognizeShards] = RecognizeShards,
) -> None:
    """Read what is left, publishing each part as soon as its last shard is staged."""
    manifest = ManifestReader(store)
    progress = find_progress(store)
    work = remaining_work(manifest.shards, progress.published_parts, progress.staged_shards)
    publisher = Publisher(store, manifest, progress)
    for part in work.parts_to_publish:
        publisher.publish(part)
    if not work.shards_to_read:
        return
    widths = choose_widths(config.cluster)
    pages_left = _pages_left(manifest, work)
    observer.reading(manifest.page_count, pages_left, widths.ocr_actors, widths.ocr_gpus)
    in_flight = shards_in_flight(config.cluster, pages_left, len(work.shards_to_read))
    job = _job(config, run_id, store, widths)
    for done in _graph(job, work.shards_to_read, widths, in_flight, reader):
        if publisher.shard_staged(done.shard_index) is not None:
            observer.part_published()
        observer.shard_done(done)


def _graph(
    job: ReadJob, shards: Sequence[int], widths: Widths, in_flight: int, reader: type[RecognizeShards]
) -> Iterator[ShardDone]:
    """The Ray Data graph: one shard number per block in, one acknowledgement per shard out."""
    from ray.data import ActorPoolStrategy, read_datasource

    from pipeline.shard_source import ShardNumbers, set_data_context

    set_data_context()
    numbers = read_datasource(
        ShardNumbers(shards), override_num_blocks=len(shards), num_cpus=widths.number_cpus
    )
    pages = numbers.map_batches(
        RasterizeShards,
        fn_constructor_args=(job,),
        batch_size=1,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=widths.rasterize_actors, max_tasks_in_flight_per_actor=2),
        num_cpus=widths.rasterize_cpus,
        resources=dict(widths.rasterize_resources),
    )
    done = pages.map_batches(
        reader,
        fn_constructor_args=(job,),
        batch_size=None,  # a block is a shard
        batch_format="pyarrow",
        compute=ActorPoolStrategy(
            size=widths.ocr_actors,
            max_tasks_in_flight_per_actor=in_flight,
            max_concurrent_calls_per_actor=in_flight,
        ),
        num_cpus=widths.ocr_cpus,
        num_gpus=widths.ocr_gpus or None,
        resources=dict(widths.ocr_resources),
    )
    for row in done.iter_rows():
        yield ShardDone(**row)


def finish(store: ObjectStore, observer: Observer) -> None:
    """Publish what is staged, check that the ledger adds up, and mark the target complete."""
    manifest = ManifestReader(store)
    progress = find_progress(store)
    work = remaining_work(manifest.shards, progress.published_parts, progress.staged_shards)
    publisher = Publisher(store, manifest, progress)
    for part in work.parts_to_publish:
        publisher.publish(part)
    tally = check_run(store, manifest)
    observer.note("Every page of the manifest is published once; the ledger adds up.")
    facts = {
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **counted_facts(manifest, tally),
        "shards": len(manifest.shards),
        "shard_readings": sum(1 for _ in store.list(ATTEMPTS_FOLDER)),
    }
    close(store, document_rows(manifest, tally), facts)


def _job(config: RunConfig, run_id: str, store: ObjectStore, widths: Widths) -> ReadJob:
    return ReadJob(
        run_id=run_id,
        target=store.root,
        model=config.model,
        model_revision=config.model_revision,
        mode=config.mode,
        prompt=config.prompt,
        policy=config.decode,
        engine=config.engine,
        raster=config.raster,
        storage=config.storage,
        max_batch=config.cluster.max_batch,
        threads=widths.ocr_threads,
        model_cache=config.cluster.model_cache,
        self_test=config.cluster.self_test,
        skip_duplicates=config.skip_duplicates,
    )


def _model_source(config: RunConfig) -> ModelSource:
    return ModelSource(config.model, config.model_revision, config.storage, config.cluster.model_cache)


def _with_revision(config: RunConfig) -> RunConfig:
    """Check the model, and pin the weights it has now: they can change every text, so the target belongs to them."""
    source = _model_source(config)
    try:
        found = source.pinned()
        vision = vision_of(replace(source, revision=found), config.mode)
    except (ValueError, FileNotFoundError) as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from error
    if config.prompt is not None and not vision.takes_prompt:
        raise ConfigError(f"Model {config.model} takes no prompt; leave it out.")
    # Of a hub id a branch or tag may be asked for; its commit is what is pinned.
    if config.model_revision not in (None, found) and hub_id_of(config.model) is None:
        raise ConfigError(f"Model {config.model} is at revision {found}, not {config.model_revision}.")
    return config.model_copy(update={"model_revision": found})


def _remaining(store: ObjectStore) -> RemainingWork:
    progress = find_progress(store)
    shards = ManifestReader(store).shards
    return remaining_work(shards, progress.published_parts, progress.staged_shards)


def _pages_left(manifest: ManifestReader, work: RemainingWork) -> int:
    return sum(manifest.shards[index].page_count for index in work.shards_to_read)


def _listed(config: RunConfig, observer: Observer) -> Listing:
    """What the source holds, with remarks."""
    listing = list_source(config.source, config.storage, observer.listing)
    for remark in listing_notes(listing):
        observer.note(remark)
    return listing


def _report_newcomers(
    config: RunConfig, store: ObjectStore, observer: Observer, *, source_needed: bool
) -> None:
    """Objects that appeared after the survey are reported and not read: the manifest is frozen.

    A source that is gone is an error only while pages are left to read from it.
    """
    if config.limit is not None:
        return
    try:
        listing = _listed(config, observer)
    except StorageError as error:
        if source_needed:
            raise
        observer.note(f"Whether the source has grown since cannot be told: {error}")
        return
    known = (document.source_uri for document in ManifestReader(store).documents())
    new, first = newcomers(listing.objects, known)
    if new:
        observer.note(
            f"{new} objects appeared since the survey, the first is {first}; they are not part of this "
            "run. Give another target to read them."
        )
