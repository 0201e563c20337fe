"""A folder as object store: the same promises as S3, kept with temporary files, renames and links.

A link that refuses to replace stands in for `If-None-Match: *`. Temporary files live under `_work/`, so that
a killed writer leaves nothing beside the published parts.
"""

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from workers.storage import (
    ObjectStore,
    StorageChanged,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageUnsupported,
    StoredObject,
)

NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EBADF)
TEMPORARY_FOLDER = Path("_work") / "tmp"
PLACE_ATTEMPTS = 5
WITHOUT_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_ESCAPED_BYTE = re.compile(r"%([89A-F][0-9A-F])")


class LocalStore(ObjectStore):
    """Objects are the regular files below `root`; symbolic links to folders are not followed.

    `single_writer` is a promise for file systems without hard links: nobody else writes here.
    """

    def __init__(self, root: str, *, single_writer: bool = False) -> None:
        self._root = Path(os.path.abspath(root))
        self._place_new = os.replace if single_writer else _link
        self.root = str(self._root)

    def uri(self, key: str) -> str:
        return f"{self.root.rstrip('/')}/{key}"

    def list(
        self, prefix: str = "", left_out: Callable[[str], object] | None = None
    ) -> Iterator[StoredObject]:
        start = self._root / prefix.rpartition("/")[0]
        if not start.exists():
            if prefix:
                return
            raise StorageMissing(f"There is no folder {self.root}.")
        for folder, folders, names in os.walk(start, onerror=_raise_walk_error):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                path = Path(folder, name)
                key = _readable(str(path.relative_to(self._root)))
                if not key.startswith(prefix):
                    continue
                status = _status(path)
                if status is not None and stat.S_ISREG(status.st_mode):
                    yield StoredObject(self.uri(key), key, status.st_size, _etag(status))
                elif left_out is not None and os.path.lexists(path):
                    left_out(self.uri(key) + ("/" if status and stat.S_ISDIR(status.st_mode) else ""))

    def get(self, key: str, etag: str | None = None) -> bytes:
        try:
            with self._path(key).open("rb") as file:
                before = _etag(os.fstat(file.fileno()))
                data = file.read()
                after = _etag(os.fstat(file.fileno()))
        except OSError as error:
            raise _translated(error, self.uri(key)) from error
        if etag is not None and not before == after == etag:
            raise StorageChanged(f"{self.uri(key)} changed since it was listed.")
        return data

    def open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except OSError as error:
            raise _translated(error, self.uri(key)) from error

    def put(self, key: str, data: bytes) -> None:
        self._place(key, data, os.replace)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self._path(key).exists():
            return False
        try:
            self._place(key, data, self._place_new)
        except FileExistsError:
            return False
        return True

    def find(self, key: str) -> StoredObject | None:
        status = _status(self._path(key))
        if status is None or not stat.S_ISREG(status.st_mode):
            return None
        return StoredObject(self.uri(key), key, status.st_size, _etag(status))

    def delete(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            raise _translated(error, self.uri(key)) from error

    def delete_below(self, prefix: str) -> int:
        removed = super().delete_below(prefix)
        folder = self._root / prefix
        if prefix.endswith("/") and folder.is_dir():
            for path, _, _ in os.walk(folder, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    break  # somebody writes there again; what they leave is theirs to remove
        return removed

    def _path(self, key: str) -> Path:
        """The file of a key; a key that would leave the root is refused."""
        if not key or key.startswith("/") or ".." in key.split("/") or "\0" in key:
            raise StorageError(f"The key {key!r} does not name an object below {self.root}.")
        path = self._root / key
        if _ESCAPED_BYTE.search(key) and not path.exists():
            return self._root / _ESCAPED_BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), key)
        return path

    def _place(self, key: str, data: bytes, place: Callable[[Path, Path], None]) -> None:
        """Write a temporary file and `place` it under its key; lets `FileExistsError` of `place` through.

        A driver that completes the run beside us removes the work folder, our file in it included: once more.
        """
        path = self._path(key)
        for attempt in range(PLACE_ATTEMPTS):
            temporary = self._root / TEMPORARY_FOLDER / uuid.uuid4().hex
            try:
                self._make_folders(path)
                _write_durably(temporary, data)
                place(temporary, path)
                return
            except FileExistsError:
                raise
            except OSError as error:
                if attempt == PLACE_ATTEMPTS - 1 or not isinstance(error, FileNotFoundError):
                    raise _translated(error, self.uri(key)) from error
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink()

    def _make_folders(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            (self._root / TEMPORARY_FOLDER).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise StorageError(f"{error.filename}: a file stands where a folder is needed.") from error


def _link(temporary: Path, path: Path) -> None:
    """Give the file its name, or raise `FileExistsError`; what is there is never replaced."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno in WITHOUT_LINKS:
            raise StorageUnsupported(
                f"The file system of {path.parent} has no hard links, which keep two writers apart."
            ) from error
        raise


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _readable(key: str) -> str:
    """Names whose bytes are not UTF-8 keep those bytes as %XX; `_path` finds them again."""
    return _UNDECODABLE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", key)


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def _status(path: Path) -> os.stat_result | None:
    """What a name leads to; None if it leads nowhere, be it that it vanished meanwhile."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in NOWHERE:
            return None
        raise _translated(error, str(path)) from error


def _raise_walk_error(error: OSError) -> None:
    """A folder that vanished while we walked holds nothing; one we may not read is an error."""
    if isinstance(error, FileNotFoundError):
        return
    raise _translated(error, str(error.filename)) from error


def _translated(error: OSError, place: str) -> StorageError:
    """Turn an error of the operating system into ours."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return StorageMissing(f"There is no file {place}.")
    if isinstance(error, PermissionError):
        return StorageDenied(f"No permission for {place} ({error.strerror}).")
    return StorageError(f"{place}: {error.strerror or error}.")
