"""The options of a line of the tokens file: owner, prefixes and limits."""

import pytest

from purgatory_async.durable.grants import NO_LIMITS, OwnerLimits, Rate
from purgatory_async.service.access.tokens import parse_tokens
from purgatory_async.service.settings.settings import SettingsError

TOKEN = b"0123456789abcdef"


def grant(options):
    return parse_tokens(b"%s wait %s" % (TOKEN, options), "tokens").grant_of(TOKEN)


def refusal(text):
    with pytest.raises(SettingsError) as refused:
        parse_tokens(text, "tokens")
    message = str(refused.value)
    assert "0123456789" not in message
    assert "hunter2" not in message
    assert message.isascii()
    return message


def test_a_line_has_an_owner_prefixes_and_limits():
    found = grant(b"name=orders prefix=orders/ prefix=a%20b max-pending=1000 max-bytes=16MiB rate=100/s")
    assert (found.owner, found.prefixes) == ("orders", ("orders/", "a b"))
    assert found.limits == OwnerLimits(1000, 16 << 20, Rate(100, 1))


def test_options_may_come_in_any_order_and_all_be_left_out():
    assert grant(b"rate=6/m name=a").limits.rate == Rate(6, 60)
    assert (grant(b"").prefixes, grant(b"").limits) == ((), NO_LIMITS)


@pytest.mark.parametrize(("unit", "seconds"), [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)])
def test_a_rate_has_a_unit_of_time(unit, seconds):
    rate = grant(b"rate=999999/%s" % unit.encode()).limits.rate
    assert rate == Rate(999_999, seconds)
    assert str(rate) == f"999999/{unit}"


@pytest.mark.parametrize(
    ("text", "size"), [(b"1", 1), (b"7B", 7), (b"2KiB", 2048), (b"3GiB", 3 << 30), (b"001", 1)]
)
def test_a_size_is_in_bytes_or_binary_units(text, size):
    assert grant(b"max-bytes=" + text).limits.max_bytes == size


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (b"hunter2", "word 3 must be an option: one of name=, prefix=, max-pending=, max-bytes=, rate="),
        (b"name=a owner=hunter2", "word 4 must be an option"),
        (b"Name=hunter2", "word 3 must be an option"),
        (b"name=a name=b", "word 4 repeats name="),
        (b"rate=1/s rate=1/s", "word 4 repeats rate="),
        (b"name=", "name= must be 1 to 64 of A-Z a-z 0-9 - . _ ~, got 0 characters"),
        (b"name=hunter2/x", "name= must be 1 to 64"),
        (b"name=" + b"x" * 65, "got 65 characters"),
        (b"prefix=", "prefix= must be 1 to 512 bytes"),
        (b"prefix=hunter2%2", "prefix= must be"),
        (b"prefix=%ff", "prefix= must be"),
        (b"prefix=a%0A", "prefix= must be"),
        (b"prefix=..", "prefix= must be"),
        (b"prefix=" + b"x" * 513, "got 513 characters"),
        (b" ".join(b"prefix=%d" % number for number in range(65)), "at most 64 prefixes, got 65"),
        (b"max-pending=0", "max-pending= must be an integer from 1, got 1 characters"),
        (b"max-pending=-1", "max-pending= must be"),
        (b"max-pending=1_0", "max-pending= must be"),
        (b"max-pending=" + b"9" * 16, "max-pending= must be"),
        (b"max-bytes=0", "max-bytes= must be a size from 1"),
        (b"max-bytes=1MB", "max-bytes= must be"),
        (b"max-bytes=1.5MiB", "max-bytes= must be"),
        (b"rate=0/s", "rate= must be N/s, N/m, N/h or N/d"),
        (b"rate=5", "rate= must be"),
        (b"rate=5/w", "rate= must be"),
        (b"rate=5/S", "rate= must be"),
        (b"rate=1000000/s", "rate= must be"),
    ],
)
def test_a_bad_option_is_told_by_line_and_bound_unquoted(options, reason):
    message = refusal(b"# first\nhunter2hunter2hunter2 admin\n%s wait %s\n" % (TOKEN, options))
    assert message.startswith("tokens: tokens line 3: ")
    assert reason in message


def test_a_prefix_beside_admin_is_refused():
    assert "prefix= must not stand beside the scope admin" in refusal(TOKEN + b" admin prefix=a/")


def test_lines_of_one_name_must_have_equal_limits():
    line = b"%s wait name=a rate=1/s\n"
    both = line % TOKEN + line % b"hunter2hunter2hunter2"
    assert repr(parse_tokens(both, "tokens")) == "<Tokens 2>"
    message = refusal(both + b"third-0123456789 read name=a rate=2/s")
    assert "line 3: max-pending=, max-bytes= and rate= must be as in line 1" in message


def test_a_name_that_is_another_tokens_digest_is_refused():
    owner = grant(b"").owner.encode()
    message = refusal(b"%s wait\nhunter2hunter2hunter2 wait name=%s" % (TOKEN, owner))
    assert "line 2: line 1 has this owner, too, by a digest of 8 digits" in message


def test_a_grant_shows_no_digest_of_its_token():
    assert "digest" not in repr(grant(b"name=a"))
