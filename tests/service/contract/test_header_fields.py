"""Header fields are found by name, and what is decided by them alone is shared."""

from purgatory_async.service.contract.header_fields import Fields
from purgatory_async.service.http.head import HeadReader

PAIRS = [(b"host", b"a"), (b"x-twice", b"1"), (b"x-twice", b"2")]


def test_values_of_a_name_are_all_and_in_order():
    fields = Fields(PAIRS)
    assert [*fields.values("x-twice")] == [b"1", b"2"]
    assert not fields.values("absent")
    assert (fields.text("x-twice"), fields.text("absent")) == ("1, 2", None)
    assert fields.by_name == {b"host": [b"a"], b"x-twice": [b"1", b"2"]}


def test_indexed_fields_are_still_pairs():
    assert list(Fields(PAIRS)) == PAIRS
    assert Fields(PAIRS) == tuple(PAIRS)


def test_requests_with_the_same_fields_share_what_is_decided():
    reader = HeadReader()
    first, second = (
        reader.read(b"GET /%d HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n" % number) for number in range(2)
    )
    assert first.profile is second.profile
