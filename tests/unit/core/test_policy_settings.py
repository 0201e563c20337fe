"""Names and settings of decode policies are checked in one place, and every name builds a running policy."""

from dataclasses import replace
from typing import Any

import pytest

from fastocr_core import DecodePolicy
from fastocr_core.config import POLICY_NAMES, POLICY_VARIANTS
from fastocr_core.decoding import build_policy
from fastocr_core.decoding.fastocr import FastOcrPolicy
from fastocr_core.decoding.focal import default_focal_layers
from tests.parity.random_model import RandomAdapter


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_name_and_variant_builds(name: str) -> None:
    model = RandomAdapter()
    for variant in POLICY_VARIANTS[name] or ("",):
        settings = DecodePolicy.named(name, variant=variant)
        assert settings.kept_share == (1.0 if name == "dense" else 0.05)
        policy = build_policy(settings, model, 2)
        policy.admit(1, 100, None)
        # The random model's floor is 4.
        assert policy.budget(100) == (100 if name == "dense" else 5)
        assert policy.budget(60) == (60 if name == "dense" else 4)
        assert policy.extra_bytes(100) >= 0
        policy.release(1)


def test_the_first_variant_is_the_default() -> None:
    assert DecodePolicy.named("snapkv").chosen_variant == "1d"
    assert DecodePolicy.named("fastv").chosen_variant == ""


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("sparse", {}, "unknown decode policy 'sparse'; known: dense, fastocr, fastv"),
        ("snapkv", {"kept": 0.1}, "unknown setting of a decode policy: kept"),
        ("snapkv", {"variant": "3d"}, "snapkv has no variant '3d'; known: 1d, 2d"),
        ("fastv", {"variant": "1d"}, "fastv has no variant '1d'; known: none"),
        ("snapkv", {"kernel": 4}, "kernel must be odd"),
        ("snapkv", {"window": 0}, "window must be at least 1"),
        ("fastv", {"prune_layer": 0}, "prune_layer must be at least 1"),
        ("visionzip", {"contextual_share": 1.0}, "contextual_share must lie in"),
        ("fastocr", {"top_p": 0.0}, "top_p must lie in"),
        ("fastocr", {"focal": "random"}, "focal must be profile or per_page"),
        ("fastocr", {"focal_count": 0}, "focal_count must be at least 1"),
        ("fastocr", {"focal": "per_page", "focal_layers": (1,)}, "every page chooses its own"),
        ("fastocr", {"pooling": "best"}, "unknown pooling"),
        ("fastocr", {"kept_share": 0.0}, "kept_share must lie in"),
        ("fastocr", {"warmup_steps": 0}, "warmup_steps must be at least 1"),
    ],
)
def test_what_does_not_exist_is_refused_in_a_sentence(
    name: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        DecodePolicy.named(name, **settings)


def test_named_fastocr_is_fastocr() -> None:
    assert DecodePolicy.named("fastocr") == DecodePolicy.fastocr()
    assert DecodePolicy.named("dense") == DecodePolicy.dense()


def test_focal_layers_come_from_the_settings_then_the_model_then_the_middle() -> None:
    model = RandomAdapter()
    settings = DecodePolicy.fastocr()
    for expected, each in (
        ((1, 3), settings),
        ((0,), replace(settings, focal_layers=(0,))),
    ):
        policy = build_policy(each, model, 1)
        assert isinstance(policy, FastOcrPolicy)
        assert policy.focal_layers == expected
    model.focal_layers = ()
    policy = build_policy(settings, model, 1)
    assert isinstance(policy, FastOcrPolicy)
    assert policy.focal_layers == (2,)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [(1, (0,)), (6, (3,)), (12, (3, 9)), (28, (3, 10, 17, 24)), (36, (3, 10, 18, 25, 32))],
)
def test_focal_layers_without_a_profile(layers: int, expected: tuple[int, ...]) -> None:
    assert default_focal_layers(layers) == expected
