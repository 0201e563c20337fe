"""Which version of its weights a model is at, found without loading it: no torch, so that a driver can ask.

A target belongs to one revision; weights retrained under the same name are another configuration.
"""

import hashlib
from pathlib import Path

TINY_REVISION = "1"
WEIGHTS_FILE = "model.safetensors"


def mini_folder() -> Path:
    """Where the shipped weights of the embedded reader lie."""
    return Path(__file__).parent / "mini" / "weights"


def weights_revision(folder: Path) -> str:
    """16 hex digits of the content of a folder's weights. FileNotFoundError if there are none."""
    with (folder / WEIGHTS_FILE).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def model_revision(name_or_path: str) -> str:
    """The revision that `load` of the same name would report. ValueError for a name that is not known here."""
    if name_or_path == "tiny":
        return TINY_REVISION
    if name_or_path == "mini":
        return weights_revision(mini_folder())
    if Path(name_or_path).is_dir():
        return weights_revision(Path(name_or_path))
    raise ValueError(f"the revision of model {name_or_path!r} cannot be found without loading it")
