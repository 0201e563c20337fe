"""Joins a Ray cluster, or starts one on this machine that leaves nothing behind when the driver ends or dies.

A driver that is killed cannot clean up, so a guard process waits for its end: it kills what is left of the
session and removes its folder.
"""

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from pipeline.config import ClusterSettings
from pipeline.session_guard import kill_session

OBJECT_STORE_SHARE_OF_MEMORY = 0.15
OBJECT_STORE_MOST_BYTES = 4_000_000_000
OBJECT_STORE_LEAST_BYTES = 100_000_000
SOCKET_PATH_ROOM = 28
SHUTDOWN_SECONDS = 10.0
CONNECT_SECONDS = 10.0
START_ATTEMPTS = 4
STARTUP_TIMEOUT = "timed out during startup"


class ClusterError(Exception):
    """No Ray to run on; one sentence with the mend."""


@contextlib.contextmanager
def ray_session(settings: ClusterSettings) -> Iterator[None]:
    """A connected Ray for the length of the block."""
    if settings.ray_address is not None:
        _refuse_silence(settings.ray_address)
        _quiet()
        import ray

        try:
            ray.init(address=settings.ray_address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(f"There is no Ray cluster at {settings.ray_address}: {error}.") from error
        try:
            yield
        finally:
            ray.shutdown()
        return
    folder = _session_folder()
    guard = _start_guard(folder)
    try:
        _start_local(settings, folder)
        yield
    finally:
        _stop_local()
        _end_guard(guard)
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_silence(address: str) -> None:
    """Raises `ClusterError` where nothing listens at `host:port`: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not (port.isascii() and port.isdigit()):
        return  # "auto", or an address of another scheme
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"There is no Ray cluster at {address}: {error}.") from error


def _start_local(settings: ClusterSettings, folder: Path) -> None:
    """Start a Ray below `folder`; Ray gives itself 30 s, so a busy machine gets more than one try."""
    _quiet()
    import ray

    before = signal.getsignal(signal.SIGTERM)
    for attempt in range(START_ATTEMPTS):
        try:
            with _silent_stderr():
                ray.init(
                    address="local",  # whatever RAY_ADDRESS says: to join a cluster is a setting of ours
                    num_cpus=settings.local_cpus,
                    object_store_memory=settings.object_store_bytes or object_store_bytes(),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=str(folder),
                )
            break
        except Exception as error:
            ray.shutdown()
            kill_session(str(folder))
            if STARTUP_TIMEOUT not in str(error):
                raise
            if attempt == START_ATTEMPTS - 1:
                raise ClusterError(
                    f"Ray did not start on this machine in {START_ATTEMPTS} tries of 30 s each; "
                    "it may be too busy, or give the address of a running Ray with --ray-address."
                ) from error
    if threading.current_thread() is threading.main_thread():
        # Ray's own handler would end us without clearing up.
        signal.signal(signal.SIGTERM, before if callable(before) else _end_on_signal)


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep the native part of Ray from announcing its log level on our standard error."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _stop_local() -> None:
    import ray

    ray.shutdown()


def _quiet() -> None:
    """Settings Ray takes from the environment only, and only before it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_EXPORT_COUNTER_AS_GAUGE", "0")  # else every counter is exported twice
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray.data  # noqa: F401 - sets up its logger, which is then quieted

    # What ends a run is raised as well, and said in a sentence; two lines of Ray's own code say no more.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _session_folder() -> Path:
    """A private folder with a short path: Ray puts sockets below it, and their paths are limited to 107
    bytes.
    """
    base = tempfile.gettempdir()
    if len(base) > SOCKET_PATH_ROOM:
        base = "/tmp"
    return Path(tempfile.mkdtemp(prefix="fastocr-", dir=base))


def object_store_bytes() -> int:
    """Room for pages on their way, by the memory of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = int(memory * OBJECT_STORE_SHARE_OF_MEMORY)
    return max(OBJECT_STORE_LEAST_BYTES, min(share, OBJECT_STORE_MOST_BYTES))


def _start_guard(folder: Path) -> subprocess.Popen[bytes]:
    """The guard holds the reading end of a pipe; the kernel closes ours when this process ends, however."""
    return subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("session_guard.py")), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end_guard(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.close()
    try:
        guard.wait(timeout=SHUTDOWN_SECONDS)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()
