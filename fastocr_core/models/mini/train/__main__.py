"""`python -m fastocr_core.models.mini.train STAGE --folder training --seconds N`: the stages of training the reader."""

from __future__ import annotations

import argparse
import pathlib

import torch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fastocr_core.models.mini.train", description=__doc__)
    parser.add_argument("stage", choices=["stem", "decoder", "reader"])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("training"))
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.0)
    parser.add_argument("--token-budget", type=int, default=6000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.stage == "stem":
        from fastocr_core.models.mini.train.stem import StemSchedule, train_stem

        train_stem(StemSchedule(seconds=arguments.seconds, seed=arguments.seed), arguments.folder)
        return
    from fastocr_core.models.mini.train.decoder import DecoderSchedule, train_decoder

    rendered = arguments.stage == "reader"
    rate = arguments.learning_rate or (1e-3 if rendered else 2e-3)
    schedule = DecoderSchedule(arguments.seconds, rendered, rate, arguments.token_budget, seed=arguments.seed)
    train_decoder(schedule, arguments.folder, arguments.stage)


if __name__ == "__main__":
    main()
