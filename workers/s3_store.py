"""The objects of one S3 bucket as a store.

Publication rests on single puts with `If-None-Match: *`, never on renames or multipart uploads. A body that breaks
off, stalls or trickles is fetched again, as the same version; the tries are bounded.
"""

import io
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from workers.s3_client import (
    CONFLICT,
    MISSING,
    PRECONDITION,
    WITHOUT_BODY,
    error_code,
    errors,
    raise_translated,
    request,
    said,
    tries_before,
    wait,
)
from workers.storage import (
    S3_SCHEME,
    ObjectStore,
    StorageMissing,
    StorageSettings,
    StorageUnreachable,
    StoredObject,
)

CONFLICT_ATTEMPTS = 8
READER_BUFFER_BYTES = 1 << 20
CHUNK_BYTES = 1 << 14
LEAST_BYTES_PER_SECOND = 10_000  # on average, after the first `read_timeout_seconds`


class S3Store(ObjectStore):
    """Objects of one bucket below a prefix. A prefix is a folder: `scans` does not hold `scans-old/x`."""

    def __init__(self, bucket: str, prefix: str, settings: StorageSettings) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        self._settings = settings
        self._payer = {"RequestPayer": "requester"} if settings.requester_pays else {}
        self.root = f"{S3_SCHEME}{bucket}/{self._prefix}".rstrip("/")

    def uri(self, key: str) -> str:
        return f"{S3_SCHEME}{self._bucket}/{self._prefix}{key}"

    def list(
        self, prefix: str = "", left_out: Callable[[str], object] | None = None
    ) -> Iterator[StoredObject]:
        onward: dict[str, str] = {}
        while True:
            try:
                page = self._request("list_objects_v2", Prefix=self._prefix + prefix, **onward)
            except errors() as error:
                raise_translated(error, self.uri(prefix))
            for item in page.get("Contents", ()):
                if item["Key"].endswith("/") and not item["Size"]:
                    continue  # consoles mark a folder so; it is no document
                key = item["Key"].removeprefix(self._prefix)
                yield StoredObject(self.uri(key), key, item["Size"], item["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                return
            onward = {"ContinuationToken": page["NextContinuationToken"]}

    def get(self, key: str, etag: str | None = None) -> bytes:
        return self._read(key, {} if etag is None else {"IfMatch": f'"{etag}"'})

    def open(self, key: str) -> BinaryIO:
        found = self.find(key)
        if found is None:
            raise StorageMissing(f"There is no such object: {self.uri(key)}.")
        return cast(BinaryIO, io.BufferedReader(_RangeReader(self, found), READER_BUFFER_BYTES))

    def read_range(self, key: str, start: int, length: int, etag: str) -> bytes:
        """`length` bytes from `start` of one version; the object must be at least that long."""
        return self._read(key, {"Range": f"bytes={start}-{start + length - 1}", "IfMatch": f'"{etag}"'})

    def put(self, key: str, data: bytes) -> None:
        try:
            self._request("put_object", Key=self._prefix + key, Body=data)
        except errors() as error:
            raise_translated(error, self.uri(key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """As promised by `ObjectStore`; with `single_writer` by looking first, which only one writer may do."""
        if self._settings.single_writer:
            if self.exists(key):
                return False
            self.put(key, data)
            return True
        for attempt in range(CONFLICT_ATTEMPTS):
            try:
                self._request("put_object", Key=self._prefix + key, Body=data, IfNoneMatch="*")
            except errors() as error:
                code = error_code(error)
                if code in PRECONDITION:
                    # The object may be our own, from a try whose answer was lost.
                    return tries_before(error) > 0 and self.get(key) == data
                if code not in CONFLICT:
                    raise_translated(error, self.uri(key))
                wait(attempt)  # two writers at once: neither has won yet
            else:
                return True
        raise StorageUnreachable(f"{self.uri(key)}: writers kept getting into each other's way.")

    def find(self, key: str) -> StoredObject | None:
        if not self._prefix + key:
            return None
        try:
            answer = self._head(key)
        except errors() as error:
            if error_code(error) in MISSING:
                return None
            raise_translated(error, self.uri(key))
        return StoredObject(self.uri(key), key, int(answer["ContentLength"]), answer["ETag"].strip('"'))

    def delete(self, key: str) -> None:
        try:
            self._request("delete_object", Key=self._prefix + key)
        except errors() as error:
            raise_translated(error, self.uri(key))

    def _request(self, operation: str, **parameters: Any) -> Any:
        return request(self._settings, operation, Bucket=self._bucket, **parameters, **self._payer)

    def _head(self, key: str) -> Any:
        """The answer to HEAD. A refusal of that kind cannot say why, so a GET is made to find out."""
        try:
            return self._request("head_object", Key=self._prefix + key)
        except errors() as error:
            if error_code(error) not in WITHOUT_BODY:
                raise
        self._request("get_object", Key=self._prefix + key)["Body"].close()
        return self._request("head_object", Key=self._prefix + key)

    def _read(self, key: str, condition: dict[str, str]) -> bytes:
        """The body of one GET. What breaks off is fetched anew and whole."""
        for attempt in range(self._settings.max_attempts):
            try:
                answer = self._request("get_object", Key=self._prefix + key, **condition)
            except errors() as error:
                raise_translated(error, self.uri(key))
            try:
                return _whole_body(answer, self._settings.read_timeout_seconds)
            except errors() as error:
                broken = error
            if attempt + 1 < self._settings.max_attempts:
                wait(attempt)
        raise StorageUnreachable(
            f"{self.uri(key)} broke off each time it was fetched, {self._settings.max_attempts} times "
            f"({said(broken)})."
        ) from broken


def _whole_body(answer: Any, patience_seconds: float) -> bytes:
    """All bytes of an answer, its length and checksum verified; `TimeoutError` if they come at a trickle."""
    body = answer["Body"]
    allowed = patience_seconds + int(answer.get("ContentLength", 0)) / LEAST_BYTES_PER_SECOND
    deadline = time.monotonic() + allowed
    chunks: list[bytes] = []
    try:
        while chunk := body.read(CHUNK_BYTES):
            chunks.append(chunk)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not whole after {allowed:.0f} s")
    except BaseException:
        body.close()  # the connection cannot be used again
        raise
    return b"".join(chunks)


class _RangeReader(io.RawIOBase):
    """Reads one version of an object piece by piece; wrapped into a buffered reader."""

    def __init__(self, store: S3Store, found: StoredObject) -> None:
        self._store = store
        self._found = found
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._found.bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._found.bytes - self._position)
        if length <= 0:
            return 0
        data = self._store.read_range(self._found.key, self._position, length, self._found.etag)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
