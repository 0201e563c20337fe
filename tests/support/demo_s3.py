"""`make demo-s3`: the sample archive from an S3 bucket to an S3 bucket, on a server that lives for the demo only."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.s3_server import S3Server

ARCHIVE = Path(__file__).resolve().parents[2] / "infra" / "examples" / "archive"


def main() -> int:
    """Start the server, upload the archive, run; returns the exit code of `fastocr run`."""
    server = S3Server.start()
    try:
        server.make_bucket("archive")
        client = server.client()
        for file in sorted(file for file in ARCHIVE.rglob("*") if file.is_file()):
            key = f"scans/{file.relative_to(ARCHIVE)}"
            client.put_object(Bucket="archive", Key=key, Body=file.read_bytes())
        command = [sys.executable, "-m", "pipeline", "run", "s3://archive/scans", "s3://archive/output"]
        options = ["--endpoint-url", server.endpoint_url, "--region", "us-east-1", "--path-style"]
        return subprocess.run(
            [*command, *options], env={**os.environ, **server.credentials}, check=False
        ).returncode
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
