"""One grammar of durations, which refuses everything else."""

import datetime as dt
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_async import clock
from purgatory_async.durations import (
    GRAMMAR,
    MAX_TIMEOUT,
    as_seconds,
    checked_timeout,
    duration_text,
    in_body,
    parse_duration,
)
from tests.spellings import DURATIONS, FRACTIONS, NO_NUMBERS_EITHER, NOT_DURATIONS, UNBOUNDED


@pytest.mark.parametrize(("text", "seconds"), (DURATIONS | UNBOUNDED).items())
def test_a_duration_of_the_grammar_is_read(text, seconds):
    assert parse_duration(text) == parse_duration(text, fractions=True) == seconds


@pytest.mark.parametrize(("text", "seconds"), FRACTIONS.items())
def test_a_fraction_is_read_where_it_is_allowed(text, seconds):
    assert parse_duration(text, fractions=True) == seconds
    with pytest.raises(ValueError, match="must follow"):
        parse_duration(text)


@pytest.mark.parametrize("text", [*NOT_DURATIONS, *NO_NUMBERS_EITHER])
def test_anything_else_is_refused_with_the_way_to_write_it(text):
    with pytest.raises(ValueError, match="timeout must follow") as refusal:
        parse_duration(text, "timeout")
    assert str(refusal.value) == (
        f"timeout must follow [0-9]{{1,9}}(ms|s|m|h|d)?, got {text!a}; "
        "write it as 250ms, 30s, 10m, 24h or 7d (bare digits are seconds)"
    )


@given(
    st.one_of(st.from_regex(re.compile(GRAMMAR, re.ASCII)), st.text("0123456789.msmhd \n\uff11", max_size=12))
)
def test_the_parser_is_the_grammar(text):
    match = re.compile("(?P<number>[0-9]{1,9})(?P<unit>ms|s|m|h|d)?").fullmatch(text)
    if match is None:
        with pytest.raises(ValueError, match="must follow"):
            parse_duration(text)
    else:
        unit = {"ms": Fraction(1, 1000), "s": 1, None: 1, "m": 60, "h": 3600, "d": 86_400}[match["unit"]]
        assert parse_duration(text) == float(int(match["number"]) * unit)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(None, None, id="null is no deadline"),
        pytest.param(0, 0.0, id="zero"),
        pytest.param(1.5, 1.5, id="a number of seconds"),
        pytest.param("1m", 60.0, id="text"),
        pytest.param(MAX_TIMEOUT, MAX_TIMEOUT, id="a hundred years"),
    ],
)
def test_a_timeout_is_a_duration_a_number_or_null(value, seconds):
    assert checked_timeout(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(-0.1, id="negative"),
        pytest.param(MAX_TIMEOUT * 1.0001, id="above a hundred years"),
        pytest.param("36526d", id="text above a hundred years"),
        pytest.param(10**400, id="an integer that no float holds"),
        pytest.param("soon", id="not of the grammar"),
    ],
)
def test_a_timeout_out_of_bounds_is_refused(value):
    with pytest.raises(ValueError, match=r"got"):
        checked_timeout(value)


def test_the_bound_is_the_one_of_the_librarys_timer():
    assert MAX_TIMEOUT == clock.MAX_TIMEOUT


@pytest.mark.parametrize("text", ["0", "1", "55", "250ms", "1500ms"])
def test_a_duration_is_written_so_that_it_reads_back(text):
    assert duration_text(parse_duration(text)) == text


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_a_caller_of_a_client_may_write_any_of_three(text, seconds):
    span = dt.timedelta(seconds=seconds)
    assert (
        as_seconds("timeout", text)
        == as_seconds("timeout", span)
        == as_seconds("timeout", seconds)
        == seconds
    )
    assert (in_body(text), in_body(span), in_body(seconds)) == (text, seconds, seconds)


@pytest.mark.parametrize("number", [0, 7, 2.5, -1, True, Fraction(1, 3), 10**400])
def test_a_number_is_left_as_it_is(number):
    assert as_seconds("timeout", number) is in_body(number) is number
