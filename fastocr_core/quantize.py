"""INT8 weights for the linear layers of a text decoder: one function, `quantize`. Vision tower, embeddings
and output head stay as they are.

On a CPU the layers here do it: one scale per output channel of the weights, one per row of the input, sums
in integers. A row's result therefore depends on no other row, which torch's own dynamic quantisation (one
scale over the whole batch) would not give. On a CUDA device torchao does it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from fastocr_core.models.base import ModelAdapter

if TYPE_CHECKING:
    from fastocr_core.output import PageText
    from fastocr_core.vision.prepared import PreparedPage

QuantizationKind = Literal["int8", "fp8"]
KINDS: tuple[QuantizationKind, ...] = ("int8", "fp8")
# Routers of mixture-of-experts layers: tiny, and a rounding there sends a token to another expert.
_KEPT_NAMES = frozenset({"gate", "router"})
_MISSING = "quantised weights on a CUDA device need the package torchao, which is not installed here"


@dataclass(frozen=True, slots=True)
class QuantizedSize:
    """What was done: `layers` linear layers; bytes of the whole decoder before and after."""

    kind: str
    layers: int
    bytes_before: int
    bytes_after: int


class Int8Linear(nn.Module):
    """A linear layer with int8 weights [out, in], fp32 scales [out], and inputs rounded to int8 row by row."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp_min(1e-12) / 127  # [out]
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # Buffers, so that a decoder's dtype stays that of its first parameter.
        self.weight: Tensor
        self.scale: Tensor
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, given: Tensor) -> Tensor:
        """[..., in] -> [..., out], in the input's dtype."""
        rows = given.reshape(-1, self.in_features).float()
        step = rows.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127  # [rows, 1]
        codes = (rows / step).round_().to(torch.int8)
        result = torch._int_mm(codes, self.weight.t()).float().mul_(step).mul_(self.scale)
        if self.bias is not None:
            result.add_(self.bias)
        return result.to(given.dtype).view(*given.shape[:-1], self.out_features)


def quantize(model: ModelAdapter, kind: QuantizationKind = "int8") -> QuantizedSize:
    """Replace the linear layers of `model.decoder` in place; the model's revision then ends in `+int8`.

    `int8` on a CPU: both weights and inputs in int8. On CUDA, through torchao: `int8` weights only, `fp8`
    weights and, row by row, inputs. ValueError for an unknown kind, for `fp8` on a CPU, and for a decoder
    without linear layers; RuntimeError where torchao is needed and missing. Expert stacks of
    mixture-of-experts layers are not linear layers and stay as they are.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of quantisation {kind!r}; known: {', '.join(KINDS)}")
    names = [name for name, module in model.decoder.named_modules() if _is_quantized(module, name)]
    if not names:
        raise ValueError(f"the decoder of {model.name} has no linear layers to quantise")
    before = module_bytes(model.decoder)
    if model.device.type == "cuda":
        if kind == "fp8" and torch.cuda.get_device_capability(model.device) < (8, 9):
            raise ValueError("fp8 needs a CUDA device of compute capability 8.9 or more")
        _quantize_with_torchao(model.decoder, kind)
    elif kind == "fp8":
        raise ValueError("fp8 needs a CUDA device; on a CPU choose int8")
    else:
        for name in names:
            parent, _, child = name.rpartition(".")
            linear = model.decoder.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            setattr(model.decoder.get_submodule(parent), child, Int8Linear(linear))
    model.revision = f"{model.revision}+{kind}"
    return QuantizedSize(kind, len(names), before, module_bytes(model.decoder))


def module_bytes(module: nn.Module) -> int:
    """Bytes of all parameters and buffers."""
    return sum(_tensor_bytes(tensor) for tensor in (*module.parameters(), *module.buffers()))


def _tensor_bytes(tensor: Tensor) -> int:
    """Of a plain tensor, or of the plain tensors within one of torchao's."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return tensor.numel() * tensor.element_size()
    return sum(_tensor_bytes(getattr(tensor, name)) for name in flatten()[0])


def _is_quantized(module: nn.Module, name: str) -> bool:
    return type(module) is nn.Linear and name.rpartition(".")[2] not in _KEPT_NAMES


def _quantize_with_torchao(decoder: nn.Module, kind: str) -> None:
    try:
        from torchao import quantization
    except ModuleNotFoundError as failure:
        raise RuntimeError(_MISSING) from failure
    if kind == "int8":
        config = quantization.Int8WeightOnlyConfig()
    else:
        config = quantization.Float8DynamicActivationFloat8WeightConfig(granularity=quantization.PerRow())
    quantization.quantize_(decoder, config, filter_fn=_is_quantized)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The quantised model against the plain one, both decoding freely and densely.

    `token_agreement`: tokens in matching blocks of both outputs, twice, over all tokens of both;
    `equal_pages`: pages whose tokens are all equal; `first_difference`: mean share of a page's tokens before
    the first one that differs. Tokens per second are of decode steps.
    """

    pages: int
    equal_pages: int
    token_agreement: float
    first_difference: float
    plain_tokens_per_second: float
    quantized_tokens_per_second: float


def compare(
    plain: ModelAdapter, quantized: ModelAdapter, pages: "Sequence[PreparedPage]", batch: int
) -> Agreement:
    """Read `pages` with both. RuntimeError if a page fails."""
    (first, first_speed), (second, second_speed) = (_read(each, pages, batch) for each in (plain, quantized))
    matched = total = 0
    prefix = 0.0
    for one, other in zip(first, second, strict=True):
        blocks = SequenceMatcher(None, one.tokens, other.tokens, autojunk=False).get_matching_blocks()
        matched += 2 * sum(block.size for block in blocks)
        total += len(one.tokens) + len(other.tokens)
        longest = max(len(one.tokens), len(other.tokens))
        pairs = zip(one.tokens, other.tokens, strict=False)
        common = next(
            (at for at, (a, b) in enumerate(pairs) if a != b), min(len(one.tokens), len(other.tokens))
        )
        prefix += common / longest if longest else 1.0
    return Agreement(
        pages=len(pages),
        equal_pages=sum(one.tokens == other.tokens for one, other in zip(first, second, strict=True)),
        token_agreement=matched / total if total else 1.0,
        first_difference=prefix / len(pages),
        plain_tokens_per_second=first_speed,
        quantized_tokens_per_second=second_speed,
    )


def _read(model: ModelAdapter, pages: "Sequence[PreparedPage]", batch: int) -> "tuple[list[PageText], float]":
    """Results, and tokens per second of decode steps."""
    from fastocr_core.engine import Engine

    with Engine(model, max_batch=batch) as engine:
        results = list(engine.read(pages))
        speed = engine.tokens_out / max(engine.decode_seconds, 1e-9)
    for result in results:
        if result.error:
            raise RuntimeError(f"a page failed: {result.error}")
    return results, speed


def _pages(files: Sequence[str], count: int, model: ModelAdapter) -> "list[PreparedPage]":
    """The given images, or held-out pages of a checkout."""
    from PIL import Image

    from fastocr_core.bench.quality import chosen_pages
    from fastocr_core.vision import prepare

    if files:
        return [prepare(Image.open(file), model.vision) for file in files]
    return [prepare(page.image(), model.vision) for page in chosen_pages(count) if not page.blank]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: size and agreement of a quantised model."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.quantize", description=__doc__)
    parser.add_argument("--model", default="mini", help="name, or a folder with weights")
    parser.add_argument("--kind", choices=KINDS, default="int8")
    parser.add_argument("--images", nargs="*", default=(), help="default: held-out pages of a checkout")
    parser.add_argument("--pages", type=int, default=4, help="held-out pages to read")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args(arguments)
    from fastocr_core.models import load

    try:
        plain, quantized = (load(chosen.model, device=chosen.device) for _ in range(2))
        size = quantize(quantized, chosen.kind)
        pages = _pages(chosen.images, chosen.pages, plain)
    except (ValueError, RuntimeError, OSError) as failure:
        sys.exit(f"error: {failure}")
    agreement = compare(plain, quantized, pages, chosen.batch)
    share = size.bytes_after / size.bytes_before
    print(f"{size.layers} linear layers of {plain.name}'s decoder in {size.kind}")
    print(f"decoder  {size.bytes_before / 1e6:.2f} MB -> {size.bytes_after / 1e6:.2f} MB ({share:.0%})")
    print(
        f"tokens   {agreement.token_agreement:.2%} in matching blocks, "
        f"{agreement.equal_pages} of {agreement.pages} pages equal, "
        f"first difference after {agreement.first_difference:.0%} of a page"
    )
    print(
        f"speed    {agreement.plain_tokens_per_second:.0f} -> {agreement.quantized_tokens_per_second:.0f} tokens/s"
    )
    facts: dict[str, Any] = {"bench": "quantize", "model": plain.name, "revision": plain.revision}
    print(json.dumps(facts | asdict(size) | asdict(agreement)))


if __name__ == "__main__":
    main()
