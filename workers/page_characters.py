"""The characters of a PDF page where they are drawn, in the order of its content, and the page's pixels.

Pages whose text cannot be trusted (turned, invisible or covered letters, signs the reader does not know, mostly pictures)
are refused with a reason. What the file says can be checked against the ink.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymupdf

from fastocr_core.models.mini import alphabet

_POINTS_PER_INCH = 72
_MOST_PICTURE_SHARE = 0.3
_MOST_UNKNOWN_SHARE = 0.015
_LEAST_CHARACTERS = 30
_LEAST_CONTRAST = 50  # grey levels between a character's ink and its ground
_SIDES_POINTS = (150.0, 1300.0)
_INVISIBLE = 3  # text rendering mode
_COMBINING = {
    "´": "\u0301", "`": "\u0300", "^": "\u0302", "ˆ": "\u0302", "¨": "\u0308", "˜": "\u0303", "~": "\u0303",
    "¸": "\u0327", "˚": "\u030a",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Character:
    """One character as drawn, pixels. text: one character of the alphabet, a space, or "" for a sign outside of it."""

    text: str
    x0: float
    x1: float
    baseline: float
    size: float
    font: str


def page_characters(page: Any, dots_per_inch: int) -> list[Character] | str:
    """The characters of a page in content order, spaces included, or why the page is refused."""
    scale = dots_per_inch / _POINTS_PER_INCH
    sides = sorted((page.rect.width, page.rect.height))
    if page.rotation or sides[0] < _SIDES_POINTS[0] or sides[1] > _SIDES_POINTS[1]:
        return "turned or of an odd size"
    if _picture_share(page) > _MOST_PICTURE_SHARE:
        return "mostly pictures"
    spans = page.get_texttrace()
    if any(span["type"] == _INVISIBLE or span["opacity"] < 0.3 for span in spans):
        return "invisible text"
    if any(abs(span["dir"][1]) > 1e-3 or span["dir"][0] < 0 or span["wmode"] for span in spans):
        return "turned text"
    if any(0 < code < 32 and glyph >= 0 for span in spans for code, glyph, *_ in span["chars"]):
        return "letters without a known code"  # old fonts that only name places in themselves
    characters = _composed(_undoubled(list(_characters(spans, scale))))
    inked = [character for character in characters if character.text != " "]
    if len(inked) < _LEAST_CHARACTERS:
        return "hardly any text"
    if sum(not character.text for character in inked) > _MOST_UNKNOWN_SHARE * len(inked):
        return "unknown signs"
    return characters


def page_pixels(page: Any, dots_per_inch: int) -> np.ndarray:
    """The page in grey, uint8 [H, W], 255 is white."""
    scale = dots_per_inch / _POINTS_PER_INCH
    matrix = pymupdf.Matrix(scale, scale)
    pixmap = page.get_pixmap(matrix=matrix, colorspace=pymupdf.csGRAY, alpha=False, annots=False)
    rows = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.stride)
    return rows[:, : pixmap.width].copy()


def inkless_share(pixels: np.ndarray, words: Sequence[Sequence[Character]]) -> tuple[float, list[bool]]:
    """Share of characters that nothing is drawn for, and for each word whether it has one of them."""
    bare = [[not _has_ink(pixels, character) for character in word] for word in words]
    count = sum(map(len, bare))
    return sum(map(sum, bare)) / max(count, 1), [any(word) for word in bare]


def _picture_share(page: Any) -> float:
    area = abs(page.rect)
    covered = sum(abs(pymupdf.Rect(info["bbox"]) & page.rect) for info in page.get_image_info())
    return float(covered / area) if area else 1.0


def _characters(spans: list[dict[str, Any]], scale: float) -> Iterator[Character]:
    for span in spans:
        size, font = span["size"] * scale, span["font"]
        if size <= 0:
            continue
        for signs, origin, box in _drawn_signs(span["chars"]):
            baseline, x0, x1 = origin[1] * scale, box[0] * scale, box[2] * scale
            letters = [letter for sign in signs for letter in (letters_of(sign) or ("",))]
            step = (x1 - x0) / len(letters)  # a ligature's letters share its width
            for index, letter in enumerate(letters):
                left = x0 + index * step
                yield Character(letter, left, left + step, baseline, size, font)


def _drawn_signs(chars: Sequence[tuple[Any, ...]]) -> Iterator[tuple[list[str], Any, Any]]:
    """What each drawn shape stands for, its origin and its box. A shape for several characters is followed by those after
    the first, without a shape of their own."""
    index = 0
    while index < len(chars):
        code, _, origin, box = chars[index]
        signs = [code]
        index += 1
        while index < len(chars) and chars[index][1] < 0:
            signs.append(chars[index][0])
            index += 1
        yield [chr(sign) if sign > 0 else "\ufffd" for sign in signs], origin, box


def letters_of(sign: str) -> tuple[str, ...]:
    """What the reader writes for a sign: one or more characters (ligatures), a space, or nothing where it knows none."""
    if sign == "\u00ad":  # drawn only where a word is broken
        return ("-",)
    if sign.isspace():
        return (" ",)
    if sign in _COMBINING:
        return (sign,)  # perhaps the accent of a letter
    if sign == "ı":
        return ("i",)
    folded = sign if sign in alphabet.CHARACTER_ID else alphabet.fold(unicodedata.normalize("NFC", sign))
    return tuple(folded.strip())


def _undoubled(characters: list[Character]) -> list[Character]:
    """Without letters that are printed twice in nearly the same place to look bold."""
    seen: dict[tuple[str, int, int], Character] = {}
    kept = []
    for character in characters:
        unit = 0.1 * character.size  # less than the narrowest letters are apart
        key = (character.text, round(character.x0 / unit), round(character.baseline / unit))
        if character.text in ("", " ") or key not in seen:
            seen[key] = character
            kept.append(character)
    return kept


def _composed(characters: list[Character]) -> list[Character]:
    """Accents that are drawn as signs of their own over a letter, put into the letter."""
    kept: list[Character] = []
    index = 0
    while index < len(characters):
        first = characters[index]
        second = characters[index + 1] if index + 1 < len(characters) else None
        pair = _accented(first, second) or _accented(second, first) if second else None
        kept.append(pair or _alone(first))
        index += 2 if pair else 1
    return kept


def _alone(character: Character) -> Character:
    """A sign that is no accent after all."""
    if character.text in ("", " ") or character.text in alphabet.CHARACTER_ID:
        return character
    return replace(character, text=alphabet.fold(character.text))


def _accented(accent: Character | None, letter: Character | None) -> Character | None:
    """The letter with its accent, None where the two do not belong together."""
    if accent is None or letter is None or accent.text not in _COMBINING or not letter.text.isalpha():
        return None
    if abs(accent.baseline - letter.baseline) > 0.5 * letter.size:
        return None
    shared = min(accent.x1, letter.x1) - max(accent.x0, letter.x0)
    if shared < 0.5 * min(accent.x1 - accent.x0, letter.x1 - letter.x0):
        return None
    whole = unicodedata.normalize("NFC", letter.text + _COMBINING[accent.text])
    return replace(letter, text=whole if whole in alphabet.CHARACTER_ID else "")


def _has_ink(pixels: np.ndarray, character: Character) -> bool:
    """Whether something stands out from the ground where the character is said to be."""
    top, bottom = (
        int(character.baseline - 0.8 * character.size),
        int(character.baseline + 0.25 * character.size) + 1,
    )
    left, right = int(character.x0), int(np.ceil(character.x1)) + 1
    if top < 0 or left < 0 or bottom > pixels.shape[0] or right > pixels.shape[1] or right - left < 2:
        return False
    patch = pixels[top:bottom, left:right]
    return int(patch.max()) - int(patch.min()) >= _LEAST_CONTRAST
