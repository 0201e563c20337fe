"""Finds a model's focal layers: `python -m fastocr_core.profile MODEL IMAGES... [-o focal_layers.json]`.

Reads the pages densely and measures, in every step, how much image attention of each layer lies on the
tokens that each other layer would have chosen. A file named focal_layers.json in the model's folder is
where adapters look for it; its layers can also be given as `DecodePolicy.fastocr(focal_layers=...)`.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from fastocr_core.config import DEFAULT_KEPT_SHARE, DecodePolicy, EngineLimits, Pooling
from fastocr_core.decoding.base import Policy
from fastocr_core.decoding.focal import default_focal_count, layers_by_ratio
from fastocr_core.decoding.focal_choice import best_focal_layers, recovered_share
from fastocr_core.decoding.focal_profile import FocalProfile, write_profile
from fastocr_core.decoding.measuring import LayerMasses, MeasuringPolicy
from fastocr_core.decoding.scores import share_budget
from fastocr_core.engine import Engine
from fastocr_core.models import load
from fastocr_core.models.base import ModelAdapter
from fastocr_core.vision import prepare
from fastocr_core.vision.prepared import PreparedPage

MOST_LISTED = 8


def measure_layers(
    model: ModelAdapter,
    pages: Iterable[PreparedPage],
    kept_share: float,
    floor: int,
    pooling: Pooling,
    batch: int = 4,
    max_output_tokens: int | None = None,
) -> tuple[LayerMasses, int]:
    """Read `pages` densely: what was measured, and how many of them were read. ValueError if none was."""
    policies: list[MeasuringPolicy] = []

    def build(settings: DecodePolicy, adapter: ModelAdapter, slots: int) -> Policy:
        def budget(image_tokens: int) -> int:
            return share_budget(kept_share, floor, image_tokens)

        policies.append(MeasuringPolicy(slots, adapter.shape.layers, budget, pooling))
        return policies[-1]

    limits = EngineLimits(max_output_tokens=max_output_tokens)
    with Engine(model, DecodePolicy.dense(), batch, limits, build=build) as engine:
        results = list(engine.read(pages))
    errors = [page.error for page in results if page.error]
    if len(errors) == len(results):
        raise ValueError(f"no page could be read: {errors[0] if errors else 'none was given'}")
    return policies[-1].measured(), len(results) - len(errors)


def profile_of(
    model: ModelAdapter,
    masses: LayerMasses,
    pages: int,
    kept_share: float,
    floor: int,
    pooling: Pooling,
    count: int,
) -> FocalProfile:
    """The profile that follows from what was measured, with `count` focal layers."""
    layers = len(masses.mass)
    choices = []
    for each in sorted({*range(1, min(layers, MOST_LISTED) + 1), count}):
        best, ratio = best_focal_layers(masses, each), layers_by_ratio(masses.mass, each)
        choices.append(
            {
                "focal_layers": list(best),
                "recovered_share": round(recovered_share(masses, best), 5),
                "read_share": read_share(each, layers, kept_share),
                "focal_layers_by_ratio": list(ratio),
                "recovered_share_by_ratio": round(recovered_share(masses, ratio), 5),
            }
        )
    best, ratio = best_focal_layers(masses, count), layers_by_ratio(masses.mass, count)
    return FocalProfile(
        model=model.name,
        revision=model.revision,
        pages=pages,
        steps=masses.steps,
        kept_share=kept_share,
        floor=floor,
        pooling=pooling,
        focal_layers=best,
        recovered_share=round(recovered_share(masses, best), 5),
        read_share=read_share(count, layers, kept_share),
        focal_layers_by_ratio=ratio,
        recovered_share_by_ratio=round(recovered_share(masses, ratio), 5),
        image_attention_ratio=tuple(round(mass, 5) for mass in masses.mass),
        choices=tuple(choices),
    )


def read_share(focal_count: int, layers: int, kept_share: float) -> float:
    """c + (1 - c) * kept_share of the image cache is read in a step, c = focal layers / layers."""
    share = focal_count / layers
    return round(share + (1 - share) * kept_share, 5)


def table(profile: FocalProfile) -> str:
    """The ratios by layer, then one line for each number of focal layers."""
    ratios = "  ".join(f"{layer}: {ratio:.1%}" for layer, ratio in enumerate(profile.image_attention_ratio))
    lines = [
        f"{profile.model}: {profile.pages} pages, {profile.steps} steps, kept share {profile.kept_share:g}, "
        f"floor {profile.floor}, {profile.pooling}",
        f"image attention by layer: {ratios}",
        "KV read  by recovered mass               by image attention ratio",
    ]
    for choice in profile.choices:
        best = f"{choice['recovered_share']:7.2%} {choice['focal_layers']}"
        ratio = f"{choice['recovered_share_by_ratio']:7.2%} {choice['focal_layers_by_ratio']}"
        lines.append(f"{choice['read_share']:7.1%}  {best:30}  {ratio}")
    lines.append(f"focal layers: {list(profile.focal_layers)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    from PIL import Image

    parser = argparse.ArgumentParser(prog="python -m fastocr_core.profile", description=__doc__)
    parser.add_argument("model", help="a model's name, folder or hub id")
    parser.add_argument("images", nargs="+", type=Path, help="page images, some thirty for a good profile")
    parser.add_argument("-o", "--output", type=Path, help="write the profile there as JSON")
    parser.add_argument("--focal-count", type=int, help="how many focal layers (default: a seventh)")
    parser.add_argument("--kept-share", type=float, default=DEFAULT_KEPT_SHARE)
    parser.add_argument("--floor", type=int, help="default: the model's own")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-output-tokens", type=int, default=1024, help="by page")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    try:
        settings = DecodePolicy.fastocr(options.kept_share, options.floor, focal_count=options.focal_count)
        model = load(options.model, device=options.device)
        floor = model.default_floor if settings.floor is None else settings.floor
        pages = (prepare(Image.open(path), model.vision) for path in options.images)
        masses, count = measure_layers(
            model, pages, settings.kept_share, floor, model.default_pooling, options.batch,
            options.max_output_tokens,
        )  # fmt: skip
        focal_count = settings.focal_count or default_focal_count(model.shape.layers)
        profile = profile_of(
            model, masses, count, settings.kept_share, floor, model.default_pooling, focal_count
        )
    except (ValueError, OSError) as failure:
        sys.exit(f"error: {failure}")
    print(table(profile))
    if options.output is not None:
        write_profile(profile, options.output)
    print(json.dumps(asdict(profile)))


if __name__ == "__main__":
    main()
