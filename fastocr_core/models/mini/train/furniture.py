"""What surrounds the text of a page: running header, page number, footnotes, and letters of the next page cut at the edge."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastocr_core.models.mini.train.blocks import heading, paragraph
from fastocr_core.models.mini.train.fonts import Face, is_bold
from fastocr_core.models.mini.train.placement import PlacedWord
from fastocr_core.models.mini.train.tabular import with_codes
from fastocr_core.models.mini.train.typesetting import LEAST_PITCH_PIXELS, Frame, Manner, Setter, width_of

_CUT_SHARE = (0.2, 0.65)  # how much is seen of a letter cut by the edge
_CUT_MARGIN_PIXELS = 30.0  # between the edge with cut letters and the text
_MOST_WEIGHT = 0.09  # em
_SLAB_SHARE = 0.5  # of the heads on such pages are set in a slab face of their own
_FATTER_SHARE = 0.75  # of the heads on pages in type cast fat
_NUMBERS = ("{}", "{}", "{}", "– {} –", "- {} -", "[{}]", "Page {}", "Seite {}", "p. {}")


def _inked(setter: Setter, face: Face) -> Face:
    """On pages in type cast fat, mostly a fatter and narrower one: capitals of a head whose counters are nearly closed."""
    if face.weight == 0.0 or not setter.chance(_FATTER_SHARE):
        return face
    most = _MOST_WEIGHT * (0.5 if is_bold(face) else 1.0)
    weight = round(min(most, face.weight + setter.between(0.0, 0.06)) * 400) / 400
    narrower = round(setter.between(0.8, 1.0) * 50) / 50
    wider = 0.5 * (weight - face.weight)  # type so fat would run together else
    advances = {character: advance * narrower + wider for character, advance in face.advances.items()}
    return replace(face, weight=weight, squeeze=round(face.squeeze * narrower, 2), advances=advances)


def _slab(setter: Setter) -> Face | None:
    """Books in type cast fat have heads in slab capitals of another face now and then; None where not."""
    slab = setter.family.heads
    other = slab.path != setter.family.body.path and slab.weight > 0.0
    return slab if other and setter.chance(_SLAB_SHARE) else None


def _as_large(setter: Setter, face: Face, manner: Manner) -> Manner:
    """The size at which `face` is as large as the body's letters are in `manner`."""
    pixels = round(manner.pixels * setter.family.body.x_height / face.x_height * 4) / 4
    return manner if face.x_height == setter.family.body.x_height else replace(manner, pixels=pixels)


def _let_out(setter: Setter, texts: list[str], manner: Manner) -> Manner:
    """Capitals stand apart now and then."""
    if any(text != text.upper() for text in texts) or setter.chance(0.5):
        return manner
    return replace(manner, spacing=manner.pixels * setter.between(0.0, 0.15))


def header(setter: Setter, frame: Frame, page: int) -> None:
    """A line at the top: title and page number at opposite ends or in the middle, now and then with a rule below."""
    if setter.chance(0.3):
        mixed = setter.chance(0.4)
        in_pieces(setter, frame, page, 1 if mixed else setter.count(1, 2), mixed)
        frame.y += setter.between(0.3, 1.8) * setter.manner.pitch
        return
    body, bold, italic = setter.family.body, setter.family.bold, setter.family.italic
    face = italic if setter.chance(0.35) else bold if setter.chance(0.3) else body
    slab = _slab(setter)
    face = _inked(setter, slab or face)
    small = setter.manner_at(setter.between(0.8, 1.0))
    small = small if slab is None else _as_large(setter, slab, small)
    if not setter.fits(frame, small.pixels):
        return
    title = setter.words(setter.count(1, 7), face)
    if setter.chance(0.5):
        face = _inked(setter, bold) if slab is None and setter.chance(0.4) else face
        title = [word for word in (word.upper() for word in title) if face.covers(word)]
        spacing = small.pixels * setter.between(0.0, 0.2) if setter.chance(0.5) else 0.0
        small = replace(small, spacing=spacing)
    number = str(page)
    baseline = setter.baseline(frame, small.pixels)
    wide = width_of(number, face, small.pixels)
    shape = setter.count(0, 3)
    words: list[PlacedWord] = []
    if shape == 0:
        words = setter.placed(title, face, frame.left, baseline, small, frame.right - 3 * wide - small.pixels)
        words.append(setter.place(number, face, frame.right - wide, baseline, replace(small, spacing=0.0)))
    elif shape == 1:
        placed = setter.placed(title, face, 0.0, baseline, small, frame.room - 3 * wide - small.pixels)
        end = placed[-1].x + placed[-1].width if placed else 0.0
        words = [setter.place(number, face, frame.left, baseline, replace(small, spacing=0.0))]
        words += [replace(word, x=word.x + frame.right - end) for word in placed]
    else:
        setter.run(frame, [(word, face) for word in title], replace(small, align="centre"), most_lines=1)
        frame.y -= small.pitch
    setter.row(words)
    frame.y += small.pitch
    if setter.chance(0.35):
        setter.rule_across(frame)
    frame.y += setter.between(0.3, 1.2) * setter.manner.pitch


def in_pieces(setter: Setter, frame: Frame, page: int, lines: int, mixed: bool = False) -> None:
    """Lines of two or three short pieces far from each other, at the edges and in the middle, between rules or not.

    mixed: one line whose pieces have sizes of their own.
    """
    face = setter.family.bold if setter.chance(0.4) else setter.family.body
    slab = _slab(setter)
    face = _inked(setter, slab or face)
    manner = setter.manner_at(setter.between(0.75, 1.3))
    manner = manner if slab is None else _as_large(setter, slab, manner)
    if setter.chance(0.5):  # as close as the letters allow
        pitch = max(manner.pixels * setter.between(1.0, 1.2), LEAST_PITCH_PIXELS)
        manner = replace(manner, pitch=pitch)
    ruled, thirds = setter.one_of("none", "above", "below", "both"), setter.chance(0.5)
    last_kept = setter.between(0.3, 1.0)  # share of the pieces that further lines have
    if ruled in ("above", "both"):
        setter.rule_across(frame)
    for line in range(lines):
        largest = setter.manner_at(setter.between(1.2, 1.7)) if mixed else manner
        largest = largest if slab is None or not mixed else _as_large(setter, slab, largest)
        if not setter.fits(frame, largest.pixels):
            break
        baseline, room = setter.baseline(frame, largest.pixels), frame.room / (3.4 if thirds else 2.3)
        below = replace(frame, y=frame.y + manner.pitch)
        between_lines = (
            not mixed and line + 1 < lines and setter.fits(below, manner.pixels) and setter.chance(0.4)
        )
        lowered = setter.between(0.0, 0.5) * manner.pitch if between_lines else 0.0
        words: list[PlacedWord] = []
        for place in (0.0, 0.5, 1.0) if thirds else (0.0, 1.0):
            if line and not setter.chance(last_kept if place == 1.0 else 0.4):
                continue
            own = largest if mixed and setter.chance(0.5) else manner
            raised = setter.between(0.0, 0.7) * setter.ascent * (largest.pixels - own.pixels)
            texts = [text for text in _piece(setter, face, page, place) if face.covers(text)]
            sunk = lowered if words and place == 1.0 else 0.0  # beside a block of lines, against none of them
            own = _let_out(setter, texts, own)
            piece = setter.placed(texts, face, 0.0, baseline - raised + sunk, own, room)
            end = piece[-1].x + piece[-1].width if piece else 0.0
            words += [replace(word, x=word.x + frame.left + place * (frame.room - end)) for word in piece]
        setter.row(words)
        frame.y += max(manner.pitch, (setter.ascent + setter.descent) * largest.pixels if mixed else 0.0)
    if ruled in ("below", "both"):
        setter.rule_across(frame)


def _piece(setter: Setter, face: Face, page: int, place: float) -> list[str]:
    """A few words, now and then all in capitals; the page number at the outer edges, a chapter in brackets."""
    if place != 0.5 and setter.chance(0.35):
        return setter.one_of("{}", "{}", "page {}", "Seite {}", "[Ch. {}.", "({})").format(page).split()
    texts = with_codes(setter, setter.words(setter.count(1, 5), face)[:5])
    return [text.upper() for text in texts] if setter.chance(0.45) else texts


def strip(setter: Setter, frame: Frame) -> None:
    """What the view cuts off by itself: a head or a foot in pieces, a heading, a few lines."""
    page = setter.count(1, 1200)
    if setter.chance(0.6):
        mixed = setter.chance(0.35)
        in_pieces(setter, frame, page, 1 if mixed else setter.count(1, 4), mixed)
    elif setter.chance(0.5):
        heading(setter, frame)
    for _ in range(setter.count(0, 2)):
        frame.y += setter.between(0.2, 1.0) * setter.manner.pitch
        (heading if setter.chance(0.3) else paragraph)(setter, frame)


@dataclass(slots=True)
class Foot:
    """What is kept free at the bottom of a page: first for notes, below them for the page number."""

    notes: Frame
    number: Frame
    note_manner: Manner
    note_lines: int
    piece_lines: int  # of a foot in pieces instead of a page number


def reserve_foot(setter: Setter, frame: Frame, numbered: bool, noted: bool) -> Foot:
    """Shorten the frame by the room that a page number and notes will need."""
    small = setter.manner_at(setter.between(0.78, 0.92))
    least = (setter.ascent + setter.descent) * setter.manner.pixels
    number = Frame(frame.left, frame.right, frame.bottom, frame.bottom)
    pieces = setter.count(1, 3) if numbered and setter.chance(0.3) else 0
    high = 1.3 * pieces * max(1.3 * least, setter.manner.pitch) + 14
    if pieces and high > 0.3 * (frame.bottom - frame.y):  # it would meet what stands above on a small page
        pieces = 0
    if pieces:
        number.y = frame.bottom - high
        frame.bottom = number.y - setter.between(0.2, 1.2) * setter.manner.pitch
    elif numbered:
        number.y = frame.bottom - least - 1
        frame.bottom = number.y - setter.between(0.2, 1.2) * setter.manner.pitch
    lines = setter.count(1, 6) if noted else 0
    height = (lines - 1) * small.pitch + (setter.ascent + setter.descent) * small.pixels + 10
    notes = Frame(frame.left, frame.right, frame.bottom, frame.bottom)
    if lines and height < 0.35 * (frame.bottom - frame.y):
        notes.y = frame.bottom - height
        frame.bottom = notes.y - setter.between(0.2, 0.6) * setter.manner.pitch
    else:
        lines = 0
    return Foot(notes, number, small, lines, pieces)


def set_foot(setter: Setter, foot: Foot, page: int) -> None:
    """Notes in small letters under a short rule, then the page number, into what was kept free."""
    body = setter.family.body
    if foot.note_lines:
        setter.rule_across(foot.notes, 1.0 if setter.chance(0.4) else 0.3, 8.0)
        note, left = setter.count(1, 9), foot.note_lines
        while left > 0:
            mark = setter.one_of("{}", "{})", "{}.", "*", "†", "[{}]").format(note)
            words = [mark, *setter.words(setter.count(4, 40))]
            pieces = [(word, body) for word in words if body.covers(word)]
            lines = setter.run(foot.notes, pieces, foot.note_manner, left)
            left -= max(lines, 1)
            note += 1
    if foot.piece_lines:
        in_pieces(setter, foot.number, page, foot.piece_lines)
    elif foot.number.y < foot.number.bottom:
        words = setter.one_of(*_NUMBERS).format(page).split()
        align = setter.one_of("centre", "centre", "left", "right")
        manner = replace(setter.manner, align=align, indent=0.0, hang=0.0, hyphens=False)
        setter.run(foot.number, [(word, body) for word in words if body.covers(word)], manner, 1)


def neighbour(setter: Setter, frame: Frame) -> None:
    """Letters of the next page, cut by the left or right edge so that none can be read; the text keeps away from them."""
    body, manner = setter.family.body, setter.manner
    at_left = setter.chance(0.5)
    if frame.room < 8 * _CUT_MARGIN_PIXELS:
        return
    if at_left:
        frame.left = max(frame.left, _CUT_MARGIN_PIXELS)
    else:
        frame.right = min(frame.right, setter.width - _CUT_MARGIN_PIXELS)
    baseline = setter.between(10, 80) + setter.ascent * manner.pixels
    while baseline + setter.descent * manner.pixels < setter.height - 10:
        for word in setter.words(1):
            width = width_of(word, body, manner.pixels)
            cut = body.advances[word[-1 if at_left else 0]] * manner.pixels
            seen = cut * setter.between(*_CUT_SHARE)
            x = seen - width if at_left else setter.width - seen
            setter.unread.append(PlacedWord(word, x, width, baseline, manner.pixels, body))
        baseline += manner.pitch
