"""The child's side of the conversation: limits itself, then answers orders until the parent is gone.

Every failure becomes an answer with a reason; a crash or a hang is the parent's to notice.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO, Protocol

from workers.outcomes import Reason
from workers.raster_protocol import (
    ImageFacts,
    PageError,
    PageFacts,
    Reply,
    Request,
    decode_request,
    encode_reply,
    receive_frame,
    send_frame,
)
from workers.sniff import Format

PR_SET_PDEATHSIG = 1
MAX_WARNINGS = 8
MAX_WARNING_CHARACTERS = 200


Pixels = bytes | memoryview


class OpenDocument(Protocol):
    """A document of any format, as the service needs it."""

    warnings: list[str]

    @property
    def page_count(self) -> int:
        """Number of pages."""

    @property
    def repaired(self) -> bool:
        """Whether the file had to be repaired to open."""

    def facts(self, page_index: int, wanted_dpi: int) -> PageFacts:
        """What is known of a page without drawing it."""

    def page(self, page_index: int, wanted_dpi: int) -> tuple[ImageFacts, Pixels, list[str], bool]:
        """Draw a page: facts, pixels (valid until the next page is drawn), warnings, repaired. Raises PageError."""

    def close(self) -> None:
        """Let go of the document's memory."""


Opener = Callable[[BinaryIO, Format], OpenDocument]


def limit_process(parent_pid: int, memory_bytes: int) -> None:
    """Die with the parent, never write a core file, never take more address space than allowed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the parent died before the line above
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def serve(connection: socket.socket, opener: Opener) -> None:
    """Say that all is ready, then answer orders until "close" or until the parent is gone."""
    service = _Service(opener)
    gc.collect()
    gc.freeze()  # what the libraries made stays; collecting after a document need not walk through it
    send_frame(connection, encode_reply(Reply()))
    while True:
        try:
            header, _, descriptor = receive_frame(connection)
        except ConnectionError:
            return
        request = decode_request(header)
        if request.action == "close":
            return
        reply, pixels = service.answer(request, descriptor)
        resident, peak = resident_bytes()
        noted = _shortened(reply.warnings)
        send_frame(
            connection,
            encode_reply(replace(reply, warnings=noted, resident_bytes=resident, peak_bytes=peak)),
            pixels,
        )


class _Service:
    """Holds the one open document."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._document: OpenDocument | None = None

    def answer(self, request: Request, descriptor: int | None) -> tuple[Reply, Pixels]:
        """Carry out one order. Never raises for anything a document can cause."""
        try:
            if request.action == "open":
                return self._open(request, descriptor), b""
            if self._document is None:
                raise PageError(Reason.RENDER_ERROR, "no document is open")
            if request.action == "facts":
                return self._facts(self._document, request), b""
            image, pixels, noted, repaired = self._document.page(request.page_index, request.wanted_dpi)
            return Reply(warnings=tuple(noted), repaired=repaired, image=image), pixels
        except PageError as error:
            return Reply(reason=error.reason, detail=error.detail), b""
        except MemoryError:
            gc.collect()
            return Reply(reason=Reason.TOO_LARGE, detail="memory limit reached"), b""
        except Exception as error:  # whatever a library raises, the page gets its row
            return Reply(reason=Reason.RENDER_ERROR, detail=f"{type(error).__name__}: {error}"), b""

    def _open(self, request: Request, descriptor: int | None) -> Reply:
        if self._document is not None:
            with contextlib.suppress(Exception):
                self._document.close()
            self._document = None
            gc.collect()
        if descriptor is None:
            raise PageError(Reason.RENDER_ERROR, "no file came with the order to open")
        # Opened anew through the path: a passed descriptor shares its read position with the parent.
        file = open(f"/proc/self/fd/{descriptor}", "rb")  # noqa: SIM115 - the document keeps it open
        os.close(descriptor)
        document = self._opener(file, Format(request.format))
        self._document = document
        return Reply(
            page_count=document.page_count, repaired=document.repaired, warnings=tuple(document.warnings)
        )

    def _facts(self, document: OpenDocument, request: Request) -> Reply:
        last = min(document.page_count, request.page_index + request.page_count)
        pages = tuple(document.facts(i, request.wanted_dpi) for i in range(request.page_index, last))
        return Reply(pages=pages, repaired=document.repaired)


def _shortened(messages: tuple[str, ...]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(message.strip()[:MAX_WARNING_CHARACTERS] for message in messages))
    return tuple(message for message in unique if message)[:MAX_WARNINGS]


def resident_bytes() -> tuple[int, int]:
    """Resident memory of this process now and at its peak (getrusage would count the parent's before exec)."""
    now = peak = 0
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                peak = int(line.split()[1]) * 1024
            elif line.startswith("VmRSS:"):
                now = int(line.split()[1]) * 1024
    return now, peak
