"""Formats are told by content."""

import gzip
import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from workers.outcomes import Reason
from workers.sniff import Format, sniff


def _image(pillow_format: str) -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (20, 20), "white").save(sink, format=pillow_format)
    return sink.getvalue()


def _zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("page.txt", "words")
    return sink.getvalue()


@pytest.mark.parametrize("image_format", ["TIFF", "JPEG", "PNG", "JPEG2000", "WEBP", "BMP", "GIF"])
def test_images(image_format: str) -> None:
    assert sniff(_image(image_format)) is Format(image_format.lower())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", Reason.EMPTY_FILE),
        (b"%PDF-1.7\nrest", Format.PDF),
        (b"\xef\xbb\xbf\r\n%PDF-1.4", Format.PDF),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.4", Format.PDF),
        (b"\xff\x4f\xff\x51\x00", Format.JPEG2000),
        (b"<!DOCTYPE html><html>Please sign in</html>", Reason.NOT_A_DOCUMENT),
        (b"BM and then words of a text", Reason.NOT_A_DOCUMENT),
        (b"plain words", Reason.NOT_A_DOCUMENT),
        (b"\x00" * 600, Reason.NOT_A_DOCUMENT),
        (_zip(), Reason.UNSUPPORTED_FORMAT),
        (gzip.compress(b"words", mtime=0), Reason.UNSUPPORTED_FORMAT),
        (b"AT&TFORM\x00\x00\x01\x00DJVM", Reason.UNSUPPORTED_FORMAT),
        (b"\x00\x00\x00\x20ftypheic\x00\x00\x00\x00", Reason.UNSUPPORTED_FORMAT),
        (b"P4\n20 20\n", Reason.UNSUPPORTED_FORMAT),
        (bytes(257) + b"ustar\x0000", Reason.UNSUPPORTED_FORMAT),
    ],
)
def test_other_content(data: bytes, expected: Format | Reason) -> None:
    assert sniff(data) is expected


@given(st.binary(max_size=400))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    assert isinstance(sniff(data), Format | Reason)
