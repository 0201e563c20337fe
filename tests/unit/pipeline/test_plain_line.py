"""What is said on a terminal or in a log stays on its line and does nothing."""

import io

import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pipeline import command_end
from pipeline.plain_line import plain_line
from pipeline.progress import Observer
from workers.storage import StorageError

HOSTILE = "book\x1b]0;owned\x07.pdf\nfastocr: all is well\r\x1b[2K\u202etxt.\u2028\x00"


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_is_one_line_that_can_be_printed(text: str) -> None:
    line = plain_line(text)
    assert len(line.splitlines()) <= 1
    assert "\x1b" not in line
    line.encode("utf-8")
    assert plain_line(line) == line


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("odd +%41#ä.pdf", "日本/新聞.tif", r"back\slash", "a  b"):
        assert plain_line(name) == name


def test_notes_and_errors_are_plain() -> None:
    stream = io.StringIO()
    observer = Observer(stream)
    observer.note(f"objects appeared, the first is {HOSTILE}")
    observer.close()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()

    def fail() -> int:
        raise StorageError(f"There is no such object: {HOSTILE}.")

    application = typer.Typer()
    application.command()(lambda: command_end.end_with(False, fail))
    result = CliRunner().invoke(application)
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "\x1b" not in result.output


def test_what_an_actor_said_is_found_in_the_text_that_ray_makes_of_it() -> None:
    told = (
        "\x1b[36mray::MapWorker(MapBatches(RasterizeShards)).submit()\x1b[39m (pid=8752)\n"
        '  File "workers/s3_store.py", line 9, in __call__\n'
        "workers.storage.StorageUnreachable: s3://scans/2.pdf cannot be reached: no answer.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "ray.exceptions.UserCodeException: UDF failed to process a data block.\n"
        "To change retry attempts, configure `ray.data.DataContext` if you believe this to be transient."
    )
    assert (
        command_end.sentence(RuntimeError(told)) == "fastocr: s3://scans/2.pdf cannot be reached: no answer."
    )
    assert "the run failed: RuntimeError: other" in command_end.sentence(RuntimeError("other"))
