"""Claims always leave room for the tasks that feed the actors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cluster import shards_in_flight, widths_for
from pipeline.config import ClusterSettings, ConfigError


@given(st.integers(1, 256), st.sampled_from([0, 1, 2, 8]), st.integers(1, 64))
def test_actors_never_claim_all_cpus(cpus: int, gpus: int, local_cpus: int) -> None:
    widths = widths_for(ClusterSettings(), {"CPU": cpus, "GPU": gpus}, local_cpus)
    claimed = widths.ocr_actors * widths.ocr_cpus + widths.rasterize_actors * widths.rasterize_cpus
    assert claimed + widths.number_cpus <= cpus
    assert widths.ocr_actors == max(1, gpus)
    assert widths.ocr_threads >= 1
    assert widths.survey_cpus <= cpus


@pytest.mark.parametrize("cpus", [1, 2, 3])
def test_small_machines_work_with_fractions(cpus: int) -> None:
    widths = widths_for(ClusterSettings(), {"CPU": cpus}, cpus)
    assert (widths.ocr_actors, widths.rasterize_actors) == (1, 1)
    assert widths.ocr_cpus + widths.rasterize_cpus <= cpus / 2


def test_settings_win() -> None:
    settings = ClusterSettings(ocr_actors=2, rasterize_actors=3, gpus_per_ocr_actor=0.5, ocr_threads=5)
    widths = widths_for(settings, {"CPU": 16, "GPU": 1}, 16)
    assert (widths.ocr_actors, widths.rasterize_actors, widths.ocr_gpus, widths.ocr_threads) == (2, 3, 0.5, 5)


NODES = (
    {"memory": 1.0},
    {"CPU": 16.0, "fastocr_rasterize": 1.0},
    {"CPU": 8.0, "GPU": 1.0, "fastocr_ocr": 1.0},
)
TOTAL = {"CPU": 24.0, "GPU": 1.0}


def test_a_named_resource_says_where_actors_run_and_whose_cpus_count() -> None:
    settings = ClusterSettings(rasterize_resource="fastocr_rasterize", ocr_resource="fastocr_ocr")
    widths = widths_for(settings, TOTAL, 4, NODES)
    assert (widths.rasterize_actors, widths.survey_tasks, widths.ocr_actors) == (15, 16, 1)
    assert [name for name, _ in widths.rasterize_resources] == ["fastocr_rasterize"]
    assert [name for name, _ in widths.ocr_resources] == ["fastocr_ocr"]
    assert all(0 < share <= 0.001 for _, share in (*widths.rasterize_resources, *widths.ocr_resources))
    plain = widths_for(ClusterSettings(), TOTAL, 4)
    assert (plain.rasterize_resources, plain.ocr_resources) == ((), ())


def test_claims_that_are_given_hold_on_a_cluster_that_has_yet_to_grow() -> None:
    settings = ClusterSettings(
        ocr_actors=8, rasterize_actors=30, cpus_per_ocr_actor=4.0, cpus_per_rasterize_actor=1.0,
        gpus_per_ocr_actor=1.0, rasterize_resource="fastocr_rasterize",
    )  # fmt: skip
    widths = widths_for(settings, {"CPU": 1.0}, 4, [{"memory": 1.0}])
    assert (widths.ocr_actors, widths.ocr_cpus, widths.ocr_gpus) == (8, 4.0, 1.0)
    assert (widths.rasterize_actors, widths.rasterize_cpus, widths.survey_tasks) == (30, 1.0, 30)


def test_a_resource_that_no_node_offers_is_said_in_a_sentence() -> None:
    settings = ClusterSettings(rasterize_resource="fastocr_rastersize")
    with pytest.raises(ConfigError, match="No node of the cluster offers the resource 'fastocr_rastersize'"):
        widths_for(settings, TOTAL, 4, NODES)


@pytest.mark.parametrize("name", ["", " ", "CPU", "GPU"])
def test_only_custom_resources_can_be_named(name: str) -> None:
    with pytest.raises(ValueError, match="custom resource"):
        ClusterSettings(rasterize_resource=name)


def test_an_actor_holds_eight_pages_to_a_slot_whatever_the_size_of_shards() -> None:
    wide = ClusterSettings(max_batch=16)
    for pages_of_a_shard in (1, 3, 12, 32):
        held = shards_in_flight(wide, 1000 * pages_of_a_shard, 1000)
        assert held == 128 if pages_of_a_shard == 1 else (held - 1) * pages_of_a_shard >= 8 * 16
        assert held <= 128
    assert shards_in_flight(ClusterSettings(max_batch=1), 320, 10) == 4
    assert shards_in_flight(wide, 0, 0) == 4
    assert shards_in_flight(ClusterSettings(max_batch=16, shards_in_flight=2), 1000, 1000) == 2
