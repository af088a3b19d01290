"""Several workers in one loop, with a stand-in for the supervisor: readiness, one scrape, one drain."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from purgatory_async.service.api.admin import answer_peer
from purgatory_async.service.api.scrape import OWN, SHARED
from purgatory_async.service.channel import Answer, Ask, Serving
from purgatory_async.testing import settle

pytestmark = pytest.mark.asyncio


class Crowd:
    """Workers whose questions reach the others at once; those that are stuck do not answer."""

    def __init__(self, make_client, number):
        self.clients = [make_client() for _ in range(number)]
        self.stuck = set()
        self.asked = []
        for place, client in enumerate(self.clients, 1):
            client.service.peers.join(place, self.route, Serving([], number, complete=False))

    def route(self, ask):
        self.asked.append(ask)
        for place, client in enumerate(self.clients, 1):
            body = answer_peer(client.service, ask.what) if place != ask.worker else None
            if body is not None and place not in self.stuck:
                self.clients[ask.worker - 1].service.peers.note(Answer(ask.worker, ask.number, place, body))

    def serving(self, *workers, complete=True):
        for client in self.clients:
            client.service.peers.note(Serving(list(workers), len(self.clients), complete))


async def samples_of(exchange):
    await settle()
    families = list(text_string_to_metric_families(exchange.body.decode()))
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


async def test_it_is_ready_once_all_workers_were(make_client):
    crowd = Crowd(make_client, 2)
    crowd.serving(1, complete=False)
    unready = await crowd.clients[0].request("GET", "/readyz")
    assert (unready.status, unready.slug, unready.json["reasons"]) == (503, "not-ready", ["workers"])
    crowd.serving(1, 2)
    assert (await crowd.clients[0].request("GET", "/readyz")).status == 200
    crowd.serving(1)  # the other is being replaced
    assert (await crowd.clients[0].request("GET", "/readyz")).status == 200


async def test_a_worker_knows_the_others_from_its_start(make_client):
    crowd = Crowd(make_client, 2)
    crowd.serving(2)
    crowd.clients[0] = make_client()  # takes the place of one that ended
    crowd.clients[0].service.peers.join(1, crowd.route, Serving([2], 2, complete=True))
    samples = await samples_of(await crowd.clients[0].request("GET", "/metrics"))
    assert samples["purgatory_worker_up", "1"] == samples["purgatory_worker_up", "2"] == 1


async def test_a_scrape_shows_own_metrics_of_all_and_shared_once(make_client):
    crowd = Crowd(make_client, 3)
    crowd.serving(1, 2, 3)
    await crowd.clients[1].held("GET", "/v1/wait?key=a&wait=30s")
    await crowd.clients[2].signal("b")
    samples = await samples_of(await crowd.clients[2].request("GET", "/metrics"))
    assert [samples["purgatory_held", worker] for worker in "123"] == [0, 1, 0]
    assert [samples["purgatory_worker_up", worker] for worker in "123"] == [1, 1, 1]
    assert samples["purgatory_wait_seconds_bucket", "0.001", "2"] == 0
    assert samples["purgatory_signals_total",] == 1


async def test_the_requests_of_all_workers_add_up_in_one_scrape(make_client):
    crowd = Crowd(make_client, 3)
    crowd.serving(1, 2, 3)
    for number, client in enumerate(crowd.clients, 1):
        for _ in range(number):
            await client.request("GET", "/healthz")
    samples = await samples_of(await crowd.clients[0].request("GET", "/metrics"))
    counted = {
        labels[-1]: value
        for (name, *labels), value in samples.items()
        if name == "purgatory_http_requests_total" and "/healthz" in labels
    }
    assert counted == {"1": 1, "2": 2, "3": 3}
    assert sum(name == "purgatory_build_info" for name, *_ in samples) == 1


async def test_a_scrape_does_not_wait_for_a_stuck_worker(make_client):
    crowd = Crowd(make_client, 3)
    crowd.stuck = {1, 2}
    crowd.serving(2, 3)
    scrape = await crowd.clients[2].held("GET", "/metrics")
    await crowd.clients[2].advance(0.9)
    assert not scrape.answered
    await crowd.clients[2].advance(0.2)
    samples = await samples_of(scrape)
    assert [samples["purgatory_worker_up", worker] for worker in "123"] == [0, 0, 1]
    assert ("purgatory_held", "2") not in samples


async def test_a_scrape_ends_when_the_missing_worker_does(make_client):
    crowd = Crowd(make_client, 2)
    crowd.stuck = {2}
    crowd.serving(1, 2)
    scrape = await crowd.clients[0].held("GET", "/metrics")
    crowd.serving(1)
    samples = await samples_of(scrape)
    assert [samples["purgatory_worker_up", worker] for worker in "12"] == [1, 0]


async def test_a_late_answer_is_dropped(make_client):
    crowd = Crowd(make_client, 2)
    crowd.stuck = {2}
    crowd.serving(1, 2)
    scrape = await crowd.clients[0].held("GET", "/metrics")
    await crowd.clients[0].advance(1.1)
    assert scrape.answered
    crowd.clients[0].service.peers.note(Answer(1, crowd.asked[0].number, 2, b""))
    crowd.stuck.clear()
    samples = await samples_of(await crowd.clients[0].request("GET", "/metrics"))
    assert samples["purgatory_worker_up", "2"] == 1


async def test_a_drain_at_one_worker_drains_all(make_client):
    crowd = Crowd(make_client, 3)
    crowd.serving(1, 2, 3)
    held = [await client.held("GET", "/v1/wait?key=a&wait=30s") for client in crowd.clients]
    reply = await crowd.clients[1].request("POST", "/v1/admin/drain")
    assert (reply.status, reply.json["released"]) == (202, 3)
    await settle()
    assert [exchange.slug for exchange in held] == ["draining"] * 3


async def test_a_starting_worker_is_asked_but_not_awaited(make_client):
    crowd = Crowd(make_client, 2)
    crowd.stuck = {2}
    crowd.serving(1)
    reply = await crowd.clients[0].request("POST", "/v1/admin/drain")
    assert reply.status == 202
    assert crowd.clients[1].service.draining


async def test_alone_nobody_is_asked_and_nothing_is_labelled(client):
    samples = await samples_of(await client.request("GET", "/metrics"))
    assert samples["purgatory_held",] == 0
    assert not any(name.startswith("purgatory_worker") for name, *_ in samples)
    assert await client.service.peers.ask("metrics") == {}


async def test_each_metric_is_shared_or_a_workers_own(client):
    names = {metric.name for metric in client.service.metrics.registry.collect()}
    assert names <= SHARED | OWN
    assert not SHARED & OWN


async def test_a_question_is_addressed_to_the_worker_that_asked(make_client):
    crowd = Crowd(make_client, 2)
    crowd.serving(1, 2)
    for client in crowd.clients:
        await client.request("GET", "/metrics")
    assert crowd.asked == [Ask("metrics", 1, 1), Ask("metrics", 2, 1)]
