"""Sizes and names that keep the code readable."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("pipeline", "workers", "fastocr_core", "infra", "tests")
MOST_MODULE_LINES = 500
MOST_FUNCTION_LINES = 60
NAMELESS = {"utils", "helpers", "common", "misc", "manager"}
EMPTY = ("pipeline/__init__.py", "workers/__init__.py", "infra/__init__.py")


def _modules(repository: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((repository / package).rglob("*.py"))


def test_modules_are_short_named_for_an_idea_and_say_what_they_are_for(repository: Path) -> None:
    problems = []
    for module in _modules(repository):
        text = module.read_text(encoding="utf-8")
        if text.count("\n") > MOST_MODULE_LINES:
            problems.append(f"{module}: {text.count(chr(10))} lines")
        if module.stem in NAMELESS:
            problems.append(f"{module}: a name without an idea")
        if text and not ast.get_docstring(ast.parse(text)):
            problems.append(f"{module}: no docstring")
    assert problems == []


def test_functions_are_short(repository: Path) -> None:
    problems = []
    for module in _modules(repository):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_FUNCTION_LINES:
                    problems.append(f"{module.name}:{node.name} has {lines} lines")
    assert problems == []


@pytest.mark.parametrize("name", EMPTY)
def test_front_doors_with_common_names_stay_empty(repository: Path, name: str) -> None:
    assert (repository / name).read_text(encoding="utf-8") == ""
