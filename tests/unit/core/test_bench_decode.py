"""The decode benchmark: what it prints, and its byte count. Never its seconds."""

import json
import shlex

import pytest

from fastocr_core import load
from fastocr_core.bench import decode


def test_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--model tiny --device cpu --batch 2 --image-tokens 40 120 --output-tokens 24 --rounds 1"
    decode.main(shlex.split(arguments))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 2 + 1
    report = json.loads(lines[-1])
    first, second = report["sizes"]
    assert first["image_tokens"] <= 40 < second["image_tokens"] <= 120
    assert second["dense"]["image_kv_read_share"] == 1.0
    assert second["sparse"]["image_kv_read_share"] < 0.5
    assert second["byte_limit"] > first["byte_limit"] > 1.0
    assert second["ratio"] > 0


def test_bytes_are_weights_and_cache_rows() -> None:
    model = load("tiny", device="cpu")
    page = decode.noise_page(100, model.vision, 0)
    assert page.image_tokens == page.grid_rows * page.grid_columns <= 100
    weights = 4 * sum(parameter.numel() for parameter in model.decoder.parameters())
    # Keys and values of a token: 4 layers, 2 kv heads of 16, 4 bytes. One prompt token; 2 outputs on average.
    row = 2 * 4 * 2 * 16 * 4
    assert decode.bytes_per_step(model, [page] * 2, 4, 0.5) == weights + 2 * row * (
        page.image_tokens // 2 + 1 + 2
    )
