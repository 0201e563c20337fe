"""`fastocr doctor`: would a run with this configuration work on this machine? One line per check, in the order in
which a run would stumble.

Every check ends in a line; none of them changes anything that outlives it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.config import RunConfig

EXIT_HEALTHY, EXIT_UNFIT = 0, 1
TITLE_COLUMNS = 13


class Level(StrEnum):
    """How a check ended. A warning does not stop a run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it; `mend` is empty where there is nothing to do."""

    level: Level
    title: str
    found: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Places:
    """What was asked about besides the machine; None where it was not given."""

    source: str | None
    target: str | None


def examine(
    config: RunConfig, places: Places, *, with_ray: bool = True, with_model: bool = True
) -> Iterator[Finding]:
    """All findings, each as soon as it is there."""
    for title, check in _checks(config, places, with_ray, with_model):
        yield from examined(title, check)


def examined(title: str, check: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    """The findings of one check; whatever it raises is a finding too, since a doctor must not fall ill."""
    try:
        return check()
    except Exception as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return [Finding(Level.FAIL, title, words, "the message says what is wrong")]


def finding_line(finding: Finding) -> str:
    """One line for people."""
    mend = f" -> {finding.mend}" if finding.mend else ""
    return f"{finding.level.value:<5}{finding.title:<{TITLE_COLUMNS}} {finding.found.rstrip('.')}{mend}"


def exit_code(findings: Sequence[Finding]) -> int:
    """0 if nothing failed."""
    return EXIT_UNFIT if any(finding.level == Level.FAIL for finding in findings) else EXIT_HEALTHY


def _checks(
    config: RunConfig, places: Places, with_ray: bool, with_model: bool
) -> Iterator[tuple[str, Callable[[], Sequence[Finding]]]]:
    from pipeline import doctor_machine, doctor_runtime, doctor_storage

    yield "python", doctor_machine.check_python
    yield "packages", doctor_machine.check_packages
    yield "installation", doctor_machine.check_one_owner
    yield "memory", lambda: doctor_machine.check_memory(config)
    yield "disk", doctor_machine.check_disk
    yield "gpu", doctor_machine.check_gpu
    if doctor_storage.uses_s3(config, places):
        yield "credentials", lambda: doctor_storage.check_credentials(config)
    if places.source is not None:
        source = places.source
        yield "source", lambda: doctor_storage.check_source(source, config)
    if places.target is not None:
        target = places.target
        yield "target", lambda: doctor_storage.check_target(target, config, places)
    if with_model:
        yield "model", lambda: doctor_runtime.check_model(config)
    if with_ray:
        yield "ray", lambda: doctor_runtime.check_ray(config)
