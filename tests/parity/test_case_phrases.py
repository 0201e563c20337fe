"""Phrases that the embedded reader must find in the case files, and a text it must not make up.

`REQUIRED` is what is asked of the weights in the repository; every page named there is read. To widen it, run
`python -m tests.support.case_phrases`, which prints what is found and what is missing of all phrases of the index.
"""

from pathlib import Path

import pytest

from fastocr_core import load
from fastocr_core.evaluation.scoring import folded_phrase
from tests.support.case_phrases import Place, ReadPage, phrases_of, read_places

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

REQUIRED: dict[Place, tuple[str, ...]] = {
    ("pdfjs_helloworld-bad.pdf", 1): ("Hello, world!",),
    ("pypdf_r6-owner-password.pdf", 1): ("pdf encryption test",),
    ("pil_g4-multi.tiff", 2): ("Page2",),
    ("pil_g4-multi.tiff", 3): ("Page3",),
    ("tess_eurotext.tif", 1): ("12.5%", "über"),
    ("ocrmypdf_ccitt.pdf", 1): ("32 Track MIDI Sequence Recorder", "TIMING CORRECTION"),
    ("ocrmypdf_rotated_skew.pdf", 1): ("32 Track MIDI Sequence Recorder",),
    ("ocrmypdf_poster.pdf", 1): ("32 Track MIDI Sequence Recorder",),
    ("ocrmypdf_multipage.pdf", 5): ("Guards had heralded",),
    ("ocrmypdf_multipage.pdf", 6): ("Guards had heralded",),
    ("pypdf_Seige_of_Vicksburg_Sample_OCR.pdf", 1): ("49",),
    ("pypdf_Seige_of_Vicksburg_Sample_OCR.pdf", 2): ("50",),
    ("pypdf_Seige_of_Vicksburg_Sample_OCR.pdf", 3): ("52",),
    ("tess_8087_054.3B.tif", 1): ("This is Greater Serbia", "fortress walls squatting", "Dubrovnik"),
    ("olmocr_small_page_size.pdf", 1): ("BRITISH HUSBANDRY", "turnip crop"),
    ("unstructured_irm_400_pages.pdf", 1): ("IDRS Terminal Responses",),
}
# Of these pages, what must come before what.
IN_ORDER: dict[Place, tuple[str, ...]] = {
    ("tess_eurotext.tif", 1): ("12.5%", "über"),
    ("ocrmypdf_ccitt.pdf", 1): ("32 Track MIDI Sequence Recorder", "TIMING CORRECTION"),
    ("tess_8087_054.3B.tif", 1): ("This is Greater Serbia", "fortress walls squatting"),
}
# What a text layer says that does not belong to the letters drawn.
JUNK = {("ocrmypdf_truetype_font_nomapping.pdf", 1): '"7+%-'}


@pytest.fixture(scope="module")
def read_pages(cases_dir: Path) -> dict[Place, ReadPage]:
    places = {**REQUIRED, **dict.fromkeys(JUNK, ())}
    return {page.place: page for page in read_places(cases_dir, places, load("mini"))}


def test_what_is_required_is_what_the_index_says(cases_dir: Path) -> None:
    known = phrases_of(cases_dir)
    strangers = [
        (place, phrase)
        for place, phrases in REQUIRED.items()
        for phrase in phrases
        if phrase not in known.get(place, ())
    ]
    assert strangers == []
    assert all(REQUIRED.values())


@pytest.mark.parametrize(
    ("place", "phrase"), [(place, phrase) for place, phrases in REQUIRED.items() for phrase in phrases]
)
def test_a_required_phrase_is_found(place: Place, phrase: str, read_pages: dict[Place, ReadPage]) -> None:
    page = read_pages[place]
    assert phrase not in page.missing, page.text


@pytest.mark.parametrize(("place", "phrases"), IN_ORDER.items())
def test_phrases_come_in_the_order_of_the_page(
    place: Place, phrases: tuple[str, ...], read_pages: dict[Place, ReadPage]
) -> None:
    folded = folded_phrase(read_pages[place].text)
    found = [folded.find(folded_phrase(phrase)) for phrase in phrases]
    assert -1 not in found
    assert found == sorted(found)


@pytest.mark.parametrize(("place", "junk"), JUNK.items())
def test_the_text_layer_that_is_junk_is_not_what_is_read(
    place: Place, junk: str, read_pages: dict[Place, ReadPage]
) -> None:
    assert junk not in read_pages[place].text


def test_a_phrase_that_is_not_there_is_missed() -> None:
    page = ReadPage(("a.pdf", 1), "The  QUICK\nbrown fox", ("quick brown", "lazy dog"))
    assert page.missing == ["lazy dog"]
