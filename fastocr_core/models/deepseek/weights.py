"""The published tensors of DeepSeek-OCR under the names and in the shapes of transformers' network.

Single experts are stacked in numeric order, fused query-key-value tensors of the CLIP part are cut in thirds,
everything else is renamed. Names without a rule pass through, so that a check against the network names them.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fastocr_core.models.checkpoint import TensorSource

# In the checkpoint, but never used: cells of the SAM part take the place of CLIP's own patches.
UNUSED = "model.vision_model.embeddings.patch_embedding.weight"

_SAM, _CLIP = "model.vision_tower.sam_encoder", "model.vision_tower.vision_encoder"
_RULES = (
    (r"model\.sam_model\.blocks\.(\d+)\.norm([12])\.(.+)", rf"{_SAM}.layers.\1.layer_norm\2.\3"),
    (r"model\.sam_model\.blocks\.(\d+)\.(attn|mlp)\.(.+)", rf"{_SAM}.layers.\1.\2.\3"),
    (r"model\.sam_model\.patch_embed\.proj\.(.+)", rf"{_SAM}.patch_embed.projection.\1"),
    (r"model\.sam_model\.pos_embed", rf"{_SAM}.pos_embed"),
    (r"model\.sam_model\.neck\.0\.(.+)", rf"{_SAM}.neck.conv1.\1"),
    (r"model\.sam_model\.neck\.1\.(.+)", rf"{_SAM}.neck.layer_norm1.\1"),
    (r"model\.sam_model\.neck\.2\.(.+)", rf"{_SAM}.neck.conv2.\1"),
    (r"model\.sam_model\.neck\.3\.(.+)", rf"{_SAM}.neck.layer_norm2.\1"),
    (r"model\.sam_model\.net_2\.(.+)", rf"{_SAM}.proj.conv1.\1"),
    (r"model\.sam_model\.net_3\.(.+)", rf"{_SAM}.proj.conv2.\1"),
    (r"model\.vision_model\.transformer\.(.+)", rf"{_CLIP}.encoder.\1"),
    (r"model\.vision_model\.(embeddings|pre_layrnorm)\.(.+)", rf"{_CLIP}.\1.\2"),
    (r"model\.projector\.layers\.(.+)", r"model.multi_modal_projector.\1"),
    (r"model\.view_seperator", r"model.view_separator"),
    (r"model\.(embed_tokens|norm|layers)\.(.+)", r"model.language_model.\1.\2"),
)
_PATTERNS = tuple((re.compile(pattern), target) for pattern, target in _RULES)
_EXPERT = re.compile(r"(model\.layers\.\d+\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
_FUSED = re.compile(r"(.+\.self_attn)\.qkv_proj\.(weight|bias)")

Part = Literal["gate", "up", "down"]


def renamed(key: str) -> str:
    """The network's name of a published tensor that is neither an expert nor fused."""
    for pattern, target in _PATTERNS:
        match = pattern.fullmatch(key)
        if match:
            return match.expand(target)
    return key


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How to make one tensor of the network: `rows` of a published one, or parts of experts stacked."""

    shape: tuple[int, ...]
    keys: tuple[str, ...]
    third: int | None = None
    parts: int = 0  # published tensors per expert, 0 where nothing is stacked


class NetworkWeights:
    """A `TensorSource` with the network's names over one with the published names.

    ValueError where experts are missing or differ in shape, or a fused tensor has no three equal parts.
    """

    def __init__(self, published: TensorSource) -> None:
        self.folder = published.folder
        self._published = published
        self._recipes = _recipes(published.shapes())

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape by network name."""
        return {name: recipe.shape for name, recipe in self._recipes.items()}

    def read(self, name: str) -> Tensor:
        """One tensor of the network, in the stored type."""
        recipe = self._recipes[name]
        tensors = [self._published.read(key) for key in recipe.keys]
        if recipe.third is not None:
            return tensors[0].chunk(3, dim=0)[recipe.third].clone()
        if not recipe.parts:
            return tensors[0]
        experts = [
            torch.cat(tensors[first : first + recipe.parts]) for first in range(0, len(tensors), recipe.parts)
        ]
        return torch.stack(experts)


def _recipes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, _Recipe]:
    """A recipe per network name."""
    recipes: dict[str, _Recipe] = {}
    experts: dict[str, dict[tuple[int, str], str]] = defaultdict(dict)
    for key, shape in shapes.items():
        if key == UNUSED:
            continue
        if expert := _EXPERT.fullmatch(key):
            experts[expert[1]][int(expert[2]), expert[3]] = key
        elif fused := _FUSED.fullmatch(key):
            if not shape or shape[0] % 3:
                raise ValueError(f"{key} has shape {list(shape)}, which is not query, key and value together")
            for third, letter in enumerate("qkv"):
                name = f"{renamed(fused[1])}.{letter}_proj.{fused[2]}"
                recipes[name] = _Recipe((shape[0] // 3, *shape[1:]), (key,), third=third)
        else:
            recipes[renamed(key)] = _Recipe(tuple(shape), (key,))
    for prefix, found in experts.items():
        recipes |= _expert_recipes(prefix, found, shapes)
    return recipes


def _expert_recipes(
    prefix: str, found: Mapping[tuple[int, str], str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, _Recipe]:
    """Both stacked tensors of one layer: gate above up, and down."""
    count = 1 + max(number for number, _ in found)
    recipes = {}
    stacks: tuple[tuple[str, tuple[Part, ...]], ...] = (("gate_up", ("gate", "up")), ("down", ("down",)))
    for stack, parts in stacks:
        wanted = [(number, part) for number in range(count) for part in parts]
        missing = [
            f"{prefix}.{number}.{part}_proj.weight" for number, part in wanted if (number, part) not in found
        ]
        if missing:
            raise ValueError(f"{len(missing)} expert tensors are missing, the first is {missing[0]}")
        keys = tuple(found[number, part] for number, part in wanted)
        shape = shapes[keys[0]]
        odd = [key for key in keys if tuple(shapes[key]) != tuple(shape)]
        if odd or len(shape) != 2:
            raise ValueError(f"{(odd or keys)[0]} has not the shape of the other experts, {list(shape)}")
        rows = shape[0] * len(parts)
        recipes[f"{renamed(prefix + '.')}{stack}_proj"] = _Recipe(
            (count, rows, shape[1]), keys, parts=len(parts)
        )
    return recipes
