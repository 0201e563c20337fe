"""Damaged image files: what is lost is said, and never shown as a page that was read well."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fastocr_core.vision import model_vision
from workers.assess import assess_blank
from workers.inspect_document import inspect
from workers.outcomes import Outcome, Reason
from workers.prepare import prepare_page
from workers.rasterize import PageFailure, Rasterizer, RasterPage

COMPRESSION_TAG = 259
BITS_TAG = 258


def _sheet(seed: int = 1, size: tuple[int, int] = (600, 800), mode: str = "L") -> Image.Image:
    """A page of noisy lines, so that its data is long and no two pages are alike."""
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for x, y in (
        np.random.default_rng(seed).integers((40, 40), (size[0] - 40, size[1] - 40), (400, 2)).tolist()
    ):
        draw.rectangle((x, y, x + 6, y + 9), fill=0)
    return image.convert(mode)


def _saved(image: Image.Image, pillow_format: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    image.save(sink, format=pillow_format, **options)
    return sink.getvalue()


def _directories(data: bytes) -> list[tuple[int, int]]:
    """Position and number of entries of each directory of a little-endian TIFF."""
    found = []
    (position,) = struct.unpack_from("<L", data, 4)
    while position:
        (entries,) = struct.unpack_from("<H", data, position)
        found.append((position, entries))
        (position,) = struct.unpack_from("<L", data, position + 2 + 12 * entries)
    return found


def _with_bad_frames(bad: set[int], tag: int, compression: str) -> bytes:
    """Three frames, of which some have a nonsense value for `tag`."""
    sheets = [_sheet(seed, mode="1" if compression == "group4" else "L") for seed in (1, 2, 3)]
    data = bytearray(
        _saved(sheets[0], "TIFF", save_all=True, append_images=sheets[1:], compression=compression)
    )
    for index, (position, entries) in enumerate(_directories(data)):
        for start in range(position + 2, position + 2 + 12 * entries, 12):
            if index in bad and struct.unpack_from("<H", data, start)[0] == tag:
                struct.pack_into("<H", data, start + 8, 31337)
    return bytes(data)


@pytest.mark.parametrize("place", [0.0, 0.4])
@pytest.mark.parametrize("with_exif", [False, True])
def test_a_png_with_broken_data_fails_instead_of_showing_half_a_page(
    place: float, with_exif: bool, rasterizer: Rasterizer
) -> None:
    data = bytearray(_saved(_sheet(), "PNG", **({"exif": Image.Exif()} if with_exif else {})))
    start = data.find(b"IDAT") + 4
    start += int(place * (len(data) - start))
    data[start : start + 12] = bytes(12)
    assert inspect(bytes(data), rasterizer.limits, 150, rasterizer).reason is None
    for _ in range(2):  # asked again, a library must not answer from the ruins of the first try
        page = rasterizer.page(0, 150)
        assert isinstance(page, PageFailure)
        assert page.reason is Reason.IMAGE_ERROR


def test_a_page_that_was_read_can_be_read_again(rasterizer: Rasterizer) -> None:
    exif = Image.Exif()
    exif[274] = 6
    for pillow_format in ("PNG", "JPEG", "TIFF", "GIF", "WEBP"):
        options = {"exif": exif} if pillow_format != "GIF" else {}
        data = _saved(_sheet(), pillow_format, **options)
        assert inspect(data, rasterizer.limits, 150, rasterizer).reason is None
        pages = [rasterizer.page(0, 150) for _ in range(2)]
        first, second = (page for page in pages if isinstance(page, RasterPage))
        assert first.image.tobytes() == second.image.tobytes()
        assert first.rotate_key == second.rotate_key == (0 if pillow_format == "GIF" else 90)


@pytest.mark.parametrize("bad", [{0}, {1}, {2}, {0, 2}])
@pytest.mark.parametrize("tag", [COMPRESSION_TAG, BITS_TAG])
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
def test_an_unreadable_frame_costs_itself_and_no_other(
    bad: set[int], tag: int, compression: str, rasterizer: Rasterizer
) -> None:
    whole = _with_bad_frames(set(), tag, compression)
    inspect(whole, rasterizer.limits, 150, rasterizer)
    expected = [rasterizer.page(index, 150) for index in range(3)]
    data = _with_bad_frames(bad, tag, compression)
    facts = inspect(data, rasterizer.limits, 150, rasterizer)
    assert (facts.reason, facts.page_count) == (None, 3)
    for index in range(3):
        page, right = rasterizer.page(index, 150), expected[index]
        assert isinstance(right, RasterPage)
        if index in bad:
            assert isinstance(page, PageFailure)
            assert facts.page_sizes[index] is None
        else:
            assert isinstance(page, RasterPage)
            assert page.image.tobytes() == right.image.tobytes()


def test_a_tiff_of_unreadable_frames_only_is_quarantined(rasterizer: Rasterizer) -> None:
    data = _with_bad_frames({0, 1, 2}, COMPRESSION_TAG, "raw")
    assert inspect(data, rasterizer.limits, 150, rasterizer).reason is Reason.CORRUPT


def test_a_frame_that_the_file_no_longer_holds_is_a_failed_page(rasterizer: Rasterizer) -> None:
    data = _with_bad_frames(set(), COMPRESSION_TAG, "raw")
    cut = data[: _directories(data)[2][0]]
    facts = inspect(cut, rasterizer.limits, 150, rasterizer)
    assert (facts.reason, facts.page_count) == (None, 3)
    page = rasterizer.page(2, 150)
    assert isinstance(page, PageFailure)
    assert page.reason is Reason.TRUNCATED_FILE
    assert isinstance(rasterizer.page(1, 150), RasterPage)


def test_a_chain_of_frames_that_bites_its_tail_ends(rasterizer: Rasterizer) -> None:
    data = bytearray(_with_bad_frames(set(), COMPRESSION_TAG, "raw"))
    directories = _directories(data)
    position, entries = directories[-1]
    struct.pack_into("<L", data, position + 2 + 12 * entries, directories[0][0])
    assert inspect(bytes(data), rasterizer.limits, 150, rasterizer).page_count == 3


def test_big_tiff_frames_are_pages(rasterizer: Rasterizer) -> None:
    data = _saved(_sheet(1), "TIFF", save_all=True, append_images=[_sheet(2)], big_tiff=True)
    assert inspect(data, rasterizer.limits, 150, rasterizer).page_count == 2
    pages = [rasterizer.page(index, 150) for index in range(2)]
    first, second = (page for page in pages if isinstance(page, RasterPage))
    assert first.image.tobytes() == _sheet(1).tobytes()
    assert second.image.tobytes() == _sheet(2).tobytes()


@pytest.mark.parametrize("pillow_format", ["JPEG", "PNG", "BMP"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("tone", [255, 225])
def test_a_page_cut_off_above_its_text_is_never_blank(
    pillow_format: str, mode: str, tone: int, rasterizer: Rasterizer
) -> None:
    noise = np.random.default_rng(3).integers(tone - 8, tone + 1, (800, 600), np.uint8)
    data = _saved(Image.fromarray(noise).convert(mode), pillow_format)
    assert inspect(data[: len(data) // 3], rasterizer.limits, 150, rasterizer).reason is None
    page = rasterizer.page(0, 150)
    assert isinstance(page, RasterPage)
    package = prepare_page(page, model_vision("mini"))
    assert np.percentile(np.asarray(page.image.convert("L")), 2) > tone - 30, "missing rows look like paper"
    assert package.is_cut_short
    assert package.repaired
    assert not package.is_blank_for_sure
    verdict = assess_blank(package)
    assert (verdict.outcome, verdict.reason) == (Outcome.FLAGGED, Reason.TRUNCATED_FILE)
    assert verdict.flags == ("no_text", "cut_short", "repaired")


def _pdf_with_image_stream(stream: bytes, filter_name: str) -> bytes:
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>>>",
        b"<</Length 25>>stream\n300 0 0 400 0 0 cm /I Do \nendstream",
        b"<</Type/XObject/Subtype/Image/Width 600/Height 800/BitsPerComponent 8/ColorSpace/DeviceGray"
        b"/Filter/%s/Length %d>>stream\n%s\nendstream" % (filter_name.encode(), len(stream), stream),
    ]
    body, positions = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        positions.append(len(body))
        body += b"%d 0 obj%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % position for position in positions)
    return (
        body
        + b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (
            table,
            len(body),
        )
    )


@pytest.mark.parametrize(
    "filter_name", ["FlateDecode", "DCTDecode", "JPXDecode", "JBIG2Decode", "CCITTFaxDecode", "X"]
)
def test_a_scan_in_a_pdf_that_ends_early_is_never_blank(filter_name: str, rasterizer: Rasterizer) -> None:
    noise = np.random.default_rng(3).integers(248, 256, (800, 600), np.uint8)
    stream = (
        _saved(Image.fromarray(noise), "JPEG")
        if filter_name == "DCTDecode"
        else zlib.compress(noise.tobytes())
    )
    whole = inspect(_pdf_with_image_stream(stream, filter_name), rasterizer.limits, 150, rasterizer)
    if filter_name in ("FlateDecode", "DCTDecode"):
        page = rasterizer.page(0, 150)
        assert isinstance(page, RasterPage)
        assert prepare_page(page, model_vision("mini")).is_blank_for_sure
    assert whole.reason is None
    inspect(
        _pdf_with_image_stream(stream[: len(stream) // 3], filter_name), rasterizer.limits, 150, rasterizer
    )
    page = rasterizer.page(0, 150)
    assert isinstance(page, RasterPage)
    package = prepare_page(page, model_vision("mini"))
    assert package.may_lack_content
    assert not package.is_blank_for_sure
    assert assess_blank(package).outcome is Outcome.FLAGGED
