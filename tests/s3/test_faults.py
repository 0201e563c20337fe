"""The store behind a proxy that fails: what is mended by asking again, what is not, and in which words."""

import dataclasses
import io
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.fault_proxy import Fault, FaultProxy, Kind, fault_proxy
from tests.support.s3_server import S3Server
from workers import s3_client, s3_store
from workers.fetch import DocumentFetcher, FetchFailure
from workers.object_store import (
    CredentialsRejected,
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageError,
    StorageSettings,
    StorageUnreachable,
    honours_put_if_absent,
    open_store,
)
from workers.outcomes import Reason

pytestmark = pytest.mark.s3

TRIES = 3


@pytest.fixture
def proxy(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy without faults, and no waiting between tries."""
    monkeypatch.setattr(s3_client, "FIRST_WAIT_SECONDS", 0.001)
    with fault_proxy(s3_server.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def settings(s3_settings: StorageSettings, proxy: FaultProxy) -> StorageSettings:
    return dataclasses.replace(
        s3_settings, endpoint_url=proxy.endpoint_url, max_attempts=TRIES, read_timeout_seconds=2.0
    )


@pytest.fixture
def store(s3_bucket: str, settings: StorageSettings) -> ObjectStore:
    return open_store(f"{s3_bucket}/out", settings)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Kind.ERROR, "SlowDown"),
        (Kind.ERROR, "InternalError"),
        (Kind.ERROR, "AccessDenied"),
        (Kind.CUT_BEFORE, ""),
        (Kind.LOST_ANSWER, ""),
    ],
)
def test_what_passes_is_not_noticed(store: ObjectStore, proxy: FaultProxy, kind: Kind, code: str) -> None:
    proxy.faults += [Fault(method, "/out", kind, code) for method in ("PUT", "GET", "HEAD", "DELETE")]
    proxy.faults.append(Fault("GET", "list-type", kind, code))
    store.put("one", b"1" * 1000)
    assert store.get("one") == b"1" * 1000
    assert store.exists("one")
    assert [stored.key for stored in store.list()] == ["one"]
    store.delete("one")
    assert not store.exists("one")
    assert [fault.struck for fault in proxy.faults] == [1] * len(proxy.faults)


def test_bodies_that_break_off_or_stall_are_fetched_again(store: ObjectStore, proxy: FaultProxy) -> None:
    data = bytes(range(256)) * 400
    store.put("document", data)
    proxy.faults += [
        Fault("GET", "/document", Kind.CUT_BODY),
        Fault("GET", "/document", Kind.STALLED_BODY, seconds=5),
    ]
    assert store.get("document") == data
    assert [fault.struck for fault in proxy.faults] == [1, 1]
    proxy.faults[:] = [Fault("GET", "/document", Kind.CUT_BODY, times=None)]
    with pytest.raises(StorageUnreachable, match=f"broke off each time it was fetched, {TRIES} times"):
        store.get("document")
    assert proxy.faults[0].struck == TRIES


def test_a_body_at_a_trickle_is_given_up(
    store: ObjectStore, proxy: FaultProxy, settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece comes in time, so that no timeout of the connection would ever strike."""
    monkeypatch.setattr(s3_store, "LEAST_BYTES_PER_SECOND", 100_000_000)
    data = bytes(3_000_000)
    store.put("document", data)
    proxy.faults.append(Fault("GET", "/document", Kind.TRICKLE, seconds=0.05))
    assert store.get("document") == data
    assert proxy.counted("GET", "/document") == 2
    proxy.faults.append(Fault("GET", "/document", Kind.TRICKLE, seconds=0.0))
    assert store.get("document") == data
    assert proxy.counted("GET", "/document") == 3


def test_a_put_whose_answer_was_lost_is_known_as_our_own(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.faults.append(Fault("PUT", "/part", Kind.LOST_ANSWER))
    assert store.put_if_absent("part", b"ours")
    assert proxy.counted("PUT", "/part") == 2
    proxy.faults.append(Fault("PUT", "/part", Kind.CUT_BEFORE))
    assert not store.put_if_absent("part", b"theirs")
    assert store.get("part") == b"ours"
    proxy.faults.append(Fault("PUT", "/probe-", Kind.LOST_ANSWER, times=2))
    assert honours_put_if_absent(store, "")


def test_a_true_denial_is_said_after_a_few_tries_and_stays_with_its_document(
    s3_bucket: str, store: ObjectStore, settings: StorageSettings, proxy: FaultProxy
) -> None:
    store.put("one.pdf", b"1")
    store.put("two.pdf", b"2")
    denial = Fault("GET", "/one.pdf", Kind.ERROR, "AccessDenied", times=None)
    proxy.faults += [denial, Fault("HEAD", "/one.pdf", Kind.ERROR, "AccessDenied", times=None)]
    for attempt in (lambda: store.get("one.pdf"), lambda: store.exists("one.pdf")):
        denial.struck = 0
        with pytest.raises(StorageDenied, match="was denied"):
            attempt()
        assert denial.struck == 1 + s3_client.DENIAL_RETRIES
    fetcher = DocumentFetcher(settings)
    with pytest.raises(FetchFailure) as failure:
        fetcher.fetch(f"{s3_bucket}/out/one.pdf", None)
    assert failure.value.reason == Reason.STORAGE_DENIED
    assert fetcher.fetch(f"{s3_bucket}/out/two.pdf", None) == b"2"


@pytest.mark.parametrize("code", ["InternalError", "SlowDown"])
def test_an_object_that_is_never_delivered_is_a_finding_and_a_storage_that_delivers_nothing_an_outage(
    s3_bucket: str, store: ObjectStore, settings: StorageSettings, proxy: FaultProxy, code: str
) -> None:
    for name in ("one.pdf", "two.pdf", "three.pdf"):
        store.put(name, b"1")
    steady = Fault("GET", "/one.pdf", Kind.ERROR, code, times=None)
    proxy.faults.append(steady)
    for known in ("two.pdf", None):
        fetcher = DocumentFetcher(settings)
        if known is not None:
            fetcher.fetch(f"{s3_bucket}/out/{known}", None)
        steady.struck = 0
        with pytest.raises(
            FetchFailure, match=f"{s3_bucket}/out/one.pdf: the storage answered {code}"
        ) as failure:
            fetcher.fetch(f"{s3_bucket}/out/one.pdf", None)
        assert failure.value.reason == Reason.STORAGE_ERROR
        assert steady.struck == 2 * TRIES
        assert fetcher.fetch(f"{s3_bucket}/out/three.pdf", None) == b"1"
    for method, path in (
        ("GET", r"\.pdf"),
        ("HEAD", ""),
    ):  # at first bodies do not come, then nothing is answered
        proxy.faults.append(Fault(method, path, Kind.ERROR, code, times=None))
        with pytest.raises(StorageUnreachable, match=rf"{s3_bucket} is out, .*out/two.pdf.*{code}") as error:
            fetcher.fetch(f"{s3_bucket}/out/two.pdf", None)
        assert re.fullmatch(r"[^\n]{20,500}\.", str(error.value))


def test_refused_credentials_are_nobodys_document(
    s3_bucket: str, settings: StorageSettings, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run must stop then: else a whole archive would be quarantined for a password."""
    store.put("one.pdf", b"1")
    for name, value, words in (
        ("AWS_SECRET_ACCESS_KEY", "wrong-secret", "does not fit"),
        ("AWS_ACCESS_KEY_ID", "wrong-key", "does not know"),
    ):
        monkeypatch.setenv(name, value)
        monkeypatch.setattr(s3_client, "_clients", {})
        for attempt in (
            lambda fetcher: fetcher.fetch(f"{s3_bucket}/out/one.pdf", None),
            lambda fetcher: fetcher.find(f"{s3_bucket}/out/one.pdf"),
        ):
            with pytest.raises(CredentialsRejected, match=words) as error:
                attempt(DocumentFetcher(settings))
            assert "wrong-secret" not in str(error.value)


def test_one_reader_never_mixes_two_versions(store: ObjectStore) -> None:
    def table(number: int) -> bytes:
        sink = io.BytesIO()
        pq.write_table(
            pa.table({"n": [number] * 500_000, "s": [str(number) * 9] * 500_000}), sink, compression="none"
        )
        return sink.getvalue()

    store.put("table", table(1))
    with store.open("table") as reader:
        file = pq.ParquetFile(reader)
        store.put("table", table(2))
        with pytest.raises(StorageChanged):
            file.read()


def test_a_server_that_does_not_know_conditions_or_ignores_them(
    s3_bucket: str, settings: StorageSettings, store: ObjectStore, proxy: FaultProxy
) -> None:
    proxy.faults.append(Fault("PUT", "/probe-", Kind.ERROR, "NotImplemented", times=None))
    assert not honours_put_if_absent(store)
    proxy.faults[:] = [Fault("PUT", "/probe-", after=1, then=lambda: _remove_probe(store))]
    assert not honours_put_if_absent(store)  # as if the second put had been let through
    proxy.faults[:] = [Fault("PUT", "/key", Kind.ERROR, "NotImplemented")]
    with pytest.raises(StorageError, match="does not know this request"):
        store.put_if_absent("key", b"")
    single = open_store(f"{s3_bucket}/out", dataclasses.replace(settings, single_writer=True))
    assert single.put_if_absent("single", b"first")
    assert not single.put_if_absent("single", b"second")
    assert single.get("single") == b"first"


def _remove_probe(store: ObjectStore) -> None:
    (probe,) = store.list("_work/probe-")
    store.delete(probe.key)


def test_every_error_is_one_line(s3_bucket: str, settings: StorageSettings) -> None:
    nowhere = StorageSettings(
        endpoint_url="http://127.0.0.1:9", region="us-east-1", max_attempts=1, connect_timeout_seconds=1.0
    )
    for store in (
        open_store("s3://Not A Bucket/x", settings),
        open_store(s3_bucket, nowhere),
        open_store(s3_bucket, dataclasses.replace(settings, profile="nobody-has-this-profile")),
    ):
        with pytest.raises(StorageError) as error:
            store.get("key")
        assert re.fullmatch(r"[^\n]{20,400}\.", str(error.value))


def test_an_answer_from_something_that_is_no_s3_is_one_line(
    s3_bucket: str, settings: StorageSettings, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "<!doctype html><html><head><title>Sign in</title></head>\n<body>" + "<p>words</p>\n" * 500
    monkeypatch.setattr("tests.support.fault_proxy.ERROR", page)
    proxy.faults.append(Fault("GET", "", Kind.ERROR, "AccessDenied", times=None))
    with pytest.raises(StorageError) as error:
        list(open_store(s3_bucket, settings).list())
    assert re.fullmatch(r"[^\n]{20,500}\.", str(error.value))
