"""Page layouts in plain ASCII words, for a font that every machine has."""

import numpy as np

from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, compose

PROSE = """
    The harbour was quiet, and no ship (not one!) had passed since 4 o'clock; we wrote down: wind N.W.,
    glass 29.8, rain at noon. Quickly, Mr Jones fixed the big black pump & went home by 6:30? Every day
    the same zealous work.
"""
WORDS = PROSE.split()


class AsciiWords:
    """A WordSource that starts anywhere in WORDS."""

    def words(self, generator: np.random.Generator, count: int) -> list[str]:
        first = int(generator.integers(len(WORDS)))
        return [WORDS[(first + index) % len(WORDS)] for index in range(count)]


def made_layout(
    face: Face, seed: int, width: int = 640, height: int = 512, style: LayoutStyle | None = None
) -> PageLayout:
    """A page of ASCII words."""
    generator = np.random.default_rng(seed)
    return compose(generator, width, height, [face], np.ones(1), AsciiWords(), style or LayoutStyle())
