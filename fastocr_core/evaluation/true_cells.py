"""Where on the page each written character really stands: from the truth's word boxes to image tokens, for `mini`.

Only words that were written as in the truth are placed. Letters are spread over their word's box by typical widths, so
that a letter at the border of a cell may be put into the neighbour; rates built on this are a little too low.
"""

from collections.abc import Sequence

from fastocr_core.decoding.base import ImageGrid
from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.places import ADVANCES
from fastocr_core.scores.boxes import Box, aligned
from fastocr_core.vision.prepared import ModelVision, PreparedPage
from fastocr_core.vision.scale import TARGET_X_HEIGHT_PIXELS

# Words of these letters end at the line they stand on, in all usual faces.
_ON_THE_LINE = frozenset("abcdehiklmnorstuvwxzABCDEFGHIKLMNOPRSTUVWXYZ0126.:'’éèêëàâáãäôöóõùûúüíîïñ")


def character_cells(
    truth: Sequence[tuple[str, Box]],
    tokens: Sequence[int],
    page: PreparedPage,
    vision: ModelVision,
    grid: ImageGrid,
) -> dict[int, int]:
    """Image token under each character of `tokens` (mini's) whose place is known, by the index of the character's token.

    `truth` are words with boxes in pixels of the given image.
    """
    boxes = [(text, _in_view(box, page)) for text, box in truth]
    middles = _middles(boxes)
    written = alphabet.written_words(tokens)
    cells: dict[int, int] = {}
    for left, right in aligned([text for text, _ in boxes], [word.text for word in written]):
        middle = middles[left]
        if middle is None:
            continue
        word = written[right]
        places = _letter_places(word.text, boxes[left][1])
        span = range(word.first_token, word.end_token)
        letters = [index for index in span if alphabet.FIRST_CHARACTER <= tokens[index] < alphabet.FIRST_ROW]
        for index, x in zip(letters, places, strict=True):
            row, column = int(middle // vision.cell_height), int(x // vision.cell_width)
            if 0 <= row < grid.rows and 0 <= column < grid.columns:
                cells[index] = grid.first + row * grid.row_step + column
    return cells


def _in_view(box: Box, page: PreparedPage) -> Box:
    """From pixels of the given image to those of the view; the view is never turned."""
    a, _, c, _, e, f = page.transform
    return ((box[0] - c) / a, (box[1] - f) / e, (box[2] - c) / a, (box[3] - f) / e)


def _letter_places(word: str, box: Box) -> list[float]:
    """Middle of each letter, from left to right."""
    widths = [float(ADVANCES[alphabet.CHARACTER_ID[letter]]) for letter in word]
    scale = (box[2] - box[0]) / sum(widths)
    places, x = [], box[0]
    for width in widths:
        places.append(x + width * scale / 2)
        x += width * scale
    return places


def _middles(words: Sequence[tuple[str, Box]]) -> list[float | None]:
    """Height of the middle of the small letters of each word, view pixels: its own line, else that of the nearest word
    beside it that stands on its line; None where there is none.
    """
    sure = [(box, box[3]) for text, box in words if set(text) <= _ON_THE_LINE]
    middles: list[float | None] = []
    for text, box in words:
        line: float | None = box[3] if set(text) <= _ON_THE_LINE else None
        if line is None:
            beside = [
                (abs(other[0] - box[0]), base)
                for other, base in sure
                if min(other[3], box[3]) - max(other[1], box[1]) > 0.5 * (other[3] - other[1])
            ]
            line = min(beside)[1] if beside else None
        middles.append(None if line is None else line - TARGET_X_HEIGHT_PIXELS / 2)
    return middles
