"""The worst bodies of a megabyte cost a few times as much as an ordinary one, and never seconds."""

import math
import random
import time
from decimal import Decimal
from itertools import count, islice

import pytest

from purgatory_async.durable.documents import kept, problems
from purgatory_async.durable.documents.decoding import decoded
from purgatory_async.durable.documents.long_lists import check_list
from purgatory_async.durable.documents.messages import MAX_LISTED
from purgatory_async.durable.verbs.submissions import SUBMIT
from purgatory_async.service.api.repeating import digest_of

MEGABYTE = 1 << 20
RANDOM = random.Random(1)


def filled(pieces, head=b'{"keys":["a"],"data":[', tail=b"]}"):
    """A body of at most a megabyte, from as many of the pieces as fit."""
    size, taken = len(head) + len(tail), []
    for piece in pieces:
        size += len(piece) + 1
        if size > MEGABYTE:
            break
        taken.append(piece)
    return head + b",".join(taken) + tail


def between_doubles(digits, exponent):
    """Floats at the middle of two doubles, where reading takes longest."""
    while True:
        low = math.ldexp(1 + RANDOM.random(), exponent)
        middle = (Decimal(low) + Decimal(math.nextafter(low, math.inf))) / 2
        yield format(middle, f".{digits - 1}E").replace("E+", "e").encode()


def repeated(piece):
    while True:
        yield piece


NESTED = [b'{"":' * 28 + b"{}" + b"}" * 28] * (32_000 // 29)
MEMBERS = (b'"%x":0' % number for number in count())
# Made only where its test runs: all of them take seconds.
SHAPES = {
    "floats of 20 digits": lambda: filled(between_doubles(20, 1000)),
    "floats of 100 digits": lambda: filled(between_doubles(100, 1000)),
    "subnormal floats": lambda: filled(repeated(b"4.9406564584124654e-320")),
    "small floats": lambda: filled(b"%de-%d" % (number % 1000, number % 300) for number in count()),
    "short floats": lambda: filled(repeated(b"1.5")),
    "integers of 4 000 digits": lambda: filled(repeated(b"1" * 4000)),
    "integers of 64 bits": lambda: filled(repeated(b"9111111111111111111")),
    "long digits in strings": lambda: filled(repeated(b'"99999999999999999999"')),
    "digits": lambda: filled(repeated(b"0")),
    "deep arrays": lambda: filled(repeated(b"[" * 30 + b"]" * 30)),
    "deep objects": lambda: filled(repeated(b'{"":' * 28 + b"{}" + b"}" * 28)),
    "as many objects as may be, and members": lambda: filled(
        [
            *NESTED,
            b"9111111111111111111",
            filled(MEMBERS, b"{", b"}")[: 650 * 1024].rpartition(b",")[0] + b"}",
        ]
    ),
    "brackets": lambda: b"[" * MEGABYTE,
    "brackets in strings": lambda: filled(repeated(b'["["]')),
    "members": lambda: filled((b'"%x":0' % number for number in count()), b'{"keys":["a"],"data":{', b"}}"),
    "doubled members": lambda: filled(repeated(b'"a":0'), b'{"keys":["a"],"data":{', b"}}"),
    "strings": lambda: filled(repeated(b'"a"')),
    "escapes": lambda: filled(repeated(b'"\\""')),
    "surrogates": lambda: filled(repeated(b'"\\ud83d\\ude00"')),
    "keys": lambda: filled((b'"%x"' % number for number in count()), b'{"keys":['),
    "equal keys": lambda: filled(repeated(b'"a"'), b'{"keys":['),
    "a long name": lambda: b'{"' + b"unknown field `" * 69_000 + b'x - at `$":0}',
    "white space": lambda: filled([b" " * (MEGABYTE - 100)]),
}


def cost(body):
    """Seconds of the processor's, at the least of three readings."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        try:
            check_list(body, "keys", MAX_LISTED)
            order = decoded(body, SUBMIT)
            digest_of("POST", "/v1/operations", {}, b"", body)
            kept(order.data)
        except problems.Problem:
            pass
        seconds.append(time.process_time() - begin)
    return min(seconds)


def ordinary():
    return filled(b'{"id":%d,"name":"order %d","price":%d.25}' % (n, n, n) for n in islice(count(), 20_000))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_no_body_costs_much_more_than_an_ordinary_one(shape):
    # Of the worst of those above, floats of 20 digits, it was 30 times as much.
    body = SHAPES[shape]()
    assert len(body) <= MEGABYTE
    assert cost(body) < 5 * cost(ordinary())
