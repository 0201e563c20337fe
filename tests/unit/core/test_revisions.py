"""The revision of a model is known without loading it, and is the one the loaded model reports."""

import subprocess
import sys
from pathlib import Path

import pytest

from fastocr_core import load
from fastocr_core.models.revisions import WEIGHTS_FILE, model_revision, weights_revision


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_equals_what_the_loaded_model_reports(name: str) -> None:
    assert model_revision(name) == load(name, device="cpu").revision


def test_follows_the_weights(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS_FILE).write_bytes(b"first")
    before = model_revision(str(tmp_path))
    (tmp_path / WEIGHTS_FILE).write_bytes(b"second")
    assert before != weights_revision(tmp_path)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match="nonesuch"):
        model_revision("nonesuch")


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no model\.safetensors in"):
        model_revision(str(tmp_path))


def test_needs_no_torch() -> None:
    code = "import sys; import fastocr_core.models.revisions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
