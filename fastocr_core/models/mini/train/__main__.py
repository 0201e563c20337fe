"""`python -m fastocr_core.models.mini.train STAGE --folder training --seconds N`: the stages of training the reader."""

from __future__ import annotations

import argparse
import pathlib

import torch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.models.mini.train", description=__doc__)
    parser.add_argument("stage", choices=["stem", "decoder", "reader", "sharpen", "export"])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("training"))
    parser.add_argument("--seconds", type=float, default=1500.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.0)
    parser.add_argument("--token-budget", type=int, default=6000)
    parser.add_argument("--first-phase", type=float, default=0.0)
    parser.add_argument("--frozen-share", type=float, default=0.15)
    parser.add_argument("--fixated-share", type=float, default=0.0)
    parser.add_argument(
        "--silent-share", type=float, default=0.0, help="most cells of a page without features"
    )
    parser.add_argument("--real-pages", type=pathlib.Path, help="folder that workers.training_pages filled")
    parser.add_argument("--guide-until", type=float, default=1.0, help="share of the run with guided heads")
    parser.add_argument("--name", default="", help="of the checkpoint; the stage by default")
    parser.add_argument(
        "--partner", default="", help="name of a second process whose weights are averaged in"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "weights"
    )
    return parser


def main() -> None:
    arguments = _parser().parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.stage == "stem":
        from fastocr_core.models.mini.train.stem import StemSchedule, train_stem

        train_stem(StemSchedule(seconds=arguments.seconds, seed=arguments.seed), arguments.folder)
        return
    if arguments.stage == "sharpen":
        from fastocr_core.models.mini.train.sharpen import sharpen
        from fastocr_core.models.mini.train.stem import StemSchedule

        schedule = StemSchedule(arguments.seconds, arguments.learning_rate or 1e-3, seed=arguments.seed)
        sharpen(schedule, arguments.folder, arguments.name or "reader")
        return
    if arguments.stage == "export":
        from fastocr_core.models.mini.train.export import export_reader

        export_reader(arguments.folder / f"{arguments.name or 'reader'}.pt", arguments.output)
        return
    from fastocr_core.models.mini.train.decoder import DecoderSchedule, Trainer

    rendered = arguments.stage == "reader"
    joint = DecoderSchedule(
        arguments.seconds,
        rendered,
        arguments.learning_rate or (1e-3 if rendered else 2e-3),
        arguments.token_budget,
        first_phase=arguments.first_phase,
        frozen_share=arguments.frozen_share,
        fixated_share=arguments.fixated_share,
        silent_share=arguments.silent_share,
        real_pages=arguments.real_pages,
        guide_until=arguments.guide_until,
        partner=arguments.partner,
        seed=arguments.seed,
    )
    Trainer(joint, arguments.folder, arguments.name or arguments.stage).run()


if __name__ == "__main__":
    main()
