"""``/ui/``: the dashboard, three files that the browser puts together; what it shows it asks for as any client does."""

from pathlib import Path
from typing import Final

from purgatory_async.service.answer import Answer
from purgatory_async.service.request import Request
from purgatory_async.service.service import Service

STATIC: Final = Path(__file__).parent.parent / "static"

# A fixed table: no path of a request ever becomes a path of the file system.
_FILES: Final = {
    name: (STATIC.joinpath(name).read_bytes(), media_type)
    for name, media_type in (
        ("index.html", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
    )
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = (
    ("Content-Security-Policy", _POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


async def root(service: Service, request: Request) -> Answer:
    """``/``: leads to the page."""
    return await entry(service, request)


async def entry(service: Service, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/ui``: the page's addresses are relative, so it has to be below the slash."""
    request.query()
    return Answer(308, headers=(("Location", f"{request.prefix}/ui/"),))


async def page(service: Service, request: Request) -> Answer:  # noqa: ARG001 - as above
    """``/ui/``: the page."""
    return _file(request, "index.html")


async def script(service: Service, request: Request) -> Answer:  # noqa: ARG001 - as above
    """``/ui/app.js``: what it does."""
    return _file(request, "app.js")


async def style(service: Service, request: Request) -> Answer:  # noqa: ARG001 - as above
    """``/ui/style.css``: what it looks like."""
    return _file(request, "style.css")


def _file(request: Request, name: str) -> Answer:
    body, media_type = _FILES[name]
    request.query()
    request.check_accept(media_type.partition(";")[0])
    return Answer(200, body, media_type, _SAFE)
