"""Closing the service with much pending: a small cost an operation, and nothing begun that cannot end."""

import pytest

from purgatory_async import Timer
from purgatory_async.durable.fold.entries import SubmitOperation
from tests.calls import noted_calls

pytestmark = pytest.mark.asyncio


def submit(service, number):
    for each in range(number):
        keys = (f"order:{each}", f"user:{each % 10}")
        service.state.post(SubmitOperation(id=f"o{each}", keys=keys, timeout_us=(30 + each) * 1_000_000))


def calls_of_closing(service):
    """How many Python functions are called."""
    with noted_calls() as called:
        service.close()
    return len(called)


async def test_closing_calls_few_functions_an_operation(make_client):
    calls = []
    for number in (100, 200, 600):
        service = make_client().service
        submit(service, number)
        calls.append(calls_of_closing(service))
    few, more, many = calls
    assert many - more <= 4.2 * (more - few)
    assert (many - more) / 400 < 60


async def test_closing_starts_no_retention_times(client, monkeypatch):
    submit(client.service, 3)
    started = []
    monkeypatch.setattr(Timer, "call_later", lambda *arguments: started.append(arguments))
    client.service.close()
    assert started == []


async def test_what_closing_ended_can_be_seen_and_is_not_pending(client):
    submit(client.service, 2)
    client.service.close()
    assert client.service.pending == 0
    assert client.service.find("o0").outcome == "closed"
