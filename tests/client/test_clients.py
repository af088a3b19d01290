"""Both clients: they have the same verbs, and the async one speaks to the application itself in virtual time."""

import asyncio
import inspect

import anyio
import httpx2
import pytest

from purgatory_async import Timer
from purgatory_async.client import AsyncClient, Client, Policy, RequestRefused, ServiceUnreachable
from purgatory_async.client._events import SILENCE
from purgatory_async.service.app import create_app
from purgatory_async.service.held import stream
from purgatory_async.service.settings.settings import Settings
from purgatory_async.testing import ManualClock, assert_clean, settle

PATIENCE = 60.0  # seconds of real time; in virtual time a client that is never answered waits for ever


class Wire(httpx2.ASGITransport):
    """Carries requests to an application; loses chosen answers, after they were carried out."""

    def __init__(self, app):
        super().__init__(app, raise_app_exceptions=True)
        self.requests = []
        self.lose = 0
        self.stall = False
        self.turns = 0  # of the loop, until a request arrives

    async def handle_async_request(self, request):
        self.requests.append(request)
        for _ in range(self.turns):
            await asyncio.sleep(0)
        response = await super().handle_async_request(request)
        if self.stall:
            self.stall = False
            await asyncio.get_running_loop().create_future()
        if self.lose:
            self.lose -= 1
            raise httpx2.ReadError("lost")
        return response


class Served:
    """A service in virtual time and a client of it."""

    def __init__(self, *, token=None, **settings):
        self.clock = ManualClock()
        timer = Timer(clock=self.clock)
        self.app = create_app(Settings(**{"jitter": 0, **settings}), timer=timer)
        self.service = self.app.service
        self.wire = Wire(self.app)
        self.pauses = []
        policy = Policy(poll=10.0, slack=5.0, clock=self.clock.time, draw=lambda: 1.0)
        self.client = AsyncClient(
            "http://localhost", token=token, policy=policy, transport=self.wire, sleep=self._sleep
        )

    async def _sleep(self, seconds):
        self.pauses.append(seconds)
        await self.service.timer.sleep(seconds)

    async def advance(self, seconds):
        self.clock.advance(seconds)
        await settle()

    async def start(self, call):
        task = asyncio.get_running_loop().create_task(call)
        await settle()
        return task

    @property
    def pending(self):
        return self.service.pending

    async def aclose(self):
        await self.client.aclose()
        await settle()
        assert self.service.held.requests.count == 0
        self.service.close()
        assert_clean(self.service.fold.operations.purgatory)


def served(test):
    """Run a test with a service, and check that it leaves nothing behind."""

    async def run():
        each = Served()
        async with asyncio.timeout(PATIENCE):
            await test(each)
        await each.aclose()

    run.__name__ = test.__name__
    return pytest.mark.asyncio(run)


def public(kind):
    renamed = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
    return {
        renamed.get(name, name): method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name in renamed or name in renamed.values()
    }


def test_both_clients_have_the_same_verbs_but_work():
    assert {"work", *public(Client)} == public(AsyncClient).keys()
    assert len(public(Client)) >= 18


@pytest.mark.parametrize("name", sorted(public(Client)))
def test_a_verb_takes_the_same_in_both_clients(name):
    blocking, awaiting = (inspect.signature(public(kind)[name]) for kind in (Client, AsyncClient))
    assert blocking.parameters == awaiting.parameters
    returned = str(awaiting.return_annotation).replace("Async", "")
    assert returned == str(blocking.return_annotation)


def test_a_stream_allows_the_silence_of_three_keepalives():
    assert SILENCE >= 3 * stream.SILENCE


@served
async def test_an_operation_is_submitted_signalled_and_followed(each):
    client = each.client
    operation = await client.submit(["a", "b"], need="all", data={"n": 1}, operation_id="mine")
    assert (operation.id, operation.pending, operation.data) == ("mine", True, {"n": 1})
    following = await each.start(client.follow("mine"))
    assert await client.signal("a", "first") == 0
    assert (await client.status("mine")).waiting_for == {"all": ["b"]}
    assert await client.signal("b", {"second": 2}) == 1
    ended = await following
    assert ended.state == "completed"
    assert [signal["value"] for signal in ended.signals] == ["first", {"second": 2}]


@served
async def test_completing_or_cancelling_by_hand_can_be_repeated(each):
    client = each.client
    for name in ("one", "two"):
        await client.submit(["k"], operation_id=name)
    assert (await client.complete("one", None)).state == "completed"
    assert [(await client.cancel("two")).state for _ in range(2)] == ["cancelled", "cancelled"]
    with pytest.raises(RequestRefused) as refused:
        await client.complete("two")
    assert refused.value.slug == "already-ended"
    assert refused.value.document["operation"]["state"] == "cancelled"


@served
async def test_an_amount_and_votes_are_counted(each):
    client = each.client
    await client.submit(["k"], need={"amount": 5}, operation_id="amount")
    await client.submit(["k"], need={"voters": 2}, operation_id="votes")
    assert await client.signal("k", amount=3, voter="a") == 0
    assert await client.signal("k", amount=2, voter="a") == 1
    assert await client.signal("k", voter="b") == 1


@pytest.mark.slow
@served
async def test_pending_operations_are_listed_over_pages_of_a_thousand(each):
    client = each.client
    for number in range(1001):
        await client.submit(["k"], operation_id=f"o{number}")
    await client.submit(["other"], operation_id="other")
    each.wire.requests.clear()
    assert [each.id async for each in client.operations("k")] == [f"o{number}" for number in range(1001)]
    assert len(each.wire.requests) == 2


@served
async def test_a_key_is_read_and_watched(each):
    client = each.client
    assert (await client.read("a/../b")).index == 0
    watching = await each.start(client.watch("a/../b", 0))
    await client.signal("a/../b", "v")
    state = await watching
    assert (state.key, state.index, state.value) == ("a/../b", 1, "v")
    assert await client.read("a/../b") == state
    late = await each.start(client.watch("a/../b", 1, timeout=15.0))
    await each.advance(10)
    await each.advance(5)
    assert await late is None


@pytest.mark.parametrize("key", [".", ".."])
@pytest.mark.asyncio
async def test_a_key_of_dots_is_refused_and_reaches_no_other_path(key):
    each = Served()
    with pytest.raises(RequestRefused) as refused:
        await each.client.signal(key)
    assert refused.value.slug == "bad-key"
    await each.aclose()


@served
async def test_items_are_put_taken_returned_and_acknowledged(each):
    client = each.client
    assert await client.take("q") is None
    taking = await each.start(client.take("q", lease=60.0, timeout=None))
    await each.advance(10)
    assert await client.put("q", {"n": 1}) is True
    lease = await taking
    assert (lease.item, lease.expires_in) == ({"n": 1}, 60.0)
    assert await client.put("q", "second") is False
    await client.give_back(lease)
    again = await client.take("q")
    assert again.item == {"n": 1}
    await client.acknowledge(again.id)
    with pytest.raises(RequestRefused) as refused:
        await client.acknowledge(again)
    assert refused.value.slug == "lease-expired"
    await client.acknowledge(await client.take("q"))


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.asyncio
async def test_a_take_that_is_cancelled_under_its_answer_gives_back(batch):
    each = Served()
    await each.client.put("q", 1)
    each.wire.stall = True
    taking = await each.start(each.client.take_batch("q", 5) if batch else each.client.take("q"))
    assert (await each.client.queue("q")).leased == 1
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert (await each.client.queue("q")).items == 1
    held = await each.start(each.client.take("empty", timeout=None))
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert await each.client.put("empty", 1) is False
    assert (await each.client.take("empty")).attempts == 1
    await each.aclose()


@served
async def test_a_drained_service_refuses_waits_after_the_patience(each):
    client = each.client
    await client.drain()
    assert (await client.stats())["draining"] is True
    submitting = await each.start(client.submit(["k"]))
    for _ in range(40):
        await each.advance(1)
    with pytest.raises(RequestRefused) as refused:
        await submitting
    assert refused.value.slug == "draining"


@served
async def test_a_wait_longer_than_a_poll_polls_until_the_end(each):
    waiting = await each.start(each.client.wait("k", timeout=35.0))
    for _ in range(3):
        await each.advance(10)
    assert not waiting.done()
    await each.advance(5)
    assert (await waiting).state == "expired"
    polls = [request.url.params["wait"] for request in each.wire.requests if "wait" in request.url.params]
    assert polls == ["10000ms"] * 4


@served
async def test_a_wait_without_a_timeout_lasts_until_it_is_signalled(each):
    waiting = await each.start(each.client.wait("k"))
    for _ in range(30):
        await each.advance(10)
    await each.client.signal("k", 7)
    assert (await waiting).state == "completed"


@served
async def test_a_wait_of_no_time_ends_expired_at_once(each):
    assert (await each.client.wait("k", timeout=0)).state == "expired"


@served
async def test_a_wait_whose_task_is_cancelled_cancels_its_operation(each):
    waiting = await each.start(each.client.wait("k"))
    assert each.pending >= 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await settle()
    assert each.pending == 0
    assert each.wire.requests[-1].method == "DELETE"


@served
async def test_a_cancelled_scope_cancels_the_operation_of_its_wait(each):
    scope = anyio.CancelScope()

    async def wait():
        with scope:
            await each.client.wait("k")

    waiting = await each.start(wait())
    # The fault: the scope cancels the cancelling request too, while that is on its way.
    each.wire.turns = 5
    scope.cancel()
    await waiting
    await settle()
    assert scope.cancelled_caught
    assert each.pending == 0


@served
async def test_a_wait_left_before_its_submission_answer_cancels_too(each):
    each.wire.stall = True
    waiting = await each.start(each.client.wait("k"))
    assert each.pending == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await settle()
    assert each.pending == 0


@served
async def test_an_abandoned_wait_ends_although_cancelling_is_refused(each):
    waiting = await each.start(each.client.wait("k"))
    each.wire.lose = 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await settle()


@served
async def test_a_submission_whose_answer_is_lost_is_one_operation(each):
    each.wire.lose = 2
    submitting = await each.start(each.client.submit(["k"]))
    for _ in range(3):
        await each.advance(1)
    operation = await submitting
    assert [found.id async for found in each.client.operations()] == [operation.id]
    assert len(each.pauses) == 2
    await each.client.cancel(operation.id)


@served
async def test_a_signal_whose_answer_is_lost_is_not_given_twice(each):
    each.wire.lose = 1
    with pytest.raises(ServiceUnreachable, match="may or may not have been carried out"):
        await each.client.signal("k")
    assert (await each.client.read("k")).index == 1


@served
async def test_a_batch_whose_answer_is_lost_is_one_batch(each):
    each.wire.lose = 2
    signalling = await each.start(each.client.signal_batch([{"key": "a", "value": 1}, {"key": "b"}]))
    for _ in range(3):
        await each.advance(1)
    assert await signalling == 0
    assert [(await each.client.read(key)).index for key in "ab"] == [1, 2]


@served
async def test_a_name_that_is_taken_is_a_problem_with_its_slug(each):
    await each.client.submit(["k"], operation_id="mine")
    with pytest.raises(RequestRefused) as refused:
        await each.client.submit(["k"], operation_id="mine")
    assert (refused.value.status, refused.value.slug) == (409, "duplicate-id")
    await each.client.cancel("mine")


@pytest.mark.asyncio
async def test_a_token_opens_what_it_may_and_is_in_no_text(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("secret-of-the-reader-0123456789abcdef read\n")
    tokens.chmod(0o600)
    stranger = Served(tokens=tokens)
    with pytest.raises(RequestRefused) as refused:
        await stranger.client.stats()
    assert refused.value.slug == "unauthorized"
    await stranger.aclose()
    reader = Served(tokens=tokens, token="secret-of-the-reader-0123456789abcdef")
    assert (await reader.client.read("k")).index == 0
    with pytest.raises(RequestRefused) as refused:
        await reader.client.signal("k")
    assert refused.value.slug == "forbidden"
    for text in (repr(reader.client), str(refused.value), repr(refused.value), repr(reader.wire.requests)):
        assert "secret" not in text
    await reader.aclose()


@pytest.mark.parametrize("make", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"traceparent": "00"}, "must be a function that returns them, got .*; pass it uncalled"),
        ("traceparent", "must be callable, got 'traceparent'"),
    ],
)
def test_headers_that_are_no_function_are_refused(make, headers, sentence):
    with pytest.raises(TypeError, match=f"headers {sentence}"):
        make("http://127.0.0.1:8765", headers=headers)
