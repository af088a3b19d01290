"""The log: one record, one line, whatever is in it."""

import io
import json
import logging

import pytest

from purgatory_async.service.logs import ForwardingHandler, stderr_log

HOSTILE = "a\nb\r\x1b[2J\x7f\x85\u2028\u2029\u202e\u2066"


@pytest.fixture
def stream():
    return io.StringIO()


def test_a_hostile_value_stays_on_its_line_and_is_printable_ascii(stream):
    stderr_log(stream).info("key refused", key=HOSTILE)
    [line] = stream.getvalue().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["key"] == HOSTILE


def test_an_exception_is_part_of_its_line(stream):
    stderr_log(stream).error("failed", exc_info=ValueError(HOSTILE))
    [line] = stream.getvalue().splitlines()
    assert "ValueError" in json.loads(line)["exception"]


def test_records_below_the_level_are_left_out(stream):
    log = stderr_log(stream, level=logging.WARNING)
    log.info("nothing")
    log.warning("something")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["something"]


def test_records_of_the_standard_library_are_forwarded_as_lines(stream, monkeypatch):
    logger = logging.getLogger("their.name")
    monkeypatch.setattr(logger, "handlers", [ForwardingHandler(stderr_log(stream))])
    monkeypatch.setattr(logger, "propagate", False)
    logger.info("too quiet")
    logger.warning("first %s", HOSTILE)
    logger.error("second", exc_info=OSError())
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["logger"], first["level"], first["message"]) == (
        "their.name",
        "warning",
        f"first {HOSTILE}",
    )
    assert (second["level"], "OSError" in second["exception"]) == ("error", True)
