"""What a verb cannot do is refused with one status, slug and sentence, or is an error of one type, on every carrier."""

import datetime as dt

import pytest

from tests.durable.library.calls import every, refused

pytestmark = pytest.mark.asyncio

NAIVE = dt.datetime(2100, 1, 1)  # noqa: DTZ001 - what is refused
AWARE = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
FAR = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
GRAMMAR = (
    "must follow [0-9]{1,9}(ms|s|m|h|d)?, got 'x'; "
    "write it as 250ms, 30s, 10m, 24h or 7d (bare digits are seconds)"
)
BOUNDS = "must be from 0 to 3155760000 seconds (100 years), got -1.0"
BESIDE = "/deadline: must be left out beside the timeout 5.0, got '2100-01-01T00:00:00+00:00'"
FAR_AHEAD = (
    "a deadline must be at most 100 years ahead, got '9000-01-01T00:00:00+00:00'; "
    "leave it out for an operation without one"
)
INDEX = "'index' must be an integer from 0 to 9223372036854775807"
STATES = "pending, ended, all, completed, expired, cancelled, failed, closed"
EMPTY = "a key must not be empty, got ''"
DOT = "a key must not be a path segment that clients fold, got '.'"
ID = "/id: must follow [A-Za-z0-9._~-]{1,128}, got"

SUBMISSIONS = [  # options, and the end of the line that refuses them
    ({"keys": []}, "422 invalid: /keys: must name at least one key, got []"),
    ({"keys": [1]}, "422 invalid: /keys/0: Expected `str`, got `int`"),
    ({"keys": ["."]}, f"422 bad-key: {DOT}"),
    ({"keys": ["a\x00"]}, "422 bad-key: a key must not contain control characters, got 'a\\x00'"),
    ({"keys": ["é" * 300]}, f"422 bad-key: a key must have at most 512 bytes in UTF-8, got '{'é' * 80}'"),
    ({"keys": [f"k{n}" for n in range(65)]}, "422 too-many-keys: at most 64 distinct keys, got 65"),
    ({"need": "some"}, "422 invalid: /need: Invalid enum value 'some'"),
    ({"need": {"amount": 0}}, "422 invalid: /need/amount: Expected `int` >= 1"),
    (
        {"need": {"amount": 1, "voters": 1}},
        '422 invalid: /need: a need must be "any", "all", {"amount": n} or {"voters": n}, got both of the two',
    ),
    ({"timeout": -1}, f"422 invalid: /timeout: a timeout {BOUNDS}"),
    ({"timeout": "x"}, f"422 invalid: /timeout: a timeout {GRAMMAR}"),
    ({"timeout": True}, "422 invalid: /timeout: Expected `float | str | null`, got `bool`"),
    ({"timeout": [1]}, "422 invalid: /timeout: Expected `float | str | null`, got `array`"),
    ({"deadline": AWARE, "timeout": 5}, f"422 invalid: {BESIDE}"),
    (
        {"deadline": FAR},
        f"422 invalid: /deadline: {FAR_AHEAD}",
    ),
    ({"since": -1}, "422 invalid: /since: Expected `int` >= 0"),
    (
        {"since": "x"},
        "422 invalid: /since: must be [0-9]{1,16}, the next of an answer (EPOCH-INDEX), or now, got 'x'",
    ),
    ({"keep": "367d"}, "422 invalid: /keep: a keep must be at most 31622400 seconds (366 days), got '367d'"),
    ({"keep": -1}, f"422 invalid: /keep: a keep {BOUNDS}"),
    ({"ask": {}}, "422 invalid: /ask/title: Object missing required field `title`"),
    ({"ask": {"title": " "}}, "422 invalid: /ask/title: must not be blank, got ' '"),
    ({"ask": {"title": "a\nb"}}, "422 invalid: /ask/title: must have no control character, got U+000A at 1"),
    ({"ask": {"title": "x" * 201}}, "422 invalid: /ask/title: Expected `str` of length <= 200"),
    (
        {"ask": {"title": "x", "text": "\u202e"}},
        "422 invalid: /ask/text: must have no control character, got U+202E at 0",
    ),
    ({"ask": {"title": "x", "choices": []}}, "422 invalid: /ask/choices: Expected `array` of length >= 1"),
    (
        {"ask": {"title": "x", "choices": ["a", "a "]}},
        "422 invalid: /ask/choices/1: must be distinct, got 'a ' again",
    ),
    ({"ask": {"title": "x", "comment": "maybe"}}, "422 invalid: /ask/comment: Invalid enum value 'maybe'"),
    ({"ask": {"title": "x", "more": 1}}, "422 invalid: /ask/more: Object contains unknown field `more`"),
    ({"announce": ""}, f"422 invalid: /announce: {EMPTY}"),
    ({"deliver": "."}, f"422 invalid: /deliver: {DOT}"),
]
OTHERS = [  # a verb, its arguments, and the line that refuses them
    ("submit", (), {"operation_id": "a c"}, f"422 invalid: {ID} 'a c'"),
    ("submit", (), {"operation_id": ""}, f"422 invalid: {ID} ''"),
    ("submit", (), {"operation_id": 7}, "422 invalid: /id: Expected `str`, got `int`"),
    ("attach", ("a c",), {}, f"422 invalid: {ID} 'a c'"),
    ("attach", ("",), {}, f"422 invalid: {ID} ''"),
    ("ask", ("o", ""), {}, "422 invalid: /ask/title: Expected `str` of length >= 1"),
    ("ask", ("o", "Go?"), {"timeout": -1}, f"422 invalid: /timeout: a timeout {BOUNDS}"),
    ("status", ("a/b",), {}, "404 unknown-operation: no operation has the id 'a/b'"),
    ("status", ("",), {}, "404 unknown-operation: no operation has the id ''"),
    ("complete", ("o",), {"by": ""}, "422 invalid: /by: must have 1 to 128 code points, got 0"),
    ("complete", ("o",), {"by": "a\nb"}, "422 invalid: /by: must have no control character, got U+000A at 1"),
    ("complete", ("o",), {"by": 7}, "422 invalid: /by: Expected `str`, got `int`"),
    ("fail", ("o", None), {}, "422 invalid: /error: must be any JSON but null, got null"),
    ("answer", ("o", 7), {}, "422 invalid: /choice: Expected `str`, got `int`"),
    ("answer", ("o", "a"), {"comment": 7}, "422 invalid: /comment: Expected `str`, got `int`"),
    ("reschedule", ("o",), {"timeout": -1}, f"422 invalid: /timeout: a timeout {BOUNDS}"),
    ("reschedule", ("o",), {"timeout": 5, "deadline": AWARE}, f"422 invalid: {BESIDE}"),
    ("links", ("o",), {"expires_in": "0s"}, "422 invalid: /expires_in: must be at least 1 second, got '0s'"),
    ("signal", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("signal", ("k",), {"amount": 0}, "422 invalid: /amount: Expected `int` >= 1"),
    ("signal", ("k",), {"amount": 1.5}, "422 invalid: /amount: Expected `int`, got `float`"),
    ("signal", ("k",), {"voter": 7}, "422 invalid: /voter: Expected `str`, got `int`"),
    ("signal", ("k",), {"voter": "x" * 513}, "422 invalid: /voter: Expected `str` of length <= 512"),
    ("signal_batch", ([],), {}, "422 invalid: /signals: Expected `array` of length >= 1"),
    (
        "signal_batch",
        ([{"key": "k"}] * 1001,),
        {},
        "422 invalid: /signals: Expected `array` of length <= 1000",
    ),
    (
        "signal_batch",
        ([{"key": "k", "more": 1}],),
        {},
        "422 invalid: /signals/0/more: Object contains unknown field `more`",
    ),
    ("read", (".",), {}, f"422 bad-key: {DOT}"),
    ("watch", ("k", -1), {}, f"400 bad-parameter: {INDEX}, got '-1'"),
    ("watch", ("k", "x"), {}, f"400 bad-parameter: {INDEX}, got 'x'"),
    ("watch", ("", 0), {}, f"422 bad-key: {EMPTY}"),
    ("put", ("", 1), {}, f"422 bad-key: {EMPTY}"),
    ("put", ("q", 1), {"delay": -1}, f"422 invalid: /delay: a delay {BOUNDS}"),
    ("put", ("q", 1), {"delay": "x"}, f"422 invalid: /delay: a delay {GRAMMAR}"),
    ("put_batch", ("q", []), {}, "422 invalid: /items: Expected `array` of length >= 1"),
    ("put_batch", ("q", [{"item": 1}] * 101), {}, "422 invalid: /items: Expected `array` of length <= 100"),
    ("put_batch", ("q", [{}]), {}, "422 invalid: /items/0/item: Object missing required field `item`"),
    ("take", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("take", ("q",), {"lease": 0}, "422 invalid: /lease: must be above 0 seconds, got 0.0"),
    ("take", ("q",), {"lease": -1}, f"422 invalid: /lease: a lease {BOUNDS}"),
    ("take", ("q",), {"lease": "x"}, f"422 invalid: /lease: a lease {GRAMMAR}"),
    ("take_batch", ("q", 0), {}, "422 invalid: /max: Expected `int` >= 1"),
    ("take_batch", ("q", 101), {}, "422 invalid: /max: Expected `int` <= 100"),
    ("take_batch", ("q", "x"), {}, "422 invalid: /max: Expected `int`, got `str`"),
    ("acknowledge", ("",), {}, "404 unknown-lease: no lease has the id ''"),
    ("acknowledge_batch", ([],), {}, "422 invalid: /leases: Expected `array` of length >= 1"),
    ("give_back", ("l",), {"delay": -1}, f"422 invalid: /delay: a delay {BOUNDS}"),
    ("give_back_batch", (["x"] * 101,), {}, "422 invalid: /leases: Expected `array` of length <= 100"),
    ("extend", ("l",), {"seconds": 0}, "422 invalid: /lease: must be above 0 seconds, got 0.0"),
    ("extend", ("l",), {"seconds": "x"}, f"422 invalid: /lease: a lease {GRAMMAR}"),
    ("set_queue", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("set_queue", ("q",), {"lease": 0}, "422 invalid: /lease: must be above 0 seconds, got 0.0"),
    ("set_queue", ("q",), {"max_attempts": 0}, "422 invalid: /max_attempts: Expected `int` >= 1"),
    ("set_queue", ("q",), {"max_items": "x"}, "422 invalid: /max_items: Expected `int | null`, got `str`"),
    (
        "set_queue",
        ("q.dead",),
        {"max_attempts": 1},
        "422 invalid: /max_attempts: must be null for a queue whose name ends with .dead or has no room for it, got 1",
    ),
    ("queue", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("queue", ("q",), {}, "404 unknown-queue: no queue has the name 'q'"),
    ("forget_queue", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("purge", (".",), {}, f"422 bad-key: {DOT}"),
    ("redrive", ("q", 0), {}, "422 invalid: /max: Expected `int` >= 1"),
    ("operations", (), {"state": "gone"}, f"400 bad-parameter: 'state' must be one of {STATES}, got 'gone'"),
    (
        "operations",
        (),
        {"id_prefix": "a c"},
        "400 bad-parameter: 'id_prefix' must be [A-Za-z0-9._~-]{0,128}, got 'a c'",
    ),
    ("operations", (), {"key": ""}, f"422 bad-key: {EMPTY}"),
    ("items", ("",), {}, f"422 bad-key: {EMPTY}"),
    ("leases", (".",), {}, f"422 bad-key: {DOT}"),
    ("queues", ("",), {}, f"422 bad-key: {EMPTY}"),
]
OBJECT = object()
NOT_JSON = "Object of type object is not JSON serializable"
OUT_OF_RANGE = "Out of range float values are not JSON compliant"
ERRORS = [  # a verb, its arguments, and the error's type and first words
    ("submit", (), {"keys": "abc"}, TypeError, "keys must be an iterable of keys, got 'abc'; did you mean"),
    (
        "submit",
        (),
        {"deadline": NAIVE},
        ValueError,
        "deadline must be an aware datetime, got 2100-01-01T00:00:00",
    ),
    ("submit", (), {"deadline": "tomorrow"}, TypeError, "deadline must be an aware datetime, got str"),
    ("submit", (), {"timeout": float("nan")}, ValueError, OUT_OF_RANGE),
    ("submit", (), {"data": OBJECT}, TypeError, NOT_JSON),
    ("submit", (), {"data": [float("inf")]}, ValueError, OUT_OF_RANGE),
    (
        "attach",
        ("o",),
        {"keys": "abc"},
        TypeError,
        "keys must be an iterable of keys, got 'abc'; did you mean",
    ),
    ("attach", ("o",), {"deadline": NAIVE}, ValueError, "deadline must be an aware datetime, got"),
    ("ask", ("o", "Go?"), {"choices": "yes"}, TypeError, "choices must be an iterable of choices, got 'yes'"),
    ("ask", ("o", "Go?"), {"deadline": NAIVE}, ValueError, "deadline must be an aware datetime, got"),
    ("complete", ("o", OBJECT), {}, TypeError, NOT_JSON),
    ("fail", ("o", OBJECT), {}, TypeError, NOT_JSON),
    ("reschedule", ("o",), {"deadline": NAIVE}, ValueError, "deadline must be an aware datetime, got"),
    ("links", ("o",), {"choices": "yes"}, TypeError, "choices must be an iterable of choices, got 'yes'"),
    ("signal", ("k", OBJECT), {}, TypeError, NOT_JSON),
    ("signal_batch", ([{"key": "k", "value": OBJECT}],), {}, TypeError, NOT_JSON),
    ("put", ("q", OBJECT), {}, TypeError, NOT_JSON),
    ("put_batch", ("q", [{"item": OBJECT}]), {}, TypeError, NOT_JSON),
]


def called(verbs, verb, arguments, options):
    call = getattr(verbs, verb)(*arguments, **options)
    return every(call) if hasattr(call, "__aiter__") else call


async def check(verbs, verb, arguments, options, line):
    kind, _, detail = line.partition(": ")
    status, slug = kind.split()
    refusal = await refused(called(verbs, verb, arguments, options), int(status), slug)
    assert refusal.detail == detail
    assert str(refusal) == line
    assert refusal.document["status"] == int(status)
    assert refusal.document["type"] == f"urn:purgatory:problem:{slug}"
    if slug == "invalid":
        [fault] = refusal.document["errors"]
        assert f"{fault['pointer']}: {fault['detail']}" == detail


async def test_submissions_that_cannot_be_are_refused(verbs):
    for options, line in SUBMISSIONS:
        await check(verbs, "submit", (), options, line)
        await check(verbs, "attach", ("o",), options, line)
    assert await every(verbs.operations(state="all")) == []


async def test_what_cannot_be_is_refused(verbs):
    for row in OTHERS:
        await check(verbs, *row)


async def test_arguments_that_are_none_are_errors(verbs):
    for verb, arguments, options, error, words in ERRORS:
        with pytest.raises(error) as caught:
            await called(verbs, verb, arguments, options)
        assert str(caught.value).startswith(words), f"{verb} {arguments} {options}"
