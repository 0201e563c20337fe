"""The killable child: crashes, hangs, limits and orphans, caused on purpose."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.workers.pdf_maker import PagePlan, make_pdf, text
from workers.outcomes import Reason
from workers.rasterize import (
    LEAST_MEMORY_BYTES,
    LEAST_PIXELS,
    DocumentFailure,
    PageFailure,
    Rasterizer,
    RasterLimits,
    RasterPage,
)
from workers.sniff import Format

DOCUMENT = make_pdf([PagePlan(after=text(f"Page {number}")) for number in range(3)])
LIMITS = RasterLimits(seconds_per_page=20, crash_retries=0)


def _opened(limits: RasterLimits) -> Rasterizer:
    rasterizer = Rasterizer(limits)
    rasterizer.open(DOCUMENT, Format.PDF)
    return rasterizer


def _stop(rasterizer: Rasterizer) -> int:
    """Halt the child, as a hang in native code would."""
    pid = rasterizer.child_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_hang_costs_the_page_and_the_next_one_works() -> None:
    with _opened(LIMITS) as rasterizer:
        pid = _stop(rasterizer)
        rasterizer.limits = replace(LIMITS, seconds_per_page=0.5)
        failure = rasterizer.page(1, 72)
        assert isinstance(failure, PageFailure)
        assert failure.reason is Reason.RENDER_TIMEOUT
        assert "page_index 1" in failure.detail
        assert not _is_alive(pid)
        rasterizer.limits = LIMITS
        assert isinstance(rasterizer.page(2, 72), RasterPage)
        assert rasterizer.children_started == 2


def test_a_crash_names_the_page_and_the_next_one_works() -> None:
    with _opened(LIMITS) as rasterizer:
        pid = _stop(rasterizer)  # the order reaches a child that cannot answer before it is killed
        killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killer.start()
        failure = rasterizer.page(1, 72)
        killer.join()
        assert isinstance(failure, PageFailure)
        assert failure.reason is Reason.RENDER_CRASH
        assert "page_index 1" in failure.detail
        assert "SIGKILL" in failure.detail
        assert isinstance(rasterizer.page(1, 72), RasterPage)


def test_a_crash_is_tried_once_more_in_a_fresh_child() -> None:
    with _opened(replace(LIMITS, crash_retries=1)) as rasterizer:
        pid = _stop(rasterizer)
        killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killer.start()
        assert isinstance(rasterizer.page(1, 72), RasterPage)
        killer.join()
        assert rasterizer.children_started == 2


def test_a_child_killed_between_pages_is_replaced_unnoticed() -> None:
    with _opened(LIMITS) as rasterizer:
        pid = rasterizer.child_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            time.sleep(0.01)
        assert isinstance(rasterizer.page(0, 72), RasterPage)


def test_a_hang_while_opening_is_a_failure_of_the_document() -> None:
    with _opened(LIMITS) as rasterizer:
        _stop(rasterizer)
        rasterizer.limits = replace(LIMITS, seconds_to_open=0.5)
        with pytest.raises(DocumentFailure) as caught:
            rasterizer.open(DOCUMENT, Format.PDF)
        assert caught.value.reason is Reason.RENDER_TIMEOUT


def test_the_child_is_recycled_after_a_number_of_pages() -> None:
    with _opened(replace(LIMITS, recycle_after_pages=2)) as rasterizer:
        for _ in range(2):
            for page_index in range(3):
                assert isinstance(rasterizer.page(page_index, 72), RasterPage)
        assert rasterizer.children_started == 3


def test_memory_is_limited_and_the_next_page_works() -> None:
    huge = PagePlan(media_box="0 0 14000 14000", after=text("Huge"))
    small = PagePlan(after=text("Small"))
    with Rasterizer(replace(LIMITS, memory_bytes=400e6, max_pixels=1e9)) as rasterizer:
        rasterizer.open(make_pdf([huge, small]), Format.PDF)
        failure = rasterizer.page(0, 150)
        assert isinstance(failure, PageFailure)
        assert failure.reason is Reason.TOO_LARGE
        assert rasterizer.peak_bytes < 400e6
        assert isinstance(rasterizer.page(1, 150), RasterPage)


def test_an_idle_and_a_busy_child_die_with_their_parent() -> None:
    program = textwrap.dedent(
        """
        import os, signal
        from tests.unit.workers.test_rasterize import LIMITS, _opened, _stop
        print(_stop(_opened(LIMITS)), flush=True)  # stopped: it cannot notice by itself
        print(_opened(LIMITS).child_pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, timeout=60, check=False
    )
    pids = [int(line) for line in run.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(map(_is_alive, pids)):
        assert time.monotonic() < deadline, "a child outlived its parent"
        time.sleep(0.02)


def test_a_page_that_does_not_exist_is_a_failure() -> None:
    with _opened(LIMITS) as rasterizer:
        failure = rasterizer.page(7, 72)
        assert isinstance(failure, PageFailure)
        assert failure.reason is Reason.CORRUPT


def test_a_page_without_an_open_document_is_a_failure() -> None:
    with Rasterizer(LIMITS) as rasterizer:
        assert isinstance(rasterizer.page(0, 72), PageFailure)
        with pytest.raises(DocumentFailure):
            rasterizer.open(b"%PDF-1.4\n%%EOF", Format.PDF)
        assert isinstance(rasterizer.page(0, 72), PageFailure)


def test_reasons_of_documents_that_cannot_be_opened() -> None:
    with Rasterizer(LIMITS) as rasterizer:
        for data, reason in [
            (DOCUMENT[:120], Reason.TRUNCATED_FILE),
            (DOCUMENT[:9] + b"\0" * 300 + b"%%EOF\n", Reason.CORRUPT),
        ]:
            with pytest.raises(DocumentFailure) as caught:
                rasterizer.open(data, Format.PDF)
            assert caught.value.reason is reason
            assert "/proc" not in caught.value.detail


def test_a_lying_page_count_is_found_out() -> None:
    with Rasterizer(LIMITS) as rasterizer, pytest.raises(DocumentFailure) as caught:
        rasterizer.open(DOCUMENT.replace(b"/Count 3", b"/Count 9000"), Format.PDF)
    assert caught.value.reason is Reason.CORRUPT


def test_a_child_that_cannot_start_is_no_document_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.rasterize.CHILD_START", "raise SystemExit('a library is missing')")
    with Rasterizer(LIMITS) as rasterizer, pytest.raises(RuntimeError, match=r"cannot start.*is missing"):
        rasterizer.open(DOCUMENT, Format.PDF)


def test_closing_ends_the_child_and_may_be_repeated() -> None:
    rasterizer = _opened(LIMITS)
    pid = rasterizer.child_pid
    assert pid is not None
    rasterizer.close()
    rasterizer.close()
    assert not _is_alive(pid)
    assert rasterizer.child_pid is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds_per_page", 0.0),
        ("seconds_to_open", -1.0),
        ("seconds_per_page", float("nan")),
        ("memory_bytes", 1.0),
        ("memory_bytes", float("inf")),
        ("max_pixels", 0.0),
        ("max_pixels", -5.0),
        ("recycle_after_pages", 0),
        ("crash_retries", -1),
    ],
)
def test_limits_no_page_could_keep_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        replace(LIMITS, **{name: value})  # type: ignore[arg-type]


def test_a_page_can_be_drawn_within_the_least_memory() -> None:
    with _opened(replace(LIMITS, memory_bytes=LEAST_MEMORY_BYTES, max_pixels=LEAST_PIXELS)) as rasterizer:
        assert isinstance(rasterizer.page(0, 150), RasterPage)
