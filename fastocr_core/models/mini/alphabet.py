"""The vocabulary of the embedded reader: characters, row tokens and column tokens.

A line is written as one row token, then for each word a column token followed by its characters. Spaces and line ends
are therefore never written: they follow from the column and row tokens. numpy-free, torch-free, pure data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROW_PIXELS = 16  # a row token names a band of this height in the prepared view
COLUMN_PIXELS = 8  # a column token names a strip of this width in the prepared view
ROWS = 128
COLUMNS = 192

_ASCII = "".join(chr(code) for code in range(33, 127))
_ACCENTED = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿŒœ"
_SIGNS = "–—‘’“”„«»‹›•…§°©®€£¥¡¿ªº²³½¼†×±·¶"
CHARACTERS = _ASCII + _ACCENTED + _SIGNS

PAD, BEGIN, END, PARAGRAPH = 0, 1, 2, 3
FIRST_CHARACTER = 4
FIRST_ROW = FIRST_CHARACTER + len(CHARACTERS)
FIRST_COLUMN = FIRST_ROW + ROWS
VOCABULARY = FIRST_COLUMN + COLUMNS

CHARACTER_ID = {character: FIRST_CHARACTER + index for index, character in enumerate(CHARACTERS)}

# Signs that look alike in print, or that older text files use, folded to the one we write.
_FOLDED = {
    "ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl", "‐": "-", "‑": "-", "−": "-", "―": "—",
    "‚": ",", "´": "'", "ˈ": "'", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u00ad": "", "ſ": "s", "●": "•",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WrittenWord:
    """One word as the reader wrote it: its characters, the band and strip it starts in, and its token span."""

    text: str
    row: int
    column: int
    line: int
    first_token: int
    end_token: int


def fold(text: str) -> str:
    """Return `text` with look-alike signs folded and everything outside the alphabet (spaces apart) removed."""
    folded = "".join(_FOLDED.get(character, character) for character in text)
    return "".join(character for character in folded if character in CHARACTER_ID or character.isspace())


def is_row(token: int) -> bool:
    return FIRST_ROW <= token < FIRST_COLUMN


def is_column(token: int) -> bool:
    return FIRST_COLUMN <= token < VOCABULARY


def row_token(y: float) -> int:
    """Token of the band that holds height `y` (pixels of the prepared view), clamped to the page."""
    return FIRST_ROW + min(max(int(y // ROW_PIXELS), 0), ROWS - 1)


def column_token(x: float) -> int:
    """Token of the strip that holds `x` (pixels of the prepared view), clamped to the page."""
    return FIRST_COLUMN + min(max(int(x // COLUMN_PIXELS), 0), COLUMNS - 1)


def written_words(tokens: Sequence[int]) -> list[WrittenWord]:
    """Group output tokens into words. Characters before any column token are kept as a word at strip 0."""
    words: list[WrittenWord] = []
    row, column, line, start = 0, 0, -1, 0
    letters: list[str] = []

    def close(end: int) -> None:
        if letters:
            words.append(WrittenWord("".join(letters), row, column, max(line, 0), start, end))
            letters.clear()

    for index, token in enumerate(tokens):
        if token == END:
            break
        if is_row(token):
            close(index)
            row, column, line, start = token - FIRST_ROW, 0, line + 1, index
        elif is_column(token):
            close(index)
            column, start = token - FIRST_COLUMN, index
        elif FIRST_CHARACTER <= token < FIRST_ROW:
            letters.append(CHARACTERS[token - FIRST_CHARACTER])
    close(len(tokens))
    return words


def text_of(tokens: Sequence[int]) -> str:
    """The text of output tokens: words joined by spaces, lines by newlines."""
    lines: dict[int, list[str]] = {}
    for word in written_words(tokens):
        lines.setdefault(word.line, []).append(word.text)
    return "\n".join(" ".join(words) for words in lines.values())
