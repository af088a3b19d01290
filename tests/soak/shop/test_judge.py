"""The shop is judged: what is lost, doubled or different is counted, and what a kill explains is not."""

import pytest

from tests.soak.shop.customers import Books
from tests.soak.shop.judge import faults

YES = {"state": "completed", "choice": "yes", "by": "ann"}
NO = {"state": "completed", "choice": "no", "by": "bob"}
SHOP = {"state": "completed", "choice": "yes", "by": "the shop"}
KILLED, ALIVE = "a1 payment-a completed\na2 refund-a yes\n", "b1 payment-b completed\nb2 refund-b yes\n"


def judged(decided=(YES,), refund=YES, row=(150, 150, 150), mails="", wrong=()):
    """Judge two orders, of which a person decided about the first one's refund."""
    books = Books()
    books.paid, books.decided = {"a": 150, "b": 50}, {"a": list(decided)}
    books.refunds, books.wrong = {"a": refund, "b": SHOP}, list(wrong)
    rows = {"a": row, "b": (50, 50, 50)}
    return faults(books, rows, {"killed": KILLED, "alive": ALIVE + mails}, {"killed"})


def test_a_sound_story_has_no_faults():
    assert judged() == ([], 0)


def test_a_mail_of_a_killed_mailer_may_go_out_again():
    assert judged(mails=KILLED) == ([], 2)


@pytest.mark.parametrize(
    ("fault", "story"),
    [
        ("lost", {"row": (150, None, 150)}),
        ("lost", {"row": (150, 150, None)}),
        ("lost", {"decided": ()}),
        ("doubled", {"decided": (YES, NO)}),
        ("different", {"decided": (NO,)}),
        ("different", {"wrong": ("place a: 409",)}),
        ("doubled", {"mails": "b1 payment-b completed\n"}),
        ("doubled", {"mails": "b3 payment-b completed\n"}),
        ("different", {"mails": "a2 refund-a no\n"}),
        ("lost", {"refund": NO, "decided": (NO,), "row": (150, 150, 150)}),
    ],
)
def test_a_fault_is_counted(fault, story):
    assert fault in {kind for kind, _ in judged(**story)[0]}


def test_a_mail_that_never_went_out_is_lost():
    books = Books()
    books.paid, books.refunds = {"b": 50}, {"b": SHOP}
    assert [kind for kind, _ in faults(books, {"b": (50, 50, 50)}, {}, set())[0]] == ["lost", "lost"]
