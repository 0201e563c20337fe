"""`fastocr report`: what became of an archive, as one HTML file that needs no network, no server and no script."""

import os
from pathlib import Path

from pipeline.config import ConfigError
from pipeline.pace import Pace
from pipeline.report_facts import LISTED_PER_REASON, TargetFacts, target_facts
from pipeline.report_metrics import MeasuredRun, measured_run
from pipeline.report_page import report_page
from workers.object_store import ObjectStore

PRICE_KEY = "cluster.gpu_hour_price"
GPUS_KEY = "cluster.gpus_per_ocr_actor"


def build_report(
    store: ObjectStore, price: float | None = None, listed_per_reason: int = LISTED_PER_REASON
) -> str:
    """The report of a target in whatever state it is; `price` of a GPU hour, by default the one the run was begun
    with. Raises `StorageError` if there is no target or a published table is damaged.
    """
    facts = target_facts(store, listed_per_reason)
    measured = measured_run(store)
    return report_page(facts, measured, measured_pace(facts, measured, price))


def measured_pace(facts: TargetFacts, measured: MeasuredRun, price: float | None) -> Pace:
    """Pages and device time of all sessions of the run, from its measurements."""
    config = dict(facts.claim.get("config") or {})
    share = config.get(GPUS_KEY)
    share = float(share) if share and measured.on_gpus else 1.0
    stored = config.get(PRICE_KEY)
    if price is None and stored is not None:
        price = float(stored)
    return Pace(measured.pages, measured.reading_seconds * share, measured.on_gpus, price)


def write_report(page: str, output: Path) -> None:
    """Write the file whole or not at all; raises `ConfigError` if it cannot be written."""
    temporary = output.with_name(f"{output.name}.{os.getpid()}.part")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(output)
    except OSError as error:
        raise ConfigError(f"The report cannot be written to {output}: {error.strerror}.") from error
    finally:
        temporary.unlink(missing_ok=True)
