"""One page, one reading: all scores that the truth allows."""

import unicodedata
from dataclasses import dataclass

from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.readers import Reading
from fastocr_core.scores.boxes import matched_ious
from fastocr_core.scores.order import reading_order
from fastocr_core.scores.text import cer, wer, word_f1


@dataclass(frozen=True, slots=True)
class PageScore:
    """Scores of one reading; None where the page's truth does not tell.

    `cer`, `wer` and `in_order` need exact truth, `word_f1` any. `phrases` and `phrases_found` count the texts that must be
    there. `characters` were written, white space not counted. `ious` are of words that were read right and have boxes.
    """

    page: str
    part: str
    language: str
    font_class: str
    degradation: str
    layout: str
    blank: bool
    cer: float | None
    wer: float | None
    word_f1: float | None
    in_order: bool | None
    phrases: int
    phrases_found: int
    characters: int
    ious: tuple[float, ...]
    seconds: float
    finish: str
    error: str | None


def score(page: EvaluationPage, reading: Reading) -> PageScore:
    """All scores of a page. A page that failed counts as read empty. ImportError where rapidfuzz is missing."""
    exact = page.text if page.text and page.exact else None
    folded = folded_phrase(reading.text)
    return PageScore(
        page=page.name,
        part=page.part,
        language=page.language,
        font_class=page.font_class,
        degradation=page.degradation,
        layout=page.layout,
        blank=page.blank,
        cer=None if exact is None else cer(exact, reading.text),
        wer=None if exact is None else wer(exact, reading.text),
        word_f1=word_f1(page.text, reading.text) if page.text else None,
        in_order=None if exact is None else reading_order(exact, reading.text).kept,
        phrases=len(page.must_contain),
        phrases_found=sum(folded_phrase(phrase) in folded for phrase in page.must_contain),
        characters=len("".join(reading.text.split())),
        ious=tuple(matched_ious(page.words, reading.words)) if page.words and reading.words else (),
        seconds=reading.seconds,
        finish=reading.finish,
        error=reading.error,
    )


def folded_phrase(text: str) -> str:
    """Case and white space folded, old letters as today's: what must be found is compared without them."""
    plain = unicodedata.normalize("NFC", modern(text))
    return " ".join(plain.casefold().split())


def modern(text: str) -> str:
    """Long s as s, a vowel with an e above it as umlaut: how old German print is compared."""
    for old, new in (("ſ", "s"), ("\u0364", "\u0308")):
        text = text.replace(old, new)
    return unicodedata.normalize("NFC", text)
