"""Hypothesis looks for a story in which a group breaks a promise: joins, syncs, heartbeats, leaves, silence.

The reference keeps when each member was last heard of, and what each leader assigned.
"""

import asyncio
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from purgatory_async import Purgatory, Timer
from purgatory_async.kafka.errors import ProtocolError
from purgatory_async.kafka.groups.coordinator import Coordinator
from purgatory_async.kafka.groups.joining import Joined
from purgatory_async.kafka.groups.members import MemberIdRequiredError
from purgatory_async.kafka.groups.state import GroupState
from purgatory_async.testing import ManualClock, assert_clean, settle
from tests.kafka.groups.consumers import DELAY_S, REBALANCE_S, SESSION_S, a_join
from tests.machines import LoopMachine, explore, on_each_loop

SLOTS = st.integers(0, 3)  # of consumers
SLACK_S = 0.0011  # a tick, and what floats lose


class Consumer:
    """One client: it sends one request at a time, as a connection does.

    Args:
        instance_id: Makes it static.
    """

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.leads = False
        self.heard_at: float | None = None  # None: a request is held, or it is no member
        self.task: asyncio.Task[object] | None = None
        self.sends = ""

    @property
    def held(self) -> bool:
        return self.task is not None


class GroupMachine(LoopMachine):
    """A group, four consumers, and what must hold between any two requests."""

    @initialize(delay=st.sampled_from((0, DELAY_S)), static=st.booleans())
    def begin(self, delay, static) -> None:
        self.open_loop()
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.coordinator = Coordinator(self.purgatory, initial_delay_s=delay)
        self.consumers = [Consumer(f"i{slot}" if static else None) for slot in range(4)]
        self.generations: dict[int, tuple[str, str]] = {}  # leader and protocol, as members were told
        self.last_generation = 0
        self.group = None  # as it was last seen

    def run(self, step) -> None:
        async def play() -> None:
            step()
            await settle()

        self.loop.run_until_complete(play())
        assert not self.reported
        group = self.coordinator.find("g")
        if group is not self.group:  # it was swept away, or made: it counts from 1
            self.group = group
            self.generations.clear()
            self.last_generation = 0
            for consumer in self.consumers:
                consumer.generation = -1
        self.collect()

    # What consumers do. One with a held request can only go away.

    @rule(slot=SLOTS, again=st.booleans(), protocol=st.sampled_from(("range", "sticky")))
    def join(self, slot, again, protocol) -> None:
        consumer = self.consumers[slot]
        if consumer.held:
            return
        if not again:
            consumer.id = ""
        request = a_join(
            member_id=consumer.id,
            instance_id=consumer.instance_id,
            protocols={protocol: b"first", "both": b"second"},
            returns_with_id=True,
        )
        self.run(partial(self.send, consumer, "join", self.coordinator.join, "g", request))

    @rule(slot=SLOTS)
    def sync(self, slot) -> None:
        consumer = self.consumers[slot]
        group = self.coordinator.find("g")
        if consumer.held or group is None:
            return
        assignments = {}
        if consumer.leads and group.state == GroupState.COMPLETING_REBALANCE:
            assignments = {member.id: f"{group.generation}/{member.id}".encode() for member in group.members}
        call = partial(group.sync, instance_id=consumer.instance_id)
        self.run(partial(self.send, consumer, "sync", call, consumer.id, consumer.generation, assignments))

    @rule(slot=SLOTS)
    def heartbeat(self, slot) -> None:
        self.call(slot, "heartbeat")

    @rule(slot=SLOTS)
    def leave(self, slot) -> None:
        self.call(slot, "leave")

    @rule(slot=SLOTS)
    def go_away(self, slot) -> None:
        consumer = self.consumers[slot]
        if consumer.task is not None:
            self.run(consumer.task.cancel)

    @rule(slot=SLOTS, seconds=st.sampled_from((1, SESSION_S / 2, SESSION_S, REBALANCE_S)))
    def time_passes(self, slot, seconds) -> None:
        self.run(partial(self.clock.advance, seconds))

    @rule()
    def all_join_and_sync(self) -> None:
        """Make the long way to a stable group a short one."""
        for request in (self.join, self.join):
            for slot in range(4):
                request(slot, True, "range")
        self.time_passes(0, DELAY_S)
        for slot in range(4):
            self.sync(slot)

    # How they are sent, and what comes back.

    def send(self, consumer, name, call, *arguments) -> None:
        consumer.sends = name
        consumer.heard_at = None
        consumer.task = asyncio.ensure_future(call(*arguments))

    def call(self, slot, name) -> None:
        consumer = self.consumers[slot]
        group = self.coordinator.find("g")
        if consumer.held or group is None:
            return
        numbers = (consumer.generation,) if name == "heartbeat" else ()

        def now() -> None:
            try:
                getattr(group, name)(consumer.id, *numbers, instance_id=consumer.instance_id)
            except ProtocolError as refused:
                if refused.code.name == "rebalance_in_progress":
                    consumer.heard_at = self.clock.time()
                elif refused.code.name in {"unknown_member_id", "fenced_instance_id"}:
                    consumer.id = ""
            else:
                consumer.heard_at = self.clock.time()
            if name == "leave":
                consumer.id, consumer.heard_at = "", None

        self.run(now)

    def collect(self) -> None:
        """Take the answers that came."""
        for consumer in self.consumers:
            task = consumer.task
            if task is None or not task.done():
                continue
            consumer.task = None
            consumer.heard_at = self.clock.time()
            if task.cancelled():
                if consumer.sends == "join" and not consumer.id:
                    consumer.heard_at = None
                continue
            error = task.exception()
            if isinstance(error, MemberIdRequiredError):
                consumer.id = error.member_id
            elif error is not None:
                assert isinstance(error, ProtocolError), error
                if error.code.name in {"unknown_member_id", "fenced_instance_id"}:
                    consumer.id, consumer.heard_at = "", None
            elif consumer.sends == "join":
                self.told_place(consumer, task.result())
            else:
                self.told_assignment(consumer, task.result())

    def told_place(self, consumer, place: Joined) -> None:
        assert place.generation >= consumer.generation, "generations go up"
        consumer.id, consumer.generation = place.member_id, place.generation
        consumer.leads = place.leader_id == place.member_id
        if consumer.instance_id is None:
            told = (place.leader_id, place.protocol_name)
            assert self.generations.setdefault(place.generation, told) == told, "one leader a generation"
        assert bool(place.members) == consumer.leads, "only the leader is told of all members"

    def told_assignment(self, consumer, synced) -> None:
        if synced.assignment:
            generation, member_id = synced.assignment.decode().split("/")
            assert int(generation) == consumer.generation
            assert member_id == consumer.id or consumer.instance_id is not None

    # What must hold.

    @invariant()
    def its_state_fits_its_members(self) -> None:
        group = getattr(self, "group", None)
        if group is None:
            return
        holds = {
            name: sum(each.held and each.sends == name for each in self.consumers)
            for name in ("join", "sync")
        }
        assert (group.state == GroupState.EMPTY) == (not group.members), group
        assert not holds["join"] or group.state == GroupState.PREPARING_REBALANCE, group
        assert not holds["sync"] or group.state == GroupState.COMPLETING_REBALANCE, group
        assert group.generation >= self.last_generation, group
        self.last_generation = group.generation
        self.purgatory.check_invariants()

    @invariant()
    def a_join_waits_only_for_a_member_or_for_the_delay(self) -> None:
        group = getattr(self, "group", None)
        if group is not None and group.state == GroupState.PREPARING_REBALANCE and not group._join.gathers:
            waiting = {each.id for each in self.consumers if each.held}
            known = {member.id for member in group.members} | group.members.pending.keys()
            assert known - waiting, f"{group!r} waits for no one"

    @invariant()
    def silence_ends_a_member_and_a_heartbeat_does_not(self) -> None:
        group = getattr(self, "group", None)
        for consumer in self.consumers if group is not None else ():
            if consumer.heard_at is None or not consumer.id:
                continue
            silent = self.clock.time() - consumer.heard_at
            if silent > SESSION_S + SLACK_S:
                assert group.members.get(consumer.id) is None, f"{consumer.id} is silent for {silent} s"

    def end(self) -> None:
        for slot in range(4):
            self.go_away(slot)
        for _ in range(3):  # sessions, the rebalance that they cause, and the sweep
            self.run(partial(self.clock.advance, 600))
        assert list(self.coordinator) == []
        assert_clean(self.purgatory)
        assert self.purgatory.timer.pending == 0


@on_each_loop(GroupMachine)
def test_no_short_story_breaks_a_promise(machine) -> None:
    explore(machine, examples=40, steps=15)


@pytest.mark.slow
@on_each_loop(GroupMachine)
def test_no_longer_story_breaks_a_promise(machine) -> None:
    explore(machine, examples=100, steps=30)
