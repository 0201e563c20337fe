"""A model that lies in a storage: which version it is, and a copy of its folder on this node, made once.

Only weights as safetensors and text files are ever copied. A copy is complete or not there: it is written
beside its place, checked, and renamed. What it is called does not enter the identity of a run.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from fastocr_core.models.hub import hub_folder
from fastocr_core.models.revisions import model_revision
from fastocr_core.vision.families import family_of_name, hub_id_of
from workers.object_store import open_store
from workers.storage import (
    ObjectStore,
    StorageChanged,
    StorageDamaged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageSettings,
    StoredObject,
    is_s3,
)

FILE_SCHEME = "file://"
WEIGHTS_SUFFIX = ".safetensors"
DESCRIBING_SUFFIXES = (".json", ".txt", ".jinja")
MARK = ".copied"  # names and sizes of what a finished copy holds
FILES_AT_ONCE = 4
CHUNK_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The model of a run: a name, a hub id, a folder, `s3://bucket/folder` or `file:///folder`.

    `cache` is where copies go on a node; None for a folder of ours among the temporary files. Methods raise
    a `StorageError`, ValueError or FileNotFoundError of one sentence.
    """

    model: str
    revision: str | None
    storage: StorageSettings
    cache: str | None = None

    def pinned(self) -> str:
        """The revision it has now.

        In S3: names, sizes and version marks of the files, so that nothing is fetched; elsewhere what
        `model_revision` says, which for files is their content.
        """
        if is_s3(self.model):
            return _listing_digest(_listed(self._store(), weights=True))
        return model_revision(self._folder() or self.model, self.revision)

    def described(self) -> str:
        """A name or local folder that says how the model sees; weights are not fetched for it."""
        if is_stored(self.model):
            return str(self._copy(weights=False))
        hub_id = hub_id_of(self.model)
        if hub_id is not None and family_of_name(self.model) is None:
            return str(hub_folder(hub_id, self.revision, weights=False))
        return self.model

    def local(self) -> str:
        """What `load` is to be given on this node; copies the folder here if it lies in a storage."""
        return str(self._copy(weights=True)) if is_stored(self.model) else self.model

    @property
    def loaded_revision(self) -> str | None:
        """What `load` is to compare; None in S3, where the copy was compared with the listing."""
        return None if is_s3(self.model) else self.revision

    def _folder(self) -> str | None:
        return _folder_of(self.model) if self.model.startswith(FILE_SCHEME) else None

    def _store(self) -> ObjectStore:
        return open_store(self._folder() or self.model, self.storage)

    def _copy(self, *, weights: bool) -> Path:
        cache = Path(self.cache) if self.cache else _own_folder()
        kind = "weights" if weights else "description"
        revision = self.revision or self.pinned()
        key = hashlib.sha256(f"{self.model}\0{revision}\0{kind}".encode()).hexdigest()[:20]
        name = re.sub(r"[^\w.-]", "_", self.model.rstrip("/").rpartition("/")[2])
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(cache / f"{key}.lock"):
                if not _is_whole(cache / key / name):
                    self._fetch(cache, key, name, weights)
        except OSError as error:
            raise StorageError(f"The model {self.model} cannot be copied to {cache}: {error}.") from error
        return cache / key / name

    def _fetch(self, cache: Path, key: str, name: str, weights: bool) -> None:
        """Fill `cache/key/name`, by way of a folder that is renamed when everything in it is checked."""
        for rest in (cache / key, *cache.glob(f".{key}-*")):  # of a copy that was killed, or lost files since
            shutil.rmtree(rest, ignore_errors=True)
        store = self._store()
        listed = _listed(store, weights=True)
        if is_s3(self.model) and self.revision not in (None, _listing_digest(listed)):
            raise StorageChanged(f"The model {self.model} changed since the run began.")
        wanted = [stored for stored in listed if weights or not stored.key.endswith(WEIGHTS_SUFFIX)]
        unfinished = cache / f".{key}-{uuid.uuid4().hex[:8]}"
        folder = unfinished / name
        try:
            folder.mkdir(parents=True)
            with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
                list(threads.map(lambda stored: _copy_file(store, stored, folder), wanted))
            if _listing_digest(_listed(store, weights=True)) != _listing_digest(listed):
                raise StorageChanged(f"The model {self.model} changed while it was copied.")
            (folder / MARK).write_text(json.dumps({stored.key: stored.bytes for stored in wanted}), "utf-8")
            unfinished.rename(cache / key)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def is_stored(model: str) -> bool:
    """Whether a model is given as an address from which its folder must be copied."""
    return is_s3(model) or model.startswith(FILE_SCHEME)


def _folder_of(uri: str) -> str:
    """The path of a `file://` address. ValueError if it names a host or no path."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.strip("/"):
        raise ValueError(f"{uri} names no folder of this machine; write file:///folder")
    return path


def _listed(store: ObjectStore, *, weights: bool) -> list[StoredObject]:
    """The files of a model folder that we would copy, by name; what lies in folders below it is no part of it."""
    suffixes = (*DESCRIBING_SUFFIXES, *([WEIGHTS_SUFFIX] if weights else []))
    found = sorted(
        (stored for stored in store.list() if "/" not in stored.key and stored.key.endswith(suffixes)),
        key=lambda stored: stored.key,
    )
    if weights and not any(stored.key.endswith(WEIGHTS_SUFFIX) for stored in found):
        raise StorageMissing(f"There are no weights (*{WEIGHTS_SUFFIX}) in {store.root}.")
    return found


def _listing_digest(listed: Sequence[StoredObject]) -> str:
    """16 hex digits of names, sizes and version marks."""
    lines = "".join(f"{stored.key}\0{stored.bytes}\0{stored.etag}\n" for stored in listed)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def _copy_file(store: ObjectStore, stored: StoredObject, folder: Path) -> None:
    """Fetch one file in pieces; its size must be the one listed."""
    path = folder / stored.key
    with store.open(stored.key) as reader, path.open("wb") as writer:
        _pour(reader, writer)
        writer.flush()
        os.fsync(writer.fileno())
    if path.stat().st_size != stored.bytes:
        raise StorageDamaged(f"{stored.uri} gave {path.stat().st_size} bytes instead of {stored.bytes}.")


def _pour(reader: BinaryIO, writer: BinaryIO) -> None:
    while chunk := reader.read(CHUNK_BYTES):
        writer.write(chunk)


def _is_whole(folder: Path) -> bool:
    """Whether a finished copy still has everything: cleaners of temporary folders may have been there."""
    try:
        sizes = json.loads((folder / MARK).read_text("utf-8"))
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Among the processes of this node; a lock of a process that died is free."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _own_folder() -> Path:
    """Among the temporary files, for this user alone: nobody else may put a model under our feet."""
    folder = Path(tempfile.gettempdir()) / f"fastocr-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink() or status.st_mode & 0o022:
        raise StorageDenied(
            f"{folder} belongs to somebody else or is open to others; set cluster.model_cache."
        )
    return folder
