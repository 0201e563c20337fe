"""The pages that an OCR actor has at hand: lets a bounded number of them into memory, in order, and measures
whether the reader's slots are full while others wait.

A page of a shard that was handed over stays in Ray's object store until it is let in, so the shards in flight
may be many without all their pages being in this process.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backlog:
    """Time in which more pages were at hand than there are slots: `seconds`, and the same weighted by the share of
    slots that held a page.
    """

    seconds: float = 0.0
    filled_seconds: float = 0.0

    @property
    def slot_fill(self) -> float | None:
        """Mean share of slots in use while pages waited for one; None if none ever did."""
        return self.filled_seconds / self.seconds if self.seconds > 0 else None


class PageQueue:
    """Used from one asyncio loop, asked from any thread.

    `places` is how many pages may be in memory. `slots` says how many slots the reader has now, `filled_seconds` is
    its running total of time weighted by the share of them in use.
    """

    def __init__(
        self,
        places: int,
        slots: Callable[[], int],
        filled_seconds: Callable[[], float],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = asyncio.Semaphore(places)
        self._slots, self._filled_seconds, self._now = slots, filled_seconds, now
        self._lock = threading.Lock()
        self._at_hand = 0
        self._passed = Backlog()
        self._began: tuple[float, float] | None = None  # time and filled seconds, while there is a backlog

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Callable[[], None]]:
        """Wait in line for a place in memory. Gives what to call when the page needs no slot any more, though it
        may be at work still; leaving the block does it too.
        """
        self._count(1)
        try:
            await self._places.acquire()
        except BaseException:
            self._count(-1)
            raise
        held = True

        def leave() -> None:
            nonlocal held
            if held:
                held = False
                self._count(-1)
                self._places.release()

        try:
            yield leave
        finally:
            leave()

    def backlog(self) -> Backlog:
        """Up to now."""
        with self._lock:
            return self._until_now()

    def _count(self, change: int) -> None:
        with self._lock:
            self._at_hand += change
            if self._at_hand > self._slots():
                self._began = self._began or (self._now(), self._filled_seconds())
            elif self._began is not None:
                self._passed, self._began = self._until_now(), None

    def _until_now(self) -> Backlog:
        if self._began is None:
            return self._passed
        since, filled = self._began
        return Backlog(
            self._passed.seconds + self._now() - since,
            self._passed.filled_seconds + self._filled_seconds() - filled,
        )
