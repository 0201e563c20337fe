"""What cannot work is said in one sentence with the right exit code, before anything is written or Ray is started."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import application
from tests.support.fault_proxy import Fault, Kind, fault_proxy
from tests.support.made_archive import make_pdf
from tests.support.s3_server import S3Server
from workers import s3_client
from workers.object_store import StorageSettings, open_store

pytestmark = pytest.mark.s3

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """A source and a target in S3, a source on disk, and the options that lead to the server."""

    bucket: str
    folder: Path
    options: Arguments

    @property
    def source(self) -> str:
        return f"{self.bucket}/scans"

    @property
    def target(self) -> str:
        return f"{self.bucket}/out"


@pytest.fixture
def places(
    s3_bucket: str, s3_settings: StorageSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Places:
    for name in [name for name in os.environ if name.startswith("FASTOCR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(s3_client, "FIRST_WAIT_SECONDS", 0.001)
    make_pdf(tmp_path / "scans" / "one.pdf", 1)
    open_store(f"{s3_bucket}/scans", s3_settings).put(
        "one.pdf", (tmp_path / "scans" / "one.pdf").read_bytes()
    )
    options = ("--endpoint-url", str(s3_settings.endpoint_url), "--region", "us-east-1", "--path-style")
    return Places(s3_bucket, tmp_path, options)


def _refused(arguments: Arguments, code: int, words: str) -> None:
    result = CliRunner().invoke(application, ["run", *arguments])
    said = result.output.strip()
    assert result.exit_code == code, said
    assert words in said
    assert said.count("\n") == 0
    assert said.startswith("fastocr: ")
    assert said.endswith(".")


CASES: dict[str, tuple[Callable[[Places], Arguments], int, str]] = {
    "bucket of the source": (lambda p: ("s3://not-there-at-all/x", p.target), 1, "no such bucket"),
    "bucket of the target": (lambda p: (p.source, "s3://not-there-at-all/out"), 1, "no such bucket"),
    "name of the bucket": (lambda p: ("s3://Not A Bucket/x", p.target), 1, "no possible S3 location"),
    "empty source": (lambda p: (f"{p.bucket}/nothing", p.target), 1, "nothing to read"),
    "model": (lambda p: (p.source, p.target, "--model", "minny"), 2, "minny"),
    "decode": (lambda p: (p.source, p.target, "--decode", "fastest"), 2, "fastest"),
    "profile": (lambda p: (p.source, p.target, "--profile", "nobody"), 1, "no such profile"),
    "address": (
        lambda p: (p.source, p.target, "--endpoint-url", "https://me:planted@example.org"), 2, "least of all credentials"
    ),
    "target below a file": (
        lambda p: (str(p.folder / "scans"), str(p.folder / "scans" / "one.pdf" / "out")), 2, "inside the source"
    ),
    "target that is a file": (lambda p: (p.source, str(p.folder / "scans" / "one.pdf")), 2, "one.pdf is a file"),
    "target nobody may write": (lambda p: (p.source, "/proc/fastocr-out"), 1, "/proc"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_slip_is_one_sentence(case: str, places: Places, s3_settings: StorageSettings) -> None:
    arguments, code, words = CASES[case]
    given = arguments(places)
    options = [
        option for option in places.options if "--endpoint-url" not in given or option.startswith("--p")
    ]
    _refused((*given, *options), code, words)
    assert [stored.key for stored in open_store(places.target, s3_settings).list()] == []
    assert (places.folder / "scans" / "one.pdf").is_file()


@pytest.mark.parametrize("key", ["modle = 'tiny'", "[storage]\nendpoint = 'x'", "[decode]\nkept = 1"])
def test_a_setting_that_does_not_exist(key: str, places: Places) -> None:
    config = places.folder / "run.toml"
    config.write_text(key)
    _refused((places.source, places.target, "--config", str(config)), 2, "There is no setting")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AWS_SECRET_ACCESS_KEY", "secret key does not fit"),
        ("AWS_ACCESS_KEY_ID", "does not know the access key"),
    ],
)
def test_wrong_credentials(places: Places, monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.setattr(s3_client, "_clients", {})
    monkeypatch.setenv(name, "planted-wrong-value")
    _refused((places.source, places.target, *places.options), 1, words)
    if name == "AWS_SECRET_ACCESS_KEY":
        result = CliRunner().invoke(application, ["run", places.source, places.target, *places.options])
        assert "planted" not in result.output


def test_a_target_that_may_not_be_written(places: Places, s3_server: S3Server) -> None:
    denied = Fault("PUT", "/out", Kind.ERROR, "AccessDenied", times=None)
    with fault_proxy(s3_server.endpoint_url, denied) as proxy:
        options = ("--endpoint-url", proxy.endpoint_url, *places.options[2:])
        _refused((places.source, places.target, *options, "--model", "tiny"), 1, "was denied")


def test_a_storage_that_overwrites_is_refused_unless_somebody_promises(
    places: Places, s3_server: S3Server, s3_settings: StorageSettings
) -> None:
    """A server that does not know the condition; with the promise the run goes on, here to a target of another."""
    unknown = Fault("PUT", "/_work/probe-", Kind.ERROR, "NotImplemented", times=None)
    with fault_proxy(s3_server.endpoint_url, unknown) as proxy:
        options = ("--endpoint-url", proxy.endpoint_url, *places.options[2:], "--model", "tiny")
        _refused((places.source, places.target, *options), 1, "--single-writer if you promise")
        target = open_store(places.target, s3_settings)
        assert list(target.list()) == []
        target.put("pages/part-00000.parquet", b"of another")
        _refused((places.source, places.target, *options, "--single-writer"), 2, "choose an empty target")
    assert unknown.struck == 1


def test_a_target_of_another_configuration_is_left_alone(
    places: Places, s3_settings: StorageSettings
) -> None:
    from pipeline.claim import claim_target
    from pipeline.config import resolve

    config = resolve(
        {"source": places.source, "target": places.target, "model": "tiny"}, environment={}
    ).config
    target = open_store(places.target, s3_settings)
    claim_target(target, config)
    before = {stored.key: target.get(stored.key) for stored in target.list()}
    assert list(before) == ["_run.json"]
    _refused(
        (places.source, places.target, *places.options, "--model", "tiny", "--decode", "dense"),
        2,
        "decode.name",
    )
    assert {stored.key: target.get(stored.key) for stored in target.list()} == before
