"""Records are never written over in place, and a file that is none of theirs, or damaged, is refused and left as it was."""

import json
import os
from pathlib import Path

import pytest

from fastocr_core.evaluation.records import Records

MADE_WITH = {"model": "m", "steps": 3}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """With two measurements."""
    records = Records(tmp_path / "study.jsonl", MADE_WITH)
    records.add(("read", "a"), {"cer": 0.5})
    records.add(("read", "b"), {"cer": 0.25})
    return tmp_path / "study.jsonl"


def test_a_start_with_nothing_to_cut_writes_nothing(file: Path) -> None:
    os.utime(file, ns=(10**9, 10**9))
    assert len(Records(file, MADE_WITH)) == 2
    assert file.stat().st_mtime_ns == 10**9


def test_a_kill_while_a_line_is_cut_loses_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes() + b'{"key": ["read", "c"], "val'
    file.write_bytes(before)

    def killed(*_: object) -> None:
        assert file.read_bytes() == before
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            Records(file, MADE_WITH)
    assert file.read_bytes() == before
    assert len(Records(file, MADE_WITH)) == 2
    assert file.read_bytes() == before[: before.rfind(b"\n") + 1]
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    "content", [b"my only notes, without a line end", b'{"made_with": {"model": "m"', b"\xff\n", b"\n"]
)
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="holds no measurements of this kind"):
        Records(file, MADE_WITH)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [b"", b"  ", b"{}", b"[1,2]", b"null", b"nonsense", b"\xff", b'{"key": ["a"]}', b'{"key": "a", "value": 1}',
     b'{"key": [], "value": 1}', b'{"key": ["a"], "value": 1, "more": 2}', b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_line_is_named(file: Path, line: bytes) -> None:
    first, second, third = file.read_bytes().splitlines()
    damaged = b"\n".join([first, second, line, third, b""])
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"study\.jsonl, line 3: ") as refused:
        Records(file, MADE_WITH)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
    assert file.read_bytes() == damaged


def test_a_value_that_is_none_of_its_key_is_named(file: Path) -> None:
    def check(key: tuple[str, ...], value: object) -> None:
        if value != {"cer": 0.5}:
            raise ValueError("without a rate")

    with pytest.raises(ValueError, match=r"study\.jsonl, line 3: .*without a rate"):
        Records(file, MADE_WITH, check)


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    Records(file, MADE_WITH)
    assert json.loads(file.read_text()) == {"made_with": MADE_WITH}
