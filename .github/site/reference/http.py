"""Every endpoint and document of the HTTP service, from its ``openapi.json``."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from purgatory_async.service.api.openapi import document
from purgatory_async.service.api.routes import DESCRIBED
from reference.markdown import code, prose, table

_WIDE: Final = {(-(2**31), 2**31 - 1): "32-bit integer", (-(2**63), 2**63 - 1): "64-bit integer"}
_LEFT_OUT: Final = "/ui/"  # the parts of the dashboard
_INTRODUCTION: Final = """# HTTP

The service describes itself at `/openapi.json` (OpenAPI 3.1), from which generators make clients; this page shows the
same. Any endpoint may answer a [problem](problems.md). With `--tokens` all but the ones marked *open* need a token.
"""


@cache
def described() -> dict[str, Any]:
    """Return the document in OpenAPI."""
    return document(DESCRIBED)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return method, path and description of every endpoint; a HEAD is as its GET."""
    for path, methods in described()["paths"].items():
        for method, operation in methods.items():
            if method != "head" and not path.startswith(_LEFT_OUT):
                yield method.upper(), path, operation


def endpoints_by_slug() -> dict[str, list[str]]:
    """Return the links to the endpoints that name each problem."""
    found: dict[str, list[str]] = {}
    for method, path, operation in operations():
        for slug in _slugs(operation):
            found.setdefault(slug, []).append(
                f"[`{method} {path}`](http.md#{operation['operationId'].lower()})"
            )
    return found


def markdown() -> str:
    """Return the page."""
    rows = [
        (f"[{code(f'{method} {path}')}](#{operation['operationId'].lower()})", prose(operation["summary"]))
        for method, path, operation in operations()
    ]
    parts = [_INTRODUCTION, table(("endpoint", "what it does"), rows), "## Endpoints"]
    for method, path, operation in operations():
        parts += _endpoint(method, path, operation)
    parts.append("## Documents\n\nThe bodies of requests and answers. Members in bold are required.")
    for name, schema in sorted(described()["components"]["schemas"].items()):
        parts += _document(name, schema)
    return "\n\n".join(part for part in parts if part)


def _endpoint(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation['operationId']}"
    yield f"{code(f'{method} {path}')}: {prose(operation['summary'])}.{'' if operation['security'] else ' *Open.*'}"
    if parameters := operation["parameters"]:
        rows = [
            (code(each["name"]), each["in"], kind_of(each["schema"]), _default(each["schema"]))
            for each in parameters
        ]
        yield table(("parameter", "in", "value", "default"), rows)
    if "requestBody" in operation:
        yield f"Body: {_content(operation['requestBody'])}."
    answers = {status: answer for status, answer in operation["responses"].items() if status < "400"}
    yield "\n".join(
        f"- {status}: {_content(answer) or prose(answer['description'])}"
        for status, answer in answers.items()
    )
    slugs = ", ".join(f"[`{slug}`](problems.md#{slug})" for slug in sorted(_slugs(operation)))
    yield f"Problems: {slugs}."


def _slugs(operation: dict[str, Any]) -> set[str]:
    refusals = (answer["description"] for status, answer in operation["responses"].items() if status >= "400")
    return {
        slug.strip(" `") for refusal in refusals for slug in refusal.split(",") if refusal.startswith("`")
    }


def _content(answer: dict[str, Any]) -> str:
    content = answer.get("content", {})
    return ", ".join(
        kind_of(each["schema"]) if "json" in kind else code(kind) for kind, each in content.items()
    )


def _document(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield prose("\n".join(line.strip() for line in schema.get("description", "").splitlines()))
    required = schema.get("required", [])
    rows = [
        (f"**{code(member)}**" if member in required else code(member), kind_of(each), _default(each))
        for member, each in schema.get("properties", {}).items()
    ]
    if rows:
        yield table(("member", "value", "default"), rows)


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else code(default if isinstance(default, str) else json.dumps(default))


def kind_of(schema: dict[str, Any]) -> str:
    """Return what a schema allows, in few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(code(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}))}{_between(schema, 'Items', ' items')}"
    if wide := _WIDE.get((schema.get("minimum"), schema.get("maximum"))):
        return wide
    bounds = _between(schema, "imum", "") or _between(schema, "Length", " characters")
    form = schema.get("format") or code(schema.get("pattern", ""))
    return f"{schema.get('type', 'any JSON')}{bounds}{form and f', {form}'}"


def _between(schema: dict[str, Any], what: str, unit: str) -> str:
    lowest, highest = schema.get(f"min{what}"), schema.get(f"max{what}")
    if lowest is None and highest is None:
        return ""
    if highest is None:
        return f", at least {lowest}{unit}"
    return f", {lowest} to {highest}{unit}" if lowest is not None else f", at most {highest}{unit}"
