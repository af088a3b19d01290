"""The log: one record, one line, whatever is in it."""

import fcntl
import io
import json
import logging
import os
import sys
from pathlib import Path

import pytest

from purgatory_async.service.logs import ForwardingHandler, stderr_log

HOSTILE = "a\nb\r\x1b[2J\x7f\x85\u2028\u2029\u202e\u2066"


@pytest.fixture
def stream():
    return io.StringIO()


def test_a_hostile_value_stays_on_its_line_as_printable_ascii(stream):
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


def said(line):
    return json.loads(line)["message"]


@pytest.fixture
def pipe():
    """A pipe with room for two pages."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 8192)
    with os.fdopen(reading, "rb", buffering=0) as source, os.fdopen(writing, "w") as stream:
        yield source, stream


@pytest.fixture
def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        yield stream


@pytest.fixture
def full_disk():
    with Path("/dev/full").open("w") as stream:
        yield stream


@pytest.mark.parametrize("stream", ["closed_pipe", "full_disk"])
def test_a_line_that_cannot_be_written_raises_nothing(stream, request):
    stream = request.getfixturevalue(stream)
    log = stderr_log(stream)
    log.info("lost")
    log.error("lost", exc_info=ValueError())


def test_without_standard_error_nothing_is_written(monkeypatch, capfd):
    monkeypatch.setattr(sys, "stderr", None)
    stderr_log().info("lost")
    assert capfd.readouterr() == ("", "")


def test_a_full_pipe_delays_nothing_and_keeps_lines_whole(pipe):
    source, stream = pipe
    log = stderr_log(stream)
    log.info("first")
    log.info("second", value="x" * 10_000)  # begun: the rest follows as soon as it fits
    log.info("dropped")
    text = b""
    while text.count(b"\n") < 4:
        text += source.read(65_536)
        log.info("later")
    messages = [said(line) for line in text.splitlines()[:4]]
    assert messages[:2] == ["first", "second"]
    assert set(messages[2:]) == {"later"}


def test_a_disk_with_little_room_gets_whole_lines(monkeypatch, tmp_path):
    written, room = bytearray(), [150]

    def write(_, data):
        if not room[0]:
            raise OSError(28, "No space left on device")
        written.extend(data[: room[0]])
        taken = min(room[0], len(data))
        room[0] -= taken
        return taken

    with (tmp_path / "log").open("w") as stream:
        log = stderr_log(stream)
        monkeypatch.setattr(os, "write", write)
        for message in ("a", "b", "c"):
            log.info(message)
        room[0] = 10_000
        log.info("d")
    assert [said(line) for line in written.splitlines()] == ["a", "b", "d"]


def test_a_record_that_cannot_be_formatted_raises_nothing(stream, monkeypatch):
    logger = logging.getLogger("their.name")
    monkeypatch.setattr(logger, "handlers", [ForwardingHandler(stderr_log(stream))])
    monkeypatch.setattr(logger, "propagate", False)
    logger.warning("%d", "no number")
    assert said(stream.getvalue()) == "'%d' % ('no number',)"
