"""Checks of source, target and credentials. What is written to a target is removed again, empty folders too."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.claim import is_complete, read_claim
from pipeline.config import RunConfig, differing_keys
from pipeline.doctor import Finding, Level, Places
from pipeline.source import fixed_part, refuse_nested
from workers.layout import RUN_KEY
from workers.local_store import TEMPORARY_FOLDER
from workers.object_store import (
    LocalStore,
    ObjectStore,
    StorageError,
    StorageMissing,
    StoredObject,
    credentials_kind,
    honours_put_if_absent,
    is_s3,
    open_store,
    split_uri,
)

PROBE_FOLDER = "_doctor/"
FIRST_BYTES = 64


def uses_s3(config: RunConfig, places: Places) -> bool:
    """Whether anything of this run lies in S3."""
    return any(is_s3(place) for place in (places.source, places.target, config.model) if place)


def check_credentials(config: RunConfig) -> Sequence[Finding]:
    """Whether there are any; what they are is nobody's business."""
    kind = credentials_kind(config.storage)
    if kind is None:
        mend = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or give the machine a role"
        return [Finding(Level.FAIL, "credentials", "no S3 credentials were found", mend)]
    return [Finding(Level.OK, "credentials", f"found ({kind})")]


def check_source(source: str, config: RunConfig) -> Sequence[Finding]:
    """Whether it can be listed, and its first object read. Of a large source only the first answer is waited for."""
    try:
        store, first = _first_object(source, config)
        if first is None:
            return [
                Finding(Level.FAIL, "source", f"there is nothing to read at {source}", "check the location")
            ]
        with store.open(first.key) as reader:
            reader.read(FIRST_BYTES)
    except StorageError as error:
        return [Finding(Level.FAIL, "source", str(error), "check location, network and policy")]
    return [Finding(Level.OK, "source", f"{source} can be listed and read (first seen: {first.uri})")]


def _first_object(source: str, config: RunConfig) -> tuple[ObjectStore, StoredObject | None]:
    """Any object of the source, and the store that holds it."""
    root, key = split_uri(source)
    if key and not key.endswith("/"):
        beside = open_store(root, config.storage)
        single = beside.find(key)
        if single is not None:
            return beside, single
    store = open_store(source, config.storage)
    try:
        first = next(iter(store.list()), None)
    except StorageMissing:
        first = None
    if first is None and fixed_part(source) != source:
        store = open_store(fixed_part(source), config.storage)
        first = next(iter(store.list()), None)
    return store, first


def check_target(target: str, config: RunConfig, places: Places) -> Sequence[Finding]:
    """Whether it can be written, whether a second writer is refused, and whose it is."""
    if places.source is not None:
        refuse_nested(places.source, target)
    store = open_store(target, config.storage)
    existed = not isinstance(store, LocalStore) or Path(target).exists()
    careful = replace(config.storage, single_writer=False)
    try:
        refuses = honours_put_if_absent(open_store(target, careful), PROBE_FOLDER)
    except StorageError as error:
        return [Finding(Level.FAIL, "target", str(error), "check location, permissions and policy")]
    finally:
        _tidy(store, existed)
    if not refuses and config.storage.single_writer:
        mend = "let no other program write there, as --single-writer promises"
        found = Finding(Level.WARN, "target", f"{target} does not refuse a second writer", mend)
        return [found, *_owner(store, config)]
    if not refuses:
        mend = "use one that honours put-if-absent, or --single-writer if only one program writes there"
        return [Finding(Level.FAIL, "target", f"{target} does not refuse a second writer", mend)]
    return [
        Finding(Level.OK, "target", f"{target} can be written, and a second writer is refused"),
        *_owner(store, config),
    ]


def _owner(store: ObjectStore, config: RunConfig) -> Sequence[Finding]:
    """A target that is taken can only be carried on with the settings it was begun with."""
    if not store.exists(RUN_KEY):
        return []
    differing = differing_keys(read_claim(store)["text_values"], config)
    if config.model_revision is None:  # pinned when a run begins
        differing = [key for key in differing if key != "model_revision"]
    if differing:
        found = f"it was begun with another configuration (different: {', '.join(differing)})"
        return [Finding(Level.FAIL, "target", found, "use the same settings to carry on, or another target")]
    state = (
        "it is complete; a run would read nothing" if is_complete(store) else "a run would carry on with it"
    )
    return [Finding(Level.OK, "target", state)]


def _tidy(store: ObjectStore, existed: bool) -> None:
    """Remove the folders that the probe made, as far as they are empty."""
    if not isinstance(store, LocalStore):
        return
    root = Path(store.root)
    made = [root / PROBE_FOLDER, root / TEMPORARY_FOLDER, (root / TEMPORARY_FOLDER).parent]
    for folder in [*made, *([] if existed else [root])]:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
