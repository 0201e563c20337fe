"""The results of `fastocr eval fixation` as a figure: retention over the kept share, over bytes read, over |C| and w."""

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy
from fastocr_core.evaluation.fixation_rows import FixationRow

FASTOCR = "fastocr"
WARMUP = "w"
USUAL = "as delivered"


def draw_figure(rows: Sequence[FixationRow], file: Path, model: str, focal_count: int) -> None:
    """Four panels as PNG. `focal_count` is the |C| that fastocr uses unless told otherwise.

    ImportError with the mend where matplotlib is missing.
    """
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9.6), layout="constrained")
    FigureCanvasAgg(figure)
    (nominal, same), (count, warmup) = figure.subplots(2, 2, sharey=True)
    baselines = dict.fromkeys(row.series for row in rows if row.group in ("nominal", "bytes") and row.series)
    colours = {name: f"C{index}" for index, name in enumerate(baselines)} | {FASTOCR: "black"}
    _panel(nominal, _among(rows, FASTOCR, "nominal"), lambda row: 100 * row.kept_share, colours)
    _panel(same, _among(rows, FASTOCR, "bytes"), lambda row: 100 * (row.read_share or 0), colours)
    nominal.set(xlabel="kept share of image tokens, nominal (%)", title="at the same nominal share")
    same.set(xlabel="image keys and values read per step (%)", title="at the bytes really read")
    _choices(count, warmup, rows, focal_count)
    for axes in (nominal, count):
        axes.set_ylabel("accuracy (1 - CER) as a share of dense (%)")
    named = {
        label: handle
        for axes in (nominal, same)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if named:
        figure.legend(named.values(), named.keys(), fontsize=8, loc="outside lower center", ncols=5)
    figure.suptitle(
        f"{model}: what sparse decoding keeps of the dense reading (95 % of a paired bootstrap over pages)"
    )
    figure.savefig(file, dpi=110)


def check_matplotlib() -> None:
    """ImportError with the mend where no figure could be drawn: better before hours of reading than after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the figure needs matplotlib: pip install -e '.[eval]' in a checkout")


def _among(rows: Sequence[FixationRow], *groups: str) -> list[FixationRow]:
    return [row for row in rows if row.group in groups]


def _choices(count: Any, warmup: Any, rows: Sequence[FixationRow], focal_count: int) -> None:
    """The panels of |C| and w, with the usual choice in both."""
    tried = _among(rows, "choice")
    usual = [row for row in _among(rows, FASTOCR) if row.share == DEFAULT_KEPT_SHARE]
    others = dict.fromkeys(row.series for row in tried if row.series != WARMUP)
    colours = {name: f"C{index}" for index, name in enumerate(others)}
    _panel(
        count, [row for row in tried if row.series != WARMUP], lambda row: row.level, colours, scale="linear"
    )
    _points(count, usual, lambda row: focal_count, USUAL, "black", "D")
    _panel(warmup, [row for row in tried if row.series == WARMUP], lambda row: row.level, {WARMUP: "C0"})
    _points(warmup, usual, lambda row: DecodePolicy.fastocr().warmup_steps, USUAL, "black", "D")
    share = f"{DEFAULT_KEPT_SHARE:.0%} kept"
    count.set(xlabel="focal layers |C|", title=f"choice of focal layers, {share}")
    warmup.set(xlabel="dense first steps w", title=f"choice of warm-up, {share}")
    _ticks(count, {row.level for row in tried if row.series != WARMUP} | {focal_count})
    levels = {row.level for row in tried if row.series == WARMUP}
    _ticks(warmup, levels | {DecodePolicy.fastocr().warmup_steps})
    if others:
        count.legend(fontsize=8, loc="center left")


def _panel(
    axes: Any,
    rows: Sequence[FixationRow],
    across: Callable[[FixationRow], float],
    colours: dict[str, str],
    scale: str = "log",
) -> None:
    axes.axhline(100, color="0.6", linewidth=0.8)
    if rows:
        axes.set_xscale(scale)
    axes.set_autoscalex_on(False)  # one point alone has no width
    for series in dict.fromkeys(row.series for row in rows if row.series):
        members = [row for row in rows if row.series == series]
        _points(axes, members, across, series, colours[series], "o" if series == FASTOCR else ".")
    _ticks(axes, (across(row) for row in rows if row.read_share is not None))
    axes.set_ylim(bottom=-2)
    axes.grid(alpha=0.25)


def _ticks(axes: Any, values: Iterable[float]) -> None:
    """Limits around what was measured, and ticks there, to two digits, thinned out where they would overlap."""
    measured = sorted(each for each in values if each > 0)
    kept: list[float] = []
    for value in (float(f"{each:.2g}") for each in measured):
        if not kept or value >= kept[-1] * 1.12:
            kept.append(value)
    if kept:
        axes.set_xlim(measured[0] / 1.3, measured[-1] * 1.2)
        axes.set_xticks(kept, [f"{value:g}" for value in kept])
        axes.minorticks_off()


def _points(
    axes: Any,
    rows: Sequence[FixationRow],
    across: Callable[[FixationRow], float],
    label: str,
    colour: str,
    marker: str,
) -> None:
    points = [(across(row), row.retention) for row in rows if row.retention and row.read_share is not None]
    points.sort(key=lambda point: point[0])
    if not points:
        return
    values = [100 * kept.value for _, kept in points]
    below = [max(0.0, 100 * (kept.value - kept.low)) for _, kept in points]
    above = [max(0.0, 100 * (kept.high - kept.value)) for _, kept in points]
    axes.errorbar(
        [x for x, _ in points], values, yerr=(below, above), label=label, marker=marker, color=colour,
        linewidth=2.2 if label == FASTOCR else 1.0, capsize=2,
    )  # fmt: skip
