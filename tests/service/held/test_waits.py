"""One-shot waits share their conditions, and no wait can tell."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async.durable.documents import CountNeed
from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.durable.fold.needs import need_for
from purgatory_async.durable.state import Guard
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import VirtualTimeLoop, assert_clean

KEYS = ("a", "b")
WAITS = st.tuples(
    st.just("wait"),
    st.sampled_from([("a",), ("b",), ("a", "b")]),
    st.sampled_from(["any", "all", CountNeed(amount=3), CountNeed(voters=2)]),
)
SIGNALS = st.tuples(
    st.just("signal"), st.sampled_from(KEYS), st.integers(1, 2), st.sampled_from(["x", "y", None])
)
LEAVES = st.tuples(st.just("leave"), st.integers(0, 9))


class AloneWait:
    """A wait that shares nothing: what it has heard since it began."""

    def __init__(self, keys, need):
        self.keys, self.need = keys, need_for(need, keys)
        self.heard, self.over = {}, False

    def hear(self, signal):
        if self.over or signal.view.key not in self.keys:
            return False
        slot = signal.view.key, signal.view.voter
        self.heard.pop(slot, None)
        self.heard[slot] = signal.view
        self.over = self.need.note(signal)
        return self.over


async def play(script):
    """Do the same with the service's waits and with waits that share nothing, and compare after each step."""
    service = HttpService(Settings(jitter=0))
    waits, alone = [], []
    for verb, *details in script:
        if verb == "wait":
            waits.append(service.wait_once(*details, 50.0))
            alone.append(AloneWait(*details))
        elif verb == "leave" and details[0] < len(waits):
            alone[details[0]].over = True
            waits[details[0]].cancel()
        elif verb == "signal":
            key, amount, voter = details
            entry = SignalKey(key=key, amount=amount, **({} if voter is None else {"voter": voter}))
            _, completed = service.signal(entry, Guard())
            newest = service.fold.signals.newest
            assert completed == sum([each.hear(newest) for each in alone])
        for wait, model in zip(waits, alone, strict=True):
            assert (wait.outcome is None) == (not model.over)
            if wait.fulfilled:
                assert wait.condition.signals == tuple(model.heard.values())
    ended = service.metrics.ended
    assert ended["completed"] == sum(wait.fulfilled for wait in waits)
    service.close()
    for purgatory in (service.waits.purgatory, service.waits.conditions):
        assert_clean(purgatory)
    assert sum(ended.values()) == service.metrics.submitted == len(waits)


@example([("wait", ("a",), "any")] * 2 + [("leave", 0), ("signal", "a", 1, None)])
@given(st.lists(st.one_of(WAITS, SIGNALS, LEAVES), max_size=30))
def test_shared_waits_end_as_waits_that_share_nothing(script):
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(play(script))
    finally:
        loop.close()


@pytest.mark.asyncio
async def test_equal_waits_share_a_condition_until_a_signal(client):
    once = client.service.wait_once
    equal = [once(("a", "b"), "all", 9.0) for _ in range(3)]
    other = once(("a", "b"), "any", 9.0)
    assert len({wait.condition for wait in equal}) == 1
    assert client.service.waits.conditions.pending == 2
    client.post(SignalKey(key="a"))
    late = once(("a", "b"), "all", 9.0)
    assert late.condition is not equal[0].condition
    assert (other.fulfilled, late.condition.signals) == (True, ())
    for wait in (*equal, late):
        wait.cancel()
