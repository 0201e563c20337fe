"""Below which confidence a reading is doubted: thresholds measured for a model, or guesses where nobody measured.

`fastocr eval confidence` writes them beside a model's weights. No torch, so that any worker can ask.
"""

import functools
import json
import math
from dataclasses import dataclass
from pathlib import Path

from fastocr_core.models.revisions import mini_folder, model_revision
from fastocr_core.vision.families import MINI, folder_of

CONFIDENCE_FILE = "confidence.json"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Natural-log probabilities: a page whose mean lies below `mean`, or whose worst window of 32 tokens lies below
    `window`, may be misread. `measured` says whether they were measured with these very weights.
    """

    mean: float
    window: float
    measured: bool = False


GUESSED = Thresholds(
    -0.7, -2.0
)  # clean pages are read at about -0.05; below these half of the tokens are guesses


def thresholds(model: str) -> Thresholds:
    """Thresholds of a model by its name or folder, as `load` takes it.

    `GUESSED` for models without a file, and for a file that was measured with other weights: an old threshold would judge
    a new model. ValueError for a file that cannot be used.
    """
    file = confidence_file(model)
    if file is None or not file.is_file():
        return GUESSED
    status = file.stat()
    return _read(model, file, status.st_mtime_ns)


def confidence_file(model: str) -> Path | None:
    """Where the thresholds of a model lie; None for models whose weights are not in a folder of their own."""
    folder = mini_folder() if model == MINI.name else folder_of(model)
    return None if folder is None else folder / CONFIDENCE_FILE


@functools.lru_cache(maxsize=8)
def _read(model: str, file: Path, modified_nanoseconds: int) -> Thresholds:
    try:
        stored = json.loads(file.read_text("utf-8"))
        found = Thresholds(float(stored["mean"]), float(stored["window"]), measured=True)
        revision = str(stored["revision"])
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise ValueError(f"{file} holds no thresholds: {type(failure).__name__}: {failure}") from failure
    if not all(math.isfinite(value) and value <= 0 for value in (found.mean, found.window)):
        raise ValueError(f"{file} holds thresholds that are no log-probabilities")
    return found if revision == model_revision(model) else GUESSED
