"""How often a page is read: once, again turned, again densely; with the real engine and the toy model."""

import asyncio
from collections.abc import Sequence

import pytest
from PIL import Image, ImageDraw

from fastocr_core import DecodePolicy, Engine, EngineLimits
from fastocr_core.confidence import Thresholds
from fastocr_core.models.tiny import TinyAdapter
from fastocr_core.vision import model_vision
from workers.outcomes import Outcome, Reason
from workers.page_reader import PageReader, Reading
from workers.prepare import PagePackage, prepare_page
from workers.rasterize import RasterPage
from workers.second_pass import NO_BETTER

SPARSE = DecodePolicy.fastocr(kept_share=0.05, floor=2, warmup_steps=1)
ALWAYS_CONTENT, NEVER_CONTENT = Thresholds(-100.0, -100.0), Thresholds(0.0, -100.0)
IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


class SensibleTiny(TinyAdapter):
    """The toy, judged like a real model, which asks for the turns it is told to ask for."""

    def __init__(self, turns: Sequence[int] = ()) -> None:
        super().__init__()
        self.makes_sense = True
        self._turns = list(turns)
        self.max_output_tokens = 200  # the walk ends by itself

    def turn_wanted(self, tokens: Sequence[int]) -> int:
        return self._turns.pop(0) if self._turns else 0


def _package(seed: int = 0, size: tuple[int, int] = (500, 400)) -> PagePackage:
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for line in range(5):
        draw.text((40 + seed, 40 + 60 * line), f"line {line + seed} of a page", fill=0, font_size=30)
    raster = RasterPage(image, *map(float, size), 0, 72, 72.0, True, "rendered", (), IDENTITY, False)
    return prepare_page(raster, model_vision("tiny"))


def _read(
    model: TinyAdapter,
    policy: DecodePolicy,
    packages: Sequence[PagePackage],
    thresholds: Thresholds = ALWAYS_CONTENT,
) -> list[Reading]:
    reader = PageReader(model, policy, 2, EngineLimits(), thresholds=thresholds)

    async def run() -> list[Reading]:
        return list(await asyncio.gather(*map(reader.read, packages)))

    try:
        return asyncio.run(run())
    finally:
        reader.close()


def test_a_flagged_page_is_read_again_densely_and_both_texts_are_kept() -> None:
    packages = [_package(seed) for seed in range(4)]
    with Engine(SensibleTiny(), SPARSE, 2) as engine:
        sparse = list(engine.read(package.prepared for package in packages))
    with Engine(SensibleTiny(), DecodePolicy.dense(), 2) as engine:
        dense = list(engine.read(package.prepared for package in packages))
    assert [page.text for page in sparse] != [page.text for page in dense]
    readings = _read(SensibleTiny(), SPARSE, packages, NEVER_CONTENT)
    for reading, first, second in zip(readings, sparse, dense, strict=True):
        assert [page.text for page in reading.passes] == [first.text, second.text]
        better = second if second.mean_logprob >= first.mean_logprob else first
        assert (reading.page_text.text, reading.page_text.policy) == (better.text, better.policy)
        assert (NO_BETTER in reading.assessment.warnings) == (better is first)
        assert reading.assessment.outcome is Outcome.FLAGGED  # the judge is never content


def test_a_dense_run_reads_no_page_twice_and_a_good_page_is_read_once() -> None:
    (flagged,) = _read(SensibleTiny(), DecodePolicy.dense(), [_package()], NEVER_CONTENT)
    assert (flagged.passes, flagged.assessment.outcome) == ((), Outcome.FLAGGED)
    (good,) = _read(SensibleTiny(), SPARSE, [_package()])
    assert (good.passes, good.assessment.outcome) == ((), Outcome.OK)


def test_a_dense_pass_that_fails_leaves_the_first_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SensibleTiny()
    encode = model.encode
    seen: list[int] = []

    def only_once(page: object) -> object:
        seen.append(1)
        if len(seen) > 1:
            raise RuntimeError("no second time")
        return encode(page)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "encode", only_once)
    (reading,) = _read(model, SPARSE, [_package()], NEVER_CONTENT)
    assert reading.page_text.text
    assert reading.passes == ()
    assert reading.assessment.outcome is Outcome.FLAGGED
    assert any("no second time" in warning for warning in reading.assessment.warnings)


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_page_the_model_finds_turned_is_read_once_more_and_says_so(degrees: int) -> None:
    package = _package()
    (reading,) = _read(SensibleTiny(turns=[degrees, 0]), DecodePolicy.dense(), [package])
    assert reading.package.turn_applied == (360 - degrees) % 360
    straight = package.prepared
    turned = reading.package.prepared
    rows_and_columns = (straight.grid_rows, straight.grid_columns)
    expected = rows_and_columns if degrees == 180 else rows_and_columns[::-1]
    assert (turned.grid_rows, turned.grid_columns) == expected
    assert reading.assessment.warnings == ()
    with Engine(SensibleTiny(), DecodePolicy.dense(), 2) as engine:
        assert reading.page_text.text == next(iter(engine.read([turned]))).text


def test_a_model_that_is_never_content_keeps_its_first_reading() -> None:
    package = _package()
    (reading,) = _read(SensibleTiny(turns=[90, 90]), DecodePolicy.dense(), [package])
    (plain,) = _read(SensibleTiny(), DecodePolicy.dense(), [package])
    assert reading.page_text.text == plain.page_text.text
    assert reading.package.turn_applied == 0
    assert "was not content" in reading.assessment.warnings[0]


def test_a_page_that_takes_too_long_is_a_row_and_the_next_page_is_read() -> None:
    reader = PageReader(TinyAdapter(), DecodePolicy.dense(), 1, EngineLimits(seconds_per_page=1e-6))
    try:
        late = asyncio.run(reader.read(_package()))
        assert (late.assessment.outcome, late.assessment.reason) == (Outcome.FAILED, Reason.MODEL_TIMEOUT)
        assert late.page_text.output_tokens == 1
        reader.engine.limits = EngineLimits(seconds_per_page=None)
        assert asyncio.run(reader.read(_package())).page_text.output_tokens > 1
    finally:
        reader.close()
