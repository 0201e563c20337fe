"""A complete target whose every string tries to break out of the report."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.flow import finish
from pipeline.planner import ShardLimits
from pipeline.progress import Observer
from tests.unit.pipeline.factory import frozen_manifest, page_row, surveyed
from workers.layout import METRICS_FOLDER, RUN_KEY, part_key
from workers.object_store import LocalStore, ObjectStore
from workers.outcomes import Reason
from workers.schema import MetricsRow, PageRow, rows_to_table, table_to_parquet

ATTACKS = (
    "<script>window.ran = 1; document.title = 'ran'</script>",
    '"><img src=x onerror="window.ran = 1">\' onmouseover=\'window.ran = 1',
    "</pre></p></details></div></body></html><svg onload=window.ran=1><style>* {display: none}</style>",
    "<!-- ]]> &lt;b&gt; &amp;amp; &#0; &nosuch; </title></style></script><plaintext>",
    "NUL \0, escape \x1b[31m, bell \x07, turned \u202e gnitirw, next line \x85, line end \u2028, lone\rreturn",
    "piled " + "Z\u0335\u0321\u0322\u0327\u0328\u031b\u0300\u0301\u0302\u0303" * 40,
    "W" * 50_000,
    "\n" * 3000,
    "{{ 7 * 7 }} ${7*7} %s javascript:window.ran=1",
)
PAGES = len(ATTACKS)
ACTOR = ATTACKS[0]
BEGUN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def hostile_target(folder: Path) -> LocalStore:
    """The same as `fill_hostile`, in a folder."""
    store = LocalStore(str(folder))
    fill_hostile(store)
    return store


def fill_hostile(store: ObjectStore) -> None:
    """Flagged and failed pages with each attack in every column, and a few good ones."""
    source = f"s3://scans/{ATTACKS[1]}"
    config = {"source": source, "model": ATTACKS[2], "cluster.gpu_hour_price": 3.0,
              "storage.endpoint_url": "https://somebody:secret@s3.example.org"}  # fmt: skip
    claim = {"run_id": ATTACKS[3], "hash": ATTACKS[0], "text_values": config, "config": config,
             "versions": {ATTACKS[1]: ATTACKS[2]}, "begun_at": ATTACKS[0]}  # fmt: skip
    store.put(RUN_KEY, json.dumps(claim).encode())
    documents = [surveyed(source, 2 * PAGES + 3), surveyed(f"bad {ATTACKS[0]}", 0, Reason.ENCRYPTED)]
    manifest = frozen_manifest(store, documents, ShardLimits())
    rows = [page_row(page) for page in manifest.pages(0, 2 * PAGES + 3)]
    listed = [_attacked(row, place) for place, row in enumerate(rows[: 2 * PAGES])]
    attacked = rows_to_table([*listed, *rows[2 * PAGES :]])
    listed = [replace(row, reason=Reason.MODEL_ERROR if row.reason else None) for row in listed]
    store.put(part_key(0), table_to_parquet(rows_to_table([*listed, *rows[2 * PAGES :]])))
    store.put(f"{METRICS_FOLDER}read-x-0000.parquet", table_to_parquet(rows_to_table(list(_metrics()))))
    store.put(f"{METRICS_FOLDER}read-y-0000.parquet", b"no Parquet at all")
    finish(store, Observer())
    # The ledger knows its reasons: who writes another into a part has to do it afterwards.
    store.put(part_key(0), table_to_parquet(attacked, row_group_rows=4))


def _attacked(row: PageRow, place: int) -> PageRow:
    attack = ATTACKS[place % PAGES]
    failed = place >= PAGES
    return replace(
        row,
        outcome="failed" if failed else "flagged",
        reason=attack if failed else None,
        page_label=attack,
        flags=() if failed else (attack,),
        warnings=(attack, attack),
        text=None if failed else attack,
        text_before_retry=None if failed or place % 2 else f"before {attack}",
        dense_retry=not failed and not place % 2,
        mean_logprob=-0.5,
    )


def _metrics() -> Iterator[MetricsRow]:
    for window in range(30):
        start = BEGUN + timedelta(seconds=10 * window)
        for name, value in (
            ("pages", 5.0),
            ("output_tokens", 900.0),
            ("busy_seconds", 8.0),
            ("slot_fill", 0.9),
        ):
            yield MetricsRow("run", "read", ATTACKS[1], "0", ACTOR, start, 10.0, name, value)
