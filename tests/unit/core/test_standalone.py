"""The core runs without the pipeline's libraries, and its eye without torch. Each in a fresh interpreter."""

import subprocess
import sys

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

SEE = """
from PIL import Image
from fastocr_core.vision import count_image_tokens, model_vision, prepare
vision = model_vision("tiny")
page = prepare(Image.new("L", (100, 100), 255), vision)
assert page.image_tokens == count_image_tokens(100, 100, vision) == 16
from fastocr_core import DecodePolicy, EngineLimits, PageText
"""


def run(blocked: set[str], code: str) -> None:
    program = f"BLOCKED = {blocked!r}\n{BLOCK}{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_core_without_the_pipelines_libraries() -> None:
    run({"ray", "boto3", "botocore", "pymupdf", "fitz", "pyarrow", "typer", "pydantic", "rich"}, READ)


def test_eye_without_torch() -> None:
    run({"torch", "transformers", "safetensors", "ray", "boto3", "pymupdf", "pyarrow"}, SEE)
