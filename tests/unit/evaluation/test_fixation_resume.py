"""A study of fixation carries on only what belongs to the same pages, and tries again what failed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fastocr_core import load
from fastocr_core.evaluation import fixation
from fastocr_core.evaluation.fixation import FixationStudy
from fastocr_core.evaluation.fixation_settings import FixationSettings
from fastocr_core.evaluation.pages import EvaluationPage, held_out
from fastocr_core.models.base import ModelAdapter

SETTINGS = FixationSettings(
    kept_shares=(0.1,), groups=(), warmups=(), focal_counts=(), page_focal_counts=(), forced_pages=1,
    forced_steps=24, max_output_tokens=24, batch=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny() -> ModelAdapter:
    return load("tiny")


def _top(page: EvaluationPage) -> EvaluationPage:
    def load_top() -> Image.Image:
        image = page.load()
        return image.crop((0, 0, image.width, 100))

    return replace(page, load=load_top)


@pytest.fixture
def pages() -> list[EvaluationPage]:
    return [_top(page) for page in held_out(("clean",), 3) if page.text]


def _inverted(page: EvaluationPage) -> EvaluationPage:
    return replace(page, load=lambda: page.load().point(lambda value: 255 - value))


def test_other_pages_are_refused(tiny: ModelAdapter, pages: list[EvaluationPage], tmp_path: Path) -> None:
    """The first page and their number are the same every time."""
    file = tmp_path / "study.jsonl"
    first, second, third = pages
    FixationStudy(tiny, [first, second], SETTINGS, file=file)
    FixationStudy(tiny, [first, second], SETTINGS, file=file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match="made with another image or text of pages, list of pages"):
        FixationStudy(tiny, [first, third], SETTINGS, file=file)
    for other in (_inverted(second), replace(second, text="another text"), replace(second, dpi=400.0)):
        with pytest.raises(ValueError, match="made with another image or text of pages: "):
            FixationStudy(tiny, [first, other], SETTINGS, file=file)
    assert file.read_bytes() == before
    with pytest.raises(ValueError, match="two pages have the name"):
        FixationStudy(tiny, [first, first], SETTINGS)


def test_layers_that_the_model_has_not_are_refused(tiny: ModelAdapter, pages: list[EvaluationPage]) -> None:
    with pytest.raises(ValueError, match="and so no layer 99"):
        FixationStudy(tiny, pages, replace(SETTINGS, focal_sets=((0, 99),)))


@pytest.mark.parametrize("failing", ["dense", "fastocr"])
def test_readings_that_failed_are_tried_again(
    tiny: ModelAdapter,
    pages: list[EvaluationPage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
) -> None:
    file = tmp_path / "study.jsonl"
    pages = pages[:2]
    reads = fixation.read_by_many

    def failing_once(model: Any, readings: Any, *more: Any) -> Iterator[Any]:
        for number, result in reads(model, readings, *more):
            if number == 0 and readings[number].policy.name == failing:
                result = replace(result, text="", error="RuntimeError: out of luck", finish_reason="error")
            yield number, result

    with monkeypatch.context() as patch:
        patch.setattr(fixation, "read_by_many", failing_once)
        rows = FixationStudy(tiny, pages, SETTINGS, file=file).run()
    noted = {row.label: row.note for row in rows}
    assert noted == {"dense": "", "fastocr": ""} | {failing: "1 pages failed"}
    assert "out of luck" not in file.read_text()
    said: list[str] = []
    again = FixationStudy(tiny, pages, SETTINGS, said.append, file).run()
    assert said[0] == "1 readings of pages to do"
    assert again == FixationStudy(tiny, pages, SETTINGS).run()  # as if nothing had failed


def test_readings_that_were_stopped_earlier_than_now_are_made_again(
    tiny: ModelAdapter, pages: list[EvaluationPage], tmp_path: Path
) -> None:
    """The longest dense text failed at first, so that all others were stopped as endless too early."""
    settings = replace(SETTINGS, max_output_tokens=60, forced_pages=0)
    file = tmp_path / "study.jsonl"
    rows = FixationStudy(tiny, pages[:1], settings, file=file).run()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[1:]:
        if '"fastocr"' in line["key"][1]:
            line["value"] |= {"finish": "length", "output_tokens": 30, "cer": 1.0}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert FixationStudy(tiny, pages[:1], settings, file=file).run() == rows


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda value: value.pop("cer"), "without cer"),
        (lambda value: value.update(more=1), "with an unknown more"),
        (lambda value: value.update(cer="high"), "with 'high' as cer"),
        (lambda value: value.update(tokens=[1, "two"]), "with 'two' as tokens"),
    ],
)
def test_a_record_with_other_fields_is_named(
    tiny: ModelAdapter, pages: list[EvaluationPage], tmp_path: Path, change: Any, sentence: str
) -> None:
    file = tmp_path / "study.jsonl"
    FixationStudy(tiny, pages[:1], SETTINGS, file=file).run()
    lines = file.read_text().splitlines()
    entry = json.loads(lines[1])
    change(entry["value"])
    lines[1] = json.dumps(entry)
    file.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(ValueError, match=f"study.jsonl, line 2: .*{sentence}"):
        FixationStudy(tiny, pages[:1], SETTINGS, file=file)
    lines[1] = '{"key": ["weather"], "value": 1}'
    file.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(ValueError, match="an unknown kind 'weather'"):
        FixationStudy(tiny, pages[:1], SETTINGS, file=file)
