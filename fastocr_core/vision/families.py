"""The models we know by name, hub id or the config.json of a folder. Standard library only.

Here stands which family a model belongs to; how a family sees is in `fastocr_core.vision`, how it is loaded
in `fastocr_core.models.registry`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG_FILE = "config.json"


@dataclass(frozen=True, slots=True)
class KnownFamily:
    """One network with its own pixels, prompt and output format.

    `hub_ids` are pairs of our name for a checkpoint and its hub id. A folder belongs to the family if its
    config.json names one of `model_types` or `architectures` and, where there is a `hint`, the folder's name
    holds it: a fine-tune can look exactly like its base.
    """

    name: str
    model_types: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    hub_ids: tuple[tuple[str, str], ...] = ()
    hint: str = ""

    def matches(self, config: Mapping[str, Any], place: str = "") -> bool:
        """Whether a checkpoint with this config.json, in a folder or repository of that name, is one of it."""
        named = config.get("architectures")
        architectures = set(named) if isinstance(named, list) else set()
        fits = config.get("model_type") in self.model_types or bool(architectures & set(self.architectures))
        return fits and self.hint in place.lower()


MINI, TINY = KnownFamily("mini"), KnownFamily("tiny")

# In order: a family with a hint before the one it looks like, Unlimited-OCR before the model it grew from.
FAMILIES: tuple[KnownFamily, ...] = (
    MINI,
    TINY,
    KnownFamily(
        "unlimited-ocr",
        ("unlimited_ocr", "unlimited-ocr"),
        ("UnlimitedOCRForCausalLM", "UnlimitedOcrForConditionalGeneration"),
        (("unlimited-ocr", "baidu/Unlimited-OCR"),),
    ),
    KnownFamily(
        "deepseek-ocr",
        ("deepseek_vl_v2", "deepseek_ocr"),
        ("DeepseekOCRForCausalLM",),
        (("deepseek-ocr", "deepseek-ai/DeepSeek-OCR"),),
    ),
    KnownFamily(
        "olmocr",
        ("qwen2_5_vl",),
        ("Qwen2_5_VLForConditionalGeneration",),
        (("olmocr-2", "allenai/olmOCR-2-7B-1025"),),
        hint="olmocr",
    ),
    KnownFamily(
        "qwen2_5_vl",
        ("qwen2_5_vl",),
        ("Qwen2_5_VLForConditionalGeneration",),
        (
            ("qwen2.5-vl-7b", "Qwen/Qwen2.5-VL-7B-Instruct"),
            ("qwen2.5-vl-3b", "Qwen/Qwen2.5-VL-3B-Instruct"),
        ),
    ),
    KnownFamily(
        "dots-ocr",
        ("dots_ocr",),
        ("DotsOCRForCausalLM",),
        (("dots-ocr", "rednote-hilab/dots.ocr"), ("dots-mocr", "rednote-hilab/dots.mocr")),
    ),
    KnownFamily(
        "llava_onevision",
        ("llava_onevision",),
        ("LlavaOnevisionForConditionalGeneration",),
        (
            ("llava-onevision-7b", "llava-hf/llava-onevision-qwen2-7b-ov-hf"),
            ("llava-onevision-0.5b", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf"),
        ),
    ),
)


def model_names() -> tuple[str, ...]:
    """Every name that stands for a model by itself."""
    own = (MINI.name, TINY.name)
    return own + tuple(name for family in FAMILIES for name, _ in family.hub_ids)


def hub_id_of(model: str) -> str | None:
    """The hub id a model's name stands for, or `model` itself where it has the form of one and is no folder
    here; None otherwise.
    """
    for family in FAMILIES:
        for name, hub_id in family.hub_ids:
            if model in (name, hub_id):
                return hub_id
    owner, slash, repository = model.partition("/")
    is_id = slash and owner and repository and "/" not in repository and owner[0] not in ".~"
    return model if is_id and not Path(model).is_dir() else None


def family_of_name(model: str) -> KnownFamily | None:
    """The family of a registered name or hub id; None for anything else."""
    for family in (MINI, TINY):
        if model == family.name:
            return family
    return next((family for family in FAMILIES if any(model in pair for pair in family.hub_ids)), None)


def folder_of(model: str) -> Path | None:
    """The folder that `model` is the path of; a name of ours means that model even where a folder is called
    the same.
    """
    folder = Path(model)
    return folder if model and family_of_name(model) is None and folder.is_dir() else None


def family_of_config(config: Mapping[str, Any], place: str) -> KnownFamily:
    """The family of a checkpoint by its config.json. ValueError if we have none for it."""
    for family in FAMILIES:
        if family.matches(config, place):
            return family
    known = sorted({kind for family in FAMILIES for kind in family.model_types})
    raise ValueError(
        f"{place} holds a model of the type {config.get('model_type')!r}, which cannot be read here; known: "
        + ", ".join(known)
    )


def family_of_folder(folder: Path) -> KnownFamily:
    """The family of a folder with weights; without the name of an architecture it holds an embedded reader.

    ValueError for a config.json that is broken or of an unknown model.
    """
    file = folder / CONFIG_FILE
    if not file.is_file():
        return MINI
    try:
        config = json.loads(file.read_text("utf-8"))
    except ValueError as error:  # also what is not UTF-8
        raise ValueError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{file} does not hold a JSON object")
    if not config.keys() & {"model_type", "architectures"}:
        return MINI
    return family_of_config(config, folder.name)
