"""RapidOCR as a reader to compare with: the PyPI package of that name, on the CPU, with the models inside its wheel.

Models that the wheel does not hold are never fetched; such a version is refused with a sentence.
"""

import importlib.metadata
import importlib.util
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.readers import ReaderMissingError, Reading
from fastocr_core.scores.boxes import Box

PACKAGE = "rapidocr"
ROLES = {"Det": "_det_", "Cls": "_cls_", "Rec": "_rec_"}  # part of the file name of each model
HOW_TO_GET_IT = "pip install -e '.[eval-others]' in a checkout"


class RapidOcrReader:
    """The default models of the installed version. ReaderMissingError without the package or its models."""

    name = "rapidocr"

    def __init__(self) -> None:
        folder = package_folder()
        models = bundled_models(folder / "models")
        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        try:
            from rapidocr import RapidOCR

            settings = {f"{role}.model_path": str(path) for role, path in models.items()}
            self._read: Any = RapidOCR(params={"Global.log_level": "error", **settings, **_one_thread()})
        except Exception as failure:  # whatever another package does while it starts
            raise ReaderMissingError(
                f"rapidocr does not start: {type(failure).__name__}: {failure}"
            ) from failure
        self.version = importlib.metadata.version(PACKAGE)

    def read(self, pages: Sequence[EvaluationPage]) -> Iterator[Reading]:
        """See `Reader.read`. Text is its lines in its own order; boxes are those of its words."""
        for page in pages:
            begun = time.perf_counter()
            try:
                result = self._read(np.asarray(page.load().convert("RGB"))[:, :, ::-1], return_word_box=True)
                text = "\n".join(result.txts or ())
                words, error = words_of(result.word_results if result.txts else ()), None
            except Exception as failure:  # a page that another program fails on is its result
                text, words, error = "", (), f"{type(failure).__name__}: {failure}"
            yield Reading(text, words, time.perf_counter() - begun, error)


def _one_thread() -> dict[str, int]:
    """As many threads as the process itself is meant to use."""
    import torch

    return {"EngineConfig.onnxruntime.intra_op_num_threads": torch.get_num_threads()}


def package_folder() -> Path:
    """Where the package lies. ReaderMissingError if it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None or importlib.util.find_spec("onnxruntime") is None:
        raise ReaderMissingError(f"rapidocr or onnxruntime is not installed ({HOW_TO_GET_IT})")
    return Path(found.origin).parent


def bundled_models(folder: Path) -> dict[str, Path]:
    """The model file of each role. ReaderMissingError where the wheel lacks one."""
    models = {}
    for role, part in ROLES.items():
        files = sorted(file for file in folder.glob("*.onnx") if part in file.name)
        if not files:
            raise ReaderMissingError(
                f"this version of rapidocr brings no {role} model in its wheel, and none is fetched"
            )
        models[role] = files[0]
    return models


def words_of(lines: Sequence[Sequence[tuple[str, float, Any]]]) -> tuple[tuple[str, Box], ...]:
    """Words with upright boxes from RapidOCR's word results: per line (text, score, four corners)."""
    words: list[tuple[str, Box]] = []
    for line in lines:
        for text, _, corners in line:
            if not text.strip() or corners is None:
                continue
            across, down = zip(*((float(x), float(y)) for x, y in corners), strict=True)
            words.append((text, (min(across), min(down), max(across), max(down))))
    return tuple(words)
