"""Between joint trainings: the stem alone learns on from a reader, on dense crops of all kinds of print, several times as many
letters a second as with the decoder behind it.

The decoder is left as it is. It takes a stem so changed for a while, and should then be trained on with it (`train reader`).
"""

from __future__ import annotations

import json
import pathlib

import numpy as np
import torch
from torch import Tensor

from fastocr_core.models.mini import tower
from fastocr_core.models.mini.train.fonts import TRAINED, face_weights, find_faces
from fastocr_core.models.mini.train.ink import CLEAN, blank_leaf, degraded, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, compose, truth_of
from fastocr_core.models.mini.train.real import strip_labels
from fastocr_core.models.mini.train.schedule import TrainingClock, keep, set_rate
from fastocr_core.models.mini.train.stem import StemSchedule, glyph_loss
from fastocr_core.models.mini.train.texts import TextSource, load_corpus

_PREFIX = "stem."
_AVERAGE_STEPS = 100
_SAVE_STEPS = 100
_WORN_SHARE, _BLANK_SHARE, _RANDOM_SHARE = 0.6, 0.02, 0.3
_STYLE = LayoutStyle(
    (8.0, 13.5), (1.02, 1.5), min_pitch_pixels=17.0, margin_pixels=(0, 14), heading_share=0.3, cast_share=0.7,
    kinds=(("plain", 2.0), ("prose", 2.0), ("mixed", 1.5), ("strip", 3.0), ("tables", 0.7), ("directory", 0.5)),
    emphasis_share=0.4, reverse_share=0.05, skew_share=0.2, skew_degrees=1.6,
)  # fmt: skip


class WornCrops:
    """Endless seeded crops with their strip labels: all kinds of print, cast and worn as on the reader's own pages."""

    def __init__(self, schedule: StemSchedule) -> None:
        self._side, self._count = schedule.crop_pixels, schedule.batch
        self._generator = np.random.default_rng(schedule.seed)
        self._faces = find_faces(TRAINED)
        self._weights = face_weights(self._faces)
        self._source = TextSource(load_corpus(), _RANDOM_SHARE)

    def batch(self) -> tuple[Tensor, Tensor]:
        """pixels uint8 [B, side, side], labels int64 [B, side/16, side/4]."""
        crops = [self._crop() for _ in range(self._count)]
        pixels, labels = zip(*crops, strict=True)
        return torch.from_numpy(np.stack(pixels)), torch.from_numpy(np.stack(labels))

    def _crop(self) -> tuple[np.ndarray, np.ndarray]:
        side, generator = self._side, self._generator
        layout = PageLayout(side, side, ())
        if generator.random() >= _BLANK_SHARE:
            layout = compose(generator, side, side, self._faces, self._weights, self._source, _STYLE)
        worn = generator.random() < _WORN_SHARE
        ink = degraded(float(generator.uniform(0.1, 0.95))) if worn else CLEAN
        image = draw(layout, generator, ink) if layout.lines else blank_leaf(generator, side, side)
        return image, strip_labels(truth_of(layout), side, side)


def sharpen(schedule: StemSchedule, folder: pathlib.Path, name: str) -> pathlib.Path:
    """Train the stem of folder/NAME.pt for schedule.seconds -> folder/NAME-sharp.pt: the averaged weights of NAME with the
    running average of the new stem, as a beginning for `train reader`, its schedule not begun. Statistics of the batch norms
    stay. FileNotFoundError without the checkpoint.
    """
    torch.manual_seed(schedule.seed)
    state = torch.load(folder / f"{name}.pt", weights_only=True)
    held = state.get("average", state["reader"])
    fresh = {"spent": 0.0, "steps": 0, "characters": state.get("characters", 0)}
    stem = tower.Stem()
    stem.load_state_dict({key.removeprefix(_PREFIX): held[key] for key in held if key.startswith(_PREFIX)})
    stem = stem.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    average = {key: value.clone() for key, value in stem.state_dict().items()}
    optimizer = torch.optim.AdamW(stem.parameters(), schedule.learning_rate, weight_decay=0.01)
    output, source = folder / f"{name}-sharp.pt", WornCrops(schedule)
    clock, steps = TrainingClock(schedule.seconds, longest=10.0), 0
    recent: list[tuple[float, float]] = []
    while not clock.over or not steps:
        set_rate(optimizer, schedule.learning_rate, clock.progress, steps, warm=50, floor=0.02)
        recent.append(_step(stem, optimizer, *source.batch()))
        steps += 1
        weight = 1 / min(_AVERAGE_STEPS, steps)
        for key, value in stem.state_dict().items():
            if value.is_floating_point():
                average[key].lerp_(value, weight)
        clock.tick()
        if steps % 20 == 0:
            loss, right = (round(float(np.mean(values)), 4) for values in zip(*recent[-20:], strict=True))
            line = {"step": steps, "seconds": round(clock.spent), "loss": loss, "right": right}
            print(json.dumps(line), flush=True)
        if steps % _SAVE_STEPS == 0 or clock.over:
            held.update({_PREFIX + key: value.clone() for key, value in average.items()})
            keep({"reader": held, "average": held} | fresh, output)
    return output


def _step(
    stem: tower.Stem, optimizer: torch.optim.Optimizer, pixels: Tensor, labels: Tensor
) -> tuple[float, float]:
    """One step of training; the loss, and the share of letters named right."""
    with torch.autocast("cpu", torch.bfloat16):
        _, logits = stem(tower.as_input(pixels))
    loss = glyph_loss(logits, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(stem.parameters(), 1.0)
    optimizer.step()
    marked = labels > 0
    right = float((logits.argmax(-1) == labels)[marked].float().mean()) if marked.any() else 1.0
    return float(loss.detach()), right
