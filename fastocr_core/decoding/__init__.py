"""Decoding policies; `build_policy` turns settings into a running policy for one model and so many slots.

A policy is one module here, named as in `config.POLICY_VARIANTS`, with a function
`build(settings, model, slots, floor) -> Policy`.
"""

import importlib

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import Policy
from fastocr_core.models.base import ModelAdapter


def build_policy(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
    """The policy with the model's own focal layers, floor and pooling where `settings` leave them open.

    ValueError if the policy cannot be built for this model.
    """
    module = importlib.import_module(f"fastocr_core.decoding.{settings.name}")
    floor = model.default_floor if settings.floor is None else settings.floor
    policy: Policy = module.build(settings, model, slots, floor)
    return policy
