"""The vocabulary: tokens to words to text and back, folding, and bands and strips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.alphabet import CHARACTER_ID, CHARACTERS, END, column_token, row_token

words = st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=6)
pages = st.lists(st.lists(words, min_size=1, max_size=5), max_size=6)


def _tokens(lines: list[list[str]]) -> list[int]:
    tokens = []
    for index, line in enumerate(lines):
        tokens.append(row_token(index * 30.0))
        for place, word in enumerate(line):
            tokens += [column_token(place * 50.0), *(CHARACTER_ID[letter] for letter in word)]
    return [*tokens, END]


@given(pages)
def test_text_survives_the_way_through_tokens(lines: list[list[str]]) -> None:
    assert alphabet.text_of(_tokens(lines)) == "\n".join(" ".join(line) for line in lines)


@given(pages)
def test_words_know_their_place_and_their_tokens(lines: list[list[str]]) -> None:
    tokens = _tokens(lines)
    written = alphabet.written_words(tokens)
    assert [word.text for word in written] == [word for line in lines for word in line]
    assert [word.line for word in written] == [index for index, line in enumerate(lines) for _ in line]
    for word in written:
        span = tokens[word.first_token : word.end_token]
        assert alphabet.text_of(span) == word.text


@given(st.lists(st.integers(0, alphabet.VOCABULARY - 1), max_size=60))
def test_any_tokens_give_words_in_order(tokens: list[int]) -> None:
    written = alphabet.written_words(tokens)
    assert all(word.text for word in written)
    assert [word.line for word in written] == sorted(word.line for word in written)
    assert alphabet.text_of(tokens).split() == [word.text for word in written]


def test_nothing_is_read_after_the_end() -> None:
    tokens = [row_token(0), column_token(0), CHARACTER_ID["a"], END, CHARACTER_ID["b"]]
    assert alphabet.text_of(tokens) == "a"


def test_alphabet_has_no_doubles_and_every_token_has_one_meaning() -> None:
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    assert max(CHARACTER_ID.values()) + 1 == alphabet.FIRST_ROW
    assert not any(
        alphabet.is_row(token) and alphabet.is_column(token) for token in range(alphabet.VOCABULARY)
    )


@pytest.mark.parametrize(
    ("pixels", "band"), [(-5.0, 0), (0.0, 0), (15.9, 0), (16.0, 1), (2047.0, 127), (9999.0, 127)]
)
def test_row_tokens_name_bands_of_16_pixels(pixels: float, band: int) -> None:
    assert row_token(pixels) == alphabet.FIRST_ROW + band


@pytest.mark.parametrize(("pixels", "strip"), [(-5.0, 0), (7.9, 0), (8.0, 1), (1535.0, 191), (9999.0, 191)])
def test_column_tokens_name_strips_of_8_pixels(pixels: float, strip: int) -> None:
    assert column_token(pixels) == alphabet.FIRST_COLUMN + strip


@pytest.mark.parametrize(
    ("given_text", "folded"),
    [
        ("ﬁne aﬀair", "fine affair"),
        ("non\u2011stop", "non-stop"),
        ("Ωmega α", "mega "),
        ("naïve", "naïve"),
    ],
)
def test_look_alikes_are_folded_and_strangers_dropped(given_text: str, folded: str) -> None:
    assert alphabet.fold(given_text) == folded
