"""Font packages of npm become files that the page generator can measure and draw."""

import io
import tarfile
from pathlib import Path

import pytest
from PIL import ImageFont

from fastocr_core.models.mini.train.fonts import is_bold
from fastocr_core.models.mini.train.webfonts import unpack

pytest.importorskip("fontTools")


def a_font() -> bytes:
    """A square for every letter, as WOFF."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(point)
    pen.closePath()
    glyph = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "a"])
    builder.setupCharacterMap({ord("a"): "a"})
    builder.setupGlyf({".notdef": glyph, "a": glyph})
    builder.setupHorizontalMetrics({".notdef": (600, 0), "a": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Square", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.font.flavor = "woff"
    stream = io.BytesIO()
    builder.save(stream)
    return stream.getvalue()


def packed(folder: Path, name: str, members: list[str]) -> Path:
    data = a_font()
    with tarfile.open(folder / name, "w:gz") as archive:
        for member in members:
            entry = tarfile.TarInfo(f"package/{member}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return folder / name


def test_the_cuts_are_unpacked_under_names_that_say_what_they_are(tmp_path: Path) -> None:
    members = [
        "package.json", "files/old-square-latin-400-normal.woff", "files/old-square-latin-400-normal.woff2",
        "files/old-square-latin-ext-400-normal.woff", "files/old-square-latin-700-italic.woff",
        "files/old-square-latin-300-normal.woff", "files/old-square-latin-900-normal.woff",
    ]  # fmt: skip
    archive = packed(tmp_path, "fontsource-old-square-5.3.0.tgz", members)
    written = unpack(archive, tmp_path / "fonts")
    assert [path.relative_to(tmp_path / "fonts").as_posix() for path in written] == [
        "old-square/old-square-Regular.ttf",
        "old-square/old-square-BoldItalic.ttf",
        "old-square/old-square-Heavy.ttf",
    ]
    for path in written:
        assert path.read_bytes()[:4] == b"\x00\x01\x00\x00", "no longer WOFF"
        assert ImageFont.truetype(str(path), 100).getlength("aa") == 120


def test_other_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not named as npm pack"):
        unpack(packed(tmp_path, "square-1.0.tgz", []), tmp_path)


def test_bold_cuts_are_known_as_such() -> None:
    from fastocr_core.models.mini.train.fonts import Face

    faces = [
        Face(f"x/x-{cut}.ttf", {}, 0.5, 1.0, 0.2)
        for cut in ("Regular", "Italic", "Bold", "BoldItalic", "Heavy")
    ]
    assert [is_bold(face) for face in faces] == [False, False, True, True, True]
