"""The doctor names what is wrong, what to do, and never shows a secret nor leaves a trace."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import doctor_storage
from pipeline.claim import claim_target
from pipeline.cli import application
from pipeline.config import RunConfig
from pipeline.doctor import Finding, Level, Places, examine, examined, exit_code, finding_line
from pipeline.doctor_machine import (
    check_one_owner,
    check_packages,
    check_python,
    judge_disk,
    judge_gpus,
    judge_memory,
    judge_owners,
    judge_shared_memory,
    unmet,
)
from pipeline.doctor_runtime import check_model, judge_reading
from pipeline.doctor_storage import check_credentials, check_source, check_target
from tests.support.made_archive import make_archive
from workers.object_store import LocalStore, StorageSettings
from workers.self_test import KNOWN_TEXTS

GIGABYTE = 1_000_000_000


def _config(tmp_path: Path, **settings: Any) -> RunConfig:
    return RunConfig(source=str(tmp_path / "in"), target=str(tmp_path / "out"), model="tiny", **settings)


def _levels(findings: Sequence[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def test_this_machine_is_fit() -> None:
    for check in (check_python, check_packages, check_one_owner):
        assert _levels(check()) == [Level.OK], check()


def test_what_is_too_little_is_said() -> None:
    assert judge_memory(1 * GIGABYTE).level == Level.FAIL
    assert judge_memory(4 * GIGABYTE).level == Level.WARN
    assert judge_memory(16 * GIGABYTE).level == Level.OK
    assert judge_disk("/tmp", GIGABYTE // 2).level == Level.FAIL
    assert judge_disk("/tmp", 5 * GIGABYTE).level == Level.WARN
    assert judge_disk("/tmp", 50 * GIGABYTE).level == Level.OK
    assert judge_shared_memory(64_000_000, 2 * GIGABYTE).level == Level.WARN
    assert judge_shared_memory(None, 2 * GIGABYTE).level == Level.WARN
    assert judge_shared_memory(4 * GIGABYTE, 2 * GIGABYTE).level == Level.OK


def test_gpus_and_the_build_of_torch_must_fit() -> None:
    assert judge_gpus(["A", "A"], "2.13.0").level == Level.OK
    assert judge_gpus(["A"], "2.13.0+cpu").level == Level.FAIL
    assert judge_gpus([], "2.13.0").level == Level.WARN
    assert judge_gpus(None, "2.13.0").level == Level.WARN
    assert judge_gpus(None, "2.13.0+cpu").level == Level.OK


def test_requirements_that_are_not_met_are_named() -> None:
    wanted = ["ray[data]>=2.55", "torch>=2.9", "pymupdf>=1.28.2,<2", 'pytest>=8; extra == "dev"']
    assert unmet(wanted, {"ray": "2.60.0", "torch": "2.13.0+cpu", "pymupdf": "1.28.2"}) == []
    assert unmet(wanted, {"ray": "2.60.0", "pymupdf": "2.0"}) == [
        "torch is not installed",
        "pymupdf is 2.0, needed is <2,>=1.28.2",
    ]


def test_packages_that_share_their_names_are_found() -> None:
    here, there = Path("/here"), Path("/there")
    (alone,) = judge_owners({"pipeline": here, "workers": here}, {"pipeline": ["ours"], "workers": []})
    assert alone.level == Level.OK
    (torn,) = judge_owners({"pipeline": here, "workers": there}, {})
    assert torn.level == Level.FAIL
    (taken,) = judge_owners({"pipeline": here}, {"pipeline": ["other", "ours"]})
    assert (taken.level, "other and ours" in taken.found) == (Level.FAIL, True)
    (lost,) = judge_owners({"pipeline": None}, {})
    assert lost.found == "pipeline is missing"


def test_a_source_is_listed_and_read(tmp_path: Path) -> None:
    make_archive(tmp_path / "in", documents=2, pages=1)
    config = _config(tmp_path)
    for source in ("in", "in/book-1.pdf", "in/*.pdf", "in/**/*.pdf"):
        assert _levels(check_source(str(tmp_path / source), config)) == [Level.OK], source
    (tmp_path / "empty").mkdir()
    for source in ("nowhere", "empty"):
        assert _levels(check_source(str(tmp_path / source), config)) == [Level.FAIL], source


def test_a_target_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    config = _config(tmp_path)
    target, places = str(tmp_path / "out"), Places(None, str(tmp_path / "out"))
    assert _levels(check_target(target, config, places)) == [Level.OK]
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    assert _levels(check_target(target, config, places)) == [Level.OK]
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]
    store = LocalStore(target)
    claim_target(store, config)
    store.put("_work/staged/shard-000000", b"of a run that is under way")
    before = sorted(tmp_path.rglob("*"))
    assert _levels(check_target(target, config, places)) == [Level.OK, Level.OK]
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "tmp") == [
        p for p in before if p.name != "tmp"
    ]


def test_a_target_of_another_configuration_or_in_the_source_or_not_writable(tmp_path: Path) -> None:
    config = _config(tmp_path)
    target = str(tmp_path / "out")
    claim_target(LocalStore(target), config)
    other = config.model_copy(update={"model": "mini"})
    findings = check_target(target, other, Places(None, target))
    assert _levels(findings) == [Level.OK, Level.FAIL]
    assert "(different: model)" in findings[-1].found
    inside = examined("target", lambda: check_target(target, config, Places(str(tmp_path), target)))
    assert "lies inside the source" in inside[0].found
    (tmp_path / "file").write_bytes(b"")
    assert _levels(check_target(str(tmp_path / "file" / "out"), config, Places(None, target))) == [Level.FAIL]


def test_a_storage_that_overwrites_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(LocalStore):
        """Answers like a server that does not know If-None-Match."""

        def put_if_absent(self, key: str, data: bytes) -> bool:
            self.put(key, data)
            return True

    monkeypatch.setattr(doctor_storage, "open_store", lambda uri, settings: Careless(uri))
    (finding,) = check_target(str(tmp_path / "out"), _config(tmp_path), Places(None, None))
    assert (finding.level, "put-if-absent" in finding.mend) == (Level.FAIL, True)
    config = _config(tmp_path)
    promised = config.model_copy(update={"storage": replace(config.storage, single_writer=True)})
    (finding,) = check_target(str(tmp_path / "out"), promised, Places(None, None))
    assert finding.level == Level.WARN


def test_credentials_are_found_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    config = _config(tmp_path)
    assert _levels(check_credentials(config)) == [Level.FAIL]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDNOTTOBESEEN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "neither-is-this")
    (found,) = check_credentials(config)
    assert found.level == Level.OK
    assert not re.search("AKIDNOTTOBESEEN|neither-is-this", finding_line(found))
    wrong = config.model_copy(update={"storage": StorageSettings(profile="nobody")})
    (failed,) = examined("credentials", lambda: check_credentials(wrong))
    assert (failed.level, "no such profile" in failed.found) == (Level.FAIL, True)


def test_a_model_is_tried_on_a_known_page(tmp_path: Path) -> None:
    assert _levels(check_model(_config(tmp_path))) == [Level.OK]
    assert _levels(check_model(_config(tmp_path).model_copy(update={"model": "nosuchmodel"}))) == [Level.FAIL]
    text = KNOWN_TEXTS[0]
    assert judge_reading("any", "any", text, "stop", None).level == Level.OK
    wrong = (
        "Nothing of the kind was ever printed on this page, which speaks of quite other things altogether."
    )
    assert judge_reading("any", "any", wrong, "stop", None).level == Level.FAIL
    assert judge_reading("any", "any", "", "stop", None).level == Level.FAIL
    assert judge_reading("any", "any", text, "error", "broken").level == Level.FAIL


def test_whatever_a_check_raises_is_a_finding(tmp_path: Path) -> None:
    def breaks() -> Sequence[Finding]:
        raise RuntimeError("first line\nsecond line")

    (finding,) = examined("odd", breaks)
    assert finding_line(finding).startswith("fail odd           first line")
    assert exit_code([finding]) == 1
    assert exit_code([Finding(Level.WARN, "odd", "so so")]) == 0
    titles = [
        finding.title
        for finding in examine(_config(tmp_path), Places(None, None), with_ray=False, with_model=False)
    ]
    assert titles == ["python", "packages", "installation", "memory", "shared memory", "disk", "gpu"]


def test_the_command(tmp_path: Path) -> None:
    make_archive(tmp_path / "in", documents=1, pages=1)
    command = ["doctor", str(tmp_path / "in"), str(tmp_path / "out"), "--without-ray", "--without-model"]
    well = CliRunner().invoke(application, command)
    assert well.exit_code == 0, well.output
    assert len(well.output.splitlines()) == 9
    ill = CliRunner().invoke(application, ["doctor", str(tmp_path / "nowhere"), *command[2:]])
    assert ill.exit_code == 1
    assert "fail source" in ill.output
    slip = CliRunner().invoke(application, ["doctor", "gs://bucket/x", *command[2:]])
    assert slip.exit_code == 2
