"""Tells people how a run is going: a line that renews itself on a terminal, a plain line every 30 s in a
log, whether or not anything has happened meanwhile.
"""

import contextlib
import shutil
import sys
import threading
import time
from collections import deque
from typing import TextIO

from pipeline.pace import Pace, devices
from pipeline.plain_line import plain_line
from workers.recognize import ShardDone

TERMINAL_SECONDS = 1.0
LOG_SECONDS = 30.0
RATE_SECONDS = 600.0
SILENCE_SECONDS = 180.0


class Observer:
    """Hears of everything that happens in a run, keeps the sums of this session, and says so on `stream`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._period_seconds = TERMINAL_SECONDS if self._live else LOG_SECONDS
        self._last_line = 0.0
        self._line_open = False
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._ticker: threading.Thread | None = None
        self._started = self._last_shard = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque()
        self._total = 0
        self._left = 0
        self._devices = 1.0
        self._on_gpus = False
        self._actors: dict[str, tuple[float, float]] = {}
        self.pages_read = 0
        self.pages_failed = 0
        self.pages_flagged = 0
        self.pages_blank = 0
        self.pages_repaired = 0
        self.pages_duplicate = 0
        self.shards_staged = 0
        self.parts_published = 0
        self.image_tokens = 0
        self.output_tokens = 0
        self.reading_seconds = 0.0

    def note(self, text: str) -> None:
        """One remark on a line of its own."""
        with self._lock:
            self._break()
            self._print(plain_line(text))

    def listing(self, objects: int) -> None:
        """So many objects of the source are listed, and more are to come."""
        self._line(f"listing: {objects} objects so far", final=False)

    def surveying(self, documents: int, total: int) -> None:
        """So many documents of so many are on their way through the survey."""
        self._line(f"survey: {documents} of {total} documents", final=documents == total)

    def reading(self, total: int, left: int, ocr_actors: int = 1, gpus_per_actor: float = 0.0) -> None:
        """Reading begins: pages of the manifest, how many of them are left, and what reads them."""
        self._total, self._left = total, left
        self._devices, self._on_gpus = devices(ocr_actors, gpus_per_actor), gpus_per_actor > 0
        self._started = self._last_shard = time.monotonic()
        self._recent.append((self._started, 0))
        self.note(f"{total} pages in the manifest, {left} left to read.")
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, name="fastocr-progress", daemon=True)
            self._ticker.start()

    def shard_done(self, done: ShardDone) -> None:
        """A shard is staged."""
        with self._lock:
            now = self._last_shard = time.monotonic()
            self.shards_staged += 1
            self.pages_read += done.pages
            self.pages_failed += done.pages_failed
            self.pages_flagged += done.pages_flagged
            self.pages_blank += done.pages_blank
            self.pages_repaired += done.pages_repaired
            self.pages_duplicate += done.pages_duplicate
            self.image_tokens += done.image_tokens
            self.output_tokens += done.output_tokens
            self._actors[done.actor] = (done.busy_seconds, done.alive_seconds)
            self.reading_seconds = now - self._started
            self._recent.append((now, self.pages_read))
            while len(self._recent) > 2 and now - self._recent[1][0] > RATE_SECONDS:
                self._recent.popleft()
        self._line(self._reading_words(), final=self._remaining == 0)

    def part_published(self) -> None:
        """A part stands in the target, for readers to find."""
        self.parts_published += 1

    def close(self) -> None:
        """No more lines of progress; the last one is ended."""
        self._closed.set()
        if self._ticker is not None:
            self._ticker.join()
        with self._lock:
            self._break()

    @property
    def pages_per_second(self) -> float:
        """Rate of this session, from the start of reading."""
        return self.pages_read / self.reading_seconds if self.reading_seconds else 0.0

    @property
    def busy_share(self) -> float:
        """Share of the OCR actors' life in which the model was at work."""
        alive = sum(alive for _, alive in self._actors.values())
        busy = sum(busy for busy, _ in self._actors.values())
        # a second reading runs in an engine of its own beside the first: both are at work at once
        return min(1.0, busy / alive) if alive else 0.0

    def pace(self, price: float | None) -> Pace:
        """Pages of this session by the device time that reading took, the start of the actors included."""
        return Pace(self.pages_read, self.reading_seconds * self._devices, self._on_gpus, price)

    def stopped_words(self) -> str:
        """What an interrupted run leaves behind: what is safe, and how to carry on.

        At least: an actor may have staged a shard of which we had not heard yet.
        """
        if not self._total:
            return "Stopped before any page was read. Run the same command again to carry on."
        return (
            f"Stopped. Safe are at least {self._total - self._remaining} of {self._total} pages "
            f"(by this run {self.shards_staged} shards staged and {self.parts_published} parts published); "
            "pages that were being read will be read again. Run the same command again to carry on."
        )

    @property
    def _remaining(self) -> int:
        return max(0, self._left - self.pages_read)

    def _recent_rate(self, now: float) -> float:
        """Pages a second over the last minutes: the first ones, with models still loading, soon drop out."""
        since, pages_then = self._recent[0]
        return (self.pages_read - pages_then) / (now - since) if now > since else 0.0

    def _reading_words(self) -> str:
        now = time.monotonic()
        with self._lock:
            rate, remaining = self._recent_rate(now), self._remaining
            others = (
                (self.pages_blank, "ok_blank"),
                (self.pages_repaired, "ok_repaired"),
                (self.pages_duplicate, "duplicate"),
                (self.pages_flagged, "flagged"),
                (self.pages_failed, "failed"),
            )
            counts = ((self.pages_read - sum(count for count, _ in others), "ok"), *others)
            outcomes = ", ".join(f"{count} {name}" for count, name in counts if count) or "none read yet"
            left = f"{duration_words(remaining / rate)} left" if rate else "time left not known yet"
            words = f"read {self._total - remaining} of {self._total} pages, {rate:.2f} pages/s, {left}: {outcomes}"
            silent = now - self._last_shard
            return words + (f"; no shard for {duration_words(silent)}" if silent >= SILENCE_SECONDS else "")

    def _tick(self) -> None:
        while not self._closed.wait(self._period_seconds):
            if self._remaining:
                self._line(self._reading_words(), final=False)

    def _line(self, text: str, *, final: bool) -> None:
        with self._lock:
            now = time.monotonic()
            # A tick comes a little early or late by the clock; half a period of patience skips none.
            if not final and now - self._last_line < 0.5 * self._period_seconds:
                return
            self._last_line = now
            if self._live:
                columns = shutil.get_terminal_size().columns - 1
                self._print(f"\r\x1b[K{text[:columns]}", end="")
                self._line_open = True
            else:
                self._print(text)

    def _break(self) -> None:
        if self._line_open:
            self._print("")
            self._line_open = False

    def _print(self, text: str, end: str = "\n") -> None:
        """A terminal that was closed or a log that is full is no reason to end a run of days."""
        with contextlib.suppress(OSError):
            print(text, end=end, file=self._stream, flush=True)


def duration_words(seconds: float) -> str:
    """A length of time in at most two units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
