"""The report as one HTML page: every section is a function from facts to HTML. No script, nothing fetched."""

import importlib.resources
import re
from collections.abc import Iterator

from pipeline.outcome_words import DOCUMENT_OUTCOME_WORDS, OUTCOME_WORDS, words_for
from pipeline.pace import Pace, pace_words
from pipeline.report_facts import LISTED_DOCUMENTS, PageFacts, TargetFacts
from pipeline.report_html import Html, element, joined, table
from pipeline.report_listing import listing_sections
from pipeline.report_metrics import MeasuredRun
from pipeline.report_speed import actors_section, speed_section
from workers.outcomes import DocumentOutcome, Outcome

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'"  # even what slipped through could neither run nor load
)
_USER_IN_ADDRESS = re.compile(r"//[^/@\s]*@")


def report_page(facts: TargetFacts, measured: MeasuredRun, pace: Pace) -> str:
    """The whole page."""
    title = f"fastocr report: {facts.status.root}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        Html(f"<style>{_style()}</style>"),
    )
    body = element(
        "body",
        element("h1", title),
        _about(facts),
        _tiles(facts, pace),
        _outcomes_section(facts.pages),
        _reasons_section(facts.pages),
        _documents_section(facts),
        _cost_section(facts, pace),
        speed_section(measured),
        actors_section(measured),
        *listing_sections(facts.pages, facts.status.root),
        _configuration_section(facts),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _style() -> str:
    return importlib.resources.files("pipeline").joinpath("report.css").read_text(encoding="utf-8")


def _about(facts: TargetFacts) -> Html:
    status, claim = facts.status, facts.claim
    lines = [f"Source {status.source}, model {status.model}, run {claim['run_id']}."]
    begun = claim.get("begun_at", "at an unknown time")
    if facts.finished_at is not None:
        lines.append(
            f"Begun {begun}, finished {facts.finished_at}. Every page of the manifest is published once."
        )
    else:
        lines.append(f"Begun {begun}. State: {status.state}.")
        if status.pages:
            lines.append(
                f"{status.pages_finished} of {status.pages} pages are read, {status.parts_published} of "
                f"{status.parts} parts published; this report counts published pages."
            )
    return joined(*(element("p", line, class_="soft") for line in lines))


def _tiles(facts: TargetFacts, pace: Pace) -> Html:
    counts = facts.pages.outcomes
    good = sum(
        counts[name] for name in (Outcome.OK, Outcome.OK_BLANK, Outcome.OK_REPAIRED, Outcome.DUPLICATE)
    )
    quarantined = facts.documents.outcomes[DocumentOutcome.QUARANTINED]
    tiles = [
        _tile("pages published", f"{counts.total():,}", ""),
        _tile("ok", f"{good:,}", "good"),
        _tile("flagged", f"{counts[Outcome.FLAGGED]:,}", "care" if counts[Outcome.FLAGGED] else ""),
        _tile("failed", f"{counts[Outcome.FAILED]:,}", "bad" if counts[Outcome.FAILED] else ""),
        _tile("documents quarantined", f"{quarantined:,}", "bad" if quarantined else ""),
    ]
    if pace.pages and pace.pages_per_device_day is not None:
        tiles.append(_tile(f"pages per {pace.device} and day", f"{pace.pages_per_device_day:,.0f}", ""))
    if pace.cost_per_million_pages is not None:
        tiles.append(_tile("cost per million pages", f"{pace.cost_per_million_pages:,.2f}", ""))
    return element("div", *tiles, class_="tiles")


def _tile(title: str, value: str, tone: str) -> Html:
    return element("div", element("b", value), title, class_=f"tile {tone}".strip())


def _outcomes_section(pages: PageFacts) -> Html:
    total = pages.outcomes.total()
    rows: list[tuple[str | Html, ...]] = [
        (name.value, OUTCOME_WORDS[name], f"{pages.outcomes[name]:,}", f"{pages.outcomes[name] / total:.1%}")
        for name in Outcome
        if pages.outcomes[name]
    ]
    body = (
        table(("outcome", "means", "pages", "share"), rows, numbers_from=2)
        if rows
        else _nothing("No page is published yet.")
    )
    return joined(element("h2", "Pages by outcome"), body, *_retry_words(pages))


def _retry_words(pages: PageFacts) -> Iterator[Html]:
    if pages.dense_retries:
        yield element(
            "p",
            f"{pages.dense_retries:,} doubtful pages were read a second time without leaving image tokens out; "
            f"in {pages.changed_by_retry:,} of them the text changed. Both texts are kept.",
        )


def _reasons_section(pages: PageFacts) -> Html:
    if not pages.reasons:
        return Html("")
    rows: list[tuple[str | Html, ...]] = [
        (outcome, reason, words_for(reason), f"{count:,}")
        for (outcome, reason), count in pages.reasons.most_common()
    ]
    return joined(
        element("h2", "Reasons"),
        element("p", "A page without a reason is listed under the first of its flags.", class_="soft"),
        table(("outcome", "reason", "means, and what to do", "pages"), rows, numbers_from=3),
    )


def _documents_section(facts: TargetFacts) -> Html:
    documents = facts.documents
    known = {name.value: words for name, words in DOCUMENT_OUTCOME_WORDS.items()}
    rows: list[tuple[str | Html, ...]] = [
        (name, known.get(name, "Its pages are counted; some may not be read yet."), f"{count:,}")
        for name, count in documents.outcomes.most_common()
    ]
    parts = [
        element("h2", "Documents"),
        table(("outcome", "means", "documents"), rows, numbers_from=2)
        if rows
        else _nothing("No document is surveyed yet."),
        element("p", f"{documents.bytes / 1e6:,.1f} MB in all.", class_="soft"),
    ]
    if documents.quarantined:
        listed: list[tuple[str | Html, ...]] = [
            (uri, reason, words_for(reason), "; ".join(warnings))
            for uri, reason, warnings in documents.quarantined
        ]
        parts.append(element("h3", "Quarantined documents"))
        parts.append(
            table(("document", "reason", "means, and what to do", "noticed"), listed, numbers_from=9)
        )
        more = documents.outcomes[DocumentOutcome.QUARANTINED] - LISTED_DOCUMENTS
        if more > 0:
            parts.append(element("p", f"And {more:,} more; see {facts.status.root}/documents."))
    return joined(*parts)


def _cost_section(facts: TargetFacts, pace: Pace) -> Html:
    pages = facts.pages
    lines = [
        f"The pages have {pages.image_tokens:,} image tokens; {pages.output_tokens:,} tokens were written."
    ]
    if pace.device_seconds:
        lines.append(
            f"{pace.pages:,} pages were completed in {pace.device_hours:,.2f} {pace.device} hours; "
            "the hours are those in which OCR actors were up, interrupted runs included, model loading not."
        )
    lines += [f"{title.capitalize()}: {words}." for title, words in pace_words(pace)]
    if pace.price is None:
        lines.append(
            "No price is set; give --gpu-hour-price, or cluster.gpu_hour_price in the configuration."
        )
    else:
        lines.append(
            "Storage, network and the machines that draw pages cost extra unless the price includes them."
        )
    return joined(element("h2", "Work and cost"), *(element("p", line) for line in lines))


def _configuration_section(facts: TargetFacts) -> Html:
    settings: list[tuple[str | Html, ...]] = [
        (key, _USER_IN_ADDRESS.sub("//", "" if value is None else str(value)))
        for key, value in dict(facts.claim.get("config") or facts.claim["text_values"]).items()
    ]
    versions: list[tuple[str | Html, ...]] = [
        (name, str(version)) for name, version in dict(facts.claim.get("versions") or {}).items()
    ]
    return joined(
        element("h2", "Configuration"),
        element("p", f"Hash {facts.claim['hash']}, as the run was begun.", class_="soft"),
        element("details", element("summary", "Settings"), table(("key", "value"), settings, numbers_from=9)),
        element(
            "details", element("summary", "Versions"), table(("package", "version"), versions, numbers_from=9)
        ),
    )


def _nothing(words: str) -> Html:
    return element("p", words, class_="soft")
