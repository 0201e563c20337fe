"""`fastocr view`: one page to one HTML file, and one sentence with exit code 2 for what is not there."""

from pathlib import Path

import pytest
from PIL import Image
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


def test_a_page_becomes_a_still_and_an_animation(page: Path, tmp_path: Path) -> None:
    for name, steps, frames in (("one.png", "9", 1), ("many.gif", "1-12", 12)):
        output = tmp_path / name
        command = [
            "view",
            str(page),
            "-o",
            str(output),
            "--model",
            "tiny",
            "--steps",
            steps,
            "--part",
            "0-50",
        ]
        result = CliRunner().invoke(application, command)
        assert result.exit_code == 0, result.output
        with Image.open(output) as picture:
            assert picture.format == name.split(".")[1].upper()
            assert getattr(picture, "n_frames", 1) == frames


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["-o", "fixation.pdf"], "a file ending in .pdf cannot be written"),
        (["-o", "x.gif", "--steps", "1-100000"], "so 1-100000 cannot be drawn"),
        (["-o", "x.gif", "--steps", "many"], "'many' is neither a number"),
        (["-o", "x.png", "--part", "60-50"], "'60-50' is no part of a page"),
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
