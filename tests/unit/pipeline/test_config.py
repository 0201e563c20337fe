"""Where values come from, what the hash covers, and what is refused."""

from pathlib import Path

import pytest

from pipeline.config import (
    NOT_TEXT_KEYS,
    ConfigError,
    config_hash,
    differing_keys,
    known_keys,
    normalised_location,
    resolve,
    text_values,
)

PLACES = {"source": "s3://bucket/scans", "target": "s3://bucket/out"}
CHANGED = {
    "source": "s3://bucket/other",
    "model": "tiny",
    "model_revision": "2",
    "mode": "page",
    "prompt": "read",
    "limit": 5,
    "decode.name": "dense",
    "decode.kept_share": 0.2,
    "decode.floor": 9,
    "decode.warmup_steps": 3,
    "decode.focal_layers": [1, 2],
    "decode.pooling": "kv_mean",
    "decode.reuse": False,
    "decode.focal": "per_page",
    "decode.focal_count": 2,
    "decode.dilate": True,
    "decode.confirm_end": False,
    "decode.top_p": 0.9,
    "decode.variant": "dynamic",
    "decode.prune_layer": 3,
    "decode.contextual_share": 0.5,
    "decode.window": 8,
    "decode.kernel": 7,
    "engine.max_output_tokens": 77,
    "engine.stop_loops": False,
    "engine.prefill_chunk": 512,
    "engine.seconds_per_page": 5.0,
    "skip_duplicates": True,
    "raster.seconds_per_page": 3.0,
    "raster.seconds_to_open": 4.0,
    "raster.memory_bytes": 1e9,
    "raster.max_pixels": 1e6,
    "raster.crash_retries": 0,
}


def test_flags_beat_the_environment_beats_the_file_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('model = "a"\nmode = "b"\nprompt = "c"\n[decode]\nkept_share = 0.5\n')
    environment = {"FASTOCR_MODEL": "d", "FASTOCR_MODE": "e", "FASTOCR_DECODE__KEPT_SHARE": "0.25"}
    resolved = resolve({**PLACES, "model": "f", "limit": None}, file, environment)
    config, origins = resolved.config, resolved.origins
    assert (config.model, config.mode, config.prompt, config.limit) == ("f", "e", "c", None)
    assert config.decode.name == "fastocr"
    assert config.decode.kept_share == 0.25
    assert origins["model"] == "flag"
    assert origins["mode"] == "environment FASTOCR_MODE"
    assert origins["prompt"] == f"file {file}"
    assert origins["limit"] == "default"
    assert set(origins) == set(known_keys())


def test_lists_in_the_environment_are_written_as_in_toml() -> None:
    config = resolve(PLACES, environment={"FASTOCR_DECODE__FOCAL_LAYERS": "[2, 4]"}).config
    assert config.decode.focal_layers == (2, 4)


def test_dense_keeps_everything_unless_told_otherwise() -> None:
    assert resolve({**PLACES, "decode.name": "dense"}, environment={}).config.decode.kept_share == 1.0
    assert resolve(PLACES, environment={}).config.decode.kept_share == 0.05


@pytest.mark.parametrize("key", sorted(CHANGED))
def test_everything_that_can_change_a_text_changes_the_hash(key: str) -> None:
    needs = {"decode.name": "h2o"} if key == "decode.variant" else {}
    plain = resolve({**PLACES, **needs}, environment={}).config
    changed = resolve({**PLACES, **needs, key: CHANGED[key]}, environment={}).config
    assert config_hash(changed) != config_hash(plain)
    assert key in differing_keys(text_values(plain), changed)


def test_a_target_begun_before_a_setting_existed_can_be_carried_on_as_it_was() -> None:
    plain = resolve(PLACES, environment={}).config
    begun = {key: value for key, value in text_values(plain).items() if key != "decode.confirm_end"}
    assert differing_keys(begun, plain) == ["decode.confirm_end"]
    as_before = resolve({**PLACES, "decode.confirm_end": False}, environment={}).config
    assert text_values(as_before) == begun
    assert differing_keys(begun, as_before) == []
    dense = resolve({**PLACES, "decode.name": "dense"}, environment={}).config
    assert "decode.confirm_end" not in text_values(dense), "it means nothing there"
    assert config_hash(dense) == config_hash(
        resolve({**PLACES, "decode.name": "dense", "decode.confirm_end": False}, environment={}).config
    )


def test_no_other_setting_changes_the_hash() -> None:
    plain = resolve(PLACES, environment={}).config
    others = {
        "target": "s3://elsewhere/out",
        "engine.token_budget": 1000,
        "engine.pages_ahead": 1,
        "raster.recycle_after_pages": 5,
        "shards.pages": 7,
        "shards.reading_seconds": 5,
        "shards.image_tokens_per_second": 5,
        "cluster.ocr_actors": 3,
        "cluster.max_batch": 2,
        "cluster.ray_address": "ray://somewhere",
        "cluster.gpu_hour_price": 2.5,
        "storage.endpoint_url": "http://127.0.0.1:1",
        "storage.region": "eu-central-1",
    }
    assert set(text_values(plain)) == set(CHANGED)
    assert set(NOT_TEXT_KEYS) <= set(others)
    changed = resolve({**PLACES, **others}, environment={}).config
    assert config_hash(changed) == config_hash(plain)
    assert differing_keys(text_values(plain), changed) == []


@pytest.mark.parametrize(
    ("flags", "environment", "toml", "said"),
    [
        ({}, {}, "modell = 'x'", "no setting 'modell'"),
        ({}, {}, "[decode]\nkept = 1", "no setting 'decode.kept'"),
        ({}, {"FASTOCR_MODELL": "x"}, "", "FASTOCR_MODELL names no setting"),
        ({}, {"FASTOCR_DECODE_KEPT_SHARE": "0.1"}, "", "write FASTOCR_DECODE__KEPT_SHARE"),
        ({"decode.kept_share": 2.0}, {}, "", "kept_share must lie in"),
        ({"decode.name": "sparse"}, {}, "", "unknown decode policy"),
        ({"limit": 0}, {}, "", "'limit' is not valid"),
        ({}, {}, "model = ", "not valid TOML"),
        ({}, {"FASTOCR_DECODE__FOCAL_LAYERS": "[1"}, "", "not a valid list"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str], toml: str, said: str
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(toml)
    with pytest.raises(ConfigError, match=said) as caught:
        resolve({**PLACES, **flags}, file, environment)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("decode.focal_layers", []),
        ("decode.focal_layers", [-1]),
        ("cluster.gpus_per_ocr_actor", -1),
        ("cluster.gpus_per_ocr_actor", 1.5),
        ("cluster.gpus_per_ocr_actor", float("nan")),
        ("cluster.gpus_per_ocr_actor", float("inf")),
        ("cluster.object_store_bytes", -1),
        ("cluster.object_store_bytes", 1000),
        ("cluster.ocr_actors", 0),
        ("cluster.ray_address", ""),
        ("storage.connect_timeout_seconds", -1),
        ("storage.connect_timeout_seconds", 0),
        ("storage.read_timeout_seconds", float("nan")),
        ("storage.read_timeout_seconds", float("inf")),
        ("storage.max_attempts", 0),
        ("storage.endpoint_url", "localhost:9000"),
        ("storage.region", ""),
        ("storage.profile", ""),
    ],
)
def test_impossible_values_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match="is not valid: .*" + key.partition(".")[2]):
        resolve({**PLACES, key: value}, environment={})


@pytest.mark.parametrize(
    "location",
    [
        "gs://bucket/scans",
        "S3://bucket/scans",
        "file:///scans",
        "https://host/scans",
        "s3:/bucket",
        "s3://",
        "s3:///x",
        "",
    ],
)
@pytest.mark.parametrize("key", ["source", "target"])
def test_addresses_that_are_neither_s3_nor_paths_are_refused(key: str, location: str) -> None:
    with pytest.raises(ConfigError, match=r"location|bucket"):
        resolve({**PLACES, key: location}, environment={})


def test_a_closing_slash_makes_no_other_source() -> None:
    plain = resolve(PLACES, environment={}).config
    slashed = resolve({"source": "s3://bucket/scans/", "target": "s3://bucket/out//"}, environment={}).config
    assert (slashed.source, slashed.target) == (plain.source, plain.target)
    assert config_hash(slashed) == config_hash(plain)
    assert normalised_location("s3://bucket/") == "s3://bucket"
    assert normalised_location("s3://bucket//odd//key") == "s3://bucket//odd//key"


def test_paths_are_the_same_source_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve({"source": "scans", "target": "./out/"}, environment={}).config
    assert (config.source, config.target) == (str(tmp_path / "scans"), str(tmp_path / "out"))
