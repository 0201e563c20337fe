"""Pages as images, from documents nobody vouches for: owns one killable child that does the risky part.

A crash or a hang costs the page that caused it, never the process or the next page. Nothing here opens a
document itself; the bytes go to the child as an open file, so that they exist once and survive its death.
"""

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from PIL import Image

from workers.outcomes import Reason
from workers.raster_protocol import (
    Affine,
    PageFacts,
    Reply,
    Request,
    decode_reply,
    encode_request,
    receive_frame,
    send_frame,
)
from workers.sniff import Format

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
CHILD_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from workers.raster_child import main; main()"
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
RECYCLE_SHARE_OF_MEMORY = 0.5
STDERR_TAIL_BYTES = 400
FACTS_PER_REQUEST = 128
SECONDS_TO_START = 120.0  # libraries may come from a slow network disk
START_ATTEMPTS = 3
LEAST_SECONDS = 0.1
LEAST_MEMORY_BYTES = 300e6  # below this the libraries alone leave no room for a page
LEAST_PIXELS = 10_000


@dataclass(frozen=True, slots=True)
class RasterLimits:
    """What one page may cost. `memory_bytes` is the child's address space, 0.1e9 of it the libraries."""

    seconds_per_page: float = 30.0
    seconds_to_open: float = 60.0
    memory_bytes: float = 1.5e9
    max_pixels: float = 40e6
    recycle_after_pages: int = 200
    crash_retries: int = 1  # a fresh child gets one more try: the old one's state may have been the cause

    def __post_init__(self) -> None:
        """Refuse what no page could be drawn with; raises ValueError."""
        least = {
            "seconds_per_page": LEAST_SECONDS,
            "seconds_to_open": LEAST_SECONDS,
            "memory_bytes": LEAST_MEMORY_BYTES,
            "max_pixels": LEAST_PIXELS,
            "recycle_after_pages": 1,
            "crash_retries": 0,
        }
        for name, lowest in least.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= lowest):
                raise ValueError(f"{name} must be at least {lowest:g}, not {value:g}")


@dataclass(frozen=True, slots=True)
class OpenedDocument:
    """What opening told: pages declared, whether the file had to be repaired, remarks."""

    page_count: int
    repaired: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RasterPage:
    """One page as an image, upright as the document asks for, and how to get back to the page.

    `image` is L or RGB. `image_to_page` is (a, b, c, d, e, f): image pixel (x, y) -> page point
    (ax+by+c, dx+ey+f), page points being those of the page as shown, origin top left. `dpi_used` is None
    where the source states no resolution (a pixel then counts as a point); `dpi_known` says that resolution
    and page size can be believed.
    """

    image: Image.Image
    page_width_points: float
    page_height_points: float
    rotate_key: int
    dpi_asked: int
    dpi_used: float | None
    dpi_known: bool
    how: str
    warnings: tuple[str, ...]
    image_to_page: Affine
    repaired: bool


@dataclass(frozen=True, slots=True)
class PageFailure:
    """Why a page gave no image."""

    reason: Reason
    detail: str


class DocumentFailure(Exception):  # noqa: N818 - a finding about a document, twin of PageFailure
    """A document cannot be opened; `reason` is from the closed list."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class _ChildLostError(Exception):
    """The child crashed or was killed for being late."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Rasterizer:
    """One child and at most one open document. Not for several threads at once."""

    def __init__(self, limits: RasterLimits | None = None) -> None:
        """Nothing is started before the first document is opened."""
        self.limits = limits or RasterLimits()
        self.children_started = 0
        self.peak_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._stderr: IO[bytes] | None = None
        self._document: int | None = None  # descriptor of the document's bytes
        self._format = Format.PDF
        self._opened_in_child = False
        self._pages_in_child = 0

    def __enter__(self) -> "Rasterizer":
        """Return itself; the child is ended on leaving."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the child and forget the document."""
        self.close()

    @property
    def child_pid(self) -> int | None:
        """Process id of the child, if one runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def open(self, data: bytes, document_format: Format) -> OpenedDocument:
        """Make `data` the open document. Raises DocumentFailure; RuntimeError if no child can be started."""
        self._forget_document()
        self._document = os.memfd_create("document", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(self._document), "wb") as file:
            file.write(data)
        self._format = document_format
        try:
            reply = self._open_in_child()
        except _ChildLostError as lost:
            self._forget_document()
            raise DocumentFailure(lost.reason, f"while opening: {lost.detail}") from lost
        if reply.reason is not None:
            self._forget_document()
            raise DocumentFailure(Reason(reply.reason), reply.detail)
        return OpenedDocument(reply.page_count, reply.repaired, reply.warnings)

    def page(self, page_index: int, wanted_dpi: int) -> RasterPage | PageFailure:
        """Draw one page of the open document; failures are values. A crash is retried in a new child."""
        request = Request("page", page_index=page_index, wanted_dpi=wanted_dpi)
        attempts = self.limits.crash_retries + 1
        while True:
            attempts -= 1
            try:
                reply, pixels = self._ask(request, self.limits.seconds_per_page)
            except _ChildLostError as lost:
                if lost.reason is Reason.RENDER_CRASH and attempts > 0:
                    continue
                return PageFailure(lost.reason, f"page_index {page_index}: {lost.detail}")
            break
        failed = reply.reason is not None or reply.image is None
        if failed:
            self._recycle_if_due(too_large=reply.reason == Reason.TOO_LARGE, resident=reply.resident_bytes)
            return PageFailure(Reason(reply.reason or Reason.RENDER_ERROR), reply.detail)
        page = _raster_page(reply, pixels, wanted_dpi)
        self._recycle_if_due(too_large=False, resident=reply.resident_bytes)
        return page

    def facts(self, page_count: int, wanted_dpi: int) -> list[PageFacts]:
        """Size, label and estimated pixels of every page; unknown where the child was lost over them."""
        found: list[PageFacts] = []
        while len(found) < page_count:
            count = min(FACTS_PER_REQUEST, page_count - len(found))
            request = Request("facts", page_index=len(found), page_count=count, wanted_dpi=wanted_dpi)
            try:
                reply, _ = self._ask(request, self.limits.seconds_to_open)
                pages = list(reply.pages[:count])
            except _ChildLostError:
                pages = []
            unknown = PageFacts(None, None, None, 0, 0)
            found += pages + [unknown] * (count - len(pages))
        return found

    def close(self) -> None:
        """End the child and forget the document. May be called twice."""
        self._forget_document()
        self._end_child()

    def _forget_document(self) -> None:
        if self._document is not None:
            os.close(self._document)
            self._document = None
        self._opened_in_child = False

    def _recycle_if_due(self, *, too_large: bool, resident: int) -> None:
        self._pages_in_child += 1
        worn = self._pages_in_child >= self.limits.recycle_after_pages
        fat = resident > RECYCLE_SHARE_OF_MEMORY * self.limits.memory_bytes
        if worn or fat or too_large:
            self._end_child()

    def _ask(self, request: Request, seconds: float) -> tuple[Reply, bytearray]:
        """Ask about the open document, opening it again first if the child is new. Raises _ChildLostError."""
        if self._document is None:
            return Reply(reason=Reason.RENDER_ERROR, detail="no document is open"), bytearray()
        if self.child_pid is None or not self._opened_in_child:
            reply = self._open_in_child()
            if reply.reason is not None:
                return reply, bytearray()
        return self._exchange(request, None, seconds)

    def _open_in_child(self) -> Reply:
        attempts = self.limits.crash_retries + 1
        while True:
            attempts -= 1
            try:
                if self.child_pid is None:
                    self._start_until_ready()
                request = Request("open", format=self._format)
                reply, _ = self._exchange(request, self._document, self.limits.seconds_to_open)
                self._opened_in_child = reply.reason is None
                return reply
            except _ChildLostError as lost:
                if lost.reason is not Reason.RENDER_CRASH or attempts <= 0:
                    raise

    def _exchange(self, request: Request, descriptor: int | None, seconds: float) -> tuple[Reply, bytearray]:
        """One order, one answer. A child that does not answer in time, or not in form, is killed."""
        assert self._connection is not None
        try:
            self._connection.settimeout(seconds)
            send_frame(self._connection, encode_request(request), descriptor=descriptor)
            header, pixels, _ = receive_frame(self._connection, seconds)
            reply = decode_reply(header)
        except TimeoutError:
            self._end_child()
            raise _ChildLostError(Reason.RENDER_TIMEOUT, f"no answer within {seconds:g} s") from None
        except (OSError, ValueError, TypeError, KeyError):
            detail = self._describe_end()
            self._end_child()
            raise _ChildLostError(Reason.RENDER_CRASH, detail) from None
        self.peak_bytes = max(self.peak_bytes, reply.peak_bytes)
        return reply, pixels

    def _start_until_ready(self) -> None:
        """Start a child. One that dies young (killed, short of memory) is replaced a few times.

        Raises RuntimeError if none gets ready: that is the installation's fault and no document's.
        """
        for attempt in range(START_ATTEMPTS):
            self._start_child()
            assert self._connection is not None
            try:
                receive_frame(self._connection, SECONDS_TO_START)
                return
            except OSError:
                detail = self._describe_end()
                self._end_child()
                if attempt == START_ATTEMPTS - 1:
                    raise RuntimeError(f"The rasterize process cannot start: {detail}.") from None

    def _start_child(self) -> None:
        self._end_child()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        arguments = [str(PACKAGE_ROOT), str(theirs.fileno()), str(os.getpid())]
        arguments += [str(int(self.limits.memory_bytes)), str(int(self.limits.max_pixels))]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD_START, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt at the terminal is for the parent to handle
            )
        self._connection = ours
        self._pages_in_child = 0
        self._opened_in_child = False
        self.children_started += 1

    def _describe_end(self) -> str:
        """How the child ended, with the last thing it said."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        code = self._process.returncode
        if code is None:
            return "the rasterize process stopped answering in form"
        said = ""
        if self._stderr is not None:
            end = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, end - STDERR_TAIL_BYTES))
            said = self._stderr.read().decode("utf-8", "replace").strip()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the rasterize process ended with {how}" + (f": {said}" if said else "")

    def _end_child(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None
        self._opened_in_child = False


def _raster_page(reply: Reply, pixels: bytearray, wanted_dpi: int) -> RasterPage:
    facts = reply.image
    assert facts is not None
    size = (facts.width, facts.height)
    return RasterPage(
        image=Image.frombuffer(facts.mode, size, pixels, "raw", facts.mode, 0, 1),
        page_width_points=facts.page_width_points,
        page_height_points=facts.page_height_points,
        rotate_key=facts.rotate_key,
        dpi_asked=wanted_dpi,
        dpi_used=facts.dpi_used,
        dpi_known=facts.dpi_known,
        how=facts.how,
        warnings=reply.warnings,
        image_to_page=facts.image_to_page,
        repaired=reply.repaired,
    )
