"""What is recorded under policies whose heads have sets of their own, or that put fewer image tokens into the prompt."""

import pytest
import torch

from fastocr_core import DecodePolicy, load
from fastocr_core.attention.base import Selection
from fastocr_core.bench.decode import noise_page
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.decoding.fastocr import FastOcrPolicy
from fastocr_core.decoding.visionzip import VisionZipPolicy
from fastocr_core.models.base import ImageEncoding, PromptLayout
from fastocr_core.view.recording import RecordingPolicy
from fastocr_core.view.trace import record


class HeadsApart(DensePolicy):
    """Two heads that look at other image tokens."""

    def selection(self, layer: int) -> Selection:
        """The same in every layer."""
        return Selection((torch.tensor([[0, 2], [1, 5]]),))


def test_each_head_counts_on_its_own_tokens() -> None:
    recorder = RecordingPolicy(HeadsApart(1), 0, 24)
    recorder.before_step([0])
    recorder.selection(0)
    recorder.take_scores(0, 0, torch.tensor([[[0.4, 0.1]], [[0.3, 0.2]]]))
    assert recorder.strongest[0][:, 0].tolist() == [0, 1, 5, 2]
    assert recorder.strongest[0][:, 1].tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1])
    seen = recorder.seen[0]
    assert seen is not None
    assert seen.tolist() == [0, 1, 2, 5]


def test_heads_that_share_a_token_add_up() -> None:
    class Shared(HeadsApart):
        def selection(self, layer: int) -> Selection:
            return Selection((torch.tensor([[0, 2], [2, 5]]),))

    recorder = RecordingPolicy(Shared(1), 0, 24)
    recorder.before_step([0])
    recorder.take_scores(0, 0, torch.tensor([[[0.4, 0.2]], [[0.3, 0.1]]]))
    assert recorder.strongest[0][:, 0].tolist() == [2, 0, 5]
    assert recorder.strongest[0][:, 1].tolist() == pytest.approx([0.5, 0.4, 0.1])


def test_tokens_of_a_compressed_prompt_are_named_as_on_the_page() -> None:
    settings = DecodePolicy.named("visionzip", variant="norm", kept_share=0.25, contextual_share=0.0)
    recorder = RecordingPolicy(VisionZipPolicy(1, settings, 1, "made"), 0, 24)
    embeddings = torch.ones(8, 4)
    embeddings[3], embeddings[6] = 5.0, 9.0
    layout = PromptLayout((1, 2), 1, 8, torch.arange(10)[None])
    recorder.compress(ImageEncoding(embeddings), layout)
    recorder.before_step([0])
    recorder.take_scores(0, 0, torch.tensor([[[0.1, 0.3]]]))
    seen = recorder.seen[0]
    assert seen is not None
    assert seen.tolist() == [3, 6]
    assert recorder.strongest[0][:, 0].tolist() == [6, 3]


def test_a_step_done_again_is_noted_once() -> None:
    """And as it was the second time, with everything in sight."""
    settings = DecodePolicy.fastocr(0.25, floor=2, warmup_steps=1)
    recorder = RecordingPolicy(FastOcrPolicy(1, settings, (0,), 2, 2), 1, 24)
    recorder.admit(0, 8)

    def step() -> None:
        recorder.before_step([0])
        for layer in (0, 1):
            seen = recorder.selection(layer).sets[0]
            if recorder.wants_scores(layer, 0):
                recorder.take_scores(layer, 0, torch.rand(2, 1, 8 if seen is None else seen.shape[1]))

    for _ in range(3):
        step()
    assert [seen is None for seen in recorder.seen] == [True, False, False]
    assert recorder.look_around(0)
    step()
    assert [seen is None for seen in recorder.seen] == [True, False, True]
    assert len(recorder.strongest[-1]) == 8
    assert not recorder.look_around(0)
    step()
    assert [seen is None for seen in recorder.seen] == [True, False, True, False]


@pytest.mark.parametrize("policy", ["h2o", "snapkv", "pyramidkv", "fastv"])
def test_attention_lies_on_what_was_read(policy: str) -> None:
    """The last layer is recorded, which is also the one whose sets are noted."""
    model = load("tiny", device="cpu")
    settings = DecodePolicy.named(policy, kept_share=0.1, floor=4, focal_layers=(model.shape.layers - 1,))
    trace = record(model, noise_page(96, model.vision, 3), settings)
    after = [gaze for gaze in trace.gazes if gaze is not None]
    assert after
    for gaze in after:
        assert gaze.seen is not None
        assert {cell for cell, _ in gaze.strongest} <= set(gaze.seen)
        assert gaze.read == len(gaze.seen) < trace.page.image_tokens
