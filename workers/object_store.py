"""Opens a store by its location, and holds the S3 one; the only module that imports boto3.

Retries are botocore's standard mode with timeouts; what they cannot mend becomes one typed error with one
sentence. Publication rests on single puts with `If-None-Match: *`, never on renames or multipart uploads.
"""

import functools
import io
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn, cast

from workers.local_store import LocalStore
from workers.storage import (
    S3_SCHEME,
    ObjectStore,
    StorageChanged,
    StorageDamaged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageSettings,
    StorageUnreachable,
    StoredObject,
    is_s3,
    split_uri,
)

__all__ = [
    "LocalStore",
    "ObjectStore",
    "S3Store",
    "StorageChanged",
    "StorageDamaged",
    "StorageDenied",
    "StorageError",
    "StorageMissing",
    "StorageSettings",
    "StorageUnreachable",
    "StoredObject",
    "credentials_kind",
    "honours_put_if_absent",
    "is_s3",
    "open_store",
    "split_uri",
]

CONFLICT_ATTEMPTS = 8
READER_BUFFER_BYTES = 1 << 20
_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
_DENIED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "401"}
_CONFLICT = {"409", "ConditionalRequestConflict", "OperationAborted"}
_PRECONDITION = {"412", "PreconditionFailed"}
_MENDS = {
    "NoCredentialsError": "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or name a profile",
    "PartialCredentialsError": "the credentials are incomplete",
    "ProfileNotFound": "there is no such profile in the AWS configuration",
    "NoRegionError": "no region is known; give --region",
}


def open_store(uri: str, settings: StorageSettings) -> ObjectStore:
    """The store whose root is `uri`: a folder, `s3://bucket` or `s3://bucket/prefix`. Touches nothing yet."""
    if is_s3(uri):
        bucket, _, prefix = uri.removeprefix(S3_SCHEME).partition("/")
        if not bucket:
            raise StorageMissing(f"{uri} names no bucket.")
        return S3Store(bucket, prefix, settings)
    return LocalStore(uri)


def credentials_kind(settings: StorageSettings) -> str | None:
    """Where S3 credentials were found (`env`, `shared-credentials-file`, `iam-role`, ...), never what they are; None
    if there are none. Raises `StorageError` where the configuration itself is wrong.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        found = boto3.Session(profile_name=settings.profile).get_credentials()
    except (BotoCoreError, ValueError) as error:
        raise StorageError(f"S3 cannot be set up: {_MENDS.get(type(error).__name__, error)}.") from error
    return None if found is None else str(found.method)


def honours_put_if_absent(store: ObjectStore, folder: str = "_work/") -> bool:
    """Try on a fresh key whether the second of two puts is refused: some servers answer 200 and overwrite."""
    key = f"{folder}probe-{uuid.uuid4().hex}"
    try:
        return store.put_if_absent(key, b"first") and not store.put_if_absent(key, b"second")
    finally:
        store.delete(key)


@functools.lru_cache(maxsize=8)
def _client(settings: StorageSettings) -> Any:
    """One thread-safe client per process and settings; making one costs 0.3 s."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    addressing = {None: "auto", True: "path", False: "virtual"}[settings.path_style]
    config = Config(
        retries={"mode": "standard", "max_attempts": settings.max_attempts},
        connect_timeout=settings.connect_timeout_seconds,
        read_timeout=settings.read_timeout_seconds,
        request_checksum_calculation=settings.checksum_mode,
        response_checksum_validation=settings.checksum_mode,
        s3={"addressing_style": addressing},
        max_pool_connections=32,
    )
    try:
        session = boto3.Session(profile_name=settings.profile, region_name=settings.region)
        return session.client("s3", endpoint_url=settings.endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise StorageError(f"S3 cannot be set up: {_MENDS.get(type(error).__name__, error)}.") from error


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
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix, **self._payer
        )
        try:
            for page in pages:
                for item in page.get("Contents", ()):
                    if item["Key"].endswith("/") and not item["Size"]:
                        continue  # consoles mark a folder so; it is no document
                    key = item["Key"].removeprefix(self._prefix)
                    yield StoredObject(self.uri(key), key, item["Size"], item["ETag"].strip('"'))
        except self._errors as error:
            _raise_translated(error, self.uri(prefix))

    def get(self, key: str, etag: str | None = None) -> bytes:
        condition = {} if etag is None else {"IfMatch": f'"{etag}"'}
        return self._read(key, condition)

    def open(self, key: str) -> BinaryIO:
        found = self.find(key)
        if found is None:
            raise StorageMissing(f"There is no such object: {self.uri(key)}.")
        reader = _RangeReader(self, key, found.bytes)
        return cast(BinaryIO, io.BufferedReader(reader, READER_BUFFER_BYTES))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; the object must be at least that long."""
        return self._read(key, {"Range": f"bytes={start}-{start + length - 1}"})

    def put(self, key: str, data: bytes) -> None:
        try:
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **self._payer)
        except self._errors as error:
            _raise_translated(error, self.uri(key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        for attempt in range(CONFLICT_ATTEMPTS):
            try:
                self._client.put_object(
                    Bucket=self._bucket, Key=self._prefix + key, Body=data, IfNoneMatch="*", **self._payer
                )
            except self._errors as error:
                code = _code(error)
                if code in _PRECONDITION:
                    return False
                if code not in _CONFLICT:
                    _raise_translated(error, self.uri(key))
                time.sleep(0.05 * 2**attempt)  # two writers at once: neither has won yet
            else:
                return True
        raise StorageUnreachable(f"{self.uri(key)}: writers kept getting into each other's way.")

    def find(self, key: str) -> StoredObject | None:
        if not self._prefix + key:
            return None
        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key, **self._payer)
        except self._errors as error:
            if _code(error) in _MISSING:
                return None
            _raise_translated(error, self.uri(key))
        return StoredObject(self.uri(key), key, int(answer["ContentLength"]), answer["ETag"].strip('"'))

    def delete(self, key: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key, **self._payer)
        except self._errors as error:
            _raise_translated(error, self.uri(key))

    @property
    def _client(self) -> Any:
        return _client(self._settings)

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        """What boto3 raises, and what the connection beneath a streamed body raises."""
        from botocore.exceptions import BotoCoreError, ClientError

        return (BotoCoreError, ClientError, OSError)

    def _read(self, key: str, condition: dict[str, str]) -> bytes:
        try:
            answer = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, **condition, **self._payer
            )
            return cast(bytes, answer["Body"].read())
        except self._errors as error:
            _raise_translated(error, self.uri(key))


class _RangeReader(io.RawIOBase):
    """Reads an object of known size piece by piece; wrapped into a buffered reader."""

    def __init__(self, store: S3Store, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._store.read_range(self._key, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def _code(error: Exception) -> str:
    """The S3 error code, or the HTTP status where a HEAD answer carries no body; empty for other errors."""
    answer = getattr(error, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _raise_translated(error: Exception, place: str) -> NoReturn:
    """Turn an error of boto3 into ours, in one sentence."""
    code = _code(error)
    if code in _MISSING:
        what = "bucket" if code == "NoSuchBucket" else "object"
        raise StorageMissing(f"There is no such {what}: {place}.") from error
    if code in _DENIED:
        raise StorageDenied(f"Access to {place} was denied ({code}); check the credentials.") from error
    if code in _PRECONDITION:
        raise StorageChanged(f"{place} changed since it was listed.") from error
    if code == "NotImplemented":
        raise StorageError(f"The storage of {place} does not know this request: {error}.") from error
    mend = _MENDS.get(type(error).__name__)
    if mend:
        raise StorageDenied(f"{place} cannot be reached: {mend}.") from error
    if code:
        raise StorageError(f"{place}: the storage answered {code} ({error}).") from error
    raise StorageUnreachable(f"{place} cannot be reached: {error}.") from error
