"""olmOCR-2 behind the adapter contract: Qwen2.5-VL with its own prompt (text first, then the image), page size
and answer format.

The published default weights are FP8 and are refused; the same model in bf16 is read.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from fastocr_core.models.base import Block, ParsedText
from fastocr_core.models.olmocr.front_matter import FrontMatter, split_front_matter
from fastocr_core.models.qwen2_5_vl.adapter import QwenAdapter, open_qwen
from fastocr_core.vision.prepared import PreparedPage
from fastocr_core.vision.qwen_view import vision_olmocr

MAX_OUTPUT_TOKENS = 8000
UNQUANTISED = "allenai/olmOCR-2-7B-1025, the same model in bf16"
# The model was trained on this wording, spelling included.
PROMPT = (
    "Attached is one page of a document that you must process. Just return the plain text representation of "
    "this document as if you were reading it naturally. Convert equations to LateX and tables to HTML.\n"
    "If there are any figures or charts, label them with the following markdown syntax "
    "![Alt text describing the contents of the figure](page_startx_starty_width_height.png)\n"
    "Return your output as markdown, with a front matter section on top specifying values for the "
    "primary_language, is_rotation_valid, rotation_correction, is_table, and is_diagram parameters."
)


class OlmOcrAdapter(QwenAdapter):
    """Answers in markdown under a front matter, which `parse` takes off and `front_matter` reads."""

    def front_matter(self, tokens: Sequence[int]) -> FrontMatter | None:
        """What the model says about the page; None where the front matter is missing or not valid."""
        return split_front_matter(self.tokenizer.decode(tokens, keep_special=False))[0]

    def turn_wanted(self, tokens: Sequence[int]) -> int:
        """The rotation correction, where the model finds the page not upright."""
        matter = self.front_matter(tokens)
        return matter.rotation_correction if matter is not None and not matter.is_rotation_valid else 0

    def parse(self, tokens: Sequence[int], page: PreparedPage) -> ParsedText:
        """The markdown after the front matter; the whole answer where that is not valid."""
        _, body = split_front_matter(self.tokenizer.decode(tokens, keep_special=False))
        return ParsedText(body, "markdown", (Block("text", None, body),) if body else ())


def load_olmocr(folder: Path, dtype: torch.dtype | None = None, mode: str = "auto") -> OlmOcrAdapter:
    """Load a checkpoint folder. `dtype` None keeps the stored type.

    FileNotFoundError or ValueError, in one sentence, for whatever is missing or does not fit.
    """
    parts = open_qwen(folder, dtype, image_first=False, unquantised=UNQUANTISED)
    return OlmOcrAdapter("olmocr-2", parts, vision_olmocr(mode, folder), PROMPT, MAX_OUTPUT_TOKENS)
