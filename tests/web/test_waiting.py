"""Which wait applies, and which header reports it."""

from urllib.parse import quote

import pytest

from purgatory_async.web.waiting import asked_wait, decided_wait, preferred_wait, shortened
from tests.spellings import DURATIONS, NO_NUMBERS_EITHER, NOT_DURATIONS, UNBOUNDED


@pytest.mark.parametrize(("text", "seconds"), (DURATIONS | UNBOUNDED).items())
def test_a_query_and_a_preference_have_the_spellings_of_all(text, seconds):
    assert asked_wait(f"wait={text}") == preferred_wait(f'wait="{text}"') == seconds


@pytest.mark.parametrize("text", [*NOT_DURATIONS, *NO_NUMBERS_EITHER])
def test_a_query_refuses_what_a_preference_ignores(text):
    assert preferred_wait(f'wait="{text}"') is None
    with pytest.raises(ValueError, match="wait must follow"):
        asked_wait(f"wait={quote(text)}")


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        pytest.param("", None, id="no query"),
        pytest.param("waiting=5&x=wait", None, id="other parameters"),
        pytest.param("wait=5", 5.0, id="alone"),
        pytest.param("a=1&wait=250ms&b", 0.25, id="among others"),
        pytest.param("w%61it=%35s", 5.0, id="escaped"),
        pytest.param("wait=0", 0.0, id="zero"),
        pytest.param("a=%ff&wait=1m&&=", 60.0, id="among garbage"),
    ],
)
def test_the_wait_is_read_from_a_query_whose_rest_is_not_ours(query, seconds):
    assert asked_wait(query) == seconds


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        pytest.param("wait=", "''", id="empty"),
        pytest.param("wait", "''", id="no value"),
        pytest.param("wait=1w", "'1w'", id="another unit"),
        pytest.param("wait=5+s", "'5 s'", id="a space"),
        pytest.param("wait=5%0a", r"'5\n'", id="a newline"),
        pytest.param("wait=%ff", r"'\ufffd'", id="not UTF-8"),
        pytest.param("wait=" + "9" * 1000, "'" + "9" * 40 + "'", id="long"),
    ],
)
def test_a_malformed_wait_is_refused_with_value_and_grammar(query, shown):
    with pytest.raises(ValueError, match=r"wait must follow \[0-9\]\{1,9\}\(ms\|s\|m\|h\|d\)\?") as refusal:
        asked_wait(query)
    assert f"got {shown}; write it as " in str(refusal.value)
    assert str(refusal.value).isascii()


def test_two_waits_are_refused():
    with pytest.raises(ValueError, match=r"wait must be given once, got 2 of them, '7' the second"):
        asked_wait("wait=5&wait=7")


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        pytest.param(None, None, id="no header"),
        pytest.param("wait=5", 5.0, id="alone"),
        pytest.param("Wait = 5", 5.0, id="any case, spaces"),
        pytest.param("respond-async, wait=5", 5.0, id="among others"),
        pytest.param('wait="5"', 5.0, id="quoted"),
        pytest.param("wait=5; x=y", 5.0, id="with a parameter"),
        pytest.param("wait=5, wait=9", 5.0, id="the first of two"),
        pytest.param("wait=250ms", 0.25, id="our own unit"),
        pytest.param("wait", None, id="no value"),
        pytest.param("wait=soon", None, id="malformed"),
        pytest.param("wait=-1", None, id="negative"),
        pytest.param("waiting=5", None, id="another preference"),
        pytest.param(",,=;\x80", None, id="garbage"),
    ],
)
def test_a_preference_is_read_and_a_malformed_one_ignored(prefer, seconds):
    assert preferred_wait(prefer) == seconds


@pytest.mark.parametrize(
    ("asked", "prefer", "seconds", "applied"),
    [
        pytest.param(None, None, 0.0, None, id="none is a check"),
        pytest.param(3.0, None, 3.0, None, id="the query's"),
        pytest.param(None, "wait=4", 4.0, "wait=4", id="the preference's"),
        pytest.param(3.0, "wait=4", 3.0, "wait=3", id="the query wins"),
        pytest.param(0.0, "wait=4", 0.0, "wait=0", id="a query of zero wins"),
        pytest.param(0.25, "wait=4", 0.25, "wait=250ms", id="less than a second"),
        pytest.param(500.0, None, 55.0, None, id="cut"),
        pytest.param(None, "wait=500", 55.0, "wait=55", id="cut and said so"),
        pytest.param(3.0, "wait=x", 3.0, None, id="a malformed preference is as none"),
    ],
)
def test_the_wait_is_the_querys_else_the_preferences_and_is_cut(asked, prefer, seconds, applied):
    wait = decided_wait(asked, prefer, 55.0)
    assert (wait.seconds, wait.applied) == (seconds, applied)


@pytest.mark.parametrize(
    ("asked", "prefer", "seconds"),
    [
        pytest.param(None, None, 20.0, id="neither asks"),
        pytest.param(None, "wait=x", 20.0, id="a malformed preference is as none"),
        pytest.param(0.0, None, 0.0, id="a query of zero is one"),
        pytest.param(None, "wait=0", 0.0, id="a preference of zero is one"),
    ],
)
def test_where_neither_asks_the_wait_is_what_the_caller_says(asked, prefer, seconds):
    assert decided_wait(asked, prefer, 55.0, otherwise=20.0).seconds == seconds


def test_what_the_caller_says_is_cut_too():
    assert decided_wait(None, None, 55.0, otherwise=90.0).seconds == 55.0


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_jitter_only_ever_shortens(fraction):
    assert 15.0 <= shortened(16.0, 1 / 16, fraction) <= 16.0


def test_jitter_of_zero_is_off():
    assert shortened(16.0, 0.0, 0.9) == 16.0
