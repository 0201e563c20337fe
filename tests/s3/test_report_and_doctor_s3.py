"""Report and doctor against a real S3 server."""

from dataclasses import replace

import pytest

from pipeline.config import RunConfig
from pipeline.doctor import Level, Places, examined
from pipeline.doctor_storage import check_credentials, check_source, check_target
from pipeline.report import build_report
from tests.unit.pipeline.hostile_target import PAGES, fill_hostile
from workers.object_store import StorageSettings, open_store

pytestmark = pytest.mark.s3


def test_the_report_of_a_target_in_s3(s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = open_store(f"{s3_bucket}/out put+1", s3_settings)
    fill_hostile(store)
    report = build_report(store)
    assert f"<b>{2 * PAGES + 3}</b>pages published" in report
    assert f"{s3_bucket}/out put+1" in report


def test_the_doctor_on_s3(
    s3_bucket: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(source="-", target="-", model="tiny", storage=s3_settings)
    target, nobody = f"{s3_bucket}/out", Places(None, None)
    assert [finding.level for finding in check_credentials(config)] == [Level.OK]
    assert [finding.level for finding in check_target(target, config, nobody)] == [Level.OK]
    assert list(open_store(s3_bucket, s3_settings).list()) == []
    assert [finding.level for finding in check_source(s3_bucket, config)] == [Level.FAIL]
    open_store(s3_bucket, s3_settings).put("in/a b+c%20#1 ä.pdf", b"%PDF-1.7")
    for source in ("in", "in/a b+c%20#1 ä.pdf", "in/*.pdf"):
        assert [finding.level for finding in check_source(f"{s3_bucket}/{source}", config)] == [Level.OK]
    (missing,) = check_source(f"{s3_bucket}-not-there/in", config)  # the test server makes buckets on writing
    assert missing.level == Level.FAIL
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    # Other settings, so that no client with the good credentials is taken from the cache.
    other = config.model_copy(update={"storage": replace(s3_settings, max_attempts=2)})
    (denied,) = examined("source", lambda: check_source(f"{s3_bucket}/in", other))
    assert denied.level == Level.FAIL
    assert "not-the-secret" not in denied.found
