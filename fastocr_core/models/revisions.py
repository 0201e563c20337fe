"""Which version of its weights a model is at, found without loading it: no torch, so that a driver can ask.

A target belongs to one revision; weights retrained under the same name are another configuration.
"""

import functools
import hashlib
from pathlib import Path

from fastocr_core.models.hub import hub_revision
from fastocr_core.vision.families import MINI, TINY, family_of_folder, folder_of, hub_id_of, model_names

TINY_REVISION = "1"
WEIGHTS_FILE = "model.safetensors"
# What decides about a text besides the weights: sizes, vocabulary, pixels, wording of the prompt, stop ids.
DESCRIBING_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
)


def mini_folder() -> Path:
    """Where the shipped weights of the embedded reader lie."""
    return Path(__file__).parent / "mini" / "weights"


def weights_revision(folder: Path) -> str:
    """16 hex digits of the content of a folder's weights. FileNotFoundError if there are none."""
    if not (folder / WEIGHTS_FILE).is_file():
        raise FileNotFoundError(f"there is no {WEIGHTS_FILE} in {folder}")
    with (folder / WEIGHTS_FILE).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def checkpoint_revision(folder: Path) -> str:
    """16 hex digits (of a SHA-256) of names and contents of all weight files and the files that describe them.

    Where the folder lies does not matter. Reads everything once per process and state of the files.
    FileNotFoundError if there are no weights.
    """
    files = [folder / name for name in DESCRIBING_FILES if (folder / name).is_file()]
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise FileNotFoundError(f"there are no weights (*.safetensors) in {folder}")
    state = []
    for file in (*files, *weights):
        status = file.stat()
        state.append((file, status.st_size, status.st_mtime_ns))
    return _digest(tuple(state))


@functools.lru_cache(maxsize=8)
def _digest(state: tuple[tuple[Path, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, _, _ in state:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.name}\0{content}\n".encode())
    return whole.hexdigest()[:16]


def model_revision(name_or_path: str, revision: str | None = None) -> str:
    """The revision that `load` of the same name would report.

    For a hub id the commit that `revision` (None: its main branch) stands for; its describing files are
    fetched if they are not cached. ValueError for an unknown name, FileNotFoundError for what is missing or
    cannot be fetched.
    """
    if name_or_path == TINY.name:
        return TINY_REVISION
    if name_or_path == MINI.name:
        return weights_revision(mini_folder())
    folder = folder_of(name_or_path)
    if folder is not None:
        return weights_revision(folder) if family_of_folder(folder) is MINI else checkpoint_revision(folder)
    hub_id = hub_id_of(name_or_path)
    if hub_id is None:
        raise ValueError(f"unknown model {name_or_path!r}; known: {', '.join(model_names())}, or a folder")
    return hub_revision(hub_id, revision)
