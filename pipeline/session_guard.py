"""Clears up after a driver: waits until the pipe to it closes, ends what is left of its Ray session,
removes its folder.

Runs as a script of its own, with the standard library only, so that it starts fast and outlives any kill of
the driver.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

GRACE_SECONDS = 1.0
ROUNDS = 20
ROUND_SECONDS = 0.25


def main(folder: str) -> None:
    """Block until standard input ends, then clear up; `folder` is the session's private folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    time.sleep(GRACE_SECONDS if os.path.exists(folder) else 0.0)
    for _ in range(ROUNDS):
        left = members(folder)
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            break
        time.sleep(ROUND_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def members(folder: str) -> list[int]:
    """Processes of the session: its folder stands in their command line, or a parent of theirs is such a
    one.
    """
    marker = folder.encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            status = (entry / "stat").read_bytes()
        except OSError:
            continue  # ended while we looked
        process = int(entry.name)
        parents[process] = int(status.rpartition(b")")[2].split()[1])
        if marker in command:
            found.add(process)
    while True:
        children = {child for child, parent in parents.items() if parent in found} - found
        if not children:
            return sorted(found)
        found |= children


if __name__ == "__main__":
    main(sys.argv[1])
