"""Checkpoint folders: lazily read, checked key by key, never unpickled; and the small ones the tests write."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from fastocr_core.models.checkpoint import fill, open_checkpoint, require_config, weightless
from fastocr_core.models.tokenizer import Tokenizer
from tests.support.seeded_checkpoint import write_checkpoint, write_tensors, write_tokenizer


class Small(nn.Module):
    """Two layers, a tied head and a computed buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(7, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.register_buffer("places", torch.arange(5), persistent=False)


TIED = {"head.weight": "embed_tokens.weight"}


def rename(key: str) -> str | None:
    return None if key == "unused" else key.removeprefix("model.")


def rename_back(key: str) -> str | None:
    return None if key == "head.weight" else f"model.{key}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path, {"model_type": "small"}, Small(), rename_back, seed=1)
    return tmp_path


def filled(folder: Path, dtype: torch.dtype = torch.float32) -> Small:
    with weightless():
        module = Small()
    assert all(parameter.is_meta for parameter in module.parameters())
    fill(module, open_checkpoint(folder), rename, dtype=dtype, tied=TIED)
    return module


@pytest.mark.parametrize("shards", [1, 3])
def test_every_tensor_arrives(tmp_path: Path, shards: int) -> None:
    tensors = write_checkpoint(tmp_path, {}, Small(), rename_back, seed=1, shards=shards)
    module = filled(tmp_path)
    for key, value in tensors.items():
        assert torch.equal(module.state_dict()[key.removeprefix("model.")], value)
    assert module.head.weight.data_ptr() == module.embed_tokens.weight.data_ptr()
    assert module.places.tolist() == [0, 1, 2, 3, 4]
    assert not any(parameter.requires_grad for parameter in module.parameters())
    assert not module.training


def test_floats_take_the_type_asked_for(folder: Path) -> None:
    assert {value.dtype for value in filled(folder, torch.bfloat16).parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model.norm.bias": None}, "1 missing: norm.bias"),
        ({"model.extra": torch.zeros(2)}, "1 unknown: model.extra"),
        ({"model.norm.bias": torch.zeros(5)}, r"1 of another shape: model.norm.bias \[5\] instead of \[4\]"),
        ({"norm.bias": torch.zeros(4)}, "1 there twice: norm.bias"),
    ],
)
def test_what_does_not_fit_is_named(folder: Path, change: dict[str, torch.Tensor | None], said: str) -> None:
    checkpoint = open_checkpoint(folder)
    tensors = {key: checkpoint.read(key).clone() for key in checkpoint.shapes()} | change
    write_tensors(folder, {key: value for key, value in tensors.items() if value is not None})
    with pytest.raises(ValueError, match=said):
        filled(folder)


@pytest.mark.parametrize("stored", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn], ids=str)
def test_a_tensor_that_is_no_weight_by_itself_is_refused(folder: Path, stored: torch.dtype) -> None:
    checkpoint = open_checkpoint(folder)
    tensors = {key: checkpoint.read(key).clone() for key in checkpoint.shapes()}
    tensors["model.norm.bias"] = tensors["model.norm.bias"].to(stored)
    write_tensors(folder, tensors)
    with pytest.raises(ValueError, match=f"tensor model.norm.bias is stored as {stored}"):
        filled(folder)


def test_what_is_left_out_on_purpose_is_no_error(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    tensors = {key: checkpoint.read(key).clone() for key in checkpoint.shapes()}
    write_tensors(folder, {**tensors, "unused": torch.zeros(3)})
    filled(folder)


def test_pickled_weights_are_never_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"only pickled weights \(pytorch_model.bin\)"):
        open_checkpoint(folder)


def test_missing_files_are_one_sentence(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        open_checkpoint(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="no weights"):
        open_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        open_checkpoint(folder)


def test_damaged_files_are_one_sentence(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        open_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [("../other.safetensors", "no safetensors file beside it"), ("model-9.safetensors", "is missing")],
)
def test_an_index_may_name_only_files_that_lie_beside_it(folder: Path, name: str, said: str) -> None:
    index = {"weight_map": {"model.norm.bias": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        open_checkpoint(folder)


def test_an_index_that_disagrees_with_its_files_is_refused(folder: Path) -> None:
    index = {"weight_map": {"model.norm.bias": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="disagree"):
        open_checkpoint(folder)


def test_the_revision_follows_the_content_and_not_the_place(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    write_checkpoint(elsewhere, {"model_type": "small"}, Small(), rename_back, seed=1)
    first = open_checkpoint(folder).revision
    assert open_checkpoint(elsewhere).revision == first
    write_checkpoint(elsewhere, {"model_type": "small"}, Small(), rename_back, seed=2)
    second = open_checkpoint(elsewhere).revision
    (elsewhere / "config.json").write_text('{"model_type": "large"}')
    assert len({first, second, open_checkpoint(elsewhere).revision}) == 3


def test_config_differences_are_all_named() -> None:
    config = {"sizes": {"hidden": 4, "mla": 0}, "kind": "a"}
    require_config(config, {"sizes.hidden": 4, "kind": "a", "sizes.scaling": None}, "small model")
    with pytest.raises(ValueError, match=r"kind is 'a' instead of 'b'; sizes.mla is 0 instead of False"):
        require_config(config, {"kind": "b", "sizes.mla": False}, "small model")


def test_the_tokenizer_of_a_small_checkpoint(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, {"<|end|>": 3, "<image>": 300})
    tokenizer = Tokenizer(tmp_path)
    ids = tokenizer.encode("Ab ü<|end|><image>")
    assert ids[-2:] == [3, 300]
    assert len(ids) == 7
    assert tokenizer.decode(ids) == "Ab ü<|end|><image>"
    assert tokenizer.decode(ids, keep_special=False) == "Ab ü"
    assert tokenizer.id_of("<image>") == 300
    assert tokenizer.vocabulary == 301
    with pytest.raises(ValueError, match="knows no token '<no>'"):
        tokenizer.id_of("<no>")


def test_a_folder_without_a_usable_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="not a readable tokenizer"):
        Tokenizer(tmp_path)
