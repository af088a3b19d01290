"""Events as text: a parser after the standard reads what was written."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purgatory_async.web._event_text import COMMENT, event_text, gap_text, id_of, index_of, opening_text
from tests.web.event_lines import Event, parse

# Every line end, and what `str.splitlines` takes for one.
NASTY = st.text(st.sampled_from("\r\n\v\f\x1c\x1e\x85\u2028\u2029\ufeff\0: aé😀")) | st.text()
LINES = st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"))
NAMES = st.none() | LINES.filter(bool)


@settings(max_examples=40)
@given(st.lists(st.tuples(NASTY, NAMES, NAMES)))
def test_what_is_written_is_parsed_as_it_was(events):
    written = [
        event_text(data.encode("utf-8", "replace"), event=name, event_id=event_id)
        for data, name, event_id in events
    ]
    wanted, last_id = [], ""
    for data, name, event_id in events:
        last_id = last_id if event_id is None else event_id
        text = data.encode("utf-8", "replace").decode()
        wanted.append(Event(name or "message", re.sub("\r\n|\r", "\n", text), last_id))
    assert parse(b"".join(written)) == (wanted, [], 0, last_id)


@settings(max_examples=40)
@given(NASTY)
def test_no_data_adds_a_field_or_ends_an_event(data):
    lines = event_text(data.encode("utf-8", "replace")).decode()
    assert lines.endswith("\n\n")
    assert all(line.startswith("data: ") for line in re.split("\r\n|\r|\n", lines.removesuffix("\n\n")))


@pytest.mark.parametrize("text", ["a\nb", "a\rdata: b", "\0", "\r\n"])
@pytest.mark.parametrize("field", ["event", "event_id"])
def test_a_name_or_an_id_is_one_line(field, text):
    with pytest.raises(ValueError, match=r"(event|id) must be one line without NUL, got '"):
        event_text(b"1", **{field: text})


@pytest.mark.parametrize(("missed", "data"), [(7, '{"missed": 7}'), (None, '{"missed": null}')])
def test_a_gap_names_what_is_missing_and_where_to_go_on(missed, data):
    assert parse(gap_text(missed, "e-3")).events == [Event("gap", data, "e-3")]


@pytest.mark.parametrize("event_id", [None, "e-3"])
def test_an_opening_has_whole_milliseconds_a_place_and_no_event(event_id):
    assert parse(opening_text(1.2345, event_id) + COMMENT) == ([], [1234], 1, event_id or "")


@settings(max_examples=40)
@given(LINES.filter(bool), st.integers(0, 10**18 - 1))
def test_the_index_of_an_id_is_the_one_it_was_made_with(epoch, index):
    assert index_of(id_of(epoch, index), epoch) == index


@pytest.mark.parametrize(
    "event_id",
    [
        "",
        "e",
        "e-",
        "-1",
        "e-x",
        "e--1",
        "e-1-2",
        "E-1",
        "f-1",
        "e-1 ",
        "e-1\n",
        "e-1.5",
        "e-٣",
        "e-" + "9" * 19,
    ],
)
def test_what_is_no_id_of_the_epoch_has_no_index(event_id):
    assert index_of(event_id, "e") is None
