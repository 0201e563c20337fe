"""The policy contract: which image tokens each slot may look at, layer by layer, in every decode step.

A policy decides and keeps per-slot state; it never touches the cache. What a policy may observe and change
before the first step (the prompt, the image encoding) is here too, with defaults that do nothing.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fastocr_core.attention.base import Selection
from fastocr_core.models.base import ImageEncoding, PromptLayout


@dataclass(frozen=True, slots=True)
class ImageGrid:
    """Where the cells of the page lie among its image tokens.

    Cell (row, column) is image token `first + row * (stride or columns) + column`. `stride` is larger than
    `columns` where a newline row ends every grid row, `first` is not 0 where another view comes before.
    `markers` are image tokens that show nothing (newline and separator rows). `rows * columns` may be less
    than the page's image tokens.
    """

    rows: int
    columns: int
    first: int = 0
    stride: int = 0
    markers: tuple[int, ...] = ()

    @property
    def row_step(self) -> int:
        """Image tokens from a cell to the one below it."""
        return self.stride or self.columns

    def fits(self, image_tokens: int) -> bool:
        """Whether every cell is one of so many image tokens; if not, policies do without the grid."""
        if self.rows < 1 or self.columns < 1:
            return False
        return self.first + (self.rows - 1) * self.row_step + self.columns <= image_tokens


@dataclass(frozen=True, slots=True, eq=False)
class PrefillView:
    """One layer of one page's prompt, or of a chunk of it.

    `query` is [query_heads, rows, head_dim], rotated, not scaled; its rows are the prompt entries
    `first_row` .. `first_row + rows`. `keys` is [kv_heads, entries, head_dim], rotated: all entries up to
    the end of this chunk, in prompt order. Attention is causal. The image is the entries `image_start` ..
    `image_start + image_tokens` of `prompt_entries` in all.
    """

    query: Tensor
    keys: Tensor
    first_row: int
    scaling: float
    image_start: int
    image_tokens: int
    grid: ImageGrid
    prompt_entries: int


class Policy(abc.ABC):
    """One decoding policy for all slots of an engine.

    Life of a page: `compress`, `admit`, the prompt (`take_prefill` layer by layer, `prefill_visible` asked
    before each layer), `admitted`, steps, `release`. A page that fails in its prompt goes from `admit` to
    `release`.
    """

    # True: the prompt of a page must be one forward, not chunks.
    needs_whole_prompt: bool = False
    # True: `compress` looks at `ImageEncoding.received` and `.keys`, which cost the vision tower extra.
    needs_scored_encoding: bool = False
    # First steps of a page that look at everything and are not counted.
    warmup_steps: int = 0

    def compress(self, encoding: "ImageEncoding", layout: PromptLayout) -> tuple[Tensor, PromptLayout]:
        """Image embeddings [kept, hidden] that go into the prompt, and the prompt's layout with as many
        image tokens; kept tokens keep their positions. Afterwards "image tokens" means the kept ones;
        shares that the engine reports are of the page's own number.

        ValueError where the policy does not apply to this model.
        """
        return encoding.embeddings, layout

    def observes_prefill(self, layer: int) -> bool:
        """Whether `take_prefill` wants this layer."""
        return False

    def take_prefill(self, layer: int, slot: int, view: PrefillView) -> None:  # noqa: B027 - a default
        """Queries and keys of the prompt in an observed layer; once per chunk."""

    def prefill_visible(self, layer: int, slot: int) -> Tensor | None:
        """Image tokens that prompt rows of this layer may see, bool [image_tokens], None for all. A row
        always sees itself, so that no row is empty. Asked after `take_prefill` of the layer before.
        """
        return None

    @abc.abstractmethod
    def budget(self, image_tokens: int) -> int:
        """Image tokens that a sparse layer keeps of so many."""

    @abc.abstractmethod
    def admit(self, slot: int, image_tokens: int, grid: ImageGrid | None = None) -> None:
        """A page is about to be prefilled into `slot`."""

    def admitted(self, slot: int) -> None:  # noqa: B027 - a default
        """The prompt of the page in `slot` is cached."""

    @abc.abstractmethod
    def release(self, slot: int) -> None:
        """The page in `slot` is done."""

    @abc.abstractmethod
    def before_step(self, live: Sequence[int]) -> None:
        """A step over the pages in `live` begins."""

    @abc.abstractmethod
    def warming_up(self, slot: int) -> bool:
        """Whether this step is warm-up for the slot, and so not counted."""

    def look_around(self, slot: int) -> bool:
        """The last step of the slot ended its page. True: do that step again, it will see everything, and believe that
        one. False: it saw enough.
        """
        return False

    @abc.abstractmethod
    def selection(self, layer: int) -> Selection:
        """Whom each slot may look at in `layer`; the same object as long as nothing changed."""

    @abc.abstractmethod
    def wants_scores(self, layer: int, slot: int) -> bool:
        """Whether the image attention of this slot in this layer is needed."""

    @abc.abstractmethod
    def take_scores(self, layer: int, slot: int, probabilities: Tensor) -> None:
        """Image attention [kv_heads, queries per kv head, seen]: softmax over image and text together.

        `seen` is all image tokens, or those of the slot's set in this layer, in the set's order.
        """

    def resident_share(self, slot: int) -> float:
        """Share of the slot's image rows (over layers and heads) that this policy still needs."""
        return 1.0

    def extra_bytes(self, image_tokens: int) -> int:
        """Bytes of scores and indices that the policy keeps for a page of so many image tokens, by KV head."""
        return 0
