"""The client's conversations: what is sent again, how long it polls, what an answer means."""

import copy
import pickle
from itertools import repeat
from math import nan

import pytest

from purgatory_async.client import RequestRefused, ServiceUnreachable, SignalGap
from purgatory_async.client._bodies import asked
from purgatory_async.client._talk import Lost, path
from purgatory_async.client._transport import timeout_for
from purgatory_async.client.values import UNSET
from tests.client.driving import BROKEN, BUSY, COMPLETED, PENDING, UNSENT, Line, answer, problem

LEASED = {"lease": "l", "id": "7", "item": 1, "attempts": 1, "expires_in": 30}
LINK = {"url": "http://localhost/a/t", "expires_at": None}
QUEUE = {
    "queue": "q",
    "items": 1,
    "delayed": 0,
    "leased": 0,
    "takers": 0,
    "oldest": 0.5,
    "bytes": 129,
    "lease": 30,
    "max_attempts": None,
    "max_items": 9,
    "max_bytes": None,
    "dead": None,
}

# Every verb: how it is begun, an answer to it, and whether it may be sent again once it may have been carried out.
VERBS = {
    "submit": (lambda verbs: verbs.submit(asked(["k"])), answer(202, PENDING), True),
    "status": (lambda verbs: verbs.status("o"), answer(200, PENDING), True),
    "follow": (lambda verbs: verbs.follow("o", None), answer(200, COMPLETED), True),
    "complete": (lambda verbs: verbs.complete("o"), answer(200, COMPLETED), True),
    "fail": (lambda verbs: verbs.fail("o", "no", None), answer(200, COMPLETED), True),
    "answer": (lambda verbs: verbs.answer("o", "ok", None, None), answer(200, COMPLETED), True),
    "reschedule": (lambda verbs: verbs.reschedule("o", 1, None), answer(200, PENDING), True),
    "attach": (lambda verbs: verbs.attach("o", asked()), answer(202, PENDING), True),
    "ask": (lambda verbs: verbs.ask("o", asked()), answer(200, COMPLETED), True),
    "links": (lambda verbs: verbs.links("o", None, None, None), answer(201, LINK), True),
    "forget": (lambda verbs: verbs.forget("o"), answer(204), True),
    "cancel": (lambda verbs: verbs.cancel("o"), answer(200, COMPLETED), True),
    "page": (lambda verbs: verbs.page(None, None), answer(200, {"operations": []}), True),
    "signal": (lambda verbs: verbs.signal("k", UNSET, None, None), answer(200, {"completed": 0}), False),
    "read": (lambda verbs: verbs.read("k"), answer(200, {"key": "k", "index": 0, "value": None}), True),
    "watch": (
        lambda verbs: verbs.watch("k", 0, None),
        answer(200, {"key": "k", "index": 1, "value": 2}),
        True,
    ),
    "put": (lambda verbs: verbs.put("q", 1), answer(201, {"delivered": True}), False),
    "take": (
        lambda verbs: verbs.take("q", None, 0),
        answer(200, LEASED),
        True,
    ),
    "put batch": (
        lambda verbs: verbs.put_batch("q", [{"item": 1}]),
        answer(201, {"items": [{"delivered": True}]}),
        True,
    ),
    "take batch": (lambda verbs: verbs.take_batch("q", 2, None, 0), answer(200, {"leases": [LEASED]}), True),
    "end leases": (
        lambda verbs: verbs.end_leases(["l"], "ack"),
        answer(200, {"errors": [{"pointer": "/leases/0"}]}),
        False,
    ),
    "extend": (lambda verbs: verbs.extend("l", 5.0), answer(200, {"expires_in": 5}), True),
    "leases": (
        lambda verbs: verbs.leases(None, None),
        answer(200, {"leases": [{**LEASED, "queue": "q", "owner": None}]}),
        True,
    ),
    "queue": (lambda verbs: verbs.queue("q"), answer(200, QUEUE), True),
    "queues": (lambda verbs: verbs.queues("q", None), answer(200, {"queues": [QUEUE]}), True),
    "items": (
        lambda verbs: verbs.items("q", True, None),
        answer(200, {"items": [{"id": "1", "item": 1, "attempts": 0, "put_at": None}]}),
        True,
    ),
    "set queue": (lambda verbs: verbs.set_queue("q", {"max_items": 1}), answer(200, QUEUE), True),
    "forget queue": (lambda verbs: verbs.forget_queue("q"), answer(204), True),
    "purge": (lambda verbs: verbs.purge("q"), answer(200, {"purged": 1}), False),
    "redrive": (lambda verbs: verbs.redrive("q", 1), answer(200, {"moved": 1}), False),
    "acknowledge": (lambda verbs: verbs.end_lease("l", "ack"), answer(204), False),
    "give back": (lambda verbs: verbs.end_lease("l", "return"), answer(204), False),
    "drain": (lambda verbs: verbs.drain(), answer(202), True),
    "stats": (lambda verbs: verbs.stats(), answer(200, {}), True),
}
DOCUMENTS = [name for name, (_, reply, _) in VERBS.items() if reply.body and name != "stats"]

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
@pytest.mark.parametrize("refusal", [UNSENT, BUSY, problem(429, "limited")], ids=["never sent", "503", "429"])
def test_what_was_not_carried_out_is_sent_again_whatever_it_is(verb, refusal):
    begin, reply, _ = VERBS[verb]
    line = Line(refusal, refusal, reply)
    line.run(begin(line.verbs))
    assert len(line.requests) == 3


@every_verb
@pytest.mark.parametrize("loss", [BROKEN, answer(502), answer(504)], ids=["connection", "502", "504"])
def test_only_repeatable_requests_are_sent_twice(verb, loss):
    begin, reply, again = VERBS[verb]
    line = Line(loss, reply)
    if again:
        line.run(begin(line.verbs))
        assert len(line.requests) == 2
    else:
        with pytest.raises(ServiceUnreachable, match="may or may not have been carried out"):
            line.run(begin(line.verbs))
        assert len(line.requests) == 1


def test_a_submission_is_retried_with_one_idempotency_key():
    line = Line(BROKEN, BUSY, UNSENT, answer(202, PENDING), answer(202, PENDING))
    line.run(line.verbs.submit(asked(["k"])))
    keys = {request.headers["Idempotency-Key"] for request in line.requests}
    assert len(keys) == 1
    assert len({repr(request.body) for request in line.requests}) == 1
    line.run(line.verbs.submit(asked(["k"])))
    assert line.requests[-1].headers["Idempotency-Key"] not in keys


@pytest.mark.parametrize(("draw", "share"), [(0.0, 0.5), (1.0, 1.0)])
def test_pauses_double_up_to_the_longest_and_half_is_random(draw, share):
    line = Line(*repeat(UNSENT, 6), answer(200, PENDING), draw=draw, first_delay=1.0, max_delay=4.0)
    line.run(line.verbs.status("o"))
    assert line.pauses == [share * seconds for seconds in (1, 2, 4, 4, 4, 4)]


@pytest.mark.parametrize(("status", "slug"), [(503, "draining"), (429, "limited")])
def test_a_pause_is_as_long_as_the_service_asks_for(status, slug):
    line = Line(problem(status, slug, retry_after="7"), answer(200, PENDING))
    line.run(line.verbs.status("o"))
    assert line.pauses == [7.0]


@pytest.mark.parametrize("text", ["", "-1", "soon", "1e3", "٣", "nan", "9" * 400])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(text):
    line = Line(problem(503, "draining", retry_after=text), answer(200, PENDING), first_delay=0.1, draw=1.0)
    line.run(line.verbs.status("o"))
    assert line.pauses == [0.1]


@pytest.mark.parametrize("failure", [UNSENT, BUSY], ids=["unreachable", "refused"])
def test_nothing_is_tried_beyond_ones_patience(failure):
    line = Line(*repeat(failure, 1000), patience=30.0, max_delay=5.0)
    error = RequestRefused if failure is BUSY else ServiceUnreachable
    with pytest.raises(error, match=r"the sentence|connection refused"):
        line.run(line.verbs.status("o"))
    assert 25 <= line.now - 1000 <= 30


def test_no_pause_begins_that_ends_beyond_ones_patience():
    line = Line(problem(503, "draining", retry_after="31"), patience=30.0)
    with pytest.raises(RequestRefused) as refused:
        line.run(line.verbs.status("o"))
    assert refused.value.slug == "draining"
    assert line.pauses == []


def test_patience_is_for_each_poll_anew():
    empty = (25.0, answer(200, PENDING))
    line = Line(empty, empty, UNSENT, empty, UNSENT, answer(200, COMPLETED), patience=10.0)
    assert line.run(line.verbs.follow("o", None)).state == "completed"


@pytest.mark.parametrize("verb", ["follow", "watch", "take"])
class TestPolls:
    """What all pollers share."""

    def begin(self, line, verb, timeout):
        return {
            "follow": lambda: line.verbs.follow("o", timeout),
            "watch": lambda: line.verbs.watch("k", 3, timeout),
            "take": lambda: line.verbs.take("q", None, timeout),
        }[verb]()

    def empty(self, verb):
        return {"follow": answer(200, PENDING), "watch": answer(304), "take": answer(204)}[verb]

    def test_a_long_wait_is_polled_in_pieces_and_ends_on_time(self, verb):
        nothing = self.empty(verb)
        line = Line((25.0, nothing), (25.0, nothing), (10.0, nothing), poll=25.0)
        found = line.run(self.begin(line, verb, 60.0))
        assert line.waits == ["25000ms", "25000ms", "10000ms"]
        assert found.pending if verb == "follow" else found is None

    def test_what_the_service_took_off_a_wait_is_asked_for_again(self, verb):
        nothing = self.empty(verb)
        line = Line((9.5, nothing), (0.5, nothing))
        line.run(self.begin(line, verb, 10.0))
        assert line.waits == ["10000ms", "500ms"]

    def test_a_retried_poll_asks_for_the_time_left(self, verb):
        line = Line((6.0, BUSY), (9.0, self.empty(verb)), draw=1.0, first_delay=5.0)
        line.run(self.begin(line, verb, 20.0))
        assert line.waits == ["20000ms", "9000ms"]

    @pytest.mark.parametrize("cut", [answer(504), BROKEN], ids=["504", "closed"])
    def test_a_proxy_that_cuts_polls_is_asked_for_shorter_ones(self, verb, cut):
        nothing = self.empty(verb)
        line = Line((8.0, cut), (4.0, nothing), (8.0, cut), (4.0, nothing), problem(404, "enough"), draw=0.0)
        with pytest.raises(RequestRefused, match="enough"):
            line.run(self.begin(line, verb, None))
        assert line.waits == ["25000ms", "4000ms", "8000ms", "4000ms", "8000ms"]

    def test_polls_lengthen_again_when_they_are_no_longer_cut(self, verb):
        nothing = self.empty(verb)
        line = Line((0.0, BROKEN), (3.0, BROKEN), *repeat(nothing, 9), problem(404, "enough"), poll=10.0)
        with pytest.raises(RequestRefused, match="enough"):
            line.run(self.begin(line, verb, None))
        assert line.waits == ["10000ms", "10000ms", "1500ms", "3000ms", "6000ms", *["10000ms"] * 7]

    def test_a_poll_cut_at_once_does_not_cause_a_storm(self, verb):
        line = Line((0.001, BROKEN), self.empty(verb), problem(404, "enough"), first_delay=0.25)
        with pytest.raises(RequestRefused, match="enough"):
            line.run(self.begin(line, verb, None))
        assert line.waits == ["25000ms", "250ms", "500ms"]

    def test_patience_begins_with_the_first_failure(self, verb):
        line = Line((25.0, BROKEN), (0.0, UNSENT), self.empty(verb), problem(404, "enough"), patience=1.0)
        with pytest.raises(RequestRefused, match="enough"):
            line.run(self.begin(line, verb, None))
        assert len(line.pauses) == 2

    def test_no_time_is_one_look(self, verb):
        line = Line(self.empty(verb))
        line.run(self.begin(line, verb, 0))
        assert line.waits == ["0ms"]

    def test_none_is_as_long_as_it_takes(self, verb):
        line = Line(*repeat((25.0, self.empty(verb)), 1000), problem(404, "enough"), poll=25.0)
        with pytest.raises(RequestRefused):
            line.run(self.begin(line, verb, None))
        assert set(line.waits) == {"25000ms"}
        assert len(line.waits) == 1001

    def test_what_is_left_of_a_millisecond_is_waited_for(self, verb):
        line = Line((0.0004, self.empty(verb)))
        line.run(self.begin(line, verb, 0.0004))
        assert line.waits == ["1ms"]

    @pytest.mark.parametrize("timeout", [-1, -0.001, nan])
    def test_a_time_that_is_none_is_refused_before_anything_is_sent(self, verb, timeout):
        line = Line()
        with pytest.raises(ValueError, match=f"timeout must be 0 or more seconds.*got {timeout}"):
            line.run(self.begin(line, verb, timeout))

    def test_an_answer_may_take_the_hold_and_some_slack(self, verb):
        line = Line((3.0, self.empty(verb)), poll=25.0, slack=7.0)
        line.run(self.begin(line, verb, 3.0))
        timeout = timeout_for(line.request, line.verbs.policy)
        assert (timeout.read, timeout.connect, timeout.write, timeout.pool) == (10.0, 7.0, 7.0, 7.0)


def test_what_is_not_held_is_answered_within_the_slack():
    line = Line(answer(202, PENDING), slack=7.0)
    line.run(line.verbs.submit(asked(["k"], timeout=3600.0)))
    assert timeout_for(line.request, line.verbs.policy).read == 7.0


def test_what_a_poll_finds_ends_it():
    line = Line((25.0, answer(304)), answer(200, {"key": "k", "index": 9, "value": "v"}))
    state = line.run(line.verbs.watch("k", 3, None))
    assert (state.key, state.index, state.value) == ("k", 9, "v")
    assert [dict(request.query)["index"] for request in line.requests] == ["3", "3"]


@pytest.mark.parametrize("timeout", [None, 0, 2.5])
def test_the_timeout_of_an_operation_is_sent_as_it_is(timeout):
    line = Line(answer(202, PENDING))
    line.run(line.verbs.submit(asked(["a", "b"], {"amount": 3}, timeout)))
    assert line.request.body == {"keys": ["a", "b"], "need": {"amount": 3}, "timeout": timeout}


def test_what_is_not_given_is_not_sent_and_null_is_a_value():
    line = Line(*repeat(answer(200, {"completed": 2}), 2))
    assert line.run(line.verbs.signal("k", UNSET, None, None)) == 2
    line.run(line.verbs.signal("k", None, 7, "v"))
    assert [request.body for request in line.requests] == [{}, {"value": None, "amount": 7, "voter": "v"}]


def test_one_string_for_keys_is_refused_before_anything_is_sent():
    line = Line()
    with pytest.raises(TypeError, match=r"did you mean \['order:42'\]"):
        line.run(line.verbs.submit(asked("order:42")))


@pytest.mark.parametrize(
    ("key", "segment"),
    [
        pytest.param("a/b", "a%2Fb", id="slash"),
        pytest.param("a%2Fb", "a%252Fb", id="percent"),
        pytest.param(".", "%2E", id="dot"),
        pytest.param("..", "%2E%2E", id="two dots"),
        pytest.param("...", "...", id="three dots"),
        pytest.param("a?b#c&d e+f", "a%3Fb%23c%26d%20e%2Bf", id="what has a meaning in a URL"),
        pytest.param("naïve\u202e漢", "na%C3%AFve%E2%80%AE%E6%BC%A2", id="unicode"),
        pytest.param("\x00\n", "%00%0A", id="control characters"),
        pytest.param("order:42", "order%3A42", id="colon"),
    ],
)
def test_a_key_is_one_segment_whatever_is_in_it(key, segment):
    assert path("keys", key, "signal") == f"/v1/keys/{segment}/signal"


def test_pages_are_asked_for_with_the_cursor_as_it_was_given():
    line = Line(answer(200, {"operations": [PENDING], "next": "c&=/"}), answer(200, {"operations": []}))
    [operation], cursor = line.run(line.verbs.page("k&", None))
    assert (operation.id, cursor) == ("o", "c&=/")
    assert line.run(line.verbs.page("k&", cursor)) == ([], None)
    assert [dict(request.query) for request in line.requests] == [
        {"limit": "1000", "key": "k&"},
        {"limit": "1000", "key": "k&", "cursor": "c&=/"},
    ]


@every_verb
def test_a_problem_is_raised_with_all_that_it_says(verb):
    begin, _, _ = VERBS[verb]
    line = Line(problem(409, "already-ended"))
    with pytest.raises(RequestRefused, match="409 already-ended: the sentence") as refused:
        line.run(begin(line.verbs))
    assert (refused.value.status, refused.value.slug, refused.value.detail) == (
        409,
        "already-ended",
        "the sentence",
    )
    assert refused.value.document["type"] == "urn:purgatory:problem:already-ended"


@pytest.mark.parametrize("status", [400, 404, 408, 500, 501])
@pytest.mark.parametrize("document", ["<html>", ["a"], 7, {}, None])
def test_an_error_without_a_problem_document_has_its_status(status, document):
    line = Line(answer(status, document))
    with pytest.raises(RequestRefused) as refused:
        line.run(line.verbs.status("o"))
    assert (refused.value.status, refused.value.slug) == (status, "")
    assert str(status) in str(refused.value)


@pytest.mark.parametrize("verb", DOCUMENTS)
@pytest.mark.parametrize("document", ["<html>", ["a"], 7, {"operations": 7}, {"x": {}}, None])
def test_an_impossible_success_is_refused_and_shown(verb, document):
    begin, reply, _ = VERBS[verb]
    line = Line(answer(reply.status, document))
    with pytest.raises(RequestRefused, match="no answer of a purgatory service") as refused:
        line.run(begin(line.verbs))
    assert refused.value.slug == ""


@pytest.mark.parametrize("document", ["<html>", ["a"], 7, None])
def test_figures_are_an_object(document):
    line = Line(answer(200, document))
    with pytest.raises(RequestRefused, match="no answer of a purgatory service"):
        line.run(line.verbs.stats())


@every_verb
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirection_is_not_taken_for_an_answer(verb, status):
    begin, _, _ = VERBS[verb]
    line = Line(answer(status, {}))
    with pytest.raises(RequestRefused, match=f"{status}: that is no answer of a purgatory service"):
        line.run(begin(line.verbs))


def test_bytes_that_are_no_text_are_shown_all_the_same():
    line = Line(answer())
    line.answers = [type(answer())(200, {}, b"\xff\xfe")]
    with pytest.raises(RequestRefused, match="no answer of a purgatory service"):
        line.run(line.verbs.status("o"))


def test_a_take_has_one_key_for_all_its_polls_and_retries():
    line = Line(answer(204), BROKEN, answer(200, LEASED))
    line.run(line.verbs.take("q", None, None))
    line.answers = [answer(200, LEASED)]
    line.run(line.verbs.take("q", None, None))
    *first, other = (request.headers["Idempotency-Key"] for request in line.requests)
    assert len({*first}) == 1
    assert other not in first


@pytest.mark.parametrize(
    "refusal", [problem(503, "upgrade-pending"), problem(400, "bad-header")], ids=["store", "service"]
)
@pytest.mark.parametrize("verb", ["take", "take batch"])
def test_an_older_service_is_asked_without_a_key(verb, refusal):
    begin, reply, _ = VERBS[verb]
    line = Line(refusal, reply, reply)
    for _ in range(2):
        line.run(begin(line.verbs))
    assert [len(request.headers) for request in line.requests] == [1, 0, 0]
    assert line.pauses == []


def test_what_an_operator_must_do_first_is_not_asked_for_again():
    line = Line(problem(503, "upgrade-pending"))
    with pytest.raises(RequestRefused, match="503 upgrade-pending"):
        line.run(line.verbs.put_batch("q", [{"item": 1}]))
    assert line.pauses == []


def test_an_operation_that_is_given_up_is_cancelled_in_one_try():
    line = Line(Lost("gone", sent=False))
    with pytest.raises(ServiceUnreachable):
        line.run(line.verbs.give_up("o"))
    assert (line.request.method, line.request.path) == ("DELETE", "/v1/operations/o")
    assert line.pauses == []


def test_the_time_left_is_that_of_the_deadline_as_it_was_read():
    shown = {**PENDING, "deadline": "2026-01-01T12:00:30Z", "elapsed": 12.5}
    line = Line(answer(200, shown), answer(200, {**shown, "state": "expired"}), answer(200, PENDING))
    assert [line.run(line.verbs.status("o")).time_left for _ in range(3)] == [17.5, None, None]


def test_a_status_says_what_was_left_out_and_full_gives_all():
    line = Line(answer(200, {**PENDING, "left_out": 3}), answer(200, PENDING))
    assert line.run(line.verbs.status("o")).left_out == 3
    assert line.run(line.verbs.status("o", full=True)).left_out == 0
    assert [request.query for request in line.requests] == [(), (("full", "1"),)]


@pytest.mark.parametrize(
    "error", [RequestRefused(404, "gone", "it is", {"type": "x"}), SignalGap("h.1")], ids=str
)
def test_an_error_of_the_service_survives_pickle_and_copy(error):
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


QUESTION = asked(ask={"title": "Go?"})
CREATED = answer(202, PENDING)
ENDED = answer(200, COMPLETED, x_purgatory_attached="true")


def test_a_question_that_stands_outlasts_any_outage():
    outage = [BUSY, UNSENT, BROKEN, answer(504), (600.0, BROKEN), problem(503, "store-unavailable")] * 500
    line = Line(CREATED, *outage, answer(200, PENDING), *outage, ENDED, patience=1.0, max_delay=5.0)
    assert line.run(line.verbs.ask("o", QUESTION)).state == "completed"
    assert {(request.method, request.path) for request in line.requests} == {("PUT", "/v1/operations/o")}
    assert line.requests[0].query == ()
    assert all(request.body == QUESTION for request in line.requests)
    assert max(line.pauses) == 3.75  # half of it random


@pytest.mark.parametrize("failure", [UNSENT, BROKEN, BUSY])
def test_a_new_question_is_tried_for_ones_patience(failure):
    line = Line(*repeat(failure, 1000), patience=30.0)
    with pytest.raises((RequestRefused, ServiceUnreachable)):
        line.run(line.verbs.ask("o", QUESTION))
    assert line.now - 1000 <= 30


@pytest.mark.parametrize(
    "refusal",
    [problem(409, "duplicate-id"), problem(410, "forgotten"), problem(401, "unauthorized"), answer(404)],
)
@pytest.mark.parametrize("before", [(), (CREATED,)], ids=["at first", "later"])
def test_a_question_that_is_refused_is_raised(before, refusal):
    line = Line(*before, refusal)
    with pytest.raises(RequestRefused):
        line.run(line.verbs.ask("o", QUESTION))
    assert line.pauses == []


def test_a_question_that_has_ended_is_asked_for_once():
    line = Line(ENDED)
    assert line.run(line.verbs.ask("o", QUESTION)).attached
    line = Line(CREATED, ENDED)
    assert not line.run(line.verbs.ask("o", QUESTION)).attached
