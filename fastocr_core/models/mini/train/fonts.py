"""Fonts of the page generator: which installed families are trained on, which are kept for testing, and their metrics.

Fonts come from Debian and npm packages (see the model card); only their shapes on rendered pages enter the weights.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import ImageFont

from fastocr_core.models.mini.alphabet import CHARACTERS

FONT_ROOTS = ("/usr/share/fonts", "/usr/share/texmf/fonts/opentype", "/usr/local/share/fonts")
TRAINED = (
    "dejavu/", "liberation2/", "tex-gyre/", "/lm/lmroman", "/lm/lmsans", "/lm/lmmono", "cmu/cmun", "urw-base35/",
    "linux-libertine/", "freefont/", "adf/", "stix/STIXGeneral", "stix-word/", "lato/Lato-", "roboto/", "croscore/",
    "clear-sans/", "averia-gwf/", "arapey/", "tuffy/", "ebgaramond/", "cantarell/", "hack/", "fanwood/", "essays1743/",
    "charis/", "andika/", "artemisia/", "cardo/", "lindenhill/", "inconsolata/", "gnutypewriter/", "century-catalogue/",
    "baskerville/", "sortsmill/", "prociono/", "courier-prime/", "junicode/", "noto/NotoSans-", "noto/NotoSerif-",
    "karla/", "play/", "didot/", "fontsource/",
)  # fmt: skip
# What books of the nineteenth century are set in, or near it: drawn more often, since archives are full of it.
OLD_PRINT = (
    "/lm/lmroman",
    "cmu/cmunrm",
    "cmu/cmunb",
    "didot/",
    "century-catalogue/",
    "baskerville/",
    "essays1743/",
    "fanwood/",
    "fontsource/im-fell",
    "fontsource/besley",
    "fontsource/bodoni-moda",
    "fontsource/libre-caslon-text",
)
# Heavy slab capitals (Clarendon, Egyptian) that such books set heads in over a text of another face.
HEAD_FACES = (
    "fontsource/besley", "fontsource/rokkitt", "fontsource/hepta-slab", "fontsource/stint-ultra",
    "fontsource/coustard", "fontsource/kreon", "fontsource/aleo", "fontsource/bitter",
    "fontsource/solway", "fontsource/domine", "fontsource/corben",
    "fontsource/podkova", "fontsource/copse", "century-catalogue/", "tex-gyre/texgyreschola-bold", "urw-base35/C059-Bold",
)  # fmt: skip
OLD_PRINT_WEIGHT = 2.5
HELD_OUT = (
    "gentium-basic/",
    "crosextra/",
    "vollkorn/",
    "open-sans/",
    "fonts-oldstandard/",
    "cabin/",
    "fonts-go/",
)
_UNWANTED = (
    "Symbol", "Dingbats", "D050000L", "Math", "Outline", "Initials", "Thin", "Hairline", "ornament", "Ornament", "Mono12",
    "Condensed-ExtraLight", "Black", "lmromandunh", "lmmonoproplt", "ExtraLight", "oldania", "Keyboard", "mekanus",
    "Smallcaps", "SmallCaps", "smallcaps", "-SC", "Caps", "Chorus", "chorus", "Z003", "lmromanslant", "lmromanunsl",
    "lmsansquot", "cmunti", "cmunui", "cmunci", "cmunvi", "cmunvt", "cmunss", "cmunbbx", "Display", "DisplayB", "Irianis",
    "Ornements", "Titling", "SemiCondensed", "lmmonocaps", "lmromancaps", "BX",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Face:
    """One font file with the measures the layout needs, all as shares of the em.

    squeeze: width of its letters as a share of the drawn ones, advances included; weight: ink added all around, em.
    """

    path: str
    advances: dict[str, float]
    x_height: float
    ascent: float
    descent: float
    squeeze: float = 1.0
    weight: float = 0.0

    def covers(self, text: str) -> bool:
        return all(character in self.advances for character in text if not character.isspace())

    def sized(self, pixels: float) -> ImageFont.FreeTypeFont:
        return font_at(self.path, round(pixels * 4) / 4)


@dataclass(frozen=True, slots=True)
class Cast:
    """What a printer's type makes of a drawn face: narrower or wider, and fatter from the ink around it.

    squeeze and weight are those of `Face`; bold cuts, fat already, get a third of the weight.
    """

    squeeze: float = 1.0
    weight: float = 0.0

    def of(self, face: Face) -> Face:
        if self == PLAIN:
            return face
        advances = {character: advance * self.squeeze for character, advance in face.advances.items()}
        weight = self.weight / 3 if is_bold(face) else self.weight
        return replace(face, advances=advances, squeeze=self.squeeze, weight=weight)


PLAIN = Cast()
_BOLD = re.compile(r"bold|bd|demi|_rb|heavy|cmunb", re.IGNORECASE)


def is_bold(face: Face) -> bool:
    """By the name of its file."""
    return bool(_BOLD.search(pathlib.Path(face.path).stem))


def any_cast(generator: np.random.Generator) -> Cast:
    """Mostly narrower and fatter, as books of the nineteenth century are; in steps, so that drawn letters can be kept."""
    squeeze = round(float(generator.uniform(0.78, 1.08)) * 50) / 50
    weight = round(float(max(0.0, generator.uniform(-0.008, 0.04))) * 400) / 400
    return Cast(squeeze, weight)


@functools.lru_cache(maxsize=512)
def font_at(path: str, pixels: float) -> ImageFont.FreeTypeFont:
    """The font of a file at a size in pixels, kept."""
    return ImageFont.truetype(path, pixels, layout_engine=ImageFont.Layout.BASIC)


def _measure(path: pathlib.Path) -> Face | None:
    from fontTools.ttLib import TTFont  # the dev extra has it

    try:
        with TTFont(path, lazy=True, fontNumber=0) as table:
            coverage = set(table.getBestCmap() or {})
    except Exception:  # a font that fontTools cannot parse is simply not used for training
        return None
    if not all(ord(character) in coverage for character in CHARACTERS[:94]):
        return None
    font = ImageFont.truetype(str(path), 200, layout_engine=ImageFont.Layout.BASIC)
    advances = {c: font.getlength(c) / 200 for c in CHARACTERS + " " if ord(c) in coverage}
    x_height = -font.getbbox("x", anchor="ls")[1] / 200
    ascent, descent = font.getmetrics()
    if not 0.3 < x_height < 0.7 or advances.get(" ", 0) < 0.1:
        return None
    return Face(str(path), advances, x_height, ascent / 200, descent / 200)


def find_faces(families: tuple[str, ...]) -> list[Face]:
    """Measure every usable installed face of `families`, sorted by path so that a seed means the same everywhere."""
    paths: set[pathlib.Path] = set()
    for root in FONT_ROOTS:
        for suffix in ("ttf", "otf"):
            paths.update(pathlib.Path(root).rglob(f"*.{suffix}"))
    chosen = [
        path
        for path in sorted(paths)
        if any(family in str(path) for family in families)
        and not any(word in path.name for word in _UNWANTED)
    ]
    return [face for face in map(_measure, chosen) if face is not None]


def face_weights(faces: list[Face]) -> np.ndarray:
    """Sampling weights: each folder (family) counts the same up to a square root, plain cuts more than bold or italic, old
    print more than new."""
    folders = [str(pathlib.Path(face.path).parent) for face in faces]
    weights = np.array([folders.count(folder) ** -0.5 for folder in folders])
    other = [any(cut in face.path for cut in ("Bold", "Heavy", "Ital", "Obl")) for face in faces]
    weights *= np.where(np.array(other, bool), 0.6, 1.0)
    weights *= np.where(_is_old(faces), OLD_PRINT_WEIGHT, 1.0)
    shares: np.ndarray = weights / weights.sum()
    return shares


def old_print_weights(faces: list[Face], weights: np.ndarray) -> np.ndarray:
    """The same weights among the faces near old print alone; all of them where there is none."""
    old = weights * _is_old(faces)
    shares: np.ndarray = old / old.sum() if old.sum() > 0 else weights
    return shares


def head_faces(faces: Sequence[Face]) -> list[Face]:
    """Upright ones among `faces` that heads of old books are set in."""
    return [
        face
        for face in faces
        if any(family in face.path for family in HEAD_FACES) and "ital" not in face.path.lower()
    ]


def _is_old(faces: list[Face]) -> np.ndarray:
    return np.array([any(family in face.path for family in OLD_PRINT) for face in faces], bool)
