"""Words of word lists among the training texts."""

from pathlib import Path

import numpy as np
import pytest

from fastocr_core.models.mini.alphabet import CHARACTER_ID
from fastocr_core.models.mini.train import texts
from fastocr_core.models.mini.train.texts import TextSource

CORPUS = {"en": "the plain words of a manual " * 500}
LISTS = {"en": ["husbandry", "straße", "laundry"], "fr": ["abbé", "œuvre"]}


def test_some_draws_are_words_of_one_list_as_heads_write_them() -> None:
    source, generator = TextSource(CORPUS, 0.0, LISTS), np.random.default_rng(3)
    listed: list[list[str]] = []
    for _ in range(600):
        words = source.words(generator, 5)
        if not any(
            word.lower().strip("“”„«»‘’›‹") in ("the", "plain", "words", "of", "a", "manual")
            for word in words
        ):
            listed.append(words)
    assert len(listed) / 600 == pytest.approx(0.12, abs=0.05)
    known = {
        form for words in LISTS.values() for word in words for form in (word, word.upper(), word.title())
    }
    assert {word for words in listed for word in words} <= known
    for words in listed:
        assert len({word.lower() in ("abbé", "œuvre") for word in words}) == 1, "one language"
    upper = sum(all(word == word.upper() for word in words) for words in listed) / len(listed)
    assert 0.2 < upper < 0.5


def test_without_lists_nothing_is_drawn_for_them() -> None:
    plain, none = TextSource(CORPUS, 0.3), TextSource(CORPUS, 0.3, {})
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    assert [plain.words(one, 4) for _ in range(50)] == [none.words(other, 4) for _ in range(50)]


def test_installed_lists_are_read_and_words_outside_the_alphabet_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dict"
    folder.mkdir()
    (folder / "american-english").write_text("Vicksburg\nnaïve\nŁódź\n\n", encoding="utf-8")
    (folder / "dutch").write_text("Łódź\n", encoding="utf-8")
    monkeypatch.setattr(texts, "_SHARE", tmp_path)
    lists = texts.load_word_lists()
    assert lists == {"en": ["Vicksburg", "naïve"]}
    assert all(letter in CHARACTER_ID for word in lists["en"] for letter in word)
