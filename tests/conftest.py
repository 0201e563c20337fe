"""Fixtures for all tests: the case files, a real S3 server with a fresh bucket per test, made documents."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.s3_server import S3Server
from workers.storage import StorageSettings

ROOT = Path(__file__).resolve().parent.parent
# Triton decides on its first import whether kernels are compiled for a GPU or interpreted.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Two test processes side by side: torch threads of each would only wait for those of the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# How long an example takes says more of the machine than of us. Elsewhere properties meet new examples each time; a change is
# held to the same ones whenever it is tried (HYPOTHESIS_PROFILE=gate).
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", settings.get_profile("random"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "random"))
# Folders and files whose tests start clusters or look at all processes of the machine: one after the other.
ONE_AT_A_TIME = (
    "tests/ray/",
    "tests/s3/",
    "tests/soak/",
    "test_local_ray.py",
    "test_doctor.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, a file stays in one, and clusters do not meet each other."""
    for item in items:
        place = item.nodeid.split("::")[0]
        group = "clusters" if any(name in place for name in ONE_AT_A_TIME) else place
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def cases_dir() -> Path:
    """Folder with the real and broken input files; tests that need them are skipped where it is absent."""
    configured = os.environ.get("FASTOCR_CASES")
    folder = Path(configured) if configured else ROOT.parent / "shared" / "cases"
    if not folder.is_dir():
        pytest.skip(f"no case files at {folder}; set FASTOCR_CASES to their folder")
    return folder


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One SeaweedFS for the whole session."""
    server = S3Server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def s3_settings(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> StorageSettings:
    """How to reach the test server; credentials go the usual way, through the environment."""
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    return StorageSettings(endpoint_url=s3_server.endpoint_url, region="us-east-1", path_style=True)


@pytest.fixture
def s3_bucket(s3_server: S3Server, s3_settings: StorageSettings) -> str:
    """A fresh bucket, as `s3://name`."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    s3_server.make_bucket(name)
    return f"s3://{name}"
