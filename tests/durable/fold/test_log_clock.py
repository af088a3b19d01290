"""Timers on the fold's clock: some entries a pass, in the order in which one pass has them, and never by the loop."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import Timer
from purgatory_async.durable.fold.log_clock import LogClock

delays = st.sampled_from((0, 0, 0.0004, 0.001, 0.001, 0.002, 0.3, 70))
trees = st.recursive(st.tuples(delays), lambda some: st.tuples(delays, some, some), max_leaves=8)


class Unlimited(LogClock):
    slice = None


def fired(clock, forest):
    """What is fired in which order, where each may schedule further ones."""
    timer, order = Timer(clock=clock), []

    def schedule(tree, name):
        timer.call_later(tree[0], fire, tree, name)

    def fire(tree, name):
        order.append((name, clock.now_us))
        for nth, branch in enumerate(tree[1:]):
            schedule(branch, f"{name}.{nth}")

    for nth, tree in enumerate(forest):
        schedule(tree, str(nth))
    for at_us in (0, 500, 1_000, 5_000, 400_000, 300_000_000):
        clock.advance_to(at_us)
        order.append(at_us)
    timer.close()
    return order


@given(st.lists(trees, max_size=40))
def test_passes_of_some_fire_in_the_order_of_one_pass(forest):
    assert fired(LogClock(), forest) == fired(Unlimited(), forest)


def test_what_a_pass_leaves_is_not_fired_by_the_loop():
    async def main():
        clock, order = LogClock(), []
        timer = Timer(clock=clock)
        for number in range(3 * LogClock.slice):
            timer.call_later(0.001, order.append, number)
        for number, _ in enumerate(clock.passes(1_000), 1):
            await asyncio.sleep(0)
            assert order == list(range(number * LogClock.slice))
        assert clock.now_us == 1_000
        timer.close()

    asyncio.run(main())
