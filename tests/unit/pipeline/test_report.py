"""The report tells what lies at a target, and shows every text as text."""

from collections import Counter
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.claim import claim_target
from pipeline.config import ConfigError, RunConfig
from pipeline.manifest import freeze
from pipeline.outcome_words import DOCUMENT_OUTCOME_WORDS, OUTCOME_WORDS, REASON_WORDS, words_for
from pipeline.planner import ShardLimits
from pipeline.report import build_report, write_report
from pipeline.report_charts import Curve, chart
from pipeline.report_facts import COUNT_COLUMNS, PageFacts, count_group, row_groups
from pipeline.report_html import element, visible
from tests.unit.pipeline.factory import manifest_page, page_row, surveyed
from tests.unit.pipeline.hostile_target import ATTACKS, PAGES, hostile_target
from workers.layout import part_key
from workers.object_store import LocalStore, StorageDamaged, StorageMissing
from workers.outcomes import DocumentOutcome, Outcome, Reason
from workers.schema import PAGE_SCHEMA, rows_to_table, table_to_parquet

DOCUMENT_TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "b", "div", "pre"}
TABLE_TAGS = {"table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
CHART_TAGS = {"figure", "figcaption", "svg", "line", "rect", "path", "text", "g"}
ALLOWED_TAGS = DOCUMENT_TAGS | TABLE_TAGS | CHART_TAGS
UNCLOSED = frozenset({"meta"})


class Outline(HTMLParser):
    """What a parser sees: tags, attribute names, texts of `pre`, and whether every tag is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.texts: list[str] = []
        self.everything = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        if tag not in UNCLOSED:
            self._open.append(tag)
        if tag == "pre":
            self.texts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.everything += data
        if self._open and self._open[-1] == "pre":
            self.texts[-1] += data


@given(st.text())
def test_any_text_comes_out_of_a_parser_as_it_went_in(text: str) -> None:
    outline = Outline(element("pre", text, class_=text))
    assert outline.tags == {"pre": 1}
    assert outline.texts == [visible(text)]
    assert not any(ord(character) < 0x20 and character not in "\n\t" for character in visible(text))


def test_what_does_not_show_is_made_visible() -> None:
    assert visible("a\0b\x1bc\x7f") == "a\u2400b\u241bc\u2421"
    assert visible("\u202eabc\ud800\u2028") == "⟨U+202E⟩abc⟨U+D800⟩⟨U+2028⟩"
    assert visible("one\r\ntwo\rthree\tfour") == "one\ntwo\nthree\tfour"
    assert visible("e\u0301 naïve 漢字 ÅÄÖ 👩‍🔬") == "e\u0301 naïve 漢字 ÅÄÖ 👩‍🔬"
    assert visible("o" + "\u0301" * 50) == "o" + "\u0301" * 4


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_report(hostile_target(tmp_path_factory.mktemp("hostile")))


def test_hostile_text_adds_no_tag_and_no_attribute(hostile_report: str) -> None:
    outline = Outline(hostile_report)
    assert set(outline.tags) <= ALLOWED_TAGS
    assert outline.tags["style"] == outline.tags["body"] == outline.tags["head"] == 1
    assert not [
        name for name in outline.attributes if name.startswith("on") or name in ("src", "href", "style")
    ]
    assert "url(" not in hostile_report
    assert "secret" not in hostile_report
    assert outline.tags["details"] == 2 * PAGES + 2


def test_texts_are_shown_whole_or_cut_and_say_so(hostile_report: str) -> None:
    outline = Outline(hostile_report)
    for place, attack in enumerate(ATTACKS):
        assert f"\n{visible(attack[:4000])}" in outline.texts
        if place % 2 == 0:
            assert f"\n{visible(f'before {attack}'[:4000])}" in outline.texts
    assert "And 46,000 more characters." in outline.everything
    assert f"{PAGES // 2 + 1} doubtful pages were read a second time" in outline.everything
    assert f"in {PAGES // 2 + 1} of them the text changed" in outline.everything


def test_numbers_speed_and_cost(hostile_report: str) -> None:
    everything = Outline(hostile_report).everything
    # 150 pages in 30 windows of 10 s: 43,200 a day; a GPU at 3.00 an hour costs 1,666.67 per million pages.
    assert "43,200 pages per GPU and day" in everything
    assert "1,666.67 per million pages" in everything
    assert "Pages read (pages/s)" in everything
    assert "OCR actors busy" in everything
    assert "1 files of measurements are damaged" in everything
    assert REASON_WORDS[Reason.ENCRYPTED] in everything


def test_long_lists_are_cut_and_say_how_many_more(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    rows = [page_row(manifest_page("a", index, 60), "failed") for index in range(60)]
    store.put(part_key(0), table_to_parquet(rows_to_table(rows), row_group_rows=7))
    facts = PageFacts(listed_per_reason=20)
    row_groups(store, part_key(0), COUNT_COLUMNS, PAGE_SCHEMA, partial(count_group, facts))
    ((key, listed),) = facts.listed.items()
    assert [page.page_index for page in listed] == list(range(20))
    assert facts.reasons[key] == 60
    from pipeline.report_listing import listing_sections

    assert "And 40 more with this reason" in "".join(listing_sections(facts, "target"))


def test_reasons_beyond_the_closed_list_do_not_grow_without_end(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    rows = [page_row(manifest_page("a", index, 300), f"odd {index}") for index in range(300)]
    table = rows_to_table(rows).set_column(11, "reason", [[f"reason {index}" for index in range(300)]])
    store.put(part_key(0), table_to_parquet(table))
    facts = PageFacts()
    row_groups(store, part_key(0), COUNT_COLUMNS, PAGE_SCHEMA, partial(count_group, facts))
    assert sum(facts.reasons.values()) == 300
    assert len({reason for _, reason in facts.reasons}) <= 41


def test_a_target_under_way_and_one_that_is_none(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "target"))
    with pytest.raises(StorageMissing):
        build_report(store)
    config = RunConfig(source="/scans", target=str(tmp_path / "target"))
    claim_target(store, config)
    assert "surveying" in Outline(build_report(store)).everything
    freeze(store, [surveyed("a", 3), surveyed("b", 0, Reason.CORRUPT)], 1, ShardLimits())
    everything = Outline(build_report(store)).everything
    assert "0 of 3 pages are read" in everything
    assert "Nothing was measured yet." in everything
    assert REASON_WORDS[Reason.CORRUPT] in everything
    assert "No price is set" in everything


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    store = hostile_target(tmp_path)
    whole = store.get(part_key(0))
    store.put(part_key(0), whole[: len(whole) // 2])
    with pytest.raises(StorageDamaged, match=r"part-00000\.parquet"):
        build_report(store)


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_report("<p>one</p>", tmp_path / "report.html")
    write_report("<p>two</p>", tmp_path / "report.html")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(ConfigError, match="cannot be written"):
        write_report("", tmp_path / "nowhere" / "report.html")


def test_every_outcome_and_reason_has_a_sentence() -> None:
    assert set(OUTCOME_WORDS) == set(Outcome)
    assert set(DOCUMENT_OUTCOME_WORDS) == set(DocumentOutcome)
    assert set(REASON_WORDS) == set(Reason)
    assert all(words_for(reason) for reason in Reason)
    assert words_for("<b>") == ""


@example([5e-324, None, 0.0], 10.0, False)
@given(
    st.lists(st.none() | st.floats(0, 1e12), max_size=50),
    st.floats(10, 1e6),
    st.booleans(),
)
def test_a_chart_of_any_values_is_well_formed(
    values: list[float | None], step_seconds: float, is_share: bool
) -> None:
    drawing = chart(Curve("title", "unit", 1.7e9, step_seconds, values, is_share))
    outline = Outline(drawing)
    assert set(outline.tags) <= ALLOWED_TAGS
    assert outline.tags["rect"] == len(values)
    assert "nan" not in drawing
    assert "inf" not in drawing
