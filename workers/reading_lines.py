"""Characters of a page in content order -> words and lines in reading order, or the reason why the order is in doubt.

Rows of tables and contents lists are one line each, columns of text are read one after the other. A page counts only where
the order of its content and the order of its places on the paper agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from workers.page_characters import Character

_WORD_GAP = 0.15  # font sizes
_DOT_GAP = 0.5  # dots of an ellipsis stand further apart than letters
_SMALL = 0.88  # letters below this share of their neighbour's size may be raised or lowered
_MOST_RAISED_SHARE = 0.03
_LONG_COLUMN, _SHORT_COLUMN = 6, 4  # lines; fewer side by side look like one line with a gap
_LEAST_GUTTER = 0.8  # font sizes
_LEAST_COLUMN = 5.0  # font sizes across; what is narrower are numbers of lines
_LEADER = re.compile(r"([.·_…])\1{3,}")
_ORNAMENT = re.compile(r"([^\w\s])\1{4,}.?")


@dataclass(slots=True)
class Line:
    """Words of one line from left to right."""

    words: list[list[Character]] = field(default_factory=list)
    baseline: float = 0.0
    size: float = 0.0
    raised: int = 0

    @property
    def x0(self) -> float:
        return min(word[0].x0 for word in self.words)

    @property
    def x1(self) -> float:
        return max(word[-1].x1 for word in self.words)

    @property
    def middle(self) -> float:
        return self.baseline - 0.22 * self.size


@dataclass(frozen=True, slots=True)
class ReadPage:
    """lines in reading order; gone: words whose ink has to go, because the reader could not write them."""

    lines: tuple[Line, ...]
    gone: tuple[tuple[Character, ...], ...]


def read_lines(characters: Sequence[Character]) -> ReadPage | str:
    """Lines in reading order, or why the page is refused."""
    lines = _gathered(characters)
    count = sum(len(word) for line in lines for word in line.words)
    if sum(line.raised for line in lines) > _MOST_RAISED_SHARE * count:
        return "formulas"
    lines = _furniture_placed(lines)
    doubt = order_in_doubt(lines)
    if doubt:
        return doubt
    gone: list[tuple[Character, ...]] = []
    kept = []
    for line in lines:
        line.words = _written(line.words, gone)
        if line.words:
            kept.append(line)
    return ReadPage(tuple(kept), tuple(gone))


def _gathered(characters: Sequence[Character]) -> list[Line]:
    lines: list[Line] = []
    last: Character | None = None
    spaced = False
    for character in characters:
        if character.text == " ":
            spaced = True
            continue
        if last is None or not _continues(lines[-1], last, character):
            lines.append(Line([[character]], character.baseline, character.size))
        else:
            line, size = lines[-1], max(character.size, last.size)
            gap = _DOT_GAP if character.text == last.text == "." else _WORD_GAP
            if character.x0 - last.x1 > gap * size or (spaced and character.x0 - last.x1 > 0.05 * size):
                line.words.append([character])
            else:
                line.words[-1].append(character)
            if character.size > line.size / _SMALL:
                line.raised += sum(len(word) for word in line.words) - 1
                line.baseline, line.size = character.baseline, character.size
            elif abs(character.baseline - line.baseline) > 0.12 * line.size:
                line.raised += 1
        last, spaced = character, False
    return lines


def _continues(line: Line, last: Character, character: Character) -> bool:
    """Whether a character that follows in the content stands on the same line, anywhere to the right."""
    large, little = max(line.size, character.size), min(line.size, character.size)
    gap = (character.x0 - last.x1) / large
    offset = abs(character.baseline - line.baseline) / large
    if gap < -0.5:
        return False
    if gap > 1.0:
        return offset < 0.12
    return offset < (0.55 if little < _SMALL * large else 0.3)


def _furniture_placed(lines: list[Line]) -> list[Line]:
    """Running titles and page numbers, which some programs draw first or last, in their place from top to bottom."""
    lines = list(lines)
    for _ in range(3):
        if len(lines) < 3:
            break
        if all(lines[0].middle > other.middle + other.size for other in lines[1:]):
            lines.append(lines.pop(0))
        elif all(lines[-1].middle < other.middle - other.size for other in lines[:-1]):
            lines.insert(0, lines.pop())
    return lines


def order_in_doubt(lines: Sequence[Line]) -> str:
    """Why the order of lines contradicts their places; empty where it does not.

    A line may follow one below it only at a change of columns: to the right, between two stacks of lines.
    """
    if not lines:
        return "no lines"
    x0, x1 = np.array([line.x0 for line in lines]), np.array([line.x1 for line in lines])
    middle, size = np.array([line.middle for line in lines]), np.array([line.size for line in lines])
    reach = 0.5 * np.minimum(size[:, None], size[None])
    later = np.triu(np.ones((len(lines), len(lines)), bool), 1)  # [i, j]: j is read after i
    level = np.abs(middle[:, None] - middle[None]) < 1.2 * reach
    above = middle[None] < middle[:, None] - reach  # [i, j]: j stands higher than i
    across = (x0[:, None] < x1[None]) & (x0[None] < x1[:, None])
    if (later & across & (above | level)).any():
        return "lines in each other's way"
    if (later & (x1[None] <= x0[:, None]) & (above | level)).any():
        return "right before left"
    for i, j in np.argwhere(later & (level | above)):
        if x0[j] - x1[i] < _LEAST_GUTTER * size[i] or not _columns(x0, x1, size, int(i), int(j)):
            return "side by side"
    return ""


def _columns(x0: np.ndarray, x1: np.ndarray, size: np.ndarray, i: int, j: int) -> bool:
    """Whether lines i and j, side by side, belong to two stacks of lines, i's wholly left of j's."""
    between = np.arange(i, j + 1)
    lefts = between[x1[between] <= x0[j]]
    split = int(lefts[-1]) if len(lefts) else i  # last line of the left stack
    first, last = split, split + 1
    while first > 0 and x1[first - 1] <= x0[j]:
        first -= 1
    while last < len(x0) and x0[last] >= x1[i]:
        last += 1
    stacks = (slice(first, split + 1), slice(split + 1, last))
    counts = sorted(stack.stop - stack.start for stack in stacks)
    if counts[0] < _SHORT_COLUMN or counts[1] < _LONG_COLUMN:
        return False
    return all(np.median((x1 - x0)[stack] / size[stack]) >= _LEAST_COLUMN for stack in stacks)


def _written(words: list[list[Character]], gone: list[tuple[Character, ...]]) -> list[list[Character]]:
    """The words of a line that are read. Leaders stay as ink only; unknown signs and rows of ornaments go altogether."""
    kept: list[list[Character]] = []
    dots: list[list[Character]] = []

    def close() -> None:
        count = sum(len(word) for word in dots)
        if count == 3 and len(dots) == 1:
            kept.append(dots[0])  # an ellipsis
        elif count < 4:  # too short for the eye to follow: it would be a word
            gone.extend(tuple(word) for word in dots)
        dots.clear()

    for word in words:
        text = "".join(character.text for character in word)
        if not all(character.text for character in word):
            gone.append(tuple(word))
            continue
        if all(character in ".·" for character in text):
            dots.append(word)
            continue
        close()
        leader = _LEADER.search(text)
        if leader:
            kept += [part for part in (word[: leader.start()], word[leader.end() :]) if part]
        elif _ORNAMENT.fullmatch(text):
            gone.append(tuple(word))
        else:
            kept.append(word)
    close()
    return kept
