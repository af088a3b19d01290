"""One grammar of durations, which refuses everything else."""

import pytest

from purgatory_async import clock
from purgatory_async.web.durations import MAX_TIMEOUT, checked_timeout, duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("0", 0.0, id="zero"),
        pytest.param("5", 5.0, id="bare digits are seconds"),
        pytest.param("5s", 5.0, id="seconds"),
        pytest.param("250ms", 0.25, id="milliseconds"),
        pytest.param("2m", 120.0, id="minutes"),
        pytest.param("24h", 86_400.0, id="hours"),
        pytest.param("30d", 2_592_000.0, id="days"),
        pytest.param("007", 7.0, id="leading zeros"),
        pytest.param("999999999d", 86_399_999_913_600.0, id="largest"),
    ],
)
def test_a_duration_of_the_grammar_is_read(text, seconds):
    assert parse_duration(text) == seconds


NOT_DURATIONS = [
    pytest.param("", id="empty"),
    pytest.param("-1", id="negative"),
    pytest.param("+1", id="plus"),
    pytest.param("1.5", id="fraction"),
    pytest.param("1e3", id="exponent"),
    pytest.param("1_000", id="underscore"),
    pytest.param(" 1", id="leading space"),
    pytest.param("1 s", id="space before the unit"),
    pytest.param("1\n", id="trailing newline"),
    pytest.param("1s\n", id="trailing newline after the unit"),
    pytest.param("\uff11", id="full-width digit"),
    pytest.param("\u0663", id="arabic digit"),
    pytest.param("1S", id="upper case"),
    pytest.param("1w", id="weeks"),
    pytest.param("1D", id="upper case of a day"),
    pytest.param("1\u017f", id="long s"),
    pytest.param("1234567890", id="ten digits"),
    pytest.param("nan", id="nan"),
    pytest.param("inf", id="infinity"),
]


@pytest.mark.parametrize("text", NOT_DURATIONS)
def test_anything_else_is_refused_by_name_and_grammar(text):
    with pytest.raises(ValueError, match=r"must follow \[0-9\]\{1,9\}\(ms\|s\|m\|h\|d\)\?") as refusal:
        parse_duration(text)
    assert repr(text) in str(refusal.value)


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
