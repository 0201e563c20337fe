"""The front matter with which olmOCR begins every page: five values between two lines of dashes.

A literal parser of exactly these lines; no YAML library, so `no` stays the code of a language.
"""

from dataclasses import dataclass

_FENCE = "---"
_EMPTY = ("", "null", "none", "~", "false")
KEYS = ("primary_language", "is_rotation_valid", "rotation_correction", "is_table", "is_diagram")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What the model says about the page. `rotation_correction` is in degrees: 0, 90, 180 or 270;
    `primary_language` a code of two letters, None where there is no text.
    """

    primary_language: str | None
    is_rotation_valid: bool
    rotation_correction: int
    is_table: bool
    is_diagram: bool


def split_front_matter(answer: str) -> tuple[FrontMatter | None, str]:
    """The front matter and the stripped text after it; (None, the whole stripped answer) if it is not valid.

    Valid means: exactly the five keys, each with a value of its kind. Never raises, never loses text.
    """
    whole = answer.strip()
    lines = whole.splitlines()
    ends = [index for index, line in enumerate(lines) if index and line.rstrip() == _FENCE]
    if not ends or lines[0].rstrip() != _FENCE:
        return None, whole
    values: dict[str, str] = {}
    for line in lines[1 : ends[0]]:
        key, colon, value = line.partition(":")
        if not colon or key.strip() in values:
            return None, whole
        values[key.strip()] = value.strip().strip("'\"")
    matter = _checked(values)
    if matter is None:
        return None, whole
    return matter, "\n".join(lines[ends[0] + 1 :]).strip()


def _checked(values: dict[str, str]) -> FrontMatter | None:
    if set(values) != set(KEYS):
        return None
    language, degrees = values["primary_language"].lower(), values["rotation_correction"]
    flags = [_truth(values[key]) for key in ("is_rotation_valid", "is_table", "is_diagram")]
    if None in flags or degrees not in ("0", "90", "180", "270"):
        return None
    if language not in _EMPTY and not (len(language) == 2 and language.isascii() and language.isalpha()):
        return None
    upright, table, diagram = (bool(flag) for flag in flags)
    return FrontMatter(None if language in _EMPTY else language, upright, int(degrees), table, diagram)


def _truth(value: str) -> bool | None:
    return {"true": True, "false": False}.get(value.lower())
