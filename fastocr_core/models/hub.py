"""Fetches a model folder from the hub into its local cache: weights as safetensors, and text files. No code.

A cached copy is used without asking the network. huggingface_hub is imported on first use.
"""

import json
from pathlib import Path
from typing import Any

DESCRIBING_PATTERNS = ("*.json", "*.txt", "*.jinja")
WEIGHT_PATTERN = "*.safetensors"


def hub_folder(hub_id: str, revision: str | None = None, *, weights: bool = True) -> Path:
    """The local folder of a model at a revision (branch, tag or commit; None for the main branch).

    `weights=False` fetches only the files that describe it. A cached copy is not refreshed; name a commit to
    be sure. FileNotFoundError, in one sentence, where it is not cached and cannot be fetched.
    """
    cached = _snapshot(hub_id, revision, weights, local=True)
    if isinstance(cached, Path) and _is_whole(cached, weights):
        return cached
    fetched = _snapshot(hub_id, revision, weights, local=False)
    if isinstance(fetched, Path):
        return fetched
    wanted = f"{hub_id} at revision {revision}" if revision else hub_id
    raise FileNotFoundError(
        f"model {wanted} is not in the local cache and cannot be fetched from the hub ({fetched}); "
        "check the name and the network, or copy the folder here and give its path"
    )


def hub_revision(hub_id: str, revision: str | None = None) -> str:
    """The commit that a revision of a model stands for; its describing files are fetched if need be."""
    return hub_folder(hub_id, revision, weights=False).name


def _snapshot(hub_id: str, revision: str | None, weights: bool, *, local: bool) -> Path | str:
    """A folder named by its commit, or in a word why there is none."""
    from huggingface_hub import snapshot_download

    patterns = [*DESCRIBING_PATTERNS, *([WEIGHT_PATTERN] if weights else [])]
    fetch: Any = snapshot_download
    try:
        return Path(fetch(hub_id, revision=revision, allow_patterns=patterns, local_files_only=local))
    except Exception as failure:  # network, cache, permission and name errors have no common class
        return type(failure).__name__


def _is_whole(folder: Path, weights: bool) -> bool:
    """Whether a cached folder has what was asked for: fetching may have been cut short, or was for less."""
    if not (folder / "config.json").is_file():
        return False
    if not weights:
        return True
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return any(folder.glob(WEIGHT_PATTERN))
    try:
        names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError):
        return False
    return all((folder / str(name)).is_file() for name in names)
