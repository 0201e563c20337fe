"""Plain-text scores: character and word error rate, and an order-free word F1.

White space is folded first (any run of it counts as one space, none at the ends) and text is brought to NFC.
rapidfuzz (extra `eval`) is imported on first use.
"""

import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence


def cer(reference: str, hypothesis: str) -> float:
    """Character error rate: edits / characters of the reference; above 1 for long wrong text.

    An empty reference gives 0.0 for an empty hypothesis, else the number of its characters.
    """
    wanted, found = _folded(reference), _folded(hypothesis)
    return _edits(wanted, found) / max(len(wanted), 1)


def wer(reference: str, hypothesis: str) -> float:
    """Word error rate: the same as `cer` over words between white space, punctuation included."""
    wanted, found = _folded(reference).split(), _folded(hypothesis).split()
    return _edits(wanted, found) / max(len(wanted), 1)


def word_f1(reference: str, hypothesis: str) -> float:
    """F1 over the bags of words, 0 to 1: blind to reading order. 1.0 if both are empty."""
    wanted, found = Counter(_folded(reference).split()), Counter(_folded(hypothesis).split())
    total = wanted.total() + found.total()
    return 2 * (wanted & found).total() / total if total else 1.0


_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})


def _folded(text: str) -> str:
    """White space and ligatures are matters of setting, not of text."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_LIGATURES).split())


def require_scores() -> None:
    """ImportError with the mend where what the scores need is missing: to be asked before anything is read."""
    try:
        from rapidfuzz.distance import Levenshtein  # noqa: F401
    except ImportError as failure:
        raise ImportError("scores need rapidfuzz: pip install -e '.[eval]' in a checkout") from failure


def _edits(wanted: Sequence[Hashable], found: Sequence[Hashable]) -> int:
    """Levenshtein distance. ImportError with the mend where rapidfuzz is missing."""
    require_scores()
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(wanted, found)
