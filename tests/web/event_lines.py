"""A strict parser of event streams, after the HTML standard (9.2.6): it refuses what the standard would ignore."""

import re
from typing import NamedTuple


class Event(NamedTuple):
    """An event as a browser dispatches it.

    Attributes:
        name: Its type.
        data: Its data.
        last_id: What the browser would send as ``Last-Event-ID`` after it.
    """

    name: str
    data: str
    last_id: str


class Parsed(NamedTuple):
    """A whole stream.

    Attributes:
        events: In their order.
        retries: Each reconnection time, in milliseconds.
        comments: How many comments it has.
        last_id: What the browser would send as ``Last-Event-ID`` in the end.
    """

    events: list[Event]
    retries: list[int]
    comments: int
    last_id: str


def parse(stream: bytes) -> Parsed:
    """Parse a stream that must be whole.

    Raises:
        ValueError: It is not UTF-8, has an unknown field or a useless one, or ends within an event.
    """
    *lines, rest = re.split("\r\n|\r|\n", stream.decode())
    parser = _Parser()
    for line in lines:
        parser.read(line)
    if rest or parser.data or parser.name:
        raise ValueError(f"it ends within an event: {(rest, parser.data, parser.name)!r}")
    return Parsed(parser.events, parser.retries, parser.comments, parser.last_id)


class _Parser:
    """The buffers of the standard, and what was dispatched."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.retries: list[int] = []
        self.comments = 0
        self.data: list[str] = []
        self.name = self.last_id = ""

    def read(self, line: str) -> None:
        field, colon, value = line.partition(":")
        if not line:
            self.dispatch()
        elif not field:
            self.comments += 1
        elif not colon:
            raise ValueError(f"a line without a colon: {line!r}")
        else:
            self.take(field, value.removeprefix(" "))

    def take(self, field: str, value: str) -> None:
        if field == "data":
            self.data.append(value)
        elif field == "event":
            self.name = value
        elif field == "id" and "\0" not in value:
            self.last_id = value
        elif field == "retry" and re.fullmatch("[0-9]+", value):
            self.retries.append(int(value))
        else:
            raise ValueError(f"the field is ignored: {field!r}: {value!r}")

    def dispatch(self) -> None:
        if self.data:
            self.events.append(Event(self.name or "message", "\n".join(self.data), self.last_id))
        elif self.name:
            raise ValueError(f"the event {self.name!r} has no data, and is dropped")
        self.data, self.name = [], ""
