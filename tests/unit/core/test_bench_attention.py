"""The attention benchmark: what it prints, and that its three ways ran. Never its milliseconds."""

import json

import pytest

from fastocr_core.bench import attention


def test_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--shapes", "mini", "dots.ocr", "--image-tokens", "60", "--text-tokens", "5"]
    attention.main([*arguments, "--batch", "2", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    report = json.loads(lines[-1])
    assert len(lines) == 1 + 4 + 1
    assert [(row["shape"], row["dtype"]) for row in report["rows"]] == [
        ("mini", "fp32"),
        ("mini", "bf16"),
        ("dots.ocr", "fp32"),
        ("dots.ocr", "bf16"),
    ]
    for row in report["rows"]:
        assert min(row["sdpa_milliseconds"], row["grouped_milliseconds"], row["gather_milliseconds"]) > 0
        dense = min(row["sdpa_milliseconds"], row["grouped_milliseconds"])
        assert row["gather_ratio"] == pytest.approx(dense / row["gather_milliseconds"])
