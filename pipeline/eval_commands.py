"""`fastocr eval`: measurements of reading, fixation and confidence, as Markdown and JSON.

Needs the extra `eval`, and a checkout for the held-out pages. Imports what it needs when it runs.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fastocr_core.config import DecodePolicy
    from fastocr_core.evaluation.fixation import FixationSettings
    from fastocr_core.evaluation.pages import EvaluationPage
    from fastocr_core.evaluation.readers import Reader
    from fastocr_core.models.base import ModelAdapter

eval_commands = typer.Typer(
    help="Measure readers, sparse decoding and confidence.", no_args_is_help=True, rich_markup_mode=None
)

Model = Annotated[str, typer.Option(help="Model to measure, as for run.")]
Sets = Annotated[
    str, typer.Option(help="Held-out sets, separated by commas: clean, degraded, columns, layouts.")
]
Pages = Annotated[int | None, typer.Option(help="Printed pages of each set, evenly spread (default: all).")]
Cases = Annotated[Path | None, typer.Option(help="Folder with real files and an index.jsonl, read as well.")]
Documents = Annotated[
    Path | None, typer.Option(help="Folder of real pages that workers.training_pages kept, read as well.")
]
Batch = Annotated[int, typer.Option(help="Pages decoded at once.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or any torch device.")]
MostTokens = Annotated[int | None, typer.Option(help="Stop each page after so many tokens.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write NAME.md and NAME.json (and a figure) instead of printing."),
]


@eval_commands.command()
def reader(
    model: Model = "mini",
    decode: Annotated[
        str, typer.Option(help="Policies of the model, separated by commas.")
    ] = "dense,fastocr",
    kept_share: Annotated[float, typer.Option(help="Kept share of sparse policies.")] = 0.05,
    others: Annotated[
        str, typer.Option(help="Other readers, separated by commas; what is not installed is left out.")
    ] = "tesseract,rapidocr",
    sets: Sets = "clean,degraded,columns,layouts",
    pages: Pages = None,
    cases: Cases = None,
    documents: Documents = None,
    batch: Batch = 8,
    device: Device = "auto",
    max_output_tokens: MostTokens = None,
    output: Output = None,
) -> None:
    """Error rates by language, font class, degradation and layout, beside Tesseract and RapidOCR on the same pages."""

    def command() -> int:
        from fastocr_core import EngineLimits
        from fastocr_core.evaluation.reader import evaluate, facts, markdown
        from fastocr_core.evaluation.readers import EngineReader

        adapter, chosen = _prepared(model, device, sets, pages, cases, documents)
        limits = EngineLimits(max_output_tokens=max_output_tokens)
        readers: list[Reader] = [
            EngineReader(adapter, policy, batch, limits) for policy in _policies(decode, kept_share)
        ]
        readers += _others(others)
        results = evaluate(readers, chosen, _say)
        _write(markdown(results), {"model": adapter.name, **facts(results)}, output)
        return 0

    _exit(command)


@eval_commands.command()
def fixation(
    model: Model = "mini",
    kept_shares: Annotated[
        str, typer.Option(help="Kept shares, separated by commas.")
    ] = "0.02,0.05,0.1,0.2,0.4",
    groups: Annotated[
        str,
        typer.Option(help="Beside dense and fastocr: choice (of w and layers), nominal, bytes (baselines)."),
    ] = "choice,nominal,bytes",
    warmups: Annotated[str, typer.Option(help="Numbers of dense first steps w to try.")] = "1,4,64",
    focal_layers: Annotated[
        str, typer.Option(help="Sets of focal layers to try besides: layers by +, sets by commas, as 2,2+4.")
    ] = "",
    focal_counts: Annotated[
        str, typer.Option(help="Numbers of focal layers |C| to try, chosen from these pages.")
    ] = "1,2,3",
    page_focal_counts: Annotated[
        str, typer.Option(help="Numbers of focal layers that each page chooses itself.")
    ] = "1,2",
    baseline_pages: Annotated[
        int | None, typer.Option(help="Of the pages so many are read by baselines (default: all).")
    ] = None,
    forced_pages: Annotated[
        int, typer.Option(help="Of those so many are read along the dense text; 0 for none.")
    ] = 3,
    forced_steps: Annotated[int, typer.Option(help="Steps of each of these pages.")] = 400,
    sets: Sets = "clean",
    pages: Pages = None,
    batch: Batch = 24,
    device: Device = "auto",
    max_output_tokens: MostTokens = None,
    output: Output = None,
) -> None:
    """Dense, fastocr and all baselines at several kept shares and at equal bytes: what is kept of the dense reading.

    With an output, every measurement goes to NAME.jsonl at once, and the same command carries on after a stop.
    """

    def command() -> int:
        from fastocr_core.evaluation.fixation import FixationSettings

        settings = FixationSettings(
            kept_shares=tuple(float(part) for part in _parts(kept_shares)),
            groups=tuple(_parts(groups)),
            warmups=_numbers(warmups),
            focal_sets=tuple(tuple(map(int, part.split("+"))) for part in _parts(focal_layers)),
            focal_counts=_numbers(focal_counts),
            page_focal_counts=_numbers(page_focal_counts),
            baseline_pages=baseline_pages,
            batch=batch,
            max_output_tokens=max_output_tokens,
            forced_pages=forced_pages,
            forced_steps=forced_steps,
        )
        return _study_fixation(*_prepared(model, device, sets, pages, None), settings, output)

    _exit(command)


def _study_fixation(
    adapter: "ModelAdapter", pages: "list[EvaluationPage]", settings: "FixationSettings", output: Path | None
) -> int:
    """Run a study, or carry it on, and write its table, facts and figure."""
    from fastocr_core.evaluation.fixation import FixationStudy, facts
    from fastocr_core.evaluation.fixation_figure import draw_figure
    from fastocr_core.evaluation.fixation_report import markdown

    measured = None if output is None else output.with_suffix(".jsonl")
    study = FixationStudy(adapter, pages, settings, _say, measured)
    rows = study.run()
    _write(markdown(rows, adapter.name, len(study.pages)), facts(study, rows), output)
    if output is not None:
        draw_figure(rows, output.with_suffix(".png"), adapter.name, len(adapter.focal_layers) or 1)
    return 0


@eval_commands.command()
def fixation_beside(
    studies: Annotated[list[Path], typer.Argument(help="JSON files that `fastocr eval fixation` wrote.")],
    names: Annotated[str, typer.Option(help="What to call them, separated by commas.")],
    output: Output = None,
) -> None:
    """Studies of several weights in one table, as with and without guided attention at the end of training."""

    def command() -> int:
        from fastocr_core.evaluation.fixation_report import beside

        called, found = _parts(names), [json.loads(file.read_text("utf-8")) for file in studies]
        text = beside(found, called)
        _write(
            text, {"evaluation": "fixation beside", "studies": dict(zip(called, found, strict=True))}, output
        )
        return 0

    _exit(command)


@eval_commands.command()
def confidence(
    model: Model = "mini",
    decode: Annotated[str, typer.Option(help="The policy that reads.")] = "fastocr",
    kept_share: Annotated[float, typer.Option(help="Kept share of a sparse policy.")] = 0.05,
    pages_by_script: Annotated[int, typer.Option(help="Made pages of each other script.")] = 3,
    sets: Sets = "clean,degraded,columns,layouts",
    pages: Pages = None,
    cases: Cases = None,
    batch: Batch = 8,
    device: Device = "auto",
    max_output_tokens: MostTokens = None,
    store: Annotated[
        bool, typer.Option("--store", help="Write the thresholds beside the model's weights.")
    ] = False,
    output: Output = None,
) -> None:
    """Whether log-probabilities separate pages that were read from pages that were not, and the thresholds for it."""

    def command() -> int:
        from fastocr_core.confidence import confidence_file
        from fastocr_core.evaluation.confidence import facts, judge_pages, markdown, study, write_thresholds

        file = confidence_file(model)
        if store and file is None:
            raise ValueError(f"the weights of {model} lie in no folder where thresholds could be stored")
        (policy,) = _policies(decode, kept_share)
        adapter, chosen = _prepared(model, device, sets, pages, cases)
        everything = [*chosen, *_unreadable(chosen, pages_by_script)]
        found = study(
            adapter, policy, judge_pages(adapter, everything, policy, batch, max_output_tokens, _say)
        )
        _write(markdown(found), facts(found), output)
        if store and file is not None:
            write_thresholds(found, file)
            _say(f"thresholds are in {file}")
        return 0

    _exit(command)


def _exit(command: Any) -> None:
    """What was asked for wrongly, or is missing, becomes one sentence and the exit code for it."""
    try:
        code = command()
    except (ValueError, ImportError, OSError) as failure:
        typer.echo(f"fastocr: {failure}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(code)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _parts(text))


def _policies(names: str, kept_share: float) -> "list[DecodePolicy]":
    from fastocr_core import DecodePolicy

    return [
        DecodePolicy.dense() if name == "dense" else DecodePolicy.named(name, kept_share=kept_share)
        for name in _parts(names)
    ]


def _prepared(
    model: str, device: str, sets: str, pages: int | None, cases: Path | None, documents: Path | None = None
) -> "tuple[ModelAdapter, list[EvaluationPage]]":
    from fastocr_core import load
    from fastocr_core.evaluation.pages import held_out

    chosen = held_out(_parts(sets), pages)
    adapter = load(model, device=device)
    if documents is not None:
        from fastocr_core.evaluation.documents import document_pages

        chosen += document_pages(documents, pages)
    if cases is not None:
        from workers.evaluation_cases import case_pages

        real, failures = case_pages(cases, adapter.vision, pages)
        for failure in failures:
            _say(f"left out: {failure}")
        chosen += real
    return adapter, chosen


def _others(names: str) -> "list[Reader]":
    """Readers of other people that are here; a line for each that is not. ValueError for an unknown name."""
    from fastocr_core.evaluation.rapid import RapidOcrReader
    from fastocr_core.evaluation.readers import ReaderMissingError
    from fastocr_core.evaluation.tesseract import TesseractReader

    makers: dict[str, Any] = {"tesseract": TesseractReader, "rapidocr": RapidOcrReader}
    found: list[Reader] = []
    for name in _parts(names):
        if name not in makers:
            raise ValueError(f"unknown reader {name!r}; known: {', '.join(makers)}")
        try:
            found.append(makers[name]())
        except ReaderMissingError as missing:
            _say(f"left out: {missing}")
    return found


def _unreadable(pages: "Sequence[EvaluationPage]", by_script: int) -> "list[EvaluationPage]":
    """Clean pages upside down and in writing hands, and pages in other scripts."""
    from fastocr_core.evaluation.unreadable import other_scripts, upside_down, writing_hands

    clean = [page for page in pages if page.text and page.exact and page.part == "clean"]
    scripts, without_font = other_scripts(by_script)
    hands, without_hand = writing_hands([(page.name, page.text or "") for page in clean[:by_script]])
    if without_font or without_hand:
        _say(f"no font for: {', '.join([*without_font, *without_hand])}")
    return [*upside_down(clean), *scripts, *hands]


def _write(markdown: str, facts: dict[str, object], output: Path | None) -> None:
    """Both forms: into two files, or the table alone to the terminal."""
    if output is None:
        typer.echo(markdown)
        return
    output.with_suffix(".md").write_text(markdown, "utf-8")
    output.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    typer.echo(f"{output.with_suffix('.md')} and {output.with_suffix('.json')}")
