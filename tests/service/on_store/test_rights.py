"""Rights that are lost while a request is under way, with a store."""

import asyncio
import json

import pytest

from tests.service.access.tokens_file import bearer, write_tokens
from tests.service.every_request import CHANGES, SAMPLES, furnish

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def test_a_lost_token_changes_nothing_on_a_store(members, tmp_path):
    tokens = write_tokens(tmp_path / "tokens", "ann admin name=ann")
    here = await members.start(tokens=tokens)
    furnish(here, "in-", "ann")
    sent = {}
    for row in CHANGES:
        method, path = row.split()
        headers = [*bearer("ann"), ("content-type", "application/json")]
        if method == "DELETE":
            headers.append(("x-purgatory-position", str(here.service.fold.position + 100)))
        sent[row] = here.start(method, SAMPLES[row].target(path, "in-"), [b""], headers, more=True)
    await asyncio.sleep(0.1)
    write_tokens(tokens, "bob read name=bob")
    here.app.access.reload()
    before = here.service.fold.position
    for row, request in sent.items():
        request.give(json.dumps(SAMPLES[row].content("in-")).encode())
    await asyncio.sleep(0.1)
    answered = {row: request.status for row, request in sent.items() if request.answered}
    assert answered == dict.fromkeys((row for row in CHANGES if not row.startswith("DELETE")), 401)
    assert (here.service.fold.position, here.service.draining) == (before, False)
    await asyncio.sleep(6)  # the others' wait for their position
    assert {request.status for request in sent.values()} == {401}


async def test_what_waits_for_the_store_is_withdrawn_with_its_token(members, tmp_path):
    tokens = write_tokens(tmp_path / "tokens", "ann admin name=ann", "bob admin name=bob")
    here = await members.start(tokens=tokens)
    here.link.late_s = 1.0

    def signal(name, key):
        return here.start("POST", f"/v1/keys/{key}/signal", {}, bearer(name))

    # The first is on its way, so it may happen and does; the others wait behind it.
    sent = signal("ann", "sent")
    await asyncio.sleep(0.5)
    waiting, other = signal("ann", "waits"), signal("bob", "other")
    await asyncio.sleep(0.1)
    write_tokens(tokens, "bob admin name=bob")
    here.app.access.reload()
    await waiting.over
    assert (waiting.status, waiting.slug, sent.answered) == (401, "unauthorized", False)
    await asyncio.gather(sent.over, other.over)
    assert (sent.status, other.status) == (200, 200)
    latest = here.service.fold.signals.latest
    assert [latest(key) is None for key in ("sent", "waits", "other")] == [False, True, False]
