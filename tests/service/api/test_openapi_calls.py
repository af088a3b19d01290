"""What ``/openapi.json`` says can be sent: every operation is called with its defaults, and with its bounds."""

import json
from urllib.parse import urlencode

import pytest

from purgatory_async.testing import settle
from tests.service.api.test_openapi import DOCUMENT, every
from tests.service.conftest import JSON
from tests.service.every_request import SAMPLES, furnish, routes

pytestmark = pytest.mark.asyncio

CALLS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods]


def resolved(schema):
    """A schema, or the first of those that it may be, without references."""
    schema = schema.get("anyOf", [schema])[0]
    name = schema.get("$ref", "").rpartition("/")[2]
    return DOCUMENT["components"]["schemas"][name] if name else schema


def with_defaults(value, schema):
    """A body with every documented default of what it leaves out, also within lists."""
    schema = resolved(schema)
    if schema.get("type") == "array":
        return [with_defaults(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    members = schema.get("properties", {})
    given = {name: each["default"] for name, each in members.items() if "default" in each} | value
    return {name: with_defaults(each, members[name]) for name, each in given.items()}


def sample_of(method, path):
    return SAMPLES[f"{'GET' if method == 'HEAD' else method} {path}"]


def body_of(method, path, sample):
    described = DOCUMENT["paths"][path][method.lower()].get("requestBody")
    if described is None:
        return None
    return with_defaults(sample.content("a-"), described["content"]["application/json"]["schema"])


def queries_of(method, path, member):
    """Each query parameter that has a default, or a bound, with that."""
    parameters = DOCUMENT["paths"][path][method.lower()]["parameters"]
    return {
        each["name"]: each["schema"][member]
        for each in parameters
        if each["in"] == "query" and member in each["schema"]
    }


def responses_of(method, path):
    return DOCUMENT["paths"][path][method.lower()]["responses"]


async def call(client, method, path, **query):
    """Send an operation's sample with its defaults and some parameters; return its answer."""
    furnish(client, "a-")
    sample = sample_of(method, path)
    target = sample.target(path, "a-")
    if query:
        target += ("&" if "?" in target else "?") + urlencode(query)
    body = body_of(method, path, sample)
    content = b"" if body is None else json.dumps(body).encode()
    exchange = client.start(method, target, content, [JSON])
    await settle()
    assert exchange.started, target
    if not exchange.answered:
        exchange.hang_up()  # a stream
        await settle()
    assert str(exchange.status) in responses_of(method, path)
    return exchange


async def test_every_operation_has_a_sample():
    assert routes() == set(SAMPLES)


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_every_default_can_be_sent(client, method, path):
    reply = await call(client, method, path, **queries_of(method, path, "default"))
    assert reply.status == sample_of(method, path).status, reply.body


async def test_every_default_can_be_sent_in_the_other_mode(client):
    defaults = queries_of("GET", "/v1/wait", "default")
    reply = await call(client, "GET", "/v1/wait", **defaults, since="0")
    assert (reply.status, len(reply.json["signals"])) == (200, 1)


@pytest.mark.parametrize("bound", ["minimum", "maximum"])
@pytest.mark.parametrize(("method", "path"), [each for each in CALLS if queries_of(*each, "maximum")])
async def test_every_bound_can_be_sent(client, method, path, bound):
    for name, value in queries_of(method, path, bound).items():
        more = {"since": "0"} if (path, name) == ("/v1/wait", "limit") else {}
        assert (await call(client, method, path, **{name: value}, **more)).status < 400


def schemas(node):
    """Every place of a schema in the document."""
    for name in ("schema", "items", "additionalProperties"):
        yield from every(node, name)
    for name in ("anyOf", "oneOf", "allOf"):
        for several in every(node, name):
            yield from several
    for members in every(node, "properties"):
        yield from members.values()


async def test_no_schema_is_empty():
    found = list(schemas(DOCUMENT))
    assert len(found) > 500
    assert {} not in found


async def test_the_rows_of_every_list_have_a_schema():
    for schema in every(DOCUMENT, "items"):
        assert {"$ref", "type", "anyOf", "enum"} & set(schema), schema
    operations = DOCUMENT["components"]["schemas"]["OperationList"]["properties"]["operations"]
    assert operations["items"] == {"$ref": "#/components/schemas/OperationView"}


async def test_an_answer_fits_no_struct_before_its_own():
    # Generated clients take the first that fits.
    schemas = DOCUMENT["components"]["schemas"]
    for several in every(DOCUMENT["paths"], "anyOf"):
        structs = [schemas[each["$ref"].rpartition("/")[2]] for each in several]
        for number, later in enumerate(structs):
            for earlier in structs[:number]:
                assert not set(earlier["required"]) <= set(later["properties"])


async def test_every_time_is_a_date_time():
    for members in every(DOCUMENT["components"]["schemas"], "properties"):
        for name, schema in members.items():
            if name.endswith("_at") or name in {"at", "until", "deadline", "kept_until"}:
                shown = {key: value for key, value in resolved(schema).items() if key != "pattern"}
                assert shown == {"type": "string", "format": "date-time"}, name
