"""The front door to models: `load` by name, folder or hub id. Adapters are imported only when asked for."""

from pathlib import Path
from typing import TYPE_CHECKING

from fastocr_core.collector import collector_paused
from fastocr_core.vision import model_vision
from fastocr_core.vision.families import (
    MINI,
    TINY,
    family_of_folder,
    family_of_name,
    folder_of,
    hub_id_of,
    model_names,
)

if TYPE_CHECKING:
    import torch

    from fastocr_core.models.base import ModelAdapter

MODEL_NAMES: tuple[str, ...] = model_names()


def load(
    name_or_path: str,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: "torch.dtype | None" = None,
    mode: str = "auto",
) -> "ModelAdapter":
    """The model of that name or hub id, or the one whose weights lie in that folder.

    `device` is `auto` (CUDA where there is one), `cpu`, `cuda` or any torch device. `revision` asks for one
    version: of a hub id it is fetched, of anything else it is compared. `mode` is the size setting of the pages
    that will be read (see `ModelVision.mode`). `dtype` None: bfloat16 on CUDA, float32
    elsewhere; the embedded reader and the toy are always float32. Weights are read from safetensors only and no
    code of a model is run. ValueError for an unknown name or mode, a `dtype` that is not floating, a model that
    differs from what its adapter expects, or another revision; FileNotFoundError for what is missing or cannot be fetched.
    """
    with collector_paused():  # most of the time of a small model goes into importing torch and transformers
        import torch

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        place = torch.device(device)
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"weights cannot be used as {dtype}; see fastocr_core.quantize for INT8")
        wanted = dtype or (torch.bfloat16 if place.type == "cuda" else torch.float32)
        adapter = _build(name_or_path, revision, wanted, mode)
    if revision is not None and revision != adapter.revision and hub_id_of(name_or_path) is None:
        raise ValueError(f"model {name_or_path!r} is at revision {adapter.revision!r}, not {revision!r}")
    adapter.to(place)
    return adapter


def _build(model: str, revision: str | None, dtype: "torch.dtype", mode: str) -> "ModelAdapter":
    if model in (TINY.name, MINI.name):
        model_vision(model, mode)  # a mode that it does not have is refused as with any other model
    if model == TINY.name:
        from fastocr_core.models.tiny import load_tiny

        return load_tiny()
    if model == MINI.name:
        return _load_mini(None)
    folder = folder_of(model)
    if folder is not None:
        return _load_folder(folder, dtype, mode)
    hub_id = hub_id_of(model)
    if hub_id is None:
        raise ValueError(
            f"unknown model {model!r}; known: {', '.join(MODEL_NAMES)}, a hub id, or a folder with weights"
        )
    return _load_from_hub(model, hub_id, revision, dtype, mode)


def _load_mini(folder: Path | None) -> "ModelAdapter":
    from fastocr_core.models.mini.adapter import load_mini

    return load_mini(folder)


def _load_folder(folder: Path, dtype: "torch.dtype", mode: str) -> "ModelAdapter":
    from fastocr_core.models.registry import MODEL_FAMILIES

    known = family_of_folder(folder)
    return _load_mini(folder) if known is MINI else MODEL_FAMILIES[known.name].load(folder, dtype, mode)


def _load_from_hub(
    model: str, hub_id: str, revision: str | None, dtype: "torch.dtype", mode: str
) -> "ModelAdapter":
    from fastocr_core.models.checkpoint import read_json
    from fastocr_core.models.hub import hub_folder
    from fastocr_core.models.registry import MODEL_FAMILIES
    from fastocr_core.vision.families import CONFIG_FILE, family_of_config

    # The describing files first: a model that cannot be read is refused before its weights are fetched.
    described = hub_folder(hub_id, revision, weights=False)
    known = family_of_name(model) or family_of_config(read_json(described / CONFIG_FILE), hub_id)
    folder = hub_folder(hub_id, revision)
    adapter = MODEL_FAMILIES[known.name].load(folder, dtype, mode)
    adapter.revision = folder.name  # the commit
    return adapter
