"""The loop stop: a token cycle with a gaze that stands still, and nothing else."""

from collections.abc import Iterable

from fastocr_core.guards import MAX_PERIOD, LoopGuard


def stopped_at(tokens_and_gazes: Iterable[tuple[int, float]]) -> int | None:
    """Index of the token that proved a loop; the gaze is only given while the guard asks for it."""
    guard = LoopGuard()
    for index, (token, gaze) in enumerate(tokens_and_gazes):
        if guard.looping(token, gaze if guard.suspicious else None):
            return index
    return None


def test_forty_equal_table_rows_are_no_loop() -> None:
    row = [11, 12, 13, 14, 11, 15, 16]
    columns = 20
    page = [(token, line * columns + 2.0 * place) for line in range(40) for place, token in enumerate(row)]
    assert stopped_at(page) is None


def test_dotted_leaders_are_no_loop() -> None:
    assert stopped_at((5, 100 + index * 0.25) for index in range(200)) is None


def test_a_repeated_phrase_on_one_spot_is_a_loop() -> None:
    phrase = list(range(10, 19))
    text = [(token, 7.0) for token in range(100, 160)]
    stop = stopped_at(
        [*text, *((token, 50.0 + index) for index, token in enumerate(phrase))]
        + [(token, 50.0 + index) for _ in range(30) for index, token in enumerate(phrase)]
    )
    assert stop is not None
    assert stop < 60 + 9 * 12


def test_one_token_forever_is_a_loop() -> None:
    stop = stopped_at((5, 33.0 + (index % 3) * 0.2) for index in range(300))
    assert stop is not None
    assert stop < 100


def test_the_longest_watched_period_is_found() -> None:
    stop = stopped_at((index % MAX_PERIOD, float(index % MAX_PERIOD)) for index in range(MAX_PERIOD * 10))
    assert stop is not None


def test_five_lines_read_over_and_over_are_a_loop() -> None:
    # seen: at the end of a page the reader went back five lines, 220 tokens, until the token limit
    lines = [(token, 300.0 + token / 4) for token in range(220)]
    stop = stopped_at([(token + 1000, token / 4.0) for token in range(500)] + lines * 20)
    assert stop is not None
    assert stop < 500 + 220 * 9


def test_a_cycle_without_known_gaze_is_left_alone() -> None:
    guard = LoopGuard()
    assert not any(guard.looping(5, None) for _ in range(500))
    assert guard.suspicious


def test_changing_text_is_never_suspicious() -> None:
    guard = LoopGuard()
    for index in range(3000):
        assert not guard.looping((index * index) % 1009, 3.0)
        assert not guard.suspicious
