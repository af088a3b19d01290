"""Traces of real workers, with the SDK set up as by ``opentelemetry-instrument``: before the program begins."""

import json
import os

import pytest

from tests.processes import Served, until

pytestmark = pytest.mark.slow

# Each process appends its spans to a file of its own, one a line.
SITECUSTOMIZE = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

path = os.path.join(os.environ["SPANS"], f"{os.getpid()}.jsonl")
exporter = ConsoleSpanExporter(out=open(path, "a"), formatter=lambda span: span.to_json(indent=None) + "\\n")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


def traceparent(trace):
    return {"traceparent": f"00-{trace:032x}-{1:016x}-01"}


def worker_of(reply):
    """Which worker has answered: ids of requests begin with a name of their process."""
    return reply.headers["x-request-id"].partition("-")[0]


def test_one_trace_over_two_workers_of_a_store(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    spans = tmp_path / "spans"
    spans.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SPANS": str(spans)}
    flags = ("--workers", "2", "--store", f"sqlite:///{tmp_path}/log.db", "--otel")
    pairs = []
    with Served(*flags, env=environment) as served:
        served.ready()

        def over_two_workers():
            """Submit and complete one more operation, on a connection each; whether two workers have answered."""
            number = len(pairs) + 1
            order = {"keys": [f"order:{number}"], "id": f"o{number}"}
            asked = served.request("POST", "/v1/operations", order, traceparent(number))
            path = f"/v1/operations/o{number}/complete"
            answered = served.request("POST", path, {}, traceparent(number + 1000))
            assert (asked.status, answered.status) == (202, 200)
            pairs.append((worker_of(asked), worker_of(answered)))
            # Each worker has answered, and one of them what the other was asked.
            return pairs[-1][0] != pairs[-1][1] and len({answerer for _, answerer in pairs}) > 1

        until(over_two_workers, "an answer by another worker")
        assert served.stop()[0] == 0  # what is not exported yet is, now
    found = {path.stem: path.read_text().splitlines() for path in spans.iterdir()}
    ended = [(process, json.loads(line)) for process, each in found.items() for line in each]
    numbers = [int(span["context"]["trace_id"], 16) for _, span in ended]
    assert sorted(numbers) == list(
        range(1, len(pairs) + 1)
    )  # one for each operation, in the trace of its question
    processes = dict(zip(numbers, (process for process, _ in ended), strict=True))
    answerers = {(answerer, processes[number]) for number, (_, answerer) in enumerate(pairs, 1)}
    assert len(answerers) == len(dict(answerers))  # made by the worker that answered
    for number, (_, span) in zip(numbers, ended, strict=True):
        assert (span["name"], int(span["parent_id"], 16)) == ("operation order", 1)
        linked = [int(link["context"]["trace_id"], 16) for link in span["links"]]
        assert linked == [number, number + 1000]
