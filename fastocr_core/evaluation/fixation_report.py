"""The results of `fastocr eval fixation` as a Markdown table and as a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastocr_core.evaluation.fixation import FixationRow
from fastocr_core.evaluation.reader import percent
from fastocr_core.evaluation.tables import markdown_table
from fastocr_core.scores.bootstrap import Interval

TITLES = {
    "dense": "Dense and fastocr",
    "choice": "Choice of focal layers and warm-up, at the usual kept share",
    "nominal": "Baselines at the same nominal kept share",
    "bytes": "Baselines at the kept share that reads as many bytes as fastocr",
}
_HEAD = (
    "policy", "kept share", "image KV read", "KV held", "CER", "retention (95 %)", "same token", "attention recovered",
    "fixation hits", "loops",
)  # fmt: skip
_NOTES = (
    "Retention: accuracy (1 - CER) as a share of the dense one on the same pages; the interval is a paired bootstrap over "
    "pages. Same token: the choice after the same prefix equals the dense one. Attention recovered: dense image "
    "attention on what was seen, mean over all layers. Fixation hits: the true cell of the next character was "
    "seen, over the layers that leave something out. The last three are "
    "taken past the warm-up, with the pen held along the dense text."
)


def markdown(rows: Sequence[FixationRow], model: str, pages: int) -> str:
    """One table per group, and what the columns mean."""
    parts = [f"## Fixation of {model} on {pages} pages"]
    for group, title in TITLES.items():
        members = [row for row in rows if row.group == group or (group, row.group) == ("dense", "fastocr")]
        if members:
            parts += [f"### {title}", markdown_table(_HEAD, [_cells(row) for row in members])]
    return "\n\n".join([*parts, _NOTES]) + "\n"


def _cells(row: FixationRow) -> tuple[str, ...]:
    if row.read_share is None:
        return (row.label, f"{row.share:.0%}", row.note, *("-",) * (len(_HEAD) - 3))
    return (
        row.label + (f" ({row.note})" if row.note else ""),
        f"{row.kept_share:.1%}",
        percent(row.read_share),
        percent(row.resident_share),
        percent(row.mean_cer),
        _interval(row.retention),
        percent(row.agreement),
        percent(row.mass),
        percent(row.hit_rate),
        percent(row.loop_rate, 0),
    )


def _interval(value: Interval | None) -> str:
    """One page, or pages that are all alike, give no interval."""
    if value is None:
        return "-"
    bounds = "" if value.low == value.high else f" ({value.low:.1%} to {value.high:.1%})"
    return f"{value.value:.1%}{bounds}"


def draw_figure(rows: Sequence[FixationRow], file: Path, model: str) -> None:
    """Two panels as PNG: retention over the nominal kept share, and over what was really read of the image cache.

    ImportError with the mend where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as failure:
        raise ImportError("the figure needs matplotlib: pip install 'fastocr-batch[eval]'") from failure
    figure = Figure(figsize=(12, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    names = [row.label for row in rows if row.group in ("fastocr", "nominal", "bytes")]
    colours = {name: f"C{index}" for index, name in enumerate(dict.fromkeys(names))} | {"fastocr": "black"}
    _panel(left, [row for row in rows if row.group in ("fastocr", "nominal")], "kept_share", colours)
    _panel(right, [row for row in rows if row.group in ("fastocr", "bytes")], "read_share", colours)
    left.set_xlabel("kept share of image tokens, nominal (%)")
    right.set_xlabel("image keys and values read per step (%)")
    left.set_ylabel("accuracy against dense (%)")
    drawn = {
        label: handle
        for axes in (left, right)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if drawn:
        figure.legend(drawn.values(), drawn.keys(), fontsize=8, loc="outside lower center", ncols=5)
    figure.suptitle(f"{model}: what sparse decoding keeps of the dense reading")
    figure.savefig(file, dpi=130)


def _panel(axes: Any, rows: Sequence[FixationRow], across: str, colours: dict[str, str]) -> None:
    axes.axhline(100, color="0.6", linewidth=0.8)
    for label in dict.fromkeys(row.label for row in rows):
        known = [row for row in rows if row.label == label and row.retention and row.read_share is not None]
        points = [(100 * getattr(row, across), row.retention) for row in known if row.retention]
        points.sort(key=lambda point: point[0])
        if not points:
            continue
        values = [100 * interval.value for _, interval in points]
        below = [max(0.0, 100 * (interval.value - interval.low)) for _, interval in points]
        above = [max(0.0, 100 * (interval.high - interval.value)) for _, interval in points]
        ours = label == "fastocr"
        axes.errorbar(
            [x for x, _ in points], values, yerr=(below, above), label=label, marker="o" if ours else ".",
            linewidth=2.2 if ours else 1.0, capsize=2, color=colours[label],
        )  # fmt: skip
    axes.set_xscale("log")
    shares = sorted({round(100 * getattr(row, across)) for row in rows if row.read_share is not None})
    axes.set_xticks(shares, [str(share) for share in shares])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
