"""Reading with the pen held, and what is measured of single steps."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from fastocr_core import DecodePolicy, Engine, load
from fastocr_core.evaluation.contenders import FastOcrRead, baseline, equal_bytes
from fastocr_core.evaluation.fixation import FixationRow, FixationSettings, FixationStudy, facts
from fastocr_core.evaluation.fixation_report import draw_figure, markdown
from fastocr_core.evaluation.forced import ForcedStep, forced_choices
from fastocr_core.evaluation.pages import EvaluationPage, held_out
from fastocr_core.evaluation.step_measures import (
    StepMeasures,
    dense_page,
    hit_share,
    measure_steps,
    recovered_mass,
)
from fastocr_core.evaluation.true_cells import character_cells
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini import alphabet
from fastocr_core.scores.bootstrap import Interval, ratio_interval
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of

STEPS = 60


@pytest.fixture(scope="module")
def mini() -> ModelAdapter:
    return load("mini")


@pytest.fixture(scope="module")
def view(mini: ModelAdapter) -> PreparedPage:
    image = held_out(("clean",), 1)[0].load()
    return prepare(image.crop((0, 0, image.width, 200)), mini.vision)


def _top(page: EvaluationPage) -> EvaluationPage:
    """The first lines of a page, which take a tenth of the time."""

    def load_top() -> Image.Image:
        image = page.load()
        return image.crop((0, 0, image.width, 160))

    return replace(page, load=load_top)


@pytest.fixture(scope="module")
def tokens() -> tuple[int, ...]:
    """What a reader without fault would write of the page's beginning, its places apart."""
    words = held_out(("clean",), 1)[0].words[:14]
    written: list[int] = []
    for word, (left, top, _, _) in words:
        written += [alphabet.row_token(top), alphabet.column_token(left)]
        written += [alphabet.CHARACTER_ID[letter] for letter in word]
    return tuple(written[:STEPS])


@pytest.mark.parametrize("name", ["dense", "fastocr", "fastv", "h2o", "snapkv", "pyramidkv"])
def test_a_policy_held_along_its_own_text_writes_it(name: str) -> None:
    """The engine and the held pen are two ways through the same steps."""
    model, page, policy = RandomAdapter(), page_of(80), DecodePolicy.named(name)
    with Engine(model, policy, 1) as engine:
        (result,) = engine.read([page])
    assert len(result.tokens) == model.max_output_tokens
    held = forced_choices(model, policy, page, result.tokens, lambda step: None)
    assert tuple(held[: len(result.tokens)]) == result.tokens


def test_what_steps_see(mini: ModelAdapter, view: PreparedPage, tokens: tuple[int, ...]) -> None:
    seen: dict[str, list[ForcedStep]] = {}
    for policy in (
        DecodePolicy.dense(),
        DecodePolicy.fastocr(0.05),
        DecodePolicy.named("visionzip", variant="norm"),
    ):
        seen[policy.name] = []
        forced_choices(mini, policy, view, tokens, seen[policy.name].append, lambda index: index == 3)
    dense = seen["dense"][2]
    assert dense.attention is not None
    assert dense.attention.shape[-1] == view.image_tokens
    assert dense.sets == (None,) * mini.shape.layers
    assert seen["dense"][3].attention is None
    fast = seen["fastocr"]
    assert fast[10].sets == (None,) * mini.shape.layers
    (focal,) = mini.focal_layers
    sets = fast[30].sets
    assert sets is not None
    assert [chosen is None for chosen in sets] == [layer == focal for layer in range(mini.shape.layers)]
    zipped = seen["visionzip"][5].sets
    assert zipped is not None
    assert zipped[0] is not None
    assert zipped[0].shape[1] < view.image_tokens
    assert int(zipped[0].max()) > zipped[0].shape[1]  # numbers of the page, not of the compressed prompt


def test_dense_agrees_with_itself_and_keeping_everything_too(
    mini: ModelAdapter, view: PreparedPage, tokens: tuple[int, ...]
) -> None:
    dense = dense_page(mini, view, tokens, {25: 0}, 4)
    for policy in (DecodePolicy.dense(), DecodePolicy.fastocr(1.0)):
        measures = StepMeasures()
        measure_steps(mini, policy, dense, 17, measures)
        assert measures.agreement == 1.0
        assert measures.mass == pytest.approx(1.0, abs=1e-3)
    few = StepMeasures()
    measure_steps(mini, DecodePolicy.fastocr(0.02, floor=1), dense, 17, few)
    assert few.mass is not None
    assert few.mass < 1.0
    assert len(few.hits) == 1


def test_mass_and_hits_by_hand() -> None:
    attention = torch.tensor([[[[0.2, 0.2, 0.0, 0.0]]], [[[0.1, 0.0, 0.3, 0.0]]]])  # two layers, one head
    sets = (None, torch.tensor([[1, 2]]))
    assert recovered_mass(sets, attention) == pytest.approx((1 + 0.75) / 2)
    heads = (None, torch.tensor([[1, 2], [0, 2]]))
    assert hit_share(heads, 1) == 0.5
    assert hit_share(heads, 2) == 1.0
    assert hit_share((None, None), 2) is None
    assert StepMeasures().agreement is StepMeasures().mass is StepMeasures().hit_rate is None


def test_letters_are_found_in_their_cells(mini: ModelAdapter) -> None:
    """Ink lies where the cells say, on a page drawn for this."""
    words = [
        ("one", (40.0, 100.0, 66.0, 109.5)),
        ("gap", (80.0, 100.0, 106.0, 113.0)),
        ("xx", (300.0, 500.0, 320.0, 509.5)),
    ]
    page = PreparedPage((), 40, 20, 800, "page", 1, 1, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), 640, 640, 1.0, 0.1)
    tokens = []
    for word, (left, top, _, _) in words:
        tokens += [alphabet.row_token(top), alphabet.column_token(left)]
        tokens += [alphabet.CHARACTER_ID[letter] for letter in word.replace("xx", "xy")]
    cells = character_cells(words, tokens, page, mini.vision, mini.image_grid(page))
    row = 104 // 16
    assert cells == {
        2: row * 20 + 1, 3: row * 20 + 1, 4: row * 20 + 1,
        7: row * 20 + 2, 8: row * 20 + 2, 9: row * 20 + 3,
    }  # fmt: skip


def test_retention_and_its_interval() -> None:
    dense = [1.0, 0.8, 0.9, 1.0, 0.5] * 8
    half = ratio_interval([value / 2 for value in dense], dense)
    assert half == Interval(pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))  # type: ignore[arg-type]
    noisy = ratio_interval([value * (index % 2) for index, value in enumerate(dense)], dense)
    assert noisy is not None
    assert noisy.low < noisy.value < noisy.high
    assert ratio_interval([], []) is ratio_interval([1.0], [0.0]) is None
    with pytest.raises(ValueError, match="1 pages against 2"):
        ratio_interval([1.0], [1.0, 1.0])


def test_baselines_are_fitted_to_the_model() -> None:
    assert baseline("fastv", "", 0.1, 6, True).prune_layer == 1
    assert baseline("visionzip", "attention", 0.1, 6, False).chosen_variant == "norm"
    rows = list(equal_bytes([FastOcrRead(0.05, 0.1, 1000, 500)], 6, False))
    assert {row.share for row in rows} == {0.05}
    assert rows[0].policy is None  # one whole layer of six is more than a tenth
    snap = next(row for row in rows if row.label == "snapkv, 1d")
    assert snap.policy is not None
    assert snap.policy.kept_share == pytest.approx(0.1)


@pytest.mark.slow
def test_a_study_from_reading_to_figure(mini: ModelAdapter, tmp_path: Path) -> None:
    settings = FixationSettings(
        kept_shares=(0.05,), groups=("choice", "bytes"), warmups=(4,), focal_sets=((1, 3),), focal_counts=(2,),
        batch=2, max_output_tokens=24, forced_pages=1, forced_steps=24,
    )  # fmt: skip
    pages = [_top(page) for page in held_out(("clean",), 2)]
    study = FixationStudy(mini, pages, settings)
    rows = study.run()
    assert [row.label for row in rows[:5]] == [
        "dense", "fastocr", "fastocr, w = 4", "fastocr, focal layers 1, 3",
        "fastocr, 2 focal layers by page",
    ]  # fmt: skip
    dense, fast = rows[0], rows[1]
    assert dense.agreement == dense.mass == dense.read_share == 1.0
    assert dense.hit_rate is None
    assert fast.read_share is not None
    assert 0.15 < fast.read_share < 0.35
    assert fast.mass is not None
    assert 0 < fast.mass < 1
    equal = {row.label: row for row in rows if row.group == "bytes" and row.share == 0.05}
    assert equal["snapkv, 1d"].read_share == pytest.approx(fast.read_share, abs=0.02)
    text = markdown(rows, mini.name, len(study.pages))
    assert text.count("### ") == 3
    assert "visionzip by token norm (not as published)" in text
    draw_figure(rows, tmp_path / "figure.png", mini.name)
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.width > 1000
    report = json.loads(json.dumps(facts(study, rows)))
    assert len(report["rows"]) == len(rows)
    assert len(report["pages"]) == 2


def test_a_policy_that_cannot_run_is_a_row_with_a_note() -> None:
    row = FixationRow("bytes", "fastv, K = 1", 0.0, 0.02, note="cannot read that little")
    assert "| fastv, K = 1 | 2% | cannot read that little |" in markdown([row], "m", 1)
    one_page = FixationRow("fastocr", "fastocr", 0.05, 0.05, 0.1, Interval(0.9, 0.9, 0.9), 0.2, 1.0)
    assert "| 90.0% | - |" in markdown([one_page], "m", 1)
    more = replace(one_page, retention=Interval(0.9, 0.8, 0.95))
    assert "| 90.0% (80.0% to 95.0%) | - |" in markdown([more], "m", 9)
    with pytest.raises(ValueError, match="no page with text"):
        FixationStudy(load("tiny"), [], FixationSettings())
