"""Everything that a run has written or says while it runs, to be searched for what must not be in it."""

import io
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.run_process import RunProcess
from workers.object_store import ObjectStore

PARQUET_MARK = b"PAR1"
GUARD = b"session_guard.py"
MOST_FILE_BYTES = 20_000_000


def everything_written(store: ObjectStore) -> Iterator[tuple[str, str]]:
    """Key and content of each object of a target; tables as their rows, schema and metadata, since their bytes
    are compressed.
    """
    for stored in store.list():
        data = store.get(stored.key)
        if data[:4] == PARQUET_MARK:
            table = pq.read_table(io.BytesIO(data))
            yield stored.key, f"{table.schema.to_string()}{table.schema.metadata}{table.to_pylist()}"
        else:
            yield stored.key, data.decode("utf-8", "replace")


@dataclass(slots=True)
class Searched:
    """Logs of Ray and its workers, and command lines of all helpers, looked through again and again during a run.

    Ray's folder goes with the run, so afterwards it is too late. `betrayed` are the places that held one of the words.
    """

    words: tuple[bytes, ...]
    places: set[str] = field(default_factory=set)
    betrayed: set[str] = field(default_factory=set)

    def look(self, run: RunProcess) -> None:
        """Look once at what there is now."""
        for pid in run.helpers():
            command = _read(Path(f"/proc/{pid}/cmdline"))
            self.search(f"command line of {pid}", command)
            if GUARD in command:
                self.search_folder(Path(command.rstrip(b"\0").split(b"\0")[-1].decode()))

    def search_folder(self, folder: Path) -> None:
        """All regular files of a folder at any depth, but for memory that is mapped from one."""
        for file in _regular_files(folder):
            self.search(str(file.relative_to(folder)), _read(file))

    def search(self, place: str, data: bytes) -> None:
        """One piece of text."""
        self.places.add(place)
        if any(word in data for word in self.words):
            self.betrayed.add(place)


def searched_for(words: Iterable[str]) -> Searched:
    """To find these words; nothing is searched yet."""
    return Searched(tuple(word.encode() for word in words))


def _regular_files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            try:
                status = file.lstat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_FILE_BYTES:
                yield file


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # gone meanwhile
