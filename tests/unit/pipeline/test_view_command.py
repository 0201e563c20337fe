"""`fastocr view`: one page to one HTML file, and one sentence with exit code 2 for what is not there."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import EXIT_USAGE, application


@pytest.fixture
def page(repository: Path) -> Path:
    return repository / "infra" / "examples" / "archive" / "orchard-diary.jp2"


def test_a_page_becomes_one_file(page: Path, tmp_path: Path) -> None:
    output = tmp_path / "fixation.html"
    command = ["view", str(page), "-o", str(output), "--model", "tiny", "--beside-dense"]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 0, result.output
    html = output.read_text("utf-8")
    assert "orchard-diary.jp2, page 1" in html
    assert '"name":"dense"' in html
    assert '"name":"fastocr 5%"' in html


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--page", "7"], "has 1 pages, there is no page 7"),
        (["--decode", "nope"], "unknown decode policy"),
        (["--model", "nosuchmodel"], "nosuchmodel"),
    ],
)
def test_what_is_not_there_is_said(page: Path, tmp_path: Path, changed: list[str], said: str) -> None:
    output = tmp_path / "fixation.html"
    command = ["view", str(page), "-o", str(output), "--model", "tiny", *changed]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == EXIT_USAGE
    assert said in result.output
    assert len(result.output.splitlines()) == 1
    assert not output.exists()


def test_no_such_file_and_no_document(repository: Path, tmp_path: Path) -> None:
    for document in (tmp_path / "nothing.png", repository / "README.md"):
        result = CliRunner().invoke(application, ["view", str(document), "-o", str(tmp_path / "x.html")])
        assert result.exit_code == EXIT_USAGE
        assert document.name in result.output
