"""Whether confidence separates pages read from pages not read, on made-up judgements and on real pages."""

import itertools
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core import DecodePolicy, load
from fastocr_core.evaluation.confidence import (
    ConfidenceStudy,
    JudgedPage,
    facts,
    judge_pages,
    markdown,
    study,
    write_thresholds,
)
from fastocr_core.evaluation.pages import held_out
from fastocr_core.evaluation.unreadable import SCRIPTS, other_scripts, upside_down, writing_hands
from fastocr_core.scores.roc import area_under_curve, roc_points, threshold_below

values = st.lists(st.floats(-5, 0, allow_nan=False), min_size=1, max_size=30)


def test_area_under_the_curve_by_hand() -> None:
    assert area_under_curve([1, 2], [0, -1]) == 1.0
    assert area_under_curve([0, 1], [0, 1]) == 0.5
    assert area_under_curve([0.0], [3.0]) == 0.0
    assert area_under_curve([], [1.0]) is None


@given(values, values)
def test_area_is_that_below_the_points(higher: list[float], lower: list[float]) -> None:
    points = roc_points(higher, lower)
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    pairs = list(itertools.pairwise(points))
    area = sum((one[0] - other[0]) * (one[1] + other[1]) / 2 for other, one in pairs)
    assert area == pytest.approx(area_under_curve(higher, lower))


@given(values, st.floats(0, 0.5))
def test_a_threshold_keeps_its_promise(good: list[float], allowed: float) -> None:
    cut = threshold_below(good, allowed)
    assert sum(value < cut for value in good) <= allowed * len(good) + 1e-6
    above = [value for value in good if value > cut]
    if above:  # the next value up would break it
        assert sum(value < min(above) for value in good) > allowed * len(good)


def _judged(count: int, cer: float, mean: float, part: str) -> list[JudgedPage]:
    return [
        JudgedPage(f"{part} {index}", part, cer, mean - index / 1000, 3 * mean - index / 1000, "stop")
        for index in range(count)
    ]


def _found(*groups: list[JudgedPage]) -> ConfidenceStudy:
    return study(load("tiny"), DecodePolicy.dense(), [page for group in groups for page in group])


def test_a_study_finds_what_separates(tmp_path: Path) -> None:
    found = _found(
        _judged(200, 0.01, -0.1, "clean"),
        _judged(30, 0.9, -1.5, "other script"),
        _judged(5, 0.5, -0.1, "clean"),
    )
    assert found.auc["mean"] is not None
    assert 0.85 < found.auc["mean"] < 0.99
    assert found.false_alarms is not None
    assert 0 < found.false_alarms <= 0.01
    assert found.detected == pytest.approx(30 / 35)
    text = markdown(found)
    assert "| other script | 30 | 0 | 30 | -1.5" in text
    json.dumps(facts(found))
    write_thresholds(found, tmp_path / "confidence.json")
    stored = json.loads((tmp_path / "confidence.json").read_text())
    assert stored["mean"] == pytest.approx(-0.298, abs=2e-3)
    assert (stored["revision"], stored["pages_read"], stored["pages_not_read"]) == ("1", 200, 35)


def test_without_a_page_read_there_is_no_threshold(tmp_path: Path) -> None:
    found = _found(_judged(3, 0.9, -1.0, "clean"))
    assert found.thresholds is found.auc["mean"] is found.false_alarms is found.detected is None
    assert "| mean | - | - |" in markdown(found)
    assert "- of the pages read and - of the others" in markdown(found)
    with pytest.raises(ValueError, match="0 pages read well and 3 not are too few"):
        write_thresholds(found, tmp_path / "confidence.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("read", "other"), [(99, 30), (3, 30), (200, 19)])
def test_few_pages_store_nothing_and_leave_what_is_there(read: int, other: int, tmp_path: Path) -> None:
    file = tmp_path / "confidence.json"
    file.write_text("of many pages")
    with pytest.raises(ValueError, match=f"{read} pages read well and {other} not are too few"):
        write_thresholds(_found(_judged(read, 0.01, -0.1, "clean"), _judged(other, 0.9, -1.5, "x")), file)
    assert file.read_text() == "of many pages"
    assert list(tmp_path.iterdir()) == [file]


@given(st.lists(st.floats(-3, -1e-6), min_size=100, max_size=130), st.integers(20, 30))
def test_what_is_stored_doubts_no_more_read_pages_than_it_says(means: list[float], others: int) -> None:
    """Rounded up, a threshold doubts the very page it was taken from."""
    judged = [JudgedPage(str(mean), "clean", 0.0, mean, 1.1 * mean, "stop") for mean in means]
    found = _found(judged, _judged(others, 0.9, -9.0, "x"))
    with tempfile.TemporaryDirectory() as folder:
        write_thresholds(found, Path(folder) / "confidence.json")
        stored = json.loads((Path(folder) / "confidence.json").read_text())
    doubted = sum(page.mean < stored["mean"] or page.window < stored["window"] for page in judged)
    assert doubted / len(judged) == found.false_alarms == stored["false_alarms"]
    assert stored["false_alarms"] <= 0.01


def test_unreadable_pages_show_something_and_come_again_the_same() -> None:
    pages, missing = other_scripts(2)
    assert len(pages) == 2 * (len(SCRIPTS) - len(missing))
    if not pages:
        pytest.skip("no font of another script on this machine")
    first, again = pages[0], other_scripts(2)[0][0]
    assert first.text == again.text
    assert first.load().tobytes() == again.load().tobytes()
    for page in pages[::2]:
        histogram = page.load().histogram()
        assert 0.01 < sum(histogram[:128]) / sum(histogram) < 0.3, page.name


def test_hands_and_turned_pages_keep_their_text() -> None:
    page = held_out(("clean",), 1)[0]
    (turned,) = upside_down([page])
    assert turned.text == page.text
    assert turned.load().getpixel((0, 0)) == page.load().getpixel(
        (page.load().width - 1, page.load().height - 1)
    )
    hands, _ = writing_hands([("a page", page.text or "")])
    assert all(hand.text == page.text for hand in hands)


def test_pages_are_read_and_judged() -> None:
    pages = held_out(("clean",), 2)
    loose = replace(pages[0], exact=False)  # its order is not to be taken at its word: no CER to judge by
    judged = judge_pages(load("mini"), [*pages, loose], DecodePolicy.dense(), 2, max_output_tokens=30)
    assert len(judged) == 2  # the blank leaf has no text to be judged by
    assert all(page.cer > 0.5 and not page.is_read for page in judged)  # after thirty tokens
    with pytest.raises(ValueError, match="no page whose text is known word for word"):
        judge_pages(load("mini"), [loose], DecodePolicy.dense())
    assert all(math.isfinite(page.mean) and page.window <= page.mean + 1e-9 for page in judged)
