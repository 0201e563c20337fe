"""Image files as documents, with Pillow: each frame of a TIFF is a page, square pixels, upright, L or RGB.

Runs in the rasterize child. Decodes whole frames, so their size is checked against the memory limit first.
"""

import os
import warnings as python_warnings
import zlib
from typing import BinaryIO

from PIL import Image, ImageChops, ImageFile, ImageOps, ImageStat

from fastocr_core.vision.modes import to_grey_or_rgb
from workers.outcomes import Reason
from workers.raster_plan import POINTS_PER_INCH, halvings, is_honest_resolution
from workers.raster_protocol import TRUNCATION_NOTE, ImageFacts, PageError, PageFacts
from workers.sniff import Format
from workers.tiff_directory import MAX_FRAMES, TiffDirectories

ORIENTATION_TAG = 274
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
MULTI_PAGE_FORMATS = frozenset({Format.GIF, Format.WEBP})
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
SUM_PIECE_BYTES = 1 << 20
TRUNCATION_WORDS = ("truncated", "not enough", "unexpected end", "premature end")


class ImageDocument:
    """An open image file. Its pages are its frames, without the previews some writers add.

    A frame that cannot be read is still a page: its place is kept, and asking for it raises PageError.
    """

    def __init__(self, file: BinaryIO, image_format: Format, max_pixels: float, memory_bytes: float) -> None:
        """Open the file and count its frames. Raises PageError if it is no image of that format."""
        self._file = file
        self._format = image_format
        Image.MAX_IMAGE_PIXELS = None  # sizes are checked here, against our own limits
        self._max_pixels = max_pixels
        self._memory_bytes = memory_bytes
        self._image: Image.Image | None = None
        self._last_decoded = -1
        self._directories: TiffDirectories | None = None
        self.warnings: list[str] = []
        try:
            self.page_count = self._count_frames()
        except PageError:
            raise
        except MemoryError as error:
            raise PageError(Reason.TOO_LARGE, "memory limit reached while opening the image") from error
        except Exception as error:
            raise PageError(_reason_for(error, Reason.CORRUPT), f"cannot open the image: {error}") from error

    @property
    def repaired(self) -> bool:
        """Always false: an image is not repaired on opening, only page by page."""
        return False

    def close(self) -> None:
        """Let go of the file."""
        self._image = None
        self._file.close()

    def _count_frames(self) -> int:
        if self._format is Format.TIFF:
            return self._count_directories()
        image = self._frame(0)
        if self._format in MULTI_PAGE_FORMATS:
            return self._count_by_seeking(image)
        count = int(getattr(image, "n_frames", 1))
        if count > 1:
            self.warnings.append(f"holds {count} frames, only the first is a page")
        return 1

    def _count_directories(self) -> int:
        """Pages of a TIFF file; raises what the first frame raises if none of them can be opened."""
        self._directories = TiffDirectories(self._file)
        count = len(self._directories.offsets)
        if self._directories.left_out:
            self.warnings.append(f"{self._directories.left_out} preview or mask frames left out")
        first_error: Exception | None = None
        for index in range(count):
            try:
                self._frame(index)
                return count
            except Exception as error:
                first_error = first_error or error
        assert first_error is not None
        raise first_error

    def _count_by_seeking(self, image: Image.Image) -> int:
        """Frames of an animation; where one cannot be read, it is the last that counts."""
        try:
            return int(getattr(image, "n_frames", 1))
        except Exception as error:
            self.warnings.append(f"the frames cannot be counted: {error}")
        finally:
            self._image = None
        count = 1
        while count < MAX_FRAMES:
            try:
                self._frame(count)
            except EOFError:
                return count
            except Exception:
                return count + 1
            count += 1
        return count

    def _frame(self, index: int) -> Image.Image:
        """A frame, not decoded yet. Opened anew wherever the library might remember something.

        After an error Pillow takes a half-read frame for a whole one, or the frame before it for this one.
        """
        try:
            if self._directories is not None:
                if self._directories.is_cut_off(index):
                    raise PageError(Reason.TRUNCATED_FILE, "the file ends before this frame")
                file = self._directories.file_at(index)
                self._image = Image.open(file, formats=[PILLOW_NAMES[self._format]])
                return self._image
            if self._image is None or index <= self._last_decoded:
                self._file.seek(0)
                self._image = Image.open(self._file, formats=[PILLOW_NAMES[self._format]])
                self._last_decoded = -1
            if index:
                self._image.seek(index)
            elif self._image.tell():
                self._image.seek(0)
            return self._image
        except BaseException:
            self._image = None
            raise

    def facts(self, page_index: int, wanted_dpi: int) -> PageFacts:
        """Size of a frame from its header."""
        try:
            image = self._frame(page_index)
            width, height = image.size
        except Exception:
            return PageFacts(None, None, None, 0, 0)
        (square_width, square_height), dpi = _square_size(width, height, _stated_dpi(image))
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
                image, facts, repaired = self._decode(page_index, wanted_dpi)
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
        source = self._frame(frame)
        width, height = source.size
        bytes_per_pixel = 2 if source.mode in ("1", "L") else 8  # decoded once, converted once
        if width * height * bytes_per_pixel > DECODED_SHARE_OF_MEMORY * self._memory_bytes:
            raise PageError(Reason.TOO_LARGE, f"{width} x {height} pixels do not fit the memory limit")
        dpi_across, dpi_down = _stated_dpi(source)
        if self._directories is not None:  # loading turns a TIFF upright and forgets that it did
            orientation = _orientation(source)
            image, repaired = self._load(frame, source)
        else:  # asking a PNG first would load it, and hide it if that fails
            image, repaired = self._load(frame, source)
            orientation = _orientation(image)
        oriented = ImageOps.exif_transpose(image)
        if orientation >= 5:
            dpi_across, dpi_down = dpi_down, dpi_across
        plain = to_grey_or_rgb(oriented)
        if repaired:
            plain = with_paper_for_missing(plain)
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

    def _load(self, frame: int, source: Image.Image) -> tuple[Image.Image, bool]:
        """Decode, as far as the data goes. Returns the image and whether something is missing."""
        self._last_decoded = frame
        try:
            source.load()
            image = source.copy()
            if self._format is Format.PNG:
                _check_png_sums(self._file)
            return image, False
        except Exception as error:
            self._image = None
            is_cut_short = isinstance(error, OSError) and _reason_for(error, Reason.IMAGE_ERROR) is not (
                Reason.IMAGE_ERROR
            )
            if not is_cut_short:
                raise
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            source = self._frame(frame)
            source.load()
            return source.copy(), True
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False
            self._image = None


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


def with_paper_for_missing(image: Image.Image) -> Image.Image:
    """An L or RGB image whose even strips along the edges are given the tone of the paper.

    Where data is missing decoders leave black or grey, which would pass for ink, or for a dark page.
    """
    for corner in ((image.width - 1, image.height - 1), (0, 0)):
        colour = image.getpixel(corner)
        box = ImageChops.difference(image, Image.new(image.mode, image.size, colour)).getbbox()
        if box is None:
            return Image.new(image.mode, image.size, "white")
        present = image.crop(box)
        tones = tuple(
            ImageStat.Stat(band).median[0]  # most of a page is paper
            for band in present.split()
        )
        image = Image.new(image.mode, image.size, tones if len(tones) > 1 else tones[0])
        image.paste(present, box)
    return image


def _check_png_sums(file: BinaryIO) -> None:
    """Compare the sums of a PNG's image data, which Pillow passes over. Raises PageError: image_error."""
    file.seek(len(PNG_SIGNATURE))
    while len(head := file.read(8)) == 8:
        remaining, kind = int.from_bytes(head[:4], "big"), head[4:]
        if kind != b"IDAT":
            file.seek(remaining + 4, os.SEEK_CUR)
            continue
        found = zlib.crc32(kind)
        while remaining and (piece := file.read(min(remaining, SUM_PIECE_BYTES))):
            found = zlib.crc32(piece, found)
            remaining -= len(piece)
        stated = file.read(4)
        if len(stated) == 4 and int.from_bytes(stated, "big") != found:
            raise PageError(Reason.IMAGE_ERROR, "the image data is damaged: its checksum is wrong")


def _reason_for(error: Exception, otherwise: Reason) -> Reason:
    message = str(error).lower()
    if any(word in message for word in TRUNCATION_WORDS):
        return Reason.TRUNCATED_FILE
    return otherwise
