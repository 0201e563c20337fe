"""Makes a target belong to one configuration: the first run puts `_run.json`, later ones must match its
hash.
"""

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.config import ConfigError, RunConfig, config_hash, differing_keys, flatten, text_values
from pipeline.stored import read_facts
from workers.ids import run_id
from workers.layout import (
    ATTEMPTS_FOLDER,
    DOCUMENTS_FOLDER,
    MANIFEST_FOLDER,
    METRICS_FOLDER,
    PAGES_FOLDER,
    RUN_KEY,
    STAGED_FOLDER,
    SUCCESS_KEY,
)
from workers.object_store import ObjectStore, StorageError, StorageMissing, honours_put_if_absent

DISTRIBUTIONS = ("fastocr-batch", "ray", "torch", "transformers", "pyarrow", "pymupdf", "pillow", "numpy")

LEFTOVER_FOLDERS = (
    PAGES_FOLDER,
    DOCUMENTS_FOLDER,
    METRICS_FOLDER,
    MANIFEST_FOLDER,
    STAGED_FOLDER,
    ATTEMPTS_FOLDER,
)


def claim_target(store: ObjectStore, config: RunConfig) -> str:
    """Take the target for this configuration, or find that it already is; returns the run's id.

    Raises `ConfigError` if it belongs to another configuration or to nobody we know, and `StorageError` if
    the storage cannot promise that a second writer is refused.
    """
    is_new = not store.exists(RUN_KEY)
    if is_new:
        _refuse_leftovers(store)
        _refuse_careless_storage(store, config)
        store.put_if_absent(RUN_KEY, json.dumps(_record(store, config), indent=2).encode())
    stored = read_claim(store)
    if stored["hash"] != config_hash(config):
        keys = ", ".join(differing_keys(stored["text_values"], config))
        raise ConfigError(
            f"{store.root} was begun with another configuration (different: {keys}); "
            "use the same settings to carry on, or another target."
        )
    if not is_new and not is_complete(store):
        _refuse_careless_storage(
            store, config
        )  # the storage, or the promise, may be another than at the begin
    return str(stored["run_id"])


def read_claim(store: ObjectStore) -> Mapping[str, Any]:
    """What `_run.json` says; raises `StorageMissing` if the target was never begun."""
    try:
        return read_facts(store, RUN_KEY, ("run_id", "hash", "text_values"))
    except StorageMissing as error:
        raise StorageMissing(f"There is no run at {store.root}: it holds no {RUN_KEY}.") from error


def is_complete(store: ObjectStore) -> bool:
    """Whether the run of this target has ended and its ledger added up."""
    return store.exists(SUCCESS_KEY)


def _refuse_careless_storage(store: ObjectStore, config: RunConfig) -> None:
    """Publication rests on puts that refuse to replace; raises `StorageError` where they do not."""
    if config.storage.single_writer or honours_put_if_absent(store):
        return
    if not is_complete(store):  # whoever completed the run just now removed our probe with the work folder
        raise StorageError(
            f"The storage of {store.root} does not refuse a second writer (put-if-absent): use another target, or "
            "--single-writer if you promise that only one program writes there."
        )


def _refuse_leftovers(store: ObjectStore) -> None:
    """What an older run left behind would be taken for ours; raises `ConfigError`."""
    found = [folder for folder in LEFTOVER_FOLDERS if next(iter(store.list(folder)), None) is not None]
    if store.exists(SUCCESS_KEY):
        found.append(SUCCESS_KEY)
    if found and not store.exists(RUN_KEY):  # another driver may have claimed the target and gone ahead
        raise ConfigError(
            f"{store.uri(found[0])} is there but no {RUN_KEY}, so it belongs to no run that could be carried "
            "on: choose an empty target."
        )


def _record(store: ObjectStore, config: RunConfig) -> dict[str, Any]:
    digest = config_hash(config)
    return {
        "run_id": run_id(digest, store.root),
        "hash": digest,
        "text_values": text_values(config),
        "config": flatten(config),
        "versions": {"python": platform.python_version(), **_versions()},
        "begun_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for distribution in DISTRIBUTIONS:
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            continue
    return found
