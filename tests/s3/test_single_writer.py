"""A storage that does not refuse to overwrite: no run begins there or carries on without a promise, and with the
promise that nobody else writes a run comes to its end, killed on the way or not.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.stored import read_table
from tests.support.fault_proxy import Fault, Kind, fault_proxy
from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, wait_until, write_config
from tests.support.s3_server import S3Server
from workers.layout import PAGES_FOLDER, STAGED_FOLDER, SUCCESS_KEY, WORK_FOLDER
from workers.object_store import ObjectStore, StorageSettings, honours_put_if_absent, open_store

pytestmark = [pytest.mark.s3, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1800)]

DOCUMENTS, PAGES = 3, 4
BEGIN_SECONDS = 600.0
REFUSED = (
    "does not refuse a second writer (put-if-absent): use another target, or --single-writer if you promise"
)


def test_a_run_on_a_storage_that_overwrites_takes_a_promise_each_time(
    s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path
) -> None:
    for number in range(DOCUMENTS):
        make_pdf(tmp_path / "scans" / f"{number}.pdf", PAGES)
    target = open_store(f"{s3_bucket}/out", s3_settings)
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=4)
    careless = Fault("PUT", "", Kind.OVERWRITE, times=None)
    with fault_proxy(s3_server.endpoint_url, careless) as proxy:
        proxy.remove = _remover(s3_server)
        through = StorageSettings(endpoint_url=proxy.endpoint_url, region="us-east-1", path_style=True)
        assert not honours_put_if_absent(open_store(f"{s3_bucket}/other", through))
        options = ("--endpoint-url", proxy.endpoint_url, "--region", "us-east-1", "--path-style")

        def start(*more: str) -> RunProcess:
            return RunProcess.start(str(tmp_path / "scans"), target.root, config, *options, *more)

        _is_refused(start())
        assert list(target.list()) == []

        proxy.overwritten.clear()
        run = start("--single-writer")
        try:
            wait_until(lambda: run.process.poll() is not None or _any(target, STAGED_FOLDER), BEGIN_SECONDS)
            assert run.process.poll() is None, run.output()
        finally:
            run.kill()
        begun = {stored.key: target.get(stored.key) for stored in target.list()}
        assert SUCCESS_KEY not in begun

        _is_refused(start())
        assert {key: target.get(key) for key in begun} == begun

        proxy.overwritten.clear()
        again = start("--single-writer")
        assert again.wait(BEGIN_SECONDS) == 0, again.output()
        assert proxy.overwritten == []  # who looks first sends no condition that would not be kept
        complete = start()  # nothing is left to be written, so nothing has to be promised
        assert complete.wait(BEGIN_SECONDS) == 0, complete.output()
    keys = sorted(stored.key for stored in target.list(PAGES_FOLDER))
    assert len(keys) == DOCUMENTS
    rows = [row for key in keys for row in read_table(target, key, ["source_uri", "page_index"]).to_pylist()]
    assert sorted((Path(row["source_uri"]).name, row["page_index"]) for row in rows) == [
        (f"{number}.pdf", page) for number in range(DOCUMENTS) for page in range(PAGES)
    ]
    assert target.exists(SUCCESS_KEY)
    assert not _any(target, WORK_FOLDER)


def _is_refused(run: RunProcess) -> None:
    assert run.wait(BEGIN_SECONDS) == 1, run.output()
    (said,) = run.output().strip().splitlines()
    assert said.startswith("fastocr: The storage of ")
    assert REFUSED in said


def _any(store: ObjectStore, folder: str) -> bool:
    return next(iter(store.list(folder)), None) is not None


def _remover(server: S3Server) -> Callable[[str], None]:
    """Takes an object away, as a server does that replaces it."""
    client = server.client()

    def remove(path: str) -> None:
        bucket, _, key = path.lstrip("/").partition("/")
        client.delete_object(Bucket=bucket, Key=key.partition("?")[0])

    return remove
