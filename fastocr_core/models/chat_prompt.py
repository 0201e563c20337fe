"""Prompts of chat models around one image: the checkpoint's own chat template where it has one, else the
model's published wording.

A template is text that is rendered in an immutable sandbox (jinja2); no code of a checkpoint runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fastocr_core.models.checkpoint import read_json
from fastocr_core.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """How a model wants to be asked. `image_first` is the order of image and text in the one user message."""

    template: str
    image_first: bool
    special_tokens: Mapping[str, str]

    def text(self, prompt: str) -> str:
        """The whole prompt with the model's image placeholder in it. ValueError if the template fails."""
        parts: list[dict[str, str]] = [{"type": "image"}]
        if prompt:
            parts.insert(len(parts) if self.image_first else 0, {"type": "text", "text": prompt})
        messages = [{"role": "user", "content": parts}]
        try:
            return (
                _environment()
                .from_string(self.template)
                .render(messages=messages, add_generation_prompt=True, **self.special_tokens)
            )
        except TemplateError as error:
            raise ValueError(f"the chat template cannot be rendered: {error}") from error

    def ids(self, prompt: str, tokenizer: Tokenizer, image_id: int) -> tuple[tuple[int, ...], int]:
        """Token numbers without the image placeholder, and before which of them the image belongs.

        ValueError unless there is exactly one placeholder, as when `prompt` contains one of its own.
        """
        ids = tokenizer.encode(self.text(prompt))
        if ids.count(image_id) != 1:
            raise ValueError(
                f"a prompt must have one place for the image, this one has {ids.count(image_id)}"
            )
        start = ids.index(image_id)
        return tuple(ids[:start] + ids[start + 1 :]), start


def chat_prompt(folder: Path, default_template: str, image_first: bool) -> ChatPrompt:
    """The chat template of a checkpoint folder, from wherever its age keeps it, or `default_template`."""
    settings = (
        read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    )
    tokens = {name: _token_text(settings[name]) for name in ("bos_token", "eos_token") if settings.get(name)}
    template = _stored_template(folder, settings)
    return ChatPrompt(default_template if template is None else template, image_first, tokens)


def _stored_template(folder: Path, tokenizer_settings: Mapping[str, Any]) -> str | None:
    """A file of its own, an older json file, or an entry of the tokenizer's settings, in this order."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text("utf-8")
    stored = tokenizer_settings.get("chat_template")
    if (folder / "chat_template.json").is_file():
        stored = read_json(folder / "chat_template.json").get("chat_template", stored)
    if isinstance(stored, Sequence) and not isinstance(stored, str):  # several named templates
        named = {entry.get("name"): entry.get("template") for entry in stored if isinstance(entry, dict)}
        stored = named.get("default")
    if stored is not None and not isinstance(stored, str):
        raise ValueError(f"the chat template in {folder} is not text")
    return stored


def _token_text(value: object) -> str:
    """A special token is stored as text, or as an object with its content."""
    return str(value.get("content", "")) if isinstance(value, dict) else str(value)


class _GenerationBlock(Extension):
    """`{% generation %}` marks what a model has said, for training; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The statements of the block in its place."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """Whitespace is treated as the templates of published models expect it."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    return environment


def _refuse(message: str) -> NoReturn:
    """What a template calls when it does not like the messages."""
    raise TemplateError(message)
