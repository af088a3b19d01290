"""Deadlines are RFC 3339 with an offset, read up to the microsecond at or after them."""

import datetime as dt
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async.deadlines import PATTERN, deadline_text, due_us, instant_us
from tests.spellings import DEADLINES, NOON_US, NOT_DEADLINES

CENTURY_US = 3_155_760_000_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST = EPOCH.replace(year=1, day=3, tzinfo=None)  # its instant is in Python's years with any offset
LAST = EPOCH.replace(year=9999, month=12, day=29, tzinfo=None)
ZONES = st.integers(-1439, 1439).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@pytest.mark.parametrize(("text", "instant"), DEADLINES.items())
def test_a_deadline_is_read_to_the_microsecond_rounded_up(text, instant):
    assert instant_us(text) == instant
    assert re.fullmatch(PATTERN, text)


@pytest.mark.parametrize("text", NOT_DEADLINES)
def test_anything_else_is_refused_with_the_value(text):
    with pytest.raises(ValueError, match="a deadline must be") as refusal:
        instant_us(text)
    assert f"got {text[:40]!a}" in str(refusal.value)
    assert str(refusal.value).isascii()


def test_the_refusal_shows_how_to_write_one():
    with pytest.raises(ValueError, match="must be") as refusal:
        instant_us("2026-01-01T12:00:00")
    assert str(refusal.value) == (
        "a deadline must be a date and time of RFC 3339 with Z or an offset, got '2026-01-01T12:00:00'; "
        "write it as 2026-12-31T17:00:00Z or 2026-12-31T18:00:00+01:00"
    )


@given(
    st.datetimes(FIRST, LAST).map(lambda naive: naive.replace(microsecond=0)),
    ZONES,
    st.from_regex(re.compile("([.][0-9]{1,9})?"), fullmatch=True),
)
def test_it_means_what_pythons_parser_means_and_is_never_earlier(naive, zone, fraction):
    aware = naive.replace(tzinfo=zone)
    text = naive.isoformat() + fraction + aware.isoformat()[19:]
    nanoseconds = int(fraction[1:].ljust(9, "0")) if fraction else 0
    exact_ns = (aware - EPOCH) // dt.timedelta(seconds=1) * 10**9 + nanoseconds
    assert 0 <= instant_us(text) * 1000 - exact_ns < 1000


def test_one_of_the_past_is_past_and_never_before_1970():
    assert due_us("2025-01-01T00:00:00Z", NOON_US) < NOON_US
    assert due_us("0001-01-01T00:00:00+23:59", NOON_US) == 0


def test_a_hundred_years_ahead_is_the_most():
    text = "2126-01-02T12:00:00Z"  # of 365.25 days
    assert due_us(text, NOON_US) == NOON_US + CENTURY_US
    with pytest.raises(ValueError, match=f"at most 100 years ahead, got '{text}'; leave it out"):
        due_us(text, NOON_US - 1)
    with pytest.raises(ValueError, match="at most 100 years ahead"):
        due_us("2126-01-02T12:00:00.000000001Z", NOON_US)


@given(st.datetimes(FIRST, LAST, timezones=ZONES))
def test_a_clients_datetime_is_written_so_that_it_reads_back(aware):
    assert instant_us(deadline_text(aware)) == (aware - EPOCH) // dt.timedelta(microseconds=1)
    assert re.fullmatch(PATTERN, deadline_text(aware))


def test_an_offset_of_seconds_is_no_trouble():
    aware = dt.datetime(1883, 1, 1, tzinfo=dt.timezone(-dt.timedelta(seconds=17_762)))
    assert deadline_text(aware) == "1883-01-01T04:56:02+00:00"


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (dt.datetime(2026, 1, 1), ValueError, "got 2026-01-01T00:00:00 without a time zone"),  # noqa: DTZ001
        (dt.date(2026, 1, 1), TypeError, "got date"),
        ("2026-01-01T00:00:00Z", TypeError, "got str"),
        (60, TypeError, "got int"),
    ],
)
def test_what_is_no_aware_datetime_is_refused_with_one_that_is(value, error, sentence):
    with pytest.raises(error, match="deadline must be an aware datetime") as refusal:
        deadline_text(value)
    assert f"{sentence}; give one with a time zone, such as datetime.now(UTC) + " in str(refusal.value)


def test_an_instant_outside_of_pythons_years_is_refused():
    with pytest.raises(ValueError, match="at most 100 years ahead"):
        deadline_text(dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=1))))


def test_the_pattern_is_one_that_json_schema_knows():
    assert json.loads(json.dumps(PATTERN)).isascii()
    assert "(?" not in PATTERN
