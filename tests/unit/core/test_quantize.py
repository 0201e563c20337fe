"""INT8 decoders: what is replaced, how far results move, that no row depends on another, and that `mini`
still reads.
"""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from fastocr_core import Engine, EngineLimits, load
from fastocr_core import quantize as quantizing
from fastocr_core.models.mini.heldout.pages import held_out_pages
from fastocr_core.quantize import Int8Linear, module_bytes
from fastocr_core.vision import prepare
from tests.parity.random_model import RandomAdapter, page_of


def test_a_layer_is_close_in_every_dtype_and_shape() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 40)
    layer = Int8Linear(linear)
    assert layer.weight.dtype == torch.int8
    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((1, 96), (7, 96), (2, 3, 96)):
            given = torch.randn(shape).to(dtype)
            result = layer(given)
            expected = linear(given.float())
            assert result.dtype == dtype
            assert result.shape == expected.shape
            error = (result.float() - expected).norm() / expected.norm()
            assert 0 < error < 0.02


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    torch.manual_seed(1)
    layer = Int8Linear(nn.Linear(64, 64))
    rows = torch.randn(8, 64)
    beside = torch.cat((rows[:1], rows[1:] * 1000))
    assert torch.equal(layer(rows)[0], layer(beside)[0])


def test_rows_and_weights_of_zeros_give_the_bias() -> None:
    linear = nn.Linear(8, 4)
    with torch.no_grad():
        linear.weight[1] = 0.0
    layer = Int8Linear(linear)
    assert torch.equal(layer(torch.zeros(2, 8)), linear.bias.expand(2, 4))
    assert layer(torch.randn(1, 8))[0, 1] == linear.bias[1]


def test_only_the_decoder_is_replaced() -> None:
    model = RandomAdapter()
    head, revision, dtype = model._head, model.revision, model.dtype
    size = quantizing.quantize(model)
    kinds = [type(module) for module in model.decoder.modules()]
    assert nn.Linear not in kinds
    assert kinds.count(Int8Linear) == size.layers == 7 * model.shape.layers
    assert type(model._head) is nn.Linear
    assert model._head is head
    assert (model.revision, model.dtype) == (f"{revision}+int8", dtype)
    assert size.bytes_after == module_bytes(model.decoder) < 0.45 * size.bytes_before
    with pytest.raises(ValueError, match="no linear layers"):
        quantizing.quantize(model)


def test_a_router_is_left_alone() -> None:
    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(2, 8)
            self.gate, self.gate_proj = nn.Linear(8, 2), nn.Linear(8, 8)

    model = RandomAdapter()
    model.decoder = Routed()
    assert quantizing.quantize(model).layers == 1
    assert type(model.decoder.gate) is nn.Linear


def test_what_cannot_be_done_is_said() -> None:
    model = RandomAdapter()
    with pytest.raises(ValueError, match="known: int8, fp8"):
        quantizing.quantize(model, "int3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="CUDA"):
        quantizing.quantize(model, "fp8")
    assert model.revision == "1"


def test_pages_are_the_same_alone_and_in_a_batch() -> None:
    model = RandomAdapter()
    quantizing.quantize(model)
    pages = [page_of(tokens, seed) for seed, tokens in enumerate((30, 7, 50))]
    with Engine(model, max_batch=4, limits=EngineLimits(max_output_tokens=20)) as engine:
        together = list(engine.read(pages))
        for page, expected in zip(pages, together, strict=True):
            (alone,) = engine.read([page])
            assert (alone.tokens, alone.logprobs) == (expected.tokens, expected.logprobs)


@pytest.mark.slow
def test_a_quantised_mini_reads() -> None:
    plain, quantised = load("mini", device="cpu"), load("mini", device="cpu")
    size = quantizing.quantize(quantised)
    assert size.bytes_after < 0.35 * size.bytes_before
    page = next(page for page in held_out_pages() if not page.blank)
    # The first lines are enough to see that it reads.
    views = [prepare(page.image().crop((0, 0, page.image().width, page.image().height // 4)), plain.vision)]
    agreement = quantizing.compare(plain, quantised, views, 1)
    assert agreement.token_agreement > 0.8


def test_the_command_reports_size_and_agreement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "page.png")
    Image.effect_noise((64, 48), 90).save(file)
    quantizing.main(["--model", "tiny", "--images", file, "--device", "cpu", "--batch", "1"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["model"] == "tiny"
    assert report["bytes_after"] < report["bytes_before"]
    assert 0.0 <= report["token_agreement"] <= 1.0
    assert report["pages"] == 1
