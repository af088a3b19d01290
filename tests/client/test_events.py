"""The event stream: lines in, events out, and how long a broken stream is retried."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purgatory_async.client import Event, Policy, RequestRefused, ServiceError, ServiceUnreachable
from purgatory_async.client._events import SILENCE, EventReader


class Reading:
    """A reader whose time is a number."""

    def __init__(self, after=None, draw=1.0, **policy):
        self.now = 1000.0
        self.reader = EventReader(after, Policy(clock=lambda: self.now, draw=lambda: draw, **policy))

    def read(self, *lines):
        return [event for line in lines for event in self.reader.read(line)]


def lines_of(event_id, kind="submitted", data=None):
    return f"id: {event_id}", f"event: {kind}", f"data: {json.dumps(data)}", ""


def test_an_event_ends_with_an_empty_line_and_a_comment_is_none():
    reading = Reading()
    found = reading.read(
        ": hello", *lines_of("e-7", data={"id": "o"}), ":", "", *lines_of("e-8", "ended", {"id": "o"})
    )
    assert found == [Event("e-7", "submitted", {"id": "o"}), Event("e-8", "ended", {"id": "o"})]


def test_the_first_connection_starts_now_and_the_next_resumes():
    reading = Reading()
    assert "Last-Event-ID" not in reading.reader.headers
    reading.read(*lines_of("e-7"))
    assert reading.reader.headers["Last-Event-ID"] == "e-7"
    assert Reading(after="e-0").reader.headers["Last-Event-ID"] == "e-0"


@pytest.mark.parametrize("after", ["", "x" * 65, "a b", "e-1\n", "\u0663"])
def test_an_id_that_no_header_can_carry_is_refused(after):
    with pytest.raises(ValueError, match="after must be an event's id of 1 to 64 visible ASCII characters"):
        Reading(after=after)


def test_an_event_without_an_id_does_not_move_where_one_is():
    reading = Reading(after="e-5")
    assert reading.read("event: gap", "data: {}", "") == [Event(None, "gap", {})]
    assert reading.reader.last == "e-5"


def test_half_an_event_of_a_lost_connection_is_forgotten():
    reading = Reading()
    reading.read(*lines_of(7)[:-1])
    reading.reader.lost("cut")
    reading.reader.begin(200, "text/event-stream", b"")
    assert reading.read("", *lines_of(8)) == [Event("8", "submitted", None)]


def test_pauses_grow_in_silence_and_restart_after_an_event():
    reading = Reading(first_delay=1.0, max_delay=4.0)
    assert [reading.reader.pause() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    reading.read(": still here")
    assert [reading.reader.pause() for _ in range(2)] == [1.0, 2.0]
    reading.read(*lines_of(7))
    assert reading.reader.pause() == 1.0


def test_half_of_a_pause_is_random():
    assert Reading(first_delay=1.0, draw=0.0).reader.pause() == 0.5


def test_patience_counts_from_the_loss_of_the_connection():
    reading = Reading(patience=30.0)
    reading.read(": still here")
    reading.now += SILENCE
    reading.reader.lost("timed out")
    reading.now += 30
    reading.reader.lost("refused")
    reading.now += 0.1
    with pytest.raises(ServiceUnreachable, match="not answered: refused"):
        reading.reader.lost("refused")


def test_a_sign_of_life_gives_patience_anew():
    reading = Reading(patience=30.0)
    for _ in range(3):
        reading.reader.lost("refused")
        reading.now += 31
        reading.read(": still here")
    reading.reader.lost("refused")


def test_only_a_service_full_of_readers_is_retried():
    reading = Reading(patience=30.0)
    reading.reader.begin(503, "application/problem+json", b"{}")
    with pytest.raises(RequestRefused, match="403 forbidden: the sentence"):
        reading.reader.begin(
            403,
            "application/problem+json",
            b'{"type": "urn:purgatory:problem:forbidden", "detail": "the sentence"}',
        )
    with pytest.raises(RequestRefused, match="404"):
        reading.reader.begin(404, "text/html", b"<html>")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_bad_gateway_is_retried_within_the_patience(status):
    reading = Reading(patience=30.0)
    for _ in range(2):
        reading.reader.begin(status, "text/html", b"<html>")
        reading.now += 30.0
    reading.now += 0.1
    with pytest.raises(ServiceUnreachable):
        reading.reader.begin(status, "text/html", b"<html>")


@pytest.mark.parametrize("media_type", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
def test_a_stream_is_recognised_by_its_type(media_type):
    Reading().reader.begin(200, media_type, b"")


@pytest.mark.parametrize("media_type", ["", "text/html", "application/json", "text/event-streams"])
def test_a_success_of_another_type_is_refused_with_its_type(media_type):
    with pytest.raises(RequestRefused, match=media_type or "of no type") as refused:
        Reading().reader.begin(200, media_type, b"")
    assert "not text/event-stream" in str(refused.value)


def test_what_is_no_stream_of_the_services_is_refused_and_shown():
    with pytest.raises(RequestRefused, match="no answer of a purgatory service: 'data: <html>'"):
        Reading().read("data: <html>", "")
    with pytest.raises(RequestRefused, match="no answer of a purgatory service"):
        Reading().reader.begin(302, "text/event-stream", b"")


@pytest.mark.parametrize("length", [65, 4_300, 4_301, 100_000])
def test_an_id_that_is_too_long_is_refused_in_one_line(length):
    with pytest.raises(RequestRefused, match=f"id must have at most 64 characters, got {length}") as refused:
        Reading().read("id: " + "9" * length, "data: {}", "")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("event_id", ["9" * 64, "0", "0123456789abcdef-7", "e-12.3", "~!"])
def test_any_id_that_fits_is_read_and_sent_back_as_it_is(event_id):
    reading = Reading()
    assert reading.read(f"id: {event_id}", "") == [Event(event_id, "message", None)]
    assert reading.reader.headers["Last-Event-ID"] == event_id


@pytest.mark.parametrize("event_id", ["", "\u0663", " 7", "7 ", "7 8", "7\t", "\x007", "\x7f"])
def test_an_id_that_no_header_can_carry_is_none(event_id):
    reading = Reading(after="e-5")
    assert reading.read(f"id: {event_id}", "") == [Event(None, "message", None)]
    assert reading.reader.headers["Last-Event-ID"] == "e-5"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_data_that_is_nested_too_deep_is_refused(opening):
    with pytest.raises(RequestRefused, match="no answer of a purgatory service") as refused:
        Reading().read("data: " + opening * 100_000, "")
    assert len(str(refused.value)) < 500


def test_a_problem_that_is_nested_too_deep_is_refused():
    with pytest.raises(RequestRefused, match="403"):
        Reading().reader.begin(403, "application/problem+json", b"[" * 100_000)


def test_fields_that_events_do_not_have_are_not_kept():
    reading = Reading()
    reading.read(*(f"field{number}: x" for number in range(1_000)), "retry: 5", "id: 7")
    assert reading.reader._fields.keys() == {"id"}
    assert reading.read("") == [Event("7", "message", None)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
def test_lines_end_as_the_format_says_and_nowhere_else(end, size):
    reading = Reading()
    key = "a\u2028b\u2029c\x85d"
    text = end.join([*lines_of(7, data={}), "id: 8", f'data: "{key}"', "", ":"])
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    found = [event for piece in pieces for event in reading.reader.feed(piece)]
    assert found == [Event("7", "submitted", {}), Event("8", "message", key)]


def test_half_a_line_of_a_lost_connection_is_forgotten():
    reading = Reading()
    assert list(reading.reader.feed("id: 7\nda")) == []
    reading.reader.begin(200, "text/event-stream", b"")
    assert list(reading.reader.feed("data: 1\n\n")) == [Event(None, "message", 1)]


NAMES = st.sampled_from(["id", "event", "data", "retry", "", " id", "\ufeffid"]) | st.text(max_size=5)
VALUES = st.one_of(
    st.text(max_size=20),
    st.text("0123456789-", max_size=70),
    st.sampled_from(
        ["[" * 100_000, "9" * 5_000, "NaN", "1e999", '{"a":1}', "\ud800", "\x00", "-1", "\u0663"]
    ),
)
LINES = st.one_of(
    st.just(""),
    st.text(max_size=30),
    st.tuples(NAMES, st.sampled_from([":", ": ", ""]), VALUES).map("".join),
)


@given(st.lists(LINES, max_size=12))
@example(["id: " + "9" * 4_301, ""])
@example(["data: " + "[" * 100_000, ""])
def test_any_lines_are_events_or_the_clients_own_error(lines):
    reading = Reading()
    for line in lines:
        try:
            found = reading.read(line)
        except ServiceError:
            continue
        assert all(isinstance(event, Event) for event in found)
        assert reading.reader.headers.get("Last-Event-ID", "").isascii()
