"""ApiVersions, and the versions that are advertised: what clients decide by."""

import pytest

from purgatory_async.kafka import wire
from purgatory_async.kafka.errors import MalformedRequestError
from purgatory_async.kafka.requests import APIS
from tests.kafka import protocol
from tests.kafka.protocol import API_VERSIONS, PRODUCE

pytestmark = pytest.mark.asyncio

# What KIP-896 lets a client of Kafka 4 send, and what clients in use sent when this was written.
OFFERED = {
    0: (0, 9),
    1: (4, 12),
    2: (1, 10),
    3: (0, 12),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 4),
    32: (1, 4),
    33: (0, 2),
    37: (0, 3),
    42: (0, 2),
    44: (0, 1),
    47: (0, 0),
    60: (0, 1),
}


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_every_api_is_listed_with_its_versions(broker, version):
    answer = await broker.ask(API_VERSIONS, version)
    listed = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert OFFERED.items() <= listed.items()
    assert listed.keys() == APIS.keys()


async def test_produce_is_advertised_from_0_and_served_from_3():
    """Otherwise older librdkafka silently sends compressed batches uncompressed."""
    produce = APIS[PRODUCE]
    assert (produce.least, [produce.serves(version) for version in (2, 3, 9, 10)]) == (
        0,
        [False, True, True, False],
    )


@pytest.mark.parametrize("key", sorted(OFFERED))
async def test_a_served_request_cut_short_is_malformed(key):
    broken = protocol.request_frame(key, APIS[key].most)[:-1]
    with pytest.raises(MalformedRequestError, match=f"got {len(broken)} bytes"):
        wire.read_body(wire.read_header(broken), broken)
