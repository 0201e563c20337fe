"""The configuration of a run: TOML file, environment and flags become one frozen object with a hash.

Precedence: flag > environment (`FASTOCR_MODEL`, `FASTOCR_DECODE__KEPT_SHARE`) > file > default. The only
module that reads the environment.
The hash covers everything that can change a text, and nothing that only moves, prices or speeds up the work.
"""

import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fastocr_core.config import DecodePolicy, EngineLimits
from pipeline.planner import ShardLimits
from workers.model_copy import FILE_SCHEME
from workers.rasterize import RasterLimits
from workers.storage import S3_SCHEME, StorageSettings, is_s3

ENVIRONMENT_PREFIX = "FASTOCR_"
FOREIGN_VARIABLES = ("FASTOCR_CASES", "FASTOCR_TEST_")
TEXT_KEYS = ("source", "model", "model_revision", "mode", "prompt", "limit", "skip_duplicates")
TEXT_SECTIONS = ("decode", "raster", "engine")
BUILT_IN_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")
LEAST_CLAIM = 0.001  # Ray counts resources in steps of 0.0001
LEAST_OBJECT_STORE_BYTES = 75 * 1024 * 1024  # Ray's own limit
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|(?:s3[an]?|gs|file|https?):/", re.IGNORECASE)
# Settings of the fastocr policy that targets were begun without, and the value that stands for how those were read.
ADDED_LATER = {"decode.confirm_end": False}
NOT_TEXT_KEYS = ("raster.recycle_after_pages", "engine.token_budget", "engine.pages_ahead")


class ConfigError(Exception):
    """The run was asked for in a way that cannot work; one sentence with the mend."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Where and how wide to run; none of it changes a text.

    `ray_address` None starts a Ray of our own on this machine and ends it with the run. Actor counts of None
    are chosen from what the cluster has. `ocr_threads` is for decoding on the CPU. `shards_in_flight` and
    `max_batch` are how many shards one OCR actor holds and how many pages it decodes at once; shards of None are
    as many as it takes for eight pages to a slot, so that a few slow pages never empty the others.
    `gpu_hour_price` is what a GPU (without GPUs: the share of a machine under one OCR actor) costs per hour, in
    any currency; from it come the costs in summary and report. `model_cache` is a folder on each node for copies
    of models given as addresses; None: among the temporary files. `self_test`: each OCR actor first reads two
    known pages and refuses to go on if it reads them wrongly.
    `rasterize_resource` and `ocr_resource` name custom resources of Ray: such actors then run only on nodes that
    offer them. `cpus_per_rasterize_actor` and `cpus_per_ocr_actor` are what each claims; None: whole CPUs, or a
    share of one on small machines. A cluster that grows during the run wants both these and the counts given:
    what is chosen fits the nodes that are there when reading begins.
    """

    ray_address: str | None = None
    ocr_actors: int | None = None
    rasterize_actors: int | None = None
    gpus_per_ocr_actor: float | None = None
    ocr_threads: int | None = None
    local_cpus: int | None = None
    shards_in_flight: int | None = None
    max_batch: int = 8
    object_store_bytes: int | None = None
    model_cache: str | None = None
    gpu_hour_price: float | None = None
    self_test: bool = True
    rasterize_resource: str | None = None
    ocr_resource: str | None = None
    cpus_per_rasterize_actor: float | None = None
    cpus_per_ocr_actor: float | None = None

    def __post_init__(self) -> None:
        for name in (
            "ocr_actors",
            "rasterize_actors",
            "ocr_threads",
            "local_cpus",
            "shards_in_flight",
            "max_batch",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.ray_address == "":
            raise ValueError("ray_address must not be empty")
        for name in ("rasterize_resource", "ocr_resource"):
            value = getattr(self, name)
            if value is not None and (not value.strip() or value in BUILT_IN_RESOURCES):
                raise ValueError(f"{name} must name a custom resource, not {value!r}")
        for name in ("cpus_per_rasterize_actor", "cpus_per_ocr_actor"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= LEAST_CLAIM):
                raise ValueError(f"{name} must be at least {LEAST_CLAIM:g}")
        if self.model_cache is not None and not os.path.isabs(self.model_cache):
            raise ValueError("model_cache must be an absolute path: every node has its own")
        if self.object_store_bytes is not None and self.object_store_bytes < LEAST_OBJECT_STORE_BYTES:
            raise ValueError(f"object_store_bytes must be at least {LEAST_OBJECT_STORE_BYTES}")
        price = self.gpu_hour_price
        if price is not None and not (math.isfinite(price) and price >= 0):
            raise ValueError("gpu_hour_price must not be negative")
        gpus = self.gpus_per_ocr_actor
        if gpus is not None and not (0 <= gpus <= 1 or (math.isfinite(gpus) and gpus > 1 and gpus % 1 == 0)):
            raise ValueError("gpus_per_ocr_actor must lie between 0 and 1, or be a whole number")


class RunConfig(BaseModel):
    """Everything a run needs to know. Build with `resolve`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    target: str
    model: str = "mini"
    model_revision: str | None = None
    mode: str = "auto"
    prompt: str | None = None
    limit: int | None = Field(default=None, ge=1)
    skip_duplicates: bool = False
    decode: DecodePolicy = Field(default_factory=DecodePolicy.fastocr)
    engine: EngineLimits = Field(default_factory=EngineLimits)
    raster: RasterLimits = Field(default_factory=RasterLimits)
    shards: ShardLimits = Field(default_factory=ShardLimits)
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)
    storage: StorageSettings = Field(default_factory=StorageSettings)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration and where each of its values came from."""

    config: RunConfig
    origins: dict[str, str]


def flatten(config: RunConfig) -> dict[str, Any]:
    """All values under dotted keys, in declaration order."""
    return _flatten(config.model_dump(mode="json"))


def text_values(config: RunConfig) -> dict[str, Any]:
    """The values that can change a text; what the hash covers. Settings younger than a target count only where they are
    used, so that it can be carried on as it was begun.
    """
    values = {
        key: value
        for key, value in flatten(config).items()
        if (key in TEXT_KEYS or key.split(".")[0] in TEXT_SECTIONS) and key not in NOT_TEXT_KEYS
    }
    for key, before in ADDED_LATER.items():
        if values[key] == before or config.decode.name != "fastocr":
            del values[key]
    return values


def config_hash(config: RunConfig) -> str:
    """32 hex digits that name what this configuration would write."""
    canonical = json.dumps(text_values(config), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def differing_keys(stored: Mapping[str, Any], config: RunConfig) -> list[str]:
    """Keys of text-changing values that differ from those a target was begun with."""
    wanted = text_values(config)
    return sorted(key for key in wanted.keys() | stored.keys() if wanted.get(key) != stored.get(key))


def known_keys() -> list[str]:
    """Every key a configuration file may hold."""
    return list(flatten(RunConfig(source="-", target="-")))


def resolve(
    flags: Mapping[str, Any],
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge the layers and check them; raises `ConfigError`.

    `defaults` are values for keys that have none of their own and are given nowhere.
    `flags` maps dotted keys to values; None means not given. `environment` defaults to the process's own.
    """
    layers: list[tuple[str, dict[str, Any]]] = [("default", dict(defaults or {}))]
    if file is not None:
        layers.append((f"file {file}", _flatten(_read_toml(file))))
    layers.append(("environment", _from_environment(os.environ if environment is None else environment)))
    layers.append(("flag", {key: value for key, value in flags.items() if value is not None}))
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        for key, value in layer.items():
            values[key] = value
            origins[key] = origin if origin != "environment" else f"environment {environment_variable(key)}"
    config = _build(values)
    return Resolved(config, {key: origins.get(key, "default") for key in flatten(config)})


def _build(values: dict[str, Any]) -> RunConfig:
    """Nest dotted keys and validate. Settings of the decode policy not given follow the policy's name."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section and section in RunConfig.model_fields:
            nested.setdefault(section, {})[name] = value
        else:
            nested[key] = value
    decode = nested.get("decode")
    if isinstance(decode, dict):
        default = "fastocr" if decode.get("name") is None else str(decode["name"])
        if default == "dense" and "kept_share" not in decode:
            decode["kept_share"] = 1.0
        elif "kept_share" not in decode:
            decode["kept_share"] = DecodePolicy.fastocr().kept_share
        decode["name"] = default
    for key in ("source", "target"):
        if isinstance(nested.get(key), str):
            nested[key] = normalised_location(nested[key])
    if isinstance(nested.get("model"), str):
        nested["model"] = normalised_model(nested["model"])
    try:
        return RunConfig.model_validate(nested)
    except ValidationError as error:
        raise ConfigError(_explained(error)) from error


def normalised_location(location: str) -> str:
    """S3 locations without closing slashes; paths absolute, so that the same files are the same source from
    anywhere. Raises `ConfigError` for any other kind of address: it would be taken for a path.
    """
    if is_s3(location):
        bucket, _, key = location.removeprefix(S3_SCHEME).partition("/")
        if not bucket:
            raise ConfigError(f"{location} names no bucket.")
        return f"{S3_SCHEME}{bucket}/{key}".rstrip("/")
    scheme = _SCHEME.match(location)
    if scheme is not None:
        raise ConfigError(
            f"{location} is no location we know: write s3://bucket/prefix or a path "
            f"(./{scheme[0]}… if a folder is really called so)."
        )
    if not location or "\0" in location:
        raise ConfigError(f"{location!r} is no location: write s3://bucket/prefix or a path.")
    return os.path.abspath(os.path.expanduser(location))


def normalised_model(model: str) -> str:
    """Addresses of model folders without closing slashes; names, hub ids and paths as they are."""
    if is_s3(model):
        return normalised_location(model)
    return model.rstrip("/") if model.startswith(FILE_SCHEME) else model


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration {file} is not valid TOML: {error}.") from error


def environment_variable(key: str) -> str:
    """Two underscores stand between section and name, since names have single ones."""
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "__")


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Values of `FASTOCR_…` variables by key; one we do not know is a typing mistake and refused."""
    keys = {environment_variable(key): key for key in known_keys()}
    values: dict[str, Any] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(FOREIGN_VARIABLES):
            continue
        if variable not in keys:
            near = next((known for known in keys if known.replace("__", "_") == variable), None)
            mend = f"write {near}" if near else "see `config show`"
            raise ConfigError(f"The environment variable {variable} names no setting; {mend}.")
        values[keys[variable]] = _parsed(variable, text)
    return values


def _parsed(variable: str, text: str) -> Any:
    """Lists are written as in TOML; everything else is checked and converted by the model."""
    if not text.startswith("["):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{variable} is not a valid list: {error}.") from error


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _explained(error: ValidationError) -> str:
    """The first complaint in words, and how many more there are."""
    complaints = error.errors()
    first = complaints[0]
    key = ".".join(str(place) for place in first["loc"])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        message = f"There is no setting {key!r}; see `config show` for all of them."
    elif first["type"] == "missing":
        given = f"; give it as {key.upper()}, or in the configuration" if key in ("source", "target") else ""
        message = f"The setting {key!r} is missing{given}."
    else:
        said = str(first["msg"]).removeprefix("Value error, ")
        message = f"The setting {key!r} is not valid: {said}."
    more = len(complaints) - 1
    return message + (f" ({more} more like this.)" if more else "")
