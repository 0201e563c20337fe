"""The cuts of one font family that share a page: body, bold, italic, and a typewriter face for listings."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastocr_core.models.mini.train.fonts import PLAIN, Cast, Face, head_faces, is_bold

_CUTS = re.compile(
    r"(regular|bold|italic|oblique|medium|roman|book|light|semibold|demibold|demi|bd|ita|it|rm|bi|rb|ri|r|b|i)$"
)
_SLANTED = re.compile(r"ital|obli|slant|_ri|it\b", re.IGNORECASE)


@functools.lru_cache(maxsize=4096)
def family_name(path: str) -> str:
    """Folder and file name without the words that name a cut; faces of one family share it."""
    file = pathlib.Path(path)
    head, separator, _ = file.stem.partition("-")
    if not separator:
        head = file.stem.partition("_")[0]
    stem = head.lower()
    if not separator and "_" not in file.stem:
        shorter = _CUTS.sub("", _CUTS.sub("", stem))
        stem = shorter if len(shorter) >= 5 else stem
    return f"{file.parent}/{stem}"


@dataclass(frozen=True, slots=True)
class Family:
    """bold and italic are the body itself where the family has no such cut, and so are heads, slab capitals of another
    family, where none is installed."""

    body: Face
    bold: Face
    italic: Face
    typewriter: Face
    heads: Face


def is_monospaced(face: Face) -> bool:
    return abs(face.advances["i"] - face.advances["m"]) < 1e-3


def family_of(
    body: Face, faces: Sequence[Face], generator: np.random.Generator, cast: Cast = PLAIN
) -> Family:
    """The cuts of `body`'s family among `faces`, any monospaced face and any of heads (the body where there is none), all
    as `cast`."""
    name = family_name(body.path)
    cuts = [face for face in faces if family_name(face.path) == name]

    def one_of(candidates: list[Face]) -> Face:
        return candidates[int(generator.integers(len(candidates)))] if candidates else body

    def file(face: Face) -> str:
        return pathlib.Path(face.path).stem

    bold = [face for face in cuts if is_bold(face) and not _SLANTED.search(file(face))]
    slanted = [face for face in cuts if _SLANTED.search(file(face))]
    typewriters = [body] if is_monospaced(body) else [face for face in faces if is_monospaced(face)]
    chosen = (body, one_of(bold), one_of(slanted), one_of(typewriters), one_of(head_faces(faces)))
    return Family(*map(cast.of, chosen))
