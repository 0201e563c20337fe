"""How a command ends: one sentence for what we foresaw and an exit code that fits, also on Ctrl-C and in a broken pipe."""

import contextlib
import re
from typing import Any

import typer

OURS = re.compile(r"^(?:workers|pipeline|fastocr_core)\.[\w.]+: (\S.*)$", re.MULTILINE)
EXIT_RUN_FAILED, EXIT_USAGE = 1, 2


def end_with(debug: bool, command: Any) -> None:
    """Run a command; an error we foresaw becomes one sentence and the exit code that fits it."""
    try:
        code = command()
    except KeyboardInterrupt as stop:  # a command may say what it left
        said = "Stopped. What was staged before is kept; the same command can be run again."
        say(str(stop) or said, err=True)
        raise typer.Exit(EXIT_RUN_FAILED) from None
    except Exception as error:
        if debug:
            raise
        say(sentence(error), err=True)
        raise typer.Exit(_code_for(error)) from None
    raise typer.Exit(code)


def say(line: str, *, err: bool = False) -> None:
    """One line, whatever is in it: names and texts of documents come from strangers."""
    from pipeline.plain_line import plain_line

    with contextlib.suppress(BrokenPipeError):  # whoever has heard enough has not failed the command
        typer.echo(plain_line(line), err=err)


def _code_for(error: Exception) -> int:
    from pipeline.config import ConfigError

    return EXIT_USAGE if isinstance(error, ConfigError) else EXIT_RUN_FAILED


def sentence(error: Exception) -> str:
    """Errors of ours are sentences already; of an unforeseen one, its last line and how to see more."""
    from pipeline.commit import CommitError
    from pipeline.config import ConfigError
    from pipeline.ledger import LedgerError
    from pipeline.local_ray import ClusterError
    from workers.storage import StorageError

    cause: BaseException | None = error
    while cause is not None:
        wrapped = getattr(
            cause, "cause", None
        )  # in an error of a Ray task, which poses as ours and says a traceback
        ours = isinstance(cause, ConfigError | StorageError | CommitError | LedgerError | ClusterError)
        if ours and not isinstance(wrapped, BaseException):
            return f"fastocr: {cause}"
        cause = wrapped or cause.__cause__
    told = OURS.findall(str(error))
    if told:  # Ray Data passes on what happened in an actor as text only, causes first
        return f"fastocr: {told[-1]}"
    last = (str(error).strip().splitlines() or [""])[-1]
    return f"fastocr: the run failed: {type(error).__name__}: {last} (--debug shows the traceback)"
