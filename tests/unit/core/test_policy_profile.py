"""The profile command: it measures a model on images, chooses focal layers and stores them."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fastocr_core import DecodePolicy, profile
from fastocr_core.decoding.focal_choice import best_focal_layers, recovered_share
from fastocr_core.decoding.focal_profile import PROFILE_FILE, read_profile, stored_focal_layers, write_profile
from fastocr_core.models import registry
from fastocr_core.vision.families import FAMILIES
from tests.parity.random_model import RandomAdapter, page_of


def test_profile_of_a_model_on_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = []
    for number in range(2):
        noise = np.random.default_rng(number).integers(0, 256, (160, 120), dtype=np.uint8)
        images.append(tmp_path / f"{number}.png")
        Image.fromarray(noise).save(images[-1])
    stored = tmp_path / PROFILE_FILE
    arguments = ["tiny", *map(str, images), "-o", str(stored), "--focal-count", "2", "--device", "cpu"]
    profile.main(arguments)
    lines = capsys.readouterr().out.splitlines()
    found = read_profile(stored)
    assert json.loads(lines[-1]) == json.loads(stored.read_text("utf-8"))
    assert f"focal layers: {list(found.focal_layers)}" in lines
    assert (found.model, found.pages, found.floor) == ("tiny", 2, 4)
    assert len(found.focal_layers) == len(found.focal_layers_by_ratio) == 2
    assert found.recovered_share >= found.recovered_share_by_ratio
    assert found.read_share == pytest.approx(0.5 + 0.5 * 0.05)
    shares = [choice["recovered_share"] for choice in found.choices]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0  # all four layers are focal
    assert stored_focal_layers(tmp_path) == found.focal_layers
    assert DecodePolicy.fastocr(focal_layers=found.focal_layers).focal_layers == found.focal_layers


def test_no_profile_is_no_layers_and_another_file_is_refused(tmp_path: Path) -> None:
    assert stored_focal_layers(tmp_path) == ()
    (tmp_path / PROFILE_FILE).write_text('{"focal_layers": [1]}', "utf-8")
    with pytest.raises(ValueError, match="is no profile"):
        stored_focal_layers(tmp_path)
    (tmp_path / PROFILE_FILE).write_text("focal", "utf-8")
    with pytest.raises(ValueError, match="is no JSON"):
        stored_focal_layers(tmp_path)


def test_loading_a_folder_takes_the_profile_beside_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaders = SimpleNamespace(load=lambda folder, dtype, mode: RandomAdapter())
    monkeypatch.setattr(registry, "import_module", lambda name: loaders)
    family = registry.ModelFamily(next(iter(FAMILIES)), "somewhere:load")
    assert family.load(tmp_path).focal_layers == (1, 3)
    masses, pages = profile.measure_layers(RandomAdapter(), [page_of(30, 1)], 0.1, 2, "kv_max", 1, 6)
    found = profile.profile_of(RandomAdapter(), masses, pages, 0.1, 2, "kv_max", 1)
    write_profile(found, tmp_path / PROFILE_FILE)
    assert family.load(tmp_path).focal_layers == found.focal_layers
    write_profile(replace(found, focal_layers=(9,)), tmp_path / PROFILE_FILE)
    with pytest.raises(ValueError, match="focal layers must be some of"):
        family.load(tmp_path)


def test_measured_layers_of_a_random_model() -> None:
    """Pages that fail are left out; which pages share a batch changes nothing."""
    pages = [page_of(30, 1), page_of(7, 2), page_of(44, 3)]
    model = RandomAdapter(broken_tokens=7)
    masses, count = profile.measure_layers(model, pages, 0.1, 2, "kv_max", 2, 12)
    alone, _ = profile.measure_layers(model, pages, 0.1, 2, "kv_max", 1, 12)
    assert count == 2
    assert masses.steps == 2 * 10  # twelve tokens: one from the prompt, one step without a set before it
    assert masses.mass == pytest.approx(alone.mass, abs=1e-6)
    assert recovered_share(masses, best_focal_layers(masses, 2)) > 0.4
    with pytest.raises(ValueError, match="cannot be encoded"):
        profile.measure_layers(model, [page_of(7, 2)], 0.1, 2, "kv_max", 2, 12)


def test_a_wrong_call_is_one_sentence() -> None:
    with pytest.raises(SystemExit, match="kept_share must lie in"):
        profile.main(["tiny", "page.png", "--kept-share", "0"])
    with pytest.raises(SystemExit, match="No such file"):
        profile.main(["tiny", "nowhere.png"])
