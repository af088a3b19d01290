"""Unmodified clients pass the checks of ``bench.kafka``: every codec, groups, offsets, deletions, administration."""

import asyncio

import pytest

from bench.kafka.checks import CLIENTS, missing
from bench.kafka.clients.expect import CODECS
from bench.kafka.programs import PROGRAMS
from purgatory_async.kafka import Broker

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_factories=["uvloop"])]

CHECKS = [
    pytest.param(
        check, feature, id=f"{client}-{feature}", marks=pytest.mark.skipif(why is not None, reason=f"{why}")
    )
    for client, checks in CLIENTS.items()
    if client not in PROGRAMS  # test_clients_of_other_languages.py has those
    for why in [missing(client)]
    for feature, check in checks.items()
]
UNCOMPRESSED_BYTES = 10_000


@pytest.mark.parametrize(("check", "feature"), CHECKS)
async def test_a_client_passes_a_check(check, feature):
    async with Broker(partitions=2, rebalance_delay=0) as broker:
        await asyncio.to_thread(check, broker.address, "t")
        if feature in CODECS:
            assert 0 < broker.node.topics.partition("t", 0).log.size_bytes < UNCOMPRESSED_BYTES
