"""The barrier: members gather until all are there or the window is over, and all that came learn the same."""

import asyncio

import pytest

from purgatory_async import DelayedOperation, OperationCancelled, Purgatory
from purgatory_async.patterns import Barrier, Generation, barrier
from purgatory_async.testing import settle
from tests.patterns.waiters import Waiter, ends, waiting

pytestmark = pytest.mark.asyncio


async def arriving(barrier: Barrier, *members: object) -> list[Waiter]:
    """Tasks of members that wait."""
    return await waiting(*map(barrier.arrive, members))


def arriving_now(barrier: Barrier, member: object) -> Waiter:
    """A task that arrives in the loop's next pass."""
    return Waiter(barrier.arrive(member), lazily=True)


async def leaving(*waiters: Waiter) -> None:
    """Cancel all of them."""
    for waiter in waiters:
        waiter.cancel()
    assert await ends(waiters) == ["cancelled"] * len(waiters)


async def passing(clock, seconds: float) -> None:
    """Let time pass, and all tasks run."""
    clock.advance(seconds)
    await settle()


def have_gone_on(waiters: list[Waiter]) -> list[bool]:
    """Whether each of them has."""
    return [waiter.done for waiter in waiters]


# Until all are there.


async def test_the_expected_number_goes_on_as_one_generation(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    waiters = await arriving(group, "a", "b")
    assert have_gone_on(waiters) == [False, False]
    waiters += await arriving(group, "c")
    assert await ends(waiters) == [Generation(number=1, members=("a", "b", "c"), complete=True)] * 3


async def test_one_alone_may_be_all_and_does_not_wait(purgatory):
    group = Barrier(purgatory, "group", expect=1, timeout=30)
    with pytest.raises(StopIteration) as returned:  # without a suspension
        group.arrive("a").send(None)
    assert returned.value.value == Generation(1, ("a",), complete=True)
    assert purgatory.timer.pending == 0


async def test_once_all_expected_names_arrive_every_member_goes_on(purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    waiters = await arriving(group, "x", "b", "y", "z")
    assert have_gone_on(waiters) == [False] * 4
    waiters += await arriving(group, "a")
    assert await ends(waiters) == [Generation(1, ("x", "b", "y", "z", "a"), complete=True)] * 5


async def test_expected_names_count_once_from_any_iterable(purgatory):
    group = Barrier(purgatory, "group", expect=iter("aba"), timeout=30)
    waiters = await arriving(group, "a", "b")
    assert await ends(waiters) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_members_are_distinguished_by_equality(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    waiters = await arriving(group, 0, 0.0, None, ())
    assert isinstance(await waiters.pop(0).end(), OperationCancelled)
    assert await ends(waiters) == [Generation(1, (0, None, ()), complete=True)] * 3


# Until the window is over: who comes and goes when, what is set, when it ends, and with whom.

Steps = list[tuple[float, str | dict[str, float | None]]]
WINDOWS: dict[str, tuple[dict[str, float], Steps, float, str]] = {
    "at its timeout": ({}, [(0, "a"), (20, "b")], 30, "ab"),
    "when no newcomer came for the delay": (
        {"initial_delay": 3},
        [(0, "a"), (2.9, "b"), (5.8, "c")],
        8.8,
        "abc",
    ),
    "at the timeout though newcomers come": (
        {"timeout": 5, "initial_delay": 2},
        [(0, "a"), (1.5, "b"), (3, "c"), (4.5, "d")],
        5,
        "abcd",
    ),
    "at the timeout that is shorter than the delay": (
        {"timeout": 5, "initial_delay": 60},
        [(0, "a")],
        5,
        "a",
    ),
    "at its timeout though a member returns": ({}, [(0, "a"), (2, "a")], 30, "a"),
    "after the delay though a member returns": ({"initial_delay": 3}, [(0, "a"), (2, "a")], 3, "a"),
    "at its timeout though the first has left": ({}, [(0, "a"), (20, "b"), (20, "-a")], 30, "b"),
    "anew when all had left": ({}, [(0, "a"), (1, "b"), (5, "-a"), (6, "-b"), (7, "c")], 37, "c"),
    "after a delay anew when all had left": ({"initial_delay": 9}, [(0, "a"), (5, "-a"), (7, "c")], 16, "c"),
    "at a shorter timeout": ({}, [(0, "a"), (2, {"timeout": 5})], 5, "a"),
    "at a longer timeout": ({}, [(0, "a"), (2, {"timeout": 60})], 60, "a"),
    "at a timeout after there was none": (
        {},
        [(0, "a"), (2, {"timeout": None}), (40, {"timeout": 50})],
        50,
        "a",
    ),
    "after a delay from the last newcomer": ({}, [(0, "a"), (2, "b"), (4, {"initial_delay": 3})], 5, "ab"),
    "at its timeout without a delay any more": (
        {"initial_delay": 3},
        [(0, "a"), (2, {"initial_delay": 0})],
        30,
        "a",
    ),
}


@pytest.mark.parametrize(("settings", "steps", "end", "members"), WINDOWS.values(), ids=WINDOWS)
async def test_a_window_ends(settings, steps, *, end, members, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    for number in (1, 2):  # the next one is a window of its own
        for name, seconds in ({"timeout": 30, "initial_delay": 0} | settings).items():
            setattr(group, name, seconds)
        assert purgatory.timer.pending == 0
        start, waiting = manual_clock.time(), {}
        for at, step in steps:
            await passing(manual_clock, start + at - manual_clock.time())
            if isinstance(step, dict):
                for name, seconds in step.items():
                    setattr(group, name, seconds)
            elif step.startswith("-"):
                await leaving(waiting.pop(step[1:]))
            else:
                (waiting[step],) = await arriving(group, step)
            assert purgatory.timer.pending == (group.timeout is not None and group.present != ())
        await passing(manual_clock, start + end - 0.001 - manual_clock.time())
        assert not any(have_gone_on(waiting.values()))
        await passing(manual_clock, start + end - manual_clock.time())
        assert await ends(waiting.values()) == [Generation(number, tuple(members), complete=False)] * len(
            members
        )
        await passing(manual_clock, 100)


# Arriving again.


async def test_a_returning_member_replaces_its_earlier_wait(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    first, other = await arriving(group, "a", "b")
    (again,) = await arriving(group, "a")
    replaced = await first.end()
    assert isinstance(replaced, OperationCancelled)
    assert "'a'" in str(replaced)
    assert group.present == ("a", "b")
    assert purgatory.pending == 2
    await passing(manual_clock, 30)
    assert await ends([again, other]) == [Generation(1, ("a", "b"), complete=False)] * 2


# The object.


async def test_present_tells_who_waits_in_the_order_of_arrival(purgatory):
    group = Barrier(purgatory, "group", expect=9, timeout=30)
    assert group.present == ()
    waiters = await arriving(group, "c", "a", "b")
    assert group.present == ("c", "a", "b")
    assert repr(group) == "<Barrier 'group' present=3 generation=0>"
    waiters[1].cancel()
    assert group.present == ("c", "b"), "it has left, though its task has yet to run"
    await leaving(*waiters)
    assert group.present == ()


async def test_a_generation_is_a_value(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    one, other = await ends(await arriving(group, "a", "b"))
    assert one is other
    assert {one} == {Generation(1, ("a", "b"), complete=True)}
    with pytest.raises(AttributeError):
        one.number = 2


@pytest.mark.asyncio(loop_factories=["virtual"])
async def test_ten_near_simultaneous_starts_make_one_generation():
    loop = asyncio.get_running_loop()
    async with Purgatory() as purgatory:
        group = Barrier(purgatory, "group", expect=range(100), timeout=300, initial_delay=3)

        async def start(number: int) -> Generation[int]:
            await asyncio.sleep(number * 2.5)
            return await group.arrive(number)

        generations = await asyncio.gather(*map(start, range(10)))
        assert set(generations) == {Generation(1, tuple(range(10)), complete=False)}
        assert 9 * 2.5 + 3 <= loop.time() <= 9 * 2.5 + 3.01


@pytest.mark.parametrize("expect", [["last", "other"], 1_002], ids=["two by name", "their number"])
async def test_an_arrival_compares_few_waiting_members(expect, purgatory, monkeypatch):
    looks: list[object] = []
    abandoned = DelayedOperation.abandoned.fget
    monkeypatch.setattr(
        barrier._Arrival,
        "abandoned",
        property(lambda operation: looks.append(operation) or abandoned(operation)),
        raising=False,
    )
    group = Barrier(purgatory, "group", expect=expect, timeout=30)
    waiters = await arriving(group, "other", *range(1_000))
    assert len(looks) <= 5 * 1_000
    looks.clear()
    waiters += await arriving(group, "last")
    assert len(looks) <= 5 * 1_000
    assert set(await ends(waiters)) == {Generation(1, ("other", *range(1_000), "last"), complete=True)}


@pytest.mark.parametrize(
    ("bad", "error"), [(0, ValueError), ("ab", TypeError), (True, TypeError), ([[]], TypeError)]
)
async def test_a_bad_expectation_changes_nothing(purgatory, bad, error):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    with pytest.raises(error, match=r"expect|unhashable"):
        group.expect = bad
    assert group.expect == 2


async def test_a_dismissed_member_ends_and_others_wait_on(purgatory):
    group = Barrier(purgatory, "group", expect={"a", "b"}, timeout=30)
    gone, stays = await arriving(group, "a", "c")
    assert (group.dismiss("a"), group.dismiss("a"), group.dismiss("b")) == (True, False, False)
    assert isinstance(await gone.end(), OperationCancelled)
    assert not stays.done
    assert group.present == ("c",)
    group.expect = {"c"}
    assert (await stays.end()).members == ("c",)
    await arriving(group, "a")
    assert group.dismiss("a")
    assert purgatory.timer.pending == 0, "the last one closes the window"
