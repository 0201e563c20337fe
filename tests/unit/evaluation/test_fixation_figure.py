"""The axes of the figure hold every point, however small its share."""

from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from fastocr_core.evaluation.fixation_figure import _panel
from fastocr_core.evaluation.fixation_report import markdown
from fastocr_core.evaluation.fixation_rows import FixationRow
from fastocr_core.scores.bootstrap import Interval

ROW = FixationRow(
    "fastocr", "fastocr", 0.05, 0.05, "fastocr", 0.05, 1, 0.1, Interval(0.9, 0.8, 1.0), read_share=0.05
)


@pytest.mark.parametrize("shares", [(0.002,), (0.001, 0.004), (0.002, 0.05, 0.4), (0.024, 0.2), (0.05, 1.0)])
def test_every_point_lies_within_the_axes_and_has_a_tick_near(shares: tuple[float, ...]) -> None:
    axes = Figure().subplots()
    rows = [replace(ROW, kept_share=share) for share in shares]
    _panel(axes, rows, lambda row: 100 * row.kept_share, {"fastocr": "black"})
    low, high = axes.get_xlim()
    ticks = axes.get_xticks()
    for share in shares:
        assert low < 100 * share < high
        assert min(abs(tick - 100 * share) for tick in ticks) <= 0.12 * 100 * share
    assert all(
        float(label.get_text()) == pytest.approx(tick)
        for label, tick in zip(axes.get_xticklabels(), ticks, strict=True)
    )


def test_small_shares_can_be_told_apart_in_the_table() -> None:
    gone = FixationRow("bytes", "fastv, K = 1", 0.0, 0.004, note="cannot read that little")
    text = markdown([replace(ROW, kept_share=share) for share in (0.0004, 0.0125, 0.05)] + [gone], "m", 1)
    for words in ("| fastocr | 0.04% |", "| fastocr | 1.2% |", "| fastocr | 5.0% |"):
        assert words in text
    assert "| fastv, K = 1 | 0.4% |" in markdown([ROW, gone], "m", 1)
