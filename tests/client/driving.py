"""Drive a client's conversations by hand: time is a number, and the answers are a list."""

import json

from purgatory_async.client._calls import ServiceVerbs
from purgatory_async.client._talk import Lost, Pause, Policy, Request, Response

PENDING = {
    "id": "o",
    "keys": ["k"],
    "need": "any",
    "state": "pending",
    "submitted_at": "2026-01-01T12:00:00Z",
    "deadline": None,
    "elapsed": 0.0,
    "signals": [],
    "waiting_for": {"any": ["k"]},
}
COMPLETED = {**PENDING, "state": "completed"}
UNSENT = Lost("connection refused", sent=False)
BROKEN = Lost("server disconnected", sent=True)


def answer(status=200, document=None, **headers):
    body = b"" if document is None else json.dumps(document).encode()
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def problem(status, slug, **headers):
    return answer(status, {"type": f"urn:purgatory:problem:{slug}", "detail": "the sentence"}, **headers)


BUSY = problem(503, "overloaded")


class Line:
    """Carries conversations out: each request takes its time and gets the next answer.

    An answer is a `Response`, a `Lost`, or a pair of seconds that pass first and one of these. A pause passes.
    """

    def __init__(self, *answers, draw=0.5, **policy):
        self.now = 1000.0
        self.answers = list(answers)
        self.requests = []
        self.pauses = []
        self.verbs = ServiceVerbs(Policy(clock=lambda: self.now, draw=lambda: draw, **policy))

    def run(self, talk):
        reply = None
        try:
            while True:
                step = talk.send(reply)
                reply = self._pass(step) if isinstance(step, Pause) else self._answer(step)
        except StopIteration as end:
            return end.value

    def _pass(self, pause):
        self.pauses.append(pause.seconds)
        self.now += pause.seconds

    def _answer(self, request):
        assert isinstance(request, Request)
        self.requests.append(request)
        assert self.answers, f"a request too many: {request}"
        reply = self.answers.pop(0)
        if isinstance(reply, tuple):
            seconds, reply = reply
            self.now += seconds
        return reply

    @property
    def request(self):
        [request] = self.requests
        return request

    @property
    def waits(self):
        return [dict(request.query).get("wait") for request in self.requests]
