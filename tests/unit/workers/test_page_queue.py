"""Pages come into memory in order and so many at once; time with a backlog is weighed by how full the slots were."""

import asyncio
from collections.abc import Callable

import pytest

from workers.page_queue import Backlog, PageQueue


class _World:
    """A clock and a reader of two slots that are half full unless somebody says otherwise."""

    def __init__(self, places: int) -> None:
        self.now = self.filled = 0.0
        self.slots = 2
        self.queue = PageQueue(places, lambda: self.slots, lambda: self.filled, lambda: self.now)

    def pass_time(self, seconds: float, fill: float) -> None:
        self.now += seconds
        self.filled += seconds * fill


def test_only_time_in_which_pages_wait_for_a_slot_counts() -> None:
    world = _World(places=10)

    async def story() -> None:
        ends = [asyncio.Event() for _ in range(4)]

        async def page(end: asyncio.Event) -> None:
            async with world.queue.place():
                await end.wait()

        async def settle() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(page(end)) for end in ends[:2]]
        await settle()
        world.pass_time(100.0, 0.5)  # as many pages as slots: nobody waits
        assert world.queue.backlog().slot_fill is None
        tasks += [asyncio.create_task(page(end)) for end in ends[2:]]
        await settle()
        world.pass_time(10.0, 0.5)
        assert world.queue.backlog() == Backlog(10.0, 5.0)
        ends[0].set()
        await settle()
        world.pass_time(10.0, 1.0)
        ends[1].set()
        await settle()
        world.pass_time(100.0, 0.5)
        assert world.queue.backlog() == Backlog(20.0, 15.0)
        world.slots = 1  # memory ran out, and a page more waits
        late = asyncio.create_task(page(ends[3]))
        await settle()
        world.pass_time(4.0, 0.25)
        for end in ends:
            end.set()
        await asyncio.gather(late, *tasks)
        world.pass_time(100.0, 0.5)

    asyncio.run(story())
    backlog = world.queue.backlog()
    assert backlog == Backlog(24.0, 16.0)
    assert backlog.slot_fill == pytest.approx(2 / 3)


def test_pages_are_let_in_in_order_and_no_more_than_there_are_places() -> None:
    world = _World(places=3)
    inside: list[int] = []
    seen: list[tuple[int, ...]] = []

    async def page(number: int) -> None:
        async with world.queue.place():
            inside.append(number)
            seen.append(tuple(inside))
            await asyncio.sleep(0)
            inside.remove(number)

    async def story() -> None:
        await asyncio.gather(*(page(number) for number in range(12)))

    asyncio.run(story())
    assert [numbers[-1] for numbers in seen] == list(range(12))
    assert max(map(len, seen)) == 3


def test_a_place_is_given_back_once_however_its_page_ends() -> None:
    world = _World(places=1)

    async def early(leave: Callable[[], None], reached: list[str]) -> None:
        leave()
        leave()
        async with world.queue.place():
            reached.append("the next page is in while this one is at work")

    async def story() -> None:
        reached: list[str] = []
        async with world.queue.place() as leave:
            await asyncio.wait_for(early(leave, reached), 10)
        assert reached
        with pytest.raises(LookupError):
            async with world.queue.place():
                raise LookupError
        async with world.queue.place():
            waiting = asyncio.create_task(_enter(world.queue))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await asyncio.wait_for(_enter(world.queue), 10)
        world.slots = 0
        assert world.queue._at_hand == 0

    asyncio.run(story())


async def _enter(queue: PageQueue) -> None:
    async with queue.place():
        await asyncio.sleep(0)
