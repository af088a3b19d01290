"""What may be a key and what may be an id."""

import pytest

from purgatory_async.durable.documents.names import MAX_KEYS, checked_id, checked_key, distinct_keys
from purgatory_async.durable.documents.problems import Problem


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("a", id="one letter"),
        pytest.param("order:42/part 7", id="a slash and a space"),
        pytest.param("...", id="three dots"),
        pytest.param("k" * 512, id="512 bytes"),
        pytest.param("\u00e9" * 256, id="512 bytes of two each"),
        pytest.param("e\u0301", id="not normalised"),
        pytest.param("\u202e", id="a bidi mark: the log escapes it"),
    ],
)
def test_a_key_is_any_text_of_up_to_512_bytes(key):
    assert checked_key(key) == key


BAD_KEYS = [
    pytest.param("", "empty", id="empty"),
    pytest.param(".", "fold", id="dot"),
    pytest.param("..", "fold", id="dots"),
    pytest.param("k" * 513, "512 bytes", id="513 bytes"),
    pytest.param("\u00e9" * 257, "512 bytes", id="514 bytes of two each"),
    pytest.param("a\nb", "control", id="newline"),
    pytest.param("a\x00", "control", id="NUL"),
    pytest.param("\x7f", "control", id="DEL"),
    pytest.param("\x85", "control", id="C1"),
]


@pytest.mark.parametrize(("key", "reason"), BAD_KEYS)
def test_a_bad_key_is_refused_with_the_rule_it_breaks(key, reason):
    with pytest.raises(Problem, match=reason) as refusal:
        checked_key(key)
    assert refusal.value.kind.slug == "bad-key"


def test_doubled_keys_count_once_and_keep_their_order():
    assert distinct_keys(["b", "a", "b"]) == ("b", "a")


def test_more_than_64_distinct_keys_are_too_many():
    keys = [f"k{number}" for number in range(MAX_KEYS)]
    assert distinct_keys([*keys, *keys]) == tuple(keys)
    with pytest.raises(Problem, match="at most 64 distinct keys, got 65") as refusal:
        distinct_keys([*keys, "one more"])
    assert refusal.value.kind.slug == "too-many-keys"


@pytest.mark.parametrize("name", ["a", "A-z_0.9~", "x" * 128])
def test_an_id_of_the_grammar_is_taken(name):
    assert checked_id(name) == name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("x" * 129, id="129 characters"),
        pytest.param("a/b", id="slash"),
        pytest.param("a\n", id="trailing newline"),
        pytest.param("\u00e9", id="not ASCII"),
    ],
)
def test_an_id_of_another_grammar_is_refused_at_its_pointer(name):
    with pytest.raises(Problem) as refusal:
        checked_id(name)
    assert [fault.pointer for fault in refusal.value.document.errors] == ["/id"]
