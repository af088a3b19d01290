"""The request path without sockets: every scene is answered, and a message of it is the difference of two runs."""

import pytest

from bench.service.request_probe import KEYS, SCENES, run
from bench.service.sections import instructions
from bench.service.settings import ServiceSettings

pytestmark = pytest.mark.asyncio


# More than there are keys: then polls go on after a key's last signal, and must still be held.
@pytest.mark.parametrize("scene", SCENES)
async def test_a_scene_is_answered_as_often_as_asked(scene):
    await run(scene, KEYS + 2)


async def test_a_refused_request_is_no_measure(monkeypatch):
    monkeypatch.setattr(
        "bench.service.request_probe.request", lambda *_: b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    with pytest.raises(RuntimeError, match=r"must be 2xx within 20 passes, got b'HTTP/1.1 4"):
        await run("health", 1)


@pytest.mark.parametrize(("pending", "scenes"), [(100_000, len(SCENES)), (1_000, 1)])
async def test_a_request_is_the_difference_of_two_runs(monkeypatch, pending, scenes):
    monkeypatch.setattr(instructions, "has_valgrind", lambda: True)
    monkeypatch.setattr(instructions, "count_instructions", lambda command: 9_000_000 + 5 * int(command[-1]))
    settings = ServiceSettings(pending=pending)
    assert [line.ours for line in instructions.lines(settings)] == [5] * scenes
