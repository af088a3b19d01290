"""A request makes its change with the rights of that moment, not of its head; refused, it has changed nothing."""

import asyncio
import json

import pytest

from purgatory_async.durable.fold.checkpoint import digest
from purgatory_async.durable.fold.entries import SignalKey, Tick
from purgatory_async.durable.grants import Permission
from purgatory_async.durable.verbs import queues
from purgatory_async.service.api.routes import ROUTES
from purgatory_async.testing import settle
from tests.service.access.tokens_file import bearer
from tests.service.every_request import CHANGES, SAMPLES, furnish
from tests.service.wire import request

pytestmark = pytest.mark.asyncio

ANN = "ann admin name=ann"
BOB = "bob read name=bob"
ALL = "ann answer,read,wait,signal name=ann"
READS = [row for row in SAMPLES if row.startswith("GET /v1")] + ["GET /metrics", "GET /ui/operations"]


def scope_of(row):
    method, path = row.split()
    return ROUTES[path][method].permission


def without(scope):
    """A line of a token that lost a scope."""
    return f"ann {','.join(sorted({*Permission} - {scope, Permission.ADMIN}))} name=ann"


def ways(row):
    """How a request comes to its change only after its head was let in."""
    return ["position"] if row.startswith("DELETE") else ["position", "body"]  # whose body is not read


class Sent:
    """A request whose body is on its way, or that waits for a position; all names begin with ``in-``."""

    def __init__(self, shop, row, way):
        method, path = row.split()
        sample = SAMPLES[row]
        self.shop, self.way = shop, way
        self.body = b"" if sample.body is None else json.dumps(sample.content("in-")).encode()
        headers = [*bearer("ann"), ("content-type", "application/json")]
        if way == "position":
            headers.append(("x-purgatory-position", str(shop.service.fold.position + 1)))
        given = b"" if way == "body" else self.body
        self.exchange = shop.client.start(
            method, sample.target(path, "in-"), [given], headers, more=way == "body"
        )

    async def go_on(self):
        """Let it come to its change; return its answer, and whether anything changed."""
        if self.way == "body":
            self.exchange.give(self.body)
        else:
            self.shop.client.post(Tick())
        before = self._state()
        await settle()
        assert self.exchange.answered
        return self.exchange, self._state() != before

    def _state(self):
        return digest(self.shop.service.fold), self.shop.service.leaving


async def sent(shop, row, way="body"):
    found = Sent(shop, row, way)
    await settle()
    assert not found.exchange.answered
    return found


@pytest.fixture
def shop(tenants):
    made = tenants(ANN, BOB)
    furnish(made.client, "in-", "ann")
    return made


@pytest.mark.parametrize("row", CHANGES)
async def test_a_change_that_is_refused_has_changed_nothing(shop, row):
    cases = [(ANN, None, 401), (ANN, without(scope_of(row)), 403), (ANN, "ann admin name=eve", 403)]
    if scope_of(row) != "admin":
        # Ids are not told apart from those that do not exist; a PUT brings its keys.
        hidden = ("operations/" in row and not row.startswith("PUT")) or "leases/" in row
        cases.append((ALL, f"{ALL} prefix=out-", 404 if hidden else 403))
    for before, after, status in cases:
        for way in ways(row):
            shop.change(before, BOB)
            request = await sent(shop, row, way)
            shop.change(BOB, *([] if after is None else [after]))
            reply, changed = await request.go_on()
            problem = reply.json["errors"][0] if reply.status == 200 else reply.json
            assert (problem["status"], changed) == (status, False), (after, way)


@pytest.mark.parametrize("row", CHANGES)
async def test_a_change_needs_no_more_than_its_own_rights(shop, row):
    scope = scope_of(row)
    request = await sent(shop, row, ways(row)[-1])
    shop.change(ANN if scope == "admin" else f"ann {scope} name=ann prefix=in-", BOB)
    reply, changed = await request.go_on()
    assert (reply.status, changed) == (SAMPLES[row].status, True)


@pytest.mark.parametrize("row", READS)
async def test_a_lost_token_reads_nothing(shop, row):
    request = await sent(shop, row, "position")
    shop.change(BOB)
    reply, _ = await request.go_on()
    assert (reply.status, reply.slug) == (401, "unauthorized")


async def test_new_limits_are_those_of_the_change(shop):
    request = await sent(shop, "POST /v1/operations")
    shop.change(f"{ANN} max-pending=1", BOB)
    reply, _ = await request.go_on()
    assert (reply.status, reply.json["limit"], shop.service.pending) == (429, "max-pending", 1)


@pytest.mark.parametrize(
    ("row", "body"), [("POST /v1/operations", b"["), ("POST /v1/operations/{id}/complete", b"{}")]
)
async def test_a_refusal_tells_of_no_other_fault(shop, row, body):
    request = await sent(shop, row)
    shop.client.post(SignalKey(key="in-key"))  # which ends the operation
    request.body = body
    shop.change(BOB)
    assert (await request.go_on())[0].status == 401


async def test_a_redrive_that_loses_its_rights_says_what_it_moved(shop, monkeypatch):
    monkeypatch.setattr(queues, "REDRIVEN", 1)
    furnish(shop.client, "in-")
    dead = shop.service.fold.queues.by_name["in-queue.dead"].ready
    redrive = shop.client.start("POST", "/v1/queues/in-queue/redrive", headers=bearer("ann"))
    while len(dead) == 2:  # noqa: ASYNC110 - it says nothing between two steps
        await asyncio.sleep(0)
    shop.change(BOB)
    await settle()
    assert (redrive.status, redrive.json, len(dead)) == (200, {"moved": 1}, 1)


async def test_each_request_on_a_connection_asks_for_its_rights(shop):
    wired = shop.client.server
    link = wired.link()
    ((_, token),) = bearer("ann")
    drain = request("/v1/admin/drain", "POST", b"{}", Authorization=token)
    held = request("/v1/keys/a?wait=5", Authorization=token)
    await link.send(request("/v1/keys/a", Authorization=token), held + drain)  # pipelined behind a held one
    shop.change(BOB)
    await settle()
    await link.send(drain)
    assert [reply.status for reply in link.replies] == [200, 401, 401, 401]
    assert not shop.service.draining
    await link.hang_up()
