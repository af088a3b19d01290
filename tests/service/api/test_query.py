"""Query strings: strict about names, values and escapes."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.durable.documents import CountNeed
from purgatory_async.durable.documents.names import checked_key
from purgatory_async.durable.documents.problems import Problem
from purgatory_async.service.api import query_string, request
from purgatory_async.service.api.query_string import parse_query, usual_read
from purgatory_async.service.contract.percent import percent_decoded

NAMES = frozenset({"wait", "need", "limit", "key"})


def parse(text):
    return parse_query(text, NAMES, repeated=frozenset({"key"}))


def test_keys_may_repeat_and_are_decoded_after_splitting():
    assert parse(b"key=a%26b%3D&key=%C3%A9+x&&").keys() == ["a&b=", "\u00e9 x"]


@pytest.mark.parametrize(
    ("text", "need"),
    [
        pytest.param(b"", "any", id="default"),
        pytest.param(b"need=any", "any", id="any"),
        pytest.param(b"need=all", "all", id="all"),
        pytest.param(b"need=amount:9007199254740991", CountNeed(amount=2**53 - 1), id="the largest amount"),
        pytest.param(b"need=voters:2", CountNeed(voters=2), id="voters"),
    ],
)
def test_a_need_is_read(text, need):
    assert parse(text).need() == need


BAD = [
    pytest.param(b"wait=-1", "wait", "-1", id="negative wait"),
    pytest.param(b"wait=1%0A", "wait", "1\n", id="newline after a wait"),
    pytest.param(b"wait=", "wait", "", id="empty wait"),
    pytest.param(b"wait", "wait", "", id="wait without a value"),
    pytest.param(b"wait=%EF%BC%91", "wait", "\uff11", id="full-width digit"),
    pytest.param(b"wait=1&wait=1", "wait", "1", id="repeated"),
    pytest.param(b"Wait=1", "Wait", "1", id="another case"),
    pytest.param(b"colour=red", "colour", "red", id="unknown"),
    pytest.param(b"wait=%zz", "wait", "%zz", id="bad escape"),
    pytest.param(b"wait=%ff", "wait", "%ff", id="not UTF-8"),
    pytest.param(b"%ff=1", "%ff", "1", id="a name that is not UTF-8"),
    pytest.param(b"need=most", "need", "most", id="unknown need"),
    pytest.param(b"need=amount:0", "need", "amount:0", id="amount of zero"),
    pytest.param(b"need=amount:9007199254740992", "need", "amount:9007199254740992", id="amount of 2^53"),
    pytest.param(b"need=voters:-1", "need", "voters:-1", id="negative voters"),
    pytest.param(b"limit=0", "limit", "0", id="limit of zero"),
    pytest.param(b"limit=1001", "limit", "1001", id="limit above a thousand"),
    pytest.param(b"limit=1_0", "limit", "1_0", id="underscore"),
    pytest.param(b"limit=99999999999999999999", "limit", "99999999999999999999", id="twenty digits"),
]


@pytest.mark.parametrize(("text", "name", "value"), BAD)
def test_a_bad_parameter_is_named_with_its_value_and_grammar(text, name, value):
    def read_everything():
        query = parse(text)
        return query.wait(), query.need(), query.integer("limit", 1, 1000)

    with pytest.raises(Problem) as refusal:
        read_everything()
    document = refusal.value.document
    assert (refusal.value.kind.slug, document.parameter, document.value) == ("bad-parameter", name, value)
    assert document.grammar


@pytest.mark.parametrize("text", [b"key=%ff", b"key=%z", b"key=%"])
def test_a_key_that_cannot_be_decoded_is_a_bad_key(text):
    with pytest.raises(Problem) as refusal:
        parse(text)
    assert refusal.value.kind.slug == "bad-key"


def test_percent_decoding_does_not_decode_twice():
    assert percent_decoded(b"%2541") == "%41"


def outcome(parse, raw):
    try:
        return parse(raw)
    except Problem as problem:
        return problem.document


VALUES = st.lists(st.sampled_from(["a:b", "30s", "%41", "+", "\u00e9", "~", "", "="]), max_size=2).map(
    "".join
)
PIECES = st.tuples(st.sampled_from([*NAMES, "x", "", "W"]), st.sampled_from(["=", "", "=="]), VALUES).map(
    "".join
)


# The fault: a usual form that means something else than the parser reads, as a plus, an escape or a second value.
@given(st.lists(PIECES, max_size=3).map("&".join))
def test_a_usual_query_is_read_as_any_other(text):
    raw = text.encode()
    with mock.patch.object(query_string, "_USUAL", return_value=None):
        read = outcome(parse, raw)
    assert outcome(parse, raw) == read


@given(st.binary(max_size=6) | st.text("ab.:%/~\u00e9\x00", max_size=6).map(str.encode) | st.just(b"k" * 513))
def test_a_usual_key_is_its_own_text_and_valid(raw):
    if request._USUAL_KEY(raw):
        assert checked_key(percent_decoded(raw)) == raw.decode()


# The fault: the pattern of a usual read takes a text that the parser refuses or reads otherwise.
@given(
    st.lists(PIECES, max_size=3).map("&".join)
    | st.from_regex(r"(index=[0-9]{1,19}&?)?(wait=[0-9]{1,7}s)?", fullmatch=True)
)
def test_a_usual_read_is_read_as_any_other(text):
    usual = usual_read(text.encode())
    if usual is not None:
        query = parse_query(text.encode(), frozenset({"index", "wait"}))
        assert usual == (query.integer("index", 0, 2**63 - 1), query.wait())
