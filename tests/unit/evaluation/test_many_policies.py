"""Many policies in one batch read as each does alone; and records that outlive a stop."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastocr_core import DecodePolicy, Engine
from fastocr_core.evaluation.many_policies import Reading, read_by_many
from fastocr_core.evaluation.records import Records
from fastocr_core.vision.prepared import PreparedPage
from tests.parity.random_model import RandomAdapter, page_of


class CountingAdapter(RandomAdapter):
    """Counts how often an image was encoded."""

    encoded = 0

    def encode(self, page: PreparedPage):  # type: ignore[no-untyped-def]
        self.encoded += 1
        return super().encode(page)


def test_every_policy_reads_as_it_does_alone() -> None:
    """More readings than slots, so that pages come in beside others that are under way."""
    model, pages = CountingAdapter(), [page_of(80), page_of(37, seed=1)]
    policies = [
        DecodePolicy.dense(),
        DecodePolicy.fastocr(0.1),
        DecodePolicy.fastocr(0.05, warmup_steps=4, focal="per_page", focal_count=2),
        DecodePolicy.named("fastv", prune_layer=1),
        DecodePolicy.named("h2o", variant="dynamic"),
        DecodePolicy.named("snapkv"),
        DecodePolicy.named("visionzip", variant="norm"),
        DecodePolicy.named("visionzip"),  # has no attention to rank by here
    ]
    readings = [Reading(policy, page) for policy in policies for page in pages]
    results = [result for _, result in sorted(read_by_many(model, readings, 6), key=lambda one: one[0])]
    assert model.encoded == len(pages)
    for first, policy in enumerate(policies):
        with Engine(RandomAdapter(), policy, 2) as engine:
            alone = list(engine.read(pages))
        ours = results[2 * first : 2 * first + 2]
        assert [result.tokens for result in ours] == [result.tokens for result in alone]
        assert [result.error for result in ours] == [result.error for result in alone]
        for one, other in zip(ours, alone, strict=True):
            assert one.image_kv_read_share == pytest.approx(other.image_kv_read_share)
            assert one.kv_resident_share == pytest.approx(other.kv_resident_share)
    assert results[-1].error is not None
    assert "gives no attention" in results[-1].error


def test_each_policy_looks_again_before_its_page_ends() -> None:
    stops = frozenset(range(9))
    pages = [page_of(80), page_of(37, seed=1), page_of(120, seed=4)]
    confirmed = DecodePolicy.fastocr(0.1, warmup_steps=3)
    policies = [confirmed, replace(confirmed, confirm_end=False), DecodePolicy.dense()]
    readings = [Reading(policy, page) for policy in policies for page in pages]
    together = dict(read_by_many(RandomAdapter(stop_ids=stops), readings, 5))
    for number, reading in enumerate(readings):
        with Engine(RandomAdapter(stop_ids=stops), reading.policy, 1) as engine:
            (alone,) = engine.read([reading.page])
        assert together[number].tokens == alone.tokens
        assert together[number].image_kv_read_share == pytest.approx(alone.image_kv_read_share)
    assert [together[n].tokens for n in range(3)] != [together[n].tokens for n in range(3, 6)]


def test_a_page_in_parts_is_read_part_by_part() -> None:
    parts = (page_of(30), page_of(40, seed=1))
    page = replace(page_of(70), parts=parts)
    policies = [DecodePolicy.dense(), DecodePolicy.named("snapkv")]
    results = dict(read_by_many(RandomAdapter(), [Reading(policy, page) for policy in policies], 3))
    for number, policy in enumerate(policies):
        with Engine(RandomAdapter(), policy, 2) as engine:
            (alone,) = engine.read([page])
        assert results[number].tokens == alone.tokens
        assert results[number].error is None


def test_fewer_tokens_can_be_asked_for() -> None:
    ((number, result),) = read_by_many(RandomAdapter(), [Reading(DecodePolicy.fastocr(), page_of(40))], 4, 9)
    assert (number, result.output_tokens, result.finish_reason) == (0, 9, "length")


def test_records_outlive_a_stop(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    records = Records(file, {"model": "m", "steps": 3})
    records.add(("read", "a"), {"cer": 0.5})
    records.add(("read", "b"), [1, 2])
    with file.open("a") as stream:
        stream.write('{"key": ["read", "c"], "val')  # the power went
    again = Records(file, {"model": "m", "steps": 3})
    assert len(again) == 2
    assert again["read", "a"] == {"cer": 0.5}
    assert ("read", "c") not in again
    again.add(("read", "c"), None)
    assert len(Records(file, {"model": "m", "steps": 3})) == 3


def test_records_of_something_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    Records(file, {"model": "m", "steps": 3})
    with pytest.raises(ValueError, match="made with another steps"):
        Records(file, {"model": "m", "steps": 4})
    file.write_text('["no records"]\n')
    with pytest.raises(ValueError, match="holds no measurements"):
        Records(file, {"model": "m", "steps": 3})
    records = Records(None, {})
    records.add(("a",), 1)
    assert records["a",] == 1
