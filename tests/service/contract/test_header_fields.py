"""Header fields are found by name, whether the connection indexed them or another server has a list."""

import pytest

from purgatory_async.service.contract.header_fields import Fields, by_name, values_of
from purgatory_async.service.http.head import read_head

PAIRS = [(b"host", b"a"), (b"x-twice", b"1"), (b"x-twice", b"2")]


@pytest.mark.parametrize("kind", [list, tuple, Fields])
def test_values_of_a_name_are_all_and_in_order(kind):
    fields = kind(PAIRS)
    assert [*values_of(fields, b"x-twice")] == [b"1", b"2"]
    assert not values_of(fields, b"absent")
    assert by_name(fields) == {b"host": [b"a"], b"x-twice": [b"1", b"2"]}


def test_indexed_fields_are_still_asgi_pairs():
    assert list(Fields(PAIRS)) == PAIRS
    assert Fields(PAIRS) == tuple(PAIRS)


def test_requests_with_the_same_fields_share_their_index():
    first, second = (
        read_head(b"GET /%d HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n" % number).fields for number in range(2)
    )
    assert by_name(first) is by_name(second)
