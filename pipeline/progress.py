"""Tells people how a run is going: a line that renews itself on a terminal, a plain line every 30 s in a
log.
"""

import sys
import time
from typing import TextIO

from workers.recognize import ShardDone

TERMINAL_SECONDS = 1.0
LOG_SECONDS = 30.0


class Observer:
    """Hears of everything that happens in a run, keeps the sums of this session, and says so on `stream`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._last_line = 0.0
        self._line_open = False
        self._started = time.monotonic()
        self._total = 0
        self._left = 0
        self._actors: dict[str, tuple[float, float]] = {}
        self.pages_read = 0
        self.pages_failed = 0
        self.pages_flagged = 0
        self.image_tokens = 0
        self.output_tokens = 0
        self.reading_seconds = 0.0

    def note(self, text: str) -> None:
        """One remark on a line of its own."""
        self._break()
        print(text, file=self._stream, flush=True)

    def surveying(self, documents: int, total: int) -> None:
        """So many documents of so many are on their way through the survey."""
        self._line(f"survey: {documents} of {total} documents", final=documents == total)

    def reading(self, total: int, left: int) -> None:
        """Reading begins: pages of the manifest, and how many of them are left."""
        self._total, self._left = total, left
        self._started = time.monotonic()
        self.note(f"{total} pages in the manifest, {left} left to read.")

    def shard_done(self, done: ShardDone) -> None:
        """A shard is staged."""
        self.pages_read += done.pages
        self.pages_failed += done.pages_failed
        self.pages_flagged += done.pages_flagged
        self.image_tokens += done.image_tokens
        self.output_tokens += done.output_tokens
        self._actors[done.actor] = (done.busy_seconds, done.alive_seconds)
        self.reading_seconds = time.monotonic() - self._started
        rate = self.pages_per_second
        remaining = max(0, self._left - self.pages_read)
        hours = remaining / rate / 3600 if rate else 0.0
        self._line(
            f"read {self._total - remaining} of {self._total} pages, {rate:.2f} pages/s, {hours:.2f} h left, "
            f"{self.pages_flagged} flagged, {self.pages_failed} failed",
            final=remaining == 0,
        )

    @property
    def pages_per_second(self) -> float:
        """Rate of this session, from the start of reading."""
        return self.pages_read / self.reading_seconds if self.reading_seconds else 0.0

    @property
    def busy_share(self) -> float:
        """Share of the OCR actors' life in which the model was at work."""
        alive = sum(alive for _, alive in self._actors.values())
        return sum(busy for busy, _ in self._actors.values()) / alive if alive else 0.0

    def _line(self, text: str, *, final: bool) -> None:
        now = time.monotonic()
        due = now - self._last_line >= (TERMINAL_SECONDS if self._live else LOG_SECONDS)
        if not (due or final):
            return
        self._last_line = now
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
            self._line_open = True
        else:
            print(text, file=self._stream, flush=True)

    def _break(self) -> None:
        if self._line_open:
            print(file=self._stream)
            self._line_open = False
