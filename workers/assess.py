"""How far the reading of a page can be trusted: one outcome, a reason, and flags that say what was noticed.

Pure judgement over what the reader reports; a second, dense pass is asked for here and made elsewhere.
"""

from dataclasses import dataclass

from fastocr_core.confidence import GUESSED, Thresholds
from fastocr_core.output import PageText
from workers.ink_check import check_ink
from workers.missed_text import MISSED_TEXT, missed_share
from workers.outcomes import Outcome, Reason
from workers.prepare import PagePackage
from workers.read_twice import READ_TWICE, read_twice_share
from workers.scripts import script_mix

MAX_ERROR_CHARACTERS = 300
TIME_LIMIT_ERROR = f"{TimeoutError.__name__}:"


@dataclass(frozen=True, slots=True)
class ReadingStandard:
    """What the readings of a model are held to. The thresholds of confidence come with the model; `makes_sense` is
    False for a toy, whose text is not judged at all, `whole_page` where all text of the page was asked for.
    """

    thresholds: Thresholds = GUESSED
    makes_sense: bool = True
    whole_page: bool = True


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict on one page. `wants_dense_pass`: reading it again without leaving tokens out may help."""

    outcome: Outcome
    reason: Reason | None
    flags: tuple[str, ...]
    wants_dense_pass: bool = False
    warnings: tuple[str, ...] = ()


def assess(page_text: PageText, package: PagePackage, standard: ReadingStandard | None = None) -> Assessment:
    """Judge a page that was read.

    Flags: loop; truncated (the token limit was reached); suspicious, followed by why: low_confidence, unsteady
    (a stretch of low confidence), off_ink (text where nothing is printed), little_text, much_text (for the marks
    on the page), missed_text (lines of print that no line of the text covers), read_twice, mixed_scripts; no_text
    (marks on the page or content missing from it, and nothing read); cut_short (part of the page is missing from the
    file); repaired.
    """
    if page_text.finish_reason == "error":
        detail = (page_text.error or "the model failed")[:MAX_ERROR_CHARACTERS]
        late = detail.startswith(TIME_LIMIT_ERROR)
        reason = Reason.MODEL_TIMEOUT if late else Reason.MODEL_ERROR
        return Assessment(Outcome.FAILED, reason, (), warnings=(detail,))
    doubts = _doubts(page_text, package, standard or ReadingStandard())
    notes = _notes(package)
    if doubts:
        reasons = {"loop": Reason.LOOP, "truncated": Reason.TOKEN_LIMIT}
        flagged = reasons.get(doubts[0], _file_reason(package))
        sparse = page_text.kept_share < 1.0
        return Assessment(Outcome.FLAGGED, flagged, (*doubts, *notes), wants_dense_pass=sparse)
    if not page_text.text.strip():
        return Assessment(Outcome.OK_BLANK, _file_reason(package), notes)
    outcome = Outcome.OK_REPAIRED if package.repaired else Outcome.OK
    return Assessment(outcome, _file_reason(package), notes)


def assess_blank(package: PagePackage) -> Assessment:
    """The verdict on a page that shows no writing and was not read; never blank if some of it is missing."""
    if package.may_lack_content:
        return Assessment(Outcome.FLAGGED, _file_reason(package), ("no_text", *_notes(package)))
    return Assessment(Outcome.OK_BLANK, _file_reason(package), _notes(package))


def _doubts(page_text: PageText, package: PagePackage, standard: ReadingStandard) -> list[str]:
    doubts = []
    if page_text.finish_reason == "loop":
        doubts.append("loop")
    if page_text.finish_reason == "length":
        doubts.append("truncated")
    suspicions = _suspicions(page_text, package, standard) if standard.makes_sense else []
    if suspicions:
        doubts += ["suspicious", *suspicions]
    if not page_text.text.strip() and (package.blank.words > 0 or package.may_lack_content):
        doubts.append("no_text")
    return doubts


def _suspicions(page_text: PageText, package: PagePackage, standard: ReadingStandard) -> list[str]:
    """Why a text may be wrong although it ended by itself."""
    found = []
    if page_text.mean_logprob < standard.thresholds.mean:
        found.append("low_confidence")
    elif page_text.min_logprob_window < standard.thresholds.window:
        found.append("unsteady")
    if not page_text.text.strip():
        return found
    ink = check_ink(page_text, package.prepared, package.letters)
    if ink.off_ink:
        found.append("off_ink")
    if standard.whole_page and ink.little_text:
        found.append("little_text")
    if standard.whole_page and ink.much_text:
        found.append("much_text")
    if standard.whole_page and missed_share(page_text, package.prepared, package.letters) >= MISSED_TEXT:
        found.append("missed_text")
    if read_twice_share(page_text) >= READ_TWICE:
        found.append("read_twice")
    if script_mix(page_text.text).is_odd:
        found.append("mixed_scripts")
    return found


def _notes(package: PagePackage) -> tuple[str, ...]:
    notes = []
    if package.is_cut_short:
        notes.append("cut_short")
    if package.repaired:
        notes.append("repaired")
    return tuple(notes)


def _file_reason(package: PagePackage) -> Reason | None:
    return Reason.TRUNCATED_FILE if package.is_cut_short else None
