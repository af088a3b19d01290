"""Public requests that `Correlator.request` answers: the users' way with its fault, then the same with it."""

import asyncio
from collections import deque
from itertools import count

import pytest

from purgatory_async import OperationExpired, Purgatory
from purgatory_async.patterns import Correlator
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio(loop_factories=["virtual"])


async def end_all(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# zigpy/zigpy#1309: sequence numbers of 8 bits come round while the request of a sleepy device is still pending.


async def test_a_number_that_wraps_takes_a_pending_request_by_hand():
    numbers, pending = count(), {}

    async def request():
        number = next(numbers) % 256
        future = pending[number] = asyncio.get_running_loop().create_future()
        return await future

    sleepy = asyncio.create_task(request())
    await settle()
    others = [asyncio.create_task(request()) for _ in range(256)]
    await settle()
    pending.pop(0).set_result("the sleepy device's")
    assert await others[-1] == "the sleepy device's"  # it went to another
    assert not sleepy.done()
    await end_all(sleepy, *others)


async def test_a_number_that_wraps_passes_over_a_pending_request():
    sent = []

    async def send(number):
        sent.append(number)

    async with Purgatory() as purgatory:
        calls = Correlator(purgatory, ids=range(256))
        sleepy = asyncio.create_task(calls.request(send, timeout=60))
        for _ in range(256):
            other = asyncio.create_task(calls.request(send, timeout=5))
            await settle()
            calls.resolve(sent[-1], "another's")
            assert await other == "another's"
        assert sent == [*range(256), 1]
        calls.resolve(0, "the sleepy device's")
        assert await sleepy == "the sleepy device's"


# wlcrs/tmodbus#88: is a response without a request late, or was its number never issued?


async def test_late_and_never_issued_look_alike_by_hand():
    numbers, pending, ignored = count(1), {}, []

    def receive(number):
        future = pending.pop(number, None)
        if future is None:
            ignored.append(number)  # an entry of the log: but of which kind?

    number = next(numbers)
    pending[number] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pending[number], 5)
    del pending[number]
    receive(number)
    receive(40_000)
    assert ignored == [number, 40_000]


async def test_late_and_never_issued_are_counted_apart():
    async with Purgatory() as purgatory:
        calls = Correlator(purgatory, ids=range(1, 2**16))
        with pytest.raises(OperationExpired):
            await calls.request(lambda _: asyncio.sleep(0), timeout=5)
        assert calls.resolve(1, "late") is False
        assert (calls.late, calls.unknown) == (1, 0)
        assert calls.resolve(40_000, "of a peer that mixes up its frames") is False
        assert (calls.late, calls.unknown) == (2, 1)


# goburrow/modbus#64: after one timeout, each response is taken for the next request's, for ever.


async def test_after_a_late_response_all_are_out_of_step_by_hand():
    numbers, responses = count(1), deque()

    def request():
        number = next(numbers)
        if not responses:  # the deadline passes, and then it comes
            responses.append(number)
            return "timeout"
        responses.append(number)
        got = responses.popleft()
        return "ok" if got == number else f"response {got} does not match request {number}"

    assert [request() for _ in range(3)] == [
        "timeout",
        "response 1 does not match request 2",
        "response 2 does not match request 3",
    ]


async def test_after_a_late_response_each_finds_its_request():
    async with Purgatory() as purgatory:
        calls = Correlator(purgatory)
        loop = asyncio.get_running_loop()
        delays = iter((6, 3, 3))

        async def send(number):
            loop.call_later(next(delays), calls.resolve, number, f"response {number}")

        with pytest.raises(OperationExpired):
            await calls.request(send, timeout=5)
        assert await calls.request(send, timeout=5) == "response 2"
        assert await calls.request(send, timeout=5) == "response 3"
        assert (calls.late, calls.unknown) == (1, 0)


# vmagamedov/grpclib#216: the connection is lost while a request waits for room, before anything knows of it.


async def test_a_request_parked_before_it_is_sent_hangs_by_hand():
    room, pending = asyncio.Event(), {}

    async def request(number):
        await room.wait()
        pending[number] = asyncio.get_running_loop().create_future()
        return await pending[number]

    task = asyncio.create_task(request(1))
    await settle()
    for future in pending.values():
        future.set_exception(ConnectionError("lost"))
    await asyncio.sleep(3600)
    assert not task.done()
    await end_all(task)


async def test_a_request_parked_before_it_is_sent_ends_with_it():
    room = asyncio.Event()
    async with Purgatory() as purgatory:
        calls = Correlator(purgatory)
        without_deadline = asyncio.create_task(calls.request(lambda _: room.wait(), timeout=None))
        await settle()
        calls.close(ConnectionError("lost"))
        with pytest.raises(ConnectionError):
            await without_deadline
