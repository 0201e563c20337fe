"""Stage one: teach the stem to name the glyph whose centre falls into each 16 x 4 px strip of dense text crops."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fastocr_core.models.mini import tower
from fastocr_core.models.mini.train.fonts import TRAINED, face_weights, find_faces
from fastocr_core.models.mini.train.ink import InkStyle, blank_leaf, draw
from fastocr_core.models.mini.train.layout import LayoutStyle, PageLayout, compose, truth_of
from fastocr_core.models.mini.train.real import strip_labels
from fastocr_core.models.mini.train.schedule import TrainingClock, keep, set_rate
from fastocr_core.models.mini.train.texts import TextSource, load_corpus


@dataclass(frozen=True, slots=True)
class StemSchedule:
    seconds: float
    learning_rate: float = 3e-3
    batch: int = 16
    crop_pixels: int = 320
    seed: int = 1
    random_share: float = 0.2


class CropSource:
    """Endless seeded crops of dense text with their strip labels."""

    def __init__(self, schedule: StemSchedule) -> None:
        self._schedule = schedule
        self._generator = np.random.default_rng(schedule.seed)
        self._faces = find_faces(TRAINED)
        self._weights = face_weights(self._faces)
        self._source = TextSource(load_corpus(), schedule.random_share)
        self._style = LayoutStyle(
            x_height_pixels=(6.5, 13.5), pitch=(1.05, 1.6), margin_pixels=(0, 12), heading_share=0.08
        )
        self._ink = InkStyle()

    def batch(self) -> tuple[Tensor, Tensor]:
        """pixels uint8 [B, side, side], labels int64 [B, side/16, side/4]."""
        side = self._schedule.crop_pixels
        pixels, labels = [], []
        for _ in range(self._schedule.batch):
            layout = compose(
                self._generator, side, side, self._faces, self._weights, self._source, self._style
            )
            image = draw(layout, self._generator, self._ink)
            if self._generator.random() < 0.02:
                image, layout = blank_leaf(self._generator, side, side), PageLayout(side, side, ())
            if self._generator.random() < 0.04:
                image = 255 - image
            pixels.append(image)
            labels.append(strip_labels(truth_of(layout), side, side))
        return torch.from_numpy(np.stack(pixels)), torch.from_numpy(np.stack(labels))


def glyph_loss(logits: Tensor, labels: Tensor, empty_weight: float = 1.0) -> Tensor:
    """Weighted mean cross-entropy over strips; logits [B, h, w, GLYPHS], labels [B, h, w].

    Nine strips in ten are empty. With equal weights nothing but "empty" was learned in 1.7 million glyphs, so training
    starts with a small `empty_weight` and raises it to 1, at which the distribution is honest.
    """
    weights = torch.ones(tower.GLYPHS)
    weights[0] = empty_weight
    return functional.cross_entropy(logits.float().reshape(-1, tower.GLYPHS), labels.reshape(-1), weights)


def train_stem(schedule: StemSchedule, folder: pathlib.Path) -> None:
    """Train for schedule.seconds and keep folder/stem.pt up to date (resumed when it exists)."""
    torch.manual_seed(schedule.seed)
    source = CropSource(schedule)
    stem = tower.Stem().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(stem.parameters(), schedule.learning_rate, weight_decay=0.01)
    checkpoint = folder / "stem.pt"
    spent, steps, glyphs = 0.0, 0, 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        stem.load_state_dict(state["stem"])
        optimizer.load_state_dict(state["optimizer"])
        spent, steps, glyphs = state["spent"], state["steps"], state["glyphs"]
    clock = TrainingClock(schedule.seconds, spent, longest=10.0)
    recent: list[float] = []
    while not clock.over:
        pixels, labels = source.batch()
        share = clock.progress
        rate = set_rate(optimizer, schedule.learning_rate, share, steps, warm=50, floor=0.02)
        with torch.autocast("cpu", torch.bfloat16):
            _, logits = stem(tower.as_input(pixels))
        loss = glyph_loss(logits, labels, min(1.0, 0.2 + 1.5 * share))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
        marked = labels > 0
        glyphs += int(marked.sum())
        recent.append(float((logits.argmax(-1) == labels)[marked].float().mean()))
        clock.tick()
        if steps % 20 == 0:
            line = {
                "step": steps,
                "glyphs": glyphs,
                "seconds": round(clock.spent),
                "loss": round(float(loss.detach()), 4),
            }
            line |= {"accuracy": round(float(np.mean(recent[-20:])), 4), "rate": round(rate, 5)}
            print(json.dumps(line), flush=True)
        if steps % 100 == 0 or clock.over:
            state = {"stem": stem.state_dict(), "optimizer": optimizer.state_dict()}
            keep(state | {"spent": clock.spent, "steps": steps, "glyphs": glyphs}, checkpoint)
