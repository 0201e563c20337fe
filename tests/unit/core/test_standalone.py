"""The core runs without the pipeline's libraries, and its eye without torch. Each in a fresh interpreter."""

import subprocess
import sys
from pathlib import Path

from tests.support.dots_checkpoint import write_dots_checkpoint

# Blocked packages look as if they were not installed.
BLOCK = """
import importlib.machinery
finder = importlib.machinery.PathFinder
find_spec = finder.find_spec
def refuse(name, path=None, target=None):
    return None if name.split(".")[0] in BLOCKED else find_spec(name, path, target)
finder.find_spec = refuse
"""

READ = """
from PIL import Image
from fastocr_core import DecodePolicy, Engine, load
with Engine(load("tiny", device="cpu"), DecodePolicy.fastocr(warmup_steps=1), max_batch=2) as engine:
    (page,) = engine.read([Image.new("L", (100, 100), 255)])
assert page.error is None, page.error
"""

READ_FOLDER = """
import sys
from importlib import import_module
from PIL import Image
from fastocr_core import DecodePolicy, Engine, EngineLimits, load
from fastocr_core.models.registry import MODEL_FAMILIES
for family in MODEL_FAMILIES.values():
    import_module(family.load_path.partition(":")[0])
model = load(FOLDER, device="cpu")
with Engine(model, DecodePolicy.fastocr(warmup_steps=1), 2, EngineLimits(max_output_tokens=5)) as engine:
    (page,) = engine.read([Image.new("L", (100, 100), 255)], "Read.")
assert page.error is None, page.error
assert page.image_tokens == 16
"""

IMPORT_ALL = """
import os, pkgutil
from importlib import import_module
os.environ["TRITON_INTERPRET"] = "1"
import fastocr_core
names = [module.name for module in pkgutil.walk_packages(fastocr_core.__path__, "fastocr_core.")]
assert len(names) > 100
for name in names:
    if not name.endswith("__main__"):
        import_module(name)
"""

SEE = """
from PIL import Image
from fastocr_core.vision import count_image_tokens, model_vision, prepare
vision = model_vision("tiny")
page = prepare(Image.new("L", (100, 100), 255), vision)
assert page.image_tokens == count_image_tokens(100, 100, vision) == 16
from fastocr_core import DecodePolicy, EngineLimits, PageText
from fastocr_core.vision.families import model_names
for name in model_names():
    vision = model_vision(name)
    most = count_image_tokens(827, 1169, vision)
    page = prepare(Image.new("RGB", (827, 1169), "white"), vision)
    assert 0 < page.image_tokens <= most, name
    assert all(view.dtype == "uint8" and view.ndim == 3 for view in page.views), name
"""


def run(blocked: set[str], code: str) -> None:
    program = f"BLOCKED = {blocked!r}\n{BLOCK}{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_core_without_the_pipelines_libraries() -> None:
    run({"ray", "boto3", "botocore", "pymupdf", "fitz", "pyarrow", "typer", "pydantic", "rich"}, READ)


def test_core_reads_with_a_published_model_without_the_pipelines_libraries(tmp_path: Path) -> None:
    write_dots_checkpoint(tmp_path)
    code = f"FOLDER = {str(tmp_path)!r}\n{READ_FOLDER}"
    run({"ray", "boto3", "botocore", "pymupdf", "fitz", "pyarrow", "typer", "pydantic", "rich"}, code)


def test_every_module_of_the_core_comes_without_the_pipelines_libraries() -> None:
    run({"ray", "boto3", "botocore", "pymupdf", "fitz", "pyarrow", "typer", "pydantic", "rich"}, IMPORT_ALL)


def test_eye_without_torch() -> None:
    run({"torch", "transformers", "safetensors", "ray", "boto3", "pymupdf", "pyarrow"}, SEE)
