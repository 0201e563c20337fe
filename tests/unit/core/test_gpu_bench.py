"""The GPU benchmark walks all its paths on a CPU, and its arithmetic is that of the shapes. Never its seconds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: the GPU benchmark is not tried")

from fastocr_core.bench import gpu
from fastocr_core.bench.gpu_decoder import BenchDecoder
from fastocr_core.bench.gpu_points import pages_per_day
from fastocr_core.bench.gpu_shapes import DRY_SHAPES, REAL_SHAPES


@pytest.mark.slow
def test_dry_run_computes_rightly_and_leaves_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.main(["--dry-run", "--out", str(tmp_path)])
    (file,) = tmp_path.iterdir()
    report = json.loads(file.read_text(encoding="utf-8"))
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == report
    assert report["errors"] == {}
    assert report["skipped"] == []
    assert report["complete"] is True
    checks = report["correctness"]
    assert {f"{shape.name} float32" for shape in DRY_SHAPES} | {"engine"} <= checks.keys()
    assert all(value is not False for check in checks.values() for value in check.values())
    assert [point["shape"] for point in report["points"]] == [shape.name for shape in DRY_SHAPES]
    for point in report["points"]:
        assert {"own", "fastocr"} <= point["decode"].keys() <= point["attention"].keys()
        assert any(name.startswith("sdpa-") for name in point["attention"])
        assert point["attention"]["fastocr"]["bytes_read"] < point["attention"]["own"]["bytes_read"]
        assert point["byte_limit"] > 1.0
        assert point["best_dense"]["decode"] in point["decode"]


def test_a_failing_part_and_a_spent_budget_are_entries(tmp_path: Path) -> None:
    report = gpu.Report(tmp_path / "results.json", 100.0)

    def broken() -> None:
        raise RuntimeError("no such luck")

    assert report.part("one", broken) is None
    assert report.part("two", lambda: 5) == 5
    assert report.part("three", lambda: 5, least_seconds=1e6) is None
    written = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert written["errors"] == {"one": "RuntimeError: no such luck"}
    assert written["skipped"] == ["three"]
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_a_wrong_kernel_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.gpu_checks, "backend_error", lambda shape, device, dtype: 0.5)
    monkeypatch.setattr(gpu.gpu_checks, "engine_agrees", lambda device, pages, tokens: True)
    report = gpu.Report(tmp_path / "results.json", 100.0)
    assert gpu.check(report, DRY_SHAPES[:1], torch.device("cpu"), dry=True) is False


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu.main([])
    assert ended.value.code == 2
    assert "needs a CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "row_bytes_of_all_layers", "billions_of_weights"),
    # Keys and values of a token over all layers, and what a step reads, as published for these models.
    [
        ("Qwen2.5-VL-7B", 57_344, 7.07),
        ("Qwen2.5-VL-3B", 36_864, 3.09),
        ("dots.ocr", 28_672, 1.54),
        ("DeepSeek-OCR", 61_440, 2.77),
    ],
)
def test_shapes_are_those_of_the_models(
    name: str, row_bytes_of_all_layers: int, billions_of_weights: float
) -> None:
    (shape,) = (each for each in REAL_SHAPES if each.name == name)
    assert shape.row_bytes * shape.layers == row_bytes_of_all_layers
    read = shape.weight_bytes(10**6, all_experts=True) / 2 / 1e9
    assert read == pytest.approx(billions_of_weights, rel=0.01)


def test_weights_counted_are_weights_made() -> None:
    for shape in DRY_SHAPES:
        decoder = BenchDecoder(shape, torch.device("cpu"), torch.bfloat16)
        lists = [decoder.to_heads, decoder.to_hidden, decoder.up, decoder.down, [decoder.head]]
        if shape.experts is not None:
            lists += [decoder.shared_up, decoder.shared_down, decoder.expert_up, decoder.expert_down]
        made = sum(tensor.numel() for tensors in lists for tensor in tensors)
        assert shape.weight_bytes(3, all_experts=True) == 2 * made


def test_grouped_experts_are_the_same_as_all_experts() -> None:
    decoder = BenchDecoder(DRY_SHAPES[1], torch.device("cpu"), torch.float32)
    if not decoder.grouped_experts:
        pytest.skip("this torch has no grouped products on a CPU")
    hidden = torch.randn(5, DRY_SHAPES[1].hidden)
    grouped = decoder._experts(0, hidden)
    decoder.grouped_experts = False
    torch.testing.assert_close(grouped, decoder._experts(0, hidden), rtol=1e-4, atol=1e-5)


def test_bytes_and_pages() -> None:
    shape = replace(DRY_SHAPES[0], image_tokens=100, prompt_tokens=6, output_tokens=8)  # 10 text rows
    row = 2 * 2 * 16 * 2
    assert shape.cache_bytes(3, 1.0) == 3 * row * 2 * 110
    assert shape.cache_bytes(3, 0.2) == 3 * row * (110 + 30)
    assert pages_per_day(shape, 4, 2.0, 1.0) == pytest.approx(86_400 / (2.0 + 8 / 4))
