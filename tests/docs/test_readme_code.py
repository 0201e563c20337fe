"""The Python of the README: every block compiles, and what a reader tries first runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.support.small_generators import AFTER, BEFORE, IMAGE_ID, qwen

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


def block_of(readme: str, heading: str) -> str:
    """The first Python block under a heading."""
    _, found, section = readme.partition(f"{heading}\n")
    assert found, f"README.md has no heading {heading!r}"
    return next(BLOCK.finditer(section.partition("\n#")[0])).group(1)


def page_of_400_tokens() -> dict[str, Any]:
    """What a processor of Qwen2.5-VL gives for one page of 20 x 20 visual tokens, its pixels noise."""
    image = torch.full((400,), IMAGE_ID)
    ids = torch.cat((torch.arange(10, 10 + BEFORE), image, torch.arange(30, 30 + AFTER)))[None]
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == IMAGE_ID).int(),
        "pixel_values": torch.randn(1600, 1176, generator=torch.Generator().manual_seed(1)),
        "image_grid_thw": torch.tensor([[1, 40, 40]]),
    }


def test_every_block_is_python(readme: str) -> None:
    blocks = BLOCK.findall(readme)
    assert len(blocks) == readme.count("```python")
    for block in blocks:
        compile(block, "README.md", "exec")


@torch.inference_mode()
def test_use_it_with_your_own_model(readme: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = qwen().model, page_of_400_tokens()
    plain = model.generate(**inputs, max_new_tokens=200)
    names: dict[str, Any] = {"model": model, "inputs": inputs}
    block = block_of(readme, "### Use it with your own model")
    assert len(block.splitlines()) <= 10
    exec(block, names)
    share = float(capsys.readouterr().out.splitlines()[-1])
    # Of 400 image tokens the floor of 64 is kept in layers that do not choose.
    assert 64 / 400 < share < 0.6
    assert names["output"].shape == plain.shape
    assert not torch.equal(names["output"], plain), "200 tokens at a sixth of the image should differ"
    assert torch.equal(model.generate(**inputs, max_new_tokens=200), plain), "restored"


def test_the_reader_inside(
    readme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("L", (160, 60), 255).save(tmp_path / "page.png")
    monkeypatch.chdir(tmp_path)
    exec(block_of(readme, "## The reader inside"), {})
    assert capsys.readouterr().out.split()[-2] in ("stop", "length")
