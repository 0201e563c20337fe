"""Curves over time as inline SVG: one quantity a chart, no script, no outside resource."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.report_html import Html, element

WIDTH, HEIGHT = 720, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 12, 26
TIME_TICKS = 5
VALUE_TICKS = 3
NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over time: `values[i]` holds from `start + i * step_seconds` on; None where nothing ran."""

    title: str
    unit: str
    start: float
    step_seconds: float
    values: Sequence[float | None]
    is_share: bool = False


def chart(curve: Curve) -> Html:
    """The curve with axes, and its value at each step as a tooltip."""
    top_value = (
        1.0 if curve.is_share else _round_up(max((value or 0.0 for value in curve.values), default=0.0))
    )
    count = max(1, len(curve.values))
    step = (WIDTH - LEFT - RIGHT) / count
    floor = HEIGHT - BOTTOM
    scale = (floor - TOP) / top_value

    def height(value: float) -> float:
        return floor - min(value, top_value) * scale

    outline = _outline([None if value is None else height(value) for value in curve.values], step)
    marks = [
        element(
            "g",
            element("rect", x=_short(LEFT + place * step), y=TOP, width=_short(step), height=floor - TOP, class_="touch"),
            element("title", f"{_moment(curve, place)}: {_value_words(curve, value)}"),
        )
        for place, value in enumerate(curve.values)
    ]  # fmt: skip
    drawing = element(
        "svg",
        element("title", f"{curve.title} over time"),
        *_value_axis(curve, top_value, floor, scale),
        *_time_axis(curve, count, step, floor),
        *(element("path", d=area, class_="area") for area in _areas(outline, floor)),
        *(element("path", d=_path(stretch), class_="curve") for stretch in outline),
        *marks,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )
    return element("figure", element("figcaption", f"{curve.title} ({curve.unit})"), drawing)


def _outline(heights: Sequence[float | None], step: float) -> list[list[tuple[float, float]]]:
    """Stretches of steps without a gap, each a list of corners."""
    stretches: list[list[tuple[float, float]]] = []
    open_stretch = False
    for place, value in enumerate(heights):
        if value is None:
            open_stretch = False
            continue
        if not open_stretch:
            stretches.append([])
        open_stretch = True
        stretches[-1] += [(LEFT + place * step, value), (LEFT + (place + 1) * step, value)]
    return stretches


def _path(corners: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in corners)


def _areas(outline: Sequence[Sequence[tuple[float, float]]], floor: float) -> list[str]:
    return [_path([(corners[0][0], floor), *corners, (corners[-1][0], floor)]) + "Z" for corners in outline]


def _value_axis(curve: Curve, top_value: float, floor: float, scale: float) -> list[Html]:
    parts = []
    for tick in range(VALUE_TICKS):
        value = top_value * tick / (VALUE_TICKS - 1)
        y = floor - value * scale
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=_short(y), y2=_short(y), class_="grid"))
        words = f"{value:.0%}" if curve.is_share else _compact(value)
        parts.append(element("text", words, x=LEFT - 8, y=_short(y + 4), class_="value"))
    return parts


def _time_axis(curve: Curve, count: int, step: float, floor: float) -> list[Html]:
    parts = []
    ticks = min(TIME_TICKS, count + 1)
    for tick in range(ticks):
        place = round(tick * count / (ticks - 1))
        anchor = "start" if tick == 0 else "end" if tick == ticks - 1 else "middle"
        words = _moment(curve, place)
        parts.append(element("text", words, x=_short(LEFT + place * step), y=floor + 18, text_anchor=anchor))
    return parts


def _moment(curve: Curve, place: int) -> str:
    """Time of day, with the date where the chart spans more than a day."""
    moment = datetime.fromtimestamp(curve.start + place * curve.step_seconds, UTC)
    long = curve.step_seconds * len(curve.values) > 86_400
    return moment.strftime("%m-%d %H:%M" if long else "%H:%M:%S")


def _value_words(curve: Curve, value: float | None) -> str:
    if value is None:
        return "nothing was running"
    return f"{value:.1%}" if curve.is_share else f"{_compact(value)} {curve.unit}"


def _round_up(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten; 1 for nothing."""
    if not (math.isfinite(value) and value > NOTHING):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    rounded = (factor * power for factor in (1.0, 2.0, 5.0) if factor * power >= value * 0.999999)
    return next(rounded, 10.0 * power)


def _compact(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if sign == 'k' else size):.3g} {sign}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
