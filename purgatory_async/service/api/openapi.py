"""Generates ``openapi.json`` from the routes.

Bodies and answers are the structs of `messages` and `stats`, grammars come from their parsers, problems from `Kind`.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from purgatory_async.durable.documents import CountNeed
from purgatory_async.durable.documents.messages import ID_SCHEMA, KEY_SCHEMA, REFERENCE, ProblemDocument
from purgatory_async.durable.documents.names import MAX_KEYS
from purgatory_async.durable.documents.problems import Kind, ProblemKind
from purgatory_async.durable.history import SINCE_PATTERN
from purgatory_async.durable.verbs.listing import ENDS
from purgatory_async.durable.verbs.pages import MAX_LIMIT
from purgatory_async.durable.verbs.signals import MAX_FOLLOWED
from purgatory_async.durable.waiting.feed import EVENT_ID
from purgatory_async.durations import GRAMMAR
from purgatory_async.service.api.dashboard import MAX_PAGE, PAGE
from purgatory_async.service.api.endpoint import Answers, Endpoint
from purgatory_async.service.api.paging import DEFAULT_LIMIT
from purgatory_async.service.api.query_string import NEED_PATTERN
from purgatory_async.service.api.request import MAX_HEADER, REPEATABLE, Request
from purgatory_async.service.contract.http_problems import HttpKind
from purgatory_async.service.contract.version import VERSION
from purgatory_async.service.http.answer import JSON, PROBLEM_JSON, Answer
from purgatory_async.service.http_service import HttpService

Routes = Mapping[str, Mapping[str, Endpoint]]

_INDEX: Final = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_SWITCH: Final = {"type": "integer", "minimum": 0, "maximum": 1, "default": 0}
_KEY: Final = {"type": "string", **KEY_SCHEMA}
_PLACE: Final = {"type": "string", "minLength": 1, "description": "the `next` of an answer"}
_DURATION: Final = {"type": "string", "pattern": f"^{GRAMMAR}$", "example": "30s"}


def _limit(most: int, **more: object) -> Mapping[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, **more}


_QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    "cursor": _INDEX,
    "delayed": _SWITCH,
    "digest": _SWITCH,
    "first": {**_INDEX, "default": 0},
    "full": _SWITCH,
    "id_prefix": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{0,128}$"},
    "index": _INDEX,
    "key": _KEY,
    "limit": _limit(MAX_LIMIT, default=DEFAULT_LIMIT),
    "need": {"type": "string", "pattern": NEED_PATTERN},
    "prefix": _KEY,
    "queue": _KEY,
    "search": {"type": "string", "example": "orders/"},
    "since": {"type": "string", "pattern": SINCE_PATTERN, "example": "0"},
    "state": {"type": "string", "enum": [*ENDS], "default": "pending"},
    "wait": _DURATION,
}
# Without a default, because it must be left out in one of two modes: generated clients send every default.
_OF_WAITS: Final[Mapping[str, Mapping[str, Any]]] = {
    "full": {"type": "integer", "minimum": 0, "maximum": 1, "description": "only without `since`"},
    "limit": _limit(MAX_FOLLOWED, description=f"only with `since`; left out {MAX_FOLLOWED}"),
    "need": {**_QUERY["need"], "description": "only without `since`; left out `any`"},
    "prefix": {**_KEY, "description": "only with `since`"},
}
_OF_PAGES: Final[Mapping[str, Mapping[str, Any]]] = {"limit": _limit(MAX_PAGE, default=PAGE)}
_HEADERS: Final[Mapping[str, Mapping[str, Any]]] = {
    REPEATABLE: {"type": "string", "minLength": 1, "maxLength": MAX_HEADER},
    "Last-Event-ID": {"type": "string", "pattern": f"^{EVENT_ID}$"},
    "Prefer": {"type": "string", "example": "wait=30"},
}
_STATE: Final = "/v1/"
_PATH: Final[Mapping[str, Mapping[str, Any]]] = {
    "id": {"type": "string", **ID_SCHEMA},
    "key": _KEY,
    "queue": _KEY,
    "token": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
}

_EVERY: Final = (
    Kind.BAD_PARAMETER,
    HttpKind.NOT_ACCEPTABLE,
    HttpKind.MISDIRECTED,
    HttpKind.MALFORMED_REQUEST,
    HttpKind.TARGET_TOO_LONG,
    HttpKind.HEADERS_TOO_LARGE,
    HttpKind.TOO_SLOW,
)
_GUARDED: Final = (HttpKind.UNAUTHORIZED, Kind.FORBIDDEN, Kind.LIMITED)
_CHANGING: Final = (HttpKind.CROSS_ORIGIN,)
# Of what reads or changes the state: it is behind, or its store is away.
_STATEFUL: Final = (HttpKind.BAD_HEADER, HttpKind.BEHIND, Kind.STORE_UNAVAILABLE, Kind.OVERLOADED)
_WITH_BODY: Final = (Kind.MALFORMED, Kind.INVALID, HttpKind.TOO_LARGE, HttpKind.UNSUPPORTED_MEDIA_TYPE)


def with_description(routes: Routes) -> Routes:
    """Return the routes with ``/openapi.json``, which describes all of them."""

    @lru_cache(maxsize=4)
    def encoded(prefix: str) -> bytes:
        """Encode the document, once per mount point."""
        return msgspec.json.encode(document(described, prefix))

    async def describe(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
        """``GET /openapi.json``: describe the service in OpenAPI."""
        request.query()
        request.check_accept(JSON)
        return Answer(200, encoded(request.prefix))

    itself = Endpoint(describe, None, {200: JSON})
    described = {**routes, "/openapi.json": {"GET": itself, "HEAD": itself}}
    return described


def document(routes: Routes, prefix: str = "") -> dict[str, Any]:
    """Describe the service in OpenAPI 3.1.

    Args:
        routes: Its endpoints by path and method.
        prefix: The mount point.
    """
    endpoints = [endpoint for methods in routes.values() for endpoint in methods.values()]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "purgatory",
            "version": VERSION,
            "description": "Parks operations until their condition holds or their timeout expires, exactly once.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": prefix or "/"}],
        "paths": {
            path: {method.lower(): _operation(path, method, endpoint) for method, endpoint in methods.items()}
            for path, methods in routes.items()
        },
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(path: str, method: str, endpoint: Endpoint) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _name(method, endpoint),
        "summary": _summary(endpoint),
        "parameters": list(_parameters(path, endpoint)),
        "responses": _responses(path, method, endpoint),
    }
    if endpoint.body is not None:
        described["requestBody"] = {
            "required": endpoint.needs_body,
            "content": {JSON: {"schema": _schema(endpoint.body)}},
        }
    # Either with a token or without: the operator decides.
    described["security"] = [] if endpoint.permission is None else [{"token": []}, {}]
    return described


def _name(method: str, endpoint: Endpoint) -> str:
    """The name for generated clients: the function's, such as ``readOperation``; ``headReadOperation`` for HEAD."""
    words = endpoint.serve.__name__.split("_")
    first, *others = ["head", *words] if method == "HEAD" else words
    return first + "".join(word.capitalize() for word in others)


def _summary(endpoint: Endpoint) -> str:
    """The text after the path in the docstring of the endpoint's function."""
    line = (inspect.getdoc(endpoint.serve) or "").splitlines()[0]
    sentence = line.partition(": ")[2] or line
    return sentence[:1].upper() + sentence[1:].rstrip(".")


def _parameters(path: str, endpoint: Endpoint) -> Iterable[dict[str, Any]]:
    for name in re.findall("{([a-z]+)}", path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATH[name]}
    for name in endpoint.query:
        schema = _query(name, endpoint)
        if name in endpoint.repeated:
            schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": MAX_KEYS}
        yield {"name": name, "in": "query", "required": False, "schema": schema}
    for name in endpoint.headers:
        yield {"name": name, "in": "header", "required": False, "schema": _HEADERS[name]}


def _query(name: str, endpoint: Endpoint) -> Mapping[str, Any]:
    if name == "cursor" and "key" not in endpoint.query:
        return _PLACE  # not a position
    if "since" in endpoint.query:
        return _OF_WAITS.get(name, _QUERY[name])
    return _OF_PAGES.get(name, _QUERY[name]) if "first" in endpoint.query else _QUERY[name]


def _responses(path: str, method: str, endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): _response(answer, has_body=method != "HEAD")
        for status, answer in endpoint.answers.items()
    }
    kinds = [*_EVERY, *endpoint.problems]
    kinds += [] if endpoint.permission is None else _GUARDED
    kinds += _STATEFUL if path.startswith(_STATE) else []
    kinds += [] if method in {"GET", "HEAD"} else _CHANGING
    kinds += [] if endpoint.body is None else _WITH_BODY
    by_status: dict[int, list[ProblemKind]] = {}
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(kind.status, []).append(kind)
    for status, found in sorted(by_status.items()):
        slugs = ", ".join(f"`{kind.slug}`" for kind in found)
        content = {PROBLEM_JSON: {"schema": _reference(ProblemDocument)}}
        if endpoint.refused is not None and method == "GET":
            content = {"text/html": {"schema": {"type": "string"}}}
        responses[str(status)] = {"description": slugs} | ({} if method == "HEAD" else {"content": content})
    return responses


def _response(answer: Answers, *, has_body: bool) -> dict[str, Any]:
    if not answer:
        return {"description": "No body"}
    content: dict[str, Any]
    if isinstance(answer, str):
        description, content = (
            answer,
            {answer: {"schema": {"type": "object" if answer == JSON else "string"}}},
        )
    elif isinstance(answer, tuple):
        description = " ".join(_first_line(each) for each in answer)
        content = {JSON: {"schema": _schema(answer)}}
    else:
        description = _first_line(answer)
        content = {JSON: {"schema": _schema(answer)}}
    return {"description": description} | ({"content": content} if has_body else {})


def _first_line(struct: type[msgspec.Struct]) -> str:
    return (inspect.getdoc(struct) or "").splitlines()[0]


def _schema(body: type[msgspec.Struct] | tuple[type[msgspec.Struct], ...]) -> dict[str, Any]:
    return {"anyOf": [_reference(each) for each in body]} if isinstance(body, tuple) else _reference(body)


def _reference(struct: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": REFERENCE.format(name=struct.__name__)}


def _schemas(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    structs: dict[type[msgspec.Struct], None] = {ProblemDocument: None}
    for endpoint in endpoints:
        for answer in (*endpoint.answers.values(), endpoint.body):
            each = answer if isinstance(answer, tuple) else (answer,)
            structs |= dict.fromkeys(struct for struct in each if isinstance(struct, type))
    _, components = msgspec.json.schema_components(structs, ref_template=REFERENCE)
    # `__post_init__` checks this, which msgspec's schema does not show: amount or voters, not both.
    components[CountNeed.__name__] |= {"minProperties": 1, "maxProperties": 1}
    return components
