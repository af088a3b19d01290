"""Every request with every kind of token: whose it may use, see and change, by one table."""

from itertools import chain, combinations, count
from typing import NamedTuple

import pytest

from purgatory_async.service.api.page import MODULES
from purgatory_async.testing import settle
from tests.service.access.tokens_file import bearer
from tests.service.every_request import SAMPLES, furnish, routes

# Without tasks that compete, so one kind of loop is enough.
pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])

OPEN, NAME, SEE, ANSWER, CHANGE, ALL = "open", "name", "see", "answer", "change", "all"
"""What a request is about: nothing guarded; names, which a prefix must cover; what its token must see, may answer or
may change; or whatever there is."""

TABLE = {
    "GET /v1/operations": ("read", NAME),
    "POST /v1/operations": ("wait", NAME),
    "GET /v1/operations/{id}": ("read wait answer", SEE),
    "PUT /v1/operations/{id}": ("wait", NAME),
    "DELETE /v1/operations/{id}": ("wait", CHANGE),
    "POST /v1/operations/{id}/complete": ("answer", ANSWER),
    "POST /v1/operations/{id}/fail": ("answer", ANSWER),
    "POST /v1/operations/{id}/answer": ("answer", ANSWER),
    "POST /v1/operations/{id}/reschedule": ("wait", CHANGE),
    "POST /v1/operations/{id}/forget": ("wait", CHANGE),
    "POST /v1/operations/{id}/links": ("answer", ANSWER),
    "GET /v1/keys/{key}": ("read", NAME),
    "POST /v1/keys/{key}/signal": ("signal", NAME),
    "POST /v1/signals": ("signal", NAME),
    "GET /v1/wait": ("wait", NAME),
    "GET /v1/queues": ("read", NAME),
    "GET /v1/queues/{queue}": ("read", NAME),
    "PUT /v1/queues/{queue}": ("admin", ALL),
    "DELETE /v1/queues/{queue}": ("admin", ALL),
    "GET /v1/queues/{queue}/items": ("read", NAME),
    "POST /v1/queues/{queue}/items": ("signal", NAME),
    "POST /v1/queues/{queue}/take": ("wait", NAME),
    "POST /v1/queues/{queue}/purge": ("admin", ALL),
    "POST /v1/queues/{queue}/redrive": ("admin", ALL),
    "GET /v1/leases": ("read wait", NAME),
    "POST /v1/leases/ack": ("wait", CHANGE),
    "POST /v1/leases/return": ("wait", CHANGE),
    "POST /v1/leases/{id}/ack": ("wait", CHANGE),
    "POST /v1/leases/{id}/return": ("wait", CHANGE),
    "POST /v1/leases/{id}/extend": ("wait", CHANGE),
    "GET /v1/events": ("read", ALL),
    "POST /v1/admin/drain": ("admin", ALL),
    "GET /v1/admin/stats": ("admin", ALL),
    "GET /healthz": ("", OPEN),
    "GET /readyz": ("", OPEN),
    "GET /metrics": ("read", ALL),
    "GET /": ("", OPEN),
    "GET /ui": ("", OPEN),
    "GET /ui/": ("", OPEN),
    "GET /ui/app.js": ("", OPEN),
    **{f"GET /ui/{name}": ("", OPEN) for name in MODULES},
    "GET /ui/style.css": ("", OPEN),
    "GET /ui/feed": ("read", ALL),
    "GET /a/style.css": ("", OPEN),
    "GET /a/{token}": ("", OPEN),
    "POST /a/{token}": ("", OPEN),
    "GET /ui/operations": ("read", ALL),
    "GET /ui/questions": ("read", ALL),
    "GET /openapi.json": ("", OPEN),
}
"""Which scopes let a request in, each by itself, and what it is about; `admin` does everything."""

LISTS = {
    "/v1/operations": "{}op",
    "/v1/queues": "{}queue",
    "/v1/leases": "{}lease",
    "/ui/operations": "{}op",
    "/ui/questions": "{}op",
    "/ui/feed": "{}key",
}
"""The lists that name what there is, and what they show of it."""


class Kind(NamedTuple):
    """A kind of token: its scopes, and whether its names must begin with ``in-``; without scopes it is unknown."""

    scopes: frozenset[str]
    bound: bool = False

    @property
    def line(self):
        option = " prefix=in-" if self.bound else ""
        return f"{self.name} {','.join(sorted(self.scopes))} name=ann{option}"

    @property
    def name(self):
        return ".".join(sorted(self.scopes)) + (".bound" if self.bound else "")


SCOPES = ("read", "wait", "signal", "answer")
SETS = chain.from_iterable(combinations(SCOPES, size) for size in range(1, 5))
KNOWN = [Kind(frozenset(scopes), bound) for scopes in SETS for bound in (False, True)]
KNOWN.append(Kind(frozenset({*SCOPES, "admin"})))
UNKNOWN = [None, Kind(frozenset())]
PLACES = [(owner, inside) for owner in ("ann", "bob") for inside in (True, False)]


def expected(row, kind, owner, *, inside):
    """The status that the table gives for what an owner made inside the prefix or not."""
    scopes, about = TABLE[row]
    good = SAMPLES[row].status
    if about == OPEN or (kind is not None and "admin" in kind.scopes):
        return good
    if kind is None or not kind.scopes:
        return 401
    if not kind.scopes & set(scopes.split()):
        return 403
    covered = inside or not kind.bound
    if about in {NAME, ANSWER}:
        return good if covered else 403 if about == NAME else 404
    seeing = {"read", "answer"} if "/operations/" in row else {"read"}
    if about in {SEE, CHANGE} and not (covered and (owner == "ann" or kind.scopes & seeing)):
        return 404
    return 403 if about == CHANGE and owner != "ann" else good


class Shop:
    """A service with one token of each kind."""

    def __init__(self, tenants):
        self.client = tenants(*(kind.line for kind in KNOWN)).client
        self._numbers = count()

    def furnish(self, owner, *, inside):
        start = f"{'in' if inside else 'out'}-{next(self._numbers)}-"
        furnish(self.client, start, owner)
        return start

    async def ask(self, kind, method, target, body=None):
        """Send a request with a token of a kind; a stream is left at once."""
        headers = [] if kind is None else bearer(kind.name or "unknown")
        exchange = self.client.start(method, target, body, headers)
        await settle()
        if exchange.started and not exchange.answered:
            exchange.hang_up()
            await settle()
        return exchange

    @property
    def position(self):
        return self.client.service.fold.position


@pytest.fixture
def shop(tenants):
    return Shop(tenants)


def status_of(reply):
    """The status; for a batch of one, its error's."""
    errors = reply.json.get("errors") if reply.status == 200 and reply.body.startswith(b'{"done"') else None
    return errors[0]["status"] if errors else reply.status


async def test_every_route_has_a_row():
    assert set(TABLE) == routes()


@pytest.mark.parametrize("row", TABLE)
async def test_a_request_may_do_what_the_table_says(shop, row):
    method, path = row.split()
    sample = SAMPLES[row]
    for kind in (*UNKNOWN, *KNOWN):
        for owner, inside in PLACES:
            start = shop.furnish(owner, inside=inside)
            before = shop.position
            reply = await shop.ask(kind, method, sample.target(path, start), sample.content(start))
            wanted = expected(row, kind, owner, inside=inside)
            assert status_of(reply) == wanted, (kind, owner, inside, reply.body)
            if wanted >= 400:
                assert shop.position == before
                assert b'"pending"' not in reply.body


@pytest.mark.parametrize("path", [row.split()[1] for row in TABLE if row.startswith("GET")])
async def test_head_may_do_what_get_may(shop, path):
    row = f"GET {path}"
    for kind in (*UNKNOWN, *KNOWN):
        reply = await shop.ask(kind, "HEAD", SAMPLES[row].target(path, shop.furnish("bob", inside=False)))
        assert (reply.status, reply.body) == (expected(row, kind, "bob", inside=False), b"")


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_shows_what_its_token_may_see(shop, path):
    scopes, _ = TABLE[f"GET {path}"]
    starts = {place: shop.furnish(place[0], inside=place[1]) for place in PLACES}
    await shop.client.advance(1)  # the figures of the dashboard are of the last second
    for kind in KNOWN:
        reply = await shop.ask(kind, "GET", path)
        may = bool(kind.scopes & {*scopes.split(), "admin"})
        assert reply.status == (200 if may else 403)
        for (owner, inside), start in starts.items():
            covered = inside or not kind.bound
            shown = f'"{LISTS[path]}"'.replace("{}", start).encode() in reply.body
            seen = covered and (owner == "ann" or "read" in kind.scopes)
            assert shown == (may and seen), (kind, owner, inside)
