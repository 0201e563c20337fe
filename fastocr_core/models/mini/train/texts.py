"""Texts the reader is trained on: prose of Debian's translated manuals, fortunes and the Debian Reference, words of its word
lists, plus random strings.

Nothing of these texts is shipped; the model card names the packages. The held-out pages use other texts.
"""

from __future__ import annotations

import gzip
import html
import pathlib
import re
import unicodedata

import numpy as np

from fastocr_core.models.mini.alphabet import CHARACTER_ID, CHARACTERS, fold

LANGUAGES = ("en", "fr", "de", "es", "it", "pt", "nl")
_MANUAL_FOLDERS = {"en": "", "fr": "fr", "de": "de", "es": "es", "it": "it", "pt": "pt_BR", "nl": "nl"}
_FORTUNES = {"en": ".", "de": "de", "es": "es", "it": "it", "pt": "brasil"}
_QUOTES = (("“", "”"), ("“", "”"), ("„", "“"), ("«", "»"), ("»", "«"), ("‘", "’"), ("‹", "›"), ("„", "”"))
_SHARE = pathlib.Path("/usr/share")
_WORD_LISTS = {
    "en": "american-english", "fr": "french", "de": "ngerman", "es": "spanish", "it": "italian", "pt": "portuguese",
    "nl": "dutch",
}  # fmt: skip
_LISTED_SHARE = 0.12  # of the draws are words of a list: more of a language's words than its manuals use
_UPPER_SHARE, _TITLE_SHARE = 0.35, 0.35  # of those draws


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return unicodedata.normalize("NFC", text)


def _from_manuals(folder: str) -> str:
    pages = []
    for path in sorted((_SHARE / "man" / folder).glob("man[1-8]/*.gz"))[:900]:
        raw = _decode(gzip.decompress(path.read_bytes()))
        lines = [line for line in raw.splitlines() if not line.startswith((".", "'"))]
        text = re.sub(r"\\f[BIRP]|\\f\(..|\\&|\\,|\\/", "", " ".join(lines))
        text = text.replace("\\-", "-").replace("\\(bu", "•").replace("\\[aq]", "'").replace("\\(aq", "'")
        pages.append(re.sub(r"\\[^\s]{0,4}", " ", text))
    return " ".join(pages)


def _from_reference(language: str) -> str:
    pages = []
    for path in sorted((_SHARE / "debian-reference").glob(f"*.{language}.html")):
        body = re.sub(r"(?s)<(script|style|pre).*?</\1>", " ", _decode(path.read_bytes()))
        pages.append(html.unescape(re.sub(r"<[^>]+>", " ", body)))
    return " ".join(pages)


def _from_fortunes(folder: str) -> str:
    base = _SHARE / "games" / "fortunes" / folder
    files = [base] if base.is_file() else sorted(path for path in base.glob("*") if path.suffix == "")
    texts = [_decode(path.read_bytes()) for path in files if path.is_file()]
    return " ".join(text.replace("\n%\n", "\n") for text in texts)


def load_corpus(limit: int = 3_000_000) -> dict[str, str]:
    """All training text by language, white space folded, characters outside the alphabet removed."""
    corpus = {}
    for language in LANGUAGES:
        parts = [_from_fortunes(_FORTUNES[language])] if language in _FORTUNES else []
        parts += [_from_reference(language), _from_manuals(_MANUAL_FOLDERS[language])]
        text = " ".join(" ".join(fold(part).split())[: limit // len(parts)] for part in parts)
        corpus[language] = text
    return corpus


def load_word_lists() -> dict[str, list[str]]:
    """Words by language of the lists that are installed, those outside the alphabet left out."""
    lists = {}
    for language, name in _WORD_LISTS.items():
        path = _SHARE / "dict" / name
        if path.exists():
            words = unicodedata.normalize("NFC", path.read_text(encoding="utf-8")).split()
            lists[language] = [fold(word) for word in words if len(fold(word)) == len(word)]
    return {language: words for language, words in lists.items() if words}


def _cased(words: list[str], chance: float) -> list[str]:
    """As heads and names are written, or as they are; 0 <= chance < 1 says which."""
    if chance < _UPPER_SHARE:
        words = [word.upper() for word in words]
    elif chance < _UPPER_SHARE + _TITLE_SHARE:
        words = [word[:1].upper() + word[1:] for word in words]
    return words


def _typeset(words: list[str], generator: np.random.Generator) -> list[str]:
    """Straight quotation marks as printers set them; now and then a dash or a quotation of its own."""
    opening, closing = _QUOTES[int(generator.integers(len(_QUOTES)))]
    result = []
    for word in words:
        if word.startswith('"'):
            word = opening + word[1:]
        if word.endswith('"'):
            word = word[:-1] + closing
        word = word.replace('"', closing).replace("'", "’")
        chance = generator.random()
        if chance < 0.015:
            word = opening + word + closing
        elif chance < 0.025:
            word = "—" if chance < 0.02 else "–"
        result.append(word)
    return result


class TextSource:
    """Draws word lists: running text of one language, or random strings with the look of words.

    random_share: share of draws that are random strings (no language to hide behind). word_lists: see `load_word_lists`;
    without any, nothing is drawn for them.
    """

    def __init__(
        self, corpus: dict[str, str], random_share: float, word_lists: dict[str, list[str]] | None = None
    ) -> None:
        self._lists = word_lists or {}
        self._corpus = {language: text for language, text in corpus.items() if len(text) > 10_000}
        self._languages = sorted(self._corpus)
        self.random_share = random_share
        frequency = np.full(len(CHARACTERS), 0.2 / len(CHARACTERS))
        sample = "".join(text[:200_000] for text in self._corpus.values())
        for character, index in CHARACTER_ID.items():
            frequency[index - CHARACTER_ID[CHARACTERS[0]]] += 0.8 * sample.count(character) / len(sample)
        self._frequency = frequency / frequency.sum()
        self._letters = np.array(list(CHARACTERS))

    def words(self, generator: np.random.Generator, count: int) -> list[str]:
        """`count` words, all of one kind."""
        if generator.random() < self.random_share:
            lengths = generator.integers(1, 11, size=count)
            letters = generator.choice(self._letters, size=int(lengths.sum()), p=self._frequency)
            ends = np.cumsum(lengths)
            return ["".join(letters[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        if self._lists and generator.random() < _LISTED_SHARE:
            return self._listed(generator, count)
        weights = np.array([2.0 if language == "en" else 1.0 for language in self._languages])
        language = str(generator.choice(self._languages, p=weights / weights.sum()))
        text = self._corpus[language]
        start = int(generator.integers(0, max(1, len(text) - count * 9)))
        words = text[start : start + count * 9].split()[1 : count + 1]
        if generator.random() < 0.04:
            words = [word.upper() for word in words]
        if generator.random() < 0.5:
            words = _typeset(words, generator)
        return [word[:24] for word in words if all(character in CHARACTER_ID for character in word)]

    def _listed(self, generator: np.random.Generator, count: int) -> list[str]:
        """Words of one list, none beside its neighbours there."""
        language = str(generator.choice(sorted(self._lists)))
        words = self._lists[language]
        chosen = [words[int(index)] for index in generator.integers(0, len(words), size=count)]
        cased = _cased(chosen, float(generator.random()))
        return [word[:24] for word in cased if all(letter in CHARACTER_ID for letter in word)]
