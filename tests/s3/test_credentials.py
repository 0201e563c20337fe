"""Credentials that come from a process named in a profile, expire, and are read again."""

import dataclasses
import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.s3_server import S3Server
from workers import s3_client
from workers.object_store import (
    CredentialsRejected,
    StorageSettings,
    credentials_kind,
    open_store,
)

pytestmark = pytest.mark.s3

PROGRAM = """#!{python}
import json, pathlib
calls = pathlib.Path({calls!r})
made = calls.read_text().count("x") if calls.exists() else 0
calls.write_text("x" * (made + 1))
answers = json.loads(pathlib.Path({answers!r}).read_text())
answer = answers[min(made, len(answers) - 1)]
if isinstance(answer, str):
    print(answer)
    raise SystemExit(0 if answer else 3)
print(json.dumps({{"Version": 1, **answer}}))
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Vendor:
    """A credential process that gives one prepared answer after the other, the last one for ever."""

    folder: Path
    profile: str = "archive"

    def write(self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, str] | str) -> None:
        """Make the program and the AWS configuration, and let nothing else offer credentials."""
        program = self.folder / "vendor"
        (self.folder / "answers.json").write_text(json.dumps(answers))
        program.write_text(
            PROGRAM.format(
                python=sys.executable,
                calls=str(self.folder / "calls"),
                answers=str(self.folder / "answers.json"),
            )
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self.folder / "config").write_text(f"[profile {self.profile}]\ncredential_process = {program}\n")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(self.folder / "config"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(self.folder / "none"))

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len((self.folder / "calls").read_text())


def _answer(server: S3Server, minutes: float, key: str | None = None) -> dict[str, str]:
    return {
        "AccessKeyId": key or server.credentials["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": server.credentials["AWS_SECRET_ACCESS_KEY"],
        "Expiration": (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat(),
    }


@pytest.fixture
def vendor(tmp_path: Path) -> Vendor:
    return Vendor(tmp_path)


@pytest.fixture
def settings(s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> StorageSettings:
    """For a client made in this test."""
    monkeypatch.setattr(s3_client, "_clients", {})
    return dataclasses.replace(s3_settings, profile="archive", max_attempts=2)


def test_credentials_that_expire_by_the_clock_are_asked_for_again(
    s3_server: S3Server,
    s3_bucket: str,
    settings: StorageSettings,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon, later = _answer(s3_server, minutes=2), _answer(s3_server, minutes=600)
    vendor.write(monkeypatch, soon, soon, later)
    store = open_store(s3_bucket, settings)
    for number in range(4):
        store.put(f"key-{number}", b"data")
    assert vendor.calls == 3  # those about to expire are renewed, the others kept
    assert credentials_kind(settings) == "custom-process"


def test_credentials_that_the_storage_no_longer_takes_are_read_again_once(
    s3_server: S3Server,
    s3_bucket: str,
    settings: StorageSettings,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vendor.write(monkeypatch, _answer(s3_server, 600, key="taken-back"), _answer(s3_server, 600))
    store = open_store(s3_bucket, settings)
    store.put("key", b"data")
    assert store.get("key") == b"data"
    assert vendor.calls == 2


def test_credentials_that_stay_refused_end_in_a_sentence(
    s3_server: S3Server,
    s3_bucket: str,
    settings: StorageSettings,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vendor.write(monkeypatch, _answer(s3_server, 600, key="taken-back"))
    with pytest.raises(CredentialsRejected, match="does not know the access key"):
        open_store(s3_bucket, settings).put("key", b"data")
    assert vendor.calls == 2


@pytest.mark.parametrize("answer", ["", "sorry, planted-secret is not JSON"])
def test_a_process_that_gives_none_ends_in_a_sentence_without_its_output(
    s3_bucket: str, settings: StorageSettings, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    vendor.write(monkeypatch, answer)
    with pytest.raises(CredentialsRejected, match="credential") as error:
        open_store(s3_bucket, settings).put("key", b"data")
    assert "planted-secret" not in str(error.value)


def test_an_address_with_credentials_in_it_is_refused() -> None:
    for address in ("https://user:secret@s3.example.org", "https://s3.example.org/?token=secret"):
        with pytest.raises(ValueError, match="least of all credentials") as error:
            StorageSettings(endpoint_url=address)
        assert "secret" not in str(error.value)
