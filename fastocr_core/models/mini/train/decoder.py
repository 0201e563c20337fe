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

from fastocr_core.models.mini import alphabet, places
from fastocr_core.models.mini.reader import HIDDEN, TEXT_WINDOW, MiniReader
from fastocr_core.models.mini.train import guided
from fastocr_core.models.mini.train.layout import LayoutStyle
from fastocr_core.models.mini.train.samples import Batch, PageRange, PageSource
from fastocr_core.models.mini.train.stem import glyph_loss


@dataclass(frozen=True, slots=True)
class DecoderSchedule:
    """One run. `rendered` False: exact strips, stem untouched. True: pixels through the stem, everything learns."""

    seconds: float
    rendered: bool
    learning_rate: float
    token_budget: int = 6000
    corrupted: float = 0.04  # share of input characters replaced, so that own mistakes are survived
    seed: int = 2


def phases(progress: float) -> PageRange:
    """The curriculum: crops of random strings with wide lines first, whole pages of real text last."""
    if progress < 0.25:
        style = LayoutStyle(min_pitch_pixels=32.0 * (1 - progress * 4) + 20, heading_share=0.05)
        return PageRange((6, 11), (6, 12), style, random_share=0.9 - 1.6 * progress)
    if progress < 0.6:
        return PageRange((8, 20), (8, 22), LayoutStyle(pitch=(1.1, 2.0)), random_share=0.35)
    return PageRange((10, 31), (10, 25), LayoutStyle(pitch=(1.1, 2.0)), random_share=0.2)


@dataclass(slots=True)
class Losses:
    characters: Tensor
    places: Tensor
    guide: Tensor
    glyphs: Tensor | None

    def total(self) -> Tensor:
        value = self.characters * 0.8 + self.places * 0.3 + 0.5 * self.guide
        return value if self.glyphs is None else value + 1.0 * self.glyphs


def _contents(reader: MiniReader, batch: Batch) -> tuple[Tensor, Tensor | None]:
    if batch.pixels is not None:
        content, logits = reader.see(batch.pixels)
        return content, glyph_loss(logits, batch.labels)
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
    return torch.where(column & (noise < 0.1), tokens + step, inputs)


def forward(reader: MiniReader, batch: Batch, corrupted: float) -> Losses:
    """Teacher-forced losses of one batch."""
    with torch.autocast("cpu", torch.bfloat16):
        content, glyphs = _contents(reader, batch)
        images, cells = [], []
        for index, (row_offset, column_offset) in enumerate(batch.offsets):
            codes = reader.positions(batch.rows, batch.columns, row_offset, column_offset)
            images.append((content[index] + codes).reshape(-1, HIDDEN))
            cells.append(places.image_places(batch.rows, batch.columns, row_offset, column_offset))
        image = torch.stack(images)  # [B, N, hidden]
        begin = torch.full((len(images), 1), alphabet.BEGIN)
        inputs = torch.cat([begin, _corrupt(batch.tokens[:, :-1], corrupted)], dim=1)
        count, length = image.shape[1], inputs.shape[1]
        embeddings = torch.cat([image, reader.decoder.embed_tokens(inputs)], dim=1)
        positions = torch.cat([torch.stack(cells, dim=1), places.output_places(inputs)], dim=2)  # [3, B, N + T]
        for layer in reader.decoder.layers:
            layer.self_attn.image_tokens = count
        mask = guided.reading_mask(count, length, TEXT_WINDOW)
        hidden = reader.decoder(
            inputs_embeds=embeddings, position_ids=positions, attention_mask=mask, use_cache=False
        ).last_hidden_state[:, count:]
        logits = reader.head(hidden)
    return _score(reader, batch, logits, glyphs)


def _score(reader: MiniReader, batch: Batch, logits: Tensor, glyphs: Tensor | None) -> Losses:
    targets = batch.tokens.reshape(-1)
    entropy = functional.cross_entropy(
        logits.float().reshape(-1, alphabet.VOCABULARY), targets, ignore_index=alphabet.PAD, reduction="none"
    )
    is_character = (targets >= alphabet.FIRST_CHARACTER) & (targets < alphabet.FIRST_ROW)
    is_place = (targets != alphabet.PAD) & ~is_character
    cells = batch.cells.reshape(-1)
    pointed = [
        functional.cross_entropy(
            reader.decoder.layers[layer].self_attn.guide_logits.reshape(len(cells), -1), cells, ignore_index=-1
        )
        for layer in guided.GUIDED_LAYERS
        if bool((cells >= 0).any())
    ]
    guide = torch.stack(pointed).mean() if pointed else torch.zeros(())
    return Losses(
        entropy[is_character].sum() / is_character.sum().clamp(min=1),
        entropy[is_place].sum() / is_place.sum().clamp(min=1),
        guide,
        glyphs,
    )


def train_decoder(schedule: DecoderSchedule, folder: pathlib.Path, name: str) -> None:
    """Train for schedule.seconds, keeping folder/NAME.pt; resumes it when it exists."""
    torch.manual_seed(schedule.seed)
    reader = MiniReader()
    reader.decoder.set_attn_implementation(guided.register())
    parameters = [value for key, value in reader.named_parameters() if schedule.rendered or not key.startswith("stem.")]
    optimizer = torch.optim.AdamW(parameters, schedule.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    spent, steps, characters = 0.0, 0, 0
    checkpoint = folder / f"{name}.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        reader.load_state_dict(state["reader"])
        if "optimizer" in state:
            optimizer.load_state_dict(state["optimizer"])
        spent, steps, characters = state["spent"], state["steps"], state["characters"]
    source = PageSource(schedule.seed + steps, schedule.rendered)
    reader.train()
    last = time.monotonic()
    window: list[tuple[float, float, float, float]] = []
    while spent < schedule.seconds:
        progress = min(spent / schedule.seconds, 1.0)
        batch = source.batch(phases(progress if not schedule.rendered else 0.4 + 0.6 * progress), schedule.token_budget)
        warm = min(1.0, (steps + 1) / 100)
        rate = schedule.learning_rate * warm * (0.5 * (1 + np.cos(np.pi * progress)) * 0.95 + 0.05)
        for group in optimizer.param_groups:
            group["lr"] = float(rate)  # a numpy scalar would make the checkpoint unreadable
        losses = forward(reader, batch, schedule.corrupted)
        optimizer.zero_grad(set_to_none=True)
        losses.total().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        steps += 1
        characters += int((batch.tokens != alphabet.PAD).sum())
        glyphs = 0.0 if losses.glyphs is None else float(losses.glyphs.detach())
        window.append(
            (float(losses.characters.detach()), float(losses.places.detach()), float(losses.guide.detach()), glyphs)
        )
        now = time.monotonic()
        spent += min(now - last, 20.0)  # a pause (SIGSTOP) must not eat the schedule
        last = now
        if steps % 20 == 0:
            means = np.mean(window[-20:], axis=0).round(4).tolist()
            line = {"step": steps, "characters": characters, "seconds": round(spent)}
            line |= dict(zip(("character_loss", "place_loss", "guide_loss", "glyph_loss"), means, strict=True))
            print(json.dumps(line), flush=True)
        if steps % 50 == 0 or spent >= schedule.seconds:
            state = {"reader": reader.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"spent": spent, "steps": steps, "characters": characters}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
