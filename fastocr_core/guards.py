"""Guards while decoding: the loop stop. The token limit is the engine's.

A loop is a token cycle AND a gaze that does not advance. Forty equal table rows are a token cycle too, but
the gaze moves down the page; such pages are left alone.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MAX_PERIOD = 512  # about ten lines of print
# A cycle is suspected after four equal periods; of short periods, after at least so many repeated tokens.
MIN_PERIODS = 4
MIN_REPEATED = 24
# The gaze is compared between the first and the last of so many watched periods; short ones are bundled.
WATCHED_PERIODS = 3
MIN_BUNDLE = 12
# Raster cells that the mean gaze must move for the page to count as advancing.
MIN_ADVANCE = 2.0
# Repeated tokens that make a cycle, by period less one.
_ENOUGH = np.maximum(np.arange(1, MAX_PERIOD + 1) * (MIN_PERIODS - 1), MIN_REPEATED)


@dataclass(slots=True)
class LoopGuard:
    """Watches the tokens of one page, and its gaze once a cycle is suspected."""

    # Tokens, newest first from `_newest` on; written backwards, moved to the end when the start is reached.
    _history: NDArray[np.int64] = field(default_factory=lambda: np.full(8 * MAX_PERIOD, -1, np.int64))
    _newest: int = 7 * MAX_PERIOD
    _runs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(MAX_PERIOD, np.int64))
    _period: int = 0
    _gazes: list[float] = field(default_factory=list)

    @property
    def suspicious(self) -> bool:
        """Whether a token cycle is running, so that the gaze is wanted."""
        return self._period > 0

    @property
    def period(self) -> int:
        """Length in tokens of the running cycle, 0 for none."""
        return self._period

    @property
    def cycle_tokens(self) -> int:
        """How many of the newest tokens the running cycle makes up, its first period included."""
        return int(self._runs[self._period - 1]) + self._period if self._period else 0

    def looping(self, token: int, gaze: float | None) -> bool:
        """Note one output token and where the step that made it looked (None if unknown); True for a proven
        loop.
        """
        self._note(token)
        period = self._cycle()
        if period == 0 or period != self._period:
            self._period = period
            self._gazes.clear()
            return False
        if gaze is None:
            return False
        self._gazes.append(gaze)
        bundle = period * -(-MIN_BUNDLE // period)
        if len(self._gazes) < bundle * WATCHED_PERIODS:
            return False
        advance = float(np.mean(self._gazes[-bundle:]) - np.mean(self._gazes[:bundle]))
        self._gazes.clear()
        return abs(advance) < MIN_ADVANCE

    def _note(self, token: int) -> None:
        """`_runs[p - 1]` is for how many tokens each has equalled the one p before it."""
        back = self._history[self._newest : self._newest + MAX_PERIOD]
        self._runs = np.where(back == token, self._runs + 1, 0)
        if self._newest == 0:
            self._newest = 7 * MAX_PERIOD
            self._history[self._newest :] = back
        self._newest -= 1
        self._history[self._newest] = token

    def _cycle(self) -> int:
        """The shortest running period, 0 for none."""
        found = self._runs >= _ENOUGH
        return int(found.argmax()) + 1 if found.any() else 0
