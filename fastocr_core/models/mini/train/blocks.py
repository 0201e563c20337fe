"""What columns are filled with: paragraphs, headings, lists, verses, pictures with captions, in any mix.

A block sets what fits into its frame, moves `frame.y` below itself, and says whether it set anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fastocr_core.models.mini.train.placement import PlacedWord, Rule
from fastocr_core.models.mini.train.typesetting import Frame, Manner, Piece, Setter

Block = Callable[[Setter, Frame], bool]
_BULLETS = ("•", "-", "–", "*", "·", "—", "+", "»", "o")
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")


def pieces_of(setter: Setter, words: Sequence[str]) -> list[Piece]:
    """Words in the body face, and on pages with emphasis some runs of them bold or italic."""
    family = setter.family
    pieces: list[Piece] = [(word, family.body) for word in words]
    if setter.emphasis:
        for _ in range(setter.count(0, 2)):
            face = family.bold if setter.chance(0.5) else family.italic
            start = setter.count(0, len(words))
            for index in range(start, min(start + setter.count(1, 6), len(words))):
                if face.covers(words[index]):
                    pieces[index] = (words[index], face)
    return pieces


def underline(setter: Setter, words: Sequence[PlacedWord]) -> None:
    """One rule below neighbouring words of a line."""
    first, last = words[0], words[-1]
    y = first.baseline + setter.between(0.12, 0.2) * first.pixels
    setter.rules.append(Rule(first.x, y, last.x + last.width, y, "line", max(1.0, 0.06 * first.pixels)))


def paragraph(setter: Setter, frame: Frame) -> bool:
    """Running text in the page's manner."""
    before = len(setter.lines)
    lines = setter.run(frame, pieces_of(setter, setter.words(setter.count(3, 90))), setter.manner)
    if lines and setter.emphasis and setter.chance(0.3):
        line = setter.lines[before + setter.count(0, lines - 1)]
        start = setter.count(0, len(line) - 1)
        underline(setter, line[start : start + setter.count(1, 5)])
    return lines > 0


def heading(setter: Setter, frame: Frame) -> bool:
    """One or two lines that stand out: larger, bold, in capitals, letter-spaced, numbered, underlined or reversed."""
    face = setter.family.bold if setter.chance(0.6) else setter.family.body
    size = (
        setter.between(1.6, 2.5) if setter.chance(0.2) else setter.between(1.0, 1.6)
    )  # a title, or a heading
    pixels = round(setter.manner.pixels * size * 4) / 4
    pitch = max((setter.ascent + setter.descent) * pixels, setter.manner.pitch)
    words = setter.words(setter.count(1, 9), face)
    spacing = 0.0
    if setter.chance(0.3):
        words = [word for word in (word.upper() for word in words) if face.covers(word)]
        spacing = pixels * setter.between(0.04, 0.22) if setter.chance(0.4) else 0.0
    if setter.chance(0.25):
        words.insert(
            0,
            setter.one_of("{}.", "{}", "{}.{}", "§{}", "{})").format(setter.count(1, 20), setter.count(1, 9)),
        )
        words = [word for word in words if face.covers(word)]
    align = "centre" if setter.chance(0.35) else "left"
    manner = Manner(pixels, pitch, align, spacing=spacing)
    if setter.chance(setter.style.reverse_share):
        return _reversed(setter, frame, [(word, face) for word in words], manner)
    before = len(setter.lines)
    lines = setter.run(frame, [(word, face) for word in words], manner, most_lines=2)
    if lines and setter.chance(0.08):
        underline(setter, setter.lines[before])
    frame.y += setter.between(0, 0.4) * setter.manner.pitch
    return lines > 0


def _reversed(setter: Setter, frame: Frame, pieces: list[Piece], manner: Manner) -> bool:
    """A heading white on a black bar of the frame's width."""
    edge = setter.between(3, 8)
    inner = Frame(frame.left + edge, frame.right - edge, frame.y + edge, frame.bottom - edge)
    top = frame.y
    if inner.room < 4 * manner.pixels or not setter.run(inner, pieces, manner, most_lines=1):
        return False
    last = setter.lines[-1][0]
    bottom = last.baseline + setter.descent * last.pixels + edge / 2
    setter.rules.append(Rule(frame.left, top, frame.right, bottom, "reverse"))
    frame.y = bottom + setter.between(3, 8)
    return True


def _markers(setter: Setter, count: int) -> list[str]:
    body = setter.family.body
    if setter.chance(0.5):
        fitting = [bullet for bullet in _BULLETS if body.covers(bullet)]
        return [setter.one_of(*fitting)] * count
    first, dress = (
        setter.count(1, 30) if setter.chance(0.2) else 1,
        setter.one_of("{}.", "{})", "({})", "[{}]"),
    )
    if setter.chance(0.5):
        return [dress.format(first + index) for index in range(count)]
    if setter.chance(0.5):
        return [dress.format("abcdefghijkl"[index]) for index in range(count)]
    return [dress.format(_ROMAN[index]) for index in range(count)]


def bullets(setter: Setter, frame: Frame) -> bool:
    """Items with bullets or numbers and a hanging indent, now and then with sub-items."""
    body, manner = setter.family.body, setter.manner
    items = _markers(setter, setter.count(2, 12))
    wide = max(sum(body.advances[c] for c in item) for item in items) * manner.pixels
    edge = setter.between(0, 2) * manner.pixels
    start = edge + wide + setter.between(0.35, 1.2) * manner.pixels
    if frame.room < start + 6 * manner.pixels:
        return False
    long, gap = setter.count(4, 40), setter.between(0, 0.4) * manner.pitch if setter.chance(0.5) else 0.0
    done = 0
    for marker in items:
        words = setter.words(setter.count(2, long))
        done += _item(setter, frame, marker, words, edge, start)
        if setter.chance(0.1):
            _item(setter, frame, "-", setter.words(setter.count(2, 12)), start, start + 1.2 * manner.pixels)
        frame.y += gap
    return done > 0


def _item(setter: Setter, frame: Frame, marker: str, words: list[str], edge: float, start: float) -> bool:
    """A marker at `edge` before the first of the lines that begin at `start`, pixels from the frame's left."""
    manner = replace(setter.manner, indent=start, hang=start)
    if frame.room < start + 4 * manner.pixels:
        return False
    before = len(setter.lines)
    if not setter.run(frame, pieces_of(setter, words), manner):
        return False
    first = setter.lines[before]
    sign = setter.place(marker, setter.family.body, frame.left + edge, first[0].baseline, manner)
    setter.lines[before] = (sign, *first)
    return True


def verse(setter: Setter, frame: Frame) -> bool:
    """Stanzas of short lines, with a step at every second line or set to the middle, now and then numbered."""
    manner = setter.manner
    step = setter.between(1, 2.5) * manner.pixels if setter.chance(0.5) else 0.0
    align = "centre" if not step and setter.chance(0.3) else "left"
    left = setter.between(0, 0.25) * frame.room
    numbered = align == "left" and setter.chance(0.25) and frame.room > 20 * manner.pixels
    right = frame.right - 4 * manner.pixels if numbered else frame.right
    done = 0
    for _ in range(setter.count(1, 6)):
        for line in range(setter.count(2, 8)):
            words = setter.words(setter.count(2, 8))
            shift = left + (step if line % 2 else 0.0)
            own = replace(manner, align=align, indent=shift, hang=shift, hyphens=False)
            inner = Frame(frame.left, right, frame.y, frame.bottom)
            if not setter.run(inner, pieces_of(setter, words), own, most_lines=1):
                continue
            frame.y, done = inner.y, done + 1
            if numbered and done % 5 == 0:
                last, text = setter.lines[-1], str(done)
                x = frame.right - sum(setter.family.body.advances[digit] for digit in text) * manner.pixels
                number = setter.place(text, setter.family.body, x, last[0].baseline, manner)
                setter.lines[-1] = (*last, number)
        frame.y += setter.between(0.5, 1.2) * manner.pitch
    return done > 0


def picture(setter: Setter, frame: Frame) -> bool:
    """Something without letters, framed or not, now and then with a caption below it."""
    width = frame.room * setter.between(0.4, 1.0)
    height = min(setter.between(40, 260), (frame.bottom - frame.y) * 0.5)
    if height < 30 or width < 40:
        return False
    x = frame.left + setter.between(0, frame.room - width)
    box = (x, frame.y + 4, x + width, frame.y + height - 4)
    look = setter.one_of("picture", "picture", "tint", "box")
    tone = setter.count(60, 220)
    if look == "box":
        setter.rules.append(Rule(*box, "box", setter.between(1, 3)))
    else:
        setter.rules.append(Rule(*box, "tint" if look == "tint" else "picture", tone=tone))
    frame.y += height
    if setter.chance(0.6):
        small = replace(setter.manner_at(0.88), align=setter.one_of("left", "centre"))
        face = setter.family.italic if setter.chance(0.5) else setter.family.body
        label = setter.one_of("Fig. {}", "Figure {}.", "Abb. {}:", "{}.").format(setter.count(1, 60)).split()
        words = [*label, *setter.words(setter.count(2, 20), face)]
        setter.run(frame, [(word, face) for word in words if face.covers(word)], small)
    frame.y += 0.4 * setter.manner.pitch
    return True


def flow(setter: Setter, frame: Frame, mix: Sequence[tuple[Block, float]]) -> None:
    """Fill the frame with blocks drawn by weight, headings and pictures by their share, until one finds no room."""
    blocks = [block for block, _ in mix]
    total = sum(weight for _, weight in mix)
    gap = setter.between(0, 1) * setter.manner.pitch if setter.chance(0.6) else 0.0
    if setter.chance(0.12):  # a page with much air
        gap = setter.between(1.0, 8.0) * setter.manner.pitch
    failures = 0
    while failures < 4 and setter.fits(frame, setter.manner.pixels):
        if setter.chance(setter.style.heading_share):
            if setter.lines:
                frame.y += 0.3 * gap
                if setter.chance(0.2):  # white above a new part
                    frame.y += setter.between(0.5, 5.0) * setter.manner.pitch
            heading(setter, frame)
        if setter.chance(setter.style.picture_share):
            picture(setter, frame)
        index = int(setter.generator.choice(len(blocks), p=[weight / total for _, weight in mix]))
        failures = 0 if blocks[index](setter, frame) else failures + 1
        frame.y += gap
