"""The commands of `fastocr eval`, from the command line to the files they write."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fastocr_core.confidence import CONFIDENCE_FILE, thresholds
from pipeline.cli import application


def _run(line: str, *more: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(application, ["eval", *shlex.split(line), *more])
    return done.exit_code, done.stdout, done.stderr


def test_reader_prints_a_table() -> None:
    code, printed, said = _run(
        "reader --model tiny --decode dense --others nobody, --sets columns --pages 1 --max-output-tokens 8"
    )
    assert code == 2
    assert said.endswith("unknown reader 'nobody'; known: tesseract, rapidocr\n")
    code, printed, _ = _run(
        "reader --model tiny --decode dense,fastocr --others '' --sets columns --pages 1 --max-output-tokens 8"
    )
    assert code == 0
    assert "| tiny dense |" in printed
    assert "| tiny fastocr 5% |" in printed
    assert "| columns | 1 |" in printed


def test_fixation_writes_table_figure_and_json_and_carries_on(tmp_path: Path) -> None:
    line = (
        "fixation --model tiny --kept-shares 0.1 --groups choice --warmups 2 --focal-layers 0+1 --focal-counts '' "
        "--page-focal-counts 1 --pages 1 --forced-pages 1 --forced-steps 24 --max-output-tokens 24 -o"
    )
    code, printed, said = _run(line, str(tmp_path / "fixation"))
    assert code == 0
    assert "fixation.md" in printed
    assert "readings of pages to do" in said
    report = json.loads((tmp_path / "fixation.json").read_text())
    assert [row["label"] for row in report["rows"]] == [
        "dense", "fastocr", "fastocr, w = 2", "fastocr, |C| = 2, layers 0, 1",
        "fastocr, |C| = 1, most looking, by page",
    ]  # fmt: skip
    table = (tmp_path / "fixation.md").read_text()
    assert "fastocr, w = 2" in table
    assert (tmp_path / "fixation.png").stat().st_size > 10_000
    code, _, said = _run(line, str(tmp_path / "fixation"))
    assert (code, said) == (0, "")  # nothing was left to do
    assert (tmp_path / "fixation.md").read_text() == table
    code, _, said = _run(line.replace("--forced-steps 24", "--forced-steps 30"), str(tmp_path / "fixation"))
    assert code == 2
    assert "made with another forced_steps" in said


def test_two_studies_in_one_table(tmp_path: Path) -> None:
    for name in ("one", "two"):
        code, _, _ = _run(
            "fixation --model tiny --kept-shares 0.1 --groups '' --pages 1 --forced-pages 0 --max-output-tokens 24 -o",
            str(tmp_path / name),
        )
        assert code == 0
    files = [str(tmp_path / f"{name}.json") for name in ("one", "two")]
    code, printed, _ = _run("fixation-beside --names guided,annealed", *files)
    assert code == 0
    assert "| fastocr 10% | guided |" in printed
    assert "| fastocr 10% | annealed |" in printed
    code, _, said = _run("fixation-beside --names guided", *files)
    assert (code, said) == (2, "fastocr: 2 studies need as many names, not 1\n")


def test_confidence_of_a_model_without_a_folder_is_not_stored(tmp_path: Path) -> None:
    line = "confidence --model tiny --sets clean --pages 1 --pages-by-script 1 --max-output-tokens 8"
    code, _, said = _run(f"{line} --store")
    assert code == 2
    assert "no folder where thresholds could be stored" in said
    code, printed, _ = _run(line)
    assert code == 0
    assert "| clean | 1 | 0 | 0 |" in printed
    assert "| upside down | 1 | 0 | 0 |" in printed


def test_thresholds_that_are_stored_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study with pages that count as read, on a copy of the weights."""

    from fastocr_core.evaluation import confidence
    from fastocr_core.models.revisions import mini_folder

    folder = tmp_path / "weights"
    shutil.copytree(mini_folder(), folder)
    monkeypatch.setattr(confidence, "READ_CER", 2.0)  # every page counts as read
    monkeypatch.setattr(confidence, "LEAST_READ", 1)
    monkeypatch.setattr(confidence, "LEAST_NOT_READ", 0)
    code, _, said = _run(
        "confidence --sets layouts --pages 1 --pages-by-script 0 --max-output-tokens 20 --store --model",
        str(folder),
    )
    assert code == 0, said
    assert (folder / CONFIDENCE_FILE).is_file()
    assert thresholds(str(folder)).measured
