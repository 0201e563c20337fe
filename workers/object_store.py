"""Opens a store by its location, and finds out whether it can keep two writers apart.

The front door to storage: `workers.s3_store` and `workers.s3_client` hold S3, the only modules with boto3 behind
them, and `workers.local_store` folders.
"""

import uuid

from workers.local_store import LocalStore
from workers.s3_client import credentials_kind
from workers.s3_store import S3Store
from workers.storage import (
    S3_SCHEME,
    CredentialsRejected,
    ObjectStore,
    StorageChanged,
    StorageDamaged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageSettings,
    StorageUnreachable,
    StorageUnsupported,
    StoredObject,
    is_s3,
    split_uri,
)

__all__ = [
    "CredentialsRejected",
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
    "StorageUnsupported",
    "StoredObject",
    "credentials_kind",
    "honours_put_if_absent",
    "is_s3",
    "open_store",
    "split_uri",
]


def open_store(uri: str, settings: StorageSettings) -> ObjectStore:
    """The store whose root is `uri`: a folder, `s3://bucket` or `s3://bucket/prefix`. Touches nothing yet."""
    if is_s3(uri):
        bucket, _, prefix = uri.removeprefix(S3_SCHEME).partition("/")
        if not bucket:
            raise StorageMissing(f"{uri} names no bucket.")
        return S3Store(bucket, prefix, settings)
    return LocalStore(uri, single_writer=settings.single_writer)


def honours_put_if_absent(store: ObjectStore, folder: str = "_work/") -> bool:
    """Try on a fresh key whether the second of two puts is refused: some servers answer 200 and overwrite.

    Raises `StorageError` where the store cannot be written at all.
    """
    key = f"{folder}probe-{uuid.uuid4().hex}"
    try:
        first = store.put_if_absent(key, b"first")
        return first and not store.put_if_absent(key, b"second") and store.get(key) == b"first"
    except StorageUnsupported:
        return False
    finally:
        store.delete(key)
