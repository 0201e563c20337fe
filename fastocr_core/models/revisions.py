"""Which version of its weights a model is at, found without loading it: no torch, so that a driver can ask.

A target belongs to one revision; weights retrained under the same name are another configuration.
"""

import functools
import hashlib
import json
from pathlib import Path

TINY_REVISION = "1"
WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
# What decides about a text besides the weights: sizes, vocabulary, pixels, prompt wording.
DESCRIBING_FILES = ("config.json", "tokenizer.json", "preprocessor_config.json")


def mini_folder() -> Path:
    """Where the shipped weights of the embedded reader lie."""
    return Path(__file__).parent / "mini" / "weights"


def weights_revision(folder: Path) -> str:
    """16 hex digits of the content of a folder's weights. FileNotFoundError if there are none."""
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


def is_mini_folder(folder: Path) -> bool:
    """Whether a folder holds an embedded reader: its card names no architecture of another model."""
    file = folder / CONFIG_FILE
    if not file.is_file():
        return True
    try:
        card = json.loads(file.read_text("utf-8"))
    except ValueError:  # also what is not UTF-8
        return False
    return isinstance(card, dict) and not card.keys() & {"model_type", "architectures"}


def model_revision(name_or_path: str) -> str:
    """The revision that `load` of the same name would report. ValueError for a name that is not known here."""
    if name_or_path == "tiny":
        return TINY_REVISION
    if name_or_path == "mini":
        return weights_revision(mini_folder())
    folder = Path(name_or_path)
    if folder.is_dir():
        return weights_revision(folder) if is_mini_folder(folder) else checkpoint_revision(folder)
    raise ValueError(f"the revision of model {name_or_path!r} cannot be found without loading it")
