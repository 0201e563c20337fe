"""Where thresholds of confidence come from, and when they are not believed."""

import json
import shutil
from pathlib import Path

import pytest

from fastocr_core.confidence import CONFIDENCE_FILE, GUESSED, Thresholds, confidence_file, thresholds
from fastocr_core.models.revisions import mini_folder, model_revision


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of mini's weights without thresholds."""
    copied = tmp_path / "weights"
    shutil.copytree(mini_folder(), copied, ignore=shutil.ignore_patterns(CONFIDENCE_FILE))
    return copied


def _store(folder: Path, **content: object) -> None:
    (folder / CONFIDENCE_FILE).write_text(json.dumps(content), "utf-8")


def test_models_without_a_file_get_the_guess(folder: Path) -> None:
    assert thresholds(str(folder)) == thresholds("tiny") == thresholds("someone/model") == GUESSED
    assert not GUESSED.measured
    assert confidence_file("tiny") is None
    assert confidence_file("mini") == mini_folder() / CONFIDENCE_FILE


def test_measured_thresholds_hold_for_their_weights_only(folder: Path) -> None:
    revision = model_revision(str(folder))
    _store(folder, mean=-0.25, window=-1.5, revision=revision)
    assert thresholds(str(folder)) == Thresholds(-0.25, -1.5, measured=True)
    _store(folder, mean=-0.25, window=-1.5, revision="0" * 16, more="than before")
    assert thresholds(str(folder)) == GUESSED


@pytest.mark.parametrize(
    "content", [{}, {"mean": 0.5, "window": -1, "revision": "x"}, {"mean": "x", "window": -1}]
)
def test_a_file_that_says_nonsense_is_refused(folder: Path, content: dict[str, object]) -> None:
    _store(folder, **content)
    with pytest.raises(ValueError, match=r"confidence\.json holds"):
        thresholds(str(folder))


def test_the_shipped_thresholds_can_be_used() -> None:
    found = thresholds("mini")
    assert found.mean <= 0
    assert found.window <= 0
