"""A child forked in the middle of a call of the library uses the library as any other process does."""

import asyncio
import os

import pytest

from purgatory_async import DelayedOperation, Purgatory, PurgatoryError
from purgatory_async.testing import settle
from tests.forks import exit_code, fork, in_child, needs_fork

pytestmark = [needs_fork, pytest.mark.asyncio]


class Acting(DelayedOperation[str]):
    """Acts in its checks from the given one on, or in its hooks."""

    def __init__(self, act, *, hook=False, check=0, timeout=None):
        super().__init__(timeout)
        self.act, self.hook, self.checks_left = act, hook, check

    def try_complete(self) -> bool:
        self.checks_left -= 1
        return self.checks_left == 0 and bool(self.act())

    def on_complete(self) -> None:
        if self.hook:
            self.act()


class Observer:
    """Acts at the first event."""

    def __init__(self, act):
        self.act = act

    def notify(self, event) -> None:
        act, self.act = self.act, int
        act()


async def fetched() -> str:
    """Say whether hooks run, at once and after a signal, and a wait ends."""
    async with Purgatory() as purgatory:
        hooked = []
        Acting(lambda: hooked.append("unwatched"), hook=True).force_complete()
        assert hooked
        asyncio.get_running_loop().call_later(0.001, purgatory.complete_for_key, "log")
        wait = asyncio.ensure_future(purgatory.wait("log"))
        outcome = await purgatory.run(Acting(lambda: hooked.append("watched"), hook=True), ["log"])
        return f"{outcome} {hooked} {await wait}"


ANSWER = "completed ['unwatched', 'watched'] None"


async def from_a_hook(purgatory, act):
    purgatory.try_complete_else_watch(Acting(act, hook=True), ["go"])
    purgatory.complete_for_key("go")


async def from_an_expiry(purgatory, act):
    await purgatory.run(Acting(act, hook=True, timeout=0.001), ["go"])


async def from_a_first_check(purgatory, act):
    purgatory.try_complete_else_watch(Acting(act, check=1), ["go"])


async def from_a_later_check(purgatory, act):
    purgatory.try_complete_else_watch(Acting(act, check=2), ["go"])
    purgatory.check_and_complete("go")


async def from_a_condition(purgatory, act):
    await purgatory.wait("go", until=lambda: act() or True)


async def from_a_timer(purgatory, act):
    purgatory.timer.call_later(0.001, act)
    await purgatory.timer.sleep(0.01)


async def from_an_observer(purgatory, act):
    async with Purgatory(observer=Observer(act)) as observed:
        observed.complete_for_key("go")


PLACES = [
    from_a_hook,
    from_an_expiry,
    from_a_first_check,
    from_a_later_check,
    from_a_condition,
    from_a_timer,
    from_an_observer,
]


@pytest.mark.parametrize("place", PLACES)
async def test_hooks_run_in_a_child_forked_in_a_call(place):
    said = []
    async with Purgatory() as purgatory:
        await place(purgatory, lambda: said.append(in_child(lambda: asyncio.run(fetched()))))
        await settle()
    assert said == [ANSWER]


async def test_the_parents_queued_hooks_run_in_the_parent_alone():
    log = []

    def act() -> None:
        log.append(in_child(lambda: Acting(lambda: log.append("child"), hook=True).force_complete() and log))

    async with Purgatory() as purgatory:
        purgatory.try_complete_else_watch(Acting(act, hook=True), ["go"])
        purgatory.try_complete_else_watch(Acting(lambda: log.append("parent"), hook=True), ["go"])
        purgatory.complete_for_key("go")
    assert log == ["['child']", "parent"]


@pytest.mark.parametrize("check", [1, 2])
async def test_a_child_that_leaves_the_check_is_refused(check):
    def act() -> None:
        nonlocal child
        child = fork()

    child, refused = -1, False
    async with Purgatory() as purgatory:
        try:
            purgatory.try_complete_else_watch(Acting(act, check=check), ["k"])
            for _ in range(2):
                purgatory.check_and_complete("k")
        except BaseException as error:  # noqa: BLE001 - the child must not leave this test
            refused = isinstance(error, PurgatoryError)
        if not child:
            os._exit(refused)
        assert not refused
        assert exit_code(child) == 1
