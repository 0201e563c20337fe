"""Pages that a reader of Latin print should doubt itself on: upside down, in other scripts, and in writing hands.

Made on the spot from held-out pages and from fonts found on this machine; scripts without a font are left out and named.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.evaluation.pages import EvaluationPage

FONT_ROOTS = (
    "/usr/share/fonts", "/usr/share/texmf/fonts/opentype", "/usr/local/share/fonts",
)  # fmt: skip
# Fonts of which the first found is used, and the letters that made-up words are drawn from; scripts that need
# no shaping, so that Pillow alone draws them right.
SCRIPTS: dict[str, tuple[tuple[str, ...], str]] = {
    "Greek": (("DejaVuSerif.ttf", "GFSDidot.otf", "FreeSerif.ttf"), "αβγδεζηθικλμνξοπρστυφχψω"),
    "Cyrillic": (("DejaVuSerif.ttf", "FreeSerif.ttf"), "бвгджзийклмнптфцчшщъыьэюя"),
    "Armenian": (("NotoSansArmenian-Regular.ttf", "DejaVuSans.ttf"), "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվ"),
    "Georgian": (("NotoSansGeorgian-Regular.ttf", "DejaVuSans.ttf"), "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭ"),
    "Hebrew": (("NotoSansHebrew-Regular.ttf", "DejaVuSans.ttf"), "אבגדהוזחטיכלמנסעפצקרשת"),
    "Cherokee": (("NotoSansCherokee-Regular.ttf",), "".join(chr(code) for code in range(0x13A0, 0x13F0))),
    "Runic": (
        ("NotoSansRunic-Regular.ttf", "FreeMono.ttf"),
        "".join(chr(code) for code in range(0x16A0, 0x16EA)),
    ),
}
HANDS = ("Z003-MediumItalic.otf", "texgyrechorus-mediumitalic.otf", "RomandeADFScriptStd-Italic.otf")
SEED = 60_221
LETTER_PIXELS = 19.0
WIDTH, HEIGHT, MARGIN, PITCH = 700, 900, 50, 30


def upside_down(pages: Sequence[EvaluationPage]) -> list[EvaluationPage]:
    """The pages turned by 180 degrees, with their text as truth."""

    def turned(page: EvaluationPage) -> Image.Image:
        return page.load().transpose(Image.Transpose.ROTATE_180)

    return [
        EvaluationPage(
            f"upside down: {page.name}",
            "upside down",
            page.text,
            functools.partial(turned, page),
            page.language,
        )
        for page in pages
    ]


def other_scripts(pages_by_script: int) -> tuple[list[EvaluationPage], list[str]]:
    """Pages of made-up words in other scripts, and the scripts for which no font was found."""
    fonts = _installed()
    pages: list[EvaluationPage] = []
    missing: list[str] = []
    for number, (script, (names, letters)) in enumerate(SCRIPTS.items()):
        found = next((fonts[name] for name in names if name in fonts), None)
        if found is None:
            missing.append(script)
            continue
        for index in range(pages_by_script):
            generator = np.random.default_rng((SEED, number, index))
            lines = made_up_lines(generator, letters)
            draw = functools.partial(drawn, lines, found)
            pages.append(
                EvaluationPage(
                    f"{script} {index + 1}", "other script", "\n".join(lines), draw, layout="prose"
                )
            )
    return pages, missing


def writing_hands(texts: Sequence[tuple[str, str]]) -> tuple[list[EvaluationPage], list[str]]:
    """Each (name, text) in every chancery or script font found, and the fonts not found."""
    fonts = _installed()
    pages = []
    for name in HANDS:
        if name not in fonts:
            continue
        for title, text in texts:
            lines = text.splitlines()
            draw = functools.partial(drawn, lines, fonts[name])
            pages.append(
                EvaluationPage(f"{Path(name).stem}: {title}", "writing hand", "\n".join(lines), draw)
            )
    return pages, [name for name in HANDS if name not in fonts]


def made_up_lines(generator: np.random.Generator, letters: str) -> list[str]:
    """Lines of words of two to ten letters drawn evenly."""
    lines = []
    for _ in range((HEIGHT - 2 * MARGIN) // PITCH):
        words = [
            "".join(letters[index] for index in generator.integers(len(letters), size=length))
            for length in generator.integers(2, 11, size=8)
        ]
        lines.append(" ".join(words))
    return lines


def drawn(lines: Sequence[str], font_file: Path, width: int = WIDTH) -> Image.Image:
    """Black lines on white, as wide and as many as fit; nothing of a line is lost: the page grows with it."""
    font = ImageFont.truetype(str(font_file), LETTER_PIXELS, layout_engine=ImageFont.Layout.BASIC)
    wide = max([width, *(int(font.getlength(line)) + 2 * MARGIN for line in lines)])
    image = Image.new("L", (wide, max(HEIGHT, 2 * MARGIN + PITCH * len(lines))), 250)
    canvas = ImageDraw.Draw(image)
    for index, line in enumerate(lines):
        canvas.text((MARGIN, MARGIN + PITCH * index), line, fill=15, font=font)
    return image


def _installed() -> dict[str, Path]:
    """Font files of this machine by name."""
    files = (file for root in FONT_ROOTS for file in sorted(Path(root).rglob("*.[ot]tf")))
    found: dict[str, Path] = {}
    for file in files:
        found.setdefault(file.name, file)
    return found
