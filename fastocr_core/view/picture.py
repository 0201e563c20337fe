"""Steps of recorded readings as pictures: a still (PNG) of one step, an animation (GIF) of many. Pillow only, no browser.

A picture has a panel for each reading of the page, then the text of the last one as far as it is written. It is set in Pillow's
own font, which knows no accented letters and draws a frame for them; the HTML page shows them all.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.view.page import page_picture, reading_name
from fastocr_core.view.placed_words import PlacedWord, placed_words

INK, SOFT, LINE, GROUND = "#1c2430", "#657083", "#d8dde6", "#f5f6f8"
GAZE, SEEN, BOX = (214, 76, 24), (36, 110, 185), (20, 120, 60)
SEEN_OPACITY, GAZE_OPACITY = 0.24, 0.75
FRESH = "#f4d2c1"  # ground of what the step wrote
SHARES = (0.2, 0.4, 0.6, 0.8)  # of ink at the edges of letters
EDGE, HEADER, FOOTER = 16, 46, 34  # pixels around and between the panels, above and below them
LEGEND = (
    (SEEN, 0.35, "image tokens read in this step"),
    (GAZE, 0.75, "where attention lies"),
    (BOX, 0.0, "words written so far"),
)


@dataclass(frozen=True, slots=True)
class PictureSize:
    """Pixels across: of the picture, and of the text panel at its right; `top` and `bottom` are the shares of the page shown.

    How high the picture is follows from them.
    """

    width: int = 1200
    text_width: int = 330
    top: float = 0.0
    bottom: float = 1.0


@dataclass(frozen=True, slots=True)
class _Panel:
    trace: FixationTrace
    words: tuple[PlacedWord, ...]
    page: Image.Image  # the part of the page that is shown, at its size in the picture
    view_size: tuple[int, int]  # of the whole page
    scale: float  # picture pixels per view pixel
    offset: float  # view pixels above the part that is shown


def still(traces: Sequence[FixationTrace], step: int, size: PictureSize | None = None) -> bytes:
    """PNG of one decode step (from 0; -1 is the page before the first). ValueError for no trace, traces of different pages,
    or a step nobody took."""
    size = size or PictureSize()
    if not -1 <= step < max((len(trace.gazes) for trace in traces), default=-1):
        raise ValueError(f"there is no step {step} to draw")
    frame = _frame(_panels(traces, size), step, size)
    buffer = io.BytesIO()
    frame.quantize(palette=_palette(), dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def animation(
    traces: Sequence[FixationTrace],
    steps: Sequence[int],
    size: PictureSize | None = None,
    frame_milliseconds: int = 110,
) -> bytes:
    """GIF of these steps, shown in a loop; the last one stays for two seconds. ValueError as for `still`."""
    size = size or PictureSize()
    most = max((len(trace.gazes) for trace in traces), default=-1)
    steps = [step for step in steps if -1 <= step < most]
    if not steps:
        raise ValueError("there is no step to draw")
    panels = _panels(traces, size)
    palette = _palette()
    flat = [_frame(panels, step, size).quantize(palette=palette, dither=Image.Dither.NONE) for step in steps]
    buffer = io.BytesIO()
    times = [frame_milliseconds] * (len(flat) - 1) + [2000]
    flat[0].save(buffer, "GIF", save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)
    return buffer.getvalue()


def _panels(traces: Sequence[FixationTrace], size: PictureSize) -> list[_Panel]:
    if not traces:
        raise ValueError("no trace to draw")
    if any(trace.grid != traces[0].grid for trace in traces):
        raise ValueError("the traces are of different pages")
    page = page_picture(traces[0].page).convert("L")
    top, bottom = round(size.top * page.height), round(size.bottom * page.height)
    part = page.crop((0, top, page.width, max(bottom, top + 1)))
    room = (size.width - size.text_width - EDGE * (len(traces) + 2)) // len(traces)
    scale = max(room, 1) / part.width
    shown = part.resize(
        (max(1, round(part.width * scale)), max(1, round(part.height * scale))), Image.Resampling.LANCZOS
    )
    return [_Panel(trace, tuple(placed_words(trace)), shown, page.size, scale, top) for trace in traces]


def _frame(panels: Sequence[_Panel], step: int, size: PictureSize) -> Image.Image:
    height = HEADER + max(panel.page.height for panel in panels) + FOOTER
    frame = Image.new("RGB", (size.width, height), GROUND)
    canvas = ImageDraw.Draw(frame)
    left = EDGE
    for panel in panels:
        at = min(step, len(panel.trace.gazes) - 1)
        canvas.text((left, 8), reading_name(panel.trace.page_text), fill=INK, font=_font(17))
        canvas.text((left, 28), _read_words(panel.trace, at), fill=SOFT, font=_font(12.5))
        frame.paste(_looked_at(panel, at), (left, HEADER))
        canvas.rectangle(
            (left - 1, HEADER - 1, left + panel.page.width, HEADER + panel.page.height), outline=LINE
        )
        left += panel.page.width + EDGE
    _write(canvas, panels[-1], step, (left, HEADER, size.width - EDGE, height - FOOTER))
    _legend(canvas, height - FOOTER + 9)
    return frame


def _palette() -> Image.Image:
    """The colours of every picture: greys of the page, the same under each colour of the legend, and the rest."""
    greys = [round(grey) for grey in np.linspace(16, 255, 24)]
    colours = [(grey, grey, grey) for grey in greys]
    for alone in (True, False):  # attention may fall on cells that the sparse layers do not read
        for opacity in (0.12, 0.25, 0.4, 0.55, GAZE_OPACITY):
            for grey in greys[::4] + greys[-1:]:
                ground = (grey,) * 3 if alone else _mixed((grey,) * 3, SEEN, SEEN_OPACITY)
                colours.append(_mixed(ground, GAZE, opacity))
    colours += [_mixed((grey,) * 3, SEEN, SEEN_OPACITY) for grey in greys]
    colours += [
        _mixed((255,) * 3, colour, opacity) for colour, opacity in ((SEEN, 0.35), (GAZE, 0.75), (BOX, 1.0))
    ]
    colours += [ImageColor.getrgb(name)[:3] for name in (INK, SOFT, LINE, GROUND, FRESH)]
    colours += [
        _mixed(ImageColor.getrgb(GROUND), ImageColor.getrgb(name), share)
        for name in (INK, SOFT)
        for share in SHARES
    ]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in colours[:256] for part in colour])
    return palette


def _mixed(ground: tuple[int, ...], colour: tuple[int, ...], opacity: float) -> tuple[int, int, int]:
    red, green, blue = (
        round((1 - opacity) * below + opacity * above) for below, above in zip(ground, colour, strict=False)
    )
    return red, green, blue


def _font(pixels: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(pixels)


def _read_words(trace: FixationTrace, step: int) -> str:
    """How many image tokens the sparse layers read in a step."""
    tokens, steps = trace.page_text.image_tokens, len(trace.gazes)
    if step < 0:
        return f"before the first of {steps:,} steps" if steps else "nothing was read"
    return f"step {step + 1:,} of {steps:,} reads {_gaze_at(trace, step).read:,} of {tokens:,} image tokens"


def _gaze_at(trace: FixationTrace, step: int) -> Gaze:
    """The gaze of a step; the first token comes from the prompt, which holds all of the page."""
    return trace.gazes[step] or Gaze((), None, trace.page_text.image_tokens)


def _looked_at(panel: _Panel, step: int) -> Image.Image:
    """The page with what the step looked at, and boxes around the words written so far."""
    picture = np.repeat(np.asarray(panel.page, np.float32)[:, :, None], 3, axis=2)
    if step >= 0:
        gaze = _gaze_at(panel.trace, step)
        seen = _opacity(panel, gaze, attention=False)[:, :, None]
        picture = picture * (1 - seen) + seen * np.array(SEEN, np.float32)
        looked = _opacity(panel, gaze, attention=True)[:, :, None]
        picture = picture * (1 - looked) + looked * np.array(GAZE, np.float32)
    image = Image.fromarray(picture.round().astype(np.uint8))
    canvas = ImageDraw.Draw(image)
    end = panel.trace.written[step] if step >= 0 else 0
    for word in panel.words:
        if word.end <= end:
            x0, y0, x1, y1 = word.box
            box = (x0 - 1.5, y0 - panel.offset - 2, x1 + 0.5, y1 - panel.offset + 1)
            canvas.rectangle([side * panel.scale for side in box], outline=BOX)
    return image


def _opacity(panel: _Panel, gaze: Gaze, attention: bool) -> NDArray[np.float32]:
    """How strongly each pixel of the panel is coloured, 0 to 1, by attention or by what may be read."""
    grid = panel.trace.grid
    cells = np.zeros(grid.rows * grid.columns, np.float32)
    if attention:
        most = max((share for _, share in gaze.strongest), default=1.0)
        for cell, share in gaze.strongest:
            cells[cell] = GAZE_OPACITY * share / most
    elif gaze.seen is None:
        cells[:] = SEEN_OPACITY
    else:
        cells[list(gaze.seen)] = SEEN_OPACITY
    view_width, view_height = panel.view_size
    width, height = panel.page.size
    rows = ((np.arange(height) + 0.5) / panel.scale + panel.offset) * grid.rows / view_height
    columns = (np.arange(width) + 0.5) / panel.scale * grid.columns / view_width
    across = np.minimum(columns.astype(int), grid.columns - 1)
    down = np.minimum(rows.astype(int), grid.rows - 1)
    shades: NDArray[np.float32] = cells.reshape(grid.rows, grid.columns)[down][:, across]
    return shades


def _write(canvas: ImageDraw.ImageDraw, panel: _Panel, step: int, area: tuple[int, int, int, int]) -> None:
    """The text so far in `area`, its last lines where it is long, what the step wrote on a coloured ground."""
    left, top, right, bottom = area
    width = right - left
    canvas.text((left, 8), "text so far", fill=INK, font=_font(17))
    at = min(step, len(panel.trace.gazes) - 1)
    end = panel.trace.written[at] if at >= 0 else 0
    before = panel.trace.written[at - 1] if at > 0 else 0
    text = panel.trace.page_text.text
    font = _font(12.5)
    pitch = 17
    rows = _rows(canvas, text[:end], width, font)
    room = max(1, (bottom - top) // pitch)
    for index, (start, row) in enumerate(rows[-room:]):
        y = top + index * pitch
        if start + len(row) > before:
            fresh = max(before - start, 0)
            x = left + canvas.textlength(row[:fresh], font=font)
            canvas.rectangle((x, y, left + canvas.textlength(row, font=font), y + pitch - 2), fill=FRESH)
        canvas.text((left, y), row, fill=INK, font=font)
    canvas.line((left - EDGE // 2, top, left - EDGE // 2, bottom), fill=LINE)


def _rows(
    canvas: ImageDraw.ImageDraw, text: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont
) -> list[tuple[int, str]]:
    """Lines of a text, broken where they are wider than `width`, and at which character each begins."""
    rows, start = [], 0
    for line in text.split("\n"):
        row = ""
        for word in line.split(" "):
            longer = f"{row} {word}" if row else word
            if row and canvas.textlength(longer, font=font) > width:
                rows.append((start, row))
                start += len(row) + 1
                longer = word
            row = longer
        rows.append((start, row))
        start += len(row) + 1
    return rows


def _legend(canvas: ImageDraw.ImageDraw, y: int) -> None:
    x = EDGE
    for colour, opacity, words in LEGEND:
        fill = tuple(round(255 - opacity * (255 - part)) for part in colour)
        canvas.rectangle((x, y + 1, x + 13, y + 14), fill=fill, outline=colour)
        canvas.text((x + 20, y), words, fill=SOFT, font=_font(13))
        x += 20 + round(canvas.textlength(words, font=_font(13))) + 26
