"""``/openapi.json``: made from what the service checks and answers, and so true of it."""

import json
import re

import pytest

import purgatory_async
from purgatory_async.durable.documents.problems import Kind
from purgatory_async.service.api.openapi import document
from purgatory_async.service.api.page import MODULES
from purgatory_async.service.api.routes import DESCRIBED, ROUTES
from purgatory_async.service.contract.http_problems import HttpKind

DOCUMENT = json.loads(json.dumps(document(DESCRIBED)))
OPERATIONS = [
    pytest.param(path, method, id=f"{method} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
]


def every(node, name):
    """Every value of a member, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            yield from every(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from every(value, name)


def test_it_has_every_path_and_method_but_the_pages_modules():
    described = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    served = {(path, method) for path, methods in ROUTES.items() for method in methods}
    assert described == served - {(f"/ui/{name}", method) for name in MODULES for method in ("GET", "HEAD")}
    assert ("/openapi.json", "GET") in described


def test_it_names_the_packages_version():
    assert DOCUMENT["info"]["version"] == purgatory_async.__version__


def test_every_reference_leads_somewhere():
    schemas = DOCUMENT["components"]["schemas"]
    references = set(every(DOCUMENT, "$ref"))
    assert references
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= set(schemas)


def test_every_operation_has_a_stable_name_of_its_own():
    names = list(every(DOCUMENT["paths"], "operationId"))
    assert len(set(names)) == len(names)
    # Generated clients call these.
    assert {name for name in names if not name.startswith("head")} == {
        *("submitOperation", "readOperation", "completeOperation", "cancelOperation", "listOperations"),
        *("attachOperation", "failOperation", "answerOperation", "rescheduleOperation", "forgetOperation"),
        *("waitOnce", "readKey", "signalKey", "signalKeys", "readEvents"),
        *("putItem", "takeItem", "peekItems", "purgeQueue", "redriveItems"),
        *("listQueues", "readQueue", "setQueue", "forgetQueue"),
        *("acknowledgeLease", "returnLease", "extendLease"),
        *("acknowledgeLeases", "returnLeases", "listLeases"),
        *("drain", "readStats", "readMetrics", "checkAlive", "checkReady", "describe"),
        *("redirectRoot", "redirectUi", "readPage", "readScript", "readStyle"),
        *("readFeed", "searchOperations", "listQuestions"),
        *("makeLink", "readLinkStyle", "readQuestion", "answerQuestion"),
    }
    heads = [methods["head"]["operationId"] for methods in DOCUMENT["paths"].values() if "head" in methods]
    gets = [methods["get"]["operationId"] for methods in DOCUMENT["paths"].values() if "get" in methods]
    assert heads == [f"head{name[:1].upper()}{name[1:]}" for name in gets]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_operation_has_summary_parameters_and_scope(path, method):
    operation = DOCUMENT["paths"][path][method]
    assert len(operation["summary"].split()) >= 2
    assert re.findall("{([a-z]+)}", path) == [
        parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"
    ]
    endpoint = ROUTES[path][method.upper()]
    assert operation["security"] == ([] if endpoint.permission is None else [{"token": []}, {}])
    assert ("requestBody" in operation) == (endpoint.body is not None)
    assert {str(status) for status in endpoint.answers} <= set(operation["responses"])


def test_a_problem_stands_under_its_status():
    responses = DOCUMENT["paths"]["/v1/operations/{id}/complete"]["post"]["responses"]
    for kind in (Kind.ALREADY_ENDED, Kind.UNKNOWN_OPERATION, Kind.FORBIDDEN, HttpKind.TOO_LARGE):
        assert f"`{kind.slug}`" in responses[str(kind.status)]["description"]
        assert "application/problem+json" in responses[str(kind.status)]["content"]


@pytest.mark.asyncio
async def test_it_is_served_without_a_token(make_client):
    reply = await make_client().request("GET", "/openapi.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json == DOCUMENT


@pytest.mark.asyncio
async def test_mounted_it_names_its_mount_point(make_client):
    reply = await make_client(root_path="/held").request("GET", "/openapi.json")
    assert reply.json["servers"] == [{"url": "/held"}]
