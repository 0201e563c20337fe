"""The wheel holds exactly the four packages, and what is installed starts fast and alone."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = {"pipeline", "workers", "fastocr_core", "infra"}
HEAVY = {"torch", "transformers", "ray", "pyarrow", "boto3", "pymupdf", "pydantic", "numpy", "PIL"}


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_four_packages(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*command, str(repository)], check=True, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("fastocr_batch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == PACKAGES
    for name in ("pipeline/cli.py", "workers/raster_child.py", "fastocr_core/__init__.py"):
        assert name in names
    assert not [name for name in names if name.endswith((".pyc", ".log"))]


def test_the_import_borders_hold(repository: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports"))]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_console_script_helps_from_any_folder(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("fastocr")
    result = subprocess.run([script, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    for command in ("run", "status", "verify", "config"):
        assert command in result.stdout
    wrong = subprocess.run([script, "ruin"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2


def test_help_imports_nothing_heavy() -> None:
    code = "import json, sys; import pipeline.cli; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(result.stdout)) & HEAVY == set()


def test_the_vision_of_the_core_needs_no_torch() -> None:
    code = "import json, sys; import fastocr_core.vision, workers.rasterize_shard as _; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(result.stdout)) & {"torch", "transformers", "pymupdf", "ray"} == set()
