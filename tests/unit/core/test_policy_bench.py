"""The bench of all policies: its rows, and the kept shares at which baselines read as much as fastocr."""

import json
import shlex

import pytest

from fastocr_core import DecodePolicy
from fastocr_core.bench import policies
from fastocr_core.evaluation.contenders import at_read_share, dynamic_share
from tests.parity.random_model import RandomAdapter


def test_table_and_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    policies.main(shlex.split("--model tiny --device cpu --pages 1 --groups nominal bytes --kept-share 0.1"))
    lines = capsys.readouterr().out.splitlines()
    report = json.loads(lines[-1])
    rows = report["rows"]
    assert [row["label"] for row in rows[:2]] == ["dense", "fastocr"]
    assert len(rows) == 2 + 2 * len(policies.BASELINES)
    assert len(lines) == 2 + len(rows) + 3 + 1  # header, a heading for each of three groups, the JSON line
    assert lines[0].count("|") == lines[2].count("|") == lines[-2].count("|")
    assert sum("visionzip by token norm (not as published)" in line for line in lines[:-1]) == 2
    read = rows[1]["budget"]["image_kv_read_share"]
    nominal = {row["label"]: row["budget"] for row in rows if row["group"] == "nominal"}
    assert nominal["snapkv, 1d"]["image_kv_read_share"] == pytest.approx(0.1, abs=0.02)
    for row in rows:
        if row["group"] == "bytes" and row["label"] != "h2o, dynamic":
            assert row["budget"]["image_kv_read_share"] == pytest.approx(read, abs=0.02)
    assert rows[1]["budget"]["kv_resident_share"] == 1.0
    assert nominal["h2o, static"]["kv_resident_share"] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_kept_share_of_fastv_at_equal_bytes(share: float) -> None:
    policy = at_read_share(DecodePolicy.named("fastv", prune_layer=2), share, 28, 1000, 500)
    assert policy is not None
    assert (2 + 26 * policy.kept_share) / 28 == pytest.approx(share)


def test_fastv_cannot_read_less_than_its_whole_layers() -> None:
    assert at_read_share(DecodePolicy.named("fastv", prune_layer=2), 0.05, 6, 1000, 500) is None


@pytest.mark.parametrize("outputs", [40, 300, 2000])
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_kept_share_of_dynamic_h2o_at_equal_bytes(share: float, outputs: int) -> None:
    """Against the mean of what it holds step by step."""
    image_tokens = 1000
    kept = round(dynamic_share(share, image_tokens, outputs) * image_tokens)
    seen = [min(image_tokens, kept + max(0, kept - step)) for step in range(1, outputs + 1)]
    assert sum(seen) / outputs / image_tokens == pytest.approx(share, rel=0.06 if kept <= outputs else 0.5)


def test_fastv_leaves_less_whole_in_a_shallow_decoder() -> None:
    comparison = object.__new__(policies.Comparison)
    comparison.model, comparison.kept_share, comparison.scored_tower = RandomAdapter(), 0.05, True
    labels = [contender.label for contender in comparison.nominal()]
    assert labels[:2] == ["fastv, K = 1", "visionzip"]
