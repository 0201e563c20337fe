"""The documents at the root name every command, setting, metric, outcome and reason."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

from pipeline.cli import application
from pipeline.config import FOREIGN_VARIABLES, environment_variable, known_keys
from workers.metrics import METRICS
from workers.outcomes import DocumentOutcome, Outcome, Reason

DOCUMENTS = ("README.md", "ARCHITECTURE.md")


@pytest.fixture(scope="module")
def documentation(repository: Path) -> str:
    return "\n".join((repository / name).read_text(encoding="utf-8") for name in DOCUMENTS)


def _commands(group: click.Group, prefix: str = "fastocr") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _all_commands() -> list[tuple[str, click.Command]]:
    group = typer.main.get_command(application)
    return list(_commands(group))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "command"), _all_commands())
def test_every_command_is_described_and_has_help(
    name: str, command: click.Command, documentation: str
) -> None:
    assert command.help
    assert f"`{name}" in documentation
    undocumented = [
        option.name
        for option in command.params
        if isinstance(option, click.Option) and option.name != "help" and not option.help
    ]
    assert undocumented == []


@pytest.mark.parametrize("key", known_keys())
def test_every_setting_is_described(key: str, documentation: str) -> None:
    assert f"`{key}`" in documentation


@pytest.mark.parametrize("name", [metric.name for metric in METRICS])
def test_every_metric_is_described(name: str, documentation: str) -> None:
    assert f"`{name}`" in documentation


@pytest.mark.parametrize("name", sorted({*Outcome, *DocumentOutcome, *Reason}))
def test_every_outcome_and_reason_is_described(name: str, documentation: str) -> None:
    assert f"`{name}`" in documentation


def test_every_environment_variable_in_the_documents_is_known(documentation: str) -> None:
    named = set(re.findall(r"`(FASTOCR_[A-Z_]+)`", documentation))
    variables = {environment_variable(key) for key in known_keys()}
    assert "FASTOCR_DECODE__KEPT_SHARE" in named
    assert [name for name in named - variables if not name.startswith(FOREIGN_VARIABLES)] == []
