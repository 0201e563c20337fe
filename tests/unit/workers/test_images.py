"""Image files: frames, modes, resolution, orientation, damage."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, TiffImagePlugin

from workers.inspect_document import inspect
from workers.outcomes import Reason
from workers.rasterize import DocumentFailure, PageFailure, Rasterizer, RasterPage
from workers.sniff import Format


def _sheet(mode: str = "L", size: tuple[int, int] = (600, 900)) -> Image.Image:
    image = Image.new("L", size, 255)
    ImageDraw.Draw(image).rectangle((30, 30, 200, 60), fill=0)
    return image.convert(mode)


def _saved(image: Image.Image, pillow_format: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    image.save(sink, format=pillow_format, **options)
    return sink.getvalue()


def _pages(rasterizer: Rasterizer, data: bytes) -> list[RasterPage]:
    facts = inspect(data, rasterizer.limits, 150, rasterizer)
    assert facts.reason is None, facts.warnings
    pages = [rasterizer.page(page_index, 150) for page_index in range(facts.page_count)]
    assert all(isinstance(page, RasterPage) for page in pages), pages
    for page, estimated in zip(pages, facts.estimated_pixels, strict=True):
        assert isinstance(page, RasterPage)
        assert estimated == page.image.width * page.image.height
    return [page for page in pages if isinstance(page, RasterPage)]


@pytest.mark.parametrize(
    ("mode", "pillow_format", "expected"),
    [
        ("1", "TIFF", "L"),
        ("L", "PNG", "L"),
        ("P", "GIF", "L"),
        ("LA", "PNG", "L"),
        ("RGBA", "PNG", "RGB"),
        ("I;16", "PNG", "L"),
        ("I;16", "TIFF", "L"),
        ("F", "TIFF", "L"),
        ("CMYK", "JPEG", "RGB"),
        ("CMYK", "TIFF", "RGB"),
        ("RGB", "WEBP", "RGB"),
        ("RGB", "BMP", "RGB"),
        ("L", "JPEG2000", "L"),
    ],
)
def test_any_mode_becomes_grey_or_colour(
    mode: str, pillow_format: str, expected: str, rasterizer: Rasterizer
) -> None:
    sheet = _sheet()
    sixteen_bit = Image.fromarray(np.asarray(sheet).astype(np.uint16) * 257)
    sheet = sixteen_bit if mode == "I;16" else sheet.convert(mode)
    (page,) = _pages(rasterizer, _saved(sheet, pillow_format))
    grey = np.asarray(page.image.convert("L"))
    assert page.image.mode == expected
    assert grey[45, 100] < 12
    assert grey[500, 300] > 243


def test_transparency_lies_on_white_paper(rasterizer: Rasterizer) -> None:
    (page,) = _pages(rasterizer, _saved(Image.new("RGBA", (500, 500), (0, 0, 0, 0)), "PNG"))
    assert page.image.getextrema() == ((255, 255),) * 3


def test_every_frame_of_a_tiff_is_a_page_but_previews_are_not(rasterizer: Rasterizer) -> None:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[254] = 1  # a smaller copy of another frame
    preview = _sheet("L", (60, 90))
    preview.encoderinfo = {"tiffinfo": tags}
    data = _saved(_sheet("1"), "TIFF", save_all=True, append_images=[preview, _sheet("RGB", (600, 800))])
    pages = _pages(rasterizer, data)
    assert [page.image.size for page in pages] == [(600, 900), (600, 800)]
    assert any("preview" in text for text in inspect(data, rasterizer.limits, 150).warnings)


@pytest.mark.parametrize(
    ("dpi", "used", "known", "points"),
    [
        ((200, 200), 200, True, (216, 324)),
        ((72, 72), None, False, (600, 900)),
        ((96, 96), 96, False, (450, 675)),
        (None, None, False, (600, 900)),
        ((204, 98), 204, True, (600 * 72 / 204, 1873 * 72 / 204)),
    ],
)
def test_resolution(
    dpi: tuple[int, int] | None,
    used: float | None,
    known: bool,
    points: tuple[float, float],
    rasterizer: Rasterizer,
) -> None:
    options = {"dpi": dpi} if dpi else {}
    (page,) = _pages(rasterizer, _saved(_sheet("1"), "TIFF", compression="group4", **options))
    assert page.dpi_known == known
    assert page.dpi_used == (pytest.approx(used) if used else None)
    assert (page.page_width_points, page.page_height_points) == pytest.approx(points)
    a, _, _, _, e, _ = page.image_to_page
    assert a == pytest.approx(e)


@pytest.mark.parametrize(("orientation", "turn"), [(3, 180), (6, 90), (8, 270)])
def test_orientation_is_applied_and_reported(orientation: int, turn: int, rasterizer: Rasterizer) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    upright = _sheet()
    stored = upright.rotate(turn, expand=True)  # turned back, so that turning clockwise shows it upright
    for pillow_format in ("JPEG", "TIFF"):
        (page,) = _pages(rasterizer, _saved(stored, pillow_format, exif=exif))
        assert page.rotate_key == turn
        assert page.image.size == (600, 900)
        assert np.asarray(page.image)[45, 100] < 30


def test_a_very_fine_scan_is_halved(rasterizer: Rasterizer) -> None:
    (page,) = _pages(
        rasterizer, _saved(_sheet("1", (5100, 6600)), "TIFF", compression="group4", dpi=(600, 600))
    )
    assert page.image.size == (2550, 3300)
    assert page.dpi_used == pytest.approx(300)


@pytest.mark.parametrize("pillow_format", ["JPEG", "PNG", "TIFF"])
def test_a_file_cut_short_gives_what_is_there_and_says_so(pillow_format: str, rasterizer: Rasterizer) -> None:
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 255, (300, 300), np.uint8))
    data = _saved(noise, pillow_format)
    half = data[: len(data) // 2]
    facts = inspect(half, rasterizer.limits, 150, rasterizer)
    if facts.reason is not None:
        assert facts.reason in (Reason.TRUNCATED_FILE, Reason.CORRUPT)
        return
    page = rasterizer.page(0, 150)
    if isinstance(page, PageFailure):
        assert page.reason is Reason.TRUNCATED_FILE
        return
    assert page.repaired
    assert page.warnings[0].startswith("truncated")


def test_a_bomb_is_refused_before_it_is_decoded(rasterizer: Rasterizer) -> None:
    data = _saved(Image.new("L", (60, 60)), "PNG")
    huge = data[:16] + (60_000).to_bytes(4, "big") * 2 + data[24:]
    failed: DocumentFailure | PageFailure
    try:
        rasterizer.open(huge, Format.PNG)
    except DocumentFailure as failure:
        failed = failure
    else:
        page = rasterizer.page(0, 150)
        assert isinstance(page, PageFailure)
        failed = page
    assert failed.reason in (Reason.TOO_LARGE, Reason.CORRUPT)
