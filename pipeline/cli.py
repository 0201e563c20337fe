"""The command line. Commands are thin, and import what they need when they run, so that `--help` is
immediate.

Exit codes: 0 done and nothing failed; 3 done, but pages failed or documents are quarantined; 1 the run
itself failed; 2 it was asked for wrongly.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.command_end import EXIT_RUN_FAILED, end_with, say
from pipeline.eval_commands import eval_commands

if TYPE_CHECKING:
    from pipeline.config import Resolved
    from workers.storage import StorageSettings


application = typer.Typer(
    name="fastocr",
    help="Archives of scanned pages in, Parquet out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_commands = typer.Typer(help="Look at the configuration.", no_args_is_help=True, rich_markup_mode=None)
application.add_typer(config_commands, name="config")
application.add_typer(eval_commands, name="eval")

Target = Annotated[str, typer.Argument(help="Directory or s3://bucket/prefix.")]
SourceIfGiven = Annotated[
    str | None,
    typer.Argument(
        help="File, directory, glob, s3://bucket/prefix, or a list (.txt, .csv, .parquet); else as configured."
    ),
]
TargetIfGiven = Annotated[
    str | None, typer.Argument(help="Directory or s3://bucket/prefix; else as configured.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="mini (default), tiny, dots-ocr and other names, a hub id, a folder, or s3://bucket/folder."
    ),
]
ModelRevision = Annotated[str | None, typer.Option(help="Refuse to run with any other revision.")]
Mode = Annotated[str | None, typer.Option(help="How the model sees a page; auto by default.")]
Decode = Annotated[
    str | None, typer.Option(help="fastocr (default), dense, fastv, visionzip, h2o, snapkv or pyramidkv.")
]
KeptShare = Annotated[float | None, typer.Option(help="Share of image tokens looked at per step.")]
Prompt = Annotated[str | None, typer.Option(help="Prompt, for models that take one.")]
Limit = Annotated[int | None, typer.Option(help="Read only the first so many pages.")]
SkipDuplicates = Annotated[
    bool | None,
    typer.Option("--skip-duplicates/--read-duplicates", help="Read documents with the same bytes only once."),
]
RayAddress = Annotated[str | None, typer.Option(help="Join this Ray cluster instead of starting one.")]
EndpointUrl = Annotated[str | None, typer.Option(help="Address of an S3 server other than AWS.")]
Region = Annotated[str | None, typer.Option(help="S3 region.")]
Profile = Annotated[str | None, typer.Option(help="Profile of the AWS configuration.")]
PathStyle = Annotated[bool | None, typer.Option(help="Put the bucket into the path of S3 addresses.")]
ChecksumMode = Annotated[str | None, typer.Option(help="when_supported (default) or when_required.")]
SingleWriter = Annotated[
    bool | None,
    typer.Option("--single-writer", help="Only one program writes there: allow storages that do not check."),
]
GpuHourPrice = Annotated[
    float | None,
    typer.Option("--gpu-hour-price", "--price-per-hour", help="Price of a GPU hour, for the costs."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Flagged pages count as failed for the exit code.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


@application.command()
def run(
    source: SourceIfGiven = None,
    target: TargetIfGiven = None,
    model: Model = None,
    model_revision: ModelRevision = None,
    mode: Mode = None,
    decode: Decode = None,
    kept_share: KeptShare = None,
    prompt: Prompt = None,
    limit: Limit = None,
    skip_duplicates: SkipDuplicates = None,
    gpu_hour_price: GpuHourPrice = None,
    config: ConfigFile = None,
    ray_address: RayAddress = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    single_writer: SingleWriter = None,
    strict: Strict = False,
    debug: Debug = False,
) -> None:
    """Read SOURCE into TARGET. The same command on the same target carries on where it stopped."""
    flags = {
        "source": source,
        "target": target,
        "model": model,
        "model_revision": model_revision,
        "mode": mode,
        "decode.name": decode,
        "decode.kept_share": kept_share,
        "prompt": prompt,
        "limit": limit,
        "skip_duplicates": skip_duplicates,
        "cluster.ray_address": ray_address,
        "cluster.gpu_hour_price": gpu_hour_price,
        "storage.single_writer": single_writer,
        **_storage_flags(endpoint_url, region, profile, path_style, checksum_mode),
    }
    end_with(debug, lambda: _run(flags, config, strict))


@application.command()
def plan(
    source: SourceIfGiven = None,
    model: Model = None,
    mode: Mode = None,
    limit: Limit = None,
    skip_duplicates: SkipDuplicates = None,
    pages_per_second: Annotated[
        float | None, typer.Option("--pages-per-second", "--rate", help="Pages a GPU reads in a second.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs that will read side by side.")] = None,
    gpu_hour_price: GpuHourPrice = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan to this .json or .parquet.")
    ] = None,
    config: ConfigFile = None,
    ray_address: RayAddress = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    debug: Debug = False,
) -> None:
    """Open every document of SOURCE once and say what reading it would come to: pages, tokens, hours, money."""
    flags = {
        "source": source,
        "model": model,
        "mode": mode,
        "limit": limit,
        "skip_duplicates": skip_duplicates,
        "cluster.ray_address": ray_address,
        "cluster.gpu_hour_price": gpu_hour_price,
        **_storage_flags(endpoint_url, region, profile, path_style, checksum_mode),
    }
    end_with(debug, lambda: _plan(flags, config, pages_per_second, gpus, output))


@application.command()
def status(
    target: Target,
    config: ConfigFile = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    debug: Debug = False,
) -> None:
    """Say how far the run of TARGET is."""
    flags = _storage_flags(endpoint_url, region, profile, path_style, checksum_mode)
    end_with(debug, lambda: _status(target, _storage(flags, config)))


@application.command()
def verify(
    target: Target,
    config: ConfigFile = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    debug: Debug = False,
) -> None:
    """Check that every page of the manifest stands in TARGET exactly once."""
    flags = _storage_flags(endpoint_url, region, profile, path_style, checksum_mode)
    end_with(debug, lambda: _verify(target, _storage(flags, config)))


@application.command()
def view(
    document: Annotated[Path, typer.Argument(help="Image or PDF.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write: .html to step through, .png (one step), .gif (many)."
        ),
    ],
    page: Annotated[int, typer.Option(help="Page, counted from 1.")] = 1,
    steps: Annotated[
        str | None,
        typer.Option(
            help="Steps in a .png (the last) or .gif (at most 120, spread): 400, or 1-240; else all."
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(help="Part of the page in a .png or .gif, in per cent of its height (default: 0-100)."),
    ] = None,
    model: Model = None,
    decode: Decode = None,
    kept_share: KeptShare = None,
    prompt: Prompt = None,
    beside_dense: Annotated[bool, typer.Option(help="Show the dense reading beside it.")] = False,
    debug: Debug = False,
) -> None:
    """Read one page and show step by step where the reader looked: to step through in a browser, or as a picture."""
    settings = {} if kept_share is None else {"kept_share": kept_share}

    def command() -> int:
        from pipeline.config import ConfigError
        from pipeline.view_command import STOPPED, chosen_policies, write_view

        try:
            policies = chosen_policies(decode, settings, beside_dense)
            said = write_view(document, output, page, model or "mini", policies, prompt, steps, part)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(STOPPED) from None
        except (ValueError, OSError) as error:  # a file, page, model or policy that is not there
            raise ConfigError(str(error)) from error
        say(said)
        return 0

    end_with(debug, command)


@application.command()
def report(
    target: Target,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    gpu_hour_price: GpuHourPrice = None,
    config: ConfigFile = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    debug: Debug = False,
) -> None:
    """Write what became of TARGET into one HTML file: outcomes, reasons, speed, cost, pages that need a look."""
    flags = _storage_flags(endpoint_url, region, profile, path_style, checksum_mode)
    end_with(
        debug, lambda: _report(target, output, {**flags, "cluster.gpu_hour_price": gpu_hour_price}, config)
    )


@application.command()
def doctor(
    source: Annotated[str | None, typer.Argument(help="As for run; checked if given.")] = None,
    target: Annotated[str | None, typer.Argument(help="As for run; checked if given.")] = None,
    model: Model = None,
    mode: Mode = None,
    config: ConfigFile = None,
    ray_address: RayAddress = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    profile: Profile = None,
    path_style: PathStyle = None,
    checksum_mode: ChecksumMode = None,
    without_ray: Annotated[bool, typer.Option("--without-ray", help="Do not start Ray.")] = False,
    without_model: Annotated[bool, typer.Option("--without-model", help="Do not load the model.")] = False,
    debug: Debug = False,
) -> None:
    """Check machine, model, storage and configuration: a line each, with what to do. Exit code 1 if one fails."""
    flags = {
        "source": source,
        "target": target,
        "model": model,
        "mode": mode,
        "cluster.ray_address": ray_address,
        **_storage_flags(endpoint_url, region, profile, path_style, checksum_mode),
    }
    end_with(debug, lambda: _doctor(flags, config, with_ray=not without_ray, with_model=not without_model))


@config_commands.command("show")
def config_show(config: ConfigFile = None, debug: Debug = False) -> None:
    """Print every setting, its value and where the value comes from."""
    end_with(debug, lambda: _config_show(config))


def main() -> None:
    """Entry point of the console script.

    The process ends as soon as all is said, without the interpreter's teardown, which native threads survive: those of
    Ray (2.60) after `ray.shutdown`, those of Arrow (26.0). One of Arrow's that lets go of a Python object meanwhile
    aborts the process, and the exit code with it. Nothing of ours waits for an exit handler.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before we began: what opens next would take its place
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
    code: object = 0
    try:
        application()
    except SystemExit as end:
        code = end.code
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int):
        raise SystemExit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever read our output may have gone
            stream.flush()
    os._exit(code)


def _storage_flags(
    endpoint_url: str | None,
    region: str | None,
    profile: str | None,
    path_style: bool | None,
    checksum_mode: str | None,
) -> dict[str, Any]:
    return {
        "storage.endpoint_url": endpoint_url,
        "storage.region": region,
        "storage.profile": profile,
        "storage.path_style": path_style,
        "storage.checksum_mode": checksum_mode,
    }


def _resolved(flags: dict[str, Any], file: Path | None) -> "Resolved":
    from pipeline.config import resolve

    return resolve(flags, file)


def _storage(flags: dict[str, Any], file: Path | None) -> "StorageSettings":
    return _resolved({"source": "-", "target": "-", **flags}, file).config.storage


def _run(flags: dict[str, Any], file: Path | None, strict: bool) -> int:
    from pipeline.flow import execute
    from pipeline.interrupt import prompt_end
    from pipeline.progress import Observer
    from pipeline.summary import first_lines, summarise, summary_lines
    from workers.object_store import open_store

    configuration = _resolved(flags, file).config
    observer = Observer()
    try:
        with prompt_end(observer.stopped_words):
            execute(configuration, observer)
    except KeyboardInterrupt:
        observer.close()
        say(observer.stopped_words(), err=True)
        return EXIT_RUN_FAILED
    finally:
        observer.close()
    summary = summarise(open_store(configuration.target, configuration.storage))
    for line in summary_lines(summary, observer, configuration.cluster.gpu_hour_price):
        say(line)
    if summary.first_lines:
        say("")
        say("first lines read")
        for line in first_lines(summary):
            say(line)
    return summary.exit_code(strict=strict)


def _plan(
    flags: dict[str, Any],
    file: Path | None,
    pages_per_second: float | None,
    gpus: int | None,
    output: Path | None,
) -> int:
    from pipeline.config import resolve
    from pipeline.plan import plan_source
    from pipeline.progress import Observer

    observer = Observer()
    try:
        resolved = resolve(flags, file, defaults={"target": "-"})
        for line in plan_source(resolved, pages_per_second, gpus, output, observer):
            say(line)
    finally:
        observer.close()
    return 0


def _status(target: str, storage: "StorageSettings") -> int:
    from pipeline.config import normalised_location
    from pipeline.summary import inspect_target, status_lines
    from workers.object_store import open_store

    for line in status_lines(inspect_target(open_store(normalised_location(target), storage))):
        say(line)
    return 0


def _verify(target: str, storage: "StorageSettings") -> int:
    from pipeline.claim import read_claim
    from pipeline.config import normalised_location
    from pipeline.ledger import check_run
    from pipeline.summary import tally_counts
    from workers.manifest_reader import ManifestReader
    from workers.object_store import open_store

    store = open_store(normalised_location(target), storage)
    read_claim(store)
    tally = check_run(store, ManifestReader(store))
    say(f"{tally.pages} pages, each published exactly once: {tally_counts(tally)}")
    return 0


def _report(target: str, output: Path, flags: dict[str, Any], file: Path | None) -> int:
    from pipeline.config import normalised_location
    from pipeline.report import build_report, write_report
    from workers.object_store import open_store

    settings = _resolved({"source": "-", "target": "-", **flags}, file).config
    store = open_store(normalised_location(target), settings.storage)
    write_report(build_report(store, settings.cluster.gpu_hour_price), output)
    say(f"{output}: open it in any browser")
    return 0


def _doctor(flags: dict[str, Any], file: Path | None, *, with_ray: bool, with_model: bool) -> int:
    from pipeline.config import resolve
    from pipeline.doctor import Places, examine, exit_code, finding_line

    resolved = resolve(flags, file, defaults={"source": "-", "target": "-"})
    given = {
        key: None if resolved.origins[key] == "default" else getattr(resolved.config, key)
        for key in ("source", "target")
    }
    findings = []
    for finding in examine(resolved.config, Places(**given), with_ray=with_ray, with_model=with_model):
        findings.append(finding)
        say(finding_line(finding))
    return exit_code(findings)


def _config_show(file: Path | None) -> int:
    from pipeline.config import flatten, resolve

    resolved = resolve({}, file, defaults={"source": "-", "target": "-"})
    for key, value in flatten(resolved.config).items():
        if key not in ("source", "target") or resolved.origins[key] != "default":
            say(f"{key} = {value!r}  # {resolved.origins[key]}")
    return 0
