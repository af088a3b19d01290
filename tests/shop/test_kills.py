"""The shop with `kill -9` of the worker at each line of each kind of request."""

import http.client
import json
import shutil
import signal
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from tests.cluster.servers import by_engine
from tests.processes import PATIENCE_S, Reply, until
from tests.shop.running import Shop, new_store

pytestmark = pytest.mark.slow

CUT = (OSError, http.client.HTTPException)
YES, NO = ({"choice": "yes", "by": "ann"}, {"choice": "no", "by": "bob"})
ENDED = {"state": "completed", "choice": None, "by": None}


class DyingShop(Shop):
    """The shop whose workers die where a request says."""

    command = "python orders.py && uvicorn --workers 4 dying:app"

    def copy(self):
        super().copy()
        shutil.copy(Path(__file__).with_name("dying.py"), self.folder)

    def request(self, path, body=None, die_at=None):
        """The answer to a request; None if there was none."""
        method, headers = ("GET", {}) if body is None else ("POST", {"Content-Type": "application/json"})
        headers |= {} if die_at is None else {"die-at": str(die_at)}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                return Reply(connection.getresponse())
            except CUT:
                return None

    def answer(self, path, body=None):
        """The answer to a request, which is sent again until there is one."""
        reply = until(lambda: self.request(path, body), path)
        assert reply.status == 200, reply.body
        return reply.json

    def deaths(self, kind):
        """Orders, for each a step at which to die in a request of some kind, until one is survived."""
        survived = self.folder / "survived"
        survived.unlink(missing_ok=True)
        for number in count():
            yield f"{kind}-{number}", number
            if survived.exists():
                assert number > 5, kind
                return

    def mailer(self, program="mailer.py"):
        """Start a mailer."""
        with (self.folder / "mails").open("a") as stream:
            return self.start(f"python {program}", stdout=stream)

    def mailed(self):
        """The operations of which a mail is out."""
        return {line.split()[1] for line in (self.folder / "mails").read_text().splitlines()}


@pytest.fixture(scope="module", params=by_engine(["sqlite", "postgres"]))
def shop(request, tmp_path_factory):
    with DyingShop(tmp_path_factory.mktemp("shop"), new_store(request.param)) as shop:
        yield shop


def test_an_order_is_placed_once(shop):
    for order, die_at in shop.deaths("place"):
        placed = shop.request("/orders", {"order": order, "price": 9}, die_at)
        if placed is None:
            shop.answer("/orders", {"order": order, "price": 9})
        assert shop.answer(f"/orders/{order}?wait=0")["state"] == "pending"
        shop.answer(f"/orders/{order}/payment", {"amount": 9})
        assert shop.answer(f"/orders/{order}") == ENDED


def test_a_payment_and_its_signal_are_one(shop):
    for order, die_at in shop.deaths("pay"):
        shop.answer("/orders", {"order": order, "price": 9})
        paid = shop.request(f"/orders/{order}/payment", {"amount": 9}, die_at)
        [[price]] = shop.rows(f"SELECT paid FROM orders WHERE id = '{order}'")
        assert price == 9 or not paid
        # Nothing is sent again before this.
        state = shop.answer(f"/orders/{order}?wait={'30s' if price else '200ms'}")["state"]
        assert state == ("completed" if price else "pending"), (order, price)
        shop.answer(f"/orders/{order}/payment", {"amount": 9})
        assert shop.answer(f"/orders/{order}") == ENDED


def test_a_wait_goes_on_at_another_worker(shop):
    for order, die_at in shop.deaths("look"):
        shop.answer("/orders", {"order": order, "price": 9})
        shop.answer(f"/orders/{order}/payment", {"amount": 9})
        shop.request(f"/orders/{order}", die_at=die_at)
        assert shop.answer(f"/orders/{order}") == ENDED


def test_a_refund_is_asked_once(shop):
    for order, die_at in shop.deaths("refund"):
        path, body = f"/orders/{order}/refund?wait=0", {"amount": 101}
        if shop.request(path, body, die_at) is None:
            assert shop.answer(path, body)["state"] == "pending"
        shop.answer(f"/refunds/{order}", NO)
        assert shop.answer(path, body) == {"state": "completed", **NO}


def test_a_decision_that_was_answered_stands(shop):
    for order, die_at in shop.deaths("decide"):
        path, body = f"/orders/{order}/refund?wait=0", {"amount": 101}
        shop.answer(path, body)
        if shop.request(f"/refunds/{order}", YES, die_at) is None:
            shop.answer(f"/refunds/{order}", YES)
        assert shop.answer(path, body) == {"state": "completed", **YES}
        assert until(lambda: shop.request(f"/refunds/{order}", NO)).status == 409  # noqa: B023 - called at once


def test_a_mail_goes_out_whenever_its_mailer_dies(shop):
    wanted = set()
    for die_at in count():
        order = f"mail-{die_at}"
        shop.answer("/orders", {"order": order, "price": 9})
        shop.answer(f"/orders/{order}/payment", {"amount": 9})
        shop.answer(f"/orders/{order}")
        wanted.add(f"payment-{order}")
        dying = shop.mailer(f"dying.py mailer.py mail {die_at}")
        until(lambda: dying.poll() is not None or shop.mailed() >= wanted, "the mailer")  # noqa: B023
        if dying.poll() is None:  # it has no more steps
            break
        assert dying.returncode == -signal.SIGKILL
    assert die_at > 3
    until(lambda: shop.mailed() >= wanted, "the leases of dead mailers")
