"""Measurements as they are made, a JSON line each, so that a run that was stopped carries on.

The first line says what they were made with; a file made with something else is refused, not mixed. A line that was being
written when the run was stopped is dropped. What was measured is never written over in place.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Key = tuple[str, ...]


class Records:
    """Values by key, in `file` or, without one, only in memory.

    `check` raises ValueError for a stored value that is none of its key. ValueError, with the line, where the file was
    made with other settings, is damaged or is no such file; it is then left as it was.
    """

    def __init__(
        self,
        file: Path | None,
        made_with: Mapping[str, Any],
        check: Callable[[Key, Any], object] = lambda key, value: None,
    ) -> None:
        self._file = file
        self._values: dict[Key, Any] = {}
        made_with = json.loads(json.dumps(made_with))
        if file is None:
            return
        content = file.read_bytes() if file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # what follows the last line end was cut off
        if not content:
            whole = (json.dumps({"made_with": made_with}) + "\n").encode()
        elif not whole:
            raise ValueError(f"{file} holds no measurements of this kind")
        first, *lines = whole.split(b"\n")[:-1]
        self._check_made_with(first, made_with)
        for number, line in enumerate(lines, start=2):
            try:
                key, value = _entry(line)
                check(key, value)
            except ValueError as failure:
                raise ValueError(
                    f"{file}, line {number}: no measurement of this kind ({failure}): "
                    "remove the line, or give another output"
                ) from failure
            self._values[key] = value
        if whole != content:
            put_in_place(file, whole)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def __getitem__(self, key: Key) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: Key, value: Any) -> None:
        """Note a value, in place of an earlier one of that key, and write it at once."""
        self._values[key] = value
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"key": list(key), "value": value}) + "\n")

    def _check_made_with(self, line: bytes, made_with: Mapping[str, Any]) -> None:
        try:
            first = _parsed(line)
        except ValueError:
            first = None
        before = first.get("made_with") if isinstance(first, dict) else None
        if not isinstance(before, dict):
            raise ValueError(f"{self._file} holds no measurements of this kind")
        differing = sorted(
            key for key in before.keys() | made_with.keys() if before.get(key) != made_with.get(key)
        )
        if differing:
            raise ValueError(
                f"{self._file} holds measurements made with another {', '.join(differing)}: "
                "give another output or remove it"
            )


def _parsed(line: bytes) -> Any:
    """ValueError, in a few words, where this is no JSON."""
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as failure:
        raise ValueError("no JSON" if line.strip() else "empty") from failure


def _entry(line: bytes) -> tuple[Key, Any]:
    entry = _parsed(line)
    if not isinstance(entry, dict) or entry.keys() != {"key", "value"}:
        raise ValueError("not a key and a value")
    key = entry["key"]
    if not isinstance(key, list) or not key or not all(isinstance(part, str) for part in key):
        raise ValueError("a key that is no list of words")
    return tuple(key), entry["value"]


def put_in_place(file: Path, content: bytes) -> None:
    """Written beside and renamed: whenever this is stopped, the file is the old one or the new one."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
