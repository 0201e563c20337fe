"""Measurements as they are made, a JSON line each, so that a run that was stopped carries on.

The first line says what they were made with; a file made with something else is refused, not mixed. A line that was being
written when the run was stopped is dropped.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Key = tuple[str, ...]


class Records:
    """Values by key, in `file` or, without one, only in memory.

    ValueError where the file was made with other settings or is no such file.
    """

    def __init__(self, file: Path | None, made_with: Mapping[str, Any]) -> None:
        self._file = file
        self._values: dict[Key, Any] = {}
        made_with = json.loads(json.dumps(made_with))
        if file is None:
            return
        kept = _lines(file)
        if kept:
            self._check(json.loads(kept[0]), made_with)
            for line in kept[1:]:
                entry = json.loads(line)
                self._values[tuple(entry["key"])] = entry["value"]
        else:
            kept = [json.dumps({"made_with": made_with})]
        file.write_text("".join(line + "\n" for line in kept), "utf-8")

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def __getitem__(self, key: Key) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: Key, value: Any) -> None:
        """Note a value and write it at once."""
        self._values[key] = value
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"key": list(key), "value": value}) + "\n")

    def _check(self, first: Any, made_with: Mapping[str, Any]) -> None:
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


def _lines(file: Path) -> list[str]:
    """Whole lines; what follows the last line end was cut off."""
    if not file.is_file():
        return []
    return file.read_text("utf-8").split("\n")[:-1]
