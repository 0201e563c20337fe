"""What the options of `fastocr eval` mean: lists, numbers, policies and readers. Refusals are ValueErrors of one sentence."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastocr_core.config import DecodePolicy
    from fastocr_core.evaluation.readers import Reader


def parts(text: str, option: str) -> list[str]:
    """What stands between commas, each once."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    twice = next((part for part in found if found.count(part) > 1), None)
    if twice is not None:
        raise ValueError(f"{option} names {twice} twice")
    return found


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    return tuple(_number(int, part, f"{option}: {part!r} is no whole number") for part in parts(text, option))


def shares(text: str, option: str) -> tuple[float, ...]:
    """Numbers between commas."""
    return tuple(
        _number(float, part, f"{option}: {part!r} is no share such as 0.05") for part in parts(text, option)
    )


def layer_sets(text: str, option: str) -> tuple[tuple[int, ...], ...]:
    """Sets between commas, layers between plus signs."""
    return tuple(
        tuple(
            _number(int, layer, f"{option}: {part!r} is no set of layers such as 2+4")
            for layer in part.split("+")
        )
        for part in parts(text, option)
    )


def _number(kind: Callable[[str], Any], text: str, refusal: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(refusal) from None


def at_least(least: int, **numbers: int | None) -> None:
    """Refuses a number below `least`; None is always right."""
    for name, value in numbers.items():
        if value is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, not {value}")


def policies(names: str, kept_share: float) -> "list[DecodePolicy]":
    """Policies by name, the sparse ones with that kept share."""
    from fastocr_core import DecodePolicy

    return [
        DecodePolicy.dense() if name == "dense" else DecodePolicy.named(name, kept_share=kept_share)
        for name in parts(names, "--decode")
    ]


def one_policy(name: str, kept_share: float) -> "DecodePolicy":
    """The policy that reads."""
    found = policies(name, kept_share)
    if len(found) != 1:
        raise ValueError(f"--decode takes one policy here, not {len(found)}, as fastocr")
    return found[0]


def other_readers(names: str, say: Callable[[str], None]) -> "list[Reader]":
    """Readers of other people that are here; a line for each that is not."""
    from fastocr_core.evaluation.rapid import RapidOcrReader
    from fastocr_core.evaluation.readers import ReaderMissingError
    from fastocr_core.evaluation.tesseract import TesseractReader

    makers: dict[str, Any] = {"tesseract": TesseractReader, "rapidocr": RapidOcrReader}
    wanted = parts(names, "--others")
    for name in wanted:
        if name not in makers:
            raise ValueError(f"unknown reader {name!r}; known: {', '.join(makers)}")
    found: list[Reader] = []
    for name in wanted:
        try:
            found.append(makers[name]())
        except ReaderMissingError as missing:
            say(f"left out: {missing}")
    return found
