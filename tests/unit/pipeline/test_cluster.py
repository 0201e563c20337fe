"""Claims always leave room for the tasks that feed the actors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cluster import widths_for
from pipeline.config import ClusterSettings


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
