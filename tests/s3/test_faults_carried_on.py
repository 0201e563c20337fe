"""A storage that stops delivering in the middle ends the run in one sentence; the same command carries on later."""

import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.stored import read_table
from tests.support.fault_proxy import Fault, FaultProxy, Kind, fault_proxy
from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, wait_until, write_config
from tests.support.s3_server import S3Server
from workers.layout import STAGED_FOLDER
from workers.object_store import ObjectStore, StorageSettings, open_store

pytestmark = [pytest.mark.s3, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(2400)]

DOCUMENTS, PAGES = 3, 2
STAGE_SECONDS = 500.0
STORAGE = (
    f"[storage]\nmax_attempts = 2\nread_timeout_seconds = {STAGE_SECONDS + 100}\n"  # the proxy makes it wait
)


def test_a_run_that_lost_its_source_says_so_and_is_carried_on(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    bucket = f"scans-{uuid.uuid4().hex[:12]}"
    s3_server.make_bucket(bucket)
    source, target = open_store(f"s3://{bucket}", s3_settings), open_store(s3_bucket, s3_settings)
    for number in range(DOCUMENTS):
        make_pdf(tmp_path / f"{number}.pdf", PAGES)
        source.put(f"{number}.pdf", (tmp_path / f"{number}.pdf").read_bytes())
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=6)
    config.write_text(config.read_text() + STORAGE)
    with fault_proxy(s3_server.endpoint_url) as proxy:
        options = ["--endpoint-url", proxy.endpoint_url, "--region", "us-east-1", "--path-style"]
        last_one = Fault("GET", f"^/{bucket}/2.pdf", Kind.ERROR, "InternalError", times=None, after=1)
        last_one.then = lambda: _all_is_lost(proxy, bucket, target)
        proxy.faults.append(last_one)
        run = RunProcess.start(source.root, target.root, config, *options)
        assert run.wait(900) == 1, run.output()
        last = run.output().strip().splitlines()[-1]
        assert last.startswith(f"fastocr: The storage of s3://{bucket} is out, ")
        assert f"s3://{bucket}/2.pdf: the storage answered InternalError" in last
        assert last.endswith("run the same command again when it is back, what is staged is kept.")
        assert "Traceback" not in run.output()
        assert "ERROR" not in run.output(), "lines of Ray's own"
        kept = {stored.key: target.get(stored.key) for stored in target.list(STAGED_FOLDER)}
        assert 1 <= len(kept) <= (DOCUMENTS - 1) * PAGES  # of the last document none
        proxy.faults.clear()
        again = RunProcess.start(source.root, target.root, config, *options)
        assert again.wait(900) == 0, again.output()
    keys = [stored.key for stored in target.list("pages/")]
    rows = pa.concat_tables([read_table(target, key) for key in keys]).to_pylist()
    counted = Counter((row["source_uri"], row["page_index"]) for row in rows)
    assert counted == Counter(
        (f"s3://{bucket}/{number}.pdf", page) for number in range(DOCUMENTS) for page in range(PAGES)
    )
    before = pa.concat_tables([_table(data) for data in kept.values()]).to_pylist()
    assert [row for row in before if row not in rows] == []  # read once, and not again after the outage


def _all_is_lost(proxy: FaultProxy, bucket: str, target: ObjectStore) -> None:
    """From now on nothing of this bucket is answered; not before a shard is safe."""
    wait_until(lambda: next(iter(target.list(STAGED_FOLDER)), None) is not None, STAGE_SECONDS)
    dead = [
        Fault(method, f"^/{bucket}", Kind.ERROR, "InternalError", times=None) for method in ("GET", "HEAD")
    ]
    with proxy.lock:
        proxy.faults[:] = dead


def _table(data: bytes) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(data))
