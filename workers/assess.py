"""How far the reading of a page can be trusted: one outcome, a reason, and flags that say what was noticed.

Pure judgement over what the reader reports; a second, dense pass is asked for here and made elsewhere.
"""

from dataclasses import dataclass

from fastocr_core.output import PageText
from workers.outcomes import Outcome, Reason
from workers.prepare import PagePackage

LOW_MEAN_LOGPROB = -0.7  # a clean page is read at about -0.05; below this half of the tokens are guesses
LOW_WINDOW_LOGPROB = -2.0
MAX_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict on one page. `wants_dense_pass`: reading it again without leaving tokens out may help."""

    outcome: Outcome
    reason: Reason | None
    flags: tuple[str, ...]
    wants_dense_pass: bool = False
    warnings: tuple[str, ...] = ()


def assess(page_text: PageText, package: PagePackage) -> Assessment:
    """Judge a page that was read.

    Flags: loop, token_limit, low_confidence, unsteady (a stretch of low confidence), no_text (marks on the
    page or content missing from it, and nothing read), cut_short (part of the page is missing from the file), repaired.
    """
    if page_text.finish_reason == "error":
        detail = (page_text.error or "the model failed")[:MAX_ERROR_CHARACTERS]
        return Assessment(Outcome.FAILED, Reason.MODEL_ERROR, (), warnings=(detail,))
    doubts = _doubts(page_text, package)
    notes = _notes(package)
    if doubts:
        reasons = {"loop": Reason.LOOP, "token_limit": Reason.TOKEN_LIMIT}
        reason = reasons.get(doubts[0], _file_reason(package))
        sparse = page_text.kept_share < 1.0
        return Assessment(Outcome.FLAGGED, reason, (*doubts, *notes), wants_dense_pass=sparse)
    if not page_text.text.strip():
        return Assessment(Outcome.OK_BLANK, _file_reason(package), notes)
    outcome = Outcome.OK_REPAIRED if package.repaired else Outcome.OK
    return Assessment(outcome, _file_reason(package), notes)


def assess_blank(package: PagePackage) -> Assessment:
    """The verdict on a page that shows no writing and was not read; never blank if some of it is missing."""
    if package.may_lack_content:
        return Assessment(Outcome.FLAGGED, _file_reason(package), ("no_text", *_notes(package)))
    return Assessment(Outcome.OK_BLANK, _file_reason(package), _notes(package))


def _doubts(page_text: PageText, package: PagePackage) -> list[str]:
    doubts = []
    if page_text.finish_reason == "loop":
        doubts.append("loop")
    if page_text.finish_reason == "length":
        doubts.append("token_limit")
    if page_text.mean_logprob < LOW_MEAN_LOGPROB:
        doubts.append("low_confidence")
    elif page_text.min_logprob_window < LOW_WINDOW_LOGPROB:
        doubts.append("unsteady")
    if not page_text.text.strip() and (package.blank.words > 0 or package.may_lack_content):
        doubts.append("no_text")
    return doubts


def _notes(package: PagePackage) -> tuple[str, ...]:
    notes = []
    if package.is_cut_short:
        notes.append("cut_short")
    if package.repaired:
        notes.append("repaired")
    return tuple(notes)


def _file_reason(package: PagePackage) -> Reason | None:
    return Reason.TRUNCATED_FILE if package.is_cut_short else None
