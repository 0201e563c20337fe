"""Which adapter reads which family of models, by import path, so that naming one loads nothing.

A new family is one `KnownFamily` in `fastocr_core.vision.families`, one view there, and one line here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fastocr_core.vision.families import FAMILIES, KnownFamily

if TYPE_CHECKING:
    import torch

    from fastocr_core.models.base import ModelAdapter

    FolderLoader = Callable[[Path, torch.dtype | None, str], ModelAdapter]

_LOADERS = {
    "unlimited-ocr": "fastocr_core.models.deepseek.adapter:load_unlimited_ocr",
    "deepseek-ocr": "fastocr_core.models.deepseek.adapter:load_deepseek_ocr",
    "olmocr": "fastocr_core.models.olmocr.adapter:load_olmocr",
    "qwen2_5_vl": "fastocr_core.models.qwen2_5_vl.adapter:load_qwen2_5_vl",
    "dots-ocr": "fastocr_core.models.dots_ocr.loading:load_dots_ocr",
    "llava_onevision": "fastocr_core.models.llava_onevision.adapter:load_llava_onevision",
}


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A family and `load_path`, "module:function" of what loads a folder: (folder, dtype, mode) -> adapter."""

    known: KnownFamily
    load_path: str

    @property
    def name(self) -> str:
        """The family's name, as `ModelVision.family` has it."""
        return self.known.name

    @property
    def hub_ids(self) -> tuple[str, ...]:
        """Hub ids of its published checkpoints."""
        return tuple(hub_id for _, hub_id in self.known.hub_ids)

    def matches(self, config: Mapping[str, Any], place: str = "") -> bool:
        """Whether a checkpoint with this config.json belongs to it."""
        return self.known.matches(config, place)

    def load(self, folder: Path, dtype: "torch.dtype | None" = None, mode: str = "auto") -> "ModelAdapter":
        """The adapter over the weights in a folder, for pages of that mode; `dtype` None keeps the stored type.
        Focal layers come from the profile in the folder, where there is one.

        FileNotFoundError or ValueError, in one sentence, for a folder that cannot be used.
        """
        from fastocr_core.memory import is_out_of_memory

        module, _, function = self.load_path.partition(":")
        loader = cast("FolderLoader", getattr(import_module(module), function))
        try:
            adapter = loader(folder, dtype, mode)
        except (FileNotFoundError, ValueError):
            raise
        except Exception as failure:  # a config.json that transformers cannot build from has no one class
            if is_out_of_memory(failure):
                raise
            said = " ".join(f"{type(failure).__name__}: {failure}".split())
            raise ValueError(f"{folder} cannot be loaded as {self.name} ({said})") from failure
        from fastocr_core.decoding.focal import checked_layers
        from fastocr_core.decoding.focal_profile import stored_focal_layers

        if profiled := stored_focal_layers(folder):
            adapter.focal_layers = checked_layers(profiled, adapter.shape.layers)
        return adapter


MODEL_FAMILIES = {
    known.name: ModelFamily(known, _LOADERS[known.name]) for known in FAMILIES if known.name in _LOADERS
}
