"""The falling rate, the clock of training, and checkpoints."""

import pathlib
import time

import pytest
import torch

from fastocr_core.models.mini.train.schedule import TrainingClock, keep, set_rate


def test_the_rate_rises_then_falls_along_half_a_cosine() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([{"params": [weight]}], 1.0)
    rates = [set_rate(optimizer, 2e-3, 0.0, step, warm=4, floor=0.05) for step in range(6)]
    assert rates == pytest.approx([5e-4, 1e-3, 1.5e-3, 2e-3, 2e-3, 2e-3])
    assert set_rate(optimizer, 2e-3, 0.5, 100, warm=4, floor=0.05) == pytest.approx(2e-3 * 0.525)
    assert set_rate(optimizer, 2e-3, 1.0, 100, warm=4, floor=0.05) == pytest.approx(1e-4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)
    assert type(optimizer.param_groups[0]["lr"]) is float


def test_a_pause_counts_for_no_more_than_the_longest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = TrainingClock(60.0, spent=5.0, longest=10.0)
    for passed in (4.0, 3600.0, 1.0):
        now[0] += passed
        clock.tick()
    assert clock.spent == 5.0 + 4.0 + 10.0 + 1.0
    assert clock.progress == pytest.approx(20 / 60)
    assert not clock.over
    now[0] += 3600
    for _ in range(4):
        now[0] += 10
        clock.tick()
    assert clock.over
    assert clock.progress == 1.0


def test_no_time_at_all_is_over_at_once() -> None:
    clock = TrainingClock(0.0)
    assert clock.over
    assert clock.progress == 1.0


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reader.pt"
    keep({"steps": 1}, path)

    def full(state: object, target: pathlib.Path) -> None:
        target.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="space"):
        keep({"steps": 2}, path)
    monkeypatch.undo()
    assert torch.load(path, weights_only=True) == {"steps": 1}
