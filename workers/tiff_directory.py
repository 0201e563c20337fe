"""The frames of a TIFF file, found by following its chain of directories, and each opened on its own.

Pillow reaches a frame through all frames before it, so that one it cannot read hides the rest. Here every
frame keeps its place, readable or not.
"""

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

from workers.outcomes import Reason
from workers.raster_protocol import PageError

MAX_FRAMES = 65_536
SUBFILE_TYPE_TAG = 254
REDUCED_RESOLUTION_OR_MASK = 1 | 4
MAX_DIRECTORY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a file writes numbers: classic TIFF or BigTIFF, in either byte order."""

    order: str
    is_big: bool

    @property
    def count(self) -> struct.Struct:
        """Number of entries of a directory."""
        return struct.Struct(self.order + ("Q" if self.is_big else "H"))

    @property
    def offset(self) -> struct.Struct:
        """Position in the file."""
        return struct.Struct(self.order + ("Q" if self.is_big else "L"))

    @property
    def entry_bytes(self) -> int:
        """Length of one entry: tag, type, count, value."""
        return 20 if self.is_big else 12


class TiffDirectories:
    """Positions of a file's directories, previews and masks left out. A directory cut off counts: it was a page."""

    def __init__(self, file: BinaryIO) -> None:
        """Follow the chain. Raises PageError if there is none, or if it is too long to be honest."""
        self._file = file
        self._file_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        header = file.read(16)
        self._layout = _Layout("<" if header[:2] == b"II" else ">", header[2:4] in (b"+\0", b"\0+"))
        self._header = header[: 16 if self._layout.is_big else 8]
        found: list[tuple[int, bool]] = []
        seen: set[int] = set()
        position: int | None = self._unpacked(self._layout.offset, self._header[-self._layout.offset.size :])
        while position and position not in seen:
            if len(found) == MAX_FRAMES:
                raise PageError(Reason.TOO_LARGE, f"more than {MAX_FRAMES} frames")
            seen.add(position)
            is_page, following = self._read_directory(position)
            found.append((position, is_page))
            position = following
        if not found:
            raise PageError(Reason.CORRUPT, "cannot open the image: it has no directory of frames")
        pages = [offset for offset, is_page in found if is_page]
        self.offsets = pages or [offset for offset, _ in found]
        self.left_out = len(found) - len(self.offsets)

    def is_cut_off(self, index: int) -> bool:
        """Whether the file ends before this directory begins."""
        return self.offsets[index] + self._layout.count.size > self._file_bytes

    def file_at(self, index: int) -> "BinaryIO":
        """The file as if it began with this frame."""
        size = self._layout.offset.size
        header = self._header[:-size] + self._layout.offset.pack(self.offsets[index])
        self._file.seek(0)
        return _HeadedFile(self._file, header)  # type: ignore[return-value]  # all that Pillow asks for

    def _read_directory(self, position: int) -> tuple[bool, int | None]:
        """Whether a directory is a page, and where the next one is; None where the chain breaks."""
        layout = self._layout
        if position + layout.count.size > self._file_bytes:
            return True, None
        self._file.seek(position)
        entries = self._unpacked(layout.count, self._file.read(layout.count.size)) or 0
        length = entries * layout.entry_bytes
        if length > MAX_DIRECTORY_BYTES:
            return True, None
        data = self._file.read(length + layout.offset.size)
        is_page = not self._subfile_type(data[:length]) & REDUCED_RESOLUTION_OR_MASK
        return is_page, self._unpacked(layout.offset, data[length:])

    def _subfile_type(self, entries: bytes) -> int:
        for start in range(0, len(entries) - self._layout.entry_bytes + 1, self._layout.entry_bytes):
            tag, kind = struct.unpack_from(self._layout.order + "HH", entries, start)
            if tag == SUBFILE_TYPE_TAG:
                value = start + self._layout.entry_bytes - self._layout.offset.size
                return int(
                    struct.unpack_from(self._layout.order + ("H" if kind == 3 else "L"), entries, value)[0]
                )
        return 0

    @staticmethod
    def _unpacked(form: struct.Struct, data: bytes) -> int | None:
        return int(form.unpack(data[: form.size])[0]) if len(data) >= form.size else None


class _HeadedFile:
    """A file with another header; what libtiff reads through the descriptor is the file itself."""

    def __init__(self, file: BinaryIO, header: bytes) -> None:
        self._file = file
        self._header = header

    def read(self, size: int = -1) -> bytes:
        """Bytes from here on, the header's own replaced."""
        position = self._file.tell()
        data = self._file.read(size)
        if position >= len(self._header):
            return data
        return self._header[position : position + len(data)] + data[len(self._header) - position :]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._file.tell()

    def fileno(self) -> int:
        """The descriptor, for libtiff, which is told the directory by its position."""
        return self._file.fileno()

    def flush(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """The document closes its file itself."""
