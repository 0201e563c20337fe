"""A plan in words, and for programs: what will be read, what cannot be, how long it takes and what it costs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pipeline.plan_sums import Plan, Rate
from pipeline.progress import duration_words

SECONDS_PER_HOUR = 3600.0


def plan_lines(plan: Plan, source: str, model: str, rate: Rate) -> Iterator[str]:
    """The plan in words."""
    unreadable = sum(plan.unreadable.values())
    yield f"source      {source}, model {model}"
    yield f"documents   {plan.documents:,} ({unreadable:,} cannot be read), {plan.bytes / 1e6:,.1f} MB"
    yield f"pages       {plan.pages:,}" + (
        f" ({plan.unknown_pages:,} of unknown size: they will probably fail)" if plan.unknown_pages else ""
    )
    if plan.duplicates:
        skipped = plan.pages - plan.pages_to_read
        what = "will not be read again" if skipped else "will be read again; --skip-duplicates spares that"
        yield (
            f"duplicates  {plan.duplicates:,} documents with {plan.duplicate_pages:,} pages have the bytes of "
            f"another and {what}"
        )
    each = f", {plan.image_tokens / plan.pages_to_read:,.0f} a page" if plan.pages_to_read else ""
    yield f"tokens      at most {plan.image_tokens:,} visual{each}"
    for name, totals in sorted(plan.formats.items()):
        yield (
            f"  {name:<10}{totals.documents:,} documents, {totals.pages:,} pages, "
            f"{totals.image_tokens:,} visual tokens"
        )
    for reason, count in sorted(plan.unreadable.items()):
        yield f"  not read  {count:,} documents: {reason}"
    if plan.repaired:
        yield f"  repaired  {plan.repaired:,} documents open only after repair"
    yield from _bill_lines(plan, rate)


def _bill_lines(plan: Plan, rate: Rate) -> Iterator[str]:
    seconds = plan.seconds(rate)
    if rate.pages_per_second is not None:
        how = f"{rate.pages_per_second:g} pages/s"
    else:
        how = f"{rate.image_tokens_per_second:,.0f} visual tokens/s"
    devices = f"{rate.devices} devices" if rate.devices != 1 else "one device"
    doubt = " (a guess: give --pages-per-second as measured)" if rate.assumed else ""
    yield f"time        {duration_words(seconds / rate.devices)} of reading on {devices} at {how} each{doubt}"
    if rate.price is not None:
        cost = seconds / SECONDS_PER_HOUR * rate.price
        yield (
            f"cost        {cost:,.2f} for {seconds / SECONDS_PER_HOUR:,.2f} device hours at {rate.price:,.2f}"
        )


def plan_facts(plan: Plan, source: str, model: str, rate: Rate) -> dict[str, Any]:
    """The plan for programs."""
    seconds = plan.seconds(rate)
    hours = seconds / SECONDS_PER_HOUR
    return {
        "source": source,
        "model": model,
        **asdict(plan),
        "rate": asdict(rate),
        "device_hours": hours,
        "hours": hours / rate.devices,
        "cost": None if rate.price is None else hours * rate.price,
    }
