"""The memory mode and a worker on a store give the same answers."""

import asyncio
import random

import pytest

from tests.service.on_store.scripts import Player, drawn

STEP_S = 0.5  # no sum of timeouts and waits in a script is near a multiple of it


@pytest.mark.asyncio(loop_factories=["virtual"])
@pytest.mark.parametrize("seed", range(8))
async def test_scripts_have_equal_answers_in_memory_and_on_a_log(members, seed):
    services = [await members.in_memory(), await members.start()]
    players = [Player(service) for service in services]
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, step in enumerate(drawn(random.Random(seed), 60, timed=True), 1):
        for player in players:
            player.send(*step)
        await asyncio.sleep(began + number * STEP_S - loop.time())
    plain, logged = [await player.answers() for player in players]
    assert {status for _, status, *_ in plain} >= {200, 201, 202, 404}
    assert logged == plain


@pytest.mark.asyncio(loop_factories=["uvloop"])
@pytest.mark.parametrize("seed", range(3))
async def test_scripts_have_equal_answers_in_memory_and_on_a_file(members, tmp_path, seed):
    players = [Player(await members.in_memory()), Player(await members.on_file(tmp_path / "log.db"))]
    for step in drawn(random.Random(seed), 100, timed=False):
        for player in players:
            await player.send(*step)
    plain, logged = [await player.answers() for player in players]
    assert [what for _, *what in logged] == [what for _, *what in plain]
