"""Which words stand where, and when each was written: boxes of the page text in the order of its characters."""

from dataclasses import dataclass

from fastocr_core.output import Block
from fastocr_core.view.gaze import FixationTrace

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class PlacedWord:
    """box: x0, y0, x1, y1 in pixels of the view; `start` and `end` are characters of the page text."""

    box: Box
    start: int
    end: int


def placed_words(trace: FixationTrace) -> list[PlacedWord]:
    """Words with boxes, or whole blocks where the model tells no words apart, in the order of the text.

    A block that cannot be found in the text (its markup was changed) counts as written at the end.
    """
    text = trace.page_text.text
    words: list[PlacedWord] = []
    reached = 0
    for block in trace.page_text.blocks:
        for piece, box in _pieces(block):
            start = text.find(piece, reached)
            if start < 0:
                words.append(PlacedWord(_on_view(trace, box), len(text), len(text)))
                continue
            reached = start + len(piece)
            words.append(PlacedWord(_on_view(trace, box), start, reached))
    return words


def _pieces(block: Block) -> list[tuple[str, Box]]:
    texts = block.text.split()
    if block.word_boxes and len(texts) == len(block.word_boxes):
        return list(zip(texts, block.word_boxes, strict=True))
    return [(block.text, block.box)] if block.box else []


def _on_view(trace: FixationTrace, box: Box) -> Box:
    a, _, c, _, e, f = trace.page.transform
    x0, y0, x1, y1 = ((box[0] - c) / a, (box[1] - f) / e, (box[2] - c) / a, (box[3] - f) / e)
    return round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1)
