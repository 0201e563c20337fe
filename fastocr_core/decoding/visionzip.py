"""VisionZip (arXiv 2412.04467): fewer image tokens go into the decoder, chosen without looking at any text.

Dominant tokens are those that the vision tower itself attends to most. Of the rest, evenly spaced targets
stand for the others: each of these joins the target with the most similar key, and a target becomes its
own embedding plus the mean of those that joined. Kept tokens keep their positions. Variant `norm` ranks by
the length of the embedding instead, for towers without attention (ours is convolutional); it is not the
published method and reports say so.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.decoding.scores import share_budget
from fastocr_core.models.base import ImageEncoding, ModelAdapter, PromptLayout


class VisionZipPolicy(DensePolicy):
    """Compression before the decoder; every step then sees all that is left."""

    needs_scored_encoding = True

    def __init__(self, slots: int, settings: DecodePolicy, floor: int, model_name: str) -> None:
        super().__init__(slots)
        self._settings, self._floor, self._model_name = settings, floor, model_name

    def budget(self, image_tokens: int) -> int:
        """Dominant and contextual tokens together."""
        return share_budget(self._settings.kept_share, self._floor, image_tokens)

    def compress(self, encoding: ImageEncoding, layout: PromptLayout) -> tuple[Tensor, PromptLayout]:
        """See `Policy.compress`. ValueError where the tower gives no attention and the variant needs it."""
        by_norm = self._settings.chosen_variant == "norm"
        if encoding.received is None and not by_norm:
            raise ValueError(
                f"visionzip does not apply to {self._model_name}: its vision tower gives no attention "
                "(the variant norm ranks by the length of the embeddings)"
            )
        received = encoding.embeddings.float().norm(dim=1) if by_norm else encoding.received
        assert received is not None
        keys = encoding.embeddings if encoding.keys is None else encoding.keys
        kept = self.budget(layout.image_tokens)
        contextual = min(kept - 1, round(kept * self._settings.contextual_share))
        embeddings, tokens = merged(encoding.embeddings, received, keys, kept - contextual, contextual)
        start, end = layout.image_start, layout.image_start + layout.image_tokens
        places = layout.positions
        image = places[:, start:end].index_select(1, tokens.to(places.device))
        positions = torch.cat((places[:, :start], image, places[:, end:]), dim=1)
        return embeddings, replace(layout, image_tokens=len(tokens), positions=positions)


def merged(
    embeddings: Tensor, received: Tensor, keys: Tensor, dominant: int, contextual: int
) -> tuple[Tensor, Tensor]:
    """The kept embeddings [kept, hidden] and the image tokens int64 [kept] whose places they take, ascending.

    `embeddings` [N, hidden], `received` [N], `keys` [N, d].
    """
    count = len(embeddings)
    first = received.topk(dominant).indices
    others = torch.ones(count, dtype=torch.bool, device=first.device).index_fill_(0, first, False)
    rest = others.nonzero()[:, 0]  # ascending
    if contextual == 0 or len(rest) == 0:
        tokens = first.sort().values
        return embeddings[tokens], tokens
    targets = torch.arange(0, len(rest), max(1, len(rest) // contextual), device=rest.device)[:contextual]
    joins = torch.ones(len(rest), dtype=torch.bool, device=rest.device).index_fill_(0, targets, False)
    directions = normalize(keys[rest].float(), dim=1)
    nearest = (directions[joins] @ directions[targets].T).argmax(1)  # [joining], index into targets
    sums = torch.zeros(len(targets), embeddings.shape[1], dtype=torch.float32, device=rest.device)
    sums.index_add_(0, nearest, embeddings[rest[joins]].float())
    joined = torch.bincount(nearest, minlength=len(targets)).clamp(min=1)[:, None]
    stand_ins = embeddings[rest[targets]] + (sums / joined).to(embeddings.dtype)
    tokens, order = torch.cat((first, rest[targets])).sort()
    return torch.cat((embeddings[first], stand_ins))[order], tokens


def build(settings: DecodePolicy, model: ModelAdapter, slots: int, floor: int) -> Policy:
    """Whether the model's tower gives attention shows with the first page."""
    return VisionZipPolicy(slots, settings, floor, model.name)
