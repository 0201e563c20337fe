"""A font for made pages that every machine has: the one inside Pillow."""

import pytest
from PIL import ImageFont

from fastocr_core.models.mini.train.fonts import Face


@pytest.fixture(scope="session")
def face(tmp_path_factory: pytest.TempPathFactory) -> Face:
    """Pillow's own font as a face of the page generator; plain ASCII."""
    path = tmp_path_factory.mktemp("font") / "plain.ttf"
    path.write_bytes(ImageFont.load_default(20).font_bytes)
    font = ImageFont.truetype(str(path), 200, layout_engine=ImageFont.Layout.BASIC)
    advances = {chr(code): font.getlength(chr(code)) / 200 for code in range(32, 127)}
    ascent, descent = font.getmetrics()
    x_height = -font.getbbox("x", anchor="ls")[1] / 200
    return Face(str(path), advances, x_height, ascent / 200, descent / 200)
