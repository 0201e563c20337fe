"""Clears up after a driver: ends what is left of its Ray session and removes the session's folder.

Runs as a script of its own, with the standard library only. It waits until the pipe to the driver closes,
so it outlives any kill of the driver; meanwhile it remembers who belongs to the session, since Ray's
workers change their command lines and lose their parents.
"""

import os
import select
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 2.0
GUARD = b"session_guard.py"
ROUNDS = 20
ROUND_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Process:
    """One process; its start time tells it from a later one with the same number."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it stands in /proc now."""

    process: Process
    parent: int
    command: bytes


def main(folder: str) -> None:
    """Block until standard input ends, then clear up; `folder` is the session's private folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    known: set[Process] = set()
    while True:
        ready, _, _ = select.select([0], [], [], LOOK_SECONDS)
        if ready and not os.read(0, 4096):
            break
        known = session_processes(folder, known)
    kill_session(folder, known)
    shutil.rmtree(folder, ignore_errors=True)


def kill_session(folder: str, known: set[Process] | None = None) -> None:
    """Kill the processes of a session until none is left; new ones may appear while the old ones die."""
    left = known or set()
    for _ in range(ROUNDS):
        left = session_processes(folder, left)
        for process in left:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not left:
            return
        time.sleep(ROUND_SECONDS)


def session_processes(folder: str, known: set[Process]) -> set[Process]:
    """Living processes of the session: known ones, those that name its folder, and all their children."""
    marker = folder.encode()
    living = [seen for seen in processes() if GUARD not in seen.command]
    found = {
        seen.process.pid: seen.process for seen in living if seen.process in known or marker in seen.command
    }
    while True:
        children = [seen for seen in living if seen.parent in found and seen.process.pid not in found]
        if not children:
            return set(found.values())
        found.update({seen.process.pid: seen.process for seen in children})


def processes() -> list[Seen]:
    """All processes but this one and those that have ended."""
    living = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            status = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # ended while we looked
        if status[0] != b"Z":
            living.append(Seen(Process(int(entry.name), int(status[19])), int(status[1]), command))
    return living


if __name__ == "__main__":
    main(sys.argv[1])
