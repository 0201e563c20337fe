"""The Dockerfile as far as it can be checked without building it: sources, pins, stages, users."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

INSTRUCTIONS = {
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "SHELL",
    "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip
CONTINUED = re.compile(r"\\\n")
PIP = re.compile(r"pip (?:install|wheel) (?P<arguments>[^&|;]+)")
TAKES_VALUE = {"-c", "--index-url", "--extra-index-url", "--wheel-dir", "--platform"}
OWN = re.compile(
    r'"\$\(echo /wheels/\*\.whl\)\[[a-z,]+\]"|(?<=\s)\.(?=\s|$)'
)  # our wheel, or the source folder


@dataclass(frozen=True, slots=True)
class Stage:
    """One FROM and what follows it: (instruction, rest) in order."""

    name: str
    parent: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def rest(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.steps if name == instruction]


def parse_stages(text: str) -> dict[str, Stage]:
    """Stages by name; raises ValueError for a line that is no instruction."""
    stages: dict[str, Stage] = {}
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in CONTINUED.sub(" ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        if name not in INSTRUCTIONS:
            raise ValueError(f"{name} is no instruction")
        if name == "FROM":
            parent, _, stage = rest.partition(" AS ")
            stages[stage] = Stage(stage, parent)
        elif stages:
            next(reversed(stages.values())).steps.append((name, rest.strip()))
    return stages


@pytest.fixture(scope="module")
def stages(repository: Path) -> dict[str, Stage]:
    return parse_stages((repository / "infra/Dockerfile").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pins(repository: Path) -> dict[str, Requirement]:
    lines = (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name.lower(): requirement for requirement in found}


def test_there_is_an_image_without_and_one_with_gpus(stages: Mapping[str, Stage]) -> None:
    assert {"cpu", "gpu"} <= set(stages)
    for name in ("cpu", "gpu"):
        stage = stages[name]
        assert json.loads(stage.rest("CMD")[-1]) == ["fastocr", "doctor"]
        assert stage.rest("ENTRYPOINT") == [], "`ray up` starts its containers with bash"
        assert stage.rest("USER")[-1] != "root"
        assert "fastocr doctor" in stage.rest("RUN")[-1], "an image that cannot read is never finished"
        assert stage.parent in stages
    assert "gcc" in " ".join(stages["gpu"].rest("RUN")), "Triton compiles its launchers"
    assert "nvidia-ml-py" not in "".join(stages["cpu"].rest("RUN"))


def test_every_copied_file_exists_and_is_not_ignored(repository: Path, stages: Mapping[str, Stage]) -> None:
    ignored = _ignored(repository)
    for stage in stages.values():
        for copy in stage.rest("COPY"):
            words = [word for word in copy.split() if not word.startswith("--")]
            if "--from=" in copy:
                assert re.search(r"--from=(\w+)", copy)[1] in stages  # type: ignore[index]
                continue
            for source in words[:-1]:
                assert (repository / source).exists(), source
                assert not ignored(source), f"{source} is kept out by .dockerignore"


def test_nothing_private_or_large_reaches_the_build(repository: Path) -> None:
    ignored = _ignored(repository)
    for name in (".git/config", ".venv/bin/python", "tests/conftest.py", "demo-output/_run.json", ".env"):
        assert ignored(name), name
    for name in ("pipeline/cli.py", "infra/fastocr-job.sh", "infra/examples/laptop.toml", "constraints.txt"):
        assert not ignored(name), name


def _ignored(repository: Path) -> Callable[[str], bool]:
    """Whether .dockerignore keeps a path out: the last rule that matches it or a folder above it decides."""
    lines = (repository / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    def ignored(path: str) -> bool:
        parts = path.split("/")
        ancestry = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        verdict = False
        for rule in rules:
            pattern = rule.removeprefix("!")
            if any(_matches(place, pattern) for place in ancestry):
                verdict = not rule.startswith("!")
        return verdict

    return ignored


def _matches(place: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch(place.rpartition("/")[2], pattern.removeprefix("**/"))
    return place.count("/") == pattern.count("/") and fnmatch(place, pattern)


def test_every_package_that_pip_is_given_is_pinned(
    stages: Mapping[str, Stage], pins: Mapping[str, Requirement]
) -> None:
    commands = [found["arguments"] for stage in stages.values() for found in PIP.finditer(_runs(stage))]
    assert len(commands) >= 5
    for command in commands:
        words = iter(OWN.sub("", command).split())
        assert "-c" in command.split(), f"without constraints: {command}"
        for word in words:
            if word in TAKES_VALUE:
                next(words)
            elif not word.startswith("-"):
                assert Requirement(word).name.lower() in pins, f"{word} is not pinned"


def _runs(stage: Stage) -> str:
    return " ; ".join(stage.rest("RUN"))


def test_the_extras_that_the_images_take_exist(repository: Path, stages: Mapping[str, Stage]) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = set(project["optional-dependencies"])
    asked = {
        extra for name in ("cpu", "gpu") for group in re.findall(r"\[([a-z,]+)\]", _runs(stages[name]))
        for extra in group.split(",")
    }  # fmt: skip
    assert asked == {"cluster", "gpu"}
    assert asked <= known


def test_the_pins_are_what_these_tests_run_with(pins: Mapping[str, Requirement]) -> None:
    wrong = []
    for name, requirement in pins.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{name} {version}, pinned {requirement.specifier}")
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "strict", "expected"), [(0, "", 0), (3, "", 0), (3, "1", 3), (1, "", 1), (2, "", 2)]
)
def test_the_job_command_turns_done_with_failures_into_success(
    repository: Path, tmp_path: Path, code: int, strict: str, expected: int
) -> None:
    stand_in = tmp_path / "fastocr"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s|" "$@"\nexit {code}\n', encoding="utf-8")
    stand_in.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "JOB_STRICT": strict}
    command = [str(repository / "infra/fastocr-job.sh"), "s3://scans/a b", "s3://texts", "--limit", "5"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == expected
    assert result.stdout == "run|s3://scans/a b|s3://texts|--limit|5|"


def test_settings_of_the_job_command_are_none_of_ours(repository: Path) -> None:
    """The program refuses unknown variables with its prefix, so the wrapper must not use that prefix."""
    script = (repository / "infra/fastocr-job.sh").read_text(encoding="utf-8")
    assert not re.findall(r"\$\{?FASTOCR_\w+", script)


@pytest.mark.slow
def test_what_is_copied_is_enough_to_build_the_wheel(
    repository: Path, tmp_path: Path, stages: Mapping[str, Stage]
) -> None:
    ignored = _ignored(repository)
    source = tmp_path / "source"
    for copy in stages["wheel"].rest("COPY"):
        *names, _ = copy.split()
        for name in names:
            for file in [repository / name, *(repository / name).rglob("*")]:
                place = file.relative_to(repository)
                if file.is_file() and not ignored(str(place)):
                    (source / place).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, source / place)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("fastocr_batch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for needed in (
        "pipeline/cli.py",
        "pipeline/report.css",
        "infra/kuberay/rayjob.yaml",
        "infra/examples/cluster.toml",
        "fastocr_core/models/mini/weights/model.safetensors",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "infra/examples/archive/"))]
