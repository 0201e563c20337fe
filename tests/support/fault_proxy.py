"""A proxy in front of an S3 server that does to chosen requests what networks and servers do to all of us.

Requests pass unchanged, host header included, so that their signatures stay valid. A fault strikes the requests it
matches in order: it lets `after` of them pass and then strikes `times` of them (None: all).
"""

import contextlib
import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

CHUNK_BYTES = 1 << 14
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}
STATUS = {
    "SlowDown": 503,
    "InternalError": 500,
    "AccessDenied": 403,
    "ExpiredToken": 400,
    "NotImplemented": 501,
}
ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>made by the test</Message></Error>"


class Kind(StrEnum):
    """What happens to a request."""

    ERROR = "an error answer"
    CUT_BEFORE = "the connection ends before the server hears of it"
    LOST_ANSWER = "the server does it, the connection ends before the answer"
    CUT_BODY = "the connection ends in the middle of the body"
    STALLED_BODY = "the body stops in the middle, the connection stays"
    TRICKLE = "the body comes in small pieces with pauses"
    OVERWRITE = "what is there is replaced, whatever the condition"


@dataclass(slots=True)
class Fault:
    """One fault. `path` is a regular expression over `/bucket/key`, decoded, with `?query` behind it; `code` an S3
    error code. `then` is called when a request matches, before anything else happens to it; without a `kind` that is
    all that is done.
    """

    method: str
    path: str
    kind: Kind | None = None
    code: str = "SlowDown"
    times: int | None = 1
    after: int = 0
    seconds: float = 0.0
    then: Callable[[], object] | None = None
    seen: int = 0
    struck: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is one of those to strike; counts it."""
        if method != self.method or not re.search(self.path, path):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


@dataclass(slots=True)
class FaultProxy:
    """A running proxy; `faults` may be changed while it runs, `requests` holds (method, path) of all it has seen.

    `remove` takes /bucket/key away behind the back of everybody; `Kind.OVERWRITE` needs it, since conditions are signed
    and cannot be left out on the way. `overwritten` are the paths it was called for.
    """

    server: ThreadingHTTPServer
    endpoint_url: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    remove: Callable[[str], object] | None = None
    overwritten: list[str] = field(default_factory=list)

    def fault_for(self, method: str, path: str) -> Fault | None:
        """The first fault that strikes; later ones do not count the request."""
        with self.lock:
            self.requests.append((method, path))
            return next((fault for fault in self.faults if fault.strikes(method, path)), None)

    def counted(self, method: str, path: str) -> int:
        """How many requests with this method matched the path so far."""
        with self.lock:
            return sum(1 for each, place in self.requests if each == method and re.search(path, place))


@contextlib.contextmanager
def fault_proxy(upstream_url: str, *faults: Fault) -> Iterator[FaultProxy]:
    """A proxy in front of `upstream_url` for the length of the block."""
    address = urlsplit(upstream_url)
    assert address.hostname
    assert address.port
    server = _Server(("127.0.0.1", 0), _Handler)
    proxy = FaultProxy(server, f"http://127.0.0.1:{server.server_address[1]}", list(faults))
    server.proxy, server.upstream = proxy, (address.hostname, address.port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: FaultProxy
    upstream: tuple[str, int]

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.ending = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that give up are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_one(self) -> None:
        """One request: find its fault, do it."""
        body = self._body()
        path = unquote(self.path)
        fault = self.server.proxy.fault_for(self.command, path)
        if fault is not None and fault.then is not None:
            fault.then()
        kind = None if fault is None else fault.kind
        if kind == Kind.OVERWRITE and self.headers.get("If-None-Match"):
            self._overwrite(path)
        if fault is not None and kind == Kind.ERROR:
            time.sleep(fault.seconds)
            self._answer_error(fault.code)
        elif kind == Kind.CUT_BEFORE:
            self._cut()
        else:
            self._forward(body, fault if kind not in (None, Kind.OVERWRITE) else None)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_one  # noqa: N815 - names of http.server

    def log_message(self, *arguments: object) -> None:
        """Silence."""

    def _overwrite(self, path: str) -> None:
        proxy = self.server.proxy
        assert proxy.remove is not None
        proxy.remove(path)
        with proxy.lock:
            proxy.overwritten.append(path)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return body

    def _forward(self, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        headers.pop("Expect", None)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                upstream.putheader(name, value)
            if body and "Content-Length" not in headers:
                upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body or None)
            answer = upstream.getresponse()
            data = answer.read()
        finally:
            upstream.close()
        if fault is not None and fault.kind == Kind.LOST_ANSWER:
            self._cut()
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        if length is not None and answer.status not in (204, 304):
            self.send_header("Content-Length", length)
        self.end_headers()
        self._send(data, fault)

    def _send(self, data: bytes, fault: Fault | None) -> None:
        if fault is None:
            self.wfile.write(data)
        elif fault.kind == Kind.TRICKLE:
            for start in range(0, len(data), CHUNK_BYTES):
                self.wfile.write(data[start : start + CHUNK_BYTES])
                self.wfile.flush()
                if self.server.ending.wait(fault.seconds):
                    return
        else:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if fault.kind == Kind.STALLED_BODY:
                self.server.ending.wait(fault.seconds)
            self._cut()

    def _answer_error(self, code: str) -> None:
        data = b"" if self.command == "HEAD" else ERROR.format(code=code).encode()
        self.send_response_only(STATUS[code])
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        """End the connection the hard way (RST), as a dying server or router does."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
