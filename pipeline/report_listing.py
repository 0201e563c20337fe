"""The pages that need a look, by reason: what was noticed and the text as it stands in the target."""

from collections.abc import Iterator, Sequence

from pipeline.outcome_words import words_for
from pipeline.report_facts import ListedPage, PageFacts
from pipeline.report_html import Html, element, joined
from workers.outcomes import Outcome

TITLES = {Outcome.FLAGGED: "Flagged pages", Outcome.FAILED: "Failed pages"}


def listing_sections(pages: PageFacts, root: str) -> Iterator[Html]:
    """A section for flagged and one for failed pages, each in groups by reason, the largest first."""
    for outcome, title in TITLES.items():
        keys = sorted((key for key in pages.listed if key[0] == outcome), key=lambda key: -pages.reasons[key])
        if not keys:
            continue
        yield element("h2", title)
        for key in keys:
            yield _group(key[1], pages.reasons[key], pages.listed[key], root)


def _group(reason: str, count: int, listed: Sequence[ListedPage], root: str) -> Html:
    more = count - len(listed)
    parts = [
        element("h3", f"{reason}: {count:,} page{'' if count == 1 else 's'}"),
        element("p", words_for(reason), class_="soft"),
        *(_page(page) for page in listed),
    ]
    if more > 0:
        parts.append(element("p", f"And {more:,} more with this reason; they are rows of {root}/pages."))
    return joined(*parts)


def _page(page: ListedPage) -> Html:
    label = f", label {page.page_label}" if page.page_label else ""
    noticed = [f"flags: {', '.join(page.flags)}"] if page.flags else []
    if page.mean_logprob is not None:
        noticed.append(f"mean log-probability {page.mean_logprob:.2f}")
    if page.output_tokens is not None:
        noticed.append(f"{page.output_tokens} tokens written")
    if page.dense_retry:
        noticed.append("read a second time")
    parts = [element("summary", f"{page.source_uri}, page_index {page.page_index}{label}")]
    parts += [element("p", f"{'; '.join(noticed)}.", class_="soft")] if noticed else []
    parts += [element("p", f"Noticed: {warning}") for warning in page.warnings]
    parts.append(_texts(page))
    return element("details", *parts)


def _texts(page: ListedPage) -> Html:
    if page.text is None:
        return element("p", "There is no text.", class_="soft")
    text = _text(page.text, page.text_characters)
    if page.text_before_retry is None or page.text_before_retry == page.text:
        return text
    before = _text(page.text_before_retry, page.characters_before_retry)
    return element(
        "div",
        element("div", element("p", "Text of the first pass", class_="soft"), before),
        element("div", element("p", "Text after the second, dense pass", class_="soft"), text),
        class_="beside",
    )


def _text(text: str, characters: int) -> Html:
    # A browser drops the first line break inside <pre>; ours is there to be dropped.
    shown = element("pre", Html("\n"), text or "(empty)")
    if characters <= len(text):
        return shown
    return joined(shown, element("p", f"And {characters - len(text):,} more characters.", class_="soft"))
