"""Summaries of operations for a terminal."""

import click
import pytest

from purgatory_async.cli.sentence import escaped
from purgatory_async.cli.summaries import explain, missing, need_of, printable, seconds
from purgatory_async.client import Operation

PENDING = {
    "id": "o",
    "keys": ["order:42"],
    "need": "any",
    "state": "pending",
    "submitted_at": "2026-01-01T12:00:00Z",
    "deadline": None,
    "elapsed": 0.0,
    "signals": [],
    "waiting_for": {"any": ["order:42"]},
}
HOSTILE = [
    pytest.param("\x1b[2J\x1b]0;owned\x07", id="escape sequences"),
    pytest.param("a\r\nb\tc\x00\x7f\x9b", id="control characters"),
    pytest.param("\u202egpj.exe\u2066", id="bidi"),
    pytest.param("\u2028\u2029\u200b\ufeff", id="invisible separators"),
    pytest.param("\ud800", id="half a character"),
]


def operation(**members):
    return Operation.of({**PENDING, **members})


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_escaped(text):
    assert printable(text).isprintable()
    assert escaped(text).isprintable()
    assert printable(text).isascii() or "gpj" in text


@pytest.mark.parametrize("text", ["order:42", "naïve 漢字", "[bold]x[/bold]", "a" * 60])
def test_what_is_printable_stays_as_it_is(text):
    assert printable(text) == escaped(text) == text


def test_what_is_long_is_cut_where_it_stands_in_a_line():
    assert printable("a" * 61) == "a" * 57 + "..."
    assert escaped("a" * 61) == "a" * 61


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (None, "-"),
        (0, "0.00 s"),
        (9.994, "9.99 s"),
        (10, "10.0 s"),
        (59.9, "59.9 s"),
        (59.99, "1 m 0 s"),
        (9.999, "10.0 s"),
        (60, "1 m 0 s"),
        (3599.6, "1 h 0 m"),
        (3600, "1 h 0 m"),
        (86400, "24 h 0 m"),
    ],
)
def test_durations_are_rounded_to_what_a_person_reads(duration, text):
    assert seconds(duration) == text


@pytest.mark.parametrize(
    ("waiting_for", "words"),
    [
        ({"any": ["a", "b"]}, "any of its keys"),
        ({"all": ["a\n", "b"]}, "all of a\\n, b"),
        ({"amount": 3}, "an amount of 3"),
        ({"voters": 2}, "2 more voters"),
        ({"voters": 1}, "1 more voter"),
        ({"moon": "full"}, "-"),
        (None, "-"),
    ],
)
def test_what_is_missing_is_said_in_words(waiting_for, words):
    assert missing(operation(waiting_for=waiting_for)) == words


def test_a_pending_operation_shows_its_needs_and_time_left():
    text = "\n".join(explain(operation(deadline="2026-01-01T12:01:30Z", elapsed=20.0)))
    assert "operation o is pending" in text
    assert "any of its keys, for 20.0 s now" in text
    assert "expires in   1 m 10 s" in text
    assert "none since it was submitted" in text


def test_an_ended_operation_is_explained_by_how_and_after_what():
    signals = [{"key": "a", "index": 7, "voter": "me\x1b"}, {"key": "b", "index": 9}]
    text = "\n".join(explain(operation(state="completed", elapsed=3.0, signals=signals, waiting_for=None)))
    assert "operation o is completed" in text
    assert "after        3.00 s" in text
    assert "7 on a by me\\x1b" in text
    assert "9 on b" in text
    assert "expires" not in text


@pytest.mark.parametrize("text", HOSTILE)
def test_no_explanation_has_what_a_terminal_would_obey(text):
    signals = [{"key": text, "index": 1, "voter": text}]
    explained = explain(operation(id=text, keys=[text], signals=signals, waiting_for={"all": [text]}))
    assert all(line.isprintable() for line in explained)


@pytest.mark.parametrize(
    ("text", "need"),
    [("any", "any"), ("all", "all"), ("amount:3", {"amount": 3}), ("voters:12", {"voters": 12})],
)
def test_a_need_is_read_as_its_grammar_says(text, need):
    assert need_of(text) == need


@pytest.mark.parametrize(
    "text", ["", "some", "amount", "amount:", "amount:-1", "amount:٣", "voters:1\n", "ANY"]
)
def test_a_malformed_need_is_refused_with_value_and_grammar(text):
    with pytest.raises(click.ClickException) as refused:
        need_of(text)
    assert "any, all, amount:N or voters:N" in refused.value.message
    assert repr(text) in refused.value.message
