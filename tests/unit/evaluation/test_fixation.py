"""Reading with the pen held, what is measured of single steps, and studies of it that can be stopped."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from fastocr_core import DecodePolicy, Engine, load
from fastocr_core.decoding.measuring import LayerMasses
from fastocr_core.evaluation import fixation
from fastocr_core.evaluation.contenders import FastOcrRead, baseline, equal_bytes, nominal
from fastocr_core.evaluation.fixation import FixationStudy, facts
from fastocr_core.evaluation.fixation_figure import draw_figure
from fastocr_core.evaluation.fixation_report import beside, markdown
from fastocr_core.evaluation.fixation_rows import FixationRow, row_facts, row_from
from fastocr_core.evaluation.fixation_settings import FixationSettings
from fastocr_core.evaluation.focal_search import grown
from fastocr_core.evaluation.forced import ForcedStep, held_pens
from fastocr_core.evaluation.pages import EvaluationPage, held_out
from fastocr_core.evaluation.step_measures import (
    DensePage,
    StepMeasures,
    dense_page,
    hit_share,
    layer_focus,
    measure_steps,
    recovered_mass,
    strongest_seen,
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


def test_policies_held_along_their_own_text_write_it() -> None:
    """The engine for each and the held pens of all at once are two ways through the same steps."""
    model, page = RandomAdapter(), page_of(80)
    policies = [
        DecodePolicy.named(name) for name in ("dense", "fastocr", "fastv", "h2o", "snapkv", "pyramidkv")
    ]
    for policy in policies:
        with Engine(model, policy, 1) as engine:
            (result,) = engine.read([page])
        assert len(result.tokens) == model.max_output_tokens
        held = held_pens(model, [DecodePolicy.dense(), policy], page, result.tokens, lambda which, step: None)
        assert tuple(held[1][: len(result.tokens)]) == result.tokens


def test_what_steps_see(mini: ModelAdapter, view: PreparedPage, tokens: tuple[int, ...]) -> None:
    policies = [
        DecodePolicy.dense(),
        DecodePolicy.fastocr(0.05),
        DecodePolicy.named("visionzip", variant="norm"),
    ]
    seen: list[dict[int, ForcedStep]] = [{}, {}, {}]

    def note(which: int, step: ForcedStep) -> None:
        seen[which][step.index] = step

    wanted = (3, 4, 6, 11, 31)
    held_pens(mini, policies, view, tokens, note, lambda index: index == 3, lambda index: index in wanted)
    dense, fast, zipped = seen
    assert tuple(dense) == wanted
    assert dense[3].attention is not None
    assert dense[3].attention.shape[-1] == view.image_tokens
    assert dense[3].sets == (None,) * mini.shape.layers
    assert dense[4].attention is None
    assert fast[11].sets == (None,) * mini.shape.layers
    sets = fast[31].sets
    assert sets is not None
    focal = mini.focal_layers
    assert [chosen is None for chosen in sets] == [layer in focal for layer in range(mini.shape.layers)]
    sets = zipped[6].sets
    assert sets is not None
    assert sets[0] is not None
    assert sets[0].shape[1] < view.image_tokens
    assert int(sets[0].max()) > sets[0].shape[1]  # numbers of the page, not of the compressed prompt


def test_dense_agrees_with_itself_and_keeping_everything_too(
    mini: ModelAdapter, view: PreparedPage, tokens: tuple[int, ...]
) -> None:
    dense = dense_page(mini, view, tokens, {25: 0}, 4)
    policies = [DecodePolicy.dense(), DecodePolicy.fastocr(1.0), DecodePolicy.fastocr(0.02, floor=1)]
    same, everything, few = measure_steps(mini, policies, dense, 17)
    assert same.agreement == everything.agreement == same.mass == 1.0
    assert same.hit_rate is same.strongest_rate is None
    assert everything.mass == pytest.approx(1.0, abs=1e-3)
    assert everything.strongest_rate == everything.hit_rate == 1.0
    assert few.mass is not None
    assert few.mass < 1.0
    assert few.strongest_rate is not None
    assert few.strongest_rate < 1.0
    assert few.hit_steps == 1


def test_measures_by_hand() -> None:
    attention = torch.tensor([[[[0.2, 0.2, 0.0, 0.0]]], [[[0.1, 0.0, 0.3, 0.0]]]])  # two layers, one head
    sets = (None, torch.tensor([[1, 2]]))
    assert recovered_mass(sets, attention) == pytest.approx((1 + 0.75) / 2)
    assert strongest_seen(sets, attention) == 0.5  # of 0 and 2
    assert strongest_seen((None, None), attention) is None
    heads = (None, torch.tensor([[1, 2], [0, 2]]))
    assert hit_share(heads, 1) == 0.5
    assert hit_share(heads, 2) == 1.0
    assert hit_share((None, None), 2) is None
    empty = StepMeasures()
    assert empty.agreement is empty.mass is empty.hit_rate is empty.strongest_rate is None
    total = StepMeasures()
    for _ in range(2):
        total.add(StepMeasures(4, 3, 2, 1.0, 1, 1.0))
    assert (total.agreement, total.mass, total.hit_rate) == (0.75, 0.5, 1.0)
    page = DensePage(page_of(4), (), (), {8: attention, 16: attention.flip(3), 2: attention}, {16: 1, 8: 3})
    focus = layer_focus(page, 1, 4)
    assert (focus.steps, focus.hit_steps) == (2, 2)
    assert focus.mass == pytest.approx((1.0, 1.5))
    assert focus.hits[1] == 1.0  # step 16 puts its strongest on cell 1


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
    assert baseline("fastv", "", 0.1, 6).prune_layer == 1
    rows = list(equal_bytes([FastOcrRead(0.05, 0.1, 1000, 500)], 6, False))
    assert {row.share for row in rows} == {0.05}
    assert rows[0].policy is None  # one whole layer of six is more than a tenth
    assert rows[0].note == "cannot read that little"
    snap = next(row for row in rows if row.label == "snapkv, 1d")
    assert snap.policy is not None
    assert snap.policy.kept_share == pytest.approx(0.1)
    without = [row for row in nominal((0.02, 0.05), 6, False) if row.label.startswith("visionzip")]
    assert [(row.label, row.policy is None) for row in without] == [
        ("visionzip", True), ("visionzip by token norm (not as published)", False),
    ]  # fmt: skip
    assert "no attention" in without[0].note
    scored = [row.share for row in nominal((0.02, 0.05), 6, True) if row.label == "visionzip"]
    assert scored == [0.02, 0.05]


def test_focal_layers_are_added_where_most_is_gained() -> None:
    same = ((1.0, 0.9, 0.1, 0.1), (0.0, 1.0, 0.2, 0.1), (0.0, 0.0, 1.0, 0.9), (0.0, 0.0, 0.0, 1.0))
    masses = LayerMasses((1.0,) * 4, same, ((0.1,) * 4,) * 4, 1)
    assert grown(masses, (0,), 2) == (0, 2)
    assert grown(masses, (3,), 1) == (3,)


@pytest.mark.slow
def test_a_study_that_is_stopped_carries_on(
    mini: ModelAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = FixationSettings(
        kept_shares=(0.05,), groups=("choice", "bytes"), warmups=(4,), focal_sets=((1, 3),), focal_counts=(2,),
        page_focal_counts=(2,), baseline_pages=1, batch=8, max_output_tokens=24, forced_pages=1, forced_steps=24,
    )  # fmt: skip
    pages, file = [_top(page) for page in held_out(("clean",), 2)], tmp_path / "study.jsonl"
    said: list[str] = []

    def stop(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fixation, "measure_steps", stop)
        with pytest.raises(KeyboardInterrupt):
            FixationStudy(mini, pages, settings, said.append, file).run()
    assert any("readings of pages to do" in line for line in said)
    file.write_text(file.read_text() + '{"key": ["held", "cut o')  # the line that was being written
    with monkeypatch.context() as patch:
        patch.setattr(
            fixation, "read_by_many", lambda model, readings, *rest: iter([stop()] if readings else [])
        )
        study = FixationStudy(mini, pages, settings, file=file)
        rows = study.run()  # reads no page again
    assert [row.label for row in rows[:6]] == [
        "dense", "fastocr", "fastocr, w = 4", "fastocr, |C| = 2, layers 1, 3", rows[4].label, rows[5].label,
    ]  # fmt: skip
    assert rows[4].label.startswith("fastocr, |C| = 2, own and more, layers ")
    dense, fast = rows[0], rows[1]
    assert dense.mass == dense.read_share == 1.0
    assert dense.hit_rate is None
    assert dense.agreement == pytest.approx(1.0, abs=0.2)  # nothing but rounding can differ
    assert len(dense.layers) == mini.shape.layers
    assert fast.read_share is not None
    assert 0.15 < fast.read_share < 0.35
    assert fast.mass is not None
    assert 0 < fast.mass < 1
    assert (fast.pages, rows[-1].pages) == (2, 1)
    equal = {row.label: row for row in rows if row.group == "bytes" and row.share == 0.05}
    assert equal["snapkv, 1d"].read_share == pytest.approx(fast.read_share, abs=0.02)
    with pytest.raises(ValueError, match="made with another forced_steps"):
        FixationStudy(mini, pages, replace(settings, forced_steps=30), file=file)
    _check_report(study, rows, tmp_path)


def _check_report(study: FixationStudy, rows: list[FixationRow], folder: Path) -> None:
    text = markdown(rows, study.model.name, len(study.pages))
    assert text.count("### ") == 4
    assert "visionzip by token norm (not as published)" in text
    draw_figure(rows, folder / "figure.png", study.model.name, 1)
    with Image.open(folder / "figure.png") as figure:
        assert figure.width > 1000
    report = json.loads(json.dumps(facts(study, rows)))
    assert len(report["pages"]) == 2
    assert [row_from(row) for row in report["rows"]] == rows
    both = beside([report, report], ["guided", "annealed"])
    assert both.count("| fastocr 5% |") == 2
    assert "true cell among them, annealed" in both


def test_studies_beside_each_other_are_named_and_fit() -> None:
    dense = FixationRow("dense", "dense", 1.0, 1.0, mean_cer=0.01, read_share=1.0)
    gone = replace(dense, group="fastocr", label="fastocr", kept_share=0.05, share=0.05, mean_cer=0.5)
    study = {"evaluation": "fixation", "model": "m", "revision": "1", "pages": ["a"]}
    guided = {**study, "rows": [row_facts(dense), row_facts(gone)]}
    annealed = {**study, "rows": [row_facts(replace(dense, mean_cer=0.2))]}
    text = beside([guided, annealed], ["guided", "annealed"])
    assert "| dense | guided | 1.0% |" in text
    assert "| dense | annealed | 20.0% |" in text
    assert "| fastocr 5% |" not in text  # only one of them has it
    with pytest.raises(ValueError, match="2 studies need as many names, not 1"):
        beside([guided, annealed], ["guided"])
    with pytest.raises(ValueError, match="no result of"):
        beside([guided, {"evaluation": "reader"}], ["guided", "annealed"])
    with pytest.raises(ValueError, match="no row of a fixation study"):
        row_from({"group": "dense", "nonsense": 1})


def test_a_policy_that_cannot_run_is_a_row_with_a_note() -> None:
    row = FixationRow("bytes", "fastv, K = 1", 0.0, 0.02, note="cannot read that little")
    assert "| fastv, K = 1 | 2% | cannot read that little |" in markdown([row], "m", 1)
    one_page = FixationRow(
        "fastocr",
        "fastocr",
        0.05,
        0.05,
        pages=1,
        mean_cer=0.1,
        retention=Interval(0.9, 0.9, 0.9),
        read_share=0.2,
    )
    assert "| 90.0% | - |" in markdown([one_page], "m", 1)
    more = replace(one_page, retention=Interval(0.9, 0.8, 0.95))
    assert "| 90.0% (80.0% to 95.0%) | - |" in markdown([more], "m", 9)
    with pytest.raises(ValueError, match="no page with text"):
        FixationStudy(load("tiny"), [], FixationSettings())
