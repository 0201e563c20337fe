"""`fastocr view`: one page to one HTML file, and one sentence with exit code 2 for what is not there."""

import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from typer.testing import CliRunner

from fastocr_core import DecodePolicy
from pipeline.cli import application
from pipeline.command_end import EXIT_RUN_FAILED, EXIT_USAGE


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


def _never(*given: object, **named: object) -> bytes:
    raise AssertionError("the page was read")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["-o", "x.html", "--steps", "1-3"], "--steps choose what a .png or .gif shows"),
        (["-o", "x.html", "--part", "0-50"], "--part choose what a .png or .gif shows"),
        (["-o", "x.gif", "--steps", "5-3"], "'5-3' are no steps"),
        (["-o", "x.gif", "--steps", "0-3"], "'0-3' are no steps"),
        (["-o", "missing/x.html"], "there is no folder missing"),
        (["-o", "folder.html"], "it is a folder"),
        (["-o", "x.html", "--decode", "dense", "--beside-dense"], "--decode dense has no other"),
        (["-o", "x.html", "--decode", "dense", "--kept-share", "0.1"], "--kept-share changes nothing"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_page_is_read(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[str], said: str
) -> None:
    monkeypatch.setattr("workers.view_page.view_page", _never)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    result = CliRunner().invoke(application, ["view", str(page), "--model", "tiny", *changed])
    assert result.exit_code == EXIT_USAGE, result.output
    assert said in result.output
    assert len(result.output.splitlines()) == 1


def test_the_scan_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan, link, hard = tmp_path / "scan.png", tmp_path / "link.png", tmp_path / "hard.gif"
    Image.new("L", (60, 40), 255).save(scan)
    link.symlink_to(scan)
    hard.hardlink_to(scan)
    before = scan.read_bytes()
    for output in (scan, link, hard):
        result = CliRunner().invoke(application, ["view", str(scan), "-o", str(output), "--model", "tiny"])
        assert result.exit_code == EXIT_USAGE
        assert "is the document itself" in result.output
        assert len(result.output.splitlines()) == 1
        assert scan.read_bytes() == before


def test_an_output_that_may_not_be_written_is_told_before_the_page_is_read(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root everything may be written, so the answer of the system is made up."""
    monkeypatch.setattr("workers.view_page.view_page", _never)
    monkeypatch.setattr("os.access", lambda path, mode, **how: mode != os.W_OK)
    result = CliRunner().invoke(application, ["view", str(page), "-o", str(tmp_path / "x.html")])
    assert result.exit_code == EXIT_USAGE
    assert "permission denied" in result.output


@pytest.mark.parametrize("size", [(600, 140), (1, 1)])
@pytest.mark.parametrize("name", ["page.png", "page.gif", "page.html"])
def test_an_empty_page_is_drawn_without_fixation(tmp_path: Path, size: tuple[int, int], name: str) -> None:
    scan, output = tmp_path / "empty.png", tmp_path / f"view-{name}"
    Image.new("L", size, 255).save(scan)
    result = CliRunner().invoke(application, ["view", str(scan), "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert output.stat().st_size > 0


def test_of_many_steps_the_last_is_shown_and_the_limit_is_in_the_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import workers.view_page as worker

    scan = tmp_path / "scan.png"
    Image.new("L", (60, 40), 255).save(scan)
    shown: list[list[int]] = []
    for count in (3, 120, 121, 199, 240, 301):
        trace = SimpleNamespace(gazes=(None,) * count)
        monkeypatch.setattr(worker, "record", lambda *given, trace=trace: trace)
        monkeypatch.setattr(worker, "animation", lambda traces, steps, size: shown.append([*steps]) or b"GIF")
        worker.view_page(scan, 0, "tiny", [DecodePolicy.dense()], kind=".gif")
        frames = shown[-1]
        assert (frames[0], frames[-1]) == (0, count - 1)
        assert len(frames) == min(count, 120)
        gaps = {later - earlier for earlier, later in pairwise(frames)}
        assert max(gaps) - min(gaps) <= 1
    assert str(worker.MOST_FRAMES) in CliRunner().invoke(application, ["view", "--help"]).output


def test_ctrl_c_promises_nothing_that_is_not_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("workers.view_page.view_page", stopped)
    result = CliRunner().invoke(application, ["view", str(page), "-o", str(tmp_path / "x.html")])
    assert result.exit_code == EXIT_RUN_FAILED
    assert (
        result.output
        == "Stopped. Nothing was written; the same command reads the page again from its beginning.\n"
    )


def test_a_small_kept_share_is_named(page: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.html"
    command = ["view", str(page), "-o", str(output), "--model", "tiny", "--kept-share", "0.004"]
    assert CliRunner().invoke(application, command).exit_code == 0
    assert '"name":"fastocr 0.4%"' in output.read_text("utf-8")
