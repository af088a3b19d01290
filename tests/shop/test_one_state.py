"""The shop, a service and its clients on one store: they have one state."""

import json
import urllib.request

import pytest

from purgatory_async.client import Client
from tests.cluster.servers import by_engine
from tests.processes import Served
from tests.shop.running import Shop, new_store

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("engine", by_engine(["sqlite", "postgres"]))
def test_the_shop_and_a_service_have_one_state(engine, tmp_path):
    with (
        Shop(tmp_path, new_store(engine)) as shop,
        Served("--store", shop.store) as served,
        Client(served.address) as client,
    ):
        served.ready()

        def told(path, body=None):
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(shop.address + path, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)

        # An order of the shop's, paid by its cashier, ends at the service's client.
        told("/orders", {"order": "7", "price": 150})
        assert client.status("payment-7").pending
        cashier = shop.start("echo 7 150 | python cashier.py")
        assert client.follow("payment-7", timeout=30).state == "completed"
        assert cashier.wait() == 0
        assert told("/orders/7")["state"] == "completed"
        # The mail is the service's item, too.
        lease = client.take("mails", timeout=30)
        assert (lease.item["operation"], lease.item["state"]) == ("payment-7", "completed")
        client.acknowledge(lease)
        # The shop asks, a client answers.
        assert told("/orders/7/refund?wait=0", {"amount": 150})["state"] == "pending"
        assert [each.id for each in client.operations(id_prefix="refund-")] == ["refund-7"]
        client.answer("refund-7", "no", by="ann")
        answer = {"state": "completed", "choice": "no", "by": "ann"}
        assert told("/orders/7/refund", {"amount": 150}) == answer
        # A client asks, a person answers in the shop.
        client.attach("refund-8", ask={"title": "Refund?", "choices": ["yes", "no"]})
        assert told("/refunds/8", {"choice": "yes", "by": "bob"})["by"] == "bob"
        assert client.follow("refund-8", timeout=30).choice == "yes"
