"""What is strict JSON and what only looks like it."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.service import strict_json

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(strict_json.MIN_INTEGER, strict_json.MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)

NOT_STRICT = [
    pytest.param(b"", "", id="empty"),
    pytest.param(b"{", "", id="cut off"),
    pytest.param(b"{} {}", "trailing", id="two documents"),
    pytest.param(b"{'a': 1}", "", id="single quotes"),
    pytest.param(b"[1,]", "", id="trailing comma"),
    pytest.param(b"01", "", id="leading zero"),
    pytest.param(b"\xef\xbb\xbf{}", "byte-order mark", id="BOM"),
    pytest.param('{"a": 1}'.encode("utf-16"), "", id="UTF-16"),
    pytest.param(b'"\xff"', "UTF-8", id="not UTF-8"),
    pytest.param(b'"\xed\xa0\x80"', "UTF-8", id="a surrogate in UTF-8"),
    pytest.param(b'"\xc0\xaf"', "UTF-8", id="overlong UTF-8"),
    pytest.param(b'"\\ud800"', "", id="lone high surrogate"),
    pytest.param(b'"\\udc00 "', "", id="lone low surrogate"),
    pytest.param(b'"\\ud800\\u0041"', "", id="half a pair"),
    pytest.param(b'"\n"', "", id="control character in a string"),
    pytest.param(b"NaN", "", id="NaN"),
    pytest.param(b"[Infinity]", "", id="Infinity"),
    pytest.param(b"-Infinity", "", id="minus Infinity"),
    pytest.param(b"1e999", "out of range", id="beyond a double"),
    pytest.param(b"-1e309", "out of range", id="below a double"),
    pytest.param(b"9223372036854775808", "64 bits", id="one above 64 bits"),
    pytest.param(b"[1, -9223372036854775809]", "64 bits", id="one below 64 bits"),
    pytest.param(b"1" * 5000, "", id="5 000 digits"),
    pytest.param(b'{"a": 1, "a": 1}', "same member twice", id="doubled member"),
    pytest.param(b'{"a": 1, "\\u0061": 2}', "same member twice", id="doubled member behind an escape"),
    pytest.param(b'[{"x": {"b": 0, "c": 1, "b": 2}}]', "same member twice", id="doubled member deep inside"),
    pytest.param(b"[" * 33 + b"]" * 33, "deeper than 32", id="33 levels"),
    pytest.param(b'{"a":' * 33 + b"0" + b"}" * 33, "deeper than 32", id="33 levels of objects"),
    pytest.param(b"[" * 500_000, "deeper than 32", id="half a megabyte of brackets"),
    pytest.param(b"[}", "", id="brackets that do not match"),
]


@pytest.mark.parametrize(("body", "reason"), NOT_STRICT)
def test_what_is_not_strict_json_is_refused_with_a_reason(body, reason):
    with pytest.raises(ValueError, match="the body is not strict JSON: ") as refusal:
        strict_json.decode(body)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(b' {"a": [1, null, true]} ', {"a": [1, None, True]}, id="an object"),
        pytest.param(b"9223372036854775807", 2**63 - 1, id="the largest integer"),
        pytest.param(b"-9223372036854775808", -(2**63), id="the smallest integer"),
        pytest.param(b"0.12345678901234567890123", 0.12345678901234568, id="a long fraction is no integer"),
        pytest.param(b"1e0000000000000000000001", 10.0, id="a long exponent is no integer"),
        pytest.param(b'"12345678901234567890123"', "12345678901234567890123", id="digits in a string"),
        pytest.param(b'"\\ud83d\\ude00"', "\U0001f600", id="a surrogate pair"),
        pytest.param(b'{"a": "b: \\"c: {[", "d": "\\\\"}', {"a": 'b: "c: {[', "d": "\\"}, id="quoted syntax"),
        pytest.param(b"[" * 32 + b"]" * 32, json.loads("[" * 32 + "]" * 32), id="32 levels"),
        pytest.param(b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}], id="the same member in two objects"),
        pytest.param(b'{"a": {"a": 1}}', {"a": {"a": 1}}, id="the same member at two levels"),
    ],
)
def test_strict_json_is_read(body, value):
    assert strict_json.decode(body) == value


@given(JSON_VALUES)
def test_whatever_can_be_written_is_read_back(value):
    assert strict_json.decode(json.dumps(value).encode()) == value
    assert strict_json.decode(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(0, 9), min_size=1, max_size=5),
    st.data(),
)
def test_no_doubled_member_gets_through(members, data):
    doubled = data.draw(st.sampled_from(sorted(members)))
    pairs = [*members.items(), (doubled, 0)]
    text = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"
    with pytest.raises(ValueError, match="same member twice"):
        strict_json.decode(text.encode())


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_and_never_anything_else(body):
    # Whatever else comes out fails the test.
    with suppress(ValueError):
        strict_json.decode(body)
