"""What a failed run says: the sentence of the error that ended it, whatever Ray wraps around it."""

import traceback

import pytest
import typer
from ray.exceptions import RayTaskError

from pipeline.command_end import say, sentence
from workers.object_store import StorageError, StorageUnreachable


class TaskFailed(Exception):  # noqa: N818 - stands for an error of Ray Data, which knows the cause as text only
    """Somebody else's error."""


def _as_ray_tells_it() -> TaskFailed:
    try:
        try:
            raise StorageError("s3://scans/2.pdf: the storage answered InternalError.")
        except StorageError as error:
            raise StorageUnreachable(
                "The storage of s3://scans is out: run the same command again."
            ) from error
    except StorageUnreachable:
        return TaskFailed(f"ray::Map(RasterizeShards)\n{traceback.format_exc()}")


def test_of_errors_that_led_to_each_other_the_last_is_said() -> None:
    assert sentence(_as_ray_tells_it()) == (
        "fastocr: The storage of s3://scans is out: run the same command again."
    )


def test_an_unforeseen_error_is_its_last_line() -> None:
    assert sentence(TaskFailed("much\nand the end")) == (
        "fastocr: the run failed: TaskFailed: and the end (--debug shows the traceback)"
    )


def test_an_error_of_a_ray_task_is_said_without_its_traceback() -> None:
    full = StorageError("/archive/out/batch-0000000: No space left on device.")
    told = RayTaskError("survey_batch", "Traceback ...\n  File ...", full).as_instanceof_cause()
    assert isinstance(told, StorageError)
    assert sentence(told) == "fastocr: /archive/out/batch-0000000: No space left on device."


def test_whoever_stops_listening_fails_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*words: object, **options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(typer, "echo", gone)
    say("pages       5: 4 ok, 1 flagged")
