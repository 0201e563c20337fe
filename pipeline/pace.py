"""What reading costs: pages per device and day, and money per million pages. Pure arithmetic, shared by summary
and report.
"""

from dataclasses import dataclass

SECONDS_PER_HOUR = 3600.0
HOURS_PER_DAY = 24.0
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Pace:
    """Pages read in so many device seconds: a device is a GPU or, without GPUs, one OCR actor on the CPU.

    Two devices working side by side for an hour are two device hours. `price` is per device hour, None if not
    known; prices of storage, network and the machines that draw pages are not in it unless the price says so.
    """

    pages: int
    device_seconds: float
    on_gpus: bool
    price: float | None = None

    @property
    def device(self) -> str:
        """What the device is called in a sentence."""
        return "GPU" if self.on_gpus else "OCR actor"

    @property
    def device_hours(self) -> float:
        return self.device_seconds / SECONDS_PER_HOUR

    @property
    def pages_per_device_day(self) -> float | None:
        """None where no time has passed."""
        if self.device_seconds <= 0:
            return None
        return self.pages / self.device_hours * HOURS_PER_DAY

    @property
    def cost(self) -> float | None:
        """Money for all these hours; None without a price."""
        return None if self.price is None else self.device_hours * self.price

    @property
    def cost_per_million_pages(self) -> float | None:
        """None without a price or without pages."""
        cost = self.cost
        return None if cost is None or not self.pages else cost / self.pages * MILLION


def pace_words(pace: Pace) -> list[tuple[str, str]]:
    """Title and value of what is known, for people."""
    words = []
    if pace.pages and pace.pages_per_device_day is not None:
        words.append(("pace", f"{pace.pages_per_device_day:,.0f} pages per {pace.device} and day"))
    if pace.cost is not None and pace.cost_per_million_pages is not None:
        words.append(
            (
                "cost",
                f"{pace.cost_per_million_pages:,.2f} per million pages "
                f"({pace.cost:,.2f} so far, at {pace.price:,.2f} per {pace.device} hour)",
            )
        )
    return words


def devices(ocr_actors: int, gpus_per_actor: float) -> float:
    """How many devices so many OCR actors use."""
    return ocr_actors * gpus_per_actor if gpus_per_actor else float(ocr_actors)
