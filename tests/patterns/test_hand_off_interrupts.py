"""An interrupt from another operation's hook reaches the caller, and no item stays beside a waiting taker."""

import pytest

from purgatory_async import DelayedOperation
from purgatory_async.testing import settle
from tests.patterns.takers import Taker, takers

pytestmark = pytest.mark.asyncio

interrupts = pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])


class Neighbour(DelayedOperation):
    """Completes in its next check; its hook raises."""

    def __init__(self, interrupt):
        super().__init__()
        self.interrupt = interrupt
        self.ready = False

    def try_complete(self):
        return self.ready and self.force_complete()

    def on_complete(self):
        raise self.interrupt


def neighbour_of(purgatory, interrupt):
    neighbour = Neighbour(interrupt)
    purgatory.try_complete_else_watch(neighbour, ["k"])
    neighbour.ready = True


@interrupts
async def test_an_interrupted_put_still_serves_the_taker(jobs, purgatory, interrupt):
    neighbour_of(purgatory, interrupt)
    (taker,) = await takers(jobs, 1, "k")
    with pytest.raises(interrupt):
        jobs.put("k", "item")
    assert len(jobs) == 0
    await settle()
    assert taker.got == ("k", "item")


@interrupts
async def test_an_interrupted_put_back_still_serves_the_taker(jobs, purgatory, interrupt):
    neighbour_of(purgatory, interrupt)
    (taker,) = await takers(jobs, 1, "k")
    with pytest.raises(interrupt):
        jobs.put_back("k", "item")
    await settle()
    assert taker.got == ("k", "item")


@interrupts
async def test_an_interrupted_put_keeps_its_item_without_a_taker(jobs, purgatory, interrupt):
    neighbour_of(purgatory, interrupt)
    with pytest.raises(interrupt):
        jobs.put("k", "item")
    assert jobs.clear() == [("k", "item")]


async def test_every_interrupting_neighbour_is_passed(jobs, purgatory):
    neighbour_of(purgatory, KeyboardInterrupt)
    neighbour_of(purgatory, SystemExit)
    taker = Taker(jobs, "k")
    await settle()
    with pytest.raises(SystemExit):
        jobs.put("k", "item")
    await settle()
    assert taker.got == ("k", "item")
