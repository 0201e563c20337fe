"""Dataclasses as they come back from JSON: what does not fit them is refused where it is read, not where it is used."""

import functools
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")


def restored(kind: type[Value], stored: Any, complete: bool = True) -> Value:
    """The `kind` that `dataclasses.asdict` and JSON made `stored` of; lists become tuples again.

    With `complete` every field must be there, otherwise those without a default. ValueError for a missing or unknown
    field, or a value of another type.
    """
    if not isinstance(stored, Mapping):
        raise ValueError(f"{type(stored).__name__} instead of fields by name")
    hints = _hints(kind)  # type: ignore[arg-type]
    needed = {
        field.name
        for field in fields(kind)  # type: ignore[arg-type]
        if complete or (field.default is MISSING and field.default_factory is MISSING)
    }
    wrong = [
        *(f"without {name}" for name in sorted(needed - stored.keys())),
        *(f"with an unknown {name}" for name in sorted(map(str, stored.keys() - hints.keys()))),
    ]
    if wrong:
        raise ValueError(", ".join(wrong))
    return kind(**{name: _fitted(name, hints[name], value) for name, value in stored.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fitted(name: str, hint: Any, value: Any) -> Any:
    """The value as the field wants it. ValueError where it is of another type."""
    if get_origin(hint) in (types.UnionType, Union):
        if value is None and types.NoneType in get_args(hint):
            return None
        (hint,) = (each for each in get_args(hint) if each is not types.NoneType)
    if is_dataclass(hint) and isinstance(hint, type):
        return restored(hint, value)
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        kinds = get_args(hint)
        if kinds[-1] is Ellipsis:
            if all(type(each) is kinds[0] for each in value):
                return tuple(value)
            return tuple(_fitted(name, kinds[0], each) for each in value)
        if len(kinds) == len(value):
            return tuple(_fitted(name, kind, each) for kind, each in zip(kinds, value, strict=True))
    if type(value) is hint or (hint is float and type(value) is int):
        return value
    raise ValueError(f"with {value!r:.40} as {name}")
