"""Documents damaged by chance: the parent never fails, every declared page ends as an image or a reason."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.made_sheets import saved, sheet
from tests.unit.workers.pdf_maker import PagePlan, make_pdf, text
from workers.inspect_document import inspect
from workers.outcomes import Reason
from workers.rasterize import PageFailure, Rasterizer, RasterLimits, RasterPage

PAGES_TRIED = 4


DOCUMENTS = [
    make_pdf([PagePlan(after=text("one")), PagePlan(sheet("L")), PagePlan(sheet("RGB"), soft_mask=True)]),
    saved("RGB", "PDF"),
    saved("1", "TIFF", compression="group4", save_all=True, append_images=[sheet("1")]),
    saved("L", "TIFF", compression="tiff_lzw"),
    saved("RGB", "JPEG"),
    saved("RGB", "JPEG2000"),
    saved("P", "GIF"),
]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.floats(0, 1), st.integers(0, 255)),
        st.tuples(st.just("cut"), st.floats(0.05, 1), st.just(0)),
        st.tuples(st.just("drop"), st.floats(0, 1), st.integers(1, 40)),
        st.tuples(st.just("repeat"), st.floats(0, 1), st.integers(1, 40)),
        st.tuples(st.just("digit"), st.floats(0, 1), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=12,
)


def _mutated(document: bytes, changes: list[tuple[str, float, int]]) -> bytes:
    data = bytearray(document)
    for kind, place, value in changes:
        at = min(int(place * len(data)), len(data) - 1)
        if kind == "set":
            data[at] = value
        elif kind == "cut":
            del data[max(1, at) :]
        elif kind == "drop":
            del data[at : at + min(value, len(data) - 1)]
        elif kind == "repeat":
            data[at:at] = data[at : at + value] * 3
        else:  # numbers in a PDF are sizes, counts and offsets
            digits = [index for index, byte in enumerate(data) if 48 <= byte <= 57]
            if digits:
                data[digits[min(int(place * len(digits)), len(digits) - 1)]] = 48 + value
        if not data:
            return b""
    return bytes(data)


@pytest.fixture(scope="module")
def tight() -> Iterator[Rasterizer]:
    """A rasterizer with small limits, so that a mutant that asks for much is refused soon."""
    limits = RasterLimits(seconds_per_page=10, seconds_to_open=10, memory_bytes=600e6, max_pixels=4e6)
    with Rasterizer(limits) as rasterizer:
        yield rasterizer


@settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(document=st.sampled_from(DOCUMENTS), changes=CHANGES)
def test_a_mutant_loses_no_row_and_breaks_nothing(
    document: bytes, changes: list[tuple[str, float, int]], tight: Rasterizer
) -> None:
    facts = inspect(_mutated(document, changes), tight.limits, 72, tight)
    if facts.reason is not None:
        assert facts.reason in Reason
        assert facts.page_count == 0
        return
    assert facts.page_count >= 1
    assert len(facts.pages) == facts.page_count
    for page_index in range(min(facts.page_count, PAGES_TRIED)):
        page = tight.page(page_index, 72)
        assert isinstance(page, RasterPage | PageFailure)
        if isinstance(page, RasterPage):
            page.image.load()
            assert page.image.width * page.image.height <= tight.limits.max_pixels * 1.01
