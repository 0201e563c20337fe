"""Pages of two or three columns: of one length or ending where their text ends, below headings and around pictures."""

from __future__ import annotations

from collections.abc import Callable

from fastocr_core.models.mini.train.blocks import Block, bullets, flow, heading, paragraph, picture
from fastocr_core.models.mini.train.placement import Rule
from fastocr_core.models.mini.train.typesetting import Frame, Setter

_LEAST_EMS = 7.5
_LEAST_LINES = 6  # a few lines side by side would look like one line with a gap
_MIX: tuple[tuple[Block, float], ...] = ((paragraph, 8.0), (bullets, 0.7))


def columns(count: int) -> Callable[[Setter, Frame], None]:
    """A filler of `count` columns that are read one after the other, below a heading over all of them now and then."""

    def fill(setter: Setter, frame: Frame) -> None:
        bands = 2 if setter.chance(0.2) and frame.bottom - frame.y > 500 else 1
        if setter.chance(0.1):
            picture(setter, frame)
        for band in range(bands):
            if band:  # without a heading right across, the order of the columns would be open
                setter.rule_across(frame)
            if setter.chance(0.35) or band:
                set_across = heading(setter, frame)
                if band and not set_across:
                    return
                frame.y += setter.between(0.2, 1.0) * setter.manner.pitch
            bottom = frame.bottom
            if band + 1 < bands:
                bottom = frame.y + setter.between(0.3, 0.6) * (frame.bottom - frame.y)
            _side_by_side(setter, Frame(frame.left, frame.right, frame.y, bottom), count)
            frame.y = bottom + setter.between(0.3, 1.0) * setter.manner.pitch

    return fill


def _edges(setter: Setter, frame: Frame, count: int, gutter: float) -> list[tuple[float, float]]:
    """Left and right edges of as many of `count` columns as have room, of one width as a rule."""
    fitting = int((frame.room + gutter) / (_LEAST_EMS * setter.manner.pixels + gutter))
    if frame.bottom - frame.y < _LEAST_LINES * setter.manner.pitch:
        fitting = 1
    number = max(1, min(count, fitting))
    room = frame.room - (number - 1) * gutter
    widths = [room / number] * number
    if number > 1 and setter.chance(0.15):
        moved = setter.between(-0.25, 0.25) * widths[0]
        widened = [widths[0] + moved, *[width - moved / (number - 1) for width in widths[1:]]]
        if min(widened) >= _LEAST_EMS * setter.manner.pixels:
            widths = widened
    lefts = [frame.left + sum(widths[:index]) + index * gutter for index in range(number)]
    return [(left, left + width) for left, width in zip(lefts, widths, strict=True)]


def _side_by_side(setter: Setter, frame: Frame, count: int) -> None:
    gutter = setter.between(*setter.style.gutter_pixels)
    edges = _edges(setter, frame, count, gutter)
    ruled = gutter > 10 and setter.chance(0.2)
    height = frame.bottom - frame.y
    last_ends_early, uneven = setter.chance(0.5), setter.chance(0.25)
    for index, (left, right) in enumerate(edges):
        if ruled and index:
            setter.rules.append(Rule(left - gutter / 2, frame.y, left - gutter / 2, frame.bottom))
        column = Frame(left, right, frame.y, frame.bottom)
        if uneven and setter.chance(0.4) and not picture(setter, column):
            column.y += setter.between(0.0, 0.3) * height
        if (last_ends_early and index + 1 == len(edges)) or (uneven and setter.chance(0.3)):
            column.bottom -= setter.between(0.0, 0.85) * (column.bottom - column.y)
        flow(setter, column, _MIX)
