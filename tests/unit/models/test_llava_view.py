"""Canvases, token counts and tiles of LLaVA-OneVision, against known pages and transformers' own counter and
image processor.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
    LlavaOnevisionImageProcessorPil,
)
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

from fastocr_core.models.llava_onevision.packing import newline_tokens
from fastocr_core.vision import count_image_tokens, prepare
from fastocr_core.vision.llava_view import plan_canvas, vision_llava
from tests.support.published_models import (
    LLAVA_PROCESSOR,
    LLAVA_TILE,
    llava_config,
    noise_page,
)


@pytest.mark.parametrize(
    ("width", "height", "canvas", "tokens"),
    [
        (1654, 2339, (6, 5), 7353),
        (1191, 1684, (5, 4), 7353),
        (2481, 3508, (6, 5), 7353),
        (911, 1288, (4, 3), 7284),
        (1024, 1024, (3, 3), 7371),
        (3000, 2000, (4, 6), 7329),
        (384, 384, (1, 1), 1485),
    ],
)
def test_known_pages(width: int, height: int, canvas: tuple[int, int], tokens: int) -> None:
    plan = plan_canvas(width, height, vision_llava())
    assert (plan.tile_rows, plan.tile_columns) == canvas
    assert plan.image_tokens == count_image_tokens(width, height, vision_llava()) == tokens


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_counts_equal_those_of_transformers(width: int, height: int) -> None:
    counter = SimpleNamespace(
        image_processor=SimpleNamespace(
            image_grid_pinpoints=[
                [384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)
            ]
        ),
        num_image_tokens=729,
        vision_aspect_ratio="anyres_max_9",
    )
    counter._get_unpadded_features = lambda *sizes: LlavaOnevisionProcessor._get_unpadded_features(
        counter, *sizes
    )
    expected = LlavaOnevisionProcessor._get_number_of_features(counter, height, width, 384, 384)
    vision = vision_llava()
    plan = plan_canvas(width, height, vision)
    assert plan.image_tokens == expected <= vision.max_image_tokens
    assert len(newline_tokens(plan)) == plan.rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llava")
    (folder / "preprocessor_config.json").write_text(json.dumps(LLAVA_PROCESSOR))
    (folder / "config.json").write_text(json.dumps(llava_config()))
    return folder


@given(width=st.integers(8, 500), height=st.integers(8, 500), seed=st.integers(0, 9))
@settings(max_examples=12)
def test_tiles_equal_those_of_transformers(folder: Path, width: int, height: int, seed: int) -> None:
    image = noise_page(width, height, seed)
    theirs = LlavaOnevisionImageProcessorPil(**LLAVA_PROCESSOR)(image, return_tensors="np")["pixel_values"][0]
    page = prepare(image, vision_llava("auto", folder))
    assert len(page.views) == 1 + page.tile_rows * page.tile_columns == len(theirs)
    ours = (np.stack(page.views).astype(np.float32) / 255 - 0.5) / 0.5
    assert np.abs(ours.transpose(0, 3, 1, 2) - theirs).max() < 1e-5


def test_settings_of_the_checkpoint(folder: Path) -> None:
    vision = vision_llava("auto", folder)
    assert dict(vision.settings)["tile_pixels"] == LLAVA_TILE
    page = prepare(noise_page(200, 100), vision)
    assert page.views[0].shape == (LLAVA_TILE, LLAVA_TILE, 3)
    assert page.transform[0] * LLAVA_TILE == pytest.approx(200)
    assert page.transform[4] * LLAVA_TILE == pytest.approx(100)


def test_canvases_that_are_no_tiles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_grid_pinpoints": [[384, 400]]}))
    with pytest.raises(ValueError, match="not made of tiles"):
        vision_llava("auto", tmp_path)


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="no mode"):
        vision_llava("gundam")
