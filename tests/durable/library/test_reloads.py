"""What calls see when a process loads its state again: it fell behind, or the engine lost its newest entries.

None hangs, and no question is answered twice or asked twice that the state still has.
"""

import asyncio

import pytest

from purgatory_async.client import SignalGap
from purgatory_async.durable.fold.entries import AnswerOperation, SubmitOperation
from tests.durable.library.calls import cancelled, later, refused, start

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])

ASK = {"title": "Go?", "choices": ["yes", "no"]}
WAITS = {
    "ask": lambda here: here.ask("o", "Go?", choices=["yes", "no"]),
    "follow": lambda here: here.follow("o", timeout=500),
    "long": lambda here: here.follow("o"),
}


async def asked(members):
    """A process, with a question."""
    here = await members.open()
    await here.attach("o", ask=ASK, keep="7d")
    return here


def count(members, kind):
    """How many entries of a kind were ever appended."""
    return sum(isinstance(entry, kind) for entry in members.store.decoded())


@pytest.mark.parametrize("call", WAITS)
async def test_a_wait_returns_what_a_reload_brought(members, call):
    here = await asked(members)
    waiting = await start(WAITS[call](here))
    await members.fall_behind(here, lambda other: other.answer("o", "yes", by="ann"))
    ended = await asyncio.wait_for(waiting, 1)
    assert (ended.choice, ended.by) == ("yes", "ann")
    assert count(members, SubmitOperation) == 2  # with the noise


@pytest.mark.parametrize("call", WAITS)
async def test_a_wait_goes_on_after_a_reload(members, call):
    here = await asked(members)
    waiting = await start(WAITS[call](here))
    await members.fall_behind(here, lambda other: other.submit(["k"]))
    await later(1)
    assert not waiting.done()
    other = await members.open()
    await other.answer("o", "no")
    assert (await asyncio.wait_for(waiting, 1)).choice == "no"


async def test_a_wait_of_its_own_goes_on_after_a_reload(members):
    here = await members.open()
    waiting = await start(here.wait("k", timeout=900))
    [name] = here.keeper.fold.operations.by_id
    await members.fall_behind(here, lambda other: other.submit(["k"]))
    await later(1)
    assert not waiting.done()
    await here.complete(name, 7)
    assert (await asyncio.wait_for(waiting, 1)).result == 7


async def test_a_wait_that_expires_in_a_reload_returns_so(members):
    here = await members.open()
    waiting = await start(here.wait("k", timeout=2))
    await members.fall_behind(here, lambda other: later(3), seconds=5)
    assert (await asyncio.wait_for(waiting, 1)).state == "expired"


@pytest.mark.parametrize("call", WAITS)
async def test_a_wait_goes_on_after_a_loss_of_other_entries(members, call):
    here = await asked(members)
    waiting = await start(WAITS[call](here))
    epoch = here.epoch
    await here.submit(operation_id="lost")
    await members.lose(1)
    assert here.epoch != epoch
    assert not waiting.done()
    await refused(here.status("lost"), 404, "unknown-operation")
    other = await members.open()
    await other.answer("o", "yes")
    assert (await asyncio.wait_for(waiting, 1)).choice == "yes"
    assert count(members, SubmitOperation) == 1


async def test_a_question_that_is_lost_is_asked_again_once(members):
    here = await members.open()
    waiting = await start(WAITS["ask"](here))
    lost = next(number for number, kind in enumerate(members.store.kinds()) if kind == "SubmitOperation")
    await members.lose(len(members.store.history[members.store.epoch]) - lost)
    assert count(members, SubmitOperation) == 1
    assert (await here.status("o")).pending
    other = await members.open()
    await other.answer("o", "yes")
    ended = await asyncio.wait_for(waiting, 1)
    assert (ended.choice, ended.attached) == ("yes", False)


@pytest.mark.parametrize("call", ["follow", "long", "own"])
async def test_a_wait_whose_operation_is_lost_says_that_it_is_unknown(members, call):
    here = await members.open()
    calls = {**WAITS, "own": lambda here: here.wait("k")}
    if call != "own":
        await here.submit(operation_id="o")
    waiting = await start(calls[call](here))
    lost = next(number for number, kind in enumerate(members.store.kinds()) if kind == "SubmitOperation")
    await members.lose(len(members.store.history[members.store.epoch]) - lost)
    await refused(asyncio.wait_for(waiting, 1), 404, "unknown-operation")


async def test_a_lost_answer_is_awaited_again(members):
    here, other = await asked(members), await members.open()
    waiting = await start(WAITS["ask"](here))
    here.link.deaf_s = 3
    await other.submit(["noise"])  # is on its way: what comes after it is lost before it is read
    await later(0.1)
    await other.answer("o", "yes")
    members.store.lose(1)
    await later(5)
    assert not waiting.done()
    await other.answer("o", "no")
    assert (await asyncio.wait_for(waiting, 5)).choice == "no"


CHANGES = {
    "submit": lambda here: here.submit(operation_id="p"),
    "attach": lambda here: here.attach("p", ask=ASK),
    "answer": lambda here: here.answer("o", "yes", by="ann"),
    "complete": lambda here: here.complete("o", 1),
    "fail": lambda here: here.fail("o", "why"),
    "reschedule": lambda here: here.reschedule("o", timeout=50),
}


async def reload_under(members, here, change, happen):
    """Let ``here`` append a change, and load the state again before it learns of that; return the change."""
    other, append, sent = await members.open(), here.link.append, asyncio.Event()

    async def late_append(entries):
        await sent.wait()
        return await append(entries)

    here.link.append, here.link.answer_s = late_append, 5
    changing = await start(change(here))
    here.link.deaf_s = 1
    await other.submit(["noise"])  # before the change, and on its way
    await happen(other)
    sent.set()
    await later(0.1)
    await other.caught_up()
    members.trim(other)
    here.link.answer_s = here.link.deaf_s = 0
    here.link.cut()
    await refused(asyncio.wait_for(changing, 2), 503, "store-unavailable")
    assert here.keeper.state.recovery.gaps == 1
    return other


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_under_way_in_a_reload_counts_once(members, change):
    here = await asked(members)
    other = await reload_under(members, here, CHANGES[change], lambda _: later(0))
    if change == "submit":
        await refused(CHANGES[change](here), 409, "duplicate-id")
    else:
        again = await CHANGES[change](here)
        assert again.attached == (change == "attach")
    for name in ("o", "p") if change in {"submit", "attach"} else ("o",):
        shown = [await each.status(name) for each in (here, other)]
        assert len({(each.state, each.by, each.ended_at) for each in shown}) == 1


async def test_two_answers_around_a_reload_are_one(members):
    here = await asked(members)
    other = await reload_under(
        members, here, CHANGES["answer"], lambda other: other.answer("o", "no", by="bob")
    )
    assert count(members, AnswerOperation) == 2
    await refused(here.answer("o", "yes", by="ann"), 409, "already-ended")
    assert [(await each.ask("o", "Go?", choices=["yes", "no"])).by for each in (here, other)] == ["bob"] * 2


async def test_a_position_is_awaited_over_a_reload(members):
    here = await members.open()
    reaching = await start(here.caught_up(here.position + 3))

    async def happen(other):
        await other.submit()
        await other.submit()

    await members.fall_behind(here, happen)
    await asyncio.wait_for(reaching, 1)


async def test_a_wait_cancelled_in_a_reload_leaves_nothing(members):
    here = await asked(members)
    waits = [await start(WAITS[call](here)) for call in WAITS]
    here.link.away = True
    members.store.lose(0)
    await later(2)
    for each in waits:
        await cancelled(each)
    here.link.away = False
    await here.caught_up()
    assert here._open.waits.count == 0


# Signals, items and events.


async def test_a_watch_returns_what_a_reload_brought_or_goes_on(members):
    here = await members.open()
    watching = await start(here.watch("k", 0))
    still = await start(here.watch("other", 0))
    await members.fall_behind(here, lambda other: other.signal("k", 1))
    assert (await asyncio.wait_for(watching, 1)).value == 1
    assert not still.done()
    await here.signal("other", 2)
    assert (await asyncio.wait_for(still, 1)).value == 2


async def test_signals_come_whole_over_a_reload(members):
    here = await members.open()
    signals = here.signals("k")
    reading = await start(anext(signals))

    async def happen(other):
        for value in range(3):
            await other.signal("k", value)

    await members.fall_behind(here, happen)
    values = [(await asyncio.wait_for(reading, 1)).value]
    values += [(await asyncio.wait_for(anext(signals), 1)).value for _ in range(2)]
    assert values == [0, 1, 2]


async def test_lost_signals_are_a_gap(members):
    here = await members.open()
    signals = here.signals("k", since=0)
    await here.signal("k", "kept")
    assert (await anext(signals)).value == "kept"
    await here.signal("k", "lost")
    assert (await anext(signals)).value == "lost"
    reading = await start(anext(signals))
    await members.lose(1)
    with pytest.raises(SignalGap):
        await asyncio.wait_for(reading, 1)
    await here.signal("k", "next")
    assert [(await asyncio.wait_for(anext(signals), 1)).value for _ in range(2)] == ["kept", "next"]


async def test_a_loss_of_other_entries_is_a_gap_for_a_reader_too(members):
    here = await members.open()
    signals = here.signals("k", since=0)
    await here.signal("k", 1)
    assert (await anext(signals)).value == 1
    reading = await start(anext(signals))
    await here.submit(operation_id="lost")
    await members.lose(1)
    await here.signal("k", 2)
    with pytest.raises(SignalGap):  # its place is of the history before
        await asyncio.wait_for(reading, 1)
    assert [(await asyncio.wait_for(anext(signals), 1)).value for _ in range(2)] == [1, 2]


async def test_a_taker_gets_what_it_was_lent_before_a_reload(members):
    here = await members.open()
    taking = [await start(here.take("q", timeout=timeout)) for timeout in (None, 500)]

    async def happen(other):
        await other.put("q", 7)

    await members.fall_behind(here, happen)
    assert (await asyncio.wait_for(taking[0], 1)).item == 7
    assert not taking[1].done()
    await here.put("q", 8)
    assert (await asyncio.wait_for(taking[1], 1)).item == 8


async def test_a_taker_stands_in_line_again_after_a_loss(members):
    here = await members.open()
    taking = await start(here.take("q", timeout=None))
    lost = next(number for number, kind in enumerate(members.store.kinds()) if kind == "WantItem")
    await members.lose(len(members.store.history[members.store.epoch]) - lost)
    assert not taking.done()
    other = await members.open()
    await other.put("q", 7)
    lease = await asyncio.wait_for(taking, 1)
    assert (lease.item, lease.attempts) == (7, 1)
    await here.acknowledge(lease)


async def test_a_taker_goes_on_when_the_store_is_back(members):
    here, other = await members.open(), await members.open()
    taking = await start(here.take("q", timeout=None))
    here.link.away = True
    await later(60)  # its line is lost, as it is silent
    await other.signal("tick")
    assert not other.keeper.fold.queues.takers
    assert not taking.done()
    here.link.away = False
    await later(5)
    await other.put("q", 7)
    assert (await asyncio.wait_for(taking, 2)).item == 7
    assert [each async for each in other.items("q")] == []


async def test_a_stream_of_events_has_a_gap_after_a_loss(members):
    here = await members.open()
    events = here.events()
    reading = await start(anext(events))
    await here.submit(operation_id="o")
    assert (await reading).data["id"] == "o"
    reading = await start(anext(events))
    await members.lose(1)
    assert (await asyncio.wait_for(reading, 1)).kind == "gap"
    await here.submit(operation_id="p")
    assert (await asyncio.wait_for(anext(events), 1)).data["id"] == "p"
    await events.aclose()
