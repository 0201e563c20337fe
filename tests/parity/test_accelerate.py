"""`accelerate()` inside generate() of three families: everything kept is plain, a quarter is the engine's."""

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import DynamicCache

from fastocr_core import DecodePolicy, Engine, accelerate
from tests.support.small_generators import GENERATORS, Generator, SamePrompt, llava, qwen, unlimited

SETTINGS: dict[str, Any] = {"floor": 1, "warmup_steps": 4, "focal_layers": (1, 2)}
POLICY = DecodePolicy.fastocr(0.25, **SETTINGS)
families = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.inference_mode():
        yield


def engine_tokens(source: Generator, policy: DecodePolicy = POLICY) -> list[list[int]]:
    """The same prompts read by the engine with the same weights."""
    model = SamePrompt(source, (1, 2), 48)
    rows = range(len(source.features))
    with Engine(model, policy, max_batch=2) as engine:
        results = list(engine.read(model.page_of_row(row) for row in rows))
    assert [page.error for page in results] == [None for _ in rows]
    return [list(page.tokens) for page in results]


@families
def test_everything_kept_equals_plain_generate(make: Callable[..., Generator]) -> None:
    source = make()
    plain = source.generate()
    assert len(set(plain[0])) > 12, "the output should wander"
    with accelerate(source.model, 1.0, **SETTINGS) as acceleration:
        assert source.generate() == plain
        assert acceleration.image_kv_read_share == 1.0
        assert acceleration.generation is not None
        assert acceleration.generation.gathered_rows > 0


@families
def test_a_quarter_kept_equals_the_engine(make: Callable[..., Generator]) -> None:
    source = make(rows=2)
    plain = source.generate()
    with accelerate(source.model, 0.25, **SETTINGS) as acceleration:
        sparse = source.generate()
        assert source.generate() == sparse, "a second run starts afresh"
        # Two of four layers look at everything, the others at a quarter.
        assert acceleration.image_kv_read_share == pytest.approx(0.5 + 0.5 * 0.25, abs=0.01)
    assert sparse != plain
    assert sparse == engine_tokens(make(rows=2))


@families
def test_restore_restores(make: Callable[..., Generator]) -> None:
    source = make()
    plain = source.generate()
    before = source.model.config.text_config._attn_implementation
    vision_before = source.model.config.vision_config._attn_implementation
    acceleration = accelerate(source.model, 0.25, **SETTINGS)
    assert source.model.config.vision_config._attn_implementation == vision_before
    assert source.generate() != plain
    acceleration.restore()
    acceleration.restore()
    assert source.model.config.text_config._attn_implementation == before
    assert not source.model._forward_pre_hooks
    assert source.generate() == plain


def test_a_text_window_inside_generate() -> None:
    source = unlimited(window=6)
    plain = source.generate()
    assert plain != unlimited().generate(), "the window should matter"
    with accelerate(source.model, 1.0, **SETTINGS):
        assert source.generate() == plain
    with accelerate(source.model, 0.25, **SETTINGS):
        sparse = source.generate()
    model = SamePrompt(source, (1, 2), 48)
    model.text_window = 6
    with Engine(model, POLICY, max_batch=1) as engine:
        (page,) = engine.read([model.page_of_row(0)])
    assert sparse == [list(page.tokens)]


def test_chunked_prefill_and_a_returned_cache() -> None:
    source = qwen()
    with accelerate(source.model, 0.25, **SETTINGS):
        whole = source.generate()
        pixels, grid = source.inputs["pixel_values"], source.inputs["image_grid_thw"]
        features = source.model.get_image_features(pixels, grid)
        given = {key: value for key, value in source.inputs.items() if not key.startswith("pixel")}
        chunked = source.model.generate(
            **given,
            mm_encoder_outputs={"image": features},
            prefill_chunk_size=17,
            max_new_tokens=48,
            min_new_tokens=48,
            do_sample=False,
            return_dict_in_generate=True,
        )
        assert chunked.sequences[:, given["input_ids"].shape[1] :].tolist() == whole


def test_sampling_draws_from_the_same_logits() -> None:
    source = qwen()
    torch.manual_seed(3)
    plain = source.generate(do_sample=True, temperature=1.3)
    with accelerate(source.model, 1.0, **SETTINGS):
        torch.manual_seed(3)
        assert source.generate(do_sample=True, temperature=1.3) == plain


def test_beam_search_runs_and_everything_kept_is_plain() -> None:
    source = qwen()
    plain = source.generate(num_beams=3, max_new_tokens=12, min_new_tokens=12)
    with accelerate(source.model, 1.0, **SETTINGS):
        assert source.generate(num_beams=3, max_new_tokens=12, min_new_tokens=12) == plain


def test_undone_steps_are_not_counted_twice() -> None:
    source = qwen()
    with accelerate(source.model, 0.25, **SETTINGS) as acceleration:
        source.generate(max_new_tokens=3, min_new_tokens=3)
        generation = acceleration.generation
        assert generation is not None
        steps = generation.steps
        generation.begin_step(source.inputs["input_ids"].shape[1])
        assert generation.steps == steps == 2


def steps_of(model: Any, token: int, cache: DynamicCache, count: int) -> list[int]:
    """The next `count` greedy tokens after `token`."""
    tokens = [token]
    for _ in range(count):
        logits = model(input_ids=torch.tensor([tokens[-1:]]), cache=cache, use_cache=True).logits
        tokens.append(int(logits[0, -1].argmax()))
    return tokens[1:]


@pytest.mark.parametrize("copied", [False, True], ids=["two caches", "a copied cache"])
def test_caches_used_by_turns_keep_their_own_fixation(copied: bool) -> None:
    source = llava()
    longer = source.inputs | {
        key: torch.cat((torch.full((1, 40), fill), source.inputs[key]), dim=1)
        for key, fill in (("input_ids", 20), ("attention_mask", 1))
    }

    def begun(inputs: dict[str, Any]) -> tuple[int, DynamicCache]:
        cache = DynamicCache(config=source.model.config)
        logits = source.model(**inputs, cache=cache, use_cache=True).logits
        return int(logits[0, -1].argmax()), cache

    with accelerate(source.model, 0.25, **SETTINGS) as acceleration:
        expected = [steps_of(source.model, *begun(inputs), 20) for inputs in (source.inputs, longer)]
        first = begun(source.inputs)
        half = steps_of(source.model, *first, 10)
        cache = copy.deepcopy(first[1]) if copied else first[1]
        assert steps_of(source.model, *begun(longer), 20) == expected[1]
        assert half + steps_of(source.model, half[-1], cache, 10) == expected[0]
        assert acceleration.image_kv_read_share < 1.0, "the first cache should go on sparsely"


def test_a_model_that_was_never_restored_can_be_collected() -> None:
    source = llava()
    accelerate(source.model, 0.25, **SETTINGS)
    source.generate(max_new_tokens=6, min_new_tokens=6)
    model = weakref.ref(source.model)
    del source
    gc.collect()
    assert model() is None


def test_a_prompt_without_an_image_is_plain() -> None:
    source = qwen()
    ids = torch.arange(10, 30)[None]
    settings = {"max_new_tokens": 20, "min_new_tokens": 20, "do_sample": False}
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | settings
    plain = source.model.generate(**given)
    with accelerate(source.model, 0.25, **SETTINGS) as acceleration:
        assert torch.equal(source.model.generate(**given), plain)
        assert acceleration.image_kv_read_share == 1.0


def test_what_cannot_be_accelerated_is_refused() -> None:
    source = qwen()
    with pytest.raises(ValueError, match="no vision-language model"):
        accelerate(source.model.model.language_model)
    with accelerate(source.model, 0.25, **SETTINGS):
        with pytest.raises(ValueError, match="accelerated already"):
            accelerate(source.model)
        with pytest.raises(ValueError, match="dynamic cache"):
            source.generate(cache_implementation="static")
        embeddings = source.model.get_input_embeddings()(source.inputs["input_ids"])
        with pytest.raises(ValueError, match="placeholders"):
            source.model.generate(inputs_embeds=embeddings, max_new_tokens=3)


def test_a_plain_forward_is_dense() -> None:
    source = qwen()
    plain = source.model(**source.inputs, use_cache=False).logits
    with accelerate(source.model, 0.25, **SETTINGS):
        torch.testing.assert_close(source.model(**source.inputs, use_cache=False).logits, plain)
