"""Blocks whose lines are made of cells: tables, forms, contents, and lines of figures. Rows are read from left to right."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.placement import PlacedWord, Rule
from fastocr_core.models.mini.train.typesetting import Frame, Manner, Setter, width_of

_CURRENCIES = ("€", "$", "£", "¥", "EUR", "Fr.", "DM", "fl.")


def figure(setter: Setter) -> str:
    """A number as print has them: counts, decimals, sums, dates, years, shares, telephone numbers, signs before and after."""
    kind = setter.count(0, 17)
    whole = setter.count(0, 10 ** setter.count(1, 6))
    cents = setter.count(0, 99)
    day, month, year = setter.count(1, 31), setter.count(1, 12), setter.count(1500, 2030)
    shapes = (
        f"{whole}", f"{whole}", f"{whole:,}", f"{whole:,}".replace(",", "."), f"{whole}.{cents:02d}", f"{whole},{cents:02d}",
        f"{day}.{month}.{year}", f"{year}-{month:02d}-{day:02d}", f"{day}/{month}/{year % 100:02d}", f"{year}",
        f"{cents:02d}-{(cents + day) % 100:02d}", f"{day}.{month}.{cents}-{setter.count(1, 120)}",
        f"({month:02d}-{day:02d}-{year})",
        f"{setter.count(1000, 99999)}{setter.one_of('A', 'B', 'C', 'D', 'E', 'G', 'T', 'X')}",
        f"{cents}%", f"{setter.count(0, 999):03d}-{setter.count(0, 9999):04d}", f"({whole})", f"{year}–{year % 100:02d}",
    )  # fmt: skip
    text = shapes[kind]
    if setter.chance(0.08):
        text = f"{setter.one_of(*_CURRENCIES)}{text}" if setter.chance(0.5) else f"-{text}"
    return text


def code(setter: Setter) -> str:
    """Letters and figures that mean nothing: abbreviations, two with a stroke between them, in brackets or not."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    words = ["".join(setter.one_of(*letters) for _ in range(setter.count(2, 6))) for _ in range(2)]
    text = f"{words[0]}/{words[1]}" if setter.chance(0.4) else words[0]
    if setter.chance(0.3):
        text = f"{setter.count(1, 9999)}{text[:2]}" + ("(D)" if setter.chance(0.2) else "")
    return f"({text})" if setter.chance(0.35) else text


def with_codes(setter: Setter, words: list[str]) -> list[str]:
    """The words, in lists of a technical kind some of them codes, numbers or signs instead."""
    if not setter.chance(0.4):
        return words
    return [
        code(setter)
        if setter.chance(0.25)
        else setter.one_of("=", "#", "&", figure(setter))
        if setter.chance(0.08)
        else word
        for word in words
    ]


def figures(setter: Setter, frame: Frame) -> bool:
    """A paragraph most of whose words are numbers."""
    words = [figure(setter) if setter.chance(0.7) else word for word in setter.words(setter.count(5, 60))]
    body = setter.family.body
    return setter.run(frame, [(word, body) for word in words if body.covers(word)], setter.manner) > 0


def _cell(
    setter: Setter, numeric: bool, face: Face, room: float, manner: Manner, lines: int
) -> list[list[str]]:
    """Words for the lines of one cell, as many as the room holds."""
    if numeric:
        number = figure(setter)
        fitting = face.covers(number) and width_of(number, face, manner.pixels) <= room
        return [[number]] if fitting else []
    texts = with_codes(
        setter, setter.words(setter.count(1, 4) if lines == 1 else setter.count(2, 7 * lines), face)
    )
    texts = [text for text in texts if face.covers(text)]
    if lines == 1:
        texts = texts[:3]
    cell: list[list[str]] = []
    for text in texts:
        if cell and width_of(" ".join([*cell[-1], text]), face, manner.pixels) <= room:
            cell[-1].append(text)
        elif width_of(text, face, manner.pixels) <= room and len(cell) < lines:
            cell.append([text])
        elif len(cell) == lines:
            break
    return cell


@dataclass(frozen=True, slots=True)
class _Columns:
    """edges: x of the columns' borders, pixels; numeric, lines: by column, the lines its cells have at most."""

    edges: list[float]
    numeric: list[bool]
    lines: list[int]
    pad: float  # above and below the text of a row, pixels


def _table_columns(setter: Setter, frame: Frame, count: int) -> _Columns:
    first = frame.left + setter.between(0, 0.12) * frame.room
    lines = [1] * count
    shares = setter.generator.dirichlet([6.0] * count)
    if setter.chance(0.4):  # one column, or two, of running text
        wordy = {setter.count(0, count - 1), count - 1}
        lines = [setter.count(2, 5) if index in wordy else 1 for index in range(count)]
        shares = shares * [2.5 if index in wordy else 1.0 for index in range(count)]
        shares /= shares.sum()
    edges = [first + (frame.right - first) * float(shares[:index].sum()) for index in range(count + 1)]
    numeric = [lines[index] == 1 and setter.chance(0.25 if index == 0 else 0.6) for index in range(count)]
    pad = setter.between(2, 7) if setter.chance(0.75) else setter.between(7, 26)
    return _Columns(edges, numeric, lines, pad)


def table(setter: Setter, frame: Frame) -> bool:
    """Rows of cells under a head, without rules, with a few, or in a grid; numbers end at a common edge. Lines of one height
    are read across, whichever cells they stand in."""
    manner = replace(setter.manner, align="left", indent=0.0, hang=0.0)
    count = min(setter.count(2, 7), int(frame.room / (5.5 * manner.pixels)))
    if count < 2:
        return False
    columns = _table_columns(setter, frame, count)
    rules = setter.one_of("none", "few", "few", "grid", "rows")
    flush_right = setter.chance(0.6)
    top, done, lines = frame.y, 0, [frame.y]
    for row in range(setter.count(2, 28)):
        if not setter.fits(frame, manner.pixels):
            break
        if not _table_row(setter, frame, manner, columns, head=row == 0, flush_right=flush_right):
            break
        done += 1
        lines.append(frame.y)
    _rule_table(setter, rules, columns.edges, lines, top)
    frame.y += 4
    return done > 0


def _table_row(
    setter: Setter, frame: Frame, manner: Manner, columns: _Columns, head: bool, flush_right: bool
) -> bool:
    """Set one row and move frame.y below it; False, with nothing set, where it does not fit."""
    bold = head and setter.chance(0.7)
    face = setter.family.bold if bold else setter.family.body
    ink = (setter.ascent + setter.descent) * manner.pixels
    gap = max(0.5 * manner.pixels, min(columns.pad, 8.0))
    by_line: dict[int, list[PlacedWord]] = {}
    placed: list[tuple[float, float, bool, list[list[str]]]] = []
    for index, numeric in enumerate(columns.numeric):
        left, right = columns.edges[index] + gap, columns.edges[index + 1] - gap
        number = numeric and not head
        cell = (
            []
            if setter.chance(0.12)
            else _cell(setter, number, face, right - left, manner, columns.lines[index])
        )
        placed.append((left, right, number and flush_right, cell))
    depth = max((len(cell) for *_, cell in placed), default=1) or 1
    pad = max(columns.pad, (manner.pitch - ink) / 2)
    height = ink + (depth - 1) * manner.pitch + 2 * pad
    if frame.y + height > frame.bottom:
        return False
    for left, right, flush, cell in placed:
        for line, texts in enumerate(cell):
            start = right - width_of(texts[0], face, manner.pixels) if flush else left
            baseline = frame.y + pad + setter.ascent * manner.pixels + line * manner.pitch
            by_line.setdefault(line, []).extend(
                setter.placed(texts, face, start, baseline, manner, right + 0.01)
            )
    for line in sorted(by_line):
        setter.row(by_line[line])
    frame.y += height
    return True


def _rule_table(setter: Setter, rules: str, edges: list[float], lines: list[float], top: float) -> None:
    if rules == "none" or len(lines) < 2:
        return
    thickness = setter.between(0.7, 2.0)
    drawn = lines if rules in ("grid", "rows") else [*lines[:2], lines[-1]]
    for y in drawn:
        setter.rules.append(Rule(edges[0], y, edges[-1], y, "line", thickness))
    if rules == "grid":
        for x in edges:
            setter.rules.append(Rule(x, top, x, lines[-1], "line", thickness))


def leader(setter: Setter, left: float, right: float, baseline: float, pixels: float, look: str) -> None:
    """Dots or a rule between two words, for the eye to follow; too short ones are left out, as they would be a word."""
    if right - left < 3.2 * pixels or look == "none":
        return
    if look == "line":
        setter.rules.append(Rule(left, baseline + 1, right, baseline + 1, "line", setter.between(0.8, 1.6)))
        return
    gap = pixels * setter.between(0.28, 0.75)
    thickness = pixels * setter.between(0.08, 0.13)
    y = baseline - thickness / 2
    setter.rules.append(Rule(left, y, right, y, "dots", thickness, gap))


def contents(setter: Setter, frame: Frame) -> bool:
    """Titles at the left, page numbers at the right edge, leaders between them."""
    manner, family = setter.manner, setter.family
    look = setter.one_of("dots", "dots", "dots", "none", "line")
    numbered, steps, page = setter.chance(0.6), setter.between(0, 2) * manner.pixels, setter.count(1, 9)
    counts = [0, 0, 0]
    done = 0
    for _ in range(setter.count(3, 45)):
        if not setter.fits(frame, manner.pixels):
            break
        depth = min(setter.count(0, 4), 2) if sum(counts) else 0
        counts[depth:] = [counts[depth] + 1, *([0] * (2 - depth))]
        counts[:depth] = [max(count, 1) for count in counts[:depth]]
        face = family.bold if depth == 0 and setter.emphasis else family.body
        baseline, number = setter.baseline(frame, manner.pixels), str(page)
        x = frame.left + depth * steps
        at = frame.right - width_of(number, family.body, manner.pixels)
        title = setter.words(setter.count(1, 9), face)
        if numbered:
            title.insert(0, ".".join(map(str, counts[: depth + 1])) + setter.one_of("", "."))
        words = setter.placed(title, face, x, baseline, manner, at - 1.2 * manner.pixels)
        if words:
            end = words[-1].x + words[-1].width
            space = setter.between(0.3, 0.8) * manner.pixels
            leader(setter, end + space, at - space, baseline, manner.pixels, look)
            setter.row([*words, setter.place(number, family.body, at, baseline, manner)])
            done += 1
        page += setter.count(0, 14)
        frame.y += manner.pitch
    return done > 0


def directory(setter: Setter, frame: Frame) -> bool:
    """A code or a number, then after a wide gap its name, entry below entry, now and then a number between the two; a long
    name goes on below itself."""
    manner, family = (
        replace(setter.manner, pitch=setter.manner.pitch * setter.between(1.0, 1.9)),
        setter.family,
    )
    stop = setter.between(3.0, 11.0) * manner.pixels
    first = setter.between(0, 0.25) * frame.room
    if frame.room - first < stop + 8 * manner.pixels:
        return False
    dotted, steps = setter.chance(0.5), setter.between(0, 2.5) * manner.pixels if setter.chance(0.3) else 0.0
    root = ".".join(str(setter.count(1, 60)) for _ in range(setter.count(1, 4)))
    long, joint = setter.chance(0.25), setter.one_of(".", "-", "–")
    between = (
        setter.between(3.0, 9.0) * manner.pixels if setter.chance(0.4) else 0.0
    )  # of a column of numbers
    if frame.room - first < stop + between + 8 * manner.pixels:
        between = 0.0
    face, done, number = family.body, 0, setter.count(1, 90)
    for _ in range(setter.count(3, 60)):
        if not setter.fits(frame, manner.pixels):
            break
        code = f"{root}{joint}{number}" if dotted else setter.one_of(str(number), f"{number}-{number + 3}")
        number += setter.count(0 if between else 1, 3)
        x = frame.left + first + (steps if setter.chance(0.4) else 0.0)
        words = with_codes(setter, setter.words(setter.count(1, 16 if long else 6)))
        words = [word for word in words if face.covers(word)]
        room = frame.left + first + stop - 0.8 * manner.pixels - x  # a gap stays between code and name
        if not words or not face.covers(code) or width_of(code, face, manner.pixels) > room:
            continue
        before = len(setter.lines)
        inner = Frame(frame.left + first + stop + between, frame.right, frame.y, frame.bottom)
        if setter.run(
            inner, [(word, face) for word in words], replace(manner, indent=0.0, hang=0.0, align="left")
        ):
            baseline = setter.lines[before][0].baseline
            middle = [figure(setter)] if between and setter.chance(0.85) else []
            middle = [text for text in middle if face.covers(text)]
            at, end = frame.left + first + stop, inner.left - 0.8 * manner.pixels
            setter.lines[before] = (
                setter.place(code, face, x, baseline, manner),
                *setter.placed(middle, face, at, baseline, manner, end),
                *setter.lines[before],
            )
            done += 1
        frame.y = inner.y
    return done > 0


def form(setter: Setter, frame: Frame) -> bool:
    """Labels, each with a leader, a rule or a box for an answer that may be filled in; one or two to a line, boxes to tick."""
    manner = replace(setter.manner, pitch=setter.manner.pitch * setter.between(1.1, 1.7))
    look = setter.one_of("dots", "line", "box", "line")
    done = 0
    for _ in range(setter.count(2, 18)):
        if frame.y + manner.pitch > frame.bottom or not setter.fits(frame, manner.pixels):
            break
        baseline = setter.baseline(frame, manner.pixels)
        words: list[PlacedWord] = []
        if setter.chance(0.15):
            words = _boxes_to_tick(setter, frame, baseline, manner)
        else:
            half = frame.room > 26 * manner.pixels and setter.chance(0.35)
            middle = frame.left + frame.room * setter.between(0.4, 0.6)
            words = _field(setter, frame.left, middle if half else frame.right, baseline, manner, look)
            if half and words:
                words += _field(setter, middle + manner.pixels, frame.right, baseline, manner, look)
        setter.row(words)
        done += bool(words)
        frame.y += manner.pitch
    return done > 0


def _field(
    setter: Setter, left: float, right: float, baseline: float, manner: Manner, look: str
) -> list[PlacedWord]:
    """A label from `left`, then the place for the answer up to `right`."""
    face = setter.family.bold if setter.emphasis else setter.family.body
    label = setter.words(setter.count(1, 3), face)
    if label and setter.chance(0.7):
        label[-1] = label[-1].rstrip(",.;:") + ":"
    label = [word for word in label if face.covers(word)]
    words = setter.placed(label, face, left, baseline, manner, left + 0.7 * (right - left))
    if not words:
        return []
    start, body = words[-1].x + words[-1].width + setter.between(0.4, 1.2) * manner.pixels, setter.family.body
    if right - start < 3 * manner.pixels:
        return words
    end = start
    if setter.chance(0.55):
        texts = [figure(setter)] if setter.chance(0.4) else setter.words(setter.count(1, 4))
        inner = start + setter.between(0.2, 0.8) * manner.pixels
        answer = setter.placed([t for t in texts if body.covers(t)], body, inner, baseline, manner, right - 3)
        words += answer
        end = answer[-1].x + answer[-1].width + 0.4 * manner.pixels if answer else start
    if look == "dots":
        leader(setter, end, right, baseline, manner.pixels, "dots")
    elif look == "line":
        y = baseline + 0.16 * manner.pixels
        setter.rules.append(Rule(start, y, right, y, "line", setter.between(0.8, 1.6)))
    else:
        top, bottom = baseline - manner.pixels, baseline + 0.32 * manner.pixels
        setter.rules.append(Rule(start, top, right, bottom, "box", setter.between(0.8, 1.6)))
    return words


def _boxes_to_tick(setter: Setter, frame: Frame, baseline: float, manner: Manner) -> list[PlacedWord]:
    words: list[PlacedWord] = []
    x, side = frame.left, 0.75 * manner.pixels
    for text in setter.words(setter.count(2, 5)):
        word = setter.place(text, setter.family.body, x + side + 0.5 * manner.pixels, baseline, manner)
        if word.x + word.width > frame.right:
            break
        setter.rules.append(Rule(x, baseline - side, x + side, baseline, "box", 1.2))
        words.append(word)
        x = word.x + word.width + setter.between(1, 3) * manner.pixels
    return words
