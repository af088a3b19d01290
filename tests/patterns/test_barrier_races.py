"""Members that are cancelled in the pass in which others arrive or the window is over."""

import asyncio

import pytest

from purgatory_async import OperationCancelled, Purgatory, PurgatoryClosed, Timer
from purgatory_async.patterns import Barrier, Generation
from purgatory_async.testing import ManualClock, assert_clean, cancel_sweep, settle
from tests.patterns.guests import Guest, after_passes, each_way
from tests.patterns.test_barrier import arriving, ends, have_gone_on, passing

pytestmark = pytest.mark.asyncio


def arriving_now(barrier, member) -> Guest:
    """A task that arrives in the loop's next pass, also where tasks begin eagerly."""
    guest = Guest.__new__(Guest)
    guest.task = asyncio.Task(guest._stay(barrier.arrive(member)))
    return guest


# A cancellation and the last one to come. Both tasks run in the next pass: in the order in which they were woken.

either_task_first = pytest.mark.parametrize(
    "race",
    [
        pytest.param("cancel_before", id="the cancelled one runs first"),
        pytest.param("cancel_after", id="the last one runs first"),
    ],
)


@each_way
@either_task_first
async def test_cancelled_just_before_the_last_arrival_it_is_absent(race, guest, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    came: list[Guest] = []
    getattr(first, race)(lambda: came.append(arriving_now(group, "c")))
    await settle()
    assert await first.end() == "cancelled"
    assert have_gone_on([other, *came]) == [False, False]
    assert group.present == ("b", "c")
    last = await arriving(group, "d")
    assert await ends([other, *came, *last]) == [Generation(1, ("b", "c", "d"), complete=True)] * 3


@each_way
async def test_cancelled_just_after_the_last_one_came_it_was_there(guest, purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    came: list[object] = []

    def come() -> None:
        with pytest.raises(StopIteration) as returned:
            group.arrive("c").send(None)  # the last one to come does not wait
        came.append(returned.value.value)

    first.cancel_after(come)
    generation = Generation(1, ("a", "b", "c"), complete=True)
    assert await first.end() == ("cancelled" if guest.reached_late else generation)
    assert await other.end() == generation
    assert came == [generation]


@each_way
@either_task_first
async def test_an_expected_member_that_was_just_cancelled_is_missing(race, guest, purgatory):
    group = Barrier(purgatory, "group", expect=["a", "b"], timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("x"))
    await settle()
    came: list[Guest] = []
    getattr(first, race)(lambda: came.append(arriving_now(group, "b")))
    await settle()
    assert have_gone_on([other, *came]) == [False, False]
    again = await arriving(group, "a")
    assert await ends([other, *came, *again]) == [Generation(1, ("x", "b", "a"), complete=True)] * 3
    assert await first.end() == "cancelled"


# A cancellation and the end of the window.


@each_way
async def test_cancelled_just_before_the_window_ends_it_is_absent(guest, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    first.cancel_before(lambda: manual_clock.advance(30))
    assert await first.end() == "cancelled"
    assert await other.end() == Generation(1, ("b",), complete=False)


@each_way
async def test_cancelled_just_after_the_window_is_over_it_was_there(guest, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = guest(group.arrive("a")), Guest(group.arrive("b"))
    await settle()
    first.cancel_after(lambda: manual_clock.advance(30))
    generation = Generation(1, ("a", "b"), complete=False)
    assert await first.end() == ("cancelled" if guest.reached_late else generation)
    assert await other.end() == generation


@each_way
async def test_all_cancelled_before_the_window_ends_make_no_generation(guest, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first = guest(group.arrive("a"))
    await settle()
    first.cancel_before(lambda: manual_clock.advance(30))
    assert await first.end() == "cancelled"
    later = await arriving(group, "b")
    await passing(manual_clock, 30)
    assert await ends(later) == [Generation(1, ("b",), complete=False)]


# A cancellation and the next one to come.


@pytest.mark.parametrize("initial_delay", [0, 20])
async def test_an_arrival_after_all_were_cancelled_opens_a_new_window(initial_delay, purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30, initial_delay=initial_delay)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 15)
    newcomer = arriving_now(group, "c")  # starts first, while the others do not know that they are cancelled
    for guest in guests:
        guest.cancel()
    await settle()
    await passing(manual_clock, (initial_delay or 30) - 0.001)
    assert have_gone_on([newcomer]) == [False]
    await passing(manual_clock, 0.001)
    assert await newcomer.end() == Generation(1, ("c",), complete=False)
    assert await ends(guests) == ["cancelled"] * 2


async def test_an_arrival_after_cancel_for_key_opens_a_new_window(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    guests = await arriving(group, "a", "b")
    await passing(manual_clock, 15)
    newcomer = arriving_now(group, "c")
    purgatory.cancel_for_key("group")
    await settle()
    assert [type(end) for end in await ends(guests)] == [OperationCancelled] * 2
    await passing(manual_clock, 29.999)
    assert have_gone_on([newcomer]) == [False]
    await passing(manual_clock, 0.001)
    assert await newcomer.end() == Generation(1, ("c",), complete=False)


async def test_a_just_cancelled_member_that_returns_comes_last(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = await arriving(group, "a", "b")
    again = arriving_now(group, "a")
    first.cancel()
    await settle()
    assert group.present == ("b", "a")
    assert await first.end() == "cancelled"
    await passing(manual_clock, 30)
    assert await ends([other, again]) == [Generation(1, ("b", "a"), complete=False)] * 2


async def test_a_returning_member_still_gets_its_earlier_cancellation(purgatory):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    again = arriving_now(group, "a")
    purgatory.cancel_for_key("group")
    await settle()
    assert "again" not in str(await first.end())
    other = await arriving(group, "b")
    assert await ends([again, *other]) == [Generation(1, ("a", "b"), complete=True)] * 2


async def test_a_member_returning_during_cancellation_keeps_its_place(purgatory):
    group = Barrier(purgatory, "group", expect=3, timeout=30)
    first, other = await arriving(group, "a", "b")
    again = arriving_now(group, "a")
    asyncio.get_running_loop().call_soon(first.cancel)  # just after it came again
    await settle()
    assert await first.end() == "cancelled"
    last = await arriving(group, "c")
    assert await ends([again, other, *last]) == [Generation(1, ("a", "b", "c"), complete=True)] * 3


# The next generation in the same pass.


async def test_an_arrival_while_others_go_on_is_in_the_next_generation(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    guests = await arriving(group, "a")
    guests += [arriving_now(group, member) for member in ("b", "c", "a")]
    await settle()
    first = Generation(1, ("a", "b"), complete=True)
    second = Generation(2, ("c", "a"), complete=True)
    assert await ends(guests) == [first, first, second, second]


async def test_the_last_arrival_after_the_window_ended_is_too_late(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    last = arriving_now(group, "b")
    manual_clock.advance(30)  # before its first step
    await settle()
    assert await first.end() == Generation(1, ("a",), complete=False)
    assert have_gone_on([last]) == [False]
    await passing(manual_clock, 30)
    assert await last.end() == Generation(2, ("b",), complete=False)


async def test_the_last_arrival_before_the_window_ends_completes_it(purgatory, manual_clock):
    group = Barrier(purgatory, "group", expect=2, timeout=30)
    (first,) = await arriving(group, "a")
    last = arriving_now(group, "b")
    asyncio.get_running_loop().call_soon(manual_clock.advance, 30)
    await settle()
    assert await ends([first, last]) == [Generation(1, ("a", "b"), complete=True)] * 2


# Everywhere.

EVENTS = {
    "the last comes": Generation(1, ("a", "b", "c"), complete=True),
    "the window is over": Generation(1, ("a", "b"), complete=False),
    "the key is cancelled": OperationCancelled,
    "the purgatory is closed": PurgatoryClosed,
}


class Scene:
    """A barrier where one member waits, and what ends its wait."""

    def __init__(self, event: str) -> None:
        self.event = event
        self.clock = ManualClock()
        self.purgatory = Purgatory(timer=Timer(clock=self.clock))
        self.group = Barrier(self.purgatory, "group", expect=3, timeout=30, initial_delay=20)
        self.other = Guest(self.group.arrive("a"))
        self.came: list[Guest] = []
        self.has_happened = False

    def happen(self) -> None:
        self.has_happened = True
        if self.event == "the last comes":
            self.came.append(arriving_now(self.group, "c"))
        elif self.event == "the window is over":
            self.clock.advance(20)
        elif self.event == "the key is cancelled":
            self.purgatory.cancel_for_key("group")
        else:
            self.purgatory.close()

    async def end(self) -> list[object]:
        """How the other one and who came last have ended; nothing may be left."""
        if not self.has_happened:
            self.happen()
        await settle()
        self.clock.advance(30)  # without the cancelled one they may have waited for the window
        ended = await ends([self.other, *self.came])
        assert self.group.present == ()
        assert_clean(self.purgatory)
        assert self.purgatory.timer.pending == 0
        return ended


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("passes", [1, 2, 3, 4, 12])
async def test_a_member_cancelled_at_any_point_disturbs_no_other(event, passes):
    scenes: list[Scene] = []
    outcomes: list[object] = []

    async def scenario() -> None:
        scene = Scene(event)
        scenes.append(scene)
        outcomes.append("cancelled")
        await asyncio.sleep(0)
        after_passes(passes, scene.happen)
        try:
            outcomes[-1] = await scene.group.arrive("b")
        except (OperationCancelled, PurgatoryClosed) as ended:
            outcomes[-1] = type(ended)
        finally:
            assert "b" not in scene.group.present, "it is still there"
            assert scene.purgatory.timer.pending <= scene.purgatory.pending + 1, "a timer of its own is left"

    points = await cancel_sweep(scenario)
    assert points >= 2
    assert len(scenes) == 1 + 2 * points
    whole = EVENTS[event]
    for scene, end in zip(scenes, outcomes, strict=True):
        assert end in ("cancelled", whole)
        ended = await scene.end()
        if isinstance(whole, type):
            assert [type(other) for other in ended[:1]] == [whole]
        elif end == whole:
            assert set(ended) == {whole}
        else:  # it had left, or was let go and cancelled in one pass
            assert len(set(ended)) == 1
            assert ended[0] in (whole, *without(whole, "b"))
    assert outcomes[0] == whole


def without(generation, member) -> list[Generation[str]]:
    """The same generation if a member had left before."""
    others = tuple(other for other in generation.members if other != member)
    return [Generation(generation.number, others, complete=False)]


async def test_cancelled_before_its_first_step_a_member_never_came(purgatory):
    group = Barrier(purgatory, "group", expect=1, timeout=30)
    task = asyncio.Task(group.arrive("a"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await group.arrive("b") == Generation(1, ("b",), complete=True)
