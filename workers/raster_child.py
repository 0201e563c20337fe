"""The process that touches hostile bytes: opens PDFs with PyMuPDF, images with Pillow, and draws their pages.

It owns nothing worth keeping: the rasterizer kills it when it is late and starts another. This is the only
module that imports PyMuPDF; orders are answered in `raster_service`, resolutions chosen in `raster_plan`.
"""

import faulthandler
import io
import math
import os
import socket
import sys
from typing import Any, BinaryIO

import pymupdf
from PIL import Image

from workers.outcomes import Reason
from workers.raster_image import ImageDocument, with_paper_for_missing
from workers.raster_plan import (
    POINTS_PER_INCH,
    PlacedImage,
    halvings,
    is_honest_scan,
    render_dpi,
)
from workers.raster_protocol import TRUNCATION_NOTE, ImageFacts, PageError, PageFacts
from workers.raster_service import OpenDocument, Pixels, limit_process, resident_bytes, serve
from workers.sniff import Format

COVER_TOLERANCE = 0.005
LIFT_SHARE_OF_MEMORY = 0.3
CACHE_SHARE_OF_MEMORY = 0.15
MEMORY_WORDS = ("malloc", "memory", "too large", "overly large", "out of range")
TAIL_BYTES = 2048
LOSS_WORDS = ("premature end", "padding truncated", "read error", "zlib error", "unknown filter")
INVISIBLE = "ignore-text"
TURNS = {(1, 0): 0, (0, 1): 90, (-1, 0): 180, (0, -1): 270}  # direction of the image's x axis on the page
CLOCKWISE = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


class PdfDocument:
    """An open PDF."""

    def __init__(self, file: BinaryIO, max_pixels: float, memory_bytes: float) -> None:
        """Open the file, which stays open as long as the document. Raises PageError."""
        self._file = file
        self._max_pixels = max_pixels
        self._memory_bytes = memory_bytes
        _take_messages()
        try:
            # By path, so that the file's bytes are not counted against the memory limit.
            self._document = pymupdf.open(f"/proc/self/fd/{file.fileno()}", filetype="pdf")
            locked, self._page_count = bool(self._document.needs_pass), int(self._document.page_count)
        except Exception as error:  # RuntimeError and the library's own classes alike
            raise PageError(self._open_failure(error), f"cannot open: {_one_line(error)}") from error
        if locked:  # asked first: a locked file reports no pages
            raise PageError(Reason.ENCRYPTED, "needs a password to open")
        if self._page_count <= 0:
            reason = Reason.TRUNCATED_FILE if self._is_cut_short() else Reason.NO_PAGES
            raise PageError(reason, "has no pages")
        self._pixmap: Any = None  # of the last page; the pixels handed out are its own
        self._has_labels = bool(self._labels_declared())
        self.warnings = _take_messages()

    @property
    def page_count(self) -> int:
        """Number of pages declared (MuPDF refuses more than there are objects); some may still not load."""
        return self._page_count

    @property
    def repaired(self) -> bool:
        """Whether the file had to be repaired; may turn true only when a page is loaded."""
        return bool(self._document.is_repaired)

    def _spare_memory(self) -> None:
        """Empty the library's cache when memory runs short; otherwise it speeds up pages that share fonts."""
        if resident_bytes()[0] > CACHE_SHARE_OF_MEMORY * self._memory_bytes:
            pymupdf.TOOLS.store_shrink(100)

    def close(self) -> None:
        """Let go of the document and of what the library keeps of it."""
        self._pixmap = None
        self._document.close()
        self._file.close()
        pymupdf.TOOLS.store_shrink(100)

    def _labels_declared(self) -> list[Any]:
        try:
            return list(self._document.get_page_labels())
        except Exception:  # labels are a courtesy
            return []

    def _open_failure(self, error: Exception) -> Reason:
        if _is_about_memory(error):
            return Reason.TOO_LARGE
        return Reason.TRUNCATED_FILE if self._is_cut_short() else Reason.CORRUPT

    def _is_cut_short(self) -> bool:
        """A complete PDF ends with an end mark; a half download does not."""
        self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, self._file.tell() - TAIL_BYTES))
        return b"%%EOF" not in self._file.read()

    def facts(self, page_index: int, wanted_dpi: int) -> PageFacts:
        """Size, label and estimated pixels of a page; its content is not interpreted."""
        try:
            page = self._document.load_page(page_index)
            width, height = _size_points(page)
            label = (page.get_label() or None) if self._has_labels else None
            scans = [
                _as_turned(item[2], item[3], width, height)
                for item in page.get_images()
                if _is_page_shaped(item[2], item[3], width, height)
            ]
            images = [PlacedImage(across, down, width, height, 1.0) for across, down in scans]
        except Exception:  # the page will fail when it is drawn, with its reason
            return PageFacts(None, None, None, 0, 0)
        dpi, _ = render_dpi(width, height, images, False, wanted_dpi, self._max_pixels)
        return PageFacts(
            width,
            height,
            label,
            max(1, round(width / POINTS_PER_INCH * dpi)),
            max(1, round(height / POINTS_PER_INCH * dpi)),
        )

    def page(self, page_index: int, wanted_dpi: int) -> tuple[ImageFacts, Pixels, list[str], bool]:
        """Draw a page, or lift the one image it consists of.

        Returns facts, pixels, warnings, repaired. Raises PageError: corrupt if the page cannot be loaded,
        too_large at the memory limit, else render_error. Data that ends early makes a page repaired.
        """
        _take_messages()
        self._pixmap = None
        try:
            page = self._document.load_page(page_index)
            width, height = _size_points(page)
        except Exception as error:
            reason = Reason.TOO_LARGE if _is_about_memory(error) else Reason.CORRUPT
            raise PageError(reason, f"cannot load the page: {_one_line(error)}") from error
        try:
            facts, pixels = self._draw(page, width, height, wanted_dpi)
        except PageError:
            raise
        except Exception as error:
            reason = Reason.TOO_LARGE if _is_about_memory(error) else Reason.RENDER_ERROR
            raise PageError(reason, f"cannot draw the page: {_one_line(error)}") from error
        finally:
            del page
            self._spare_memory()
        noted = _take_messages()
        if not any(word in message for message in noted for word in LOSS_WORDS):
            return facts, pixels, noted, self.repaired
        image = Image.frombytes(facts.mode, (facts.width, facts.height), pixels)
        return facts, with_paper_for_missing(image).tobytes(), [TRUNCATION_NOTE, *noted], True

    def _draw(self, page: Any, width: float, height: float, wanted_dpi: int) -> tuple[ImageFacts, Pixels]:
        images: list[dict[str, Any]] = []
        has_drawing = True
        if page.get_images():
            operations = [kind for kind, _ in page.get_bboxlog() if kind != INVISIBLE]
            images = [
                _as_shown(item, page) for item in page.get_image_info() if item["width"] and item["height"]
            ]
            has_drawing = any("image" not in kind and "imgmask" not in kind for kind in operations)
            if len(images) == 1 and _is_image_alone(page, operations):
                lifted = self._lift(page, images[0], width, height, wanted_dpi)
                if lifted is not None:
                    return lifted
        placed = [_placed(item, width, height) for item in images]
        dpi, known = render_dpi(width, height, placed, has_drawing, wanted_dpi, self._max_pixels)
        grey = bool(images) and not has_drawing and all(item["colorspace"] == 1 for item in images)
        pixmap = page.get_pixmap(
            matrix=pymupdf.Matrix(dpi / POINTS_PER_INCH, dpi / POINTS_PER_INCH),
            colorspace=pymupdf.csGRAY if grey else pymupdf.csRGB,
            alpha=False,
        )
        scale = POINTS_PER_INCH / dpi
        facts = ImageFacts(
            mode="L" if grey else "RGB",
            width=pixmap.width,
            height=pixmap.height,
            page_width_points=width,
            page_height_points=height,
            rotate_key=int(page.rotation) % 360,
            dpi_used=dpi,
            dpi_known=known,
            how="rendered",
            image_to_page=(scale, 0.0, 0.0, 0.0, scale, 0.0),
        )
        self._pixmap = pixmap
        return facts, pixmap.samples_mv

    def _lift(
        self, page: Any, info: dict[str, Any], width: float, height: float, wanted_dpi: int
    ) -> tuple[ImageFacts, Pixels] | None:
        """Take the embedded image itself, or None where drawing it is the only right way."""
        turn = _quarter_turn(info)
        entries = [
            item for item in page.get_images() if (item[2], item[3]) == (info["width"], info["height"])
        ]
        if turn is None or len(entries) != 1 or entries[0][1] or info["has-mask"]:
            return None
        crop = _visible_pixels(info, turn, width, height)
        if (
            crop is None
            or max(crop[2] - crop[0], crop[3] - crop[1]) < 400
            or not _covers(page, width, height)
        ):
            return None
        crop_width, crop_height = crop[2] - crop[0], crop[3] - crop[1]
        dpi_across, dpi_down = crop_width / width * 72.0, crop_height / height * 72.0
        if abs(dpi_across / dpi_down - 1.0) > 0.02:
            return None
        dpi = max(dpi_across, dpi_down)
        honest = is_honest_scan(width, height, dpi)
        long_side_inches = max(width, height) / POINTS_PER_INCH if honest else None
        count = halvings(crop_width, crop_height, long_side_inches, wanted_dpi, self._max_pixels)
        xref, components = entries[0][0], int(info["colorspace"])
        if components not in (1, 3) or info["width"] * info["height"] * components > (
            LIFT_SHARE_OF_MEMORY * self._memory_bytes
        ):
            return None
        if not (turn or count) and crop == (0, 0, info["width"], info["height"]):
            untouched = self._untouched(xref, info)
            if untouched is not None:
                return _lifted_facts(page, width, height, *untouched, dpi, honest), self._pixmap.samples_mv
        image = self._decode(xref, info, count)
        if image is None:
            return None
        if turn:
            image = image.transpose(CLOCKWISE[turn])
        shrink = _turned_width(info, turn) / image.width
        box = [min(round(value / shrink), limit) for value, limit in zip(crop, image.size * 2, strict=True)]
        if tuple(box) != (0, 0, *image.size):
            image = image.crop((box[0], box[1], box[2], box[3]))
        return _lifted_facts(
            page, width, height, image.mode, image.size, dpi / shrink, honest
        ), image.tobytes()

    def _untouched(self, xref: int, info: dict[str, Any]) -> tuple[str, tuple[int, int]] | None:
        """Keep an embedded image's pixels as they are and say their mode and size; None if they need Pillow."""
        if self._is_plain_jpeg(xref, info):
            return None
        pixmap = self._decoded(xref)
        if pixmap is None or (pixmap.width, pixmap.height) != (info["width"], info["height"]):
            return None
        self._pixmap = pixmap
        return ("L" if pixmap.n == 1 else "RGB"), (pixmap.width, pixmap.height)

    def _decode(self, xref: int, info: dict[str, Any], count: int) -> Image.Image | None:
        """Decode an embedded image to L or RGB, halved `count` times; None if drawing is the safer way."""
        if self._is_plain_jpeg(xref, info):
            return _decode_jpeg(self._document.xref_stream_raw(xref), int(info["colorspace"]), count)
        pixmap = self._decoded(xref)
        if pixmap is None:
            return None
        mode = "L" if pixmap.n == 1 else "RGB"
        size = (pixmap.width, pixmap.height)
        image = Image.frombuffer(mode, size, pixmap.samples, "raw", mode, pixmap.stride, 1)
        # Not by the library's own shrink: that would change the image it keeps for the next page that shows it.
        return image.reduce(2**count) if count else image

    def _is_plain_jpeg(self, xref: int, info: dict[str, Any]) -> bool:
        """Whether Pillow decodes it to the same colours; it can do so at a lower resolution on the way."""
        filters = self._document.xref_get_key(xref, "Filter")[1]
        plain = all(self._document.xref_get_key(xref, key)[0] == "null" for key in ("Decode", "DecodeParms"))
        return bool(
            filters == "/DCTDecode" and plain and str(info["cs-name"]).startswith(("Device", "ICCBased"))
        )

    def _decoded(self, xref: int) -> Any:
        """An embedded image as a grey or RGB pixmap; None if drawing is the safer way."""
        pixmap = pymupdf.Pixmap(self._document, xref)
        if pixmap.alpha or pixmap.colorspace is None or pixmap.n not in (1, 3):
            return None
        if pixmap.n == 3 and "RGB" not in pixmap.colorspace.name:
            pixmap = pymupdf.Pixmap(pymupdf.csRGB, pixmap)
        return pixmap


def _lifted_facts(
    page: Any, width: float, height: float, mode: str, size: tuple[int, int], dpi: float, honest: bool
) -> ImageFacts:
    return ImageFacts(
        mode=mode,
        width=size[0],
        height=size[1],
        page_width_points=width,
        page_height_points=height,
        rotate_key=int(page.rotation) % 360,
        dpi_used=dpi,
        dpi_known=honest,
        how="lifted",
        image_to_page=(width / size[0], 0.0, 0.0, 0.0, height / size[1], 0.0),
    )


def _decode_jpeg(stream: bytes, components: int, count: int) -> Image.Image | None:
    """Decode a JPEG, reduced on the way where it can be; None if it is damaged or not what was promised."""
    try:
        image = Image.open(io.BytesIO(stream), formats=["JPEG"])
        mode = "L" if components == 1 else "RGB"
        if image.mode != mode:
            return None
        full_width = image.width
        if count:
            image.draft(mode, (image.width >> count, image.height >> count))
        image.load()
    except OSError:
        return None
    remaining = count - round(math.log2(full_width / image.width))
    return image.reduce(2**remaining) if remaining > 0 else image


def _size_points(page: Any) -> tuple[float, float]:
    width, height = float(page.rect.width), float(page.rect.height)
    if not (0 < width < math.inf and 0 < height < math.inf):
        raise ValueError(f"page box of {width} x {height} points")
    return width, height


def _as_shown(info: dict[str, Any], page: Any) -> dict[str, Any]:
    """The same placement in the page as shown; the library reports it before the page's /Rotate."""
    turn = page.rotation_matrix
    box = pymupdf.Rect(info["bbox"]) * turn
    return {**info, "bbox": tuple(box), "transform": tuple(pymupdf.Matrix(info["transform"]) * turn)}


def _placed(info: dict[str, Any], width: float, height: float) -> PlacedImage:
    """Drawn size along the image's own axes, and the share of the page its box covers."""
    a, b, c, d, _, _ = info["transform"]
    x0, y0, x1, y1 = info["bbox"]
    seen = max(0.0, min(x1, width) - max(x0, 0.0)) * max(0.0, min(y1, height) - max(y0, 0.0))
    return PlacedImage(
        info["width"], info["height"], math.hypot(a, b), math.hypot(c, d), seen / (width * height)
    )


def _as_turned(image_width: int, image_height: int, width: float, height: float) -> tuple[int, int]:
    """Size of a page-filling image as seen on the page, if it was turned to fit."""
    if (image_width > image_height) == (width > height):
        return image_width, image_height
    return image_height, image_width


def _is_page_shaped(image_width: int, image_height: int, width: float, height: float) -> bool:
    if min(image_width, image_height) <= 0:
        return False
    image_aspect = max(image_width, image_height) / min(image_width, image_height)
    return abs(image_aspect / (max(width, height) / min(width, height)) - 1.0) < 0.1


def _quarter_turn(info: dict[str, Any]) -> int | None:
    """Clockwise quarter turn with which an image is drawn; None if mirrored, or skewed by a pixel or more."""
    a, b, c, d, _, _ = info["transform"]
    upright = abs(a) + abs(d) >= abs(b) + abs(c)
    along_x, along_y, off_x, off_y = (a, d, b, c) if upright else (b, c, a, d)
    slack = 1.0 / max(info["width"], info["height"])
    if abs(off_x) > slack * abs(along_x) or abs(off_y) > slack * abs(along_y):
        return None
    if upright:
        return None if (a > 0) != (d > 0) else TURNS[(1 if a > 0 else -1, 0)]
    return None if (b > 0) == (c > 0) else TURNS[(0, 1 if b > 0 else -1)]


def _turned_width(info: dict[str, Any], turn: int) -> int:
    return int(info["height"] if turn in (90, 270) else info["width"])


def _visible_pixels(
    info: dict[str, Any], turn: int, width: float, height: float
) -> tuple[int, int, int, int] | None:
    """The part of the turned image that the page shows, in its pixels; None if the page is not filled."""
    x0, y0, x1, y1 = info["bbox"]
    slack_x, slack_y = COVER_TOLERANCE * width, COVER_TOLERANCE * height
    if x0 > slack_x or y0 > slack_y or x1 < width - slack_x or y1 < height - slack_y:
        return None
    pixels_across = _turned_width(info, turn)
    pixels_down = int(info["width"] if turn in (90, 270) else info["height"])
    per_x, per_y = pixels_across / (x1 - x0), pixels_down / (y1 - y0)
    left, top = max(0, round(-x0 * per_x)), max(0, round(-y0 * per_y))
    right = min(pixels_across, round((width - x0) * per_x))
    bottom = min(pixels_down, round((height - y0) * per_y))
    return (left, top, right, bottom) if right > left and bottom > top else None


def _is_image_alone(page: Any, operations: list[str]) -> bool:
    """Whether one image is all there is to see: nothing else is drawn, or only beneath it.

    Scans with a text layer often print the text first and the image over it. That counts only where the image
    cannot be transparent: no graphics state that could say so, and no nested content with states of its own.
    """
    if operations[-1:] != ["fill-image"] or page.first_annot is not None or page.first_widget is not None:
        return False
    beneath = operations[:-1]
    if any("image" in kind or "imgmask" in kind for kind in beneath):
        return False
    states = page.parent.xref_get_key(page.xref, "Resources/ExtGState")[0]
    return not beneath or (states == "null" and not page.get_xobjects())


def _covers(page: Any, width: float, height: float) -> bool:
    """Whether every clip leaves the whole page visible, and no transparency group is involved.

    Paths do not matter: a page gets here only if they lie beneath the image.
    """
    slack_x, slack_y = COVER_TOLERANCE * width, COVER_TOLERANCE * height
    for item in page.get_drawings(extended=True):
        if item["type"] == "group":
            return False
        if item["type"] != "clip":
            continue
        x0, y0, x1, y1 = item["scissor"] * page.rotation_matrix
        if x0 > slack_x or y0 > slack_y or x1 < width - slack_x or y1 < height - slack_y:
            return False
    return True


def _is_about_memory(error: Exception) -> bool:
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(word in message for word in MEMORY_WORDS)


def _one_line(error: Exception) -> str:
    """The error's message without the path of this process's descriptor."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return "not a readable PDF" if "/proc/self/fd" in first else first


def _take_messages() -> list[str]:
    """Warnings and errors the library noted since the last call; its own count lines are left out."""
    lines = str(pymupdf.TOOLS.mupdf_warnings(reset=True)).splitlines()
    return [line for line in lines if line and not line.startswith("... repeated")]


def main() -> None:
    """Entry of the child: arguments are descriptor, parent's process id, memory limit, pixel budget."""
    descriptor, parent_pid, memory_bytes, max_pixels = (int(value) for value in sys.argv[1:5])
    faulthandler.enable()
    limit_process(parent_pid, memory_bytes)
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)

    def opener(file: BinaryIO, document_format: Format) -> OpenDocument:
        if document_format is Format.PDF:
            return PdfDocument(file, max_pixels, memory_bytes)
        return ImageDocument(file, document_format, max_pixels, memory_bytes)

    with socket.socket(fileno=descriptor) as connection:
        serve(connection, opener)
