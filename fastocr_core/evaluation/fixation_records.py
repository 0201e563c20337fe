"""What a study of fixation keeps of its measurements: under which keys, in which form, and what they were made with."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from PIL import Image

from fastocr_core.config import DecodePolicy
from fastocr_core.evaluation.contenders import FocalChoices
from fastocr_core.evaluation.fixation_rows import PageReading
from fastocr_core.evaluation.pages import EvaluationPage
from fastocr_core.evaluation.records import Key
from fastocr_core.evaluation.step_measures import LayerFocus, StepMeasures
from fastocr_core.evaluation.stored_values import restored

READ, HELD, LAYERS, FOCAL_CHOICES = "read", "held", "layers", "focal choices"
_KINDS: dict[str, type] = {
    READ: PageReading,
    HELD: StepMeasures,
    LAYERS: LayerFocus,
    FOCAL_CHOICES: FocalChoices,
}


def reading_key(policy: DecodePolicy, page: EvaluationPage) -> Key:
    """Of a free reading."""
    return (READ, policy_words(policy), page.name)


def held_key(policy: DecodePolicy, page: EvaluationPage) -> Key:
    """Of the pen held along the dense text."""
    return (HELD, policy_words(policy), page.name)


def layers_key(page: EvaluationPage) -> Key:
    """Of where the layers of the dense policy look."""
    return (LAYERS, page.name)


def focal_choices_key(counts: Iterable[int]) -> Key:
    """Of the focal layers that were found on the pages."""
    return (FOCAL_CHOICES, *map(str, counts))


def policy_words(policy: DecodePolicy) -> str:
    """What is not as in the dense policy, as one line: what a measurement belongs to."""
    plain = DecodePolicy.dense()
    values = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return json.dumps({name: value for name, value in values.items() if value != getattr(plain, name)})


def restored_value(key: Key, stored: Any) -> Any:
    """What was measured under that key. ValueError where it is nothing of the kind."""
    if key[0] not in _KINDS:
        raise ValueError(f"an unknown kind {key[0]!r:.40}")
    return restored(_KINDS[key[0]], stored)


def pages_digest(pages: Iterable[tuple[EvaluationPage, Image.Image]]) -> str:
    """Changes with the name, image, resolution or text of any page; hexadecimal."""
    digest = hashlib.sha256()
    for page, image in pages:
        digest.update(repr((page.name, page.text, page.dpi, page.words, image.mode, image.size)).encode())
        digest.update(image.tobytes())
    return digest.hexdigest()
