"""What is strict JSON and what only looks like it."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.durable.documents import strict_json

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
    pytest.param(b"\xef\xbb\xbf{}", "BOM (byte-order mark) of UTF-8", id="BOM"),
    pytest.param("{}".encode("utf-16"), "BOM (byte-order mark) of UTF-16", id="BOM of UTF-16"),
    pytest.param("{}".encode("utf-32"), "BOM (byte-order mark) of UTF-32", id="BOM of UTF-32"),
    pytest.param('{"a": 1}'.encode("utf-16-le"), "", id="UTF-16"),
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
    pytest.param(b"1e999", "fit a double", id="beyond a double"),
    pytest.param(b"-1e309", "fit a double", id="below a double"),
    pytest.param(b"1" + b"0" * 400 + b".5", "fit a double", id="beyond a double in 400 digits"),
    pytest.param(b"[1.0, 1E+00400, 2.0]", "fit a double", id="a float among others"),
    pytest.param(b"%d.0" % (2**1024 - 2**970), "fit a double", id="what rounds to infinity"),
    pytest.param(b'{"9223372036854775808": 9223372036854775808}', "64 bits", id="behind a long name"),
    pytest.param(b"-" + b"1" * 400, "64 bits", id="400 digits"),
    pytest.param(b"9223372036854775808", "64 bits", id="one above 64 bits"),
    pytest.param(b"[1, -9223372036854775809]", "64 bits", id="one below 64 bits"),
    pytest.param(b"1" * 5000, "", id="5 000 digits"),
    pytest.param(b'{"a": 1, "a": 1}', "member 'a' twice", id="doubled member"),
    pytest.param(b'{"a": 1, "\\u0061": 2}', "member 'a' twice", id="doubled member behind an escape"),
    pytest.param(b'[{"x": {"b": 0, "c": 1, "b": 2}}]', "member 'b' twice", id="doubled member deep inside"),
    pytest.param(b"[" * 33 + b"]" * 33, "deeper than 32", id="33 levels"),
    pytest.param(b'{"a":' * 33 + b"0" + b"}" * 33, "deeper than 32", id="33 levels of objects"),
    pytest.param(b"[" * 500_000, "more than 32768 arrays", id="half a megabyte of brackets"),
    pytest.param(b"]" * 500_000, "more than 32768 arrays", id="half a megabyte of closing brackets"),
    pytest.param(b"[" + b"[]," * 32768 + b"0]", "more than 32768 arrays", id="too many arrays"),
    pytest.param(
        b"[" + b'["["],{},' * 16384 + b"0]", "more than 32768 arrays", id="too many arrays and objects"
    ),
    pytest.param(b"[" + b"1e0," * 65536 + b"0.5]", "more than 65536 numbers", id="too many floats"),
    pytest.param(b"[}", "", id="brackets that do not match"),
]


@pytest.mark.parametrize(("body", "reason"), NOT_STRICT)
def test_what_is_not_strict_json_is_refused_with_a_reason(body, reason):
    with pytest.raises(ValueError, match="the body is not strict JSON: ") as refusal:
        strict_json.check(body)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b' {"a": [1, null, true]} ', id="an object"),
        pytest.param(b"9223372036854775807", id="the largest integer"),
        pytest.param(b"-9223372036854775808", id="the smallest integer"),
        pytest.param(b"0.12345678901234567890123", id="a long fraction is no integer"),
        pytest.param(b"12345678901234567890123.5", id="a long whole part is no integer"),
        pytest.param(b"1e0000000000000000000001", id="a long exponent is no integer"),
        pytest.param(b"[1e-0000000000000000000001]", id="nor is a negative one"),
        pytest.param(b"1.7976931348623157e308", id="the largest double"),
        pytest.param(b"%d.0" % (2**1024 - 2**971), id="the largest double in 309 digits"),
        pytest.param(b"[1e-400, 0e999]", id="what rounds to 0"),
        pytest.param(b'"12345678901234567890123"', id="digits in a string"),
        pytest.param(b'{"a\\"9": ["b\\\\", 1, "-12345678901234567890123"]}', id="digits behind escapes"),
        pytest.param(b'"\\ud83d\\ude00"', id="a surrogate pair"),
        pytest.param(b'{"a": "b: \\"c: {[", "d": "\\\\"}', id="quoted syntax"),
        pytest.param(b'["[", "]", "", "[[", {"]": "}"}]', id="brackets in strings"),
        pytest.param(b"[" * 32 + b"]" * 32, id="32 levels"),
        pytest.param(b'["' + b"[" * 500_000 + b'"]', id="half a megabyte of brackets in a string"),
        pytest.param(b"[" + b"[]," * 32767 + b"0]", id="as many arrays as may be"),
        pytest.param(b"[" + b"1e0," * 65536 + b"0]", id="as many floats as may be"),
        pytest.param(b'[{"a": 1}, {"a": 2}]', id="the same member in two objects"),
        pytest.param(b'{"a": {"a": 1}}', id="the same member at two levels"),
    ],
)
def test_strict_json_is_let_through(body):
    strict_json.check(body)


def test_every_float_is_read_as_text_once(monkeypatch):
    read = []
    monkeypatch.setattr(strict_json, "float", lambda text: read.append(text) or 0.0, raising=False)
    strict_json.check(b'[1.5, {"a": 2e300}, 1, "3.5"]')
    assert read == ["1.5", "2e300"]


@given(st.integers(41, 800), st.integers(-400, 310))
def test_a_long_float_is_read_in_few_digits(digits, exponent):
    literal = f"{'9' * digits}.5e{exponent}"
    with pytest.MonkeyPatch.context() as patch:
        read = []
        patch.setattr(strict_json, "float", lambda text: read.append(text) or 0.0, raising=False)
        strict_json.check(literal.encode())
    assert len(read[0]) < strict_json._FLOAT_DIGITS + 10


@given(JSON_VALUES)
def test_whatever_can_be_written_is_let_through(value):
    strict_json.check(json.dumps(value).encode())
    strict_json.check(json.dumps(value, ensure_ascii=False, indent=1).encode())


@given(st.floats(1e307, 1e308), st.integers(0, 60), st.integers(-2, 2))
def test_a_float_is_let_through_if_it_is_finite(mantissa, digits, exponent):
    literal = f"{mantissa!r}".replace("e", "7" * digits + "e").replace("+", "")
    head, _, power = literal.partition("e")
    literal = f"{head}e{int(power) + exponent}"
    try:
        strict_json.check(literal.encode())
    except ValueError:
        assert math.isinf(float(literal))
    else:
        assert math.isfinite(float(literal))


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(0, 9), min_size=1, max_size=5),
    st.data(),
)
def test_no_doubled_member_gets_through(members, data):
    doubled = data.draw(st.sampled_from(sorted(members)))
    pairs = [*members.items(), (doubled, 0)]
    text = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"
    with pytest.raises(ValueError, match=r"member .* twice"):
        strict_json.check(text.encode())


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_and_never_anything_else(body):
    # Whatever else comes out fails the test.
    with suppress(ValueError):
        strict_json.check(body)


TOKENS = (
    *"{}[],: \n\t",
    *('"a"', '"b"', '"a:b"', '"A"', '"\\"', '"\\u0061"', '"'),
    *("0", "-0", "01", "-", "1.5", "1e3"),
)
EDGES = st.integers(2**63 - 2, 2**63 + 2)
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), EDGES, EDGES.map(lambda edge: -edge)).map(str)
WORDS = st.sampled_from((*TOKENS, "true", "null", "nul", "\x7f", "\x00", "\u00e9"))
NEARLY_PLAIN = st.lists(WORDS | NUMBERS, max_size=12).map(lambda words: "{" + "".join(words) + "}")
MEMBERS = st.dictionaries(st.sampled_from(["a", "b", "value"]), JSON_VALUES, max_size=3)


ALMOST = st.one_of(
    NEARLY_PLAIN,
    MEMBERS.map(json.dumps),
    MEMBERS.map(lambda made: json.dumps(made)[:-1] + ',"a":1}'),
    NUMBERS.map('{{"value":{}}}'.format),
)


# The fault: a form that is taken at a glance and is not strict, as an integer of 65 bits or a member given twice.
@given(ALMOST)
def test_what_is_plain_at_a_glance_is_strict(text):
    body = text.encode()
    if strict_json._is_plain(body):
        strict_json.check_all(body)
