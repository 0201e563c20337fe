"""What SOURCE means: a file, a folder, an S3 prefix, or a glob in which `*` stays within one folder and
`**` does not.

What exists under exactly that name is taken first, so that names with `[` or `*` in them can be read.
"""

import glob
import re
from pathlib import Path

from pipeline.config import ConfigError
from workers.object_store import (
    StorageMissing,
    StorageSettings,
    StoredObject,
    is_s3,
    open_store,
    split_uri,
)

_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]]*\]")


def list_source(source: str, storage: StorageSettings) -> list[StoredObject]:
    """All objects of a source, sorted by location. Raises `StorageError`, also when there are none."""
    root, key = split_uri(source)
    single = open_store(root, storage).find(key) if key else None
    if single is not None:
        return [single]
    try:
        found = list(open_store(source, storage).list())
    except StorageMissing:
        if not glob.has_magic(source) or is_s3(source):
            raise
        found = []
    if not found and glob.has_magic(source):
        matches = glob_pattern(source).fullmatch
        listed = open_store(fixed_part(source), storage).list()
        found = [stored for stored in listed if matches(stored.uri)]
    if not found:
        raise StorageMissing(f"There is nothing to read at {source}.")
    return sorted(found, key=lambda stored: stored.uri)


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
    """A target inside its source would be read as input by the next run; raises `ConfigError`."""
    folder = fixed_part(source)
    if is_s3(source) != is_s3(target) or (not is_s3(source) and Path(source).is_file()):
        return
    if f"{target.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/"):
        raise ConfigError(f"The target {target} lies inside the source {source}; choose a target beside it.")
