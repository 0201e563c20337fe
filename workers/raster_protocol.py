"""What the rasterizer and its child say to each other: small frames over a Unix socket.

A frame is a JSON header, the raw pixels behind it and, for a document, an open file descriptor beside it.
Only plain data crosses (no pickle): a child that was taken over by a hostile file can send bytes, not code.
"""

import json
import os
import socket
import struct
import time
from dataclasses import asdict, dataclass

from workers.outcomes import Reason

_PREFIX = struct.Struct("!IQ")  # bytes of the header, bytes of the payload
MAX_HEADER_BYTES = 64 * 1024 * 1024
MAX_DESCRIPTORS = 1
TRUNCATION_NOTE = "truncated: the image data ends early, the rest of the page is missing"

Affine = tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Request:
    """An order to the child. `action` is "open" (a descriptor comes along), "facts", "page" or "close"."""

    action: str
    format: str = ""
    page_index: int = 0
    page_count: int = 0
    wanted_dpi: int = 0


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What is known of a page without drawing it. Sizes are None where the page cannot be loaded."""

    width_points: float | None
    height_points: float | None
    label: str | None
    estimated_width_pixels: int
    estimated_height_pixels: int


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """The image of one page; its pixels follow as the payload, row by row, `mode` L or RGB."""

    mode: str
    width: int
    height: int
    page_width_points: float
    page_height_points: float
    rotate_key: int
    dpi_used: float | None
    dpi_known: bool
    how: str
    image_to_page: Affine


@dataclass(frozen=True, slots=True)
class Reply:
    """The child's answer: a failure has a reason; memory figures come with every answer."""

    reason: str | None = None
    detail: str = ""
    warnings: tuple[str, ...] = ()
    page_count: int = 0
    repaired: bool = False
    pages: tuple[PageFacts, ...] = ()
    image: ImageFacts | None = None
    resident_bytes: int = 0
    peak_bytes: int = 0


class PageError(Exception):
    """Inside the child: a page or document fails for a reason from the closed list."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def encode_request(request: Request) -> bytes:
    """Serialize an order."""
    return json.dumps(asdict(request)).encode()


def decode_request(header: bytes) -> Request:
    """Inverse of `encode_request`."""
    return Request(**json.loads(header))


def encode_reply(reply: Reply) -> bytes:
    """Serialize an answer."""
    return json.dumps(asdict(reply)).encode()


def decode_reply(header: bytes) -> Reply:
    """Inverse of `encode_reply`; raises ValueError, TypeError or KeyError on anything else."""
    fields = json.loads(header)
    fields["warnings"] = tuple(str(warning) for warning in fields["warnings"])
    fields["pages"] = tuple(PageFacts(**page) for page in fields["pages"])
    if fields["image"] is not None:
        image = dict(fields["image"])
        image["image_to_page"] = tuple(float(value) for value in image["image_to_page"])
        fields["image"] = ImageFacts(**image)
    return Reply(**fields)


def send_frame(
    connection: socket.socket,
    header: bytes,
    payload: bytes | bytearray | memoryview = b"",
    descriptor: int | None = None,
) -> None:
    """Send one frame. Raises OSError if the other side is gone."""
    view = memoryview(payload).cast("B")
    prefix = _PREFIX.pack(len(header), len(view))
    if descriptor is None:
        connection.sendall(prefix + header)
    else:
        socket.send_fds(connection, [prefix], [descriptor])
        connection.sendall(header)
    connection.sendall(view)


def receive_frame(
    connection: socket.socket, seconds: float | None = None
) -> tuple[bytes, bytearray, int | None]:
    """Receive header, payload and, if one came along, a descriptor (the caller closes it).

    Raises TimeoutError after `seconds` in all, ConnectionError if the other side is gone or talks nonsense.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    _apply_deadline(connection, deadline)
    prefix, descriptors, _, _ = socket.recv_fds(connection, _PREFIX.size, MAX_DESCRIPTORS)
    descriptor = descriptors[0] if descriptors else None
    try:
        missing = _PREFIX.size - len(prefix)
        if not prefix:
            raise ConnectionError("the other side closed the connection")
        prefix += bytes(_receive_exactly(connection, missing, deadline))
        header_bytes, payload_bytes = _PREFIX.unpack(prefix)
        if header_bytes > MAX_HEADER_BYTES:
            raise ConnectionError("frame header too long")
        header = bytes(_receive_exactly(connection, header_bytes, deadline))
        payload = _receive_exactly(connection, payload_bytes, deadline)
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    return header, payload, descriptor


def _receive_exactly(connection: socket.socket, count: int, deadline: float | None) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        _apply_deadline(connection, deadline)
        received = connection.recv_into(view)
        if received == 0:
            raise ConnectionError("the other side closed the connection")
        view = view[received:]
    return buffer


def _apply_deadline(connection: socket.socket, deadline: float | None) -> None:
    if deadline is None:
        connection.settimeout(None)
        return
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("no answer in time")
    connection.settimeout(remaining)
