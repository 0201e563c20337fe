"""Which pages the decoder learns from, by how far the training has come: easy ones first, all kinds and all wear last."""

from __future__ import annotations

from dataclasses import replace

from fastocr_core.models.mini.train.layout import LayoutStyle
from fastocr_core.models.mini.train.samples import PageRange

# What real documents are made of, and how often each is drawn once whole pages are read. No columns: the view cuts those
# apart (see vision.regions), and what stands side by side in one region is read across, line by line.
_KINDS = (
    ("prose", 4.0), ("mixed", 4.0), ("lists", 1.2), ("letter", 0.8), ("tables", 2.2), ("forms", 0.8), ("contents", 1.2),
    ("directory", 1.2), ("sideheads", 0.9), ("listing", 0.5), ("figures", 0.5), ("verse", 0.4), ("screens", 0.4),
)  # fmt: skip
# a whole sheet costs as many image tokens as several small pages; prose is learned on those
_SHEET_KINDS = (
    ("prose", 1.5), ("mixed", 2.0), ("lists", 1.0), ("letter", 0.7), ("tables", 3.5), ("forms", 1.0), ("contents", 1.5),
    ("directory", 3.0), ("sideheads", 2.0), ("listing", 1.2), ("screens", 0.9),
)  # fmt: skip


def phases(progress: float, chance: float) -> PageRange:
    """The curriculum: crops of random strings with wide lines first, whole pages of all kinds last.

    progress: 0 to 1; chance: uniform in 0..1, chooses among the kinds of pages mixed in the last phase.
    """
    if progress < 0.25:
        style = LayoutStyle(min_pitch_pixels=32.0 * (1 - progress * 4) + 20, heading_share=0.05)
        return PageRange((6, 11), (6, 12), style, random_share=0.9 - 1.6 * progress)
    if progress < 0.5:
        style = LayoutStyle(x_height_pixels=(8.3, 11.2), min_pitch_pixels=34.0, short_share=0.4)
        return PageRange((6, 13), (6, 13), style, random_share=0.5)
    if progress < 0.65:
        style = LayoutStyle(
            x_height_pixels=(7.8, 12.0), pitch=(1.1, 2.0), min_pitch_pixels=24.0, short_share=0.4
        )
        return PageRange((8, 20), (8, 20), style, random_share=0.3)
    return _whole(chance)


def _whole(chance: float) -> PageRange:
    """Whole pages, and among them smaller ones and tight lines, so that nothing learned is lost again."""
    if chance < 0.1:
        style = LayoutStyle(
            (8.4, 13.2), (1.15, 1.9), min_pitch_pixels=19.0, margin_pixels=(10, 110), short_share=0.35
        )
        return PageRange((18, 38), (16, 32), style, random_share=0.12, blank_share=0.06, offset_share=0.25)
    if chance < 0.18:
        style = LayoutStyle((8.4, 13.0), (1.02, 1.4), min_pitch_pixels=18.0, short_share=0.3)
        return PageRange((12, 30), (12, 28), style, random_share=0.15, blank_share=0.03, offset_share=0.25)
    style = LayoutStyle(
        (8.0, 13.5), (1.05, 1.9), min_pitch_pixels=18.0, margin_pixels=(2, 120), short_share=0.35, kinds=_KINDS,
        gutter_pixels=(14, 60), furniture_share=0.35, footnote_share=0.12, emphasis_share=0.35, reverse_share=0.08,
        neighbour_share=0.05, picture_share=0.06, skew_share=0.25, skew_degrees=1.6, cast_share=0.5,
    )  # fmt: skip
    if chance > 0.72:  # a whole sheet at 150 dpi
        style = replace(style, kinds=_SHEET_KINDS, furniture_share=0.6, short_share=0.5)
        return PageRange((40, 62), (30, 46), style, 0.08, 0.02, 0.1, worn_share=0.6, real_share=0.4)
    if chance > 0.64:  # what the view cuts off: heads, feet, titles
        style = replace(style, kinds=(("strip", 1.0),), margin_pixels=(2, 40), furniture_share=0.0)
        if chance < 0.675:  # a block of such a head or foot
            return PageRange((4, 8), (8, 15), style, 0.15, 0.03, 0.6, worn_share=0.6)
        return PageRange((4, 10), (8, 46), style, 0.15, 0.03, 0.4, worn_share=0.6)
    if chance > 0.56:  # a column
        return PageRange((12, 50), (8, 17), style, 0.12, offset_share=0.3, worn_share=0.6, real_share=0.1)
    if chance > 0.44:
        return PageRange((8, 22), (10, 26), style, 0.2, 0.03, 0.4, worn_share=0.6, real_share=0.1)
    return PageRange((18, 38), (18, 34), style, 0.12, offset_share=0.25, worn_share=0.6, real_share=0.25)
