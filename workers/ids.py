"""Identifiers of documents, pages, runs, shards and parts: pure functions of what they name.

The same input under the same configuration gives the same identifiers on every machine and in every attempt;
nothing here depends on time, order of arrival or chance.
"""

import hashlib

IDENTIFIER_DIGITS = 32


def _digest(kind: str, *fields: str) -> str:
    """Hash named fields; the length before each field keeps ("ab", "c") apart from ("a", "bc")."""
    state = hashlib.sha256(kind.encode())
    for field in fields:
        encoded = field.encode("utf-8", "surrogateescape")
        state.update(f":{len(encoded)}:".encode())
        state.update(encoded)
    return state.hexdigest()[:IDENTIFIER_DIGITS]


def content_hash(data: bytes) -> str:
    """SHA-256 of a document's bytes as 64 hex digits; equal bytes are duplicates."""
    return hashlib.sha256(data).hexdigest()


def document_id(uri: str, etag: str | None) -> str:
    """Name one version of one object: the exact URI (never decoded) and the storage's version mark."""
    return _digest("document", uri, etag or "")


def page_id(document: str, page_index: int) -> str:
    """Name page `page_index` (from 0) of a document; sorts in page order within the document."""
    return f"{document}-{page_index:06d}"


def run_id(config_hash: str, target: str) -> str:
    """Name a run: one configuration writing to one target. Repeating it carries the same run on."""
    return _digest("run", config_hash, target.rstrip("/"))


def shard_name(shard_index: int) -> str:
    """Name of a shard, the unit of work and of resume; its staged object carries this name."""
    return f"shard-{shard_index:06d}"


def part_name(part_index: int) -> str:
    """File name of a published part."""
    return f"part-{part_index:05d}.parquet"
