"""One-shot waits share their conditions, and no wait can tell."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from purgatory_async.durable.documents import CountNeed, KeyedSignal
from purgatory_async.durable.fold import signal_rules
from purgatory_async.durable.fold.batch import Batch
from purgatory_async.durable.fold.entries import SignalKey, SignalKeys
from purgatory_async.durable.fold.needs import need_for
from purgatory_async.durable.later import at_last
from purgatory_async.durable.state import Guard
from purgatory_async.durable.waiting import waits as one_shot
from purgatory_async.service.http_service import HttpService
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import VirtualTimeLoop, assert_clean, settle

KEYS = ("a", "b")
WAITS = st.tuples(
    st.just("wait"),
    st.sampled_from([("a",), ("b",), ("a", "b")]),
    st.sampled_from(["any", "all", CountNeed(amount=3), CountNeed(voters=2)]),
)
SIGNAL = st.tuples(st.sampled_from(KEYS), st.integers(1, 2), st.sampled_from(["x", "y", None]))
SIGNALS = st.tuples(st.just("signals"), st.lists(SIGNAL, min_size=1, max_size=4))
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


def entry_of(*signals):
    """A signal on its own, or several in one step."""
    bodies = [
        {"key": key, "amount": amount, **({} if voter is None else {"voter": voter})}
        for key, amount, voter in signals
    ]
    if len(bodies) == 1:
        return SignalKey(**bodies[0])
    return SignalKeys(signals=tuple(KeyedSignal(**body) for body in bodies))


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
        elif verb == "signals":
            _, completed = await at_last(service.signal(entry_of(*details[0]), Guard()))
            kept = [signal for known in service.fold.signals.keys.values() for signal in known.signals]
            newest = sorted(kept, key=lambda signal: signal.view.index)[-len(details[0]) :]
            assert completed == sum([each.hear(signal) for signal in newest for each in alone])
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


@pytest.mark.parametrize("few", [0, signal_rules.FEW])
def test_shared_waits_end_as_waits_that_share_nothing(few):
    # With 0, each signal is counted in breaks, as the signals of a batch are.

    @example([("wait", ("a",), "any")] * 2 + [("leave", 0), ("signals", [("a", 1, None)])])
    @given(st.lists(st.one_of(WAITS, SIGNALS, LEAVES), max_size=30))
    def compare(script):
        loop = VirtualTimeLoop()
        try:
            loop.run_until_complete(play(script))
        finally:
            loop.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal_rules, "FEW", few)
        patch.setattr(one_shot, "FEW", few)
        compare()


@pytest.mark.asyncio
async def test_each_condition_is_counted_between_two_breaks(client):
    waits = client.service.waits
    once = [client.service.wait_once(("a",), CountNeed(amount=most), 9.0) for most in range(1, 100)]
    assert waits.crowded
    began = client.start("POST", "/v1/signals", {"signals": [{"key": "a"}] * 40})
    await settle()
    assert began.json["completed"] == 40
    assert [wait.fulfilled for wait in once] == [True] * 40 + [False] * 59
    assert sum(1 for _ in waits.take(Batch([client.service.fold.signals.newest]))) == 59
    for wait in once:
        wait.cancel()
    assert not waits.crowded


@pytest.mark.asyncio
async def test_a_wait_that_leaves_while_it_is_counted_holds_nothing(client):
    waits = client.service.waits
    once = [client.service.wait_once(("a",), CountNeed(amount=most), 9.0) for most in (1, 2, 3)]
    signal = client.service.fold.signals.new(1, SignalKey(key="a", value=Raw(b"1")))
    counting = waits.take(Batch([signal]))
    next(counting)
    for wait in once:
        wait.cancel()
    assert list(counting) == []
    assert waits.heard == 0


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
