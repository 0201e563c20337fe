"""Where `fastocr eval` writes: files of one name with suffixes of their own, looked at before anything is read."""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

TABLE, FACTS, FIGURE, MEASURED = ".md", ".json", ".png", ".jsonl"


@dataclass(frozen=True, slots=True)
class Output:
    """The files NAME.md, NAME.json and what a command writes besides; `name` is a path without their suffix."""

    name: Path

    def file(self, suffix: str) -> Path:
        """Of that kind. The name is kept whole, whatever dots are in it."""
        return self.name.with_name(self.name.name + suffix)

    def write(self, markdown: str, facts: Mapping[str, object]) -> None:
        """The table and the facts."""
        self.file(TABLE).write_text(markdown, "utf-8")
        self.file(FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        typer.echo(f"{self.file(TABLE)} and {self.file(FACTS)}")


def output_at(path: Path | None, more: Iterable[str] = (), inputs: Iterable[Path] = ()) -> Output | None:
    """The output of that name; NAME.md and NAME.json mean NAME. None where nothing is to be written.

    `more` are suffixes besides those two, `inputs` files that must not be written over. ValueError, in one sentence, for a
    folder, a folder that is not there or cannot be written to, and for an input.
    """
    if path is None:
        return None
    name = path.with_suffix("") if path.suffix in (TABLE, FACTS) else path
    if path.is_dir() or name.name in ("", ".."):
        raise ValueError(f"{path} is a folder: name the files to write, as {path / 'study'}")
    check_folder(name.parent)
    output = Output(name)
    read = {file.resolve() for file in inputs}
    for file in map(output.file, (TABLE, FACTS, *more)):
        if file.resolve() in read:
            raise ValueError(
                f"{file} would be written over, and is one of the files to read: name another output"
            )
        if file.exists() and not (file.is_file() and os.access(file, os.W_OK)):
            raise ValueError(f"{file} cannot be written over: name another output")
    return output


def check_folder(folder: Path) -> None:
    """ValueError, in one sentence, where no file can be written into it."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to write to")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as failure:
        raise ValueError(f"{folder} cannot be written to: {failure.strerror or failure}") from failure


def deliver(markdown: str, facts: Mapping[str, object], output: Output | None) -> None:
    """Both forms: into two files, or the table alone to the terminal."""
    if output is None:
        typer.echo(markdown)
    else:
        output.write(markdown, facts)
