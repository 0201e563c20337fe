"""`fastocr eval`: measurements of reading, fixation and confidence, as Markdown and JSON.

Needs the extra `eval`, and a checkout for the held-out pages. Imports what it needs when it runs.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.eval_exit import STOPPED, asked, run_command, say
from pipeline.eval_output import FACTS, FIGURE, MEASURED, Output, check_folder, deliver, output_at
from pipeline.eval_pages import prepared, unreadable
from pipeline.eval_parts import (
    at_least,
    layer_sets,
    one_policy,
    other_readers,
    parts,
    policies,
    shares,
    whole_numbers,
)

if TYPE_CHECKING:
    from fastocr_core.evaluation.fixation import FixationStudy
    from fastocr_core.evaluation.fixation_settings import FixationSettings
    from fastocr_core.evaluation.pages import EvaluationPage
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
TableOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write NAME.md and NAME.json instead of printing.")
]
StudyOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write NAME.md, NAME.json, NAME.jsonl and a figure NAME.png instead of printing.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


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
    output: TableOutput = None,
    debug: Debug = False,
) -> None:
    """Error rates by language, font class, degradation and layout, beside Tesseract and RapidOCR on the same pages."""

    def command() -> None:
        from fastocr_core import EngineLimits
        from fastocr_core.evaluation.reader import evaluate, facts, markdown
        from fastocr_core.evaluation.readers import EngineReader

        with asked():
            at_least(1, batch=batch)
            files = output_at(output)
            limits = EngineLimits(max_output_tokens=max_output_tokens)
            chosen = policies(decode, kept_share)
            others_here = other_readers(others, say)
            if not chosen and not others_here:
                raise ValueError("there is no reader: name a policy, as --decode fastocr")
            adapter, found = prepared(model, device, sets, pages, say, cases, documents)
        ours = [EngineReader(adapter, policy, batch, limits) for policy in chosen]
        results = evaluate([*ours, *others_here], found, say)
        settings = {
            "decode": [policy.name for policy in chosen], "kept_share": kept_share, "sets": parts(sets, "--sets"),
            "pages_of_each_set": pages, "batch": batch, "max_output_tokens": max_output_tokens,
            "device": str(adapter.device),
        }  # fmt: skip
        about = {"model": adapter.name, **facts(results), "settings": settings}
        deliver(markdown(results) + _cut_words(max_output_tokens), about, files)

    run_command(debug, command)


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
    output: StudyOutput = None,
    debug: Debug = False,
) -> None:
    """Dense, fastocr and all baselines at several kept shares and at equal bytes: what is kept of the dense reading.

    With an output, every measurement goes to NAME.jsonl at once, and the same command carries on after a stop.
    """
    where: list[Path] = []

    def command() -> None:
        from fastocr_core.evaluation.fixation_figure import check_matplotlib
        from fastocr_core.evaluation.fixation_settings import FixationSettings

        with asked():
            files = output_at(output, (MEASURED, FIGURE))
            if files is not None:
                check_matplotlib()
            settings = FixationSettings(
                shares(kept_shares, "--kept-shares"), tuple(parts(groups, "--groups")),
                whole_numbers(warmups, "--warmups"), layer_sets(focal_layers, "--focal-layers"),
                whole_numbers(focal_counts, "--focal-counts"),
                whole_numbers(page_focal_counts, "--page-focal-counts"),
                baseline_pages, batch, max_output_tokens, forced_pages, forced_steps,
            )  # fmt: skip
            study = _study_of(settings, files, *prepared(model, device, sets, pages, say))
        where.extend([files.file(MEASURED)] if files else [])
        _run_study(study, files)

    run_command(debug, command, lambda: _carry_on_words(where))


def _carry_on_words(measured: list[Path]) -> str:
    """Of a study that was stopped, with the file of its measurements if there is one."""
    if not measured:
        return STOPPED
    return f"Stopped. What was measured is in {measured[0]}; run the same command again to carry on."


def _study_of(
    settings: "FixationSettings", files: Output | None, model: "ModelAdapter", pages: "list[EvaluationPage]"
) -> "FixationStudy":
    """A study that notes what it measures where there are files."""
    from fastocr_core.evaluation.fixation import FixationStudy

    return FixationStudy(model, pages, settings, say, None if files is None else files.file(MEASURED))


def _run_study(study: "FixationStudy", files: Output | None) -> None:
    """Run a study, or carry it on, and write its table, facts and figure."""
    from fastocr_core.evaluation.fixation import facts
    from fastocr_core.evaluation.fixation_figure import draw_figure
    from fastocr_core.evaluation.fixation_report import markdown

    rows, model = study.run(), study.model
    deliver(markdown(rows, model.name, len(study.pages)), facts(study, rows), files)
    if files is not None:
        draw_figure(rows, files.file(FIGURE), model.name, len(model.focal_layers) or 1)


@eval_commands.command()
def fixation_beside(
    studies: Annotated[list[Path], typer.Argument(help="JSON files that `fastocr eval fixation` wrote.")],
    names: Annotated[str, typer.Option(help="What to call them, separated by commas.")],
    output: TableOutput = None,
    debug: Debug = False,
) -> None:
    """Studies of several weights in one table, as with and without guided attention at the end of training."""

    def command() -> None:
        from fastocr_core.evaluation.fixation_report import beside

        with asked():
            files = output_at(output, inputs=studies)
            called = parts(names, "--names")
            found = [_study_in(file) for file in studies]
            text = beside(found, called)
        about = {"evaluation": "fixation beside", "studies": dict(zip(called, found, strict=True))}
        deliver(text, about, files)

    run_command(debug, command)


def _study_in(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as failure:
        raise ValueError(f"{file} is no JSON file, such as NAME{FACTS} of a study") from failure


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
    output: TableOutput = None,
    debug: Debug = False,
) -> None:
    """Whether log-probabilities separate pages that were read from pages that were not, and the thresholds for it."""

    def command() -> None:
        from fastocr_core import EngineLimits
        from fastocr_core.confidence import confidence_file
        from fastocr_core.evaluation.confidence import facts, judge_pages, markdown, study, write_thresholds

        with asked():
            at_least(1, batch=batch)
            at_least(0, pages_by_script=pages_by_script)
            EngineLimits(max_output_tokens=max_output_tokens)  # refuses what cannot be
            files, policy = output_at(output), one_policy(decode, kept_share)
            file = confidence_file(model)
            if store and file is None:
                raise ValueError(f"the weights of {model} lie in no folder where thresholds could be stored")
            if store and file is not None:
                check_folder(file.parent)
            adapter, chosen = prepared(model, device, sets, pages, say, cases)
        everything = [*chosen, *unreadable(chosen, pages_by_script, say)]
        judged = judge_pages(adapter, everything, policy, batch, max_output_tokens, say)
        found = study(adapter, policy, judged)
        settings = {
            "kept_share": policy.kept_share, "sets": parts(sets, "--sets"), "pages_of_each_set": pages,
            "pages_by_script": pages_by_script, "batch": batch, "max_output_tokens": max_output_tokens,
            "device": str(adapter.device),
        }  # fmt: skip
        about = {**facts(found), "settings": settings}
        deliver(markdown(found) + _cut_words(max_output_tokens), about, files)
        if store and file is not None:
            write_thresholds(found, file)
            say(f"thresholds are in {file}")

    run_command(debug, command)


def _cut_words(max_output_tokens: int | None) -> str:
    """Below a table of pages that were stopped early; "" for whole ones."""
    if max_output_tokens is None:
        return ""
    return f"\nPages were stopped after {max_output_tokens} tokens at most, whatever was left on them.\n"
