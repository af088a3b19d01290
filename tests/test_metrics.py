"""Metrics: counters that add up at every scrape, under any events."""

import random
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from purgatory_async import DelayedOperation, Outcome, Purgatory, PurgatoryFull, Timer
from purgatory_async.metrics import Histogram, Metrics
from purgatory_async.testing import ManualClock

KEYS = ("a", "b", "c", "d")


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def scraped(metrics):
    """Submitted, the sum of ended, and pending, as one scrape shows them."""
    submitted = value(metrics, "purgatory_operations_submitted_total")
    ended = sum(value(metrics, "purgatory_operations_ended_total", outcome=outcome) for outcome in Outcome)
    return submitted, ended, value(metrics, "purgatory_operations_pending")


class Flaky(DelayedOperation):
    """Completes, fails or waits on, by a random source."""

    def __init__(self, timeout, chance):
        super().__init__(timeout)
        self.chance = chance

    def try_complete(self):
        drawn = self.chance.random()
        if drawn < 0.05:
            raise ValueError("flaky")
        return drawn < 0.3 and self.force_complete()


def observed(**options):
    clock, metrics = ManualClock(), Metrics()
    purgatory = Purgatory(timer=Timer(clock=clock), observer=metrics, **options)
    metrics.gauge(purgatory)
    return clock, metrics, purgatory


@pytest.mark.parametrize("seed", range(2))
def test_submitted_is_ended_plus_pending_under_a_random_load(seed):
    chance = random.Random(seed)
    clock, metrics, purgatory = observed(max_pending=40)

    def submit():
        operation = Flaky(chance.choice([None, 0, 0.5, 3]), chance)
        # Refused, or failed in its own first check: never submitted.
        with suppress(PurgatoryFull, ValueError):
            purgatory.try_complete_else_watch(operation, chance.sample(KEYS, chance.randint(1, 4)))

    steps = [
        submit,
        submit,
        submit,
        lambda: purgatory.check_and_complete(chance.choice(KEYS)),
        lambda: clock.advance(chance.random()),
        lambda: purgatory.cancel_for_key(chance.choice(KEYS)) if chance.random() < 0.2 else None,
    ]
    for _ in range(500):
        chance.choice(steps)()
        submitted, ended, pending = scraped(metrics)
        assert submitted == ended + pending
        assert pending == purgatory.pending
        assert value(metrics, "purgatory_watched") == purgatory.watched
    purgatory.close()
    submitted, ended, pending = scraped(metrics)
    assert (submitted, pending) == (ended, 0)
    assert {outcome for outcome, number in metrics.ended.items() if number} == set(Outcome)


def test_signals_without_waiters_are_counted():
    _, metrics, purgatory = observed()
    purgatory.try_complete_else_watch(DelayedOperation(), ["a"])
    purgatory.check_and_complete("a")
    purgatory.complete_for_key("unwatched")
    assert value(metrics, "purgatory_signals_total") == 2
    purgatory.close()


def test_waits_and_lateness_are_in_the_histograms():
    clock, metrics, purgatory = observed()
    purgatory.try_complete_else_watch(DelayedOperation(3.0), ["a"])
    clock.advance(4)
    assert value(metrics, "purgatory_wait_seconds_bucket", le="2.0") == 0
    assert value(metrics, "purgatory_wait_seconds_bucket", le="5.0") == 1
    assert value(metrics, "purgatory_wait_seconds_sum") == pytest.approx(3.0, abs=0.002)
    assert value(metrics, "purgatory_lateness_seconds_count") == 1
    assert value(metrics, "purgatory_lateness_seconds_sum") <= 0.001


def test_a_histogram_bucket_holds_all_up_to_its_bound():
    histogram = Histogram((1, 2))
    for seconds in (0.5, 1, 1.5, 2, 3):
        histogram.observe(seconds)
    samples = {sample.labels.get("le"): sample.value for sample in histogram.metric("x", "x").samples}
    assert (samples["1.0"], samples["2.0"], samples["+Inf"]) == (2, 4, 5)


def test_two_in_one_process_do_not_collide():
    first, second = Metrics(), Metrics()
    assert first.registry is not second.registry
    shared = CollectorRegistry()
    Metrics(shared)
    assert b"purgatory_operations_pending 0.0" in generate_latest(shared)


def test_a_gauge_of_ones_own_is_read_at_every_scrape():
    metrics, shown = Metrics(), iter([3, 2.5])
    metrics.show("jobs_running", "Jobs that run.", lambda: next(shown))
    text = generate_latest(metrics.registry).decode()
    assert "# HELP jobs_running Jobs that run.\n# TYPE jobs_running gauge\njobs_running 3.0\n" in text
    assert value(metrics, "jobs_running") == 2.5


def test_what_never_changes_is_in_the_labels_of_a_gauge():
    metrics = Metrics()
    metrics.info("jobs_build", "How it was built.", core="compiled", version="7")
    assert value(metrics, "jobs_build", core="compiled", version="7") == 1


def test_no_metric_is_per_key():
    _, metrics, purgatory = observed()
    for number in range(50):
        purgatory.try_complete_else_watch(DelayedOperation(), [f"key-{number}"])
    labels = {
        name for family in metrics.registry.collect() for sample in family.samples for name in sample.labels
    }
    assert labels == {"outcome", "le"}
    assert "key-7" not in generate_latest(metrics.registry).decode()
    purgatory.close()
