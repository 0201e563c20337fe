"""Prompts around one image: the checkpoint's own template wherever it is kept, or the published wording."""

import json
from pathlib import Path

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from fastocr_core.models.chat_prompt import chat_prompt
from fastocr_core.models.llava_onevision.adapter import TEMPLATE as LLAVA_TEMPLATE
from fastocr_core.models.olmocr.adapter import load_olmocr
from fastocr_core.models.qwen2_5_vl.adapter import TEMPLATE as QWEN_TEMPLATE
from fastocr_core.models.qwen2_5_vl.adapter import load_qwen2_5_vl
from fastocr_core.models.text_decoder import stop_ids
from fastocr_core.models.tokenizer import Tokenizer
from fastocr_core.vision import prepare
from tests.support.published_models import QWEN_TOKENS, noise_page, write_qwen
from tests.support.seeded_checkpoint import write_tokenizer

# The shape of published templates: all images first, in a loop over messages, with a training block.
IMAGES_FIRST = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + ' ' }}
{%- for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}
{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}
{% generation %}{{ content['text'] }}{% endgeneration %}
{% endfor %}
{{ '<|im_end|>' -}}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def test_published_wording_of_qwen(tmp_path: Path) -> None:
    text = chat_prompt(tmp_path, QWEN_TEMPLATE, image_first=True).text("Read.")
    assert text == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|><|vision_end|>Read.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_text_before_image(tmp_path: Path) -> None:
    text = chat_prompt(tmp_path, QWEN_TEMPLATE, image_first=False).text("Read.")
    assert "user\nRead.<|vision_start|><|image_pad|><|vision_end|><|im_end|>" in text


def test_published_wording_of_llava(tmp_path: Path) -> None:
    text = chat_prompt(tmp_path, LLAVA_TEMPLATE, image_first=True).text("Read.")
    assert text == "<|im_start|>user\n<image>\nRead.<|im_end|><|im_start|>assistant\n"


@pytest.mark.parametrize("place", ["jinja", "json", "tokenizer", "named"])
def test_template_of_the_checkpoint(tmp_path: Path, place: str) -> None:
    if place == "jinja":
        (tmp_path / "chat_template.jinja").write_text(IMAGES_FIRST)
    elif place == "json":
        (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": IMAGES_FIRST}))
    else:
        named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": IMAGES_FIRST}]
        stored = IMAGES_FIRST if place == "tokenizer" else named
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
    text = chat_prompt(tmp_path, "default", image_first=False).text("Read.")
    assert text == "<|im_start|>user <image>\nRead.<|im_end|><|im_start|>assistant\n"


@pytest.mark.parametrize("template", [IMAGES_FIRST, QWEN_TEMPLATE, LLAVA_TEMPLATE])
@pytest.mark.parametrize("prompt", ["Read.", " a\n\nb {{ c }} "])
def test_rendered_as_transformers_does(tmp_path: Path, template: str, prompt: str) -> None:
    parts = [{"type": "image"}, {"type": "text", "text": prompt}]
    expected, _ = render_jinja_template(
        [[{"role": "user", "content": parts}]], chat_template=template, add_generation_prompt=True
    )
    assert chat_prompt(tmp_path, template, image_first=True).text(prompt) == expected[0]


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('only one message') }}",
        "{% if %}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ missing.attribute }}",
    ],
)
def test_templates_that_fail_or_reach_out_are_refused(tmp_path: Path, template: str) -> None:
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(ValueError, match="cannot be rendered"):
        chat_prompt(tmp_path, "", image_first=True).text("Read.")


def test_special_tokens_reach_the_template(tmp_path: Path) -> None:
    tokens = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token + eos_token }}",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokens))
    assert chat_prompt(tmp_path, "", image_first=True).text("Read.") == "<s></s>"


def test_where_the_image_goes(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, QWEN_TOKENS)
    tokenizer = Tokenizer(tmp_path)
    image_id = QWEN_TOKENS["<|image_pad|>"]
    chat = chat_prompt(tmp_path, QWEN_TEMPLATE, image_first=True)
    ids, start = chat.ids("Read.", tokenizer, image_id)
    assert image_id not in ids
    assert (ids[start - 1], ids[start]) == (QWEN_TOKENS["<|vision_start|>"], QWEN_TOKENS["<|vision_end|>"])
    with pytest.raises(ValueError, match="one place for the image"):
        chat.ids("Read <|image_pad|>", tokenizer, image_id)


def test_stop_ids(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, QWEN_TOKENS)
    tokenizer = Tokenizer(tmp_path)
    assert stop_ids(tmp_path, {"text_config": {"eos_token_id": 7}}, tokenizer, ("<|gone|>",)) == {7}
    assert stop_ids(tmp_path, {"eos_token_id": [5, 6]}, tokenizer, ("<|im_end|>",)) == {5, 6, 258}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [9]}))
    assert stop_ids(tmp_path, {"eos_token_id": 5}, tokenizer, ()) == {9}
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(ValueError, match="ends an output"):
        stop_ids(tmp_path, {}, tokenizer, ())


def test_layouts_of_the_adapters(tmp_path: Path) -> None:
    folder = write_qwen(tmp_path)
    page = prepare(noise_page(100, 100), load_qwen2_5_vl(folder).vision)
    adapter, olmocr = load_qwen2_5_vl(folder), load_olmocr(folder)
    image_first, text_first = adapter.layout(page, "Read."), olmocr.layout(page, "Read.")
    assert sorted(image_first.ids) == sorted(text_first.ids)
    assert text_first.image_start == image_first.image_start + len("Read.")
    assert image_first.positions.shape == (3, len(image_first.ids) + page.image_tokens)
    assert "LateX" in olmocr.default_prompt
    assert len(olmocr.layout(page, None).ids) > 500
    assert adapter.stop_ids == {QWEN_TOKENS["<|im_end|>"], QWEN_TOKENS["<|endoftext|>"]}
