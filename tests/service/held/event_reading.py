"""Parse server-sent events strictly, as WHATWG's HTML standard defines them (9.2.6)."""

import json
import re
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One event: its number, its name, and its data decoded.

    Positions count from 1, and so do the events of a position: an event's number is its position's, plus those before
    it there. So entries with one event each give 1, 2, 3, ...; a gap's number is one less than the next one's.
    """

    number: int
    name: str
    data: Any


def events_in(body: bytes) -> list[Event]:
    """All events of a stream, comments left out; the stream must end with a whole one."""
    text = body.decode("utf-8")
    assert "\r" not in text
    found = []
    for block in text.split("\n\n"):
        if block in {"", ":"}:
            continue
        lines = [line.split(": ", 1) for line in block.split("\n")]
        assert [name for name, _ in lines] == ["id", "event", "data"], block
        (_, known_as), (_, name), (_, data) = lines
        place = re.fullmatch(r"[0-9a-f]{16}-([0-9]+)\.([0-9]+)", known_as)
        assert place, block
        found.append(Event(max(int(place[1]) + int(place[2]) - 1, 0), name, json.loads(data)))
    assert not text or text.endswith("\n\n")
    return found


def comments_in(body: bytes) -> int:
    """How many comments there are, each a block of its own."""
    return body.decode().split("\n\n").count(":")
