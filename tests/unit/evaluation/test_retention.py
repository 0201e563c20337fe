"""What a sparse policy keeps of dense, from scores of pages to the tables that say it."""

from dataclasses import replace

from fastocr_core.bench import quality
from fastocr_core.evaluation.reader import ReaderScores, evaluate, facts, markdown
from fastocr_core.evaluation.retention import interval_words, retention, retentions
from fastocr_core.scores.bootstrap import Interval
from tests.unit.evaluation.test_readers import _page


def test_accuracy_is_compared_not_error() -> None:
    kept = retention([0.1] * 8, [0.0] * 8)
    assert kept is not None
    assert round(kept.value, 6) == round(kept.low, 6) == round(kept.high, 6) == 0.9
    assert retention([3.0], [0.5]) == Interval(0.0, 0.0, 0.0)  # never below nothing
    assert retention([], []) is None


def test_an_interval_in_words() -> None:
    assert interval_words(None) == "-"
    assert interval_words(Interval(0.9, 0.9, 0.9)) == "90.0%"
    assert interval_words(Interval(0.995, 0.98, 1.001), 2) == "99.50% (98.00% to 100.10%)"


def _scores(name: str, rates: list[float], version: str = "1") -> ReaderScores:
    class Nothing:
        def __init__(self) -> None:
            self.name, self.version = name, version

        def read(self, pages):  # type: ignore[no-untyped-def]
            from fastocr_core.evaluation.readers import Reading

            return iter(Reading("", (), 0.1) for _ in pages)

    pages = [replace(_page(f"p{index}", "abc"), part="ab"[index % 2]) for index in range(len(rates))]
    (read,) = evaluate([Nothing()], pages)
    rated = tuple(replace(score, cer=rate) for score, rate in zip(read.scores, rates, strict=True))
    return replace(read, scores=rated)


def test_a_table_of_readers_says_what_is_kept() -> None:
    dense = _scores("m dense", [0.0, 0.5, 0.0, 0.5])
    fast = _scores("m fastocr 5%", [0.0, 0.75, 0.0, 0.75])
    other = _scores("tesseract", [0.0] * 4)
    stranger = _scores("m fastocr 5%", [1.0] * 4, version="2")
    found = retentions([dense, fast, other, stranger])
    assert list(found) == ["m fastocr 5%"]
    values = {part: round(kept.value, 3) for part, kept in found["m fastocr 5%"].items() if kept}
    assert values == {"all": round(2.5 / 3, 3), "a": 1.0, "b": 0.5}
    text = markdown([dense, fast, other])
    assert "| pages of | m fastocr 5% |" in text
    assert "| b | 50.0% |" in text
    reported = facts([dense, fast, other])["readers"]
    assert isinstance(reported, list)
    assert reported[1]["accuracy_of_dense"]["b"]["value"] == 0.5
    assert "as a share of dense" not in markdown([dense, other])


def test_the_bench_prints_it() -> None:
    dense = quality.PolicyReport(
        "dense", 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, {}, 0, 0, 1.0, 1, 1, 1.0, 1.0, 1.0, {}, (0.0, 0.1, 0.0)
    )
    fast = replace(dense, policy="fastocr", kept_share=0.05, page_cer=(0.0, 0.1, 0.1))
    line = quality.table([dense, fast]).splitlines()[-1]
    assert line.startswith("fastocr: accuracy (1 - CER) 96.55% (")
    assert line.endswith("over 3 pages")
    assert quality.kept_of_dense([fast]) == {}
