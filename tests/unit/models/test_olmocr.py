"""olmOCR's front matter, its wish to turn a page, and the weights that are refused."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fastocr_core import DecodePolicy, Engine, PageText
from fastocr_core.config import EngineLimits
from fastocr_core.models.olmocr.adapter import load_olmocr
from fastocr_core.models.olmocr.front_matter import FrontMatter, split_front_matter
from fastocr_core.models.qwen2_5_vl.adapter import load_qwen2_5_vl
from fastocr_core.models.turned_page import read_upright, turned, turned_page
from fastocr_core.vision import prepare
from fastocr_core.vision.llava_view import vision_llava
from fastocr_core.vision.qwen_view import vision_olmocr
from tests.support.published_models import noise_page, write_qwen

VALUES = {
    "primary_language": "en",
    "is_rotation_valid": "True",
    "rotation_correction": "0",
    "is_table": "False",
    "is_diagram": "false",
}


def answer(body: str = "# Title\n\nText.", **changed: str) -> str:
    lines = "\n".join(f"{key}: {value}" for key, value in (VALUES | changed).items())
    return f"---\n{lines}\n---\n{body}"


def test_front_matter() -> None:
    assert split_front_matter(answer()) == (FrontMatter("en", True, 0, False, False), "# Title\n\nText.")
    assert split_front_matter(answer(body=""))[1] == ""
    matter, _ = split_front_matter(answer(is_rotation_valid="'false'", rotation_correction='"270"'))
    assert matter == FrontMatter("en", False, 270, False, False)


@pytest.mark.parametrize(("written", "language"), [("null", None), ("False", None), ("", None), ("no", "no")])
def test_languages(written: str, language: str | None) -> None:
    matter, _ = split_front_matter(answer(primary_language=written))
    assert matter is not None
    assert matter.primary_language == language


@pytest.mark.parametrize(
    "text",
    [
        answer().replace("is_table: False\n", ""),
        answer().replace("is_table: False", "is_table: False\nextra: 1"),
        answer().replace("is_table: False", "is_table: False\nis_table: False"),
        answer(rotation_correction="45"),
        answer(is_table="perhaps"),
        answer(primary_language="english"),
        answer().replace("\n---\n", "\n"),
        "plain text\n---\nmore",
        "",
    ],
)
def test_what_is_no_front_matter_is_text(text: str) -> None:
    assert split_front_matter(text) == (None, text.strip())


@given(st.text())
def test_any_text_survives(text: str) -> None:
    matter, body = split_front_matter(text)
    assert matter is not None or body == text.strip()


def test_adapter_reads_the_answer(tmp_path: Path) -> None:
    adapter = load_olmocr(write_qwen(tmp_path))
    page = prepare(noise_page(100, 140), adapter.vision)
    tokens = adapter.tokenizer.encode(answer(is_rotation_valid="false", rotation_correction="90"))
    parsed = adapter.parse(tokens, page)
    assert (parsed.text, parsed.format) == ("# Title\n\nText.", "markdown")
    assert adapter.turn_wanted(tokens) == 90
    assert adapter.turn_wanted(adapter.tokenizer.encode(answer(rotation_correction="90"))) == 0
    assert adapter.turn_wanted(adapter.tokenizer.encode("no front matter")) == 0
    assert load_qwen2_5_vl(tmp_path).turn_wanted(tokens) == 0


def test_turning_is_counter_clockwise() -> None:
    image = Image.new("L", (3, 2))
    image.putpixel((2, 0), 255)
    assert turned(image, 0) is image
    assert turned(image, 90).size == (2, 3)
    assert turned(image, 90).getpixel((0, 0)) == 255
    assert turned(image, 180).getpixel((0, 1)) == 255
    assert turned(image, 270).getpixel((1, 2)) == 255
    with pytest.raises(ValueError, match="multiple of 90"):
        turned(image, 45)


def test_a_prepared_page_can_still_be_turned() -> None:
    page = prepare(noise_page(700, 1288), vision_olmocr())
    assert turned_page(page, 0, vision_olmocr()) is page
    quarter = turned_page(page, 90, vision_olmocr())
    assert (quarter.grid_rows, quarter.grid_columns) == (page.grid_columns, page.grid_rows)
    assert np.array_equal(quarter.views[0], np.rot90(page.views[0]))
    with pytest.raises(ValueError, match="one colour view"):
        turned_page(prepare(noise_page(700, 500), vision_llava()), 90, vision_llava())


class CompassEngine:
    """Stands in for an engine whose model knows which way round a page belongs: `wishes` by the place of the
    one white pixel.
    """

    def __init__(self, example: PageText, wishes: dict[tuple[int, int], int], reason: str = "stop") -> None:
        self.example, self.wishes, self.reason = example, wishes, reason
        self.model = SimpleNamespace(turn_wanted=self._turn)

    def _turn(self, tokens: Sequence[int]) -> int:
        return self.wishes[tokens[0], tokens[1]]

    def submit(self, image: Image.Image, prompt: str | None) -> "Future[PageText]":
        white = next(
            (x, y) for x in range(image.width) for y in range(image.height) if image.getpixel((x, y)) == 255
        )
        future: Future[PageText] = Future()
        future.set_result(replace(self.example, tokens=white, finish_reason=cast("Any", self.reason)))
        return future


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> PageText:
    """A real reading, whose other fields do not matter here."""
    adapter = load_olmocr(write_qwen(tmp_path_factory.mktemp("olmocr")))
    with Engine(adapter, DecodePolicy.dense(), 1, EngineLimits(max_output_tokens=2)) as engine:
        upright = read_upright(engine, noise_page(100, 140))
    assert (upright.degrees, upright.readings) == (0, 1)
    assert upright.page.error is None
    return upright.page


@pytest.mark.parametrize(
    ("wishes", "degrees", "readings"),
    [
        ({(2, 0): 0}, 0, 1),
        ({(2, 0): 90, (0, 0): 0}, 90, 2),
        ({(2, 0): 180, (0, 1): 90, (1, 2): 0}, 270, 3),
        ({(2, 0): 180, (0, 1): 180}, 0, 2),  # never satisfied: the first reading stands
    ],
)
def test_pages_are_turned_as_asked(
    reading: PageText, wishes: dict[tuple[int, int], int], degrees: int, readings: int
) -> None:
    image = Image.new("L", (3, 2))
    image.putpixel((2, 0), 255)
    result = read_upright(cast("Engine", CompassEngine(reading, wishes)), image)
    assert (result.degrees, result.readings) == (degrees, readings)
    broken_off = read_upright(cast("Engine", CompassEngine(reading, wishes, "length")), image)
    assert broken_off.readings == 1


def test_quantised_weights_are_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    folder = write_qwen(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "compressed-tensors"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match=r"quantised \(compressed-tensors\).*allenai/olmOCR-2-7B-1025, the same"
    ):
        load_olmocr(folder)
    with pytest.raises(ValueError, match="quantised"):
        load_qwen2_5_vl(folder)


def test_whatever_does_not_fit_is_said(tmp_path: Path) -> None:
    folder = write_qwen(tmp_path)
    config = json.loads((folder / "config.json").read_text())

    def changed(**values: object) -> None:
        (folder / "config.json").write_text(json.dumps(config | values))

    changed(model_type="qwen3_vl")
    with pytest.raises(ValueError, match="model_type is 'qwen3_vl'"):
        load_qwen2_5_vl(folder)
    changed(image_token_id=5)
    with pytest.raises(ValueError, match="image token 5"):
        load_qwen2_5_vl(folder)
    changed(num_hidden_layers=5)
    with pytest.raises(ValueError, match="missing"):
        load_qwen2_5_vl(folder)
    changed(intermediate_size=100)
    with pytest.raises(ValueError, match="of another shape"):
        load_qwen2_5_vl(folder)
    changed(use_sliding_window=True, sliding_window=16, max_window_layers=2)
    with pytest.raises(ValueError, match="sliding"):
        load_qwen2_5_vl(folder)
    changed()
    assert load_qwen2_5_vl(folder, torch.bfloat16).dtype == torch.bfloat16
