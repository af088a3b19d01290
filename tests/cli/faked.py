"""A service with scripted answers, for the commands that talk to one."""

import json

import httpx2

from purgatory_async.cli import remote

TOKEN = "the-secret-of-the-service"
CALLS = {
    "ls": ["ls"],
    "why": ["why", "o"],
    "signal": ["signal", "k"],
    "wait": ["wait", "k"],
    "cancel": ["cancel", "o"],
    "drain": ["drain"],
    "top": ["top", "--once"],
    "follow": ["follow", "k"],
    "ask": ["ask", "o", "Deploy?"],
    "link": ["link", "o"],
    "answer": ["answer", "o", "ok"],
    "complete": ["complete", "o"],
    "fail": ["fail", "o", "why"],
    "reschedule": ["reschedule", "o", "2h"],
    "forget": ["forget", "o"],
    "queues": ["queues"],
    "put": ["put", "q", "item"],
    "take": ["take", "q"],
    "ack": ["ack", "l"],
    "return": ["return", "l"],
    "extend": ["extend", "l"],
    "peek": ["peek", "q"],
    "purge": ["purge", "q"],
    "redrive": ["redrive", "q"],
}
REMOTE = list(CALLS)
OPERATION = {
    "id": "o",
    "keys": ["k"],
    "need": "any",
    "state": "pending",
    "submitted_at": "2026-01-01T12:00:00Z",
    "deadline": "2026-01-01T12:01:30Z",
    "elapsed": 20.0,
    "signals": [],
    "waiting_for": {"any": ["k"]},
}
LEASE = {"lease": "L", "id": "7", "item": {"to": "ann"}, "attempts": 1, "expires_in": 30.0}
QUEUE = {
    "queue": "mail",
    "items": 3,
    "delayed": 1,
    "leased": 2,
    "takers": 0,
    "oldest": 90.0,
    "bytes": 4096,
    "lease": 30.0,
    "max_attempts": 5,
    "max_items": 100000,
    "max_bytes": None,
    "dead": "mail.dead",
}


def ended(state, *values):
    signals = [{"key": "k", "index": n, "value": value} for n, value in enumerate(values, 1)]
    return {**OPERATION, "state": state, "signals": signals}


def problem(status, slug, detail="the sentence"):
    return httpx2.Response(status, json={"type": f"urn:purgatory:problem:{slug}", "detail": detail})


class Faked:
    """Gives every request the same answer, or a function's; keeps the requests."""

    def __init__(self, monkeypatch):
        self.requests = []
        self.reply = httpx2.Response(200, json={})
        self.policy = None
        self._real = remote.Client
        monkeypatch.setattr(remote, "Client", self._connect)

    def _connect(self, url, *, policy, **known):
        self.policy = policy
        transport = httpx2.MockTransport(self)
        return self._real(url, policy=policy, transport=transport, sleep=lambda _: None, **known)

    def __call__(self, request):
        self.requests.append(request)
        if callable(self.reply):
            return self.reply(request)
        return httpx2.Response(self.reply.status_code, headers=self.reply.headers, content=self.reply.content)

    @property
    def body(self):
        return json.loads(self.requests[-1].content)
