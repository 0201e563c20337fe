"""Where things lie below a target: every key is built here, and nowhere else.

Only `pages/*.parquet` and `documents/*.parquet` are for readers. `_manifest/` is frozen by the survey;
`_work/` is removed when the run is complete.
"""

from collections.abc import Callable

from workers.ids import part_name, shard_name

RUN_KEY = "_run.json"
SUCCESS_KEY = "_SUCCESS"
SURVEY_KEY = "_manifest/survey.json"
LISTING_KEY = "_manifest/listing.json"
MANIFEST_FOLDER = "_manifest/"
PAGES_FOLDER = "pages/"
DOCUMENTS_FOLDER = "documents/"
METRICS_FOLDER = "metrics/"
WORK_FOLDER = "_work/"
STAGED_FOLDER = "_work/staged/"
ATTEMPTS_FOLDER = "_work/attempts/"
MANIFEST_TABLES = ("documents", "pages", "shards")


def manifest_key(table: str, piece: int = 0) -> str:
    """A piece of one of the three frozen tables; the small table of shards is always one piece."""
    if table == "shards":
        return f"{MANIFEST_FOLDER}shards.parquet"
    return f"{MANIFEST_FOLDER}{table}/{part_name(piece)}"


def survey_draft_key(survey_id: str, table: str, piece: int = 0) -> str:
    """A table of one survey before it is known whether that survey is the one that counts."""
    return f"{WORK_FOLDER}survey/{survey_id}/{table}-{piece:05d}"


def listing_key(listing_id: str, piece: int) -> str:
    """A piece of a listing: the objects to survey, in order, and the batches they are surveyed in."""
    return f"{WORK_FOLDER}listing/{listing_id}/objects-{piece:05d}"


def survey_batch_key(listing_id: str, batch_index: int) -> str:
    """What the survey found out about one batch of a listing."""
    return f"{WORK_FOLDER}listing/{listing_id}/batches/batch-{batch_index:07d}"


def staged_key(shard_index: int) -> str:
    """A finished shard. The name does not end in .parquet, so that no reader takes it for output."""
    return STAGED_FOLDER + shard_name(shard_index)


def attempt_key(shard_index: int, attempt: str) -> str:
    """Says that a worker began to read a shard; after a crash it names what was in flight."""
    return f"{ATTEMPTS_FOLDER}{shard_name(shard_index)}.{attempt}"


def part_key(part_index: int) -> str:
    """A published part of the page table."""
    return PAGES_FOLDER + part_name(part_index)


def documents_key(part_index: int) -> str:
    """A published part of the document table."""
    return DOCUMENTS_FOLDER + part_name(part_index)


def number_in(key: str, key_of: Callable[[int], str]) -> int | None:
    """The number for which `key_of` (such as `part_key`) builds exactly this key; None for a stray object."""
    digits = key.rpartition("-")[2].partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(digits)
    return number if key_of(number) == key else None
