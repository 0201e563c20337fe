"""The model and the pages that `fastocr eval` measures. Refusals are ValueErrors or OSErrors of one sentence."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.eval_parts import parts

if TYPE_CHECKING:
    from fastocr_core.evaluation.pages import EvaluationPage
    from fastocr_core.models.base import ModelAdapter


def prepared(
    model: str,
    device: str,
    sets: str,
    pages: int | None,
    say: Callable[[str], None],
    cases: Path | None = None,
    documents: Path | None = None,
) -> "tuple[ModelAdapter, list[EvaluationPage]]":
    """The model on its device, and at least one page."""
    from fastocr_core import load
    from fastocr_core.evaluation.device import check_device
    from fastocr_core.evaluation.pages import held_out
    from fastocr_core.scores.text import require_scores

    require_scores()
    chosen = held_out(parts(sets, "--sets"), pages)
    check_device(device)
    adapter = load(model, device=device)
    if documents is not None:
        from fastocr_core.evaluation.documents import document_pages

        chosen += document_pages(documents, pages)
    if cases is not None:
        from workers.evaluation_cases import case_pages

        real, failures = case_pages(cases, adapter.vision, pages)
        for failure in failures:
            say(f"left out: {failure}")
        chosen += real
    if not chosen:
        raise ValueError("there is no page to read: name a set of held-out pages, as --sets clean")
    return adapter, chosen


def unreadable(
    pages: "Sequence[EvaluationPage]", by_script: int, say: Callable[[str], None]
) -> "list[EvaluationPage]":
    """Clean pages upside down and in writing hands, and pages in other scripts."""
    from fastocr_core.evaluation.unreadable import other_scripts, upside_down, writing_hands

    clean = [page for page in pages if page.text and page.exact and page.part == "clean"]
    scripts, without_font = other_scripts(by_script)
    hands, without_hand = writing_hands([(page.name, page.text or "") for page in clean[:by_script]])
    if without_font or without_hand:
        say(f"no font for: {', '.join([*without_font, *without_hand])}")
    return [*upside_down(clean), *scripts, *hands]
