"""Geometry of the vision tower and of the rotary places: which pixels, strips and tokens belong together."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fastocr_core.models.mini import alphabet, places, tower


def test_stem_gives_one_strip_per_16_by_4_pixels() -> None:
    stem = tower.Stem().eval()
    with torch.inference_mode():
        features, logits = stem(tower.as_input(torch.zeros(1, 64, 96, dtype=torch.uint8)))
    assert features.shape == (1, stem.channels, 4, 6)
    assert logits.shape == (1, 4, 24, tower.GLYPHS)


@settings(max_examples=15)
@given(st.integers(0, 5), st.integers(0, 23))
def test_a_strip_reaches_the_token_of_its_cell_alone(row: int, column: int) -> None:
    merger = tower.CellMerger(16, 4).eval()
    strips = torch.zeros(1, 6, 24, tower.GLYPHS)
    strips[..., 0] = 1.0
    with torch.inference_mode():
        before = merger(strips, None)
        strips[0, row, column] = 0.0
        strips[0, row, column, 5] = 1.0
        changed = (merger(strips, None) - before).abs().amax(-1)[0] > 1e-6
    assert changed.nonzero().tolist() == [[row, column // 8]]


def test_a_feature_reaches_the_token_of_its_cell_alone() -> None:
    merger = tower.CellMerger(16, 4).eval()
    torch.nn.init.normal_(merger.raw.weight)
    strips = torch.zeros(1, 6, 24, tower.GLYPHS)
    features = torch.zeros(1, 4, 6, 6)
    with torch.inference_mode():
        before = merger(strips, features)
        features[0, :, 3, 4] = 1.0
        changed = (merger(strips, features) - before).abs().amax(-1)[0] > 1e-6
    assert changed.nonzero().tolist() == [[3, 2]]


def test_ink_is_positive() -> None:
    black_and_white = tower.as_input(torch.tensor([[[0, 255]]], dtype=torch.uint8))
    assert black_and_white.flatten().tolist() == [1.0, -1.0]


tokens_after_begin = st.lists(st.integers(2, alphabet.VOCABULARY - 1), min_size=1, max_size=40)


@settings(max_examples=60)
@given(tokens_after_begin)
def test_places_written_step_by_step_are_those_of_training(written: list[int]) -> None:
    tokens = torch.tensor([[alphabet.BEGIN, *written]])
    at_once = places.output_places(tokens)
    step = torch.tensor([[1], [0], [0]])
    assert torch.equal(at_once[:, :, 0], step)
    for index in range(1, tokens.shape[1]):
        step = places.next_places(step, tokens[:, index])
        assert torch.equal(at_once[:, :, index], step), index


def test_a_cell_and_the_tokens_that_name_it_share_a_place() -> None:
    grid = places.image_places(4, 5).reshape(3, 4, 5)
    cell = grid[:, 2, 3]
    rows = places.row_place(torch.tensor([alphabet.row_token(2 * 16 + 4), alphabet.row_token(2 * 16 + 15)]))
    assert rows.tolist() == [cell[1], cell[1]]
    columns = places.column_place(
        torch.tensor([alphabet.column_token(3 * 32), alphabet.column_token(3 * 32 + 31)])
    )
    assert columns[0] <= cell[2] <= columns[1]
