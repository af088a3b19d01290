"""The phases of a connection: the code moves as the table of transitions says, and the docstring draws it."""

import pytest

from purgatory_async.service.http import phase as documented
from purgatory_async.service.http.connection import MAX_BEHIND
from purgatory_async.service.http.phase import TRANSITIONS, Phase
from purgatory_async.testing import settle
from tests.service.wire import BODY_TIME, HEAD_TIME, Scripted, SocketlessServer, request

EVENTS = ("begin", "request", "upload", "body", "crowd", "discard", "turn", "linger", "close", "lose")
LATE = 0.02  # seconds after a deadline, which is rounded up to a tick
GET = request()
POST = request(method="POST", content_length="5")
CROWD = GET * (MAX_BEHIND // len(GET) + 1)
# How a new connection gets into a phase: bytes are sent, numbers are seconds, words are methods of `Subject`.
WAYS = {
    Phase.HEAD: (),
    Phase.BODY: (POST, b"x"),
    Phase.ANSWERING: (GET,),
    Phase.CROWDED: (GET, CROWD),
    Phase.DISCARDING: (GET, CROWD, 1 + LATE),
    Phase.IDLE: (GET, "answer"),
    Phase.LINGERING: (b"\0",),
    Phase.CLOSING: ("shut_down", 1 + LATE),
}
# In a phase, what happens, and the events that it is.
STEPS = [
    (Phase.HEAD, (b"GE", GET[2:]), "request"),
    (Phase.HEAD, (POST,), "upload"),
    (Phase.HEAD, (b"\0",), "linger"),
    (Phase.HEAD, (b"GE", HEAD_TIME + LATE), "linger"),
    (Phase.HEAD, ("shut_down", 1 + LATE), "close"),
    (Phase.BODY, (b"2345",), "body"),
    (Phase.BODY, ("answer", b"2345"), "body turn"),
    (Phase.BODY, (b"2345" + CROWD,), "body crowd"),
    (Phase.BODY, (BODY_TIME + LATE,), "linger"),
    (Phase.BODY, ("answer", "shut_down"), "close"),
    (Phase.ANSWERING, (CROWD,), "crowd"),
    (Phase.ANSWERING, ("answer",), "turn"),
    (Phase.ANSWERING, (b"GE", "answer"), "turn begin"),
    (Phase.ANSWERING, (POST, "answer"), "turn upload"),
    (Phase.ANSWERING, (GET, "shut_down", "answer"), "linger"),
    (Phase.ANSWERING, ("shut_down", "answer"), "close"),
    (Phase.CROWDED, ("answer",), "turn request"),
    (Phase.CROWDED, (1 + LATE,), "discard"),
    (Phase.CROWDED, ("shut_down", "answer"), "linger"),
    (Phase.DISCARDING, ("answer",), "linger"),
    (Phase.IDLE, (b"GE",), "begin"),
    (Phase.IDLE, (GET,), "request"),
    (Phase.IDLE, (POST,), "upload"),
    (Phase.IDLE, (b"\0",), "linger"),
    (Phase.IDLE, (75 + LATE,), "close"),
    (Phase.IDLE, ("shut_down", 1 + LATE), "close"),
    (Phase.LINGERING, (2 + LATE,), "close"),
    *((phase, ("vanish",), "lose") for phase in WAYS),
]


class Subject:
    """One connection, and an application that answers when the test lets it."""

    def __init__(self, client):
        self.app = Scripted()
        self.wired = SocketlessServer(client, self.app)
        self.link = self.wired.link()
        self.link.pipe.unread = 10  # so that a closing connection is not closed yet

    def answer(self):
        self.app.answer()

    def shut_down(self):
        self.link.protocol.shutdown()

    def vanish(self):
        self.link.pipe.lose()

    async def do(self, *steps):
        for step in steps:
            if isinstance(step, bytes):
                await self.link.send(step)
            elif isinstance(step, str):
                getattr(self, step)()
                await settle()
            else:
                await self.wired.after(step)

    @property
    def found(self):
        """The phase by the facts, without the connection's own word for it."""
        connection, pipe = self.link.protocol, self.link.pipe
        for fact, phase in (
            (pipe.lost, Phase.CLOSED),
            (pipe.closing, Phase.CLOSING),
            (pipe.half_closed, Phase.LINGERING),
            (connection._body is not None, Phase.BODY),
            (not pipe.reading, Phase.CROWDED),
        ):
            if fact:
                return phase
        before = connection._input
        if connection._request is None:
            return Phase.IDLE if before is None and pipe.written else Phase.HEAD
        connection.data_received(b"GE")
        return Phase.DISCARDING if connection._input == before else Phase.ANSWERING


@pytest.fixture
def subject(make_client):
    subject = Subject(make_client())
    yield subject
    subject.wired.faults.clear()


@pytest.mark.asyncio
@pytest.mark.parametrize(("phase", "steps", "events"), STEPS)
async def test_an_event_leads_where_the_table_says(subject, phase, steps, events):
    await subject.do(*WAYS[phase])
    assert subject.link.protocol._phase is phase
    await subject.do(*steps)
    for event in events.split():
        phase = TRANSITIONS[phase][event]
    assert subject.found is phase
    assert subject.link.protocol._phase is phase
    subject.vanish()
    await settle()


def test_every_transition_of_the_table_is_tried():
    tried = set()
    for phase, _, events in STEPS:
        for event in events.split():
            tried.add((phase, event))
            phase = TRANSITIONS[phase][event]  # noqa: PLW2901 - the walk goes on from there
    assert tried == {(phase, event) for phase, row in TRANSITIONS.items() for event in row}


@pytest.mark.asyncio
async def test_an_event_that_the_phase_lacks_is_named_with_it(subject):
    with pytest.raises(RuntimeError, match=r"is reading a head takes request, .*, got turn"):
        subject.link.protocol._move("turn")
    assert subject.link.protocol._phase is Phase.HEAD


def test_every_phase_has_a_row_and_only_the_last_is_final():
    assert list(TRANSITIONS) == list(Phase)
    assert {phase for row in TRANSITIONS.values() for phase in row.values()} == set(Phase)
    assert [phase for phase, row in TRANSITIONS.items() if not row] == [Phase.CLOSED]


def test_the_docstring_draws_the_table():
    rows = [["", *EVENTS]]
    for phase, row in TRANSITIONS.items():
        rows.append(
            [phase.name.lower(), *(row[event].name.lower() if event in row else "." for event in EVENTS)]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    drawn = "".join(f"    {'  '.join(map(str.ljust, row, widths)).rstrip()}\n" for row in rows)
    assert drawn in documented.__doc__
