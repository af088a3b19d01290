"""Closing the service with much pending: a small cost an operation, and nothing begun that cannot end."""

import pytest

from purgatory_async import Timer
from purgatory_async.service.messages import Submit
from tests.calls import noted_calls

pytestmark = pytest.mark.asyncio


def submit(service, number):
    for each in range(number):
        order = Submit([f"order:{each}", f"user:{each % 10}"], timeout=30 + each, id=f"o{each}")
        service.submit(order, None, b"")


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
    assert client.service.registry.pending == 0
    assert client.service.registry.find("o0").outcome == "closed"
