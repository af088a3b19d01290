"""Promises of the fold: whose they are, what they count, and what is remembered of them; a checkpoint has it all."""

import pytest
from msgspec import UNSET, Raw

from purgatory_async.durable.documents import Ask
from purgatory_async.durable.fold.checkpoint import digest, parts
from purgatory_async.durable.fold.codec import decode, encode
from purgatory_async.durable.fold.entries import (
    AnswerOperation,
    CompleteOperation,
    FailOperation,
    ForgetOperation,
    RescheduleOperation,
    SetLimits,
    SignalKey,
    SubmitOperation,
    Tick,
)
from purgatory_async.durable.fold.fold import Fold
from purgatory_async.durable.fold.kept_answers import Until
from purgatory_async.durable.fold.restoring import restored
from purgatory_async.durable.fold.results import (
    APPLIED,
    OVER_BUDGET,
    Answered,
    Attached,
    Different,
    Refused,
    Submitted,
)
from purgatory_async.durable.fold.same import same_json

HOUR, DAY = 3_600_000_000, 86_400_000_000
RESERVED = 8_192


class Log:
    """A fold, and the entries that it is given as JSON; with ``reload`` it is restored after each."""

    def __init__(self, *, reload):
        self.fold = Fold(1_000_000)
        self._reload = reload

    def add(self, entry, us=0):
        at_us = self.fold.at_us + us
        result, _ = self.fold.apply(self.fold.position + 1, at_us, decode(encode(entry)))
        if self._reload:
            before, self.fold = self.fold, restored(list(parts(self.fold)))
            assert digest(self.fold) == digest(before)
            kept = [(each.shared.kept.used, each.shared.kept.pinned_of) for each in (before, self.fold)]
            assert kept[0] == kept[1]
            before.close()
        return result

    @property
    def pinned_of(self):
        return self.fold.shared.kept.pinned_of

    def state(self, name="p"):
        return self.fold.operations.by_id[name].state


@pytest.fixture(params=[False, True], ids=["", "restored"])
def log(request):
    log = Log(reload=request.param)
    yield log
    log.fold.close()


def ask(name="p", owner="ann", **terms):
    given = {"timeout_us": HOUR, "keep_us": DAY, "attach": True, **terms}
    return SubmitOperation(id=name, keys=(name,), owner=owner, **given)


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (ask(), Attached("p", "pending")),
        (ask(since=0, gap=True, most=0, quota=1), Attached("p", "pending")),
        (ask(owner="bob"), Refused("duplicate-id")),
        (ask(owner=None), Refused("duplicate-id")),
        (ask(keep_us=UNSET, data=Raw(b"1")), Different(("keep", "data"))),
        (ask(attach=False), Refused("duplicate-id")),
    ],
)
def test_an_id_means_one_question_of_one_owner(log, entry, result):
    log.add(ask())
    assert log.add(entry, HOUR // 2) == result
    assert log.state() == "pending"


def test_what_is_forgotten_stays_taken_for_its_keep_again(log):
    log.add(ask())
    log.add(CompleteOperation(id="p", result=Raw(b"1")))
    assert log.add(ask(), DAY - 1000) == Attached("p", "completed")
    assert log.add(ask(), 2000) == Refused("forgotten")
    assert log.add(ask(owner="bob"), DAY - 4000) == Refused("duplicate-id")
    assert log.add(ask(), 6000) == Submitted("p", "pending")


def test_the_retention_time_counts_where_it_is_longer(log):
    log.add(SetLimits(retention_us=2 * DAY))
    log.add(ask(keep_us=1000))
    log.add(CompleteOperation(id="p"))
    log.add(Tick(), 2000)
    assert log.add(ask(), 2 * DAY - 5000) == Refused("forgotten")


def test_a_submission_takes_a_remembered_id_and_its_key(log):
    log.add(ask(idem="k", digest="d", attach=False))
    log.add(CompleteOperation(id="p"))
    log.add(ForgetOperation(id="p"))
    assert log.add(SignalKey(key="a", idem="k", digest="d", owner="ann")) == Refused("idempotency-mismatch")
    assert log.add(ask("other", idem="k", digest="d", attach=False)) == Refused("forgotten")
    assert log.add(ask(attach=False)) == Submitted("p", "pending")
    assert log.add(SignalKey(key="a", idem="k", digest="d", owner="ann")).index


def test_an_end_counts_its_answer_and_stays_pinned(log):
    log.add(ask())
    size = 128 + 1
    assert log.pinned_of == {"ann": size + RESERVED}
    log.add(FailOperation(id="p", error=Raw(b'"' + b"x" * 98 + b'"'), by="bob", via="cy"))
    assert log.pinned_of == {"ann": size + 100 + 3 + 2}
    log.add(SetLimits(max_kept=1))
    assert log.state() == "failed"
    log.add(ForgetOperation(id="p"))
    assert log.pinned_of == {"ann": 128 + 1}
    log.add(Tick(), DAY)
    assert log.pinned_of == {}


def test_signals_that_a_kept_end_shows_stay_counted(log):
    log.add(ask())
    log.add(SignalKey(key="p", value=Raw(b"1"), owner="bob"))
    log.add(SignalKey(key="p", value=Raw(b"22"), owner="bob"))
    assert log.pinned_of["bob"] == 129 + 130
    log.add(ForgetOperation(id="p"))
    assert log.pinned_of["bob"] == 130


def test_a_longer_answer_needs_room_and_a_usual_one_has_it(log):
    log.add(ask())
    log.add(SetLimits(max_kept=9_000))
    assert log.add(CompleteOperation(id="p", result=Raw(b"1" * 9_500))) == OVER_BUDGET
    assert log.add(CompleteOperation(id="p", result=Raw(b"1" * RESERVED))) == Answered("completed")


def test_a_quota_counts_what_is_kept(log):
    assert log.add(ask(quota=RESERVED)) == Refused("limited-bytes")
    assert log.add(ask(quota=RESERVED + 129)) == Submitted("p", "pending")
    log.add(CompleteOperation(id="p"))
    assert log.add(ask("q", quota=RESERVED + 129 + 128)) == Refused("limited-bytes")


def test_the_very_answer_again_changes_nothing(log):
    log.add(ask())
    first = AnswerOperation(id="p", choice="yes", comment="fine", by="bob", via="cy")
    assert log.add(first) == Answered("completed")
    again = AnswerOperation(id="p", choice="yes", comment="fine", by="bob", via="another link")
    assert log.add(again) == Answered("completed", replayed=True)
    for other in (
        AnswerOperation(id="p", choice="yes", comment="fine", by="eve"),
        AnswerOperation(id="p", choice="yes", by="bob"),
        CompleteOperation(id="p", result=Raw(b'{"choice":"yes","comment":"fine"}'), by="bob"),
    ):
        assert log.add(other) == Refused("already-ended")
    assert log.fold.operations.by_id["p"].ending.via == "cy"


def test_an_answer_is_for_one_submission(log):
    log.add(ask(attach=False))
    position = log.fold.position
    log.add(CompleteOperation(id="p"))
    log.add(ForgetOperation(id="p"))
    log.add(ask(attach=False))
    assert log.add(AnswerOperation(id="p", submitted=position, choice="yes")) == Refused("forgotten")
    now = log.fold.operations.by_id["p"].position
    assert log.add(AnswerOperation(id="p", submitted=now, choice="yes")) == Answered("completed")


def test_a_maker_moves_and_forgets_its_own_only(log):
    log.add(ask())
    assert log.add(RescheduleOperation(id="p", maker="bob")) == Refused("unknown-operation")
    assert log.add(ForgetOperation(id="p", maker="ann")) == Refused("pending")
    log.add(CompleteOperation(id="p"))
    assert log.add(ForgetOperation(id="p", maker="bob")) == Refused("unknown-operation")
    assert log.add(ForgetOperation(id="p", maker="ann")) == APPLIED


def test_a_moved_deadline_is_that_of_no_other_and_never_early(log):
    log.add(ask(timeout_us=2_000))
    log.add(ask("q", timeout_us=5_000))
    log.add(RescheduleOperation(id="p", timeout_us=5_000), 700)
    log.add(Tick(), 4_300)
    assert (log.state(), log.state("q")) == ("pending", "expired")
    log.add(Tick(), 999)
    assert log.state() == "pending"
    log.add(Tick(), 1)
    assert log.fold.operations.by_id["p"].ended_us == 1_006_000
    assert log.add(ask(timeout_us=2_000)) == Attached("p", "expired")


def test_its_terms_stay_those_of_the_submission(log):
    log.add(ask(ask=Ask("Go?"), until_us=2_000_000, timeout_us=None, deliver="d"))
    log.add(RescheduleOperation(id="p"))
    assert log.fold.operations.by_id["p"].deadline_us is None
    same = ask(ask=Ask("Go?"), until_us=2_000_000, timeout_us=None, deliver="d")
    assert log.add(same, DAY) == Attached("p", "pending")


def test_nested_numbers_are_compared_by_their_exact_value():
    equal = [(b"1", b"1.0"), (b"1e2", b"100"), (b"-0.0", b"0"), (b"1E400", b"10e399"), (b"0.10", b"1e-1")]
    assert all(same_json(Raw(b"[%b]" % one), Raw(b"[%b]" % other)) for one, other in equal)
    distinct = [(b"1", b"true"), (b"0", b"false"), (b"0.1", b"0.10000000000000000001"), (b"1", b'"1"')]
    distinct += [(b"9007199254740993", b"9007199254740992.0"), (b"1e400", b"1e401"), (b"null", b"0")]
    assert not any(same_json(Raw(one), Raw(other)) for one, other in distinct)


def test_times_of_names_that_left_are_swept():
    kept = Until()
    for number in range(1_000):
        kept.add(number, number, None)
        if number >= 10:
            kept.pop(number - 10)
    assert (len(kept), kept.first) == (10, (990, 990))
    assert len(kept._heap) <= 64 + 2 * 11
