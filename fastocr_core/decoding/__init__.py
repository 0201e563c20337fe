"""Decoding policies; `build_policy` turns settings into a running policy for one model and so many slots."""

from fastocr_core.config import DecodePolicy
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.dense import DensePolicy
from fastocr_core.decoding.fastocr import FastOcrPolicy
from fastocr_core.models.base import ModelAdapter


def build_policy(settings: DecodePolicy, model: ModelAdapter, slots: int) -> Policy:
    """The policy with the model's own focal layers, floor and pooling where `settings` leave them open.

    ValueError if the model has no focal layers and none are given.
    """
    if settings.name == "dense":
        return DensePolicy(slots)
    focal_layers = model.focal_layers if settings.focal_layers is None else settings.focal_layers
    floor = model.default_floor if settings.floor is None else settings.floor
    pooling = settings.pooling or model.default_pooling
    return FastOcrPolicy(slots, settings, focal_layers, floor, model.shape.layers, pooling)
