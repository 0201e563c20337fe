"""How long the slots of an engine have held pages, by the clock and not by decode steps.

Steps alone would leave out what empty slots cost while a page is encoded or nobody hands one over.
"""

import threading
import time
from collections.abc import Callable


class SlotClock:
    """Adds up the share of slots that hold a page over time. Told by one thread, asked from any."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._since = now()
        self._share = 0.0
        self._seconds = 0.0

    def hold(self, share: float) -> None:
        """From now on this share of the slots, 0 to 1, holds a page."""
        with self._lock:
            now = self._now()
            self._seconds += self._share * (now - self._since)
            self._since, self._share = now, share

    def filled_seconds(self) -> float:
        """Seconds so far, each weighted by the share of slots that held a page."""
        with self._lock:
            return self._seconds + self._share * (self._now() - self._since)
