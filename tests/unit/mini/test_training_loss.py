"""What the training asks for: rare places count more than ordinary ones, and the guidance can fade."""

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet
from fastocr_core.models.mini.train import decoder, samples
from fastocr_core.models.mini.train.decoder import DecoderSchedule, _partly_silent, place_weights
from fastocr_core.models.mini.train.fonts import Face
from fastocr_core.models.mini.train.texts import LANGUAGES


def _row(band: int) -> int:
    return alphabet.FIRST_ROW + band


def test_leaps_ends_and_starts_count_more_than_steps() -> None:
    letter, column = alphabet.FIRST_CHARACTER, alphabet.FIRST_COLUMN
    tokens = [
        _row(3), column, letter, _row(5), column, letter, _row(20), column, _row(4), column, letter, alphabet.END, alphabet.PAD,
    ]  # fmt: skip
    weights = place_weights(torch.tensor([tokens]))[0].tolist()
    expected = [1.0] * len(tokens)
    expected[0] = decoder.START_WEIGHT
    expected[6] = decoder.LEAP_WEIGHT  # past a wide gap
    expected[8] = decoder.LEAP_WEIGHT  # up to the top of the next column
    expected[11] = decoder.END_WEIGHT
    assert weights == expected


def test_words_behind_gaps_and_lines_that_begin_elsewhere_count_more() -> None:
    letter, column = alphabet.FIRST_CHARACTER, alphabet.FIRST_COLUMN
    tokens = [
        _row(3), column + 4, letter, letter, column + 8, letter, column + 17, letter,  # close, then behind a gap
        _row(5), column + 4, letter, _row(7), column + 60, letter, alphabet.END,
    ]  # fmt: skip
    weights = place_weights(torch.tensor([tokens]))[0].tolist()
    counted = {
        index
        for index, token in enumerate(tokens)
        if token >= column and weights[index] == decoder.GAP_WEIGHT
    }
    assert counted == {6, 12}


def test_each_row_of_a_batch_is_weighed_by_itself() -> None:
    one = [_row(9), alphabet.FIRST_COLUMN, _row(10), alphabet.END]
    other = [_row(1), alphabet.FIRST_COLUMN, _row(30), alphabet.END]
    together = place_weights(torch.tensor([one, other]))
    for index, tokens in enumerate((one, other)):
        assert torch.equal(together[index], place_weights(torch.tensor([tokens]))[0])


@given(st.floats(0.05, 0.95), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8).map(sorted))
def test_guidance_only_falls_and_is_gone_after_its_share(until: float, progress: list[float]) -> None:
    schedule = DecoderSchedule(10.0, True, 1e-3, guide_until=until)
    weights = [schedule.guide_weight(at) for at in progress]
    assert all(one >= other for one, other in itertools.pairwise(weights))
    assert schedule.guide_weight(0.0) == decoder.GUIDE_WEIGHT
    assert schedule.guide_weight(until) == 0.0
    assert schedule.guide_weight(1.0) == 0.0


def test_guidance_stays_without_an_end() -> None:
    schedule = DecoderSchedule(10.0, True, 1e-3)
    assert schedule.guide_weight(1.0) == decoder.GUIDE_WEIGHT


def test_a_run_keeps_its_checkpoint_and_carries_on(
    tmp_path: Path, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second on exact strips, in a font and words that every machine has; a second run goes on from there."""
    monkeypatch.setattr(samples, "find_faces", lambda _: [face])
    words = "The lamp was lit at dusk and burned all night without smoke or trouble. " * 200
    monkeypatch.setattr(samples, "load_corpus", lambda: dict.fromkeys(LANGUAGES, words))
    schedule = DecoderSchedule(0.5, rendered=False, learning_rate=1e-4, token_budget=300)
    trainer = decoder.Trainer(schedule, tmp_path, "decoder")
    trainer.run()
    assert trainer.steps >= 1
    again = decoder.Trainer(schedule, tmp_path, "decoder")
    assert again.steps == trainer.steps
    for key, value in trainer.reader.state_dict().items():
        assert torch.isfinite(value).all()
        assert torch.equal(again.reader.state_dict()[key], value)


def test_cells_fall_silent_whole_and_not_more_than_asked() -> None:
    torch.manual_seed(0)
    features = torch.rand(40, 5, 12, 16) + 0.1
    heard = _partly_silent(features, 0.4)
    silent = heard == 0
    assert torch.equal(heard[~silent], features[~silent])
    assert torch.equal(silent, silent[:, :1].expand_as(silent)), "all channels of a place"
    cells = silent[:, 0].view(40, 12, 8, 2)
    assert torch.equal(cells[..., 0], cells[..., 1]), "both places of a cell"
    shares = cells[..., 0].float().mean((1, 2))
    assert 0.1 < float(shares.mean()) < 0.3, "evenly from none to the most"
    assert float(shares.max()) < 0.55
    assert float(shares.min()) < 0.1
