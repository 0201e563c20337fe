"""Speed over time and actor by actor, from the measurements of the run."""

from collections.abc import Iterator

from pipeline.progress import duration_words
from pipeline.report_charts import Curve, chart
from pipeline.report_html import Html, element, joined, table
from pipeline.report_metrics import RASTERIZE, READ, ActorFacts, MeasuredRun, Timeline, rate, share

LISTED_ACTORS = 200


def speed_section(measured: MeasuredRun) -> Html:
    """Charts of rates and shares; a sentence where nothing was measured."""
    parts = [element("h2", "Speed over time")]
    if measured.actors:
        parts.append(element("p", "Times are UTC. Pages count when their shard is complete.", class_="soft"))
        parts += [chart(curve) for curve in _curves(measured.timeline)]
    else:
        parts.append(element("p", "Nothing was measured yet.", class_="soft"))
    if measured.unreadable:
        parts.append(element("p", f"{measured.unreadable:,} files of measurements are damaged and left out."))
    return joined(*parts)


def _curves(timeline: Timeline) -> Iterator[Curve]:
    wanted = (
        ("Pages read", "pages/s", rate(timeline, f"{READ} pages"), False),
        ("Tokens written", "tokens/s", rate(timeline, f"{READ} output_tokens"), False),
        ("OCR actors busy", "share of their time", share(timeline, f"{READ} busy_seconds"), True),
        (
            "GPU utilisation",
            "share of time, as NVML counts it",
            share(timeline, f"{READ} gpu_utilisation"),
            True,
        ),
        ("Pages drawn", "pages/s", rate(timeline, f"{RASTERIZE} pages_drawn"), False),
        ("Rasterize actors busy", "share of their time", share(timeline, f"{RASTERIZE} busy_seconds"), True),
    )
    for title, unit, values, is_share in wanted:
        if any(values):
            yield Curve(title, unit, timeline.start(), timeline.step_seconds, values, is_share)


def actors_section(measured: MeasuredRun) -> Html:
    """One table per stage."""
    parts = []
    for stage, title, headings, row in (
        (READ, "OCR actors", _READ_HEADINGS, _read_row),
        (RASTERIZE, "Rasterize actors", _RASTERIZE_HEADINGS, _rasterize_row),
    ):
        actors = measured.of_stage(stage)
        if not actors:
            continue
        parts.append(element("h2", title))
        parts.append(table(headings, [row(actor) for actor in actors[:LISTED_ACTORS]], numbers_from=3))
        if len(actors) > LISTED_ACTORS:
            parts.append(element("p", f"And {len(actors) - LISTED_ACTORS:,} more."))
    return joined(*parts)


_READ_HEADINGS = (
    "actor", "machine", "GPU", "up for", "pages", "flagged", "failed", "pages/s", "tokens/s", "busy", "slots filled",
    "queue wait per page", "cache read", "cache held", "GPU utilisation", "GPU memory",
)  # fmt: skip
_RASTERIZE_HEADINGS = ("actor", "machine", "", "up for", "pages drawn", "pages/s", "busy")


def _read_row(actor: ActorFacts) -> tuple[str | Html, ...]:
    pages = actor.counters["pages"]
    fill, read_share = actor.last.get("slot_fill"), actor.last.get("image_kv_read_share")
    wait = actor.counters["queue_seconds"] / pages if pages else None
    return (
        actor.actor,
        actor.node,
        actor.gpu_id or "none",
        duration_words(actor.alive_seconds),
        f"{pages:,.0f}",
        f"{actor.counters['pages_flagged']:,.0f}",
        f"{actor.counters['pages_failed']:,.0f}",
        _per_second(pages, actor),
        _per_second(actor.counters["output_tokens"], actor),
        f"{actor.busy_share:.0%}",
        _percent(fill),
        "" if wait is None else f"{wait:.1f} s",
        _percent(read_share),
        _bytes(actor.most.get("kv_bytes")),
        _percent(actor.mean("gpu_utilisation")),
        _bytes(actor.most.get("gpu_memory_bytes")),
    )


def _rasterize_row(actor: ActorFacts) -> tuple[str | Html, ...]:
    drawn = actor.counters["pages_drawn"]
    return (
        actor.actor, actor.node, "", duration_words(actor.alive_seconds), f"{drawn:,.0f}", _per_second(drawn, actor),
        f"{actor.busy_share:.0%}",
    )  # fmt: skip


def _per_second(count: float, actor: ActorFacts) -> str:
    return f"{count / actor.alive_seconds:,.2f}" if actor.alive_seconds else ""


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _bytes(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e9:,.1f} GB" if value >= 1e9 else f"{value / 1e6:,.1f} MB"
