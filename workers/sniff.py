"""What a document is, judged by its bytes alone: names and declared types are not looked at.

Answers with a `Format` we read or with the `Reason` why we do not; opening comes later, in a child process.
"""

import re
from enum import StrEnum

from workers.outcomes import Reason


class Format(StrEnum):
    """Formats that are read. All but pdf are images."""

    PDF = "pdf"
    TIFF = "tiff"
    JPEG = "jpeg"
    PNG = "png"
    JPEG2000 = "jpeg2000"
    WEBP = "webp"
    BMP = "bmp"
    GIF = "gif"


PDF_HEADER_WINDOW_BYTES = 1024  # other readers accept junk before the header up to here
BMP_HEADER_SIZES = frozenset({12, 16, 40, 52, 56, 64, 108, 124})

_IMAGE_STARTS: tuple[tuple[bytes, Format], ...] = (
    (b"II*\x00", Format.TIFF),
    (b"MM\x00*", Format.TIFF),
    (b"II+\x00", Format.TIFF),
    (b"MM\x00+", Format.TIFF),
    (b"\xff\xd8\xff", Format.JPEG),
    (b"\x89PNG\r\n\x1a\n", Format.PNG),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", Format.JPEG2000),
    (b"\xff\x4f\xff\x51", Format.JPEG2000),
    (b"GIF87a", Format.GIF),
    (b"GIF89a", Format.GIF),
)

# Things that do hold pages, or pictures, but that we do not read: the mend is to convert, not to fetch again.
_UNSUPPORTED_STARTS: tuple[bytes, ...] = (
    b"PK\x03\x04",  # zip, and with it docx, epub, odt
    b"PK\x05\x06",
    b"\x1f\x8b",  # gzip
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",  # zstd
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",  # doc, xls, msg
    b"AT&TFORM",  # djvu
    b"%!PS",
    b"{\\rtf",
    b"8BPS",  # Photoshop
    b"\xff\x0a",  # JPEG XL
    b"\x00\x00\x00\x0cJXL \r\n\x87\n",
    b"II\xbc\x01",  # JPEG XR
    b"\x97JB2\r\n\x1a\n",  # JBIG2
    b"qoif",
)

_ISO_MEDIA = re.compile(rb"....ftyp", re.DOTALL)  # HEIF, AVIF and films
_NETPBM = re.compile(rb"P[1-7]\s")


def sniff(data: bytes) -> Format | Reason:
    """Tell the format of a document from its first bytes.

    Returns a format, or `empty_file`, `unsupported_format` (known, not read) or `not_a_document` (anything
    else, such as a sign-in page stored under the name of a PDF). Never raises.
    """
    if not data:
        return Reason.EMPTY_FILE
    head = bytes(data[:PDF_HEADER_WINDOW_BYTES])
    for start, image_format in _IMAGE_STARTS:
        if head.startswith(start):
            return image_format
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Format.WEBP
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in BMP_HEADER_SIZES:
        return Format.BMP
    if head.startswith(_UNSUPPORTED_STARTS) and b"%PDF-" not in head:
        return Reason.UNSUPPORTED_FORMAT
    if b"%PDF-" in head:
        return Format.PDF
    if _ISO_MEDIA.match(head) or _NETPBM.match(head) or data[257:262] == b"ustar":
        return Reason.UNSUPPORTED_FORMAT
    return Reason.NOT_A_DOCUMENT
