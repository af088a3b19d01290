"""Random scripts of requests, and their answers without what may differ between two services: ids and times."""

import asyncio
import json
import random

DELAYS = (0, 0, 0.7, 1.3)
KEYS = QUEUES = ("a", "b", "c")
IDS = [f"o{number}" for number in range(6)]
PROMISED = [f"p{number}" for number in range(4)]
# Not known before, or estimated; the ids of operations are the script's own.
HIDDEN = frozenset(
    {
        "submitted_at",
        "deadline",
        "ended_at",
        "kept_until",
        "elapsed",
        "detail",
        "put_at",
        "due_at",
        "oldest",
        "expires_in",
    }
)
COUNTED = frozenset({"index", "lease", "next", "cursor", "id"})


def drawn(draw, steps, *, timed):
    """Return a script: requests as (method, target, body, Idempotency-Key), whose ``{lease}`` is the newest lease.

    Args:
        draw: A `random.Random`.
        steps: How many requests.
        timed: Whether requests wait, and operations and leases have timeouts.
    """
    return [draw.choice(_MAKERS)(draw, timed) for _ in range(steps)]


def _time(seconds, timed):
    """A time that passes within a timed script, and in no other, however slow the machine is."""
    return seconds if timed else seconds * 1000


def _submit(draw, timed):
    once, draw = _once(draw, "submit")
    keys = draw.sample(KEYS, draw.randint(1, 3))
    need = draw.choice(["any", "all", {"amount": 3}, {"voters": 2}])
    body = {"id": draw.choice(IDS), "keys": keys, "need": need, "data": draw.randint(0, 9)}
    if timed and draw.random() < 0.7:
        body["timeout"] = draw.choice([0, 0.7, 1.3, 3.2])
    wait = "?wait=900ms" if timed and draw.random() < 0.3 else ""
    return "POST", f"/v1/operations{wait}", body, once


def _signal(draw, timed):
    once, draw = _once(draw, "signal")
    body = {"value": draw.randint(0, 9), "amount": draw.randint(1, 3)}
    if draw.random() < 0.5:
        body["voter"] = draw.choice("xyz")
    return "POST", f"/v1/keys/{draw.choice(KEYS)}/signal", body, once


def _signals(draw, timed):
    once, draw = _once(draw, "signals")
    signals = [{"key": draw.choice(KEYS), "value": draw.randint(0, 9)} for _ in range(draw.randint(1, 4))]
    return "POST", "/v1/signals", {"signals": signals}, once


def _end(draw, timed):
    if draw.random() < 0.5:
        return "DELETE", f"/v1/operations/{draw.choice(IDS)}", None, None
    return "POST", f"/v1/operations/{draw.choice(IDS)}/complete", {"result": draw.randint(0, 9)}, None


def _attach(draw, timed):
    operation = draw.choice(PROMISED)
    body = {"keep": draw.choice(["1h", "1h", "7d", 0]), "data": draw.choice([1, 1.0])}
    for member, values in (
        ("ask", [{"title": "Go?", "choices": ["yes", "no"], "comment": "optional"}] * 3),
        ("announce", QUEUES),
        ("deliver", QUEUES),
        ("since", [0, 10_000, "now"]),
        ("keys", [["a"], ["a", "b"]]),
    ):
        if draw.random() < 0.4:
            body[member] = draw.choice(values)
    if timed and draw.random() < 0.5:
        body["timeout"] = draw.choice([0, 1.3, "3200ms"])
    wait = "?wait=900ms" if timed and draw.random() < 0.3 else ""
    # Mostly of one body for each id, so that some attach.
    fixed = {"keep": "1h", "data": 1, "keys": [operation]}
    return "PUT", f"/v1/operations/{operation}{wait}", fixed if draw.random() < 0.6 else body, None


def _answer(draw, timed):
    operation = draw.choice(PROMISED)
    verb, body = draw.choice(
        [
            ("complete", {"result": draw.choice([1, 1.0, None])}),
            ("complete", {"result": 1, "by": "ann"}),
            ("fail", {"error": "no"}),
            ("answer", {"choice": draw.choice(["yes", "no", "perhaps"])}),
            ("answer", {"choice": "yes", "comment": "why not", "by": "ann"}),
            ("reschedule", {"timeout": draw.choice([None, 3.3, "1h"])}),
            ("forget", {}),
        ]
    )
    once = f"answer-{draw.randint(0, 1)}" if verb != "forget" and draw.random() < 0.2 else None
    return "POST", f"/v1/operations/{operation}/{verb}", body, once


def _read(draw, timed):
    wait = "?wait=2200ms" if timed and draw.random() < 0.5 else ""
    targets = (
        f"/v1/operations/{draw.choice(IDS + PROMISED)}{wait}",
        f"/v1/operations?state={draw.choice(('ended', 'all', 'failed'))}&id_prefix=p",
        f"/v1/keys/{draw.choice(KEYS)}{wait}",
        f"/v1/operations?key={draw.choice(KEYS)}",
        "/v1/operations?limit=2",
        f"/v1/wait?key={draw.choice(KEYS)}&{wait[1:]}".rstrip("&"),
        f"/v1/wait?prefix={draw.choice(KEYS)}&key=a&limit=3&since={draw.choice(('0', 'now'))}&{wait[1:]}".rstrip(
            "&"
        ),
    )
    return "GET", draw.choice(targets), None, None


def _put(draw, timed):
    once, draw = _once(draw, "put")
    items = [
        {"item": draw.randint(0, 99), "delay": _time(draw.choice(DELAYS), timed)}
        for _ in range(draw.randint(1, 3))
    ]
    body = items[0] if draw.random() < 0.6 else {"items": items}
    return "POST", f"/v1/queues/{draw.choice(QUEUES)}/items", body, once


def _take(draw, timed):
    once, draw = _once(draw, "take")
    body = {"lease": 1.1} if timed and draw.random() < 0.5 else {}
    if draw.random() < 0.3:
        body["max"] = 2
    wait = "?wait=2200ms" if timed and draw.random() < 0.5 else ""
    return "POST", f"/v1/queues/{draw.choice(QUEUES)}/take{wait}", body or None, once


def _give_back(draw, timed):
    verb, body = draw.choice(
        [
            ("ack", None),
            ("return", None),
            ("return", {"delay": _time(1.3, timed)}),
            ("extend", None),
            ("extend", {"lease": _time(2, timed)}),
        ]
    )
    if body is None and verb != "extend" and draw.random() < 0.3:
        return "POST", f"/v1/leases/{verb}", {"leases": ["{lease}", "none"]}, None
    return "POST", "/v1/leases/{lease}/" + verb, body, None


def _queue(draw, timed):
    queue = f"/v1/queues/{draw.choice(QUEUES)}"
    return *draw.choice(
        [
            ("PUT", queue, {"max_attempts": draw.choice([1, 2]), "max_items": 5, "lease": _time(3.3, timed)}),
            ("DELETE", queue, None),
            ("POST", f"{queue}/purge", None),
            ("POST", f"{queue}/redrive", draw.choice([None, {"max": 1}])),
            ("GET", queue, None),
            ("GET", f"{queue}.dead/items", None),
            ("GET", f"{queue}/items?limit=2", None),
            ("GET", f"{queue}/items?delayed=1", None),
            ("GET", "/v1/queues?limit=2", None),
            ("GET", "/v1/leases", None),
        ]
    ), None


_MAKERS = (
    *(_submit, _submit, _submit, _signal, _signals, _end, _read, _read),
    *(_attach, _attach, _answer, _answer),
    *(_put, _put, _take, _take, _give_back, _give_back, _queue),
)


def _once(draw, kind):
    """An Idempotency-Key or none, and where the request's random values are from: mostly the same for each key."""
    if draw.random() < 0.7:
        return None, draw
    key = draw.choice([f"{kind}-{number}" for number in range(2)])
    return key, random.Random(key) if draw.random() < 0.8 else draw


class Player:
    """Sends a script to one service, and keeps its answers."""

    def __init__(self, member):
        self.member = member
        self._sent = []
        self._ends = {}
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    def send(self, method, target, body, once):
        """Send a request; its answer may come much later."""
        answers = [each.json for each in self._sent if each.answered and each.status == 200]
        answers += [each for answer in answers for each in answer.get("leases", [])]
        leased = [answer["lease"] for answer in answers if isinstance(answer.get("lease"), str)]
        newest = leased[-1] if leased else "none"
        target = target.replace("{lease}", newest)
        if body is not None and "leases" in body:
            body = {"leases": [newest if each == "{lease}" else each for each in body["leases"]]}
        headers = () if once is None else (("idempotency-key", once),)
        exchange = self.member.start(method, target, body, headers)
        exchange.over.add_done_callback(lambda _: self._ends.setdefault(exchange, self._loop.time()))
        self._sent.append(exchange)
        return exchange.over

    async def answers(self):
        """Wait for all answers; return when they came, to 0.1 s, and what they were, normalised."""
        for exchange in self._sent:
            await exchange.over
        seen = {}
        return [
            (
                round(self._ends[exchange] - self._began, 1),
                exchange.status,
                exchange.headers.get("idempotency-replayed"),
                _normal(json.loads(exchange.body) if exchange.body else None, seen),
            )
            for exchange in self._sent
        ]


def _normal(value, seen):
    """Replace indexes, leases and cursors by the order in which they were first seen."""
    if isinstance(value, list):
        return [_normal(each, seen) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: seen.setdefault((name, str(each)), len(seen))
        if name in COUNTED and each
        else _normal(each, seen)
        for name, each in value.items()
        if name not in HIDDEN
    }
