"""Records what a page's decode steps looked at: the reading of one page as a `FixationTrace`.

The engine runs as always; a wrapper around its policy listens to the image attention of one layer and notes which image
tokens the sparse layers were allowed to see.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from fastocr_core.config import DecodePolicy, EngineLimits
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.base import ImageGrid, Policy
from fastocr_core.engine import Engine
from fastocr_core.models.base import ModelAdapter
from fastocr_core.output import PageText
from fastocr_core.view.gaze import FixationTrace, Gaze
from fastocr_core.view.part_traces import joined_traces
from fastocr_core.view.recording import RecordingPolicy
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

if TYPE_CHECKING:
    from PIL.Image import Image

STRONGEST = 24  # image tokens whose attention is kept per step


def record(
    model: ModelAdapter,
    page: "Image | PreparedPage",
    policy: DecodePolicy,
    prompt: str | None = None,
    limits: EngineLimits | None = None,
) -> FixationTrace:
    """Read one page and keep every step's gaze; a page that is read in parts part by part, as the engine does.

    ValueError for a page that cannot be read, or whose image tokens have no grid.
    """
    prepared = page if isinstance(page, PreparedPage) else prepare(page, model.vision)
    if prepared.parts:
        return joined_traces(
            prepared, [record(model, part, policy, prompt, limits) for part in prepared.parts]
        )
    grid = model.image_grid(prepared)
    if not grid.fits(prepared.image_tokens):
        raise ValueError(f"the image tokens of {model.name} have no grid, so their fixation cannot be drawn")
    layer = _recorded_layer(model, policy)
    recorders: list[RecordingPolicy] = []

    def build(settings: DecodePolicy, adapter: ModelAdapter, slots: int) -> Policy:
        recorders.append(RecordingPolicy(build_policy(settings, adapter, slots), layer, STRONGEST))
        return recorders[-1]

    with Engine(model, policy, 1, limits, build=build) as engine:
        result = engine.submit(prepared, prompt).result()
    if result.finish_reason == "error":
        raise ValueError(result.error)
    gazes = _aligned(recorders[0].strongest, recorders[0].seen, result, grid)
    return FixationTrace(prepared, grid, layer, result, gazes, _written(model, prepared, result))


def _recorded_layer(model: ModelAdapter, policy: DecodePolicy) -> int:
    """The deepest focal layer of policy or model, or the middle of the stack. Under dense and with fixed focal layers it
    looks at everything; where a policy has left tokens out of it, every head's attention counts on the tokens it has."""
    focal = policy.focal_layers or model.focal_layers
    return max(focal) if focal else model.shape.layers // 2


def _aligned(
    strongest: Sequence[Tensor], seen: Sequence[Tensor | None], result: PageText, grid: ImageGrid
) -> tuple[Gaze | None, ...]:
    """Gazes by output token. The prompt wrote the first one; the step after the last token belongs to none."""
    gazes: list[Gaze | None] = [None] * min(1, len(result.tokens))
    for pairs, visible in zip(strongest, seen, strict=True):
        if len(gazes) == len(result.tokens):
            break
        looked = ((_cell(int(token), grid), round(float(share), 4)) for token, share in pairs.tolist())
        open_to = None if visible is None else (_cell(token, grid) for token in visible.tolist())
        gazes.append(
            Gaze(
                tuple((cell, share) for cell, share in looked if cell is not None),
                None if open_to is None else tuple(cell for cell in open_to if cell is not None),
                result.image_tokens if visible is None else len(visible),
            )
        )
    return tuple(gazes)


def _cell(token: int, grid: ImageGrid) -> int | None:
    """Cell that an image token shows; None for newline rows, separators and other views."""
    row, column = divmod(token - grid.first, grid.row_step)
    if token < grid.first or row >= grid.rows or column >= grid.columns:
        return None
    return row * grid.columns + column


def _written(model: ModelAdapter, page: PreparedPage, result: PageText) -> tuple[int, ...]:
    """Characters of the final text that each prefix of the tokens already gives; never falls."""
    counts: list[int] = []
    for end in range(1, len(result.tokens) + 1):
        so_far = model.text(result.tokens[:end], page)
        common = _common_prefix(so_far, result.text)
        counts.append(max(common, counts[-1] if counts else 0))
    return tuple(counts)


def _common_prefix(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(index for index in range(shorter) if one[index] != other[index])
