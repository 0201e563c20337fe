"""The held-out sets beside the clean one: worn pages, two columns, and other kinds of pages."""

import itertools
import statistics
from collections import Counter

import numpy as np
import pytest

from fastocr_core.models.mini.alphabet import CHARACTERS
from fastocr_core.models.mini.heldout.pages import (
    FOLDER,
    HeldOutPage,
    held_out_pages,
    pages_folder,
    spread,
)
from fastocr_core.models.mini.heldout.sets import EFFECTS, LAYOUT_KINDS, REVERSED, SKEWED, WEAR, only_effect

NEW_SETS = {"degraded": 34, "columns": 20, "layouts": 20}


@pytest.fixture(scope="module")
def sets() -> dict[str, list[HeldOutPage]]:
    return {part: list(held_out_pages(part)) for part in NEW_SETS}


def test_the_sets_are_whole_and_small(sets: dict[str, list[HeldOutPage]]) -> None:
    size = 0
    for part, pages in sets.items():
        files = list((FOLDER / part).rglob("*.*"))
        size += sum(file.stat().st_size for file in files)
        assert len(pages) == NEW_SETS[part]
        assert {page.file for page in pages} == {path.name for path in pages_folder(part).iterdir()}
        assert {page.language for page in pages} == {"en", "fr", "de", "es", "it", "pt", "nl"}
        assert {page.part for page in pages} == {part}
    assert size < 8e6


def test_truth_keeps_to_the_alphabet_and_its_lines(sets: dict[str, list[HeldOutPage]]) -> None:
    for page in (page for pages in sets.values() for page in pages):
        assert set("".join(page.text.split())) <= set(CHARACTERS), page.file
        assert page.text == "\n".join(" ".join(word.text for word in line) for line in page.lines)


def test_every_effect_comes_at_every_strength(sets: dict[str, list[HeldOutPage]]) -> None:
    met = Counter((page.degradation, page.wear) for page in sets["degraded"])
    assert met == Counter([(name, wear) for name in (*EFFECTS, SKEWED) for wear in WEAR] + [(REVERSED, 1.0)])
    assert {page.layout for page in sets["degraded"]} == {"prose"}


def test_a_worn_page_has_one_effect_and_no_other() -> None:
    for effect in EFFECTS:
        style = only_effect(effect, 0.5)
        assert getattr(style, effect) == 1.0
        others = [name for name in (*EFFECTS, "scan_edges") if name != effect]
        assert {getattr(style, name) for name in others} == {0.0}
        assert style.jpeg == style.bitonal == 0.0


def test_layouts_are_of_five_kinds(sets: dict[str, list[HeldOutPage]]) -> None:
    assert Counter(page.layout for page in sets["layouts"]) == Counter(dict.fromkeys(LAYOUT_KINDS, 4))


def test_two_columns_are_read_one_after_the_other(sets: dict[str, list[HeldOutPage]]) -> None:
    """Once a line stands in the right column, none of the left follows, but at most one more band of columns."""
    for page in sets["columns"]:
        width = page.image().width
        sides = ["R" if line[0].box[0] > width * 0.47 else "L" for line in page.lines if len(line) > 2]
        changes = sum(one != other for one, other in itertools.pairwise(sides))
        assert min(sides.count("L"), sides.count("R")) >= 8, page.file
        assert changes <= 4, page.file


def test_words_stand_in_their_boxes(sets: dict[str, list[HeldOutPage]]) -> None:
    """Darker inside the boxes than in the page as a whole, also on skewed and worn pages; boxes lie on the page."""
    for page in [*sets["degraded"], *sets["columns"][::5], *sets["layouts"][::3]]:
        if page.degradation == REVERSED:
            continue
        pixels = np.asarray(page.image())
        height, width = pixels.shape
        contrast = []
        for word in (word for line in page.lines for word in line):
            left, top, right, bottom = word.box
            assert -1 <= left < right <= width + 1, page.file
            assert -1 <= top < bottom <= height + 1, page.file
            inside = pixels[max(0, int(top)) : int(bottom) + 1, max(0, int(left)) : int(right) + 1]
            around = pixels[max(0, int(top) - 6) : int(bottom) + 7, max(0, int(left) - 4) : int(right) + 5]
            contrast.append(float(around.mean()) - float(inside.mean()))
        assert statistics.median(contrast) > 1.0, page.file
        assert sum(value > 0 for value in contrast) > 0.9 * len(contrast), page.file


def test_font_classes(sets: dict[str, list[HeldOutPage]]) -> None:
    classes = {page.font: page.font_class for page in held_out_pages() if not page.blank}
    assert classes["Go-Mono.ttf"] == "monospaced"
    assert classes["Go-Regular.ttf"] == classes["OpenSans-Semibold.ttf"] == "sans"
    assert classes["Vollkorn-Italic.ttf"] == classes["GenBasI.ttf"] == "serif italic"
    assert classes["GenBkBasR.ttf"] == "serif"
    assert {page.font_class for page in held_out_pages() if page.blank} == {""}


def test_some_pages_of_a_set_are_spread_over_it(sets: dict[str, list[HeldOutPage]]) -> None:
    assert len({page.file for page in spread(sets["degraded"], 7)}) == 7
    assert spread(sets["columns"], None) == spread(sets["columns"], 99) == sets["columns"]
    with pytest.raises(ValueError, match="at least one page"):
        spread(sets["columns"], 0)


def test_a_set_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"no held-out set 'worn'; known: clean, degraded"):
        next(held_out_pages("worn"))
