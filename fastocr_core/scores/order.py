"""Reading order: whether what was found on a page comes in the order of the truth.

Judged by words that occur once in the truth and once in the reading, so that misread letters count in other scores only.
"""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PARTS = 4
LEAST_FOUND_IN_PART = 0.25
LEAST_IN_ORDER = 0.9


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """found: share of the words that are unique in the truth and were found as unique words; in_order: share of these in the
    longest run that keeps the truth's order; least_found: the lowest `found` among the four quarters of the page.
    """

    found: float
    in_order: float
    least_found: float

    @property
    def kept(self) -> bool:
        """Whether the page was read in order: all quarters were met, and nine of ten words stand where they should."""
        return self.least_found >= LEAST_FOUND_IN_PART and self.in_order >= LEAST_IN_ORDER


def reading_order(reference: str, hypothesis: str) -> ReadingOrder:
    """Compare two texts. A reference without unique words, and a reading without any of them, keep no order."""
    wanted, found = _words(reference), _words(hypothesis)
    unique = {word for word, count in Counter(wanted).items() if count == 1}
    places = {word: place for place, word in enumerate(found)}
    for word, count in Counter(found).items():
        if count > 1:
            del places[word]
    anchors = [word for word in wanted if word in unique]
    met = [places[word] for word in anchors if word in places]
    if not met:
        return ReadingOrder(0.0, 0.0, 0.0)
    least = min(_share(anchors[first:last], places) for first, last in _parts(len(anchors)))
    return ReadingOrder(len(met) / len(anchors), _longest_rising(met) / len(met), least)


def _parts(count: int) -> list[tuple[int, int]]:
    """`count` things in up to four runs of about the same length, none empty."""
    parts = min(PARTS, count)
    return [(index * count // parts, (index + 1) * count // parts) for index in range(parts)]


def _share(words: Sequence[str], places: dict[str, int]) -> float:
    return sum(word in places for word in words) / len(words)


def _words(text: str) -> list[str]:
    """Words in lower case without the signs around them."""
    cleaned = (word.strip(".,;:!?()[]«»“”„‘’'\"-–—") for word in unicodedata.normalize("NFC", text).split())
    return [word.casefold() for word in cleaned if word]


def _longest_rising(values: Sequence[int]) -> int:
    """Length of the longest strictly rising subsequence."""
    ends: list[int] = []
    for value in values:
        place = bisect_left(ends, value)
        ends[place : place + 1] = [value]
    return len(ends)
