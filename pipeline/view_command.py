"""`fastocr view` behind its options: which policies, steps and part of the page are drawn, and into what kind of file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastocr_core import DecodePolicy


def write_view(
    document: Path,
    output: Path,
    page: int,
    model: str,
    policies: "Sequence[DecodePolicy]",
    prompt: str | None,
    steps: str | None,
    part: str,
) -> str:
    """Read page `page` (from 1) of a document and write what was looked at; says what was written.

    ValueError or OSError, in one sentence, for a file, page, step or kind of output that is not there.
    """
    from workers.view_page import view_page

    top, bottom = span(part)
    if not 0 <= top < bottom <= 100:
        raise ValueError(f"{part!r} is no part of a page: two numbers from 0 to 100 are needed, such as 0-50")
    chosen = None if steps is None else span(steps)
    shares = (top / 100, bottom / 100)
    drawn = view_page(document, page - 1, model, policies, prompt, output.suffix.lower(), chosen, shares)
    output.write_bytes(drawn)
    return f"{output}: {len(drawn) / 1e6:.1f} MB, open it in any browser"


def chosen_policies(
    decode: str | None, settings: Mapping[str, Any], beside_dense: bool
) -> "list[DecodePolicy]":
    """The policy asked for, the dense one before it where that is wanted. ValueError for an unknown one."""
    from fastocr_core import DecodePolicy

    policies = [DecodePolicy.named(decode or "fastocr", **settings)]
    if beside_dense and policies[0].name != "dense":
        policies.insert(0, DecodePolicy.dense())
    return policies


def span(words: str) -> tuple[int, int]:
    """A number, or two with a dash between. ValueError in one sentence for anything else."""
    first, dash, last = words.partition("-")
    if not (first.isdecimal() and first.isascii()) or (dash and not (last.isdecimal() and last.isascii())):
        raise ValueError(f"{words!r} is neither a number nor two with a dash between, such as 1-240")
    return int(first), int(last or first)
