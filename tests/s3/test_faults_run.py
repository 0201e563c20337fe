"""A whole run from and to an S3 that fails in every way we know: each page ends with the right outcome and reason,
once, and no credential is written anywhere.
"""

import dataclasses
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.stored import read_table
from tests.support.fault_proxy import Fault, FaultProxy, Kind, fault_proxy
from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, write_config
from tests.support.s3_server import S3Server
from tests.support.written import Searched, everything_written, searched_for
from workers.object_store import ObjectStore, StorageSettings, open_store

pytestmark = [pytest.mark.s3, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]

PAGES = 2
LOOK_SECONDS = 2.0
GOOD = {"ok", "ok_blank", "ok_repaired", "flagged"}  # the toy model reads nonsense, which may be flagged
MENDED = ("plain", "throttled", "denied-once", "cut", "stalled", "slow", "uploaded-again")
FAILED = {
    "denied-later": "storage_denied", "changed": "changed_during_run", "deleted": "storage_missing",
    "unreadable-later": "storage_error",
}  # fmt: skip
QUARANTINED = {"denied": "storage_denied", "gone-before": "storage_missing", "unreadable": "storage_error"}


@dataclass(frozen=True, slots=True)
class Story:
    """What the run said and left behind."""

    code: int
    output: str
    report: str
    proxy: FaultProxy
    searched: Searched
    target: ObjectStore
    pages: list[dict[str, Any]]
    documents: dict[str, dict[str, Any]]


def _faults(client: Any, bucket: str, same: bytes, other: bytes) -> list[Fault]:
    """One GET is made by the survey, the next when the pages are drawn. `same` is the document that is there."""

    def put(name: str, data: bytes) -> object:
        return partial(client.put_object, Bucket=bucket, Key=f"scans/{name}.pdf", Body=data)

    def delete(name: str) -> object:
        return partial(client.delete_object, Bucket=bucket, Key=f"scans/{name}.pdf")

    return [
        Fault("GET", "/throttled.pdf", Kind.ERROR, "SlowDown", times=2),
        Fault("GET", "/denied-once.pdf", Kind.ERROR, "AccessDenied"),
        Fault("GET", "/cut.pdf", Kind.CUT_BODY, times=2),
        Fault("GET", "/stalled.pdf", Kind.STALLED_BODY, seconds=6),
        Fault("GET", "/slow.pdf", Kind.TRICKLE, times=None, seconds=0.5),
        Fault("GET", "/denied.pdf", Kind.ERROR, "AccessDenied", times=None),
        Fault("GET", "/denied-later.pdf", Kind.ERROR, "AccessDenied", times=None, after=1),
        Fault("GET", "/uploaded-again.pdf", then=put("uploaded-again", same), after=1),
        Fault("GET", "/changed.pdf", then=put("changed", other), times=None, after=1),
        Fault("GET", "/deleted.pdf", then=delete("deleted"), times=None, after=1),
        Fault("GET", "/gone-before.pdf", then=delete("gone-before"), times=None),
        Fault("GET", "/unreadable.pdf", Kind.ERROR, "InternalError", times=None),
        Fault("GET", "/unreadable-later.pdf", Kind.ERROR, "SlowDown", times=None, after=1),
        Fault("GET", "list-type=2.*prefix=scans", Kind.ERROR, "SlowDown", times=2),
        Fault("PUT", "/_run.json", Kind.LOST_ANSWER),
        Fault("PUT", "/_work/staged/", Kind.LOST_ANSWER, times=2),
        Fault("PUT", "/_work/staged/", Kind.ERROR, "SlowDown", times=2),
        Fault("GET", "/_work/staged/", Kind.CUT_BODY),
        Fault("PUT", "/pages/part-00000", Kind.LOST_ANSWER),
        Fault("PUT", "/pages/part-00001", Kind.CUT_BEFORE),
        Fault("PUT", "/documents/", Kind.ERROR, "InternalError"),
        Fault("PUT", "/_SUCCESS", Kind.LOST_ANSWER),
    ]


@pytest.fixture(scope="module")
def story(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("faults")
    client, bucket = s3_server.client(), "faults-of-a-run"
    s3_server.make_bucket(bucket)
    documents = {}
    for name in (*MENDED, *FAILED, *QUARANTINED, "other"):
        make_pdf(folder / f"{name}.pdf", PAGES)
        documents[name] = (folder / f"{name}.pdf").read_bytes()
        if name != "other":
            client.put_object(Bucket=bucket, Key=f"scans/{name}.pdf", Body=documents[name])
    config = write_config(folder / "run.toml", shard_pages=4, part_pages=8)
    config.write_text(config.read_text() + "[storage]\nread_timeout_seconds = 3\nmax_attempts = 6\n")
    faults = _faults(client, bucket, documents["uploaded-again"], documents["other"])
    with pytest.MonkeyPatch.context() as environment, fault_proxy(s3_server.endpoint_url, *faults) as proxy:
        for name, value in s3_server.credentials.items():
            environment.setenv(name, value)
        options = ["--endpoint-url", proxy.endpoint_url, "--region", "us-east-1", "--path-style"]
        run = RunProcess.start(f"s3://{bucket}/scans", f"s3://{bucket}/out", config, *options)
        searched = searched_for(s3_server.credentials.values())
        while run.process.poll() is None:
            searched.look(run)
            time.sleep(LOOK_SECONDS)
        code = run.wait()
        command = [sys.executable, "-m", "pipeline", "report", f"s3://{bucket}/out"]
        subprocess.run([*command, *options, "-o", str(folder / "report.html")], check=True, timeout=300)
        settings = StorageSettings(endpoint_url=proxy.endpoint_url, region="us-east-1", path_style=True)
        target = open_store(f"s3://{bucket}/out", dataclasses.replace(settings, max_attempts=3))
        yield Story(
            code, run.output(), (folder / "report.html").read_text(), proxy, searched, target,
            _rows(target, "pages/"), {_name(row): row for row in _rows(target, "documents/")},
        )  # fmt: skip


def _rows(target: ObjectStore, folder: str) -> list[dict[str, Any]]:
    keys = sorted(stored.key for stored in target.list(folder))
    return pa.concat_tables([read_table(target, key) for key in keys]).to_pylist() if keys else []


def _name(row: dict[str, Any]) -> str:
    return str(row["source_uri"]).rpartition("/")[2].removesuffix(".pdf")


def test_every_fault_was_met(story: Story) -> None:
    assert story.code == 3, story.output
    assert [fault.path for fault in story.proxy.faults if not fault.struck] == []
    assert "Traceback" not in story.output


def test_every_page_is_there_once_with_the_right_outcome_and_reason(story: Story) -> None:
    counted = Counter((_name(row), row["page_index"]) for row in story.pages)
    assert counted == Counter((name, page) for name in (*MENDED, *FAILED) for page in range(PAGES))
    for row in story.pages:
        name = _name(row)
        if name in FAILED:
            assert (row["outcome"], row["reason"], row["text"]) == ("failed", FAILED[name], None)
        else:
            assert row["outcome"] in GOOD, row


def test_every_document_is_there_with_the_right_outcome_and_reason(story: Story) -> None:
    assert sorted(story.documents) == sorted((*MENDED, *FAILED, *QUARANTINED))
    for name, row in story.documents.items():
        if name in QUARANTINED:
            assert (row["outcome"], row["reason"], row["pages"]) == ("quarantined", QUARANTINED[name], 0)
        else:
            failed = PAGES if name in FAILED else 0
            assert (row["outcome"] == "complete", row["pages_failed"]) == (not failed, failed)


def test_nothing_is_left_of_the_work(story: Story) -> None:
    keys = [stored.key for stored in story.target.list()]
    assert [key for key in keys if key.startswith("_work/")] == []
    assert sorted(key for key in keys if key.startswith("pages/")) == [
        f"pages/part-{number:05d}.parquet" for number in range(3)
    ]


def test_no_credential_is_written_anywhere(story: Story, s3_server: S3Server) -> None:
    written = {**dict(everything_written(story.target)), "output": story.output, "report": story.report}
    assert {"_run.json", "_SUCCESS", "pages/part-00000.parquet", "documents/part-00000.parquet"} <= set(
        written
    )
    assert any(key.startswith("metrics/") for key in written)
    assert "scans/plain.pdf" in written["pages/part-00000.parquet"] + written["pages/part-00001.parquet"]
    secrets = s3_server.credentials.values()
    assert [key for key, text in written.items() if any(secret in text for secret in secrets)] == []


def test_no_credential_is_in_a_log_or_a_command_line(story: Story, tmp_path: Path) -> None:
    """Of Ray and of the actors, as long as they ran: they all have the credentials in their environment."""
    places = story.searched.places
    assert any("/logs/worker-" in place for place in places)
    assert sum(place.startswith("command line of ") for place in places) > 5
    assert story.searched.betrayed == set()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker-1.err").write_text("signed with test-secret")
    planted = searched_for(["test-secret"])
    planted.search_folder(tmp_path)
    assert planted.betrayed == {"logs/worker-1.err"}
