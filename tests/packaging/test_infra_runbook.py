"""Every command that the runbook and the files beside it tell people to type exists, with its options."""

import errno
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from pipeline.cli import application
from pipeline.config import known_keys
from workers.outcomes import Reason

FENCE = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`((?:fastocr|fastocr-job|ray) [^`]+)`")
COMMENTED = re.compile(r"^# +((?:fastocr|fastocr-job) .*)$", re.MULTILINE)
FAULTS = (
    "driver killed", "OCR actor killed", "rasterize child killed", "node lost", "spot preemption", "S3 throttles",
    "403", "one object cannot be fetched", "out of reach", "very many objects",
    "credentials expired", "paused writer", "disk full", "damaged manifest", "wrong configuration",
    "GPU out of memory", "poisoned document", "loop pages",
)  # fmt: skip


def _runbook() -> str:
    return (Path(__file__).parents[2] / "RUNBOOK.md").read_text(encoding="utf-8")


def _typed() -> Iterator[str]:
    """What is to be typed: lines of shell blocks, and commands in running text and in comments of examples."""
    text = _runbook()
    for block in FENCE.findall(text):
        yield from (line for line in block.splitlines() if line.strip())
    yield from INLINE.findall(text)
    for example in sorted((Path(__file__).parents[2] / "infra/examples").glob("*.toml")):
        yield from COMMENTED.findall(example.read_text(encoding="utf-8"))


def _words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


OURS = sorted({line for line in _typed() if line.startswith(("fastocr ", "fastocr-job "))})
RAYS = sorted({line for line in _typed() if line.startswith("ray ")})
WHOLE = [line for line in OURS if len(_words(line)) > 2]


def _parse(words: list[str]) -> None:
    """Parse as the program would, short of running; raises a usage error for what it does not know."""
    command = typer.main.get_command(application)
    rest = words[1:]
    while hasattr(command, "commands"):
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
    command.make_context(words[1], rest)


@pytest.mark.parametrize("line", OURS)
def test_our_commands_and_their_options_exist(line: str) -> None:
    words = _words(line)
    if words[0] == "fastocr-job":
        words = ["fastocr", "run", *words[1:]]
    if line not in WHOLE:  # only named, as in "look at `fastocr report`"
        assert words[1] in typer.main.get_command(application).commands  # type: ignore[attr-defined]
        return
    _parse(words)


@pytest.mark.parametrize(
    "line", ["fastocr ruin a b", "fastocr run a b --decide dense", "fastocr config shew"]
)
def test_a_command_that_does_not_exist_would_be_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"no command|[Nn]o such option"):
        _parse(_words(line))


def test_all_commands_of_an_operator_are_shown() -> None:
    shown = {_words(line)[1] for line in OURS}
    assert {"run", "plan", "status", "verify", "report", "view", "doctor", "config"} <= shown


@pytest.mark.parametrize("line", RAYS)
def test_commands_of_ray_and_their_options_exist(line: str) -> None:
    from ray.dashboard.modules.job.cli import job_cli_group
    from ray.scripts.scripts import cli

    words = _words(line)[1:]
    command = job_cli_group if words[0] == "job" else cli
    words = words[1:] if words[0] == "job" else words
    name = words[0].replace("_", "-")
    known = {known.replace("_", "-"): found for known, found in command.commands.items()}
    assert name in known, f"ray has no {line}"
    options = {option for parameter in known[name].params for option in parameter.opts}
    before_entrypoint = words[: words.index("--")] if "--" in words else words
    given = {word for word in before_entrypoint if word.startswith("--")}
    assert given <= options, f"ray {name} knows no {given - options}"


def test_settings_that_are_named_exist() -> None:
    sections = {key.split(".")[0] for key in known_keys() if "." in key}
    named = {
        key for key in re.findall(r"`([a-z]+\.[a-z_]+)`", _runbook()) if key.split(".")[0] in sections
    } - _files()
    assert named
    assert named <= set(known_keys())


def _files() -> set[str]:
    return {"cluster.toml"}


def test_every_fault_has_its_row_with_what_to_do() -> None:
    rows = [line for line in _runbook().splitlines() if line.startswith("| ")]
    matrix = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    faults = {row[0].lower(): row for row in matrix if len(row) == 4}
    for fault in FAULTS:
        (*found,) = [row for name, row in faults.items() if fault.lower() in name]
        assert found, f"no row for {fault}"
        assert all(all(cell for cell in row) for row in found), fault


def test_sentences_that_are_quoted_are_said_by_the_program() -> None:
    root = Path(__file__).parents[2]
    sources = [path for folder in ("pipeline", "workers") for path in sorted((root / folder).glob("*.py"))]
    said = os.strerror(errno.ENOSPC) + "".join(path.read_text(encoding="utf-8") for path in sources)
    joined = re.sub(r'"\s*\n\s*f?"', "", said)
    quoted = [
        piece.strip() for quote in re.findall(r'"([^"\n]{10,})"', _prose()) for piece in quote.split("…")
    ]
    pieces = [piece for piece in quoted if len(piece) > 8]
    assert len(pieces) >= 8
    assert [piece for piece in pieces if piece not in joined] == []


def _prose() -> str:
    """The runbook without code, and without references to its own headings and to panels."""
    text = re.sub(r"^```.*?^```", "", _runbook(), flags=re.DOTALL | re.MULTILINE)
    return text.replace('see "Poisoned document"', "").replace('"Decode slots in use"', "")


def test_reasons_that_are_named_exist() -> None:
    named = {
        word for word in re.findall(r"`([a-z]+_[a-z_]+)`", _runbook())
        if word.startswith(("render_", "storage_", "model_", "too_", "changed_", "token_"))
    }  # fmt: skip
    columns = {"model_revision"}
    assert named - columns <= {str(reason) for reason in Reason}


def test_files_that_are_named_exist() -> None:
    root = Path(__file__).parents[2]
    for name in set(re.findall(r"infra/[\w./-]+\.(?:yaml|yml|json|toml)", _runbook())):
        assert (root / name).is_file(), name
