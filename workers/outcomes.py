"""The closed lists of what can become of a page or a document, and why.

Errors are rows: whatever happens to a page ends as exactly one `Outcome`, with a `Reason` a script can
act on. Nothing here decides anything; it only names the answers.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """The one final state of a page."""

    OK = "ok"
    OK_BLANK = "ok_blank"
    OK_REPAIRED = "ok_repaired"
    FLAGGED = "flagged"
    FAILED = "failed"
    DUPLICATE = "duplicate"


class DocumentOutcome(StrEnum):
    """The one final state of a document. A quarantined document has no page rows."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    QUARANTINED = "quarantined"


class Reason(StrEnum):
    """Why a page failed or was flagged, or why a document was quarantined."""

    EMPTY_FILE = "empty_file"
    NOT_A_DOCUMENT = "not_a_document"
    UNSUPPORTED_FORMAT = "unsupported_format"
    ENCRYPTED = "encrypted"
    CORRUPT = "corrupt"
    TRUNCATED_FILE = "truncated_file"
    NO_PAGES = "no_pages"
    TOO_LARGE = "too_large"
    RENDER_ERROR = "render_error"
    RENDER_TIMEOUT = "render_timeout"
    RENDER_CRASH = "render_crash"
    IMAGE_ERROR = "image_error"
    MODEL_ERROR = "model_error"
    MODEL_TIMEOUT = "model_timeout"
    TOKEN_LIMIT = "token_limit"
    LOOP = "loop"
    STORAGE_DENIED = "storage_denied"
    STORAGE_MISSING = "storage_missing"
    STORAGE_ERROR = "storage_error"
    CHANGED_DURING_RUN = "changed_during_run"


OK_OUTCOMES = frozenset({Outcome.OK, Outcome.OK_BLANK, Outcome.OK_REPAIRED})
