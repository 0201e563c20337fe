"""A storage that stops delivering in the middle ends the run in one sentence; the same command carries on later."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.stored import read_table
from tests.support.fault_proxy import Fault, Kind, fault_proxy
from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, write_config
from tests.support.s3_server import S3Server
from workers.object_store import StorageSettings, open_store

pytestmark = [pytest.mark.s3, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]

DOCUMENTS, PAGES = 3, 2


def test_a_run_that_lost_its_storage_says_so_and_is_carried_on(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    source = open_store(f"{s3_bucket}/scans", s3_settings)
    for number in range(DOCUMENTS):
        make_pdf(tmp_path / f"{number}.pdf", PAGES)
        source.put(f"{number}.pdf", (tmp_path / f"{number}.pdf").read_bytes())
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=2)
    config.write_text(config.read_text() + "[storage]\nmax_attempts = 2\n")
    broken = Fault("GET", "/scans/2.pdf", Kind.ERROR, "InternalError", times=None, after=1)
    with fault_proxy(s3_server.endpoint_url, broken) as proxy:
        options = ["--endpoint-url", proxy.endpoint_url, "--region", "us-east-1", "--path-style"]
        run = RunProcess.start(f"{s3_bucket}/scans", f"{s3_bucket}/out", config, *options)
        assert run.wait(600) == 1, run.output()
        last = run.output().strip().splitlines()[-1]
        assert last.startswith("fastocr: ")
        assert f"{s3_bucket}/scans/2.pdf" in last
        assert "InternalError" in last
        assert "Traceback" not in run.output()
        proxy.faults.clear()
        again = RunProcess.start(f"{s3_bucket}/scans", f"{s3_bucket}/out", config, *options)
        assert again.wait(600) == 0, again.output()
    target = open_store(f"{s3_bucket}/out", s3_settings)
    keys = [stored.key for stored in target.list("pages/")]
    rows = pa.concat_tables([read_table(target, key) for key in keys]).to_pylist()
    counted = Counter((row["source_uri"], row["page_index"]) for row in rows)
    assert counted == Counter(
        (f"{s3_bucket}/scans/{number}.pdf", page) for number in range(DOCUMENTS) for page in range(PAGES)
    )
