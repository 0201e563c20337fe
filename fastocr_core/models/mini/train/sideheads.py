"""Manuals with labels in a margin column, and screens printed too small to be read.

Labels and text stand on common lines, which are read across as those of a table are.
"""

from __future__ import annotations

from dataclasses import replace

from fastocr_core.models.mini.train.blocks import bullets, paragraph, pieces_of
from fastocr_core.models.mini.train.placement import PlacedWord, Rule
from fastocr_core.models.mini.train.tabular import figure, with_codes
from fastocr_core.models.mini.train.typesetting import Frame, Manner, Piece, Setter, width_of


def sideheads(setter: Setter, frame: Frame) -> None:
    """Fill the frame with sections whose labels stand in a column at the left of their text."""
    gap = setter.between(1.0, 3.5) * setter.manner.pixels
    edge = frame.left + setter.between(0.15, 0.3) * frame.room
    if edge - frame.left < 5 * setter.manner.pixels or frame.right - edge - gap < 9 * setter.manner.pixels:
        while paragraph(setter, frame):
            frame.y += 0.5 * setter.manner.pitch
        return
    label_manner = replace(setter.manner_at(setter.between(0.85, 1.0)), pitch=setter.manner.pitch)
    space, long = setter.between(0.3, 3.0) * setter.manner.pitch, setter.chance(0.6)
    numbered = setter.chance(0.6)
    while setter.fits(frame, setter.manner.pixels):
        label = Frame(frame.left, edge, frame.y, frame.bottom)
        text = Frame(edge + gap, frame.right, frame.y, frame.bottom)
        before = len(setter.lines)
        _label(setter, label, label_manner)
        for number in range(1, setter.count(1, 6 if long else 2) + 1):
            if numbered:
                _numbered(setter, text, number)
            elif not (bullets if setter.chance(0.12) else paragraph)(setter, text):
                break
            text.y += setter.count(0, 1) * setter.manner.pitch
        if len(setter.lines) == before:
            return
        _read_across(setter, before)
        frame.y = max(label.y, text.y) + space


def _read_across(setter: Setter, first: int) -> None:
    """Join the lines from number `first` on that stand at one height, left to right."""
    height = min(line[0].baseline for line in setter.lines[first:])
    joined: dict[int, list[PlacedWord]] = {}
    for line in setter.lines[first:]:
        joined.setdefault(round((line[0].baseline - height) / setter.manner.pitch), []).extend(line)
    setter.lines[first:] = [tuple(sorted(joined[row], key=lambda word: word.x)) for row in sorted(joined)]


def _label(setter: Setter, frame: Frame, manner: Manner) -> None:
    """One to three short paragraphs: a number, a date in brackets, a name in bold."""
    bold, body = setter.family.bold, setter.family.body
    parts: list[list[Piece]] = []
    if setter.chance(0.6):
        code = ".".join(str(setter.count(1, 60)) for _ in range(setter.count(1, 5)))
        parts.append([(code, body)])
    if setter.chance(0.35):
        parts.append([(f"({figure(setter)})", body)])
    face = bold if setter.chance(0.75) else body
    parts.append([(word, face) for word in setter.words(setter.count(1, 6), face)])
    for part in parts:
        setter.run(frame, [piece for piece in part if piece[1].covers(piece[0])], manner, most_lines=4)


def _numbered(setter: Setter, frame: Frame, number: int) -> None:
    """A paragraph with its number hanging at the left, a bold word or two at its start now and then."""
    start = 2.6 * setter.manner.pixels
    manner = replace(setter.manner, indent=start, hang=start)
    pieces = pieces_of(setter, with_codes(setter, setter.words(setter.count(2, 60))))
    pieces = [piece for piece in pieces if piece[1].covers(piece[0])]
    if frame.room < start + 6 * manner.pixels or not pieces:
        return
    if setter.chance(0.3) and setter.family.bold.covers(pieces[0][0]):
        pieces[0] = (pieces[0][0], setter.family.bold)
    before = len(setter.lines)
    if setter.run(frame, pieces, manner):
        first = setter.lines[before]
        sign = setter.place(f"({number})", setter.family.body, frame.left, first[0].baseline, manner)
        if sign.x + sign.width < first[0].x - 0.2 * manner.pixels:
            setter.lines[before] = (sign, *first)


def screen(setter: Setter, frame: Frame) -> bool:
    """A framed picture of rows of letters of three or four pixels, which nobody can read and nobody should."""
    height = min(setter.between(60, 420), (frame.bottom - frame.y) * 0.6)
    width = frame.room * setter.between(0.35, 0.95)
    if height < 50 or width < 80:
        return False
    left, top = frame.left + setter.between(0, frame.room - width), frame.y + 4
    setter.rules.append(Rule(left, top, left + width, top + height, "box", setter.between(0.8, 2)))
    face, pixels = setter.family.typewriter, setter.between(3.5, 5.5)
    baseline, filled = top + 2 * pixels, setter.between(0.1, 1.0)
    while baseline < top + height - pixels:
        x = left + pixels
        for text in setter.words(setter.count(1, 30), face) if setter.chance(filled) else ():
            word = PlacedWord(text, x, width_of(text, face, pixels), baseline, pixels, face)
            x += word.width + pixels
            if x > left + width - pixels:
                break
            setter.unread.append(word)
        baseline += pixels * 1.25
    frame.y = top + height + setter.between(0.5, 1.5) * setter.manner.pitch
    return True
