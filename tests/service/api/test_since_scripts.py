"""``/v1/wait`` with ``since`` under random scripts: each follower gets each signal once, or knows that it may not."""

from random import Random

import pytest

from purgatory_async.durable.fold.entries import SignalKey
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio

KEYS = ("a", "ab", "abc", "b", "ba", "c")
PREFIXES = ("a", "ab", "b", "c", "x")
STEPS = 400


class Follower:
    """A client that asks again and again, and loses some answers; what it has is compared with what was signalled."""

    def __init__(self, client, random, history):
        self.client, self.random, self.history = client, random, history
        self.keys = random.sample(KEYS, random.randrange(3))
        self.prefixes = random.sample(
            PREFIXES, random.randrange(1 if self.keys else 2, 3) if self.keys else 1
        )
        self.since = "0"
        self.got = self.gaps = 0
        self.request = None

    def wants(self, key):
        return key in self.keys or key.startswith(tuple(self.prefixes))

    def lost(self, before):
        """Whether a signal after an index is beyond what is kept."""
        limits, now_us = self.client.service.fold.shared.limits, self.client.service.state.now_us()
        for key in filter(self.wants, KEYS):
            signals = [(index, at_us) for index, at_us, signalled in self.history if signalled == key]
            kept = [
                index
                for index, at_us in signals[-limits.keep_signals :]
                if at_us + limits.keep_for_us > now_us
            ]
            if any(index > before and index not in kept for index, _ in signals):
                return True
        return False

    def ask(self):
        names = [*(f"key={key}" for key in self.keys), *(f"prefix={prefix}" for prefix in self.prefixes)]
        limit, wait = self.random.choice((1, 3, 256)), self.random.choice((0, 1, 20))
        self.request = self.client.start(
            "GET", f"/v1/wait?{'&'.join(names)}&since={self.since}&limit={limit}&wait={wait}"
        )

    def cut(self):
        """Lose the connection: an answer under way, too, is never read."""
        self.request.hang_up()
        self.request = None

    def read(self):
        """Take over the answer, if there is one: it has all that it should, or says that it may not."""
        if self.request is None or not self.request.answered:
            return
        reply, self.request = self.request, None
        before = int(self.since.rpartition("-")[2])
        if reply.status == 204:
            answer = {"signals": [], "gap": False, "index": int(reply.headers["x-purgatory-index"])}
            self.since = f"{reply.headers['x-purgatory-epoch']}-{answer['index']}"
        else:
            assert reply.status == 200
            answer, self.since = reply.json, reply.json["next"]
        seen = [signal["index"] for signal in answer["signals"]]
        all_of_them = [
            index for index, _, key in self.history if before < index <= answer["index"] and self.wants(key)
        ]
        if answer["gap"]:
            assert seen == [index for index in all_of_them if index in seen]
            # Of a key that is not kept nothing is known but that it may have been signalled up to the floor.
            assert self.lost(before) or self.client.service.fold.signals.floor > before
        else:
            assert seen == all_of_them
        self.got += len(seen)
        self.gaps += answer["gap"]


async def play(client, random, followers, history):
    """One step: some signals or some time, and requests that come, are cut and are answered."""
    what = random.random()
    if what < 0.5:
        for _ in range(random.choice((1, 1, 2, 9))):
            key = random.choice(KEYS)
            client.post(SignalKey(key=key))
            history.append((client.service.fold.position, client.service.fold.at_us, key))
    elif what < 0.7:
        await client.advance(random.choice((0.001, 1, 20)))
    for follower in random.sample(followers, 2):
        if follower.request is None:
            follower.ask()
        elif random.random() < 0.2:
            follower.cut()
    if random.random() < 0.8:
        await settle()
    for follower in random.sample(followers, 6):
        follower.read()


@pytest.mark.parametrize("seed", range(3))
async def test_followers_get_each_signal_once_or_know_of_a_gap(make_client, seed):
    random = Random(seed)
    client = make_client(keep_signals=(1, 4, 64)[seed % 3], keep_for="30s", retention="5s")
    history = []
    followers = [Follower(client, random, history) for _ in range(8)]
    for _ in range(STEPS):
        await play(client, random, followers, history)
    for follower in followers:
        if follower.request is not None:
            follower.cut()
    await settle()
    assert client.service.held.followers.waiting == 0
    assert sum(follower.got for follower in followers) > STEPS
    assert any(follower.gaps for follower in followers)
