"""In which number format a checkpoint keeps its weights, and the formats that are refused."""

from typing import Any

import torch

from fastocr_core.models.checkpoint import Checkpoint

_QUANTISED_SUFFIXES = (".weight_scale", ".weight_scale_inv", ".qweight", ".qzeros", ".weight_packed")


def stored_type(checkpoint: Checkpoint) -> torch.dtype:
    """The floating type of the weights, as config.json says, else as the first matrix is stored."""
    config = checkpoint.config
    named = config.get("dtype") or config.get("torch_dtype")
    found: Any = getattr(torch, str(named), None) if named else None
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    name = next(name for name, shape in checkpoint.shapes().items() if len(shape) > 1)
    return checkpoint.read(name).dtype


def refuse_quantised(checkpoint: Checkpoint, use_instead: str = "the same model in bf16") -> None:
    """ValueError for a checkpoint in FP8, INT8 or INT4: its tensors are not the weights of the module."""
    settings = checkpoint.config.get("quantization_config")
    scales = [name for name in checkpoint.shapes() if name.endswith(_QUANTISED_SUFFIXES)]
    if not settings and not scales:
        return
    method = settings.get("quant_method", "") if isinstance(settings, dict) else ""
    raise ValueError(
        f"the weights in {checkpoint.folder} are quantised{f' ({method})' if method else ''}, which is not read "
        f"here; use {use_instead}"
    )
