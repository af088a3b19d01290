"""Each state of a group x each request: what is answered, and the state after it."""

import asyncio

import pytest

from purgatory_async.kafka.groups.offsets import CommittedOffset
from purgatory_async.kafka.groups.state import TRANSITIONS, GroupState
from purgatory_async.testing import settle
from tests.kafka.groups.consumers import a_join, code_of, sending

STATES = tuple(GroupState)
OFFSETS = {("topic", 0): CommittedOffset(7)}

# For each request, in each state: the answer, and the state then. A member b that the group knows (in Empty and
# Dead: knew) sends it; a leads.
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (state.value for state in GroupState)
TABLE = {
    "join anew": [
        ("none", COMPLETING),
        ("held", PREPARING),
        ("held", PREPARING),
        ("held", PREPARING),
        ("coordinator_not_available", DEAD),
    ],
    "join again": [
        ("unknown_member_id", EMPTY),
        ("none", COMPLETING),
        ("none", COMPLETING),
        ("none", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "join changed": [
        ("unknown_member_id", EMPTY),
        ("none", COMPLETING),
        ("held", PREPARING),
        ("held", PREPARING),
        ("coordinator_not_available", DEAD),
    ],
    "join with another type": [
        ("unknown_member_id", EMPTY),
        ("inconsistent_group_protocol", PREPARING),
        ("inconsistent_group_protocol", COMPLETING),
        ("inconsistent_group_protocol", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "sync": [
        ("unknown_member_id", EMPTY),
        ("rebalance_in_progress", PREPARING),
        ("held", COMPLETING),
        ("none", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "heartbeat": [
        ("unknown_member_id", EMPTY),
        ("rebalance_in_progress", PREPARING),
        ("none", COMPLETING),
        ("none", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "heartbeat of an old generation": [
        ("unknown_member_id", EMPTY),
        ("illegal_generation", PREPARING),
        ("illegal_generation", COMPLETING),
        ("illegal_generation", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "leave": [
        ("unknown_member_id", EMPTY),
        ("none", COMPLETING),
        ("none", PREPARING),
        ("none", PREPARING),
        ("coordinator_not_available", DEAD),
    ],
    "commit": [
        ("unknown_member_id", EMPTY),
        ("none", PREPARING),
        ("rebalance_in_progress", COMPLETING),
        ("none", STABLE),
        ("coordinator_not_available", DEAD),
    ],
    "commit without a group": [
        ("none", EMPTY),
        ("unknown_member_id", PREPARING),
        ("unknown_member_id", COMPLETING),
        ("unknown_member_id", STABLE),
        ("coordinator_not_available", DEAD),
    ],
}


async def a_group_in(state, consumers):
    """A group in this state, and the id of its member b."""
    a, b = await consumers.completing("a", "b")
    group = consumers.group
    if state == COMPLETING:
        return group, b
    await consumers.sync(a)
    if state == PREPARING:
        await consumers.join("a", member_id=a)
    elif state == EMPTY:
        group.leave(a)
        group.leave(b)
    elif state == DEAD:
        consumers.coordinator.close()
    return group, b


CHANGED = {"range": b"other topics"}
# Of the group, and the id of b.
REQUESTS = {
    "join anew": lambda group, b: group.join(a_join("c")),
    "join again": lambda group, b: group.join(a_join("b", member_id=b)),
    "join changed": lambda group, b: group.join(a_join("b", member_id=b, protocols=CHANGED)),
    "join with another type": lambda group, b: group.join(a_join("b", member_id=b, protocol_type="connect")),
    "sync": lambda group, b: group.sync(b, group.generation, {}),
    "heartbeat": lambda group, b: group.heartbeat(b, group.generation),
    "heartbeat of an old generation": lambda group, b: group.heartbeat(b, group.generation - 1),
    "leave": lambda group, b: group.leave(b),
    "commit": lambda group, b: group.commit(b, group.generation, OFFSETS),
    "commit without a group": lambda group, b: group.commit("", -1, OFFSETS),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("state", STATES)
async def test_each_state_answers_each_request(consumers, name, state):
    group, b = await a_group_in(state, consumers)
    assert group.state == state
    task = asyncio.create_task(sending(REQUESTS[name], group, b))
    answer = await code_of(task)
    assert (answer, group.state) == TABLE[name][STATES.index(state)]
    if name.startswith("commit"):
        assert bool(group.offsets) == (answer == "none")
    consumers.coordinator.close()
    await settle()
    assert task.done()


def test_only_dead_has_no_state_after_it():
    assert [state for state in STATES if not TRANSITIONS[state]] == [GroupState.DEAD]


@pytest.mark.asyncio
@pytest.mark.parametrize("state", STATES)
async def test_a_transition_that_is_not_in_the_table_raises(consumers, state):
    group, _ = await a_group_in(state, consumers)
    for other in STATES:
        if other not in TRANSITIONS[group.state]:
            with pytest.raises(RuntimeError, match=f"must enter one of .*, got {other}"):
                group._enter(other)
    assert group.state == state
