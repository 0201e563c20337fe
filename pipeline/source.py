"""What SOURCE means: a file, a folder, an S3 prefix, a list of locations, or a glob in which `*` stays within
one folder and `**` does not.

What exists under exactly that name is taken first, so that names with `[` or `*` in them can be read.
"""

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.config import ConfigError
from pipeline.source_list import is_list, listed_objects
from pipeline.spilled import SortedObjects
from workers.layout import (
    METRICS_FOLDER,
    RUN_KEY,
    SUCCESS_KEY,
    SURVEY_KEY,
    attempt_key,
    documents_key,
    manifest_key,
    part_key,
    staged_key,
)
from workers.object_store import (
    StorageMissing,
    StorageSettings,
    StoredObject,
    is_s3,
    open_store,
    split_uri,
)

COUNT_EVERY = 1000
_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]")
WRITTEN_KEYS = (
    RUN_KEY,
    SUCCESS_KEY,
    SURVEY_KEY,
    manifest_key("pages"),
    part_key(0),
    documents_key(0),
    f"{METRICS_FOLDER}read.parquet",
    staged_key(0),
    attempt_key(0, "attempt"),
)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source holds: objects sorted by location, and locations that are there but can hold no document
    (links that lead nowhere, links to folders, pipes). `list_uri` is the list that named them, if one did.
    """

    objects: SortedObjects
    left_out: tuple[str, ...] = ()
    list_uri: str | None = None


def list_source(
    source: str, storage: StorageSettings, heard: Callable[[int], object] | None = None
) -> Listing:
    """All objects of a source; `heard` is told now and then how many there are so far.

    Raises `StorageError`, also when there are none, and `ConfigError` for a list that names no documents.
    """
    root, key = split_uri(source)
    store = open_store(root, storage)
    single = store.find(key) if key and not key.endswith("/") else None
    if single is not None and (single.bytes or not is_s3(source)):
        if not is_list(store, single):
            return Listing(_collected((single,), heard))
        named = _collected(listed_objects(store, single), heard)
        if not len(named):
            raise StorageMissing(f"The list {source} names no documents.")
        return Listing(named, list_uri=single.uri)
    left_out: list[str] = []
    found = SortedObjects()
    try:
        found = _collected(open_store(source, storage).list(left_out=left_out.append), heard)
    except StorageMissing:
        if not glob.has_magic(source) or is_s3(source):
            raise
    if not len(found) and glob.has_magic(source):
        matches = glob_pattern(source).fullmatch
        beside: list[str] = []
        listed = open_store(fixed_part(source), storage).list(left_out=beside.append)
        found = _collected((stored for stored in listed if matches(stored.uri)), heard)
        left_out = [location for location in beside if matches(location) or _leads_on(source, location)]
    if not len(found) and single is not None:
        found.add(single)  # an empty object beside which there is no folder of that name
    if not len(found):
        beyond = f" ({_left_out_phrase(left_out)})" if left_out else ""
        raise StorageMissing(f"There is nothing to read at {source}{beyond}.")
    return Listing(found, tuple(sorted(left_out)))


def _collected(objects: Iterable[StoredObject], heard: Callable[[int], object] | None) -> SortedObjects:
    found = SortedObjects()
    for count, stored in enumerate(objects, 1):
        found.add(stored)
        if heard is not None and count % COUNT_EVERY == 0:
            heard(count)
    return found


def listing_notes(listing: Listing) -> Iterator[str]:
    """Remarks on what was left out and what was named twice, if anything was."""
    if listing.left_out:
        yield f"Left out: {_left_out_phrase(listing.left_out)}; links to folders are not followed."
    if listing.objects.repeated:
        yield (
            f"{listing.objects.repeated} entries of {listing.list_uri or 'the listing'} name an object that "
            "was named before; each is read once."
        )


def newcomers(listing: Iterable[StoredObject], known: Iterable[str]) -> tuple[int, str | None]:
    """How many listed objects are not among the known locations, and the first; both sorted as listings are."""
    count, first = 0, None
    behind = iter(known)
    place = next(behind, None)
    for stored in listing:
        while place is not None and place < stored.uri:
            place = next(behind, None)
        if place != stored.uri:
            count += 1
            first = first or stored.uri
    return count, first


def _left_out_phrase(left_out: Sequence[str]) -> str:
    return f"{len(left_out)} links or special files that are no documents, the first is {left_out[0].rstrip('/')}"


def _leads_on(pattern: str, location: str) -> bool:
    """Whether a link to a folder stands where the pattern would go on into that folder."""
    parts = pattern.split("/")
    head = parts[: location.count("/")]
    if not location.endswith("/"):
        return False
    goes_on = len(parts) > len(head) and glob_pattern("/".join(head)).fullmatch(location[:-1])
    return bool(goes_on) or any("**" in part for part in head)


def fixed_part(source: str) -> str:
    """The folder in front of the first wildcard; the source itself if it has none."""
    first = min((source.index(sign) for sign in "*?[" if sign in source), default=None)
    return source if first is None else source[:first].rpartition("/")[0] or "/"


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression over whole locations."""
    expression = ""
    position = 0
    for token in _TOKENS.finditer(pattern):
        expression += re.escape(pattern[position : token.start()]) + _token_expression(token[0])
        position = token.end()
    return re.compile(expression + re.escape(pattern[position:]), re.DOTALL)


def _token_expression(token: str) -> str:
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in fixed:
        return fixed[token]
    inside = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    negated = inside.startswith(("!", "^"))
    return f"[^/{inside[1:]}]" if negated else f"[{inside}]"


def refuse_nested(source: str, target: str) -> None:
    """What a run writes must be nothing that its source would take for a document, and needs a place; raises
    `ConfigError`.
    """
    if not is_s3(target) and os.path.exists(target) and not os.path.isdir(target):
        raise ConfigError(f"The target {target} is a file; name a folder.")
    if is_s3(source) != is_s3(target) or (not is_s3(source) and os.path.isfile(source)):
        return
    takes = _taken_by(source)
    if any(takes(f"{target.rstrip('/')}/{key}") for key in WRITTEN_KEYS):
        raise ConfigError(
            f"The target {target} lies inside the source {source}, which would take it for documents; "
            "choose a target beside it."
        )


def _taken_by(source: str) -> Callable[[str], bool]:
    """Whether the source would list a location, links in either path followed."""
    real = _unchanged if is_s3(source) else os.path.realpath
    inside = f"{real(source).rstrip('/')}/"
    if not glob.has_magic(source) or (not is_s3(source) and os.path.isdir(source)):
        return lambda location: real(location).startswith(inside)
    base = fixed_part(source).rstrip("/")
    real_base = real(base or "/").rstrip("/")
    matches = glob_pattern(source).fullmatch

    def takes(location: str) -> bool:
        found = real(location)
        if found.startswith(inside):
            return True
        return found.startswith(f"{real_base}/") and bool(matches(base + found.removeprefix(real_base)))

    return takes


def _unchanged(location: str) -> str:
    return location
