"""The pages every OCR actor reads first: a reader that gets them wrong is refused, a toy is not asked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastocr_core import DecodePolicy, Engine, load
from tests.support.toy_job import toy_job
from tests.unit.workers.test_rows import TEXT
from workers.recognize import RecognizeShards
from workers.self_test import KNOWN_TEXTS, SelfTestError, check_reader, known_page


def _engine_that_reads(texts: list[str], error: str | None = None) -> Any:
    def read(pages: Iterator[object]) -> Iterator[object]:
        for _, text in zip(pages, texts, strict=True):
            yield replace(TEXT, text=text, error=error)

    return SimpleNamespace(read=read, model=SimpleNamespace(name="some-model"))


def test_known_pages_differ_and_show_print() -> None:
    first, second = map(known_page, KNOWN_TEXTS)
    assert first.tobytes() != second.tobytes()
    assert min(first.getextrema()) < 60


def test_the_right_text_passes_in_any_layout() -> None:
    assert check_reader(_engine_that_reads(list(KNOWN_TEXTS))) == 1.0
    markdown = [f"# {text.replace(chr(10), '  ' + chr(10) * 2).upper()}" for text in KNOWN_TEXTS]
    assert check_reader(_engine_that_reads(markdown)) == 1.0


@pytest.mark.parametrize(
    "texts", [["", ""], [KNOWN_TEXTS[1], KNOWN_TEXTS[0]], ["the the the of of"] * 2, [KNOWN_TEXTS[0], ""]]
)
def test_a_wrong_text_is_refused_with_what_was_read(texts: list[str]) -> None:
    with pytest.raises(SelfTestError, match="some-model fails its self-test"):
        check_reader(_engine_that_reads(texts))
    with pytest.raises(SelfTestError, match="MemoryError"):
        check_reader(_engine_that_reads(["", ""], "MemoryError: none left"))


def test_the_embedded_reader_passes_and_one_with_broken_weights_does_not() -> None:
    model = load("mini")
    with Engine(model, DecodePolicy.fastocr(), 2) as engine:
        assert check_reader(engine) >= 0.7
    reader = cast("Any", model).reader
    reader.head.weight.data = reader.head.weight.data.flip(0)
    with Engine(model, DecodePolicy.fastocr(), 2) as engine, pytest.raises(SelfTestError):
        check_reader(engine)


def test_a_toy_is_not_asked_and_a_real_reader_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("workers.recognize.check_reader", lambda engine: asked.append(engine.model.name))
    RecognizeShards(toy_job(tmp_path)).close()
    assert asked == []
    monkeypatch.setattr("workers.recognize._loaded", lambda job, place: _sensible())
    RecognizeShards(toy_job(tmp_path)).close()
    RecognizeShards(toy_job(tmp_path, self_test=False)).close()
    assert asked == ["tiny"]


def _sensible() -> Any:
    model = load("tiny")
    model.makes_sense = True
    return model
