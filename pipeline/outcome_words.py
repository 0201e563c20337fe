"""What each outcome and reason means and what to do about it, in one sentence each; for reports and people."""

from workers.outcomes import DocumentOutcome, Outcome, Reason

OUTCOME_WORDS: dict[Outcome, str] = {
    Outcome.OK: "Read.",
    Outcome.OK_BLANK: "Nothing is written on it.",
    Outcome.OK_REPAIRED: "Read, but the file or image needed repair; look at a sample.",
    Outcome.FLAGGED: "The text is kept, but do not trust it blindly.",
    Outcome.FAILED: "There is no text; the reason says why.",
    Outcome.DUPLICATE: "Its document has the same bytes as another one, and was read there.",
}

DOCUMENT_OUTCOME_WORDS: dict[DocumentOutcome, str] = {
    DocumentOutcome.COMPLETE: "Every page was read or is blank.",
    DocumentOutcome.PARTIAL: "Some of its pages failed, or lay beyond the limit of the run.",
    DocumentOutcome.QUARANTINED: "It gave no pages; the reason says why.",
}

REASON_WORDS: dict[Reason, str] = {
    Reason.EMPTY_FILE: "The file has no bytes. Fetch the original again.",
    Reason.NOT_A_DOCUMENT: "The bytes are of no known format, for example a saved web page. Remove it from the source.",
    Reason.UNSUPPORTED_FORMAT: "The format is known, but not read here. Convert it.",
    Reason.ENCRYPTED: "It cannot be opened without a password. Decrypt it.",
    Reason.CORRUPT: "It cannot be opened, or this page cannot. Fetch it again, or repair it.",
    Reason.TRUNCATED_FILE: "The end of the file is missing. Fetch it again.",
    Reason.NO_PAGES: "It opens, but holds no page.",
    Reason.TOO_LARGE: "It is beyond the limits for pixels or memory. Raise raster.max_pixels or raster.memory_bytes.",
    Reason.RENDER_ERROR: "The renderer refused the page. The warnings of the page say more.",
    Reason.RENDER_TIMEOUT: "Drawing took longer than raster.seconds_per_page. Raise it, or leave the page.",
    Reason.RENDER_CRASH: "The renderer crashed on it, more than once. Report the file to its makers.",
    Reason.IMAGE_ERROR: "The image inside could not be decoded. Fetch it again, or convert it.",
    Reason.MODEL_ERROR: "The model failed on it; the warnings of the page say how.",
    Reason.MODEL_TIMEOUT: "Reading took too long and was stopped.",
    Reason.TOKEN_LIMIT: "The text was longer than the limit; what was read is kept. Raise engine.max_output_tokens.",
    Reason.LOOP: "The model repeated itself and was stopped; the text is kept. Look at it.",
    Reason.STORAGE_DENIED: "The storage refuses to hand it out. Check credentials and policy.",
    Reason.STORAGE_MISSING: "It was listed, and gone when it was to be read.",
    Reason.STORAGE_ERROR: "The storage delivered everything else, but not this, however often it was asked. Look at the "
    "object; then read it into another target.",
    Reason.CHANGED_DURING_RUN: "Its bytes are no longer those that were surveyed. Run again into a new target.",
}

FLAG_WORDS: dict[str, str] = {
    "loop": REASON_WORDS[Reason.LOOP],
    "truncated": REASON_WORDS[Reason.TOKEN_LIMIT],
    "suspicious": "The text may be wrong; the flags after this one say why.",
    "low_confidence": "The model was unsure of most of what it wrote.",
    "unsteady": "A stretch of the text was written with little confidence.",
    "off_ink": "Much of the text stands where nothing is printed.",
    "little_text": "Far less was read than there are letters on the page.",
    "much_text": "More was read than there is ink for on the page.",
    "missed_text": "Lines of print on the page have no place in the text; it may have ended early.",
    "read_twice": "Lines were read again that had been read before, from the same place.",
    "mixed_scripts": "Letters of other scripts stand inside words, or alone.",
    "no_text": "There are marks on the page, or part of it is missing, and nothing was read.",
    "cut_short": "Part of the page is missing from the file.",
    "repaired": "The file or the image needed repair.",
}


def words_for(name: str) -> str:
    """The sentence for a reason or flag; empty for one that this version does not know."""
    if name in Reason.__members__.values():
        return REASON_WORDS[Reason(name)]
    return FLAG_WORDS.get(name, "")
