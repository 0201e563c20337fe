"""`fastocr view` behind its options: which policies, steps and part of the page are drawn, and into what kind of file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastocr_core import DecodePolicy

STOPPED = "Stopped. Nothing was written; the same command reads the page again from its beginning."
WHOLE_PAGE = "0-100"


def write_view(
    document: Path,
    output: Path,
    page: int,
    model: str,
    policies: "Sequence[DecodePolicy]",
    prompt: str | None,
    steps: str | None,
    part: str | None,
) -> str:
    """Read page `page` (from 1) of a document and write what was looked at; says what was written.

    ValueError or OSError, in one sentence, for a file, page, step or kind of output that is not there, and for an output that
    cannot be written or is the document; what can be known before the page is read is said before.
    """
    from workers.view_page import view_page

    kind = output.suffix.lower()
    given = [name for name, value in (("--steps", steps), ("--part", part)) if value is not None]
    if kind == ".html" and given:
        raise ValueError(
            f"{' and '.join(given)} choose what a .png or .gif shows; an .html shows the whole reading"
        )
    if not document.exists():
        raise ValueError(f"There is no file {document}.")
    if document.is_dir():
        raise ValueError(f"{document} is a folder; name one image or PDF.")
    chosen = None if steps is None else step_span(steps)
    shares = part_span(part or WHOLE_PAGE)
    check_output(document, output)
    drawn = view_page(document, page - 1, model, policies, prompt, kind, chosen, shares)
    try:
        output.write_bytes(drawn)
    except OSError as error:
        raise OSError(f"{output} cannot be written: {error.strerror or error}") from error
    return f"{output}: {len(drawn) / 1e6:.1f} MB, open it in any browser"


def check_output(document: Path, output: Path) -> None:
    """ValueError, in one sentence, where `output` is the document itself or cannot be written. Nothing is touched."""
    folder = output.parent
    if not folder.is_dir():
        raise ValueError(f"{output} cannot be written: there is no folder {folder}")
    if output.is_dir():
        raise ValueError(f"{output} cannot be written: it is a folder")
    if output.exists() and document.exists() and output.samefile(document):
        raise ValueError(f"{output} is the document itself, which would be lost; name another file to write")
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise ValueError(f"{output} cannot be written: permission denied")


def chosen_policies(
    decode: str | None, settings: Mapping[str, Any], beside_dense: bool
) -> "list[DecodePolicy]":
    """The policy asked for, the dense one before it where that is wanted. ValueError for an unknown one, and for options
    that change nothing about the dense one."""
    from fastocr_core import DecodePolicy

    policies = [DecodePolicy.named(decode or "fastocr", **settings)]
    if policies[0].name != "dense":
        return [DecodePolicy.dense(), *policies] if beside_dense else policies
    if beside_dense:
        raise ValueError(
            "--beside-dense puts the dense reading beside another, and --decode dense has no other"
        )
    if "kept_share" in settings:
        raise ValueError("--kept-share changes nothing with --decode dense, which looks at every image token")
    return policies


def part_span(words: str) -> tuple[float, float]:
    """A part of the page in per cent as shares of its height. ValueError in one sentence for anything else."""
    top, bottom = span(words)
    if not 0 <= top < bottom <= 100:
        raise ValueError(
            f"{words!r} is no part of a page: two numbers from 0 to 100 are needed, such as 0-50"
        )
    return top / 100, bottom / 100


def step_span(words: str) -> tuple[int, int]:
    """First and last step, from 1. ValueError in one sentence for anything else."""
    first, last = span(words)
    if not 1 <= first <= last:
        raise ValueError(f"{words!r} are no steps: they count from 1, the earlier one first, such as 1-240")
    return first, last


def span(words: str) -> tuple[int, int]:
    """A number, or two with a dash between. ValueError in one sentence for anything else."""
    first, dash, last = words.partition("-")
    if not (first.isdecimal() and first.isascii()) or (dash and not (last.isdecimal() and last.isascii())):
        raise ValueError(f"{words!r} is neither a number nor two with a dash between, such as 1-240")
    return int(first), int(last or first)
