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
from workers.ids import run_id
from workers.layout import PAGES_FOLDER, RUN_KEY, SUCCESS_KEY
from workers.object_store import ObjectStore, StorageError, honours_put_if_absent

DISTRIBUTIONS = ("fastocr-batch", "ray", "torch", "transformers", "pyarrow", "pymupdf", "pillow", "numpy")


def claim_target(store: ObjectStore, config: RunConfig) -> str:
    """Take the target for this configuration, or find that it already is; returns the run's id.

    Raises `ConfigError` if it belongs to another configuration or to nobody we know, and `StorageError` if
    the storage cannot promise that a second writer is refused.
    """
    if not store.exists(RUN_KEY):
        if next(iter(store.list(PAGES_FOLDER)), None) is not None:
            raise ConfigError(
                f"{store.uri(PAGES_FOLDER)} holds files but there is no {RUN_KEY}: choose an empty target."
            )
        if not honours_put_if_absent(store):
            raise StorageError(
                f"The storage of {store.root} overwrites although it was told not to (put-if-absent), "
                "so it cannot keep two writers apart; use another target."
            )
        store.put_if_absent(RUN_KEY, json.dumps(_record(store, config), indent=2).encode())
    stored = read_claim(store)
    if stored["hash"] != config_hash(config):
        keys = ", ".join(differing_keys(stored["text_values"], config))
        raise ConfigError(
            f"{store.root} was begun with another configuration (different: {keys}); "
            "use the same settings to carry on, or another target."
        )
    return str(stored["run_id"])


def read_claim(store: ObjectStore) -> Mapping[str, Any]:
    """What `_run.json` says; raises `StorageMissing` if the target was never begun."""
    stored: Mapping[str, Any] = json.loads(store.get(RUN_KEY))
    return stored


def is_complete(store: ObjectStore) -> bool:
    """Whether the run of this target has ended and its ledger added up."""
    return store.exists(SUCCESS_KEY)


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
