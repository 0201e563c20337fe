"""Feeds the Ray Data graph with shard numbers, one per block, and holds the few settings of Ray Data we
rely on.

A source of our own because the tasks of `ray.data.range` claim a whole CPU each, which a machine with one
or two cannot spare beside the actors.
"""

import logging
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata

ROW_BYTES = 4
ACTOR_STARTS_LOST = (
    3  # a machine may be taken back while a model loads; what always fails ends the run soon enough
)
SHARD_NUMBERS = pa.schema([pa.field("shard_index", pa.int32(), nullable=False)])


class ShardNumbers(Datasource):  # type: ignore[misc]  # Ray carries no types
    """One read task, one block and one row per shard that has to be read."""

    def __init__(self, shards: Sequence[int]) -> None:
        super().__init__()
        self._shards = tuple(shards)

    def estimate_inmemory_data_size(self) -> int:
        """Bytes of all rows."""
        return ROW_BYTES * len(self._shards)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Always one task per shard, whatever parallelism is wished for."""
        return [_read_task(shard) for shard in self._shards]


def _read_task(shard: int) -> ReadTask:
    metadata = BlockMetadata(num_rows=1, size_bytes=ROW_BYTES, input_files=None, exec_stats=None)
    return ReadTask(lambda: [pa.table({"shard_index": [shard]}, schema=SHARD_NUMBERS)], metadata)


def set_data_context() -> None:
    """Settings the graph depends on: blocks are never split (a block is a shard), Ray's own output is off."""
    context = DataContext.get_current()
    context.target_max_block_size = None
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_errored_blocks = 0
    context.max_consecutive_actor_init_deaths = ACTOR_STARTS_LOST
    logging.getLogger("ray.data").setLevel(
        logging.CRITICAL
    )  # as in local_ray: what ends a run is raised as well
