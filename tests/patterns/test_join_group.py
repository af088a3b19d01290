"""Kafka's JoinGroup on one barrier a group: the first generation, a rebalance, members that leave, the end."""

import asyncio

import pytest

from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


REBALANCE_TIMEOUT = 60.0


INITIAL_DELAY = 3.0


class Group:
    """A coordinator's group: who belongs to it, and one barrier for all its generations."""

    def __init__(self, purgatory):
        self.timeouts: dict[str, float] = {}
        self.generations: list[Generation[str]] = []
        self.barrier = Barrier(
            purgatory, "group", expect=(), timeout=REBALANCE_TIMEOUT, on_release=self.begin
        )
        self.update()

    async def join(self, member, timeout=REBALANCE_TIMEOUT):
        """Join, or join again."""
        self.timeouts[member] = timeout
        self.update()
        return await self.barrier.arrive(member)

    def leave(self, member):
        """Leave, or lose the session."""
        del self.timeouts[member]
        self.update()

    def begin(self, generation):
        """The members are settled, in the releasing call."""
        for member in generation.missing:
            del self.timeouts[member]
        self.generations.append(generation)
        self.barrier.initial_delay = 0
        self.update()

    def update(self):
        """Wait for newcomers while the group is new, else for all that belong to it."""
        if not self.timeouts:
            self.barrier.initial_delay = INITIAL_DELAY
        self.barrier.timeout = max(self.timeouts.values(), default=REBALANCE_TIMEOUT)
        self.barrier.expect = () if self.barrier.initial_delay else self.timeouts


class Members:
    """Their requests, in virtual time."""

    def __init__(self, purgatory, clock):
        self.group = Group(purgatory)
        self.clock = clock

    async def join(self, *members, **settings):
        tasks = [asyncio.create_task(self.group.join(member, **settings)) for member in members]
        await settle()
        return tasks

    async def let_pass(self, seconds):
        self.clock.advance(seconds)
        await settle()


@pytest.fixture
def members(purgatory, manual_clock):
    return Members(purgatory, manual_clock)


async def stable(members, *names):
    """The group has these members, and its first generation."""
    tasks = await members.join(*names)
    await members.let_pass(INITIAL_DELAY)
    assert {(await task).members for task in tasks} == {names}


async def test_newcomers_keep_the_first_generation_waiting(members):
    tasks = await members.join("a")
    for name in ("b", "c"):
        await members.let_pass(2)
        tasks += await members.join(name)
    await members.let_pass(2.999)
    assert [task.done() for task in tasks] == [False] * 3
    await members.let_pass(0.001)
    generations = [await task for task in tasks]
    assert generations == [Generation(1, ("a", "b", "c"), complete=True)] * 3
    assert generations[0].missing == frozenset()


async def test_a_rebalance_ends_when_all_members_have_joined_again(members):
    await stable(members, "a", "b")
    tasks = await members.join("c")
    await members.let_pass(INITIAL_DELAY)
    tasks += await members.join("a")
    assert [task.done() for task in tasks] == [False, False]
    tasks += await members.join("b")
    assert [await task for task in tasks] == [Generation(2, ("c", "a", "b"), complete=True)] * 3


async def test_a_member_that_misses_the_rebalance_is_dropped(members):
    await stable(members, "a", "b", "c")
    tasks = await members.join("a", "c")
    await members.let_pass(REBALANCE_TIMEOUT)
    generation = await tasks[0]
    assert (generation.members, generation.complete, generation.missing) == (("a", "c"), False, {"b"})
    assert {(await task).number for task in await members.join("c", "a")} == {3}


async def test_the_longest_rebalance_timeout_counts(members):
    await stable(members, "a", "b")
    (task,) = await members.join("a", timeout=10)
    await members.let_pass(59.999)  # b still has 60 s
    assert not task.done()
    await members.let_pass(0.001)
    assert (await task).missing == {"b"}
    (task,) = await members.join("a", timeout=10)
    assert (await task).number == 3


async def test_a_newcomer_in_the_releasing_pass_starts_a_rebalance(members):
    """It neither slips into the generation nor makes one of its own."""
    first = asyncio.create_task(members.group.join("a"))
    await settle()
    late: list[asyncio.Task[Generation[str]]] = []
    members.group.barrier.on_release = lambda generation: (
        members.group.begin(generation),
        late.append(asyncio.create_task(members.group.join("b"))),
    )
    members.clock.advance(INITIAL_DELAY)
    await settle()
    assert await first == Generation(1, ("a",), complete=True)
    members.group.barrier.on_release = members.group.begin
    await members.let_pass(INITIAL_DELAY)
    assert not late[0].done()
    (again,) = await members.join("a")
    assert [await late[0], await again] == [Generation(2, ("b", "a"), complete=True)] * 2


async def test_an_empty_group_waits_for_newcomers_again(members):
    await stable(members, "a")
    members.group.leave("a")
    tasks = await members.join("b")
    await members.let_pass(2)
    tasks += await members.join("c")
    await members.let_pass(2.999)
    assert [task.done() for task in tasks] == [False, False]
    await members.let_pass(0.001)
    assert [await task for task in tasks] == [Generation(2, ("b", "c"), complete=True)] * 2
