"""The embedded reader behind the adapter contract: checkpoint, prompt layout, positions, and text with line boxes."""

import json
import pathlib
from collections.abc import Sequence

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fastocr_core.models.base import Block, DecoderShape, ModelAdapter, ParsedText, PromptLayout
from fastocr_core.models.mini import alphabet, places
from fastocr_core.models.mini.lines import joined, lines_of, text_of_lines
from fastocr_core.models.mini.reader import HEADS, HIDDEN, LAYERS, TEXT_WINDOW, MiniReader
from fastocr_core.models.revisions import WEIGHTS_FILE, mini_folder, weights_revision
from fastocr_core.vision.mini_view import MINI_VISION
from fastocr_core.vision.prepared import PreparedPage

CARD = "config.json"


class MiniAdapter(ModelAdapter):
    """`mini`: image tokens first, then BEGIN, then outputs; three position axes (see places.py).

    Takes no prompt: it only transcribes.
    """

    def __init__(self, reader: MiniReader, card: dict[str, object], revision: str) -> None:
        self.name = "mini"
        self.revision = revision
        self.vision = MINI_VISION
        self.shape = DecoderShape(LAYERS, HEADS, HEADS, HIDDEN // HEADS, HIDDEN, alphabet.VOCABULARY)
        self.stop_ids = frozenset({alphabet.END})
        self.default_prompt = ""
        self.max_output_tokens = 6000
        self.text_window = TEXT_WINDOW
        focal = card["focal_layers"]
        assert isinstance(focal, list)
        self.focal_layers = tuple(int(layer) for layer in focal)
        self.default_floor = 16
        self.default_pooling = "layer_max"  # one head is trained to point; the others follow it
        self.reader = reader.eval()
        self.decoder = reader.decoder

    @torch.inference_mode()
    def encode(self, page: PreparedPage) -> Tensor:
        """One view uint8 [H, W, 1] -> image tokens [grid_rows * grid_columns, hidden]."""
        pixels = torch.from_numpy(page.views[0][:, :, 0]).to(self.device)
        return self.reader.encode(pixels).to(self.dtype)

    def layout(self, page: PreparedPage, prompt: str | None) -> PromptLayout:
        if prompt:
            raise ValueError("mini takes no prompt: it only transcribes")
        begin = torch.tensor([[1], [0], [0]])
        positions = torch.cat(
            [places.image_places(page.grid_rows, page.grid_columns), begin], dim=1
        )  # [3, N + 1]
        return PromptLayout((alphabet.BEGIN,), 0, page.image_tokens, positions)

    def next_positions(self, positions: Tensor, tokens: Tensor) -> Tensor:
        return places.next_places(positions, tokens)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.reader.embed(ids, positions)

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.reader.head(hidden)
        return scores

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """Lines joined by newlines, an empty line where the gap between lines is large; one block per line."""
        lines = lines_of(tokens, page)
        blocks = tuple(Block("line", line.box, line.text, line.word_boxes) for line in lines)
        text = joined((line.text, line.starts_paragraph) for line in lines)
        return ParsedText(text, "text", blocks)

    def text(self, tokens: Sequence[int], page: PreparedPage) -> str:
        return text_of_lines(tokens)

    def to(self, device: torch.device) -> None:
        self.reader.to(device)


def load_mini(folder: pathlib.Path | None = None) -> MiniAdapter:
    """Load the weights beside this file, or a folder of the same shape (model.safetensors and config.json).

    Raises FileNotFoundError where a file is not there, ValueError when the weights are damaged, or when tensors are missing,
    unknown, of another shape or no numbers with a fraction.
    """
    home = folder or mini_folder()
    for name in (CARD, WEIGHTS_FILE):
        if not (home / name).is_file():
            raise FileNotFoundError(f"{home} holds no {name}, so it is no folder of mini")
    card = json.loads((home / CARD).read_text("utf-8"))
    if card.get("vocabulary") != alphabet.VOCABULARY or card.get("characters") != alphabet.CHARACTERS:
        raise ValueError(f"{home / CARD} was written for another alphabet")
    # first weights are drawn only to be replaced; on the meta device torch would load its compiler for them
    with torch.random.fork_rng(devices=[]):
        reader = MiniReader()
    state: dict[str, Tensor] = {}
    try:
        with safe_open(home / WEIGHTS_FILE, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118 - a safetensors handle is not a mapping
                tensor = file.get_tensor(key)
                state[key] = tensor.float() if tensor.is_floating_point() else tensor
    except SafetensorError as error:
        raise ValueError(f"{home / WEIGHTS_FILE} is damaged: {error}") from error
    wanted = {key: (value.shape, value.dtype) for key, value in reader.state_dict().items()}
    found = {key: (value.shape, value.dtype) for key, value in state.items()}
    if wanted != found:
        differing = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
        raise ValueError(f"{home / WEIGHTS_FILE} does not fit the model: {', '.join(differing[:5])}")
    reader.load_state_dict(state, assign=True)
    return MiniAdapter(reader, card, weights_revision(home))
