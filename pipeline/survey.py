"""Runs the survey: batches of a listing in, their findings out, in order, with only a few under way at once.

The findings of each batch are stored by the task that made them (`workers/survey.py`), so a survey that is stopped
at any point carries on with the batches that are missing.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, Protocol

import pyarrow as pa

from pipeline.cluster import Widths
from pipeline.listing import FrozenListing, listed_batches, surveyed_batches
from pipeline.progress import Observer
from workers.layout import survey_batch_key
from workers.object_store import ObjectStore, StorageDamaged
from workers.survey import Batch, SurveyTask, survey_batch
from workers.surveyed import SurveyedBatch, batch_from_parquet

TASKS_AHEAD = 2
DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError)


class Findings(Protocol):
    """The findings of one batch, there or on their way."""

    def result(self) -> bytes:
        """Wait for them; an object of `workers.surveyed`."""

    def cancel(self) -> None:
        """They are not wanted any more."""


Start = Callable[[Batch], Findings]


class StoredFindings:
    """Findings that an earlier session stored."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key

    def result(self) -> bytes:
        return self._store.get(self._key)

    def cancel(self) -> None:
        """Nothing is under way."""


class LocalFindings:
    """Findings made in this process when they are asked for."""

    def __init__(self, batch: Batch, task: SurveyTask) -> None:
        self._batch = batch
        self._task = task

    def result(self) -> bytes:
        return survey_batch(self._batch, self._task)

    def cancel(self) -> None:
        """Nothing is under way."""


class RayFindings:
    """Findings that a Ray task is making."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def result(self) -> bytes:
        import ray

        data: bytes = ray.get(self._reference)
        return data

    def cancel(self) -> None:
        import ray

        ray.cancel(self._reference)


def on_ray(task: SurveyTask, widths: Widths) -> Start:
    """Survey batches in tasks of the connected cluster."""
    import ray

    remote = ray.remote(
        num_cpus=widths.survey_cpus, resources=dict(widths.rasterize_resources), max_retries=3
    )(survey_batch)
    shared = ray.put(task)
    return lambda batch: RayFindings(remote.remote(batch, shared))


def in_this_process(task: SurveyTask) -> Start:
    """Survey batches here, one after the other."""
    return lambda batch: LocalFindings(batch, task)


def continued(store: ObjectStore, listing: FrozenListing, start: Start, observer: Observer) -> Start:
    """Take stored findings where there are some, and start the rest."""
    there = surveyed_batches(store, listing)
    if there:
        observer.note(f"The survey carries on: {len(there)} of {listing.batches} batches are done.")

    def take(batch: Batch) -> Findings:
        if batch.batch_index in there:
            return StoredFindings(store, survey_batch_key(listing.listing_id, batch.batch_index))
        return start(batch)

    return take


def survey_listing(
    store: ObjectStore, listing: FrozenListing, start: Start, ahead: int, observer: Observer
) -> Generator[SurveyedBatch, None, None]:
    """All batches of a frozen listing. Close it when no more are wanted: what is under way is called off."""
    take = continued(store, listing, start, observer)
    with closing(in_order(listed_batches(store, listing), take, ahead)) as findings:
        yield from counted(findings, listing.objects, observer)


def in_order(batches: Iterable[Batch], take: Start, ahead: int) -> Generator[tuple[Batch, bytes], None, None]:
    """Findings in the order of their batches, `ahead` batches under way."""
    waiting = iter(batches)
    pending: deque[tuple[Batch, Findings]] = deque()
    try:
        while True:
            while len(pending) < ahead and (batch := next(waiting, None)) is not None:
                pending.append((batch, take(batch)))
            if not pending:
                return
            yield pending[0][0], pending[0][1].result()
            pending.popleft()
    finally:
        for _, findings in pending:
            findings.cancel()


def counted(
    findings: Iterable[tuple[Batch, bytes]], total: int, observer: Observer
) -> Iterator[SurveyedBatch]:
    """Findings as tables; the observer hears how many documents there are so far."""
    documents = 0
    for batch, data in findings:
        try:
            surveyed = batch_from_parquet(data)
        except DAMAGE as error:
            raise StorageDamaged(
                f"The stored survey of batch {batch.batch_index}, which begins with {batch.objects[0].uri}, is "
                "damaged; run into another target."
            ) from error
        documents += surveyed.documents.num_rows
        observer.surveying(documents, total)
        yield surveyed
