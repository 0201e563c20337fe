"""Checkpoint folders of other people's models: config.json and safetensors, read lazily and checked key by key.

Nothing in a folder is ever executed: no remote code, no pickles. A module is built without weights
(`weightless`), then `fill` assigns every tensor, or says in one sentence which keys do not fit.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor, nn

from fastocr_core.models.revisions import WEIGHTS_FILE, checkpoint_revision
from fastocr_core.vision.families import CONFIG_FILE

INDEX_FILE = f"{WEIGHTS_FILE}.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
KEYS_NAMED = 3  # in an error message


class TensorSource(Protocol):
    """Named tensors; a wrapper may offer stacked or split ones under other names."""

    folder: Path

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of every tensor by name."""

    def read(self, name: str) -> Tensor:
        """One tensor; KeyError for a name that is not in `shapes`."""


class Checkpoint:
    """An opened folder. Tensors are memory-mapped and read when asked for."""

    def __init__(self, folder: Path, config: dict[str, Any], files: Mapping[str, str]) -> None:
        """`files` names the file of every tensor."""
        self.folder, self.config = folder, config
        self._files = files
        self._open: dict[str, Any] = {}

    @cached_property
    def revision(self) -> str:
        """16 hex digits of what the folder holds, wherever it lies; reads every byte once."""
        return checkpoint_revision(self.folder)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of every tensor by name, from the file headers."""
        return self._shapes

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            name: tuple(self._handle(file).get_slice(name).get_shape()) for name, file in self._files.items()
        }

    def read(self, name: str) -> Tensor:
        """One tensor on the CPU in its stored type."""
        tensor: Tensor = self._handle(self._files[name]).get_tensor(name)
        return tensor

    def _handle(self, file: str) -> Any:
        if file not in self._open:
            self._open[file] = _opened(self.folder / file)
        return self._open[file]


def open_checkpoint(folder: Path) -> Checkpoint:
    """Open a folder with config.json and one *.safetensors file, or several with their index.

    FileNotFoundError where a file is missing, ValueError where one cannot be used, each in one sentence.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    config = read_json(folder / CONFIG_FILE)
    found = sorted(file.name for file in folder.glob("*.safetensors"))
    if not found:
        pickled = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLED)
        if pickled:
            raise ValueError(
                f"{folder} holds only pickled weights ({pickled[0]}), which are never read because they can "
                "run code; convert them to safetensors"
            )
        raise FileNotFoundError(f"there are no weights (*.safetensors) in {folder}")
    if (folder / INDEX_FILE).is_file():
        return Checkpoint(folder, config, _indexed(folder))
    files: dict[str, str] = {}
    for name in found:
        for key in _opened(folder / name).keys():  # noqa: SIM118 - a safetensors handle is not a mapping
            if files.setdefault(key, name) != name:
                raise ValueError(f"{folder}: tensor {key} is in both {files[key]} and {name}")
    return Checkpoint(folder, config, files)


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object. FileNotFoundError or ValueError in one sentence."""
    if not file.is_file():
        raise FileNotFoundError(f"there is no {file.name} in {file.parent}")
    try:
        value = json.loads(file.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{file} does not hold a JSON object")
    return value


def _indexed(folder: Path) -> dict[str, str]:
    """Tensor name to file name, as the index says, checked against the files."""
    listed = read_json(folder / INDEX_FILE).get("weight_map")
    if not isinstance(listed, dict) or not listed:
        raise ValueError(f"{folder / INDEX_FILE} has no weight_map")
    files = {str(key): str(name) for key, name in listed.items()}
    for name in sorted(set(files.values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{folder / INDEX_FILE} names {name!r}, which is no safetensors file beside it")
        if not (folder / name).is_file():
            raise FileNotFoundError(f"the weights in {folder} are not complete: {name} is missing")
        held = set(_opened(folder / name).keys())
        wanted = {key for key, file in files.items() if file == name}
        if held != wanted:
            raise ValueError(f"{folder / INDEX_FILE} and {name} disagree: {_named(held ^ wanted)}")
    return files


def _opened(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except Exception as error:  # the library has a class of its own for broken files
        raise ValueError(f"{file} is not a readable safetensors file: {error}") from error


@contextlib.contextmanager
def weightless() -> Iterator[None]:
    """Modules built here by this thread have parameters on the meta device, and real buffers.

    Computed buffers (rotary frequencies, position numbers) are stored in no checkpoint, so they must be real.
    """
    modules: Any = nn.Module
    original = modules.register_parameter
    thread = threading.get_ident()

    def register(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta and threading.get_ident() == thread:
            parameter = nn.Parameter(parameter.to("meta"), requires_grad=False)
        original(module, name, parameter)

    modules.register_parameter = register
    try:
        yield
    finally:
        modules.register_parameter = original


def fill(
    module: nn.Module,
    source: TensorSource,
    rename: Callable[[str], str | None],
    *,
    dtype: torch.dtype,
    tied: Mapping[str, str] | None = None,
) -> None:
    """Assign every tensor of `source` to `module`, which was built with `weightless`, and freeze it.

    `rename` takes a checkpoint key to a key of `module.state_dict()`, None for one left unused on purpose.
    `tied` takes a module key to the one whose tensor it shares, for where the checkpoint stores it only once.
    Floating tensors become `dtype`. ValueError names the first missing, unknown and misshapen keys, and those
    stored as something that is no weight by itself: integers where numbers belong, or scaled eight-bit floats.
    """
    wanted = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    shapes, sources, twice = source.shapes(), dict[str, str](), list[str]()
    for key in shapes:
        target = rename(key)
        if target is not None and sources.setdefault(target, key) != key:
            twice.append(target)
    shared = {key: other for key, other in (tied or {}).items() if key not in sources and other in sources}
    problems = {
        "missing": wanted.keys() - sources.keys() - shared.keys(),
        "unknown": {sources[target] for target in sources.keys() - wanted.keys()},
        "there twice": set(twice),
        "of another shape": {
            f"{key} {list(shapes[key])} instead of {list(wanted[target])}"
            for target, key in sources.items()
            if target in wanted and tuple(shapes[key]) != wanted[target]
        },
    }
    said = [f"{len(keys)} {what}: {_named(keys)}" for what, keys in problems.items() if keys]
    if said:
        raise ValueError(f"the weights in {source.folder} do not fit the model: {'; '.join(said)}")
    kinds = {key: value.dtype.is_floating_point for key, value in module.state_dict().items()}
    state = {target: _as(key, source.read(key), dtype, kinds[target]) for target, key in sources.items()}
    state |= {key: state[other] for key, other in shared.items()}
    module.load_state_dict(state, strict=True, assign=True)
    hollow = [name for name, buffer in module.named_buffers() if buffer.is_meta]
    if hollow:
        raise ValueError(f"buffers that no checkpoint stores hold nothing: {_named(hollow)}")
    module.requires_grad_(False).eval()


def _as(key: str, tensor: Tensor, dtype: torch.dtype, floating: bool) -> Tensor:
    """The tensor as the module needs it."""
    if tensor.is_floating_point() != floating or (floating and tensor.itemsize == 1):
        raise ValueError(f"tensor {key} is stored as {tensor.dtype}, which is no weight by itself")
    return tensor.to(dtype) if floating else tensor


def _named(keys: set[str] | list[str]) -> str:
    """The first few keys in words."""
    first = sorted(keys)
    more = f" and {len(first) - KEYS_NAMED} more" if len(first) > KEYS_NAMED else ""
    return ", ".join(first[:KEYS_NAMED]) + more


_ABSENT = object()


def require_config(config: Mapping[str, Any], expected: Mapping[str, object], model: str) -> None:
    """Check values under dotted keys; ValueError naming every difference. An absent key counts as None."""
    said = []
    for dotted, wanted in expected.items():
        value: Any = config
        for part in dotted.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is _ABSENT:
            value = None
        if value != wanted or isinstance(value, bool) != isinstance(wanted, bool):
            said.append(f"{dotted} is {value!r} instead of {wanted!r}")
    if said:
        raise ValueError(f"this is no {model} that can be read here: {'; '.join(said)}")
