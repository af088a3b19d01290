"""The feed: which events it keeps, for how long, and at what cost."""

import datetime as dt
import gc
import random
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import Purgatory, Timer
from purgatory_async.durable.fold.entries import SubmitOperation
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.operations import Operation
from purgatory_async.durable.waiting import feed as feed_module
from purgatory_async.durable.waiting.feed import CHUNK, KEPT, MAX_KEPT, Feed
from purgatory_async.events import KeySignalled, Observers
from purgatory_async.testing import ManualClock
from tests.service.held.event_reading import events_in

EPOCH = "0123456789abcdef"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class World:
    """A feed of one purgatory, on a clock whose wall time moves with it."""

    def __init__(self):
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock)
        self.fold = Fold(zero_us=int(NOON.timestamp()) * 1_000_000)
        self.epoch = EPOCH
        self.feed = Feed(self.timer, self)
        self.purgatory = Purgatory(timer=self.timer, observer=Observers(self.feed))

    def submit(self, *keys, known_as="op", timeout=None):
        self.fold.position += 1
        order = SubmitOperation(id=known_as, keys=keys)
        operation = Operation(self.fold.operations, order, self.fold.position, 0, timeout)
        self.purgatory.try_complete_else_watch(operation, keys)
        return operation

    def signal(self, key="k", times=1):
        for _ in range(times):
            self.fold.position += 1
            self.purgatory.check_and_complete(key)

    def all_after(self, number):
        """Everything a reader gets, in as many readings as it takes; each within its bound."""
        pieces = []
        while True:
            piece, last = self.feed.read(number)
            if not piece:
                assert last == number
                return events_in(b"".join(pieces))
            assert len(piece) < CHUNK + MOST_PER_EVENT
            pieces.append(piece)
            number = last

    def close(self):
        self.purgatory.close()
        self.feed.close()


MOST_PER_EVENT = 200 + 64 * (2 * 512 + 3)  # 64 keys of 512 bytes, each of which is escaped


@pytest.fixture
def world():
    world = World()
    yield world
    world.close()


def signalled(key, at_ns=0):
    return KeySignalled(key=key, completed=0, at_ns=at_ns)


def test_an_event_has_the_wall_clock_time_of_its_occurrence(world):
    world.clock.advance(1.2345)
    world.submit("a", timeout=2.0)
    world.clock.advance(2)
    world.clock.advance(3600)
    submitted, ended = world.all_after(0)
    assert submitted.data["at"] == "2026-01-01T12:00:01.234000Z"
    assert ended.data["at"] == "2026-01-01T12:00:03.235000Z"  # to the tick
    assert (ended.data["state"], ended.data["elapsed"]) == ("expired", pytest.approx(2, abs=0.001))


def test_an_event_holds_no_operation(world):
    operation = world.submit("a")
    alive = weakref.ref(operation)
    operation.cancel()
    del operation
    gc.collect()
    assert alive() is None
    assert len(world.all_after(0)) == 2


@pytest.mark.parametrize(
    "key", ["\n", "\r", "\r\n\r\n", "a\n\ndata: 1\n\n", "\0", '"', "\\", "\u2028", "\u0085"]
)
def test_no_key_can_break_out_of_its_line(world, key):
    world.feed.notify(signalled(key))
    (event,) = world.all_after(0)
    assert event.data["keys"] == [key]


@pytest.mark.parametrize("times", [1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT + 7])
def test_the_last_ten_thousand_are_kept_and_no_more(world, times):
    world.signal(times=times)
    oldest = max(1, times - KEPT + 1)
    assert [event.number for event in world.all_after(oldest - 1)] == list(range(oldest, times + 1))
    if oldest > 1:
        gap, first, *_ = world.all_after(0)
        assert gap == (
            oldest - 1,
            "gap",
            {"next": f"{EPOCH}-{oldest}.1", "missed": oldest - 1},
        )
        assert first.number == oldest
    assert world.feed.newest == times


def test_a_reader_anywhere_sees_what_a_plain_list_would_tell(world, monkeypatch):
    dice, sent = random.Random(3), []
    monkeypatch.setattr(feed_module, "KEPT", 50)
    world.feed._ring = [None] * 50
    for _ in range(600):
        key = f"k{dice.randrange(9)}"
        world.signal(key)
        sent.append(key)
        after = dice.randrange(len(sent) + 1)
        events = world.all_after(after)
        if after < len(sent) - 50:
            gap = events.pop(0)
            assert (gap.name, gap.data["missed"]) == ("gap", len(sent) - 50 - after)
            after = len(sent) - 50
        assert [event.data["keys"][0] for event in events] == sent[after:]
        assert [event.number for event in events] == list(range(after + 1, len(sent) + 1))


def test_long_keys_evict_older_events_early(world):
    world.signal("first")
    keys = tuple(f"{number:02d}" + "x" * 510 for number in range(64))
    most = MAX_KEPT // (64 * 512 + 128)
    for _ in range(most // 2 + 10):
        world.submit(*keys).cancel()
    kept = [text for text in world.feed._ring if text is not None]
    assert len(kept) == most
    gap, *events = world.all_after(1)
    assert gap.data["next"].startswith(f"{EPOCH}-")
    assert gap.data["missed"] > 0
    assert len(events) == most
    world.signal("short", times=KEPT)  # they make room for as many short ones as ever
    assert len(world.all_after(world.feed.newest - KEPT)) == KEPT
    assert world.feed.size == (128 + 5) * KEPT


def test_what_one_reader_has_read_costs_the_next_nothing(world, monkeypatch):
    encoded = []
    monkeypatch.setattr(
        world.feed, "_sse", lambda place, name, data: encoded.append(place[0]) or b"id: %d\n\n" % place[0]
    )
    world.signal(times=100)
    assert encoded == []  # no reader yet
    readings = [world.feed.read(number)[0] for number in (0, 50, 0, 99)]
    assert readings[0] == readings[2]
    assert readings[0].endswith(readings[1])
    assert sorted(encoded) == list(range(1, 101))


def test_readers_at_the_same_place_share_one_text(world):
    world.signal(times=100)
    assert world.feed.read(7)[0] is world.feed.read(7)[0]


def test_a_reading_is_bounded(world):
    world.signal(times=KEPT)
    piece, last = world.feed.read(0)
    assert CHUNK <= len(piece) < CHUNK + 200
    assert events_in(piece)[-1].number == last < KEPT


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 40))
def test_whatever_happens_is_read_as_it_happened(keys, after):
    world = World()
    for key in keys:
        world.fold.position += 1
        world.feed.notify(signalled(key))
    number = world.feed.number_of(f"{EPOCH}-{after}.{min(after, 1)}")
    events = [event for event in world.all_after(number) if event.name != "gap"]
    assert [event.data["keys"] for event in events] == [
        [key] for key in keys[after if after <= len(keys) else 0 :]
    ]
    world.close()


def test_its_repr_says_where_it_is(world):
    world.signal(times=3)
    assert repr(world.feed) == "<Feed newest=3 oldest=1 waiting=0>"
