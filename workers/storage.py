"""What a store of objects must do, and how it says that it cannot.

Sources and targets are reached through this contract alone; `workers.local_store` and `workers.object_store`
fulfil it. Keys are relative to the root of the store, exact, and never decoded or normalised.
"""

import abc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

S3_SCHEME = "s3://"
ChecksumMode = Literal["when_supported", "when_required"]


class StorageError(Exception):
    """Storage did not do what it was asked to; the message is one sentence for people."""

    def __reduce__(self) -> tuple[type["StorageError"], tuple[str]]:
        return type(self), (str(self),)


class StorageMissing(StorageError):  # noqa: N818 - named for what happened
    """No such object, bucket or folder."""


class StorageDenied(StorageError):  # noqa: N818 - named for what happened
    """The credentials are known but do not allow this."""


class CredentialsRejected(StorageError):  # noqa: N818 - named for what happened
    """There are no credentials, or the storage does not accept them: no object can be had, whichever it is."""


class StorageUnsupported(StorageError):  # noqa: N818 - named for what happened
    """The storage does not know this kind of request."""


class StorageChanged(StorageError):  # noqa: N818 - named for what happened
    """The object is no longer the version that was asked for."""


class StorageDamaged(StorageError):  # noqa: N818 - named for what happened
    """The object is there, but is not whole or not what belongs under that name."""


class StorageUnreachable(StorageError):  # noqa: N818 - named for what happened
    """No answer from the storage after all retries."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How to reach an S3 storage. Credentials come from the usual AWS places, never from here.

    `path_style` puts the bucket into the path (most own servers want it); None leaves the choice to boto3.
    `checksum_mode` `when_required` suits servers that do not know the newer checksums of the AWS SDKs.
    `requester_pays` says that we pay for what we fetch from buckets that ask for it.
    `single_writer` is a promise that only one program writes to the target; with it a storage will do that does not
    refuse a second writer.
    """

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    path_style: bool | None = None
    checksum_mode: ChecksumMode = "when_supported"
    requester_pays: bool = False
    max_attempts: int = 8
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 60.0
    single_writer: bool = False

    def __post_init__(self) -> None:
        if self.checksum_mode not in ("when_supported", "when_required"):
            raise ValueError(
                f"checksum_mode must be when_supported or when_required, not {self.checksum_mode!r}"
            )
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be at least 1")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name} must be more than 0, not {seconds}")
        if self.endpoint_url is not None and not self.endpoint_url.startswith(("http://", "https://")):
            raise ValueError("endpoint_url must start with http:// or https://")
        if self.endpoint_url is not None and set(self.endpoint_url) & set("@?#"):
            raise ValueError("endpoint_url must be an address and nothing more, least of all credentials")
        for name in ("region", "profile"):
            if getattr(self, name) == "":
                raise ValueError(f"{name} must not be empty")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as listed: full location, key relative to the store's root, size, version mark.

    The mark is empty, and the size 0, where a list named the object without saying them.
    """

    uri: str
    key: str
    bytes: int
    etag: str


class ObjectStore(abc.ABC):
    """Objects below one root. Every method raises a `StorageError` when the storage refuses."""

    root: str

    @abc.abstractmethod
    def uri(self, key: str) -> str:
        """Full location of a key."""

    @abc.abstractmethod
    def list(
        self, prefix: str = "", left_out: Callable[[str], object] | None = None
    ) -> Iterator[StoredObject]:
        """All objects whose key starts with `prefix`, at any depth, in no promised order.

        `left_out` hears the location of whatever is there but is no object: links that lead nowhere, links to
        folders (with a slash at the end), pipes and the like.
        """

    @abc.abstractmethod
    def get(self, key: str, etag: str | None = None) -> bytes:
        """The whole object; with `etag`, that version or `StorageChanged`."""

    @abc.abstractmethod
    def open(self, key: str) -> BinaryIO:
        """A seekable reader that fetches only what is read (for Parquet footers and single columns)."""

    def first_bytes(self, key: str, count: int) -> bytes:
        """At most `count` bytes from the start of the object."""
        try:
            with self.open(key) as reader:
                return reader.read(count)
        except OSError as error:
            raise StorageError(f"{self.uri(key)}: {error.strerror or error}.") from error

    @abc.abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write the object whole or not at all, replacing what was there."""

    @abc.abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write the object only if the key is free; False if somebody else was first. Atomic."""

    @abc.abstractmethod
    def find(self, key: str) -> StoredObject | None:
        """The object of exactly that key, as a listing would name it; None if there is none."""

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        return self.find(key) is not None

    @abc.abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; nothing happens if it is not there."""

    def delete_below(self, prefix: str) -> int:
        """Remove every object whose key starts with `prefix`; returns how many."""
        doomed = [stored.key for stored in self.list(prefix)]
        for key in doomed:
            self.delete(key)
        return len(doomed)


def is_s3(uri: str) -> bool:
    """Whether a location lies in S3; everything else is a path."""
    return uri.startswith(S3_SCHEME)


def split_uri(uri: str) -> tuple[str, str]:
    """Split the location of one object into the root of a store and the key below it."""
    if is_s3(uri):
        bucket, _, key = uri.removeprefix(S3_SCHEME).partition("/")
        return S3_SCHEME + bucket, key
    path = Path(uri)
    return str(path.parent), path.name
