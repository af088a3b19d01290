"""Every problem that the service answers with: slug, status, meaning, what the detail says, and what to do."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from purgatory_async.durable.documents import problems
from purgatory_async.durable.documents.problems import TYPE_PREFIX, Kind, ProblemKind
from purgatory_async.service.contract import http_problems
from purgatory_async.service.contract.http_problems import CLOSING, RETRIED, HttpKind
from reference.http import endpoints_by_slug
from reference.markdown import code, prose, table

# What the code cannot say: the next step, for the author of the client or the operator.
ADVICE: Final[Mapping[str, str]] = {
    "malformed": "Send one JSON document in UTF-8, without comments, trailing commas, `NaN` or repeated names.",
    "invalid": "Mend the members that `errors` names; each entry has the JSON pointer and the bound.",
    "bad-parameter": "Mend the query parameter that `parameter` names; `grammar` is what it must follow.",
    "bad-key": "Use a key of 1 to 512 bytes without control characters; percent-encode it in a path.",
    "too-many-keys": "Wait for at most `limit` keys in one operation, or for one key that all signals share.",
    "overloaded": "Retry after `Retry-After`. If it goes on, end what is no longer needed, or raise the limit that"
    " `limit`, `budget` or `flag` names. The metrics `purgatory_used` and `purgatory_limit` show how near each is.",
    "draining": "Retry after `Retry-After`; the request reaches another worker, or this one once it has started again.",
    "gap": "Look at the state that you wait for, then wait again.",
    "store-unavailable": "Retry with the same `Idempotency-Key`. The operator looks at `purgatory_store_trouble`, whose"
    " label `cause` says why the store does not serve.",
    "upgrade-pending": "Upgrade all workers, then run `purgatory store level URL 2`; until then omit the new members.",
    "duplicate-id": "Choose another id, or send the same body as the operation that has it to attach to it.",
    "idempotency-mismatch": "Use a new `Idempotency-Key` for a new request; repeat a request byte for byte.",
    "unknown-operation": "Check the id; submit the operation again if it must exist.",
    "forgotten": "Read results sooner, or submit with `keep`; the operator can raise `--retention` or `--max-bytes`.",
    "pending": "Cancel the operation first, or wait for its end.",
    "already-ended": "Read `operation` (or `state` and `result`): it shows how it ended. The first end stands.",
    "links-off": "Start the service with `--public-url`, and with a store also with `--link-secret`.",
    "unknown-queue": "Check the name. A queue exists while it has items, leases, takers or settings.",
    "unknown-lease": "Check the id; take the next item.",
    "lease-expired": "Take the next item; ask for a longer `lease`, or extend it before it expires.",
    "forbidden": "Use a token with the scope or prefix that the detail names, or add it to the line in `--tokens`.",
    "limited": "Retry after `Retry-After`, or raise the limit of the token's line in `--tokens`.",
    "bad-header": "Mend the header that the detail names.",
    "too-large": "Send less at once; the operator can raise `--max-body` up to 1 MiB.",
    "behind": "Retry after `Retry-After`: the worker has not yet applied the position of `X-Purgatory-Position`.",
    "not-ready": "Send requests to another worker. `reasons` and `cause` say what the service waits for.",
    "unknown-link": "Open the link as it was sent, whole. If the secret was replaced, make the link again.",
    "link-expired": "Make another link for the same operation.",
    "unauthorized": "Send `Authorization: Bearer TOKEN` with a token of `--tokens`.",
    "cross-origin": "Call the service from its own pages or a server; a browser may not change it from another site.",
    "misdirected": "Address the service by a name of `--allow-host`, or add the name there.",
    "not-found": "Check the path against [the endpoints](http.md).",
    "method-not-allowed": "Use a method that the header `Allow` names.",
    "unsupported-media-type": "Send `Content-Type: application/json`, and no `Content-Encoding`.",
    "not-acceptable": "Accept the type that the detail names, or leave `Accept` out.",
    "malformed-request": "Mend the client or the proxy before the service: what it sends is not valid HTTP/1.1.",
    "too-slow": "Send the request faster; the operator can raise `--header-timeout` or `--body-timeout`.",
    "target-too-long": "Shorten the path or query, or send keys in a body.",
    "headers-too-large": "Send fewer or shorter header fields; cookies of other services are the usual cause.",
    "internal": "Report it as a bug with the log's record, which has this answer's `X-Request-Id`.",
}
_INTRODUCTION: Final = f"""# Problems

A refused request is answered with `application/problem+json` ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). Its
`type` is `{TYPE_PREFIX}` and a slug; `detail` names the value and the bound. Branch on the slug, show the detail. An
ellipsis below stands for a value of the request.
"""


def kinds() -> list[ProblemKind]:
    """Return all problems, in the order of their slugs."""
    return sorted([*Kind, *HttpKind], key=lambda kind: kind.slug)


def markdown() -> str:
    """Return the page."""
    cases, endpoints = _cases(), endpoints_by_slug()
    rows = [(f"[`{kind.slug}`](#{kind.slug})", kind.status, kind.title) for kind in kinds()]
    parts = [_INTRODUCTION, table(("slug", "status", "meaning"), rows)]
    for kind in kinds():
        parts += [
            f"## `{kind.slug}`",
            f"**{kind.status}** {kind.title}.",
            f"*What to do:* {ADVICE[kind.slug]}",
        ]
        parts += [
            f"- {said}{f' {code(detail)}' if detail else ''}" for said, detail in cases.get(kind.name, ())
        ]
        parts.append(_around(kind, endpoints.get(kind.slug, [])))
    return "\n\n".join(part for part in parts if part)


def _around(kind: ProblemKind, endpoints: list[str]) -> str:
    said = []
    if kind in RETRIED:
        said.append("The answer has `Retry-After`.")
    if kind in CLOSING:
        said.append("The connection closes after it.")
    if 0 < len(endpoints) <= 8:  # noqa: PLR2004 - more would tell nothing
        said.append(f"Answered by {', '.join(endpoints)}.")
    return " ".join(said)


def _cases() -> dict[str, list[tuple[str, str]]]:
    """Return when each kind is raised: the first line of the function that makes it, and its detail."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, said, detail in [*_made_in(problems), *_made_in(http_problems)]:
        found.setdefault(name, []).append((said, detail))
    return found


def _made_in(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    for function in ast.parse(inspect.getsource(module)).body:
        if isinstance(function, ast.FunctionDef) and (said := ast.get_docstring(function)):
            named = [node.attr for node in ast.walk(function) if _names_kind(node)]
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and len(node.args) > 1]
            details = [_shown(call.args[1]) for call in calls if _names_kind(call.args[0])]
            for name in dict.fromkeys(named):
                yield name, prose(said.splitlines()[0]), "".join(details[:1])


def _names_kind(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"Kind", "HttpKind"}


def _shown(detail: ast.expr) -> str:
    """Return the text of a detail, with an ellipsis for each value."""
    if isinstance(detail, ast.Constant):
        return str(detail.value)
    if isinstance(detail, ast.JoinedStr):
        return "".join(_shown(part) if isinstance(part, ast.Constant) else "…" for part in detail.values)
    return ""
