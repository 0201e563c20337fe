"""The held-out set, and the quality bench over it."""

import json
from pathlib import Path

import numpy as np
import pytest

from fastocr_core.bench import quality
from fastocr_core.models.mini.alphabet import CHARACTERS
from fastocr_core.models.mini.heldout.pages import FOLDER, PAGES, HeldOutPage, held_out_pages
from fastocr_core.models.mini.train.fonts import FONT_ROOTS, HELD_OUT, TRAINED, find_faces
from fastocr_core.vision import model_vision, prepare
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS


@pytest.fixture(scope="module")
def every() -> list[HeldOutPage]:
    return list(held_out_pages())


def test_the_set_is_what_the_model_card_says(every: list[HeldOutPage]) -> None:
    printed = [page for page in every if not page.blank]
    assert (len(printed), len(every) - len(printed)) == (40, 12)
    assert {page.language for page in printed} == {"en", "fr", "de", "es", "it", "pt", "nl"}
    assert {page.file for page in every} == {path.name for path in PAGES.glob("*.png")}
    assert sum(path.stat().st_size for path in PAGES.glob("*.png")) < 4 << 20
    for page in printed:
        assert len(page.lines) >= 20
        assert page.text == "\n".join(" ".join(word.text for word in line) for line in page.lines)
        assert 8.5 <= page.x_height_pixels <= 11.6


def test_texts_keep_to_the_alphabet() -> None:
    for path in sorted((FOLDER / "texts").glob("*.txt")):
        assert set("".join(path.read_text("utf-8").split())) <= set(CHARACTERS), path.name


def test_words_stand_in_their_boxes(every: list[HeldOutPage]) -> None:
    """Ink inside every box, and next to none outside all of them."""
    for page in every[:40:8]:
        pixels = np.asarray(page.image())
        height, width = pixels.shape
        assert width >= 640
        assert height >= 900
        dark = pixels < (int(pixels.min()) + int(np.median(pixels))) // 2
        outside = dark.copy()
        for word in (word for line in page.lines for word in line):
            left, top, right, bottom = word.box
            assert left >= 0
            assert top >= 0
            assert right <= width
            assert bottom <= height
            rows = slice(max(int(top) - 1, 0), int(bottom) + 2)
            columns = slice(max(int(left) - 1, 0), int(right) + 2)
            assert dark[rows, columns].any(), (page.file, word)
            outside[rows, columns] = False
        assert outside.sum() < 0.01 * dark.sum(), page.file


def test_letters_come_out_at_the_size_the_reader_knows(every: list[HeldOutPage]) -> None:
    vision = model_vision("mini")
    for page in every[:40:4]:
        scale = prepare(page.image(), vision).scale
        assert scale * page.x_height_pixels == pytest.approx(TARGET_X_HEIGHT_PIXELS, rel=0.15), page.file


def test_blank_leaves_are_not_blown_up(every: list[HeldOutPage]) -> None:
    for page in every[40:]:
        assert prepare(page.image(), model_vision("mini")).scale == pytest.approx(1.0, rel=0.01), page.file


def test_no_font_is_both_trained_on_and_held_out() -> None:
    if not any(Path(root).is_dir() for root in FONT_ROOTS):
        pytest.skip("no font folders on this machine")
    held_out = {face.path for face in find_faces(HELD_OUT)}
    if not held_out:
        pytest.skip("none of the held-out Debian fonts is installed")
    assert not [path for path in held_out if any(family in path for family in TRAINED)]


def test_some_pages_are_spread_over_the_set() -> None:
    chosen = quality.chosen_pages(10)
    assert sum(page.blank for page in chosen) == 3
    assert len({page.file for page in chosen}) == 13
    assert len(quality.chosen_pages(None)) == 52
    with pytest.raises(ValueError, match="at least one page"):
        quality.chosen_pages(0)


def test_bench_prints_a_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    quality.main(["--model", "tiny", "--pages", "2", "--batch", "2", "--decode", "dense,fastocr", "--each"])
    lines = capsys.readouterr().out.strip().splitlines()
    facts = json.loads(lines[-1])
    assert facts["pages"] == 3
    dense, fast = facts["policies"]
    assert (dense["policy"], dense["image_kv_read_share"]) == ("dense", 1.0)
    assert (fast["policy"], fast["kept_share"]) == ("fastocr", 0.05)
    assert fast["image_kv_read_share"] < 1.0
    assert sum(dense["finish_reasons"].values()) == 3
    assert any(line.split()[:3] == ["policy", "kept", "CER"] for line in lines)


@pytest.mark.parametrize("wrong", [["--model", "nonsense"], ["--decode", "dense,nonsense"], ["--pages", "0"]])
def test_bench_says_what_is_wrong_in_one_sentence(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        quality.main(["--model", "tiny", *wrong])
    assert str(stopped.value).startswith("error: ")
