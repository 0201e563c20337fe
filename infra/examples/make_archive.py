"""Draws the made pages of the sample archive from the texts in `truth/`, the same bytes every time.

Run it from anywhere: `python infra/examples/make_archive.py`. Needs numpy, Pillow and three free font
families (DejaVu, Liberation, TeX Gyre). `irm-two-pages.pdf` is not made here, see `ORIGINS.md`.
"""

import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

EXAMPLES = Path(__file__).resolve().parent
ARCHIVE = EXAMPLES / "archive"
TRUTH = EXAMPLES / "truth"
FONT_FOLDERS = (Path("/usr/share/fonts"), Path("/usr/share/texmf/fonts"), Path.home() / ".local/share/fonts")
PAGE_INCHES = (5.83, 8.27)  # A5
MARGIN_INCHES = 0.62
LINE_PITCH = 1.5
SEED = 1911


def font(file_name: str, points: float, dpi: int) -> ImageFont.FreeTypeFont:
    """A font by its file name, at a size in points."""
    for folder in FONT_FOLDERS:
        for path in sorted(folder.rglob(file_name)):
            return ImageFont.truetype(str(path), points * dpi / 72)
    raise FileNotFoundError(f"The font {file_name} is not installed.")


def paper(size: tuple[int, int], tone: int, grain: float, random: np.random.Generator) -> Image.Image:
    """A leaf with a slow change of tone and fine grain, grey."""
    width, height = size
    clouds = Image.fromarray(random.normal(128, 40, (9, 7)).clip(0, 255).astype(np.uint8))
    slow = np.asarray(clouds.resize(size, Image.Resampling.BICUBIC), np.float32) - 128
    fine = random.normal(0, grain, (height, width)).astype(np.float32)
    return Image.fromarray((tone + 0.06 * slow + fine).clip(0, 255).astype(np.uint8))


def printed(name: str, face: ImageFont.FreeTypeFont, dpi: int, ground: Image.Image, ink: int) -> Image.Image:
    """The text of `truth/NAME.txt` on a leaf, line for line; a blank line is half a line of space."""
    page = ground.copy()
    draw = ImageDraw.Draw(page)
    left = top = MARGIN_INCHES * dpi
    for line in (TRUTH / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n").split("\n"):
        draw.text((left, top), line, font=face, fill=ink)
        top += face.size * LINE_PITCH * (1.0 if line else 0.5)
    assert top < page.height - 0.3 * dpi, f"{name} does not fit"
    return page


def page_size(dpi: int) -> tuple[int, int]:
    """Pixels of a leaf."""
    return round(PAGE_INCHES[0] * dpi), round(PAGE_INCHES[1] * dpi)


def make_scanned_pdf(random: np.random.Generator) -> None:
    """Three grey pages at 150 dpi, JPEG inside a PDF."""
    face = font("DejaVuSerif.ttf", 9.5, 150)
    pages = [
        printed(f"bridge-report-{i}", face, 150, paper(page_size(150), 238, 2.0, random), 40)
        for i in range(3)
    ]
    pages = [page.filter(ImageFilter.GaussianBlur(0.4)) for page in pages]
    past = time.gmtime(0)
    pages[0].save(
        ARCHIVE / "bridge-report.pdf",
        save_all=True,
        append_images=pages[1:],
        resolution=150,
        quality=75,
        creationDate=past,
        modDate=past,
        title="Report on the stone bridge",
    )


def make_fax_tiff() -> None:
    """Two black-and-white pages at 200 dpi, CCITT Group 4."""
    face = font("LiberationSerif-Regular.ttf", 11, 200)
    white = Image.new("L", page_size(200), 255)
    pages = [
        printed(f"library-minutes-{i}", face, 200, white, 0).point(lambda tone: 255 * (tone > 150), "1")
        for i in range(2)
    ]
    pages[0].save(
        ARCHIVE / "library-minutes.tif",
        save_all=True,
        append_images=pages[1:],
        compression="group4",
        dpi=(200, 200),
    )


def make_single_pages(random: np.random.Generator) -> None:
    """A JPEG 2000, a PNG without resolution, a French JPEG, a German TIFF and a blank leaf."""
    size = page_size(150)
    pagella = font("texgyrepagella-regular.otf", 11, 150)
    leaf = printed("orchard-diary-0", pagella, 150, paper(size, 228, 2.5, random), 50)
    colour = Image.merge("RGB", [leaf, leaf.point(lambda v: v * 0.97), leaf.point(lambda v: v * 0.88)])
    colour.save(
        ARCHIVE / "orchard-diary.jp2", irreversible=True, quality_mode="rates", quality_layers=[24], mct=1
    )
    sans = font("DejaVuSans.ttf", 9.5, 150)
    printed("lighthouse-log-0", sans, 150, Image.new("L", size, 255), 0).save(
        ARCHIVE / "lighthouse-log.png", optimize=True
    )
    serif = font("DejaVuSerif.ttf", 9.5, 150)
    printed("promenade-fr-0", serif, 150, paper(size, 240, 1.5, random), 35).save(
        ARCHIVE / "promenade-fr.jpg", quality=82, dpi=(150, 150)
    )
    schola = font("texgyreschola-regular.otf", 10, 150)
    printed("wanderung-de-0", schola, 150, Image.new("L", size, 255), 0).save(
        ARCHIVE / "wanderung-de.tif", compression="tiff_adobe_deflate", dpi=(150, 150)
    )
    blank = paper(size, 214, 4.0, random)
    draw = ImageDraw.Draw(blank)
    for x, y, tone in zip(
        *random.integers((0,), size[0], (2, 60)), random.integers(90, 190, 60), strict=True
    ):
        draw.point((int(x), int(y) * size[1] // size[0]), int(tone))
    blank.filter(ImageFilter.GaussianBlur(0.6)).save(ARCHIVE / "blank-leaf.jpg", quality=80, dpi=(150, 150))


def make_broken() -> None:
    """The scanned PDF after a bad copy: its head and its end mark are there, everything between is zeros."""
    whole = (ARCHIVE / "bridge-report.pdf").read_bytes()
    (ARCHIVE / "broken-copy.pdf").write_bytes(whole[:64] + bytes(4096) + b"\n%%EOF\n")


def main() -> None:
    """Make everything."""
    random = np.random.default_rng(SEED)
    ARCHIVE.mkdir(exist_ok=True)
    make_scanned_pdf(random)
    make_fax_tiff()
    make_single_pages(random)
    make_broken()


if __name__ == "__main__":
    main()
