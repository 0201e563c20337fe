"""Training of the stem alone, from a reader's checkpoint."""

import pathlib

import numpy as np
import pytest
import torch

from fastocr_core.models.mini.reader import MiniReader
from fastocr_core.models.mini.train import sharpen as module
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.stem import StemSchedule
from tests.support.made_layouts import AsciiWords

SCHEDULE = StemSchedule(seconds=0.0, batch=2, crop_pixels=192, seed=3)


@pytest.fixture
def plain_print(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages in the one font that every machine has."""
    monkeypatch.setattr(module, "find_faces", lambda families: [face])
    monkeypatch.setattr(module, "face_weights", lambda faces: np.ones(1))
    monkeypatch.setattr(module, "load_corpus", lambda: None)
    monkeypatch.setattr(module, "TextSource", lambda corpus, share: AsciiWords())


@pytest.mark.usefixtures("plain_print")
def test_crops_carry_their_labels() -> None:
    pixels, labels = module.WornCrops(SCHEDULE).batch()
    assert pixels.shape == (2, 192, 192)
    assert pixels.dtype == torch.uint8
    assert labels.shape == (2, 12, 48)
    assert (labels > 0).any()


@pytest.mark.usefixtures("plain_print")
def test_only_the_stem_changes_and_the_checkpoint_still_loads(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    weights = MiniReader().state_dict()
    average = {key: value.clone() for key, value in weights.items()}
    noisy = {key: value + 1 for key, value in weights.items()}
    state = {"reader": noisy, "average": weights, "optimizer": {"of": "noisy"}, "spent": 1.0, "steps": 7}
    torch.save(state | {"characters": 70}, tmp_path / "reader.pt")
    state = torch.load(module.sharpen(SCHEDULE, tmp_path, "reader"), weights_only=True)
    MiniReader().load_state_dict(state["average"])
    changed = {key.split(".")[0] for key in average if not torch.equal(state["average"][key], average[key])}
    assert changed == {"stem"}
    running = [key for key in average if "running_" in key]
    assert running
    assert all(torch.equal(state["average"][key], average[key]) for key in running)
    assert all(torch.equal(state["reader"][key], state["average"][key]) for key in average)
    # A beginning: another run's schedule and momentum would be those of other weights.
    assert (state["spent"], state["steps"], state["characters"]) == (0.0, 0, 70)
    assert "optimizer" not in state


@pytest.mark.usefixtures("plain_print")
def test_it_learns_to_name_letters() -> None:
    """From nothing, the loss on a batch falls."""
    torch.manual_seed(0)
    source, stem = module.WornCrops(SCHEDULE), MiniReader().stem.eval()
    optimizer = torch.optim.AdamW(stem.parameters(), 1e-3)
    batch = source.batch()
    losses = [module._step(stem, optimizer, *batch)[0] for _ in range(25)]
    assert losses[-1] < 0.5 * losses[0]


def test_without_a_checkpoint_there_is_nothing_to_sharpen(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        module.sharpen(SCHEDULE, tmp_path, "reader")
