"""What `fastocr eval` is asked for wrongly is refused in one sentence, with exit code 2, before anything is read."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fastocr_core.evaluation import confidence, fixation, reader
from pipeline.cli import application
from pipeline.eval_output import check_folder, output_at

SHORT = "--model tiny --sets clean --pages 1 --max-output-tokens 24"


def _run(line: str, *more: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(application, ["eval", *shlex.split(line), *more])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def _nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a page is read all the same."""

    def read(*_: object, **__: object) -> object:
        raise AssertionError("a page was read")

    for module, name in ((fixation, "read_by_many"), (reader, "evaluate"), (confidence, "judge_pages")):
        monkeypatch.setattr(module, name, read)


@pytest.mark.usefixtures("_nothing_is_read")
@pytest.mark.parametrize("command", ["reader", "fixation", "confidence"])
def test_without_what_scores_need_nothing_is_read(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    code, _, said = _run(f"{command} {SHORT}", *(("--others", "") if command == "reader" else ()))
    assert code == 2
    assert "scores need rapidfuzz: pip install -e '.[eval]' in a checkout" in said


@pytest.mark.usefixtures("_nothing_is_read")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("reader --others '' --sets nonsense", "no held-out set 'nonsense'"),
        ("reader --others '' --sets clean,columns,clean", "--sets names clean twice"),
        ("reader --others '' --model nonsense --pages 1", "unknown model 'nonsense'"),
        (f"reader {SHORT} --decode '' --others ''", "no reader: name a policy"),
        (f"reader {SHORT} --decode dense,dense", "--decode names dense twice"),
        (f"reader {SHORT} --decode nonsense", "unknown decode policy 'nonsense'"),
        (f"reader {SHORT} --others '' --device nonsense", "device 'nonsense' cannot be used here"),
        (f"reader {SHORT} --others '' --device meta", "device 'meta' cannot be used here"),
        (f"reader {SHORT} --others '' --batch 0", "--batch must be at least 1, not 0"),
        ("reader --model tiny --others '' --max-output-tokens 0", "max_output_tokens must be at least 1"),
        (f"reader {SHORT} --others '' --kept-share 7", "kept_share must lie in (0, 1], not 7.0"),
        ("reader --model tiny --others '' --sets ''", "no page to read"),
        ("fixation --pages 0", "at least one page"),
        (f"fixation {SHORT} --forced-pages -1 --forced-steps -1", "forced_steps must be at least 1, not -1"),
        (f"fixation {SHORT} --forced-pages -1", "forced_pages must be at least 0, not -1"),
        (f"fixation {SHORT} --kept-shares 7", "kept_shares must lie in (0, 1], not 7"),
        (f"fixation {SHORT} --kept-shares ''", "kept_shares must name at least one"),
        (f"fixation {SHORT} --kept-shares 0.1,0.10", "kept_shares must not name 0.1 twice"),
        (f"fixation {SHORT} --kept-shares half", "'half' is no share such as 0.05"),
        (f"fixation {SHORT} --warmups 0", "warmups must be at least 1, not 0"),
        (f"fixation {SHORT} --warmups 4,x", "--warmups: 'x' is no whole number"),
        (f"fixation {SHORT} --page-focal-counts 0", "page_focal_counts must be at least 1, not 0"),
        (f"fixation {SHORT} --groups nonsense", "unknown group 'nonsense'"),
        (f"fixation {SHORT} --focal-layers 2+x", "'2+x' is no set of layers such as 2+4"),
        (f"fixation {SHORT} --focal-layers 0+99", "and so no layer 99"),
        ("fixation --model tiny --sets clean,clean --pages 1", "--sets names clean twice"),
        (f"confidence {SHORT} --pages-by-script -1", "--pages-by-script must be at least 0, not -1"),
        (f"confidence {SHORT} --decode dense,fastocr", "--decode takes one policy here, not 2"),
        (f"confidence {SHORT} --decode ''", "--decode takes one policy here, not 0"),
        ("confidence --model tiny --sets clean,clean --pages 1", "--sets names clean twice"),
        ("confidence --model tiny --sets '' --pages 1", "no page to read"),
        ("fixation-beside nowhere.json --names one", "nowhere.json: No such file"),
    ],
)  # fmt: skip
def test_it_is_one_sentence(wrong: str, sentence: str) -> None:
    code, printed, said = _run(wrong)
    assert (code, printed) == (2, "")
    assert said.startswith("fastocr: ")
    assert sentence in said
    assert len(said.splitlines()) == 1


@pytest.mark.usefixtures("_nothing_is_read")
@pytest.mark.parametrize("command", ["reader --others ''", "fixation", "confidence"])
def test_where_nothing_can_be_written_nothing_is_read(command: str, tmp_path: Path) -> None:
    (tmp_path / "taken.json").mkdir()
    for output, sentence in (
        (tmp_path, "is a folder: name the files to write"),
        (Path(), "is a folder: name the files to write"),
        (tmp_path / "missing" / "study", "there is no folder"),
        (tmp_path / "taken", "cannot be written over"),
    ):
        code, _, said = _run(f"{command} {SHORT} -o", str(output))
        assert code == 2
        assert sentence in said
        assert len(said.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["taken.json"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody can write")
def test_a_folder_that_cannot_be_written_to_is_said() -> None:
    with pytest.raises(ValueError, match="/proc cannot be written to: "):
        check_folder(Path("/proc"))


def test_names_of_outputs_are_kept_whole(tmp_path: Path) -> None:
    for given, named in (
        ("tau-0.05", "tau-0.05"), ("tau-0.05.md", "tau-0.05"), ("x.json", "x"), ("x", "x"), ("v1.2.png", "v1.2.png"),
    ):  # fmt: skip
        output = output_at(tmp_path / given)
        assert output is not None
        assert output.file(".md") == tmp_path / f"{named}.md"
    (tmp_path / "ev").mkdir()
    output = output_at(tmp_path / "ev.md")  # beside a folder of that name
    assert output is not None
    assert output.file(".json") == tmp_path / "ev.json"
    assert output_at(None) is None


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    code, _, said = _run(
        f"fixation {SHORT} --kept-shares 0.1 --groups '' --forced-pages 0 -o", str(folder / "tau-0.1")
    )
    assert code == 0, said
    assert sorted(file.name for file in folder.iterdir()) == [
        "tau-0.1.json", "tau-0.1.jsonl", "tau-0.1.md", "tau-0.1.png",
    ]  # fmt: skip
    return folder / "tau-0.1.json"


def test_a_study_is_not_written_over_by_its_comparison(study: Path) -> None:
    before = study.read_bytes()
    code, _, said = _run(f"fixation-beside {study} {study} --names a,b -o", str(study.with_suffix("")))
    assert code == 2
    assert "tau-0.1.json would be written over, and is one of the files to read" in said
    assert study.read_bytes() == before
    code, _, said = _run(f"fixation-beside {study} {study} --names a,a")
    assert (code, said) == (2, "fastocr: --names names a twice\n")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda report: [report], "second: this is no result of"),
        (lambda report: {**report, "evaluation": "reader"}, "second: this is no result of"),
        (lambda report: {key: report[key] for key in report if key != "rows"}, "second: .* has no rows"),
        (lambda report: {key: report[key] for key in report if key != "model"}, "second: .* has no model"),
        (lambda report: {**report, "rows": [1]}, "second: this is no row of a fixation study"),
        (
            lambda report: {**report, "rows": [{**report["rows"][0], "mean_cer": "low"}]},
            "second: .* with 'low' as mean_cer",
        ),
    ],
)
def test_what_is_no_study_is_named(study: Path, tmp_path: Path, change: Any, sentence: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(change(json.loads(study.read_text()))))
    code, printed, said = _run(f"fixation-beside {study} {other} --names first,second")
    assert (code, printed) == (2, "")
    assert len(said.splitlines()) == 1
    with pytest.raises(AssertionError, match=f"fastocr: {sentence}"):
        raise AssertionError(said)


def test_a_study_without_dense_rows_stands_beside_others(study: Path, tmp_path: Path) -> None:
    report = json.loads(study.read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**report, "rows": report["rows"][1:]}))
    code, printed, _ = _run(f"fixation-beside {study} {other} --names first,second")
    assert code == 0
    assert "| fastocr 10% | second |" in printed


def test_what_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("nonsense")
    code, _, said = _run("fixation-beside --names one", str(tmp_path / "one.json"))
    assert code == 2
    assert "one.json is no JSON file" in said


def test_tracebacks_are_for_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("much\nand the end")

    monkeypatch.setattr(reader, "evaluate", broken)
    code, _, said = _run(f"reader {SHORT} --others ''")
    assert (code, said) == (
        1,
        "fastocr: it failed: RuntimeError: and the end (--debug shows the traceback)\n",
    )
    done = CliRunner().invoke(application, ["eval", *shlex.split(f"reader {SHORT} --others '' --debug")])
    assert isinstance(done.exception, RuntimeError)
    for command in ("reader", "fixation", "fixation-beside", "confidence"):
        assert "--debug" in CliRunner().invoke(application, ["eval", command, "--help"]).stdout


def test_a_cut_run_says_so(tmp_path: Path) -> None:
    code, _, said = _run(f"reader {SHORT} --others '' --decode fastocr -o", str(tmp_path / "r"))
    assert code == 0, said
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"] == {
        "decode": ["fastocr"], "kept_share": 0.05, "sets": ["clean"], "pages_of_each_set": 1, "batch": 8,
        "max_output_tokens": 24, "device": report["settings"]["device"],
    }  # fmt: skip
    assert report["settings"]["device"].startswith(("cpu", "cuda"))
    assert "stopped after 24 tokens at most" in (tmp_path / "r.md").read_text()


def test_only_a_command_with_a_figure_offers_one() -> None:
    for command, figure in (
        ("reader", False),
        ("fixation", True),
        ("fixation-beside", False),
        ("confidence", False),
    ):
        assert ("figure" in CliRunner().invoke(application, ["eval", command, "--help"]).stdout) == figure


@pytest.mark.parametrize("signalled", [True, False])
def test_ctrl_c_ends_at_once_and_the_same_command_carries_on(tmp_path: Path, signalled: bool) -> None:
    """Once as the signal of a terminal while pages are under way, once as an interrupt from within."""
    line = f"fixation --model tiny --sets clean --pages 2 --kept-shares 0.1 --groups '' --forced-pages 0 -o {tmp_path / 's'}"
    stop = "os.kill(os.getpid(), signal.SIGINT)" if signalled else "raise KeyboardInterrupt"
    program = f"""
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs with it ignored
from fastocr_core.evaluation.records import Records
add = Records.add
def add_one(records, key, value):
    add(records, key, value)
    {stop}
Records.add = add_one
from pipeline.cli import main
sys.argv = ["fastocr", "eval", *{shlex.split(line)!r}]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 128 + signal.SIGINT
    assert "run the same command again to carry on" in done.stderr
    assert str(tmp_path / "s.jsonl") in done.stderr
    assert "Traceback" not in done.stderr
    assert len((tmp_path / "s.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [("reader --others ''", reader, "evaluate"), ("confidence", confidence, "judge_pages")],
)
def test_ctrl_c_ends_a_command_that_keeps_nothing(
    command: str, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, stopped)
    assert _run(f"{command} {SHORT}") == (130, "", "Stopped; nothing was written.\n")
