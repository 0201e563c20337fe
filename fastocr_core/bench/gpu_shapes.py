"""Decoder shapes of the real models, with page sizes and output lengths, for the benchmark on a GPU.

Image tokens are those of an A4 page at 200 dpi (DeepSeek-OCR: its largest tiled mode); output lengths are
the means reported for these models: 1,855 tokens of layout JSON for dots.ocr, about 1,000 of markdown for
the others.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Mixture of experts from layer `dense_layers` on: `active` of `routed` experts per token, and `shared`
    ones that every token takes, each of `width`.
    """

    routed: int
    active: int
    shared: int
    width: int
    dense_layers: int = 1

    def read_share(self, tokens: int) -> float:
        """Expected share of routed experts that so many tokens reach, if routing is uniform."""
        return 1.0 - (1.0 - self.active / self.routed) ** tokens


@dataclass(frozen=True, slots=True)
class BenchShape:
    """A text decoder and a page: `prompt_tokens` without the image; `focal_layers` look at everything."""

    name: str
    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    vocabulary: int
    image_tokens: int
    prompt_tokens: int
    output_tokens: int
    focal_layers: tuple[int, ...]
    experts: ExpertShape | None = None

    @property
    def text_tokens(self) -> int:
        """Visible text rows at half of the output: the mean over a page."""
        return self.prompt_tokens + self.output_tokens // 2

    @property
    def row_bytes(self) -> int:
        """Keys and values of one token in one layer, in bf16."""
        return 2 * self.kv_heads * self.head_dim * 2

    def weight_bytes(self, tokens: int, all_experts: bool = False) -> int:
        """Weights in bf16 that a step over so many tokens reads, output head included."""
        attention = self.hidden * self.head_dim * (2 * self.query_heads + 2 * self.kv_heads)
        dense = 3 * self.hidden * self.ffn_width
        total = self.layers * attention + self.hidden * self.vocabulary
        if self.experts is None:
            return 2 * (total + self.layers * dense)
        experts = self.experts
        routed = experts.routed * (1.0 if all_experts else experts.read_share(tokens))
        one = 3 * self.hidden * experts.width
        sparse_layers = self.layers - experts.dense_layers
        total += experts.dense_layers * dense + round(sparse_layers * one * (routed + experts.shared))
        return 2 * total

    def cache_bytes(self, batch: int, kept_share: float) -> int:
        """Keys and values that a step reads: everything in focal layers, `kept_share` of the image elsewhere."""
        focal = len(self.focal_layers) if kept_share < 1.0 else self.layers
        everything, text = self.image_tokens + self.text_tokens, self.text_tokens
        sparse = (self.layers - focal) * (kept_share * self.image_tokens + text)
        return round(batch * self.row_bytes * (focal * everything + sparse))


# Four of 28 layers are focal, as in the paper; the same share elsewhere. Spread evenly: which ones does not
# matter to speed, except that the first layers reuse the fixation of the step before.
REAL_SHAPES: tuple[BenchShape, ...] = (
    BenchShape("dots.ocr", 28, 1536, 12, 2, 128, 8960, 151936, 4956, 216, 1855, (3, 10, 17, 24)),
    BenchShape("Qwen2.5-VL-7B", 28, 3584, 28, 4, 128, 18944, 152064, 4956, 44, 1000, (3, 10, 17, 24)),
    BenchShape(
        "DeepSeek-OCR", 12, 1280, 10, 10, 128, 6848, 129280, 903, 12, 1000, (3, 8), ExpertShape(64, 6, 2, 896)
    ),
    BenchShape("Qwen2.5-VL-3B", 36, 2048, 16, 2, 128, 11008, 151936, 4956, 44, 1000, (4, 11, 18, 25, 32)),
)

# For a run without a GPU, in triton's interpreter: every path, no meaning.
DRY_SHAPES: tuple[BenchShape, ...] = (
    BenchShape("dry-grouped", 2, 32, 4, 2, 16, 48, 64, 40, 3, 8, (1,)),
    BenchShape("dry-experts", 2, 32, 2, 2, 16, 48, 64, 24, 3, 8, (0,), ExpertShape(4, 2, 1, 16)),
)
