"""What a `Durable` may be made of: its store and its settings."""

import pytest

from purgatory_async.cluster import MemoryStore
from purgatory_async.durable import Durable


@pytest.mark.parametrize(
    ("store", "error", "words"),
    [
        ("mysql://db", ValueError, "must be one of memory, sqlite:///PATH"),
        ("sqlite:///", ValueError, "must be sqlite:///PATH"),
        ("redis://:secret@db:99999/0", ValueError, r"\*\*\*"),
        (None, TypeError, "store must be a URL or a log of purgatory_async.cluster, got None"),
        (MemoryStore(), TypeError, "got <purgatory_async.cluster.memory.MemoryStore"),
    ],
)
def test_what_is_no_store_is_refused_at_once(store, error, words):
    with pytest.raises(error, match=words) as caught:
        Durable(store)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"retention": -1}, "retention must"),
        ({"retention": "1y"}, "1y"),
        ({"max_pending": 0}, "max_pending must be .*got 0"),
        ({"max_bytes": 0}, "max_bytes must be .*got 0"),
        ({"owner": ""}, "owner must have 1 to 128 code points.*got ''"),
        ({"owner": "a\nb"}, r"got 'a\\nb'"),
        ({"link_secret": "/secrets"}, "link_secret must be left out without a public_url, got '/secrets'"),
        ({"public_url": "http://a"}, "link_secret must be the file of secrets .* 'http://a', got none"),
        ({"public_url": "ftp://a", "link_secret": "/secrets"}, "public_url .*ftp://a"),
        ({"public_url": "http://a", "link_secret": "/none/such"}, "link_secret: cannot read /none/such"),
    ],
)
def test_a_setting_out_of_its_bounds_is_refused_with_its_value(settings, words):
    with pytest.raises(ValueError, match=words):
        Durable("sqlite:///log.db", **settings)
