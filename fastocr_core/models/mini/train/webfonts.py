"""`python -m fastocr_core.models.mini.train.webfonts ARCHIVE.tgz...`: font packages of npm as files the page generator finds.

The archives are those that `npm pack @fontsource/NAME` writes (see the model card). Of each family the upright and slanted
regular and bold cuts and the black one are unpacked, Latin letters alone.
"""

from __future__ import annotations

import argparse
import io
import re
import tarfile
from pathlib import Path

_FOLDER = Path("/usr/local/share/fonts/fontsource")
_ARCHIVE = re.compile(r"fontsource-(?P<family>[a-z0-9-]+)-\d+\.\d+\.\d+\.tgz")
_CUT = re.compile(r"/files/.+-latin-(?P<weight>\d+)-(?P<slope>normal|italic)\.woff")
_NAMES = {
    ("400", "normal"): "Regular",
    ("400", "italic"): "Italic",
    ("700", "normal"): "Bold",
    ("700", "italic"): "BoldItalic",
    ("900", "normal"): "Heavy",
}


def unpack(archive: Path, folder: Path) -> list[Path]:
    """The cuts of one archive as folder/FAMILY/FAMILY-CUT.ttf or .otf. ValueError where the file is not named like one."""
    from fontTools.ttLib import TTFont  # the dev extra has it

    named = _ARCHIVE.fullmatch(archive.name)
    if named is None:
        raise ValueError(f"{archive.name} is not named as npm pack names a package of @fontsource")
    written = []
    with tarfile.open(archive) as members:
        for member in members:
            cut = _CUT.search(member.name)
            name = (
                _NAMES.get((cut["weight"], cut["slope"])) if cut and cut.end() == len(member.name) else None
            )
            stream = members.extractfile(member) if name else None
            if stream is None:
                continue
            font = TTFont(io.BytesIO(stream.read()))
            font.flavor = None
            suffix = "otf" if "CFF " in font else "ttf"
            path = folder / named["family"] / f"{named['family']}-{name}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            font.save(path)
            written.append(path)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fastocr_core.models.mini.train.webfonts", description=__doc__
    )
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path, default=_FOLDER)
    arguments = parser.parse_args()
    for archive in arguments.archives:
        for path in unpack(archive, arguments.folder):
            print(path)


if __name__ == "__main__":
    main()
