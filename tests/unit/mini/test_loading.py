"""A folder that is no folder of `mini` is refused in one sentence that says why."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fastocr_core.models.mini.adapter import load_mini
from fastocr_core.models.revisions import mini_folder


def changed(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> Path:
    """A copy of the shipped folder with other tensors."""
    shutil.copytree(mini_folder(), folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no config\.json"):
        load_mini(tmp_path)
    shutil.copy(mini_folder() / "config.json", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"holds no model\.safetensors"):
        load_mini(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.pop("head.weight"),
        lambda tensors: tensors.update({"head.bias": torch.zeros(3)}),
        lambda tensors: tensors.update({"head.weight": tensors["head.weight"][1:].clone()}),
        lambda tensors: tensors.update({"head.weight": tensors["head.weight"].to(torch.int8)}),
    ],
    ids=["missing", "unknown", "misshapen", "integers"],
)
def test_tensors_that_do_not_fit(tmp_path: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    with pytest.raises(ValueError, match=r"does not fit the model: head\."):
        load_mini(changed(tmp_path / "mini", change))


def test_weights_cut_off(tmp_path: Path) -> None:
    folder = changed(tmp_path / "mini", lambda tensors: None)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:4000])
    with pytest.raises(ValueError, match="is damaged"):
        load_mini(folder)


def test_another_alphabet(tmp_path: Path) -> None:
    folder = changed(tmp_path / "mini", lambda tensors: None)
    card = (folder / "config.json").read_text("utf-8")
    (folder / "config.json").write_text(card.replace('"vocabulary": ', '"vocabulary": 1'), "utf-8")
    with pytest.raises(ValueError, match="another alphabet"):
        load_mini(folder)
