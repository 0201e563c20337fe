"""A model's focal layers as a small JSON file: what was measured, on how much, and what follows from it."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

PROFILE_FILE = "focal_layers.json"


@dataclass(frozen=True, slots=True)
class FocalProfile:
    """`focal_layers` were chosen by recovered mass, `focal_layers_by_ratio` by the image attention ratio.

    The recovered shares say how much of all image attention decoding with them would have seen on the
    pages measured, `read_share` how much of the image cache a step reads with as many focal layers.
    `choices` lists both ways for other numbers of layers.
    """

    model: str
    revision: str
    pages: int
    steps: int
    kept_share: float
    floor: int
    pooling: str
    focal_layers: tuple[int, ...]
    recovered_share: float
    read_share: float
    focal_layers_by_ratio: tuple[int, ...]
    recovered_share_by_ratio: float
    image_attention_ratio: tuple[float, ...]
    choices: tuple[dict[str, Any], ...]


def write_profile(profile: FocalProfile, path: Path) -> None:
    """One JSON object, indented."""
    path.write_text(json.dumps(asdict(profile), indent=1) + "\n", "utf-8")


def read_profile(path: Path) -> FocalProfile:
    """FileNotFoundError, or ValueError where the file is no profile."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as failure:
        raise ValueError(f"{path} is no JSON file: {failure}") from failure
    wanted = {field.name for field in fields(FocalProfile)}
    if not isinstance(values, dict) or set(values) != wanted:
        raise ValueError(f"{path} is no profile of focal layers: it must hold {', '.join(sorted(wanted))}")
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return FocalProfile(**(values | lists))


def stored_focal_layers(folder: Path) -> tuple[int, ...]:
    """The focal layers in the profile beside a model's weights; empty where there is no profile."""
    path = folder / PROFILE_FILE
    return read_profile(path).focal_layers if path.is_file() else ()
