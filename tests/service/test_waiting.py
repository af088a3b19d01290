"""Which wait applies, and what the client is told of it."""

import pytest

from purgatory_async.service.waiting import decided_wait, preferred_wait, shortened


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


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_jitter_only_ever_shortens(fraction):
    assert 15.0 <= shortened(16.0, 1 / 16, fraction) <= 16.0


def test_jitter_of_zero_is_off():
    assert shortened(16.0, 0.0, 0.9) == 16.0
