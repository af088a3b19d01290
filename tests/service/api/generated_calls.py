"""Calls operations with a client that openapi-python-client generated: ``python generated_calls.py URL CALLS``.

Runs in an environment that has what such a client imports, so it imports nothing of ours. Each call is ``{"name",
"arguments", "body", "status", "answer"}``; an argument ``$lease`` is the lease that was taken last.
"""

import importlib
import json
import sys
from pathlib import Path

from generated import models
from generated.client import Client


def parsed(value):
    """Check that everything of an answer has a member of its own, and each row of a list a type."""
    if isinstance(value, list):
        for each in value:
            assert not isinstance(each, dict), value
            parsed(each)
    elif hasattr(value, "to_dict"):
        names = {member.name for member in value.__attrs_attrs__} - {"additional_properties"}
        others = getattr(value, "additional_properties", {})  # some may have none
        assert not (names and others), value
        for each in (*(getattr(value, name) for name in names), *others.values()):
            parsed(each)


def call(client, order, lease):
    operation = importlib.import_module(f"generated.api.default.{order['name']}")
    given = json.loads(json.dumps(order).replace("$lease", lease))
    arguments = given["arguments"]
    if given["body"] is not None:
        model, content = given["body"]
        arguments["body"] = getattr(models, model).from_dict(content)
    answer = operation.sync_detailed(client=client, **arguments)
    assert answer.status_code == given["status"], (given, answer.content)
    if given["answer"]:
        assert type(answer.parsed).__name__ in given["answer"], (given, answer.parsed)
        parsed(answer.parsed)
    return answer.parsed


def main(url, calls):
    lease = ""
    with Client(base_url=url, raise_on_unexpected_status=True) as client:
        for order in json.loads(Path(calls).read_text()):
            found = call(client, order, lease)
            lease = found.lease if order["name"] == "take_item" else lease


if __name__ == "__main__":
    main(*sys.argv[1:])
