"""Ends a run in time when somebody presses Ctrl-C or the cluster asks it to go (SIGTERM).

Nothing has to be saved then: what is staged or published is safe, and the rest is read again. So clearing up
gets a few seconds and no more; whoever is in a hurry presses Ctrl-C once more.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

CLEAR_UP_SECONDS = 7.0
EXIT_INTERRUPTED = 1
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FIRST_WORDS = "\nStopping; a second Ctrl-C ends at once.\n"


@contextlib.contextmanager
def prompt_end(last_words: Callable[[], str], clear_up_seconds: float = CLEAR_UP_SECONDS) -> Iterator[None]:
    """Within the block a first signal raises `KeyboardInterrupt`; a second one, or clearing up that takes longer
    than `clear_up_seconds`, says `last_words` and ends the process on the spot.

    The processes of a local Ray then fall to the session guard. Only the main thread can have handlers;
    elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    clock: list[threading.Timer] = []

    def end_now() -> None:
        _say(f"{last_words()}\n")
        os._exit(EXIT_INTERRUPTED)

    def on_signal(number: int, frame: FrameType | None) -> None:
        if clock:
            end_now()
        timer = threading.Timer(clear_up_seconds, end_now)
        timer.daemon = True
        timer.start()
        clock.append(timer)
        _say(FIRST_WORDS)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in clock:
            timer.cancel()


def _say(text: str) -> None:
    """Past all buffers: the thread that was interrupted may be in the middle of printing."""
    with contextlib.suppress(OSError):
        os.write(2, text.encode())
