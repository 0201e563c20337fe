"""Writes a training checkpoint as the shipped weights: fp16 safetensors and a JSON card."""

import json
import pathlib

import torch
from safetensors.torch import save_file

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.reader import HEADS, HIDDEN, LAYERS, TEXT_WINDOW
from fastocr_core.models.mini.train.guided import FOCAL_LAYER


def export_reader(checkpoint: pathlib.Path, folder: pathlib.Path) -> None:
    """reader.pt -> folder/model.safetensors and folder/config.json; the running average of the weights where it is kept."""
    state = torch.load(checkpoint, weights_only=True, map_location="cpu")
    tensors = {
        key: (value.half() if value.is_floating_point() else value).contiguous()
        for key, value in state.get("average", state["reader"]).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    card = {
        "name": "mini",
        "layers": LAYERS,
        "hidden": HIDDEN,
        "heads": HEADS,
        "vocabulary": alphabet.VOCABULARY,
        "characters": alphabet.CHARACTERS,
        "text_window": TEXT_WINDOW,
        "focal_layers": [FOCAL_LAYER],
        "trained_steps": state["steps"],
        "trained_tokens": state["characters"],
    }
    (folder / "config.json").write_text(json.dumps(card, ensure_ascii=False, indent=1) + "\n", "utf-8")
