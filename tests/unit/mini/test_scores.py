"""Scores with values worked out by hand."""

import pytest

from fastocr_core.scores.text import cer, wer, word_f1


@pytest.mark.parametrize(
    ("reference", "hypothesis", "rate"),
    [
        ("abcd", "abcd", 0.0),
        ("abcd", "abxd", 1 / 4),  # one replaced
        ("abcd", "abd", 1 / 4),  # one missing
        ("abcd", "abcde", 1 / 4),  # one too many
        ("kitten", "sitting", 3 / 6),
        ("one  two\nthree", "one two three", 0.0),  # white space is folded
        ("one two", "onetwo", 1 / 7),  # but a missing space is an error
        ("ab", "abcdef", 2.0),
        ("", "", 0.0),
        (" \n", "xyz", 3.0),
        ("xyz", "", 1.0),
        ("caf\u00e9", "cafe\u0301", 0.0),  # composed and decomposed
    ],
)
def test_cer(reference: str, hypothesis: str, rate: float) -> None:
    assert cer(reference, hypothesis) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "rate"),
    [
        ("a b c d", "a x c d", 1 / 4),
        ("a b c d", "b a c d", 2 / 4),  # order counts
        ("a b", "a b c d", 1.0),
        ("end.", "end", 1.0),  # punctuation belongs to the word
        ("", "", 0.0),
    ],
)
def test_wer(reference: str, hypothesis: str, rate: float) -> None:
    assert wer(reference, hypothesis) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "score"),
    [
        ("a b c d", "d c b a", 1.0),  # order does not count
        ("a a b", "a b b", 2 / 3),  # as bags: a, b shared
        ("a b c d", "a b", 2 / 3),  # precision 1, recall 1/2
        ("a", "b", 0.0),
        ("", "", 1.0),
        ("", "a", 0.0),
    ],
)
def test_word_f1(reference: str, hypothesis: str, score: float) -> None:
    assert word_f1(reference, hypothesis) == pytest.approx(score)


def test_ligatures_are_a_matter_of_setting() -> None:
    assert cer("De\ufb01ner of\ufb01ce \ufb02at", "Definer office flat") == 0.0 == wer("\ufb01le", "file")
    assert word_f1("\ufb01le \ufb02at", "file flat") == 1.0
