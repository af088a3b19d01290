"""The rounds are judged: a question asked, announced, answered or delivered twice, lost or early is counted."""

import pytest
from msgspec import Raw

from purgatory_async.cluster import Entry
from purgatory_async.durable.documents import Ask
from purgatory_async.durable.fold.codec import encode
from purgatory_async.durable.fold.entries import (
    Alive,
    AnswerOperation,
    CompleteOperation,
    PutItem,
    RescheduleOperation,
    SetLevel,
    SubmitOperation,
    Tick,
    WantItem,
)
from tests.soak.chaos.answers import Faults
from tests.soak.chaos.witness import noted
from tests.soak.promises.judge import Heard, Log, judge
from tests.soak.promises.rounds import ANNOUNCED, CHOICES, ENDED, MOVED_S, name_of, timeout_of

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
ASKED, MOVED = "ask-0", "move-9"
MINE = {"choice": "yes", "comment": "c"}
ANSWERED = ("completed", MINE, "ann")
EXPIRED = ("expired", None, None)


def submission(name):
    return SubmitOperation(
        id=name,
        keys=(name,),
        timeout_us=int(timeout_of(name) * SECOND_US),
        ask=Ask(f"{name}?", choices=CHOICES, comment="required"),
        announce=ANNOUNCED,
        deliver=ENDED,
        attach=True,
    )


ANSWER = AnswerOperation(id=ASKED, **MINE, by="ann")
ALL_TAKEN = [
    WantItem(queue=queue, lease_id=queue, lease_us=SECOND_US, wait_us=0, max=9)
    for queue in (ANNOUNCED, ENDED)
]
# Both asked, one answered; the other moved a second after, and expired.
SOUND = [
    SetLevel(level=2),
    submission(ASKED),
    submission(MOVED),
    RescheduleOperation(id=MOVED, timeout_us=int(MOVED_S * SECOND_US)),
    ANSWER,
    Tick(),
    Tick(),
    *ALL_TAKEN,
]


def log_of(entries, log=None):
    """What a log of entries a second apart says."""
    raw = [Entry(at, START_US + at * SECOND_US, encode(entry)) for at, entry in enumerate(entries, 1)]
    return noted(raw, log or Log())


def view(end):
    return dict(zip(("state", "result", "by"), end, strict=True))


def sound_lines():
    """What was told, a second apart."""
    lines = [
        {"name": ASKED, "step": "ask"},
        {"name": MOVED, "step": "ask"},
        {"name": MOVED, "step": "moved", "sent": 2.5},
        {"name": ASKED, "step": "answered", "view": view(ANSWERED), "accepted": MINE},
        {"name": ASKED, "step": "read", "view": view(ANSWERED)},
        {"name": MOVED, "step": "read", "view": view(EXPIRED)},
        {"name": ASKED, "step": "delivered", "view": view(ANSWERED), "state": "completed"},
    ]
    return [{"at": float(at), **line} for at, line in enumerate(lines, 1)]


def faults(entries=SOUND, lines=(), last=(ANSWERED, EXPIRED)):
    """The faults of a log, of lines besides the sound ones, and of what is shown in the end."""
    found = Faults()
    heard = Heard(found)
    for line in [*sound_lines(), *lines]:
        heard.hear("an asker", {"at": 99.0, **line})
    judge(found, heard, log_of(entries), (ASKED, MOVED), dict(zip((ASKED, MOVED), last, strict=True)))
    return {name: count for name, count in found.counts.items() if count}


def test_nothing_is_wrong_with_a_sound_run():
    assert faults() == {}


def test_names_say_what_happens_to_rounds():
    assert (name_of(0), name_of(9)) == (ASKED, MOVED)
    assert {name_of(number).partition("-")[0] for number in range(10)} == {"ask", "race", "left", "move"}
    assert all(0 <= timeout_of(name_of(number)) < 3 for number in range(1000) if number % 10 > 6)


def told(queue, name):
    return PutItem(queue=queue, item=Raw(b'{"operation": "%s"}' % name.encode()), delay_us=0)


@pytest.mark.parametrize(
    ("fault", "entries"),
    [
        pytest.param("asked twice", [*SOUND[:6], told(ANNOUNCED, ASKED), *SOUND[6:]], id="announced twice"),
        pytest.param("doubled", [*SOUND[:6], told(ENDED, ASKED), *SOUND[6:]], id="delivered twice"),
        pytest.param("lost", [*SOUND[:-1]], id="never delivered"),
    ],
)
def test_what_the_log_tells_otherwise_is_counted(fault, entries):
    assert set(faults(entries)) == {fault}


def test_a_question_asked_anew_and_answered_anew_is_counted():
    # As after an end that was forgotten too soon: the level and the retention are the log's own.
    again = Log()
    for _ in range(2):
        for name, each in log_of(SOUND).rounds.items():
            kept = again.rounds.setdefault(name, each)
            if kept is not each:
                kept.submitted += each.submitted
                kept.ends += each.ends
    found = Faults()
    judge(found, Heard(found), again, [ASKED], {ASKED: ANSWERED})
    assert (found.counts["asked twice"], found.counts["doubled"]) == (1, 1)


class Later(Log):
    """A log of which each operation was due a minute later."""

    def note(self, raw, entry, result, effects):
        for each in self.rounds.values():
            each.due_us += 60 * SECOND_US
        super().note(raw, entry, result, effects)


def test_an_expiry_before_its_time_in_the_log_is_early():
    assert [len(log_of(SOUND, log).early) for log in (Log(), Later())] == [0, 1]


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("lost", {"step": "read", "view": view(("completed", MINE, "bob"))}),
        ("lost", {"step": "read", "view": view(EXPIRED)}),
        ("doubled", {"step": "answered", "view": view(ANSWERED), "accepted": {**MINE, "choice": "no"}}),
        ("early", {"step": "delivered", "view": view(ANSWERED), "state": "expired"}),
        ("early", {"step": "read", "view": view(EXPIRED), "name": MOVED, "at": 2.5 + MOVED_S - 0.01}),
        ("different", {"step": "odd", "what": "500"}),
    ],
)
def test_what_was_told_otherwise_is_counted(fault, line):
    assert fault in faults(lines=[{"name": ASKED, **line}])


def test_the_first_to_ask_sets_the_time_though_heard_last():
    shown = {"step": "read", "view": view(EXPIRED), "name": "left-8", "at": 100 + timeout_of("left-8")}
    for asked, early in (([100.5, 100.0], 0), ([100.5, 100.1], 1)):
        found = Faults()
        heard = Heard(found)
        heard.hear("one", {"step": "ask", "name": "left-8", "at": asked[0]})
        heard.hear("one", shown)
        heard.hear("the other", {"step": "ask", "name": "left-8", "at": asked[1]})
        judge(found, heard, Log(), (), {})
        assert found.counts["early"] == early


def test_what_is_shown_in_the_end_is_compared():
    assert faults(last=(EXPIRED, EXPIRED)) == faults(last=((None, None, None), EXPIRED)) == {"lost": 1}


def test_an_unanswered_question_is_lost():
    assert faults([*SOUND[:4], *SOUND[5:]], last=(("pending", None, None), EXPIRED))["lost"]


def test_a_program_that_answers_a_question_is_another_end():
    by_program = [*SOUND[:4], CompleteOperation(id=ASKED, by="ann"), *SOUND[5:]]
    assert faults(by_program)["lost"]


def test_a_digest_that_is_not_the_logs_is_counted():
    assert faults([*SOUND, Alive(writer="w", number=1, position=1, digest="00" * 12)]) == {"different": 1}
