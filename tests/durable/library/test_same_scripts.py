"""Whatever carries them, verbs give the same: random scripts, played at the same virtual time on two carriers."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings

from purgatory_async.testing import VirtualTimeLoop
from tests.durable.library.carriers import CARRIERS
from tests.durable.library.scripts import SCRIPTS, Earlier, Player, Step

PAIRS = [("memory", "served"), ("log", "served")]


async def played(script, pair, folder, spoil=lambda verbs: verbs):
    """Play a script on both carriers, and compare what each step gives; ``spoil`` changes the second one's verbs."""
    async with AsyncExitStack() as stack:
        carriers = [CARRIERS[name](folder, stack) for name in pair]
        one, two = [await each.open(retention=60) for each in carriers]
        players = [Player(one), Player(spoil(two))]
        for number, step in enumerate(script):
            one, two = await asyncio.gather(*(player.play(step) for player in players))
            assert one == two, f"step {number}: {step}"
        one, two = await asyncio.gather(*(player.end() for player in players))
        assert one == two, "what waited in the background"


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("examples", [25, pytest.param(1000, marks=pytest.mark.slow)], ids=["few", "many"])
def test_a_script_gives_the_same_on_both(pair, examples, tmp_path):
    @settings(max_examples=examples)
    @given(SCRIPTS)
    def play(script):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(played(script, pair, tmp_path))

    play()


class _Spoiled:
    """Verbs of which one does otherwise."""

    def __init__(self, verbs, verb, spoil):
        self._verbs = verbs
        setattr(self, verb, lambda *arguments, **options: spoil(getattr(verbs, verb), *arguments, **options))

    def __getattr__(self, name):
        return getattr(self._verbs, name)


LEASE = Earlier("lease", 0)
TAKEN = [Step("put", ("q", 1), {}), Step("take", ("q",), {})]
PLANTED = {
    "a delay that is ignored": (
        [*TAKEN, Step("give_back", (LEASE,), {"delay": 4}), Step("take", ("q",), {})],
        *("give_back", lambda verb, lease, **_: verb(lease)),
    ),
    "a default of its own": ([*TAKEN], *("take", lambda verb, queue, **_: verb(queue, lease=60))),
    "a time that is too long": (
        [Step("submit", (["k"],), {"timeout": 4}), Step("later", (4,), {}), Step("operations", (), {})],
        *("submit", lambda verb, keys, **_: verb(keys, timeout=4.002)),
    ),
    "a sentence of its own": (
        [Step("read", ("k",), {}), Step("status", ("o",), {})],
        *("status", lambda verb, name: verb(name + "x")),
    ),
    "a wait that ends too soon": (
        [Step("submit", (["k"],), {"operation_id": "o"}), Step("follow", ("o",), {}, background=True)],
        *("follow", lambda verb, name: verb(name, timeout=5)),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(fault, tmp_path):
    script, *spoiled = PLANTED[fault]
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(played(script, PAIRS[0], tmp_path))
    with (
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
        pytest.raises(AssertionError, match=r"^(step \d|what waited)"),
    ):
        runner.run(played(script, PAIRS[0], tmp_path, lambda verbs: _Spoiled(verbs, *spoiled)))
