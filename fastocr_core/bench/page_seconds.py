"""Seconds for one A4 page, dense and fastocr: `python -m fastocr_core.bench.page_seconds --threads 1 2`.

The page is alone in the engine, which is how a single page feels; an archive reads several at once. Rounds alternate between the
policies; medians count. By default the page is set here: English prose in Pillow's own font, 10.5 points at 150 dpi.
Prints a table and one JSON line last.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from PIL import Image, ImageDraw, ImageFont

from fastocr_core.config import DecodePolicy
from fastocr_core.engine import Engine
from fastocr_core.models import load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.models.mini.heldout.pages import FOLDER
from fastocr_core.output import PageText
from fastocr_core.vision import prepare

A4_INCHES = (8.27, 11.69)
POINTS, LEADING, MARGIN_INCHES = 10.5, 1.35, 0.9


@dataclass(frozen=True, slots=True)
class PageSeconds:
    """One policy at one number of threads, medians over the rounds, wall clock.

    `seconds` run from the image to the text; `prepare_seconds` bring the page to its letter size, `encode_seconds` make image
    tokens of it, `decode_seconds` write the text. `words_right` is the share of the page's words that were read, None for a
    page whose text is not known.
    """

    policy: str
    threads: int
    rounds: int
    seconds: float
    fastest_seconds: float
    slowest_seconds: float
    prepare_seconds: float
    encode_seconds: float
    decode_seconds: float
    image_tokens: int
    output_tokens: int
    image_kv_read_share: float
    words_right: float | None


def a4_page(dpi: int = 150) -> tuple[Image.Image, list[str]]:
    """A full page of prose in Pillow's own font, and its lines."""
    width, height = (round(side * dpi) for side in A4_INCHES)
    margin = round(MARGIN_INCHES * dpi)
    font = ImageFont.load_default(POINTS / 72 * dpi)
    words = (FOLDER / "texts" / "en.txt").read_text("utf-8").split()
    image = Image.new("L", (width, height), 250)
    canvas = ImageDraw.Draw(image)
    lines, line = list[str](), ""
    top, pitch = float(margin), POINTS / 72 * dpi * LEADING
    index = 0
    while top + pitch < height - margin:
        word = words[index % len(words)]
        if font.getlength(f"{line} {word}") > width - 2 * margin:
            canvas.text((margin, top), line, fill=20, font=font)
            lines.append(line)
            line, top = "", top + pitch
            continue
        line = f"{line} {word}".lstrip()
        index += 1
    return image, lines


def measure(
    model: ModelAdapter,
    policies: Sequence[DecodePolicy],
    image: Image.Image,
    lines: Sequence[str] | None,
    threads: int,
    rounds: int,
) -> list[PageSeconds]:
    """Read the page `rounds` times with each policy; one reading before does not count. RuntimeError if it fails."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        taken: dict[DecodePolicy, list[tuple[float, float, PageText]]] = {policy: [] for policy in policies}
        for turn in range(rounds + 1):
            for policy in policies:
                reading = _read(model, policy, image)
                if turn:
                    taken[policy].append(reading)
    finally:
        torch.set_num_threads(before)
    return [_summary(policy, threads, readings, lines) for policy, readings in taken.items()]


def _read(model: ModelAdapter, policy: DecodePolicy, image: Image.Image) -> tuple[float, float, PageText]:
    """Seconds in all and for preparing, and the text."""
    with Engine(model, policy, 1) as engine:
        begun = time.perf_counter()
        page = prepare(image, model.vision)
        prepared = time.perf_counter()
        result = engine.submit(page).result()
        ended = time.perf_counter()
    if result.error:
        raise RuntimeError(f"the page failed: {result.error}")
    return ended - begun, prepared - begun, result


def _summary(
    policy: DecodePolicy,
    threads: int,
    readings: Sequence[tuple[float, float, PageText]],
    lines: Sequence[str] | None,
) -> PageSeconds:
    totals, preparing, results = zip(*readings, strict=True)
    first = results[0]
    return PageSeconds(
        policy=policy.name if policy.name == "dense" else f"{policy.name} {policy.kept_share:.0%}",
        threads=threads,
        rounds=len(readings),
        seconds=statistics.median(totals),
        fastest_seconds=min(totals),
        slowest_seconds=max(totals),
        prepare_seconds=statistics.median(preparing),
        encode_seconds=statistics.median(result.encode_seconds for result in results),
        decode_seconds=statistics.median(result.decode_seconds for result in results),
        image_tokens=first.image_tokens,
        output_tokens=first.output_tokens,
        image_kv_read_share=first.image_kv_read_share,
        words_right=None if lines is None else words_right(lines, first.text),
    )


def words_right(lines: Sequence[str], text: str) -> float:
    """Share of the words of `lines` that stand in `text`, each counted as often as it occurs."""
    left = text.split()
    wanted = " ".join(lines).split()
    found = 0
    for word in wanted:
        if word in left:
            left.remove(word)
            found += 1
    return found / len(wanted)


def print_table(rows: Sequence[PageSeconds]) -> None:
    """One line per policy and number of threads."""
    print(
        "policy       threads  s/page  (fastest-slowest)  prepare  encode  decode  image tokens  outputs  KV read  words"
    )
    for row in rows:
        words = "-" if row.words_right is None else f"{row.words_right:.1%}"
        print(
            f"{row.policy:11s}  {row.threads:7d}  {row.seconds:6.2f}  {row.fastest_seconds:7.2f}-{row.slowest_seconds:<9.2f}"
            f"  {row.prepare_seconds:7.2f}  {row.encode_seconds:6.2f}  {row.decode_seconds:6.2f}"
            f"  {row.image_tokens:12d}  {row.output_tokens:7d}  {row.image_kv_read_share:7.1%}  {words:>6s}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.bench.page_seconds", description=__doc__)
    parser.add_argument("--model", default="mini", help="mini, tiny, or a folder with weights")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kept-share", type=float, default=0.05)
    parser.add_argument("--image", type=pathlib.Path, help="a page of your own")
    chosen = parser.parse_args(arguments)
    model = load(chosen.model, device=chosen.device)
    lines: Sequence[str] | None = None
    if chosen.image is None:
        image, lines = a4_page()
    else:
        with Image.open(chosen.image) as opened:
            image = opened.convert("L")
    policies = [DecodePolicy.dense(), DecodePolicy.fastocr(chosen.kept_share)]
    rows = [
        row
        for threads in chosen.threads
        for row in measure(model, policies, image, lines, threads, chosen.rounds)
    ]
    print_table(rows)
    print(
        json.dumps({"model": model.name, "revision": model.revision, "pages": [asdict(row) for row in rows]})
    )


if __name__ == "__main__":
    main()
