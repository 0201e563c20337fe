"""Which scripts a text is written in, and whether they are mixed as no writer mixes them.

A model that loses its way puts letters of another script into words, or stands them in for signs it cannot
read. Whole words of another script are a quotation, and no sign of trouble.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

EAST_ASIAN = "EAST ASIAN"
_EAST_ASIAN = re.compile("CJK|HIRAGANA|KATAKANA|HANGUL|BOPOMOFO|IDEOGRAPHIC")
_ALPHABETS = re.compile(
    "LATIN|GREEK|CYRILLIC|ARMENIAN|GEORGIAN|HEBREW|ARABIC|SYRIAC|DEVANAGARI|BENGALI|GURMUKHI|GUJARATI|ORIYA|TAMIL|"
    "TELUGU|KANNADA|MALAYALAM|SINHALA|THAI|LAO|TIBETAN|MYANMAR|ETHIOPIC|KHMER|MONGOLIAN|CHEROKEE|COPTIC"
)
MAIN_SHARE = 0.8  # of the letters, for a script to be the one the text is written in
STRAY_LETTERS = 2  # a word of another script that is no longer than this stands alone
LEAST_STRAYS = 3
STRAY_SHARE = 0.02  # of the words
UNREADABLE = frozenset({"Co", "Cn", "Cs"})
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class ScriptMix:
    """`main` is the script of the text, None if there is none; `strays` are words with letters that do not
    belong, `unreadable` characters that stand for nothing, out of `words`.
    """

    main: str | None
    words: int
    strays: int
    unreadable: int

    @property
    def is_odd(self) -> bool:
        """Whether this is more than a slip."""
        odd = self.strays + self.unreadable
        return odd >= LEAST_STRAYS and odd >= STRAY_SHARE * self.words


@lru_cache(maxsize=4096)
def script_of(character: str) -> str | None:
    """The script of a letter; None for everything else, and for letters of no script of their own."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "")
    if _EAST_ASIAN.match(name):
        return EAST_ASIAN
    alphabet = _ALPHABETS.match(name)
    return alphabet[0] if alphabet else None


def script_mix(text: str) -> ScriptMix:
    """Look through a text of any length, word by word."""
    words = [tuple(filter(None, map(script_of, word))) for word in text.split()]
    letters = Counter(script for word in words for script in word)
    unreadable = sum(c == REPLACEMENT or unicodedata.category(c) in UNREADABLE for c in text)
    if not letters:
        return ScriptMix(None, len(words), 0, unreadable)
    main, count = letters.most_common(1)[0]
    if count < MAIN_SHARE * letters.total():
        return ScriptMix(None, len(words), 0, unreadable)
    strays = sum(_is_stray(word, main) for word in words)
    return ScriptMix(main, len(words), strays, unreadable)


def _is_stray(word: tuple[str, ...], main: str) -> bool:
    """Whether a word mixes scripts, or is a scrap of another one. East Asian text holds such words by nature."""
    if main == EAST_ASIAN:
        return False
    foreign = sum(script != main for script in word)
    return foreign > 0 and (foreign < len(word) or foreign <= STRAY_LETTERS)
