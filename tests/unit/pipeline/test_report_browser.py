"""The report in a real browser: hostile text neither runs nor breaks the layout."""

import json
import re
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest

from pipeline.report import build_report
from pipeline.report_html import visible
from tests.unit.pipeline.hostile_target import ATTACKS, PAGES, hostile_target

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
# What the test itself runs in the page: opens everything, measures, and leaves the answer as an attribute.
MEASURE = """<script>
document.querySelectorAll('details').forEach(one => one.open = true);
const pres = [...document.querySelectorAll('pre')];
document.body.setAttribute('data-measured', encodeURIComponent(JSON.stringify({
  ran: window.ran ?? null, title: document.title, scripts: document.scripts.length,
  strangers: document.querySelectorAll('img, iframe, plaintext, style:not(head > style)').length,
  width: document.documentElement.scrollWidth, window: document.documentElement.clientWidth,
  tallest: Math.max(...pres.map(one => one.getBoundingClientRect().height)),
  charts: [...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().height),
  covered: document.querySelectorAll('body > h2').length,
  texts: pres.map(one => one.textContent),
})));
</script>"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser to open the report in; install one of {', '.join(BROWSERS)}")
    return found


def _measured(browser: str, page: Path, width: int) -> dict[str, object]:
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=5000",
        f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    dumped = subprocess.run(command, capture_output=True, timeout=300, check=True).stdout.decode()
    (answer,) = re.findall(r'data-measured="([^"]*)"', dumped)
    return dict(json.loads(urllib.parse.unquote(answer)))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1100, 520])
def test_hostile_text_neither_runs_nor_breaks_the_layout(browser: str, tmp_path: Path, width: int) -> None:
    report = build_report(hostile_target(tmp_path / "target"))
    # Without its policy, so that the escaping alone has to hold.
    opened, replaced = POLICY.subn("", report)
    assert replaced == 1
    page = tmp_path / "report.html"
    page.write_text(opened.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    found = _measured(browser, page, width)
    assert found["ran"] is None
    assert str(found["title"]).startswith("fastocr report: ")
    assert (found["scripts"], found["strangers"]) == (1, 0)
    assert found["width"] == found["window"], "something is wider than the window"
    assert float(str(found["tallest"])) <= 24 * 16 + 1
    charts = found["charts"]
    assert isinstance(charts, list)
    assert len(charts) == 3
    assert min(charts) > 50
    texts = found["texts"]
    assert isinstance(texts, list)
    assert len(texts) == PAGES + PAGES // 2 + 1
    for attack in ATTACKS:
        assert visible(attack[:4000]) in texts


@pytest.mark.slow
def test_the_policy_of_the_page_lets_no_script_run(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report = build_report(hostile_target(tmp_path / "target"))
    page.write_text(report.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    with pytest.raises(ValueError, match="not enough values"):
        _measured(browser, page, 1100)
