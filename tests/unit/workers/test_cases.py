"""Real and broken documents through the real survey and rasterizer: outcome, reason, page count, limits."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workers.blankness import is_blank
from workers.inspect_document import inspect
from workers.outcomes import Reason
from workers.rasterize import PageFailure, Rasterizer, RasterLimits, RasterPage

CASES = [
    "docling_mets_gbs_32044009881525_select.tar.gz",
    "docling_old_newspaper.png",
    "made_zero_byte.pdf",
    "ocrd_kant_0020.jp2",
    "ocrmypdf_cardinal.pdf",
    "ocrmypdf_ccitt.pdf",
    "ocrmypdf_hugemono.pdf",
    "ocrmypdf_invalid.pdf",
    "ocrmypdf_multipage.pdf",
    "ocrmypdf_no_contents.pdf",
    "ocrmypdf_poster.pdf",
    "ocrmypdf_rotated_skew.pdf",
    "ocrmypdf_truetype_font_nomapping.pdf",
    "ocrmypdf_typewriter.png",
    "olmocr_blank_book_pg1.pdf",
    "olmocr_lincoln_letter.pdf",
    "olmocr_newspaper.pdf",
    "olmocr_small_page_size.pdf",
    "pdfjs_Pages-tree-refs.pdf",
    "pdfjs_bomb_giant.pdf",
    "pdfjs_helloworld-bad.pdf",
    "pdfjs_poppler-67295-0.pdf",
    "pdfjs_print_protection.pdf",
    "pil_g4-multi.tiff",
    "pil_multipage_single_frame_loop.tiff",
    "pil_total-pages-zero.tif",
    "pil_truncated_jpeg.jpg",
    "pypdf_Seige_of_Vicksburg_Sample_OCR.pdf",
    "pypdf_r6-owner-password.pdf",
    "tess_8087_054.3B.tif",
    "tess_eurotext.tif",
    "unstructured_irm_400_pages.pdf",
]
PAGES_TRIED = 6


def test_every_case_of_the_index_is_tried(case_index: dict[str, Any]) -> None:
    assert sorted(case_index) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_case(
    name: str, cases_dir: Path, case_index: dict[str, dict[str, Any]], rasterizer: Rasterizer
) -> None:
    expected = case_index[name]
    may_be_read = bool(re.search(r"\b(ok|partial)\b", expected["status"]))
    reasons = {Reason(reason) for reason in re.findall(r"quarantine\((\w+)\)", expected["status"])}
    data = (cases_dir / name).read_bytes()

    facts = inspect(data, rasterizer.limits, 150, rasterizer)

    if facts.reason is not None:
        assert facts.reason in reasons
        assert facts.page_count == 0
        return
    assert may_be_read
    assert facts.page_count == expected["pages"] == len(facts.pages)
    assert facts.repaired == expected["verified"].get("repaired", False)
    for page_index in range(min(facts.page_count, PAGES_TRIED)):
        page = rasterizer.page(page_index, 150)
        if isinstance(page, PageFailure):
            assert (expected["status"], page_index, page.reason) == ("partial", 1, Reason.CORRUPT)
            continue
        assert page.image.width * page.image.height <= rasterizer.limits.max_pixels
        assert page.image.mode in ("L", "RGB")
        assert is_blank(page.image).is_blank == _is_expected_blank(expected, page_index, page)


def _is_expected_blank(expected: dict[str, Any], page_index: int, page: RasterPage) -> bool:
    if "blank_pages" in expected["expect"]:
        return page_index + 1 in expected["expect"]["blank_pages"]
    return "(blank)" in expected["status"] or max(page.image.size) <= 100  # two cases are mere thumbnails


def _page(cases_dir: Path, rasterizer: Rasterizer, name: str, page_index: int = 0) -> RasterPage:
    data = (cases_dir / name).read_bytes()
    facts = inspect(data, rasterizer.limits, 150, rasterizer)
    assert facts.reason is None
    page = rasterizer.page(page_index, 150)
    assert isinstance(page, RasterPage), page
    return page


@pytest.mark.parametrize(
    ("name", "size", "how", "believed"),
    [
        ("ocrmypdf_ccitt.pdf", (2550, 3300), "lifted", True),
        ("olmocr_small_page_size.pdf", (1506, 2510), "rendered", False),
        ("ocrmypdf_poster.pdf", (2550, 5100), "rendered", False),
        ("olmocr_lincoln_letter.pdf", (2449, 3023), "lifted", False),
        ("pil_total-pages-zero.tif", (1728, 2244), "lifted", True),
        ("olmocr_newspaper.pdf", (2498, 4056), "rendered", True),
        ("docling_old_newspaper.png", (1473, 2000), "lifted", False),
    ],
)
def test_a_scan_keeps_its_pixels_and_a_lying_size_is_not_believed(
    name: str, size: tuple[int, int], how: str, believed: bool, cases_dir: Path, rasterizer: Rasterizer
) -> None:
    page = _page(cases_dir, rasterizer, name)
    assert (page.image.size, page.how, page.dpi_known) == (size, how, believed)


def test_a_huge_page_is_clamped_to_the_budget_and_says_so(cases_dir: Path, rasterizer: Rasterizer) -> None:
    page = _page(cases_dir, rasterizer, "ocrmypdf_hugemono.pdf")
    assert page.image.width * page.image.height <= 40e6
    assert page.dpi_used == pytest.approx(page.image.width / 8400 * 72, rel=0.01)
    assert not is_blank(page.image).is_blank


def test_a_rotate_key_is_applied_and_reported(cases_dir: Path, rasterizer: Rasterizer) -> None:
    page = _page(cases_dir, rasterizer, "ocrmypdf_rotated_skew.pdf")
    assert page.rotate_key == 90
    assert (page.page_width_points, page.page_height_points) == (612, 792)


def test_a_truncated_picture_is_read_with_a_warning(cases_dir: Path, rasterizer: Rasterizer) -> None:
    page = _page(cases_dir, rasterizer, "pil_truncated_jpeg.jpg")
    assert page.repaired
    assert page.warnings[0].startswith("truncated")


def test_last_page_of_a_long_document_is_blank(cases_dir: Path, rasterizer: Rasterizer) -> None:
    page = _page(cases_dir, rasterizer, "unstructured_irm_400_pages.pdf", 399)
    assert is_blank(page.image).is_blank


LIMITED = [
    "ocrmypdf_hugemono.pdf",
    "ocrmypdf_poster.pdf",
    "pdfjs_bomb_giant.pdf",
    "pil_multipage_single_frame_loop.tiff",
]


def test_every_limit_of_the_index_is_tried(case_index: dict[str, Any]) -> None:
    limited = [
        name
        for name, line in case_index.items()
        if {"max_seconds", "max_peak_rss_mb"} & line["expect"].keys()
    ]
    assert sorted(limited) == LIMITED


@pytest.mark.parametrize("name", LIMITED)
def test_memory_and_time_stay_within_the_stated_limits(
    name: str, cases_dir: Path, case_index: dict[str, dict[str, Any]]
) -> None:
    expect = case_index[name]["expect"]
    seconds = float(expect.get("max_seconds", RasterLimits().seconds_per_page))
    limits = replace(RasterLimits(), seconds_per_page=seconds, seconds_to_open=seconds)
    with Rasterizer(limits) as fresh:  # which kills the child at these
        _page(cases_dir, fresh, name)
        assert fresh.children_started == 1
        assert fresh.peak_bytes <= expect.get("max_peak_rss_mb", 1500) * 1e6


def test_memory_does_not_grow_with_the_page_number(cases_dir: Path) -> None:
    with Rasterizer() as fresh:
        _page(cases_dir, fresh, "unstructured_irm_400_pages.pdf", 30)
        for page_index in range(31):
            fresh.page(page_index, 100)
        early = fresh.peak_bytes
        for page_index in range(31, 130):
            fresh.page(page_index, 100)
        assert fresh.children_started == 1
        assert fresh.peak_bytes < early + 20e6
