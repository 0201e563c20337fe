"""What people hear of a run: plain lines in a log, one line that renews itself on a terminal."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeline import progress
from pipeline.progress import Observer, duration_words
from workers.recognize import ShardDone


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class HeardStream(io.StringIO):
    """A log that tells when a line arrives that fits."""

    def __init__(self, fits: Callable[[str], bool]) -> None:
        super().__init__()
        self._fits = fits
        self.heard = threading.Event()

    def write(self, text: str) -> int:
        if self._fits(text):
            self.heard.set()
        return super().write(text)


def _done(number: int, pages: int = 10, flagged: int = 1, failed: int = 2) -> ShardDone:
    return ShardDone(
        shard_index=number, pages=pages, pages_failed=failed, pages_flagged=flagged, pages_blank=3,
        pages_repaired=0, pages_duplicate=0, image_tokens=100, output_tokens=50, read_now=True, actor="a", busy_seconds=9.0,
        alive_seconds=10.0,
    )  # fmt: skip


class GoneStream(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(text)


@pytest.mark.parametrize("live", [True, False])
def test_a_reader_who_leaves_ends_no_run(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GoneStream, "isatty", lambda self: live)
    observer = Observer(GoneStream())
    observer.note("2 objects found")
    observer.reading(20, 20)
    observer.shard_done(_done(0))
    observer.shard_done(_done(1))
    observer.close()
    assert observer.pages_read == 20


def test_an_actor_with_two_engines_at_work_is_busy_and_no_more() -> None:
    observer = Observer(io.StringIO())
    observer.reading(10, 0, ocr_actors=1, gpus_per_actor=0.0)
    observer.shard_done(replace(_done(0), busy_seconds=13.0))
    observer.close()
    assert observer.busy_share == 1.0


def test_the_last_line_counts_every_outcome() -> None:
    stream = io.StringIO()
    observer = Observer(stream)
    observer.reading(25, 20, ocr_actors=2, gpus_per_actor=0.5)
    observer.shard_done(replace(_done(0), pages_repaired=1))
    observer.shard_done(replace(_done(1), pages_duplicate=2))
    observer.part_published()
    observer.close()
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("read 25 of 25 pages, ")
    assert last.endswith("5 ok, 6 ok_blank, 1 ok_repaired, 2 duplicate, 2 flagged, 4 failed")
    assert "\r" not in stream.getvalue()
    assert observer.busy_share == pytest.approx(0.9)
    assert "25 of 25 pages (by this run 2 shards staged and 1 parts published)" in observer.stopped_words()
    pace = observer.pace(3.0)
    assert pace.pages == 20
    assert pace.device == "GPU"
    assert pace.device_seconds == pytest.approx(observer.reading_seconds)


def test_a_log_gets_lines_although_no_shard_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.02)
    monkeypatch.setattr(progress, "SILENCE_SECONDS", 0.05)
    stream = HeardStream(lambda text: "no shard for" in text)
    observer = Observer(stream)
    observer.reading(100, 100)
    assert stream.heard.wait(60), stream.getvalue()
    observer.close()
    assert "read 0 of 100 pages, 0.00 pages/s, time left not known yet: none read yet" in stream.getvalue()


def test_lines_of_a_log_keep_their_distance() -> None:
    stream = io.StringIO()
    observer = Observer(stream)
    observer.reading(1000, 1000)
    for number in range(50):
        observer.shard_done(_done(number))
    observer.close()
    assert stream.getvalue().count("\n") <= 3


def test_a_terminal_gets_one_line_that_fits_and_notes_on_lines_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    observer = Observer(stream)
    observer.reading(10, 10)
    observer.shard_done(_done(0))
    observer.note("a remark")
    observer.close()
    lines = stream.getvalue().split("\n")
    assert lines[0] == "10 pages in the manifest, 10 left to read."
    assert lines[1].startswith("\r\x1b[Kread 10 of 10 pages")
    assert all(len(piece) <= 39 for piece in lines[1].split("\r\x1b[K"))
    assert lines[2] == "a remark"


def test_before_reading_there_is_nothing_to_save() -> None:
    assert "before any page was read" in Observer(io.StringIO()).stopped_words()


def test_lengths_of_time() -> None:
    assert [duration_words(seconds) for seconds in (0.4, 59, 61, 3599, 3600, 90_000, 900_000)] == [
        "0 s", "59 s", "1 min", "59 min", "1 h 0 min", "25 h 0 min", "10 d 10 h",
    ]  # fmt: skip
