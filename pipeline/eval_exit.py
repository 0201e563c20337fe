"""How a command of `fastocr eval` ends: exit codes, one sentence, and Ctrl-C at any moment.

Nothing has to be cleared up: what a study writes as it goes is whole after every line, and all else is written at the end.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import typer

from pipeline import command_end
from pipeline.plain_line import plain_line

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
STOPPED = "Stopped; nothing was written."


class WrongUsageError(Exception):
    """It was asked for in a way that cannot work; one sentence with the mend."""


@contextlib.contextmanager
def asked() -> Iterator[None]:
    """What is refused within, before anything is read, was asked for wrongly."""
    try:
        yield
    except OSError as failure:
        named = failure.filename is not None and failure.strerror
        raise WrongUsageError(
            f"{failure.filename}: {failure.strerror}" if named else str(failure)
        ) from failure
    except (ValueError, ImportError) as failure:
        raise WrongUsageError(str(failure)) from failure


def run_command(
    debug: bool, command: Callable[[], None], stopped: Callable[[], str] = lambda: STOPPED
) -> None:
    """Run a command and exit: a failure is one sentence, with `debug` its traceback; Ctrl-C is what `stopped` says."""
    try:
        with _ended_at_once(stopped):
            command()
    except KeyboardInterrupt:
        say(stopped())
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Exception as failure:
        if debug:
            raise
        say(_sentence(failure))
        raise typer.Exit(EXIT_USAGE if isinstance(failure, WrongUsageError) else EXIT_FAILED) from None
    raise typer.Exit(0)


def say(line: str) -> None:
    """One line on the way; the output is for what was measured."""
    command_end.say(line, err=True)


def _sentence(failure: Exception) -> str:
    if isinstance(failure, WrongUsageError | ValueError | ImportError | OSError):
        return f"fastocr: {failure}"
    last = (str(failure).strip().splitlines() or [""])[-1]
    return f"fastocr: it failed: {type(failure).__name__}: {last} (--debug shows the traceback)"


@contextlib.contextmanager
def _ended_at_once(stopped: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C within does not wait for the pages under way, which can take minutes.

    Only the main thread can have a handler; elsewhere, and where Ctrl-C is to be ignored, this does nothing.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            sys.stdout.flush()
        with contextlib.suppress(OSError):  # past all buffers: this may come in the middle of printing
            os.write(2, f"\n{plain_line(stopped())}\n".encode())
        os._exit(EXIT_INTERRUPTED)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
