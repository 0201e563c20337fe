"""The front door to models: `load` by name or folder. Adapters are imported only when asked for."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastocr_core.models.base import ModelAdapter

MODEL_NAMES: tuple[str, ...] = ("mini", "tiny")


def load(name_or_path: str, *, revision: str | None = None, device: str = "auto") -> "ModelAdapter":
    """The model of that name, or the one whose weights lie in that folder.

    `device` is `auto` (CUDA where there is one), `cpu`, `cuda` or any torch device. `revision` asks for one
    version and raises ValueError if the model at hand is another. ValueError for an unknown name.
    """
    adapter = _build(name_or_path)
    if revision is not None and revision != adapter.revision:
        raise ValueError(f"model {name_or_path!r} is at revision {adapter.revision!r}, not {revision!r}")
    _place(adapter, device)
    return adapter


def _build(name_or_path: str) -> "ModelAdapter":
    if name_or_path == "tiny":
        from fastocr_core.models.tiny import load_tiny

        return load_tiny()
    if name_or_path == "mini":
        from fastocr_core.models.mini.adapter import load_mini

        return load_mini(None)
    if Path(name_or_path).is_dir():
        from fastocr_core.models.mini.adapter import load_mini

        return load_mini(Path(name_or_path))
    raise ValueError(
        f"unknown model {name_or_path!r}; known: {', '.join(MODEL_NAMES)}, or a folder with weights"
    )


def _place(adapter: "ModelAdapter", device: str) -> None:
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    adapter.to(torch.device(device))
