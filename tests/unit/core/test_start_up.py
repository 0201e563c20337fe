"""Loading and the clocks of a start and of a page: what they count, never their seconds."""

import gc
import json
import shlex

import pytest

from fastocr_core import load
from fastocr_core.bench import page_seconds, start_up
from fastocr_core.collector import collector_paused
from fastocr_core.models.revisions import mini_folder

MOST_WEIGHT_BYTES = 30_000_000


def test_the_embedded_reader_stays_small() -> None:
    files = [file for file in mini_folder().rglob("*") if file.is_file()]
    assert any(file.suffix == ".safetensors" for file in files)
    assert sum(file.stat().st_size for file in files) <= MOST_WEIGHT_BYTES
    assert max(file.stat().st_size for file in files) <= 16 * 2**20  # a repository takes no larger files


def test_the_collector_rests_and_goes_on_as_before() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="unknown model"):
        load("nosuchmodel")
    assert gc.isenabled()


def test_a_fresh_process_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    start_up.main(shlex.split("--model tiny --processes 1"))
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["processes"] == 1
    assert 0 < report["load_seconds"] < report["total_seconds"]
    assert report["second_load_seconds"] > 0
    assert report["weight_bytes"] > 1_000_000


def test_a_page_is_timed_with_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    page_seconds.main(shlex.split("--model tiny --device cpu --threads 1 --rounds 2"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 + 1
    dense, sparse = json.loads(lines[-1])["pages"]
    assert (dense["policy"], sparse["policy"]) == ("dense", "fastocr 5%")
    assert dense["rounds"] == sparse["rounds"] == 2
    assert dense["image_kv_read_share"] == 1.0 >= sparse["image_kv_read_share"]
    assert dense["seconds"] >= dense["fastest_seconds"] >= dense["decode_seconds"]


def test_the_page_is_a_full_sheet_and_words_are_counted_once_each() -> None:
    image, lines = page_seconds.a4_page()
    assert image.size == (1240, 1754)
    assert len(lines) > 45
    assert all(60 < len(line) < 130 for line in lines)
    text = "\n".join(lines)
    assert page_seconds.words_right(lines, text) == 1.0
    assert page_seconds.words_right(["a a b"], "b a") == pytest.approx(2 / 3)
