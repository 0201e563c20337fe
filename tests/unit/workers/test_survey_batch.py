"""What the survey says of documents: by content, whatever they are called, and never by raising."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fastocr_core.vision import model_vision
from workers import survey
from workers.object_store import LocalStore, StorageSettings, StoredObject
from workers.rasterize import RasterLimits
from workers.schema import ManifestDocument, ManifestPage, rows_to_table
from workers.survey import Batch, SurveyTask, inspected, survey_batch
from workers.surveyed import batch_from_parquet, batch_from_rows, batch_to_parquet

TASK = SurveyTask(RasterLimits(), model_vision("tiny"), StorageSettings())


def _image(pillow_format: str, frames: int = 1, **options: Any) -> bytes:
    sink = io.BytesIO()
    pictures = [Image.new("RGB", (90, 60), (9 * frame, 80, 200)) for frame in range(frames)]
    more = {"save_all": True, "append_images": pictures[1:]} if frames > 1 else {}
    pictures[0].save(sink, pillow_format, **more, **options)
    return sink.getvalue()


FORMATS = {
    "tiff": (_image("TIFF", 3, compression="tiff_lzw"), 3),
    "bigtiff": (_image("TIFF", 2, big_tiff=True), 2),
    "jpeg": (_image("JPEG"), 1),
    "png": (_image("PNG"), 1),
    "jpeg2000": (_image("JPEG2000"), 1),
    "codestream": (_image("JPEG2000", no_jp2=True), 1),
    "webp": (_image("WEBP"), 1),
    "bmp": (_image("BMP"), 1),
    "gif": (_image("GIF", 4), 4),
    "pdf": (_image("PDF", 2), 2),
}
CALLED = {"bigtiff": "tiff", "codestream": "jpeg2000"}


def _listed(folder: Path) -> list[StoredObject]:
    return sorted(LocalStore(str(folder)).list(), key=lambda stored: stored.uri)


def test_every_format_is_known_by_content_under_any_name(tmp_path: Path) -> None:
    endings = [".pdf", ".txt", "", ".PNG", ".exe", ".tif", ".jpg", ".html", ".gz", ".bmp"]
    expected = {}
    for ending, (name, (data, pages)) in zip(endings, FORMATS.items(), strict=True):
        file = tmp_path / name / f"same +%41 #{ending}"
        file.parent.mkdir()
        file.write_bytes(data)
        expected[str(file)] = (CALLED.get(name, name), pages, None)
    batch = inspected(_listed(tmp_path), TASK)
    rows = batch.documents.to_pylist()
    assert {row["source_uri"]: (row["format"], row["page_count"], row["reason"]) for row in rows} == expected
    assert batch.pages.num_rows == sum(pages for _, pages in FORMATS.values())
    assert all(tokens > 0 for tokens in batch.pages.column("estimated_image_tokens").to_pylist())


def test_what_a_list_named_without_a_version_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(FORMATS["png"][0])
    known = _listed(tmp_path)[0]
    named = [replace(known, etag="", bytes=0), StoredObject(f"{tmp_path}/gone.pdf", "gone.pdf", 0, "")]
    named.append(StoredObject(str(tmp_path), tmp_path.name, 0, ""))
    rows = inspected(named, TASK).documents.to_pylist()
    assert [(row["reason"], row["etag"], row["bytes"]) for row in rows] == [
        (None, known.etag, known.bytes),
        ("storage_missing", None, 0),
        ("storage_missing", None, 0),
    ]
    assert rows[0]["document_id"] == inspected([known], TASK).documents.to_pylist()[0]["document_id"]


def test_a_document_that_changed_after_the_listing_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(FORMATS["png"][0])
    objects = _listed(tmp_path)
    (tmp_path / "a.png").write_bytes(FORMATS["bmp"][0])
    (row,) = inspected(objects, TASK).documents.to_pylist()
    assert (row["reason"], row["content_hash"], row["page_count"]) == ("changed_during_run", None, 0)


def test_a_large_thing_that_is_no_document_is_never_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "film.mov").write_bytes(b"\0\0\0\x14ftypqt  " + bytes(5000))
    (tmp_path / "scan.png").write_bytes(_image("PNG", 1))
    monkeypatch.setattr(survey, "LARGE_DOCUMENT_BYTES", 20)
    whole: list[str] = []
    get = LocalStore.get
    monkeypatch.setattr(
        LocalStore, "get", lambda self, key, etag=None: whole.append(key) or get(self, key, etag)
    )
    rows = inspected(_listed(tmp_path), TASK).documents.to_pylist()
    assert [row["reason"] for row in rows] == ["unsupported_format", None]
    assert whole == ["scan.png"]
    monkeypatch.setattr(survey, "MOST_DOCUMENT_BYTES", 30)
    rows = inspected(_listed(tmp_path), TASK).documents.to_pylist()
    assert [row["reason"] for row in rows] == ["unsupported_format", "too_large"]


def test_the_findings_that_are_stored_first_count(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(FORMATS["png"][0])
    batch = Batch(3, tuple(_listed(tmp_path)))
    task = replace(TASK, target=str(tmp_path / "target"), listing_id="abc")
    first = survey_batch(batch, task)
    (tmp_path / "a.png").write_bytes(b"")
    assert survey_batch(batch, task) == first
    assert batch_from_parquet(first).pages.num_rows == 1


rows_of = st.lists(st.tuples(st.integers(0, 4), st.text(max_size=5), st.booleans()), max_size=12)


@given(rows_of)
def test_findings_come_back_from_storage_as_they_went(shape: list[tuple[int, str, bool]]) -> None:
    documents, pages = [], []
    for number, (count, name, odd) in enumerate(shape):
        identifier = f"{number:032x}"
        warnings = (name,) if odd else ()
        documents.append(
            ManifestDocument(identifier, name, None, number, page_count=count, warnings=warnings)
        )
        for index in range(count):
            width = None if odd else 72.5
            pages.append(
                ManifestPage(f"{identifier}-{index}", identifier, name, None, 1, None, "pdf", index, count,
                             page_label=name or None, width_points=width)
            )  # fmt: skip
    found = batch_from_parquet(batch_to_parquet(batch_from_rows(documents, pages)))
    assert found.documents.equals(rows_to_table(documents, ManifestDocument))
    assert found.pages.equals(rows_to_table(pages, ManifestPage))
