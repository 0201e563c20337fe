"""Letters: head, address block, date, salutation, body, and a signature at the end."""

from __future__ import annotations

from dataclasses import replace

from fastocr_core.models.mini.train.blocks import paragraph, pieces_of
from fastocr_core.models.mini.train.tabular import figure
from fastocr_core.models.mini.train.typesetting import Frame, Setter

_SALUTATIONS = (
    "Dear Sir,", "Dear Madam,", "Sehr geehrte Damen und Herren,", "Madame, Monsieur,", "Estimado señor:", "Egregio Signore,",
    "Caro amigo,", "Geachte heer,", "Dear {},", "Cher {},", "Lieber {},",
)  # fmt: skip
_CLOSINGS = (
    "Yours faithfully,", "Yours sincerely,", "Mit freundlichen Grüßen", "Veuillez agréer, Monsieur, nos salutations.",
    "Atentamente,", "Distinti saluti,", "Com os melhores cumprimentos,", "Hoogachtend,",
)  # fmt: skip
_PLACES = ("London", "Paris", "Berlin", "Madrid", "Roma", "Lisboa", "Utrecht", "Wien", "Genève")
_MONTHS = ("January", "March", "avril", "Juni", "agosto", "settembre", "outubro", "november", "Dezember")


def _short_lines(setter: Setter, frame: Frame, count: int) -> None:
    """Lines of an address block, one to five words each."""
    for _ in range(count):
        words = setter.words(setter.count(1, 4))
        if setter.chance(0.4):
            words.append(figure(setter))
        words = [word for word in words if setter.family.body.covers(word)]
        manner = replace(setter.manner, align="left", indent=0.0, hang=0.0, hyphens=False)
        setter.run(frame, pieces_of(setter, words), manner, most_lines=1)


def _phrase(setter: Setter, frame: Frame, text: str, align: str = "left") -> None:
    body = setter.family.body
    names = [word for word in setter.words(3) if word.isalpha()] or ["N."]
    words = [word for word in text.format(names[0].title()).split() if body.covers(word)]
    manner = replace(setter.manner, align=align, indent=0.0, hang=0.0, hyphens=False)
    setter.run(frame, [(word, body) for word in words], manner)


def _beside(frame: Frame, share: float) -> Frame:
    """The right part of a frame, from the same height on."""
    return Frame(frame.left + share * frame.room, frame.right, frame.y, frame.bottom)


def letter(setter: Setter, frame: Frame) -> None:
    """Fill the frame with one letter; blocks at the right stand at heights of their own, so that the order is plain."""
    pitch = setter.manner.pitch
    right = setter.between(0.5, 0.62) if frame.room > 20 * setter.manner.pixels else 0.0
    if setter.chance(0.5):
        head = _beside(frame, right if setter.chance(0.5) else 0.0)
        _short_lines(setter, head, setter.count(2, 5))
        if setter.chance(0.4):
            setter.rule_across(head)
        frame.y = head.y + setter.between(0.4, 1.5) * pitch
    address = _beside(frame, right if setter.chance(0.6) else 0.0)
    _short_lines(setter, address, setter.count(2, 5))
    frame.y = address.y + setter.between(0.4, 1.5) * pitch
    day, year = setter.count(1, 31), setter.count(1890, 2030)
    date = setter.one_of("{d} {m} {y}", "{p}, {d}. {m} {y}", "{p}, {d} {m} {y}", "{m} {d}, {y}")
    text = date.format(d=day, y=year, m=setter.one_of(*_MONTHS), p=setter.one_of(*_PLACES))
    _phrase(setter, frame, text, setter.one_of("right", "left"))
    frame.y += setter.between(0.4, 1.2) * pitch
    if setter.chance(0.5):
        bold = setter.family.bold
        words = [(word, bold) for word in setter.words(setter.count(2, 8), bold)]
        setter.run(frame, words, replace(setter.manner, align="left", indent=0.0, hang=0.0))
        frame.y += 0.6 * pitch
    _phrase(setter, frame, setter.one_of(*_SALUTATIONS))
    frame.y += setter.between(0, 0.8) * pitch
    gap = setter.between(0, 1) * pitch
    for _ in range(setter.count(1, 5)):
        paragraph(setter, frame)
        frame.y += gap
    ending = _beside(frame, right if setter.chance(0.5) else 0.0)
    _phrase(setter, ending, setter.one_of(*_CLOSINGS))
    ending.y += setter.between(0, 3) * pitch
    _short_lines(setter, ending, setter.count(1, 2))
    frame.y = ending.y
