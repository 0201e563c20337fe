"""Stages two and three: teach the decoder on exact strips, then the whole reader on rendered pages."""

from __future__ import annotations

import json
import pathlib
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fastocr_core.models.mini import alphabet, places, tower
from fastocr_core.models.mini.adapter import load_mini
from fastocr_core.models.mini.reader import HIDDEN, TEXT_WINDOW, MiniReader
from fastocr_core.models.mini.train import guided
from fastocr_core.models.mini.train.curriculum import phases
from fastocr_core.models.mini.train.samples import Batch, PageSource
from fastocr_core.models.mini.train.schedule import TrainingClock, keep, set_rate
from fastocr_core.models.mini.train.stem import glyph_loss

PARTNER_STALE_SECONDS = 900.0
COUNT_OFFSETS = 4500
GUIDE_WEIGHT = 0.5
# How much more than an ordinary place a rare one counts: where to go from the foot of a column or past a gap is decided
# once or twice a page, among hundreds of steps to the next word or line.
LEAP_WEIGHT, END_WEIGHT, START_WEIGHT = 8.0, 6.0, 4.0
GAP_WEIGHT = 4.0
LEAP_BANDS = 5  # of 16 px; a step to a row further down than this is a leap, and so is any step up
GAP_STRIPS = 6  # of 8 px; a word that begins further than this behind the one before it stands behind a gap
STRIPS_PER_LETTER = 1.25
AVERAGE_STEPS = (
    200  # that the running average of the weights reaches back; a few pages a step make single weights noisy
)


@dataclass(frozen=True, slots=True)
class DecoderSchedule:
    """One run. `rendered` False: exact strips, stem untouched. True: pixels through the stem, everything learns."""

    seconds: float
    rendered: bool
    learning_rate: float
    token_budget: int = 6000
    corrupted: float = 0.04  # share of input characters replaced, so that own mistakes are survived
    first_phase: float = 0.0  # where in the curriculum the run starts
    frozen_share: float = 0.15  # of the run during which the stem only looks
    fixated_share: float = 0.0  # of batches read through fixations
    silent_share: float = 0.0  # at most, of a page's cells that give no stem features
    guide_until: float = (
        1.0  # share of the run after which nothing asks the guided heads to look at what is read
    )
    partner: str = ""  # name of a second process of the same run whose weights are averaged in
    real_pages: pathlib.Path | None = None  # folder of windows of real documents, see real.RealPages
    seed: int = 2

    def guide_weight(self, progress: float) -> float:
        """Weight of the guidance at 0 <= progress <= 1 of the run: falls evenly to nothing in the third before its end."""
        if self.guide_until >= 1.0:
            return GUIDE_WEIGHT
        left = (self.guide_until - progress) / max(self.guide_until / 3, 1e-9)
        return GUIDE_WEIGHT * min(max(left, 0.0), 1.0)


@dataclass(slots=True)
class Losses:
    characters: Tensor
    places: Tensor
    guide: Tensor
    glyphs: Tensor | None

    def total(self, guide_weight: float = GUIDE_WEIGHT) -> Tensor:
        value = self.characters * 0.8 + self.places * 0.3 + guide_weight * self.guide
        return value if self.glyphs is None else value + 1.0 * self.glyphs

    def floats(self) -> list[float]:
        glyphs = 0.0 if self.glyphs is None else float(self.glyphs.detach())
        return [
            float(self.characters.detach()),
            float(self.places.detach()),
            float(self.guide.detach()),
            glyphs,
        ]


def _partly_silent(features: Tensor, most: float) -> Tensor:
    """Stem features [B, C, h, w] without those of some cells, up to the share `most` of a page: there the named glyphs must
    do. Of worn print the names are right before the features are."""
    batch, _, height, width = features.shape
    shares = torch.rand(batch, 1, 1, 1) * most
    heard = torch.rand(batch, 1, height, width // tower.FEATURES_PER_CELL) >= shares
    return features * heard.repeat_interleave(tower.FEATURES_PER_CELL, dim=-1)


def _contents(reader: MiniReader, batch: Batch, silent_share: float) -> tuple[Tensor, Tensor | None]:
    if batch.pixels is not None:
        learning = next(reader.stem.parameters()).requires_grad
        with torch.set_grad_enabled(learning):
            features, logits = reader.stem(tower.as_input(batch.pixels))
        if silent_share > 0:
            features = _partly_silent(features, silent_share)
        content = reader.merger(logits.float().softmax(-1), features)
        return content, glyph_loss(logits, batch.labels) if learning else None
    table = reader.merger.glyph_embedding.weight.t()  # [GLYPHS, E]
    weights = batch.strip_weights
    embedded = (1 - weights.sum(1)).unsqueeze(-1) * table[0]
    for layer in range(weights.shape[1]):
        embedded = embedded + weights[:, layer].unsqueeze(-1) * table[batch.strip_classes[:, layer]]
    return reader.merger.merge(embedded, None), None


def _corrupt(tokens: Tensor, share: float) -> Tensor:
    """Replace characters, and nudge some row and column tokens by one step."""
    noise = torch.rand(tokens.shape)
    character = (tokens >= alphabet.FIRST_CHARACTER) & (tokens < alphabet.FIRST_ROW)
    random = torch.randint(alphabet.FIRST_CHARACTER, alphabet.FIRST_ROW, tokens.shape)
    inputs = torch.where(character & (noise < share), random, tokens)
    step = torch.randint(0, 2, tokens.shape) * 2 - 1
    column = (tokens > alphabet.FIRST_COLUMN) & (tokens < alphabet.VOCABULARY - 1)
    inputs = torch.where(column & (noise < 0.1), tokens + step, inputs)
    row = (tokens > alphabet.FIRST_ROW) & (tokens < alphabet.FIRST_COLUMN - 1)
    return torch.where(row & (noise < 0.08), tokens + step, inputs)


def forward(
    reader: MiniReader, batch: Batch, corrupted: float, kept_share: float = 0.0, silent_share: float = 0.0
) -> Losses:
    """Teacher-forced losses of one batch; with kept_share > 0 outputs are read through fixations of that size, with
    silent_share > 0 up to that share of the cells of a page give no features."""
    with torch.autocast("cpu", torch.bfloat16):
        content, glyphs = _contents(reader, batch, silent_share)
        images, cells = [], []
        for index, (row_offset, column_offset) in enumerate(batch.offsets):
            codes = reader.positions(batch.rows, batch.columns, row_offset, column_offset)
            images.append((content[index] + codes).reshape(-1, HIDDEN))
            cells.append(places.image_places(batch.rows, batch.columns, row_offset, column_offset))
        image = torch.stack(images)  # [B, N, hidden]
        begin = torch.full((len(images), 1), alphabet.BEGIN)
        inputs = torch.cat([begin, _corrupt(batch.tokens[:, :-1], corrupted)], dim=1)
        count, length = image.shape[1], inputs.shape[1]
        written = places.output_places(inputs)  # [3, B, T]
        # a page of a book has more outputs than most training pages: the count starts anywhere
        written[0, :, 1:] += torch.randint(0, COUNT_OFFSETS, (len(images), 1))
        embeddings = torch.cat([image, reader.embed(inputs, written)], dim=1)
        positions = torch.cat([torch.stack(cells, dim=1), written], dim=2)  # [3, B, N + T]
        glance = guided.Glance(count, guided.reading_mask(count, length, TEXT_WINDOW), kept_share)
        if kept_share:
            previous = torch.cat([torch.full((len(images), 1), -1), batch.cells[:, :-1]], dim=1)
            near = guided.around(previous, batch.rows, batch.columns)
            glance.before = guided.with_image_part(glance.mask, near)
        guided.show(reader.decoder, glance)
        hidden = reader.decoder(embeddings, positions).last_hidden_state[:, count:]
        logits = reader.head(hidden)
    return _score(reader, batch, logits, glyphs)


def place_weights(tokens: Tensor) -> Tensor:
    """How much each place counts in the loss: int64 [B, T] tokens -> float32 [B, T], 1 for ordinary ones."""
    weights = torch.ones(tokens.shape)
    is_row = (tokens >= alphabet.FIRST_ROW) & (tokens < alphabet.FIRST_COLUMN)
    last = _last_before(is_row)
    step = tokens - tokens.gather(1, last.clamp(min=0))
    weights[is_row & (last < 0)] = START_WEIGHT
    weights[is_row & (last >= 0) & ((step < 0) | (step > LEAP_BANDS))] = LEAP_WEIGHT
    weights[tokens == alphabet.END] = END_WEIGHT
    weights[_behind_gap(tokens)] = GAP_WEIGHT
    return weights


def _last_before(chosen: Tensor) -> Tensor:
    """Index of the last chosen token before each, -1 for none: bool [B, T] -> int64 [B, T]."""
    last = torch.where(chosen, torch.arange(chosen.shape[1]), -1).cummax(1).values
    return torch.cat([torch.full_like(last[:, :1], -1), last[:, :-1]], dim=1)


def _behind_gap(tokens: Tensor) -> Tensor:
    """Which column tokens [B, T] name a word far to the right of the one before it, or a line that begins elsewhere than
    the one above it."""
    index = torch.arange(tokens.shape[1])
    is_row = (tokens >= alphabet.FIRST_ROW) & (tokens < alphabet.FIRST_COLUMN)
    is_column = tokens >= alphabet.FIRST_COLUMN
    opens = is_column & torch.cat([torch.zeros_like(is_row[:, :1]), is_row[:, :-1]], dim=1)
    word, line = _last_before(is_column), _last_before(opens)
    letters = index - word - 1
    across = tokens - tokens.gather(1, word.clamp(min=0)) - STRIPS_PER_LETTER * letters
    moved = (tokens - tokens.gather(1, line.clamp(min=0))).abs()
    return is_column & torch.where(
        opens, (line >= 0) & (moved > GAP_STRIPS), (word >= 0) & (across > GAP_STRIPS)
    )


def _score(reader: MiniReader, batch: Batch, logits: Tensor, glyphs: Tensor | None) -> Losses:
    targets = batch.tokens.reshape(-1)
    entropy = functional.cross_entropy(
        logits.float().reshape(-1, alphabet.VOCABULARY), targets, ignore_index=alphabet.PAD, reduction="none"
    )
    is_character = (targets >= alphabet.FIRST_CHARACTER) & (targets < alphabet.FIRST_ROW)
    is_place = (targets != alphabet.PAD) & ~is_character
    counted = place_weights(batch.tokens)
    weights = counted.reshape(-1) * is_place
    pointed = []
    if bool((batch.cells >= 0).any()):
        aims = batch.cells[:, None].expand(-1, guided.GUIDED_HEADS, -1).flatten()  # [B * heads * T]
        shares = counted[:, None].expand(-1, guided.GUIDED_HEADS, -1).flatten() * (aims >= 0)
        for layer in guided.GUIDED_LAYERS:
            aimed: Tensor = reader.decoder.get_submodule(f"layers.{layer}.self_attn").guide_logits  # type: ignore[assignment]
            missed = functional.cross_entropy(aimed.flatten(0, 2), aims, ignore_index=-1, reduction="none")
            pointed.append((missed * shares).sum() / shares.sum())
    guide = torch.stack(pointed).mean() if pointed else torch.zeros(())
    return Losses(
        entropy[is_character].sum() / is_character.sum().clamp(min=1),
        (entropy * weights).sum() / weights.sum().clamp(min=1),
        guide,
        glyphs,
    )


class Trainer:
    """One run over a schedule; keeps folder/NAME.pt up to date and resumes it when it exists."""

    def __init__(self, schedule: DecoderSchedule, folder: pathlib.Path, name: str) -> None:
        torch.manual_seed(schedule.seed)
        self._schedule, self._checkpoint = schedule, folder / f"{name}.pt"
        self.reader = MiniReader()
        self.reader.decoder.set_attn_implementation(guided.register())
        self._parameters = [
            value
            for key, value in self.reader.named_parameters()
            if schedule.rendered or not key.startswith("stem.")
        ]
        self._optimizer = torch.optim.AdamW(
            self._parameters, schedule.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
        )
        spent, self.steps, self.characters, self._met = 0.0, 0, 0, 0.0
        self._own_characters, self._partner_characters = 0, 0  # when the two last met
        averaged = None
        if self._checkpoint.exists():
            state = torch.load(self._checkpoint, weights_only=True)
            self.reader.load_state_dict(state["reader"])
            if "optimizer" in state:
                self._optimizer.load_state_dict(state["optimizer"])
            spent, self.steps, self.characters = state["spent"], state["steps"], state["characters"]
            self._own_characters = self._partner_characters = self.characters
            averaged = state.get("average", state["reader"])
        elif schedule.rendered:
            self._join(folder)
        self._clock = TrainingClock(schedule.seconds, spent)
        self._average = {key: value.clone() for key, value in self.reader.state_dict().items()}
        if averaged is not None:
            self._average.update(averaged)
        self._source = PageSource(schedule.seed + self.steps, schedule.rendered, schedule.real_pages)
        self._chance = np.random.default_rng(schedule.seed + 77 + self.steps)
        self.reader.train()
        self.reader.stem.eval()  # batch statistics stay those of the dense crops

    def _join(self, folder: pathlib.Path) -> None:
        """Start from the trained stem and the decoder trained on exact strips, or else from the shipped weights."""
        if not (folder / "decoder.pt").exists():
            self.reader.load_state_dict(load_mini().reader.state_dict())
            return
        decoder = torch.load(folder / "decoder.pt", weights_only=True)["reader"]
        self.reader.load_state_dict(decoder)
        self.reader.stem.load_state_dict(torch.load(folder / "stem.pt", weights_only=True)["stem"])

    def step(self) -> Losses:
        """One batch: pages of the current phase, forward, backward, update."""
        schedule = self._schedule
        progress = self._clock.progress
        phase = schedule.first_phase + (1 - schedule.first_phase) * progress
        pages = phases(phase, float(self._chance.random()))
        batch = self._source.batch(pages, schedule.token_budget)
        set_rate(self._optimizer, schedule.learning_rate, progress, self.steps, warm=100, floor=0.05)
        self.reader.stem.requires_grad_(schedule.rendered and progress >= schedule.frozen_share)
        fixate = self._chance.random() < schedule.fixated_share
        kept_share = float(self._chance.uniform(0.02, 0.25)) if fixate else 0.0
        losses = forward(self.reader, batch, schedule.corrupted, kept_share, schedule.silent_share)
        self._optimizer.zero_grad(set_to_none=True)
        losses.total(schedule.guide_weight(progress)).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._follow()
        self.steps += 1
        self.characters += int((batch.tokens != alphabet.PAD).sum())
        return losses

    def _follow(self) -> None:
        """Move the running average towards the weights."""
        with torch.no_grad():
            for key, value in self.reader.state_dict().items():
                if value.is_floating_point():
                    self._average[key].lerp_(value, 1 / AVERAGE_STEPS)

    def save(self) -> None:
        state = {
            "reader": self.reader.state_dict(),
            "average": self._average,
            "optimizer": self._optimizer.state_dict(),
            "spent": self._clock.spent,
        }
        keep(state | {"steps": self.steps, "characters": self.characters}, self._checkpoint)

    def meet_partner(self) -> None:
        """Average with the partner's newest weights: two processes without barriers, where two threads would wait."""
        other = self._checkpoint.with_name(f"{self._schedule.partner}.pt")
        if not self._schedule.partner or not other.exists():
            return
        written = other.stat().st_mtime
        if written <= self._met or time.time() - written > PARTNER_STALE_SECONDS:
            return
        self._met = written
        state = torch.load(other, weights_only=True)
        learned = state["characters"] - self._partner_characters, self.characters - self._own_characters
        self._partner_characters, self._own_characters = state["characters"], self.characters
        # by what each has read since they last met, so that a slow partner does not hold back a fast one
        share = min(max(learned[0] / max(sum(learned), 1), 0.0), 1.0)
        with torch.no_grad():
            for key, value in self.reader.state_dict().items():
                if value.is_floating_point():
                    value.lerp_(state["reader"][key], share)

    def run(self) -> None:
        window: list[list[float]] = []
        while not self._clock.over:
            window.append(self.step().floats())
            self._clock.tick()
            if self.steps % 20 == 0:
                means = np.mean(window[-20:], axis=0).round(4).tolist()
                line = {
                    "step": self.steps,
                    "characters": self.characters,
                    "seconds": round(self._clock.spent),
                }
                line |= dict(
                    zip(("character_loss", "place_loss", "guide_loss", "glyph_loss"), means, strict=True)
                )
                print(json.dumps(line), flush=True)
            if self.steps % 50 == 0 or self._clock.over:
                self.meet_partner()
                self.save()
