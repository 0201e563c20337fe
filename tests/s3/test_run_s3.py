"""A whole run from one bucket prefix to another, and clear words when storage says no."""

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.made_archive import make_pdf
from tests.support.run_process import RunProcess, write_config
from workers.object_store import StorageSettings, open_store

pytestmark = [pytest.mark.s3, pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(1200)]
KEYS = ["a/same name.pdf", "b/same name.pdf", "odd +%41#ä.pdf"]


def test_from_s3_to_s3(s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path) -> None:
    source = open_store(f"{s3_bucket}/scans", s3_settings)
    for number, key in enumerate(KEYS):
        make_pdf(tmp_path / f"{number}.pdf", pages=4)
        source.put(key, (tmp_path / f"{number}.pdf").read_bytes())
    source.put("c/broken.pdf", b"%PDF-1.7 and then nothing")
    config = write_config(tmp_path / "run.toml", shard_pages=2, part_pages=6)
    options = ["--endpoint-url", str(s3_settings.endpoint_url), "--region", "us-east-1", "--path-style"]
    run = RunProcess.start(f"{s3_bucket}/scans", f"{s3_bucket}/out", config, *options)
    assert run.wait(600) == 3, run.output()
    target = open_store(f"{s3_bucket}/out", s3_settings)
    keys = sorted(stored.key for stored in target.list())
    assert [key for key in keys if key.startswith("pages/")] == [
        "pages/part-00000.parquet",
        "pages/part-00001.parquet",
    ]
    assert "_SUCCESS" in keys
    assert not [key for key in keys if key.startswith("_work/")]
    rows = []
    for key in keys:
        if key.startswith("pages/"):
            with target.open(key) as reader:
                rows += pq.read_table(reader, columns=["source_uri", "page_index"]).to_pylist()
    expected = [(f"{s3_bucket}/scans/{key}", page) for key in sorted(KEYS) for page in range(4)]
    assert [(row["source_uri"], row["page_index"]) for row in rows] == expected


def test_a_bucket_that_is_not_there_is_one_sentence(
    s3_settings: StorageSettings, s3_bucket: str, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "run.toml")
    settings = dataclasses.asdict(s3_settings)
    options = ["--endpoint-url", settings["endpoint_url"], "--region", "us-east-1", "--path-style"]
    run = RunProcess.start("s3://not-there-at-all/scans", f"{s3_bucket}/out", config, *options)
    assert run.wait(120) == 1
    assert "no such bucket" in run.output()
    assert "Traceback" not in run.output()
