"""Names, folders and hub ids lead to the right adapter and view, offline where they are cached."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
import torch

from fastocr_core import load
from fastocr_core.models.hub import DESCRIBING_PATTERNS, WEIGHT_PATTERN
from fastocr_core.models.registry import MODEL_FAMILIES
from fastocr_core.vision import count_image_tokens, model_vision
from fastocr_core.vision.families import (
    FAMILIES,
    family_of_config,
    family_of_folder,
    family_of_name,
    hub_id_of,
    model_names,
)
from tests.support.dots_checkpoint import write_dots_checkpoint
from tests.support.published_models import write_qwen

# Values that a checkpoint's config.json cannot have, of kinds that transformers refuses each in its own way.
IMPOSSIBLE = (
    {"hidden_size": "wide"},
    {"num_attention_heads": 0},
    {"hidden_act": "none-such"},
    {"torch_dtype": "os"},
)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# What the published config.json of each family says of itself.
CONFIGS = {
    "deepseek-ocr": {"model_type": "deepseek_vl_v2", "architectures": ["DeepseekOCRForCausalLM"]},
    "unlimited-ocr": {"model_type": "unlimited-ocr", "architectures": ["UnlimitedOCRForCausalLM"]},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]},
    "dots-ocr": {"model_type": "dots_ocr", "architectures": ["DotsOCRForCausalLM"]},
    "llava_onevision": {
        "model_type": "llava_onevision",
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
    },
}


@pytest.mark.parametrize("name", sorted(MODEL_FAMILIES))
def test_every_family_has_a_loader(name: str) -> None:
    module, _, function = MODEL_FAMILIES[name].load_path.partition(":")
    assert callable(getattr(import_module(module), function))
    assert MODEL_FAMILIES[name].hub_ids


def test_every_family_but_our_own_is_loaded_and_every_one_sees() -> None:
    assert {family.name for family in FAMILIES} == MODEL_FAMILIES.keys() | {"mini", "tiny"}
    for name in model_names():
        known = family_of_name(name)
        assert known is not None
        vision = model_vision(name)
        assert vision.family == known.name
        assert 0 < count_image_tokens(1654, 2339, vision) <= vision.max_image_tokens
        hub_id = hub_id_of(name)
        assert hub_id is None or (model_vision(hub_id), family_of_name(hub_id)) == (vision, known)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_a_config_names_its_family(name: str, tmp_path: Path) -> None:
    assert family_of_config(CONFIGS[name], "some-folder").name == name
    assert MODEL_FAMILIES[name].matches(CONFIGS[name])
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]))
    assert family_of_folder(tmp_path).name == name
    assert model_vision(str(tmp_path)).family == name


def test_a_fine_tune_is_told_from_its_base_by_its_name() -> None:
    qwen = CONFIGS["qwen2_5_vl"]
    assert family_of_config(qwen, "olmOCR-2-7B-1025").name == "olmocr"
    assert family_of_config(qwen, "my-tuned-model").name == "qwen2_5_vl"


def test_a_folder_without_an_architecture_holds_an_embedded_reader(tmp_path: Path) -> None:
    assert family_of_folder(tmp_path).name == "mini"
    (tmp_path / "config.json").write_text('{"vocabulary": 3}')
    assert family_of_folder(tmp_path).name == "mini"
    assert model_vision(str(tmp_path)) == model_vision("mini")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            '{"model_type": "llama"}',
            r"a model of the type 'llama', which cannot be read here; known: .*qwen2_5_vl",
        ),
        ('{"architectures": "x"}', "of the type None"),
        ("{", "not valid JSON"),
        ("[]", "does not hold a JSON object"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path: Path, config: str, said: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=said):
        load(str(tmp_path), device="cpu")
    with pytest.raises(ValueError, match=said):
        model_vision(str(tmp_path))


@pytest.mark.parametrize(
    "model", ["nonesuch", "", "../nonesuch", "/no/such/folder", "a/b/c", "gs://bucket/model"]
)
def test_an_unknown_name_is_one_sentence_with_the_known_ones(model: str) -> None:
    with pytest.raises(ValueError, match=r"unknown model .*; known: mini, tiny, .*dots-ocr") as failure:
        load(model, device="cpu")
    assert "\n" not in str(failure.value)
    with pytest.raises(ValueError, match=r"unknown model .*; known: mini, tiny, .*dots-ocr"):
        model_vision(model)


@pytest.mark.parametrize("change", IMPOSSIBLE, ids=str)
def test_a_config_that_cannot_be_built_from_is_one_sentence(
    change: dict[str, object], tmp_path: Path
) -> None:
    write_qwen(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ValueError, match=r"cannot be loaded as qwen2_5_vl \(\w+: .*\)") as failure:
        load(str(tmp_path), device="cpu")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("name", ["tiny", "mini"])
def test_our_own_models_refuse_what_they_cannot_do(name: str) -> None:
    with pytest.raises(ValueError, match="no mode 'gundam'"):
        load(name, device="cpu", mode="gundam")
    with pytest.raises(ValueError, match=r"cannot be used as torch\.int8"):
        load(name, device="cpu", dtype=torch.int8)


def test_a_hub_id_we_do_not_know_must_be_fetched_before_it_is_seen_with() -> None:
    with pytest.raises(ValueError, match="not known before it was fetched"):
        model_vision("someone/something")


def test_nothing_but_weights_and_text_files_is_asked_of_the_hub() -> None:
    assert {*DESCRIBING_PATTERNS, WEIGHT_PATTERN} == {"*.json", "*.txt", "*.jinja", "*.safetensors"}


def cached(home: Path, hub_id: str, folder: Path) -> Path:
    """Put a folder into a hub cache, as its client lays it out; returns the snapshot."""
    repository = home / "hub" / f"models--{hub_id.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return snapshot


def offline(home: Path, code: str) -> str:
    """What a program prints that has this hub cache and no network."""
    environment: Mapping[str, str] = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment = {key: value for key, value in environment.items() if key != "HF_HUB_CACHE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OFFLINE = """
from fastocr_core import load
from fastocr_core.models.revisions import model_revision
for name in ("dots-ocr", "rednote-hilab/dots.ocr", "someone/tuned"):
    adapter = load(name, device="cpu")
    print(adapter.name, adapter.revision, model_revision(name), load(name, device="cpu", revision="main").revision)
for name, revision in (("half/there", None), ("someone/tuned", "other"), ("nobody/nothing", None)):
    try:
        load(name, device="cpu", revision=revision)
    except FileNotFoundError as error:
        print("refused:", error)
"""


def test_cached_models_load_without_the_network_and_others_are_one_sentence(tmp_path: Path) -> None:
    write_dots_checkpoint(tmp_path / "model")
    (tmp_path / "model" / "modeling_dots_ocr.py").write_text("raise SystemExit('never run')")
    for hub_id in ("rednote-hilab/dots.ocr", "someone/tuned"):
        cached(tmp_path, hub_id, tmp_path / "model")
    half = cached(tmp_path, "half/there", tmp_path / "model")
    (half / "model-00002-of-00002.safetensors").unlink()
    lines = offline(tmp_path, OFFLINE).splitlines()
    assert lines[:3] == [f"dots-ocr {COMMIT} {COMMIT} {COMMIT}"] * 3
    assert len(lines) == 6
    assert "are not complete: model-00002-of-00002.safetensors is missing" in lines[3]
    for line, name in zip(lines[4:], ("someone/tuned at revision other", "nobody/nothing"), strict=True):
        assert line.startswith(f"refused: model {name} is not in the local cache and cannot be fetched")
