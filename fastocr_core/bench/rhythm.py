"""How much work the pages of a measurement are: one in ten is several times as long as the others, told from its
pixels, so that every run over the same pages does the same work. No torch.
"""

import zlib
from dataclasses import dataclass

from fastocr_core.vision.prepared import PreparedPage


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What pages cost. Times are waits for the device, besides the little that the toy computes itself.

    An ordinary page writes `shortest` to `longest` tokens, one in `slow_one_in` `slow_factor` times as many.
    """

    step_seconds: float = 0.02
    encode_seconds_per_token: float = 0.0001
    shortest: int = 40
    longest: int = 80
    slow_one_in: int = 10
    slow_factor: int = 6

    @property
    def most_tokens(self) -> int:
        """Outputs of the longest page."""
        return self.longest * self.slow_factor

    def is_slow(self, page: PreparedPage) -> bool:
        """Whether this page is one of the slow ones."""
        return self._mark(page) % self.slow_one_in == 0

    def tokens_of(self, page: PreparedPage) -> int:
        """How many tokens this page writes."""
        ordinary = self.shortest + self._mark(page) // self.slow_one_in % (self.longest - self.shortest + 1)
        return ordinary * (self.slow_factor if self.is_slow(page) else 1)

    @staticmethod
    def _mark(page: PreparedPage) -> int:
        return zlib.crc32(page.views[0].tobytes())
