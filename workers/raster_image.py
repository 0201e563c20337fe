"""Image files as documents, with Pillow: each frame of a TIFF is a page, square pixels, upright, L or RGB.

Runs in the rasterize child. Decodes whole frames, so their size is checked against the memory limit first.
"""

import warnings as python_warnings
from typing import BinaryIO

from PIL import Image, ImageFile, ImageOps

from fastocr_core.vision.modes import to_grey_or_rgb
from workers.outcomes import Reason
from workers.raster_plan import POINTS_PER_INCH, halvings, is_honest_resolution
from workers.raster_protocol import TRUNCATION_NOTE, ImageFacts, PageError, PageFacts
from workers.sniff import Format

ORIENTATION_TAG = 274
SUBFILE_TYPE_TAG = 254
REDUCED_RESOLUTION_OR_MASK = 1 | 4
ORIENTATION_TURNS = {1: 0, 2: 0, 3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
MIRRORED_ORIENTATIONS = frozenset({2, 4, 5, 7})
SQUARE_TOLERANCE = 0.01
MAX_PIXEL_ASPECT = 4.0
DECODED_SHARE_OF_MEMORY = 0.8
PILLOW_NAMES = {
    Format.TIFF: "TIFF",
    Format.JPEG: "JPEG",
    Format.PNG: "PNG",
    Format.JPEG2000: "JPEG2000",
    Format.WEBP: "WEBP",
    Format.BMP: "BMP",
    Format.GIF: "GIF",
}
MULTI_PAGE_FORMATS = frozenset({Format.TIFF, Format.GIF, Format.WEBP})
TRUNCATION_WORDS = ("truncated", "not enough", "unexpected end", "premature end")


class ImageDocument:
    """An open image file. Its pages are its frames, without the previews some writers add."""

    def __init__(self, file: BinaryIO, image_format: Format, max_pixels: float, memory_bytes: float) -> None:
        """Open the file and count its frames. Raises PageError if it is no image of that format."""
        self._file = file
        Image.MAX_IMAGE_PIXELS = None  # sizes are checked here, against our own limits
        self._max_pixels = max_pixels
        self._memory_bytes = memory_bytes
        self.warnings: list[str] = []
        try:
            self._image = Image.open(file, formats=[PILLOW_NAMES[image_format]])
            self._frames = self._list_frames(image_format)
        except MemoryError as error:
            raise PageError(Reason.TOO_LARGE, "memory limit reached while opening the image") from error
        except Exception as error:
            raise PageError(_reason_for(error, Reason.CORRUPT), f"cannot open the image: {error}") from error

    @property
    def page_count(self) -> int:
        """Number of pages."""
        return len(self._frames)

    @property
    def repaired(self) -> bool:
        """Always false: an image is not repaired on opening, only page by page."""
        return False

    def close(self) -> None:
        """Let go of the file."""
        self._image.close()
        self._file.close()

    def _list_frames(self, image_format: Format) -> list[int]:
        count = int(getattr(self._image, "n_frames", 1))
        if image_format not in MULTI_PAGE_FORMATS:
            if count > 1:
                self.warnings.append(f"holds {count} frames, only the first is a page")
            return [0]
        if image_format is not Format.TIFF or count == 1:
            return list(range(count))
        frames = []
        for index in range(count):
            self._image.seek(index)
            subfile_type = int(self._image.tag_v2.get(SUBFILE_TYPE_TAG, 0))  # type: ignore[attr-defined]
            if not subfile_type & REDUCED_RESOLUTION_OR_MASK:
                frames.append(index)
        if not frames:
            return list(range(count))
        if len(frames) < count:
            self.warnings.append(f"{count - len(frames)} preview or mask frames left out")
        return frames

    def facts(self, page_index: int, wanted_dpi: int) -> PageFacts:
        """Size of a frame from its header."""
        try:
            self._image.seek(self._frames[page_index])
            width, height = self._image.size
        except Exception:
            return PageFacts(None, None, None, 0, 0)
        (square_width, square_height), dpi = _square_size(width, height, _stated_dpi(self._image))
        width_points, height_points = square_width * 72 / dpi, square_height * 72 / dpi
        honest = is_honest_resolution(dpi)
        count = halvings(
            square_width,
            square_height,
            max(width_points, height_points) / POINTS_PER_INCH if honest else None,
            wanted_dpi,
            self._max_pixels,
        )
        return PageFacts(
            width_points, height_points, None, max(1, square_width >> count), max(1, square_height >> count)
        )

    def page(self, page_index: int, wanted_dpi: int) -> tuple[ImageFacts, bytes, list[str], bool]:
        """Decode a frame: facts, pixels, warnings, and whether the file had to be read past damage.

        Raises PageError with too_large, truncated_file or image_error.
        """
        with python_warnings.catch_warnings(record=True) as caught:
            python_warnings.simplefilter("always")
            python_warnings.simplefilter("ignore", ResourceWarning)
            try:
                image, facts, repaired = self._decode(self._frames[page_index], wanted_dpi)
            except PageError:
                raise
            except MemoryError as error:
                raise PageError(Reason.TOO_LARGE, "memory limit reached while decoding") from error
            except Exception as error:
                raise PageError(_reason_for(error, Reason.IMAGE_ERROR), f"cannot decode: {error}") from error
        noted = [str(warning.message) for warning in caught]
        if repaired:
            noted.insert(0, TRUNCATION_NOTE)
        return facts, image.tobytes(), noted, repaired

    def _decode(self, frame: int, wanted_dpi: int) -> tuple[Image.Image, ImageFacts, bool]:
        source = self._image
        source.seek(frame)
        width, height = source.size
        bytes_per_pixel = 2 if source.mode in ("1", "L") else 8  # decoded once, converted once
        if width * height * bytes_per_pixel > DECODED_SHARE_OF_MEMORY * self._memory_bytes:
            raise PageError(Reason.TOO_LARGE, f"{width} x {height} pixels do not fit the memory limit")
        orientation = _orientation(source)
        dpi_across, dpi_down = _stated_dpi(source)
        image, repaired = _load(source)
        oriented = ImageOps.exif_transpose(image)
        if orientation >= 5:
            dpi_across, dpi_down = dpi_down, dpi_across
        plain = to_grey_or_rgb(oriented)
        (width, height), dpi = _square_size(*plain.size, (dpi_across, dpi_down))
        width_points, height_points = width * 72.0 / dpi, height * 72.0 / dpi
        known = (dpi_across, dpi_down) != UNSTATED_DPI and is_honest_resolution(dpi)
        long_side_inches = max(width_points, height_points) / POINTS_PER_INCH if known else None
        count = halvings(width, height, long_side_inches, wanted_dpi, self._max_pixels)
        if count:
            plain = plain.reduce(2**count)
            width, height = -(-width // 2**count), -(-height // 2**count)
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.LANCZOS)
        stated = (dpi_across, dpi_down) != UNSTATED_DPI
        facts = ImageFacts(
            mode=plain.mode,
            width=plain.width,
            height=plain.height,
            page_width_points=width_points,
            page_height_points=height_points,
            rotate_key=ORIENTATION_TURNS[orientation],
            dpi_used=plain.width / width_points * POINTS_PER_INCH if stated else None,
            dpi_known=known,
            how="lifted",
            image_to_page=(width_points / plain.width, 0.0, 0.0, 0.0, height_points / plain.height, 0.0),
        )
        return plain, facts, repaired


UNSTATED_DPI = (POINTS_PER_INCH, POINTS_PER_INCH)  # without a resolution a pixel counts as a point


def _stated_dpi(image: Image.Image) -> tuple[float, float]:
    """Resolution across and down as the file states it; `UNSTATED_DPI` if it states none or nonsense."""
    try:
        across, down = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return UNSTATED_DPI
    sensible = 10.0 <= across <= 10_000.0 and 10.0 <= down <= 10_000.0
    if not sensible or max(across, down) / min(across, down) > MAX_PIXEL_ASPECT:
        return UNSTATED_DPI
    return across, down


def _square_size(width: int, height: int, dpi: tuple[float, float]) -> tuple[tuple[int, int], float]:
    """Size and resolution that make pixels square (a fax has 204 x 98 or 204 x 196)."""
    across, down = dpi
    if abs(across / down - 1.0) <= SQUARE_TOLERANCE:
        return (width, height), across
    finest = max(across, down)
    return (round(width * finest / across), round(height * finest / down)), finest


def _orientation(image: Image.Image) -> int:
    try:
        value = int(image.getexif().get(ORIENTATION_TAG, 1))
    except Exception:  # broken metadata must not cost the picture
        return 1
    return value if value in ORIENTATION_TURNS else 1


def _load(image: Image.Image) -> tuple[Image.Image, bool]:
    """Decode, as far as the data goes. Returns the image and whether something is missing."""
    try:
        image.load()
        return image.copy(), False
    except OSError as error:
        if _reason_for(error, Reason.IMAGE_ERROR) is not Reason.TRUNCATED_FILE:
            raise
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        image.load()
        return image.copy(), True
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False


def _reason_for(error: Exception, otherwise: Reason) -> Reason:
    message = str(error).lower()
    if any(word in message for word in TRUNCATION_WORDS):
        return Reason.TRUNCATED_FILE
    return otherwise
