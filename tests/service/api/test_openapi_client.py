"""A client that openapi-python-client makes of ``/openapi.json`` calls every operation and reads every answer."""

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.processes import records
from tests.service.api.test_openapi import DOCUMENT
from tests.service.every_request import SAMPLES

pytestmark = pytest.mark.slow

GENERATOR = "openapi-python-client==0.29.1"
PATIENCE = 300.0
CALLS = Path(__file__).with_name("generated_calls.py")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The programs of an environment of the generator's own."""
    place = tmp_path_factory.mktemp("generator")
    subprocess.run([sys.executable, "-m", "venv", place], check=True, timeout=PATIENCE)
    install = [place / "bin" / "pip", "install", "--quiet", GENERATOR]
    if subprocess.run(install, check=False, timeout=PATIENCE).returncode:
        pytest.skip(f"{GENERATOR} cannot be had from the package index")
    return place / "bin"


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def model_of(schema, names):
    """The name of the struct that a body or an answer may be: of several the one with such members."""
    schemas = DOCUMENT["components"]["schemas"]
    found = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
    return next(name for name in found if names <= set(schemas[name]["properties"]))


def order_of(method, path, sample, start, *, lease):
    """A call of an operation, as `generated_calls` takes it."""
    operation = DOCUMENT["paths"][path][method.lower()]
    own = "$lease" if lease else sample.id.replace("{}", start)
    names = {"key": f"{start}key", "queue": f"{start}queue", "id": own, "token": "unknown"}
    arguments = {name: names[name] for name in re.findall("{([a-z]+)}", path)}
    repeated = {each["name"] for each in operation["parameters"] if each["schema"].get("type") == "array"}
    for name, value in parse_qsl(sample.query.replace("{}", start).removeprefix("?")):
        arguments[name] = [value] if name in repeated else value
    content = json.loads(json.dumps(sample.content(start)).replace(f"{start}lease", "$lease"))
    body = None
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = [model_of(schema, set(content)), content]
    answer = operation["responses"][str(sample.status)].get("content", {}).get("application/json", {})
    schema = answer.get("schema", {})
    structs = [each.get("$ref", "").rpartition("/")[2] for each in schema.get("anyOf", [schema])]
    return {
        "name": re.sub("([A-Z])", r"_\1", operation["operationId"]).lower(),
        "arguments": arguments,
        "body": body,
        "status": sample.status,
        "answer": [struct for struct in structs if struct],
    }


def furnished(start):
    """The calls that make what a sample needs."""
    for row, content in (
        ("POST /v1/keys/{key}/signal", {"value": [1, None], "voter": "v"}),
        (
            "POST /v1/operations",
            {"keys": [f"{start}key"], "id": f"{start}op", "data": {"x": 1}, "ask": {"title": "Go?"}},
        ),
        ("POST /v1/operations", {"keys": [f"{start}key"], "id": f"{start}ended"}),
        ("POST /v1/queues/{queue}/items", {"items": [{"item": "a"}, {"item": {"b": 2.5}}]}),
        ("POST /v1/queues/{queue}/take", {}),
    ):
        order = order_of(*row.split(), SAMPLES[row], start, lease=False)
        order["body"][1] = content
        if "items" in content:
            order["body"][0] = "ItemsBody"
        yield order
    cancel = "DELETE /v1/operations/{id}"
    order = order_of(*cancel.split(), SAMPLES[cancel], start, lease=False)
    yield {**order, "arguments": {"id": f"{start}ended"}}


def orders():
    """All calls: of each operation, before it what it needs; the drain is the last."""
    apart = {"GET /v1/events", "POST /v1/admin/drain"}
    rows = [row for row in SAMPLES if row not in apart and row.split()[1] in DOCUMENT["paths"]]
    for number, row in enumerate([*rows, "POST /v1/admin/drain"]):
        method, path = row.split()
        start = f"c{number}-"
        yield from furnished(start)
        for each in (method, "HEAD") if method == "GET" else (method,):
            order = order_of(each, path, SAMPLES[row], start, lease="leases" in path)
            yield order
        if row == "GET /v1/wait":
            arguments = {"key": [f"{start}key"], "since": "0", "limit": 5}
            yield {
                **order,
                "name": "wait_once",
                "arguments": arguments,
                "status": 200,
                "answer": ["FollowView"],
            }


def test_a_generated_client_calls_every_operation(serve, environment, tmp_path):
    served = serve("--max-wait", "20ms")
    generate = ("generate", "--url", f"{served.address}/openapi.json", "--meta", "none")
    said = run(environment / "openapi-python-client", *generate, "--output-path", "generated", cwd=tmp_path)
    assert "Unable to parse" not in said
    modules = {path.stem for path in (tmp_path / "generated/api/default").glob("*.py")} - {"__init__"}
    called = list(orders())
    assert modules - {order["name"] for order in called} == {"read_events", "head_read_events"}
    (tmp_path / "calls.json").write_text(json.dumps(called))
    (tmp_path / CALLS.name).write_text(CALLS.read_text())
    run(environment / "python", CALLS.name, served.address, "calls.json", cwd=tmp_path)
    code, logged = served.stop()
    assert code == 0
    assert [record for record in records(logged) if record["level"] == "error"] == []
