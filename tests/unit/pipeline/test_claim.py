"""A target belongs to one run: leftovers of another are refused, never adopted."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.claim import claim_target, read_claim
from pipeline.config import ConfigError, RunConfig, resolve
from workers.layout import (
    RUN_KEY,
    SUCCESS_KEY,
    SURVEY_KEY,
    attempt_key,
    documents_key,
    manifest_key,
    part_key,
    staged_key,
)
from workers.object_store import LocalStore, StorageDamaged, StorageError

LEFTOVERS = [
    part_key(0),
    documents_key(0),
    "metrics/read/1.parquet",
    SURVEY_KEY,
    manifest_key("pages"),
    staged_key(0),
    attempt_key(0, "a"),
    SUCCESS_KEY,
]


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return resolve({"source": str(tmp_path), "target": str(tmp_path / "out")}, environment={}).config


@pytest.mark.parametrize("key", LEFTOVERS)
def test_leftovers_of_an_older_run_are_refused(config: RunConfig, key: str) -> None:
    store = LocalStore(config.target)
    store.put(key, b"old")
    with pytest.raises(ConfigError, match="choose an empty target"):
        claim_target(store, config)
    assert not store.exists(RUN_KEY)


def test_the_same_configuration_carries_on_whatever_is_there(config: RunConfig) -> None:
    store = LocalStore(config.target)
    first = claim_target(store, config)
    for key in LEFTOVERS:
        store.put(key, b"ours")
    assert claim_target(store, config) == first


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"hash": "x"}'])
def test_a_damaged_claim_is_named(config: RunConfig, data: bytes) -> None:
    store = LocalStore(config.target)
    store.put(RUN_KEY, data)
    with pytest.raises(StorageDamaged, match=r"_run\.json is damaged"):
        read_claim(store)


class Careless(LocalStore):
    """Answers like a server that does not know If-None-Match."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return True


def test_a_storage_that_overwrites_is_refused_before_anything_is_claimed(config: RunConfig) -> None:
    store = Careless(config.target)
    with pytest.raises(StorageError, match="does not refuse a second writer"):
        claim_target(store, config)
    assert not store.exists(RUN_KEY)
    promised = config.model_copy(update={"storage": replace(config.storage, single_writer=True)})
    run_id = claim_target(store, promised)
    assert claim_target(store, promised) == run_id
    with pytest.raises(StorageError, match="--single-writer"):  # the promise is given for each session
        claim_target(store, config)
    store.put(SUCCESS_KEY, b"{}")
    assert claim_target(store, config) == run_id  # nothing will be written any more
