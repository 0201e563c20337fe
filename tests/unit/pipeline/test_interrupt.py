"""A first signal stops in order, a second one or a slow end stops at once; each in a process of its own."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from pipeline.interrupt import prompt_end
try:
    with prompt_end(lambda: "last words", clear_up_seconds=float(sys.argv[1])):
        try:
            print("ready", flush=True)
            time.sleep(600)
        finally:
            print("clearing up", flush=True)
            time.sleep(float(sys.argv[2]))
except KeyboardInterrupt:
    print("in order", flush=True)
    sys.exit(1)
"""


def _start(clear_up_seconds: float, needed_seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(clear_up_seconds), str(needed_seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_run_clear_up(number: signal.Signals) -> None:
    process = _start(300, 0)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert out == "clearing up\nin order\n"
    assert "a second Ctrl-C ends at once" in err
    assert process.returncode == 1


def test_clearing_up_that_hangs_is_cut_short() -> None:
    process = _start(0.2, 600)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "clearing up\n"
    assert err.endswith("last words\n")
    assert process.returncode == 1


def test_a_second_signal_ends_at_once() -> None:
    process = _start(300, 600)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "clearing up\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.endswith("last words\n")
    assert process.returncode == 1
