"""Sparse decoding inside `generate()` of an ordinary transformers model: `accelerate(model)`, `.restore()`.

For Qwen2.5-VL, LLaVA-OneVision and UnlimitedOcr, and for other models that are built alike: image tokens are
placeholders in `input_ids`, text attention goes through the transformers attention interface. Nothing is
copied or patched; the model keeps its own cache, which is only taught to append in place. `generate()` ends a
page where the model says so; a second look at the whole page before that (`DecodePolicy.confirm_end`) takes
the engine.
"""

from pathlib import Path
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy, Pooling
from fastocr_core.decoding.focal import default_focal_layers
from fastocr_core.decoding.focal_profile import stored_focal_layers
from fastocr_core.generation import Generation, Plan
from fastocr_core.growing_cache import let_grow

# transformers takes a name with "flash" in it for a kernel to download.
ATTENTION_NAME = "fastocr_in_generate"
DEFAULT_FLOOR = 64
# On a cache: the generation that goes on with it, so that several caches may be used by turns, or copied.
ON_CACHE = "fastocr_generation"
# Of every accelerated attention module: what the model is doing. Weak, since an acceleration holds its model;
# the model's hook keeps the acceleration.
_ACCELERATED: "WeakKeyDictionary[nn.Module, ReferenceType[Acceleration]]" = WeakKeyDictionary()


def accelerate(
    model: Any,
    kept_share: float = DEFAULT_KEPT_SHARE,
    *,
    floor: int = DEFAULT_FLOOR,
    warmup_steps: int = 16,
    focal_layers: tuple[int, ...] | None = None,
    pooling: Pooling = "kv_max",
    reuse: bool = True,
) -> "Acceleration":
    """Let `model.generate(...)` decode sparsely from now on; the settings are those of
    `DecodePolicy.fastocr`.

    The model must be in eval mode and be given `input_ids`. Without `focal_layers` the profile in the
    model's folder counts, else layers spread evenly. Greedy decoding, sampling, left-padded batches, several
    images and chunked prefill work; in a beam search a hypothesis may go on with the fixation of another one
    of the same page; a static cache is refused. ValueError for a model without image tokens, and for one
    that is accelerated already.
    """
    policy = DecodePolicy.fastocr(kept_share, floor, warmup_steps, focal_layers, pooling, reuse)
    return Acceleration(model, policy)


class Acceleration:
    """An accelerated model. Also a context manager that restores at its end."""

    def __init__(self, model: Any, policy: DecodePolicy) -> None:
        self.model = model
        text, image_id = _text_config(model), getattr(model.config, "image_token_id", None)
        if image_id is None:
            raise ValueError(f"{type(model).__name__} has no image tokens to choose from")
        self._modules = [
            module
            for module in model.modules()
            if hasattr(module, "layer_idx") and getattr(module, "config", None) is text
        ]
        if not self._modules:
            raise ValueError(f"{type(model).__name__} has no text attention that says its layer")
        if any(module in _ACCELERATED for module in self._modules):
            raise ValueError("the model is accelerated already; restore it first")
        folder, layers = Path(str(model.config._name_or_path or "")), int(text.num_hidden_layers)
        stored = stored_focal_layers(folder) if model.config._name_or_path and folder.is_dir() else ()
        focal_layers = policy.focal_layers or stored or default_focal_layers(layers)
        self.plan = Plan(policy, focal_layers, layers, int(image_id))
        self.generation: Generation | None = None
        AttentionInterface.register(ATTENTION_NAME, _attention)
        AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
        self._before = text._attn_implementation
        # Given as a dictionary, so that vision attention stays what it is.
        model.set_attn_implementation({"text_config": ATTENTION_NAME})
        self._hook = model.register_forward_pre_hook(self._forward_begins, with_kwargs=True)
        for module in self._modules:
            _ACCELERATED[module] = ref(self)

    @property
    def image_kv_read_share(self) -> float:
        """Counted share of the cached image rows that the last `generate` read after its warm-up."""
        return self.generation.reads.share if self.generation else 1.0

    def restore(self) -> None:
        """Make the model what it was. Harmless when repeated."""
        if self._modules:
            self._hook.remove()
            self.model.set_attn_implementation({"text_config": self._before})
            for module in self._modules:
                _ACCELERATED.pop(module, None)
            self._modules, self.generation = [], None

    def __enter__(self) -> "Acceleration":
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def attend(
        self, module: Any, query: Tensor, keys: Tensor, values: Tensor, scaling: float
    ) -> Tensor | None:
        """Attention [B, 1, query_heads, head_dim] of a decode step in one layer; None where it is dense and
        nobody looks on, or where no generation is under way.
        """
        generation = self.generation
        if generation is None or not generation.stepping or query.shape[2] != 1:
            return None
        return generation.attend(int(module.layer_idx), query, keys, values, scaling)

    def _forward_begins(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Learns about a new prompt, a piece of one, or the next step, before the model runs."""
        cache = named.get("cache")
        if cache is None:
            cache = named.get("past_key_values")  # the argument's name before transformers 5.24
        if cache is None:  # a plain forward: dense
            self.generation = None
            return
        ids = arguments[0] if arguments else named.get("input_ids")
        cached = int(cache.get_seq_length())
        mask = named.get("attention_mask")
        if cache.is_compileable or isinstance(mask, dict) or (mask is not None and mask.dim() != 2):
            raise ValueError("accelerate() works with the dynamic cache that generate() makes by default")
        if ids is None:
            raise ValueError("accelerate() finds the image by its placeholders: give generate() input_ids")
        if cached == 0:
            let_grow(cache)
            setattr(cache, ON_CACHE, Generation(self.plan))
        begun: Generation | None = getattr(cache, ON_CACHE, None)
        # None: the cache was begun before the model was accelerated, or with other settings, and goes on densely
        self.generation = begun if begun is not None and begun.plan == self.plan else None
        if self.generation is None:
            return
        if cached and ids.shape[1] == 1:
            self.generation.begin_step(cached)
        else:
            self.generation.take_prompt(ids, cached, mask)


def _text_config(model: Any) -> Any:
    """The configuration of the text decoder; ValueError where the model has none of its own."""
    text = getattr(getattr(model, "config", None), "text_config", None)
    if text is None or not hasattr(text, "num_hidden_layers"):
        raise ValueError(f"{type(model).__name__} is no vision-language model of transformers")
    return text


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The registered function: sparse steps here, everything else as transformers does it."""
    known = _ACCELERATED.get(module)
    acceleration = known() if known is not None else None
    if acceleration is not None:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        output = acceleration.attend(module, query, key, value, scale)
        if output is not None:
            return output, None
    plain: tuple[Tensor, None] = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **kwargs
    )
    return plain
