"""Sizes, token counts and pixels of Qwen2.5-VL and olmOCR pages, against known pages and against
transformers' own image processor.
"""

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

from fastocr_core.models.image_statistics import CLIP_DEVIATION, CLIP_MEAN, ImageStatistics
from fastocr_core.models.qwen2_5_vl.pixels import patches_of
from fastocr_core.vision import count_image_tokens, model_vision, prepare
from fastocr_core.vision.prepared import ModelVision
from fastocr_core.vision.qwen_view import limits_of, view_size, vision_olmocr, vision_qwen
from tests.support.published_models import QWEN_PROCESSOR, noise_page


@pytest.mark.parametrize(
    ("width", "height", "mode", "expected"),
    [
        (1654, 2339, "auto", (59, 84)),  # A4 at 200 dpi
        (1191, 1684, "auto", (43, 60)),  # 144 dpi
        (2481, 3508, "auto", (89, 125)),  # 300 dpi
        (1654, 2339, "tokens-1280", (30, 42)),
    ],
)
def test_known_pages(width: int, height: int, mode: str, expected: tuple[int, int]) -> None:
    vision = vision_qwen(mode)
    columns, rows = (side // 28 for side in view_size(width, height, limits_of(vision)))
    assert (columns, rows) == expected
    assert count_image_tokens(width, height, vision) == columns * rows


@pytest.mark.parametrize(
    ("width", "height", "columns", "rows"), [(911, 1288, 33, 46), (1654, 2339, 33, 46), (1700, 2200, 36, 46)]
)
def test_olmocr_brings_every_page_to_its_longest_side(
    width: int, height: int, columns: int, rows: int
) -> None:
    vision = vision_olmocr()
    assert view_size(width, height, limits_of(vision)) == (columns * 28, rows * 28)
    assert count_image_tokens(width, height, vision) == columns * rows


@given(
    st.integers(1, 6000),
    st.integers(1, 6000),
    st.sampled_from(((3136, 12_845_056), (3136, 1_003_520), (200_704, 401_408), (3136, 3136))),
)
def test_sizes_equal_those_of_transformers(width: int, height: int, limits: tuple[int, int]) -> None:
    vision = made_vision(*limits)
    if max(width, height) > 200 * min(width, height):
        with pytest.raises(ValueError, match="too narrow"):
            view_size(width, height, limits_of(vision))
        return
    expected = smart_resize(height, width, 28, *limits)
    assert view_size(width, height, limits_of(vision)) == expected[::-1]
    assert expected[0] * expected[1] // 784 <= vision.max_image_tokens


def made_vision(min_pixels: int, max_pixels: int) -> ModelVision:
    """With the limits of a checkpoint that states these."""
    with TemporaryDirectory() as name:
        stated = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        (Path(name) / "preprocessor_config.json").write_text(json.dumps(stated))
        return vision_qwen("auto", Path(name))


@given(st.integers(30, 700), st.integers(30, 700), st.integers(0, 9))
@settings(max_examples=12)
def test_pixels_equal_those_of_transformers(width: int, height: int, seed: int) -> None:
    image = noise_page(width, height, seed)
    processor = Qwen2VLImageProcessorPil(**QWEN_PROCESSOR)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = processor(image, return_tensors="np")
    page = prepare(image, made_vision(QWEN_PROCESSOR["min_pixels"], QWEN_PROCESSOR["max_pixels"]))
    assert theirs["image_grid_thw"][0].tolist() == [1, 2 * page.grid_rows, 2 * page.grid_columns]
    pixels = ImageStatistics(CLIP_MEAN, CLIP_DEVIATION).normalised(torch.tensor(page.views[0]))
    ours = patches_of(pixels, 14, 2)
    assert ours.shape == (page.image_tokens * 4, 1176)
    assert np.abs(ours.numpy() - theirs["pixel_values"]).max() < 1e-5


def test_limits_come_from_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"min_pixels": 784 * 9, "max_pixels": 784 * 50})
    )
    # One row of a page that is 200 times as long as wide has more than the 50 of other pages.
    assert vision_qwen("auto", tmp_path).max_image_tokens == 100
    assert limits_of(vision_qwen("auto", tmp_path)).min_pixels == 784 * 9
    newer = {"image_processor": {"size": {"shortest_edge": 784 * 9, "longest_edge": 784 * 50}}}
    (tmp_path / "preprocessor_config.json").unlink()
    (tmp_path / "processor_config.json").write_text(json.dumps(newer))
    assert limits_of(vision_qwen("auto", tmp_path)).max_pixels == 784 * 50
    (tmp_path / "processor_config.json").write_text("[]")
    with pytest.raises(ValueError, match="does not hold an object"):
        vision_qwen("auto", tmp_path)


def test_geometry_and_ink() -> None:
    page = prepare(noise_page(300, 200), model_vision("qwen2.5-vl-7b"))
    across, _, _, _, down, _ = page.transform
    assert across * page.views[0].shape[1] == pytest.approx(300)
    assert down * page.views[0].shape[0] == pytest.approx(200)
    assert (page.source_width, page.source_height) == (300, 200)
    assert 0 < page.ink_share < 1


@pytest.mark.parametrize("mode", ["gundam", "tokens-0", "tokens-", "tokens-x"])
def test_unknown_mode(mode: str) -> None:
    with pytest.raises(ValueError, match="no mode"):
        vision_qwen(mode)
