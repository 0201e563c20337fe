"""The fixation page: what is recorded, and that hostile text stays text."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fastocr_core import DecodePolicy, Engine, load
from fastocr_core.bench.decode import noise_page
from fastocr_core.models.base import ModelAdapter
from fastocr_core.view.gaze import FixationTrace
from fastocr_core.view.page import fixation_page
from fastocr_core.view.trace import record

POLICY = DecodePolicy.fastocr(0.1, floor=4, warmup_steps=4, focal_layers=(1,))


@pytest.fixture(scope="module")
def model() -> ModelAdapter:
    return load("tiny", device="cpu")


@pytest.fixture(scope="module")
def traces(model: ModelAdapter) -> list[FixationTrace]:
    page = noise_page(96, model.vision, 3)
    return [record(model, page, DecodePolicy.dense()), record(model, page, POLICY)]


def test_recording_changes_no_token(model: ModelAdapter, traces: list[FixationTrace]) -> None:
    page = traces[0].page
    for trace, policy in zip(traces, (DecodePolicy.dense(), POLICY), strict=True):
        with Engine(model, policy, 1) as engine:
            plain = engine.submit(page).result()
        assert trace.page_text.tokens == plain.tokens
        assert trace.page_text.image_kv_read_share == plain.image_kv_read_share


def test_each_token_has_the_gaze_that_wrote_it(traces: list[FixationTrace]) -> None:
    for trace in traces:
        count = len(trace.page_text.tokens)
        assert len(trace.gazes) == len(trace.written) == count > 8
        assert trace.gazes[0] is None
        for gaze in trace.gazes[1:]:
            assert gaze is not None
            shares = [share for _, share in gaze.strongest]
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1.001
        assert list(trace.written) == sorted(trace.written)
        assert trace.written[-1] == len(trace.page_text.text)


def test_dense_sees_everything_and_sparse_its_fixation(traces: list[FixationTrace]) -> None:
    dense, sparse = traces
    assert all(gaze is None or gaze.seen is None for gaze in dense.gazes)
    after = [gaze for gaze in sparse.gazes[1 + POLICY.warmup_steps :] if gaze is not None]
    assert after
    for gaze in after:
        assert gaze.seen is not None
        assert 0 < len(gaze.seen) < sparse.page.image_tokens
        assert max(gaze.seen) < sparse.page.image_tokens


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, object] = json.loads(found.group(1))
    return data


def test_the_page_holds_both_readings_and_nothing_from_outside(traces: list[FixationTrace]) -> None:
    page = fixation_page("page 1", traces)
    data = data_of(page)
    assert [reading["name"] for reading in data["readings"]] == ["dense", "fastocr 10%"]  # type: ignore[attr-defined]
    assert not re.search(r'(?:src|href)="?(?!data:)\w', page)
    assert "://" not in page


def test_hostile_text_stays_data(traces: list[FixationTrace]) -> None:
    hostile = "</script><script>alert(1)</script><!-- __DATA__"
    page = fixation_page(hostile, traces)
    assert page.count("</script>") == 2
    assert data_of(page)["title"] == hostile


def test_traces_of_different_pages_are_refused(model: ModelAdapter, traces: list[FixationTrace]) -> None:
    other = record(model, Image.fromarray(np.full((40, 600), 200, np.uint8)), DecodePolicy.dense())
    with pytest.raises(ValueError, match="different pages"):
        fixation_page("x", [traces[0], other])
    with pytest.raises(ValueError, match="no trace"):
        fixation_page("x", [])


def test_in_a_browser_the_slider_moves_text_and_gaze(traces: list[FixationTrace], tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine (Debian package chromium)")
    file = tmp_path / "fixation.html"
    file.write_text(fixation_page("</script><script>document.title='broken'</script>", traces), "utf-8")
    seen = []
    for step in (0, 12):
        address = f"{file.as_uri()}#step={step}&boxes=1"
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}/profile",
        ]
        done = subprocess.run([*command, "--dump-dom", address], capture_output=True, text=True, timeout=120)
        body = done.stdout
        assert "<title>Fixation: &lt;/script&gt;" in body, done.stderr[-2000:]
        panels = re.findall(r'<pre class="text">(.*?)<span class="now">(.*?)</span></pre>', body, re.DOTALL)
        assert len(panels) == 2
        assert f"step {step + 1} of " in body
        cells = traces[0].page.image_tokens
        said = re.findall(r"This step reads (\d+) of (\d+) image tokens", body)
        gazes = [trace.gazes[step] for trace in traces]
        seen_now = [None if gaze is None else gaze.seen for gaze in gazes]
        assert said == [(str(cells if now is None else len(now)), str(cells)) for now in seen_now]
        seen.append([len(html.unescape(before + now)) for before, now in panels])
    assert seen[1] == [trace.written[12] for trace in traces]
    assert seen[0] == [trace.written[0] for trace in traces]
