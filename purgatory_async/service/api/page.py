"""``/ui``: the dashboard's page, as files. `dashboard` answers what it asks for."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from purgatory_async.service.api.request import Request
from purgatory_async.service.http.answer import Answer
from purgatory_async.service.http_service import HttpService

STATIC: Final = Path(__file__).parent.parent / "static"
_MEDIA_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

# A fixed table: no request's path becomes a path in the file system.
_FILES: Final = {
    path.name: (path.read_bytes(), _MEDIA_TYPES[path.suffix])
    for path in sorted(STATIC.iterdir())
    if path.suffix in _MEDIA_TYPES
}
_SCRIPT: Final = "app.js"
MODULES: Final = tuple(name for name in _FILES if name.endswith(".js") and name != _SCRIPT)
"""The modules that the script imports, by their names."""

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


def redirect_root(service: HttpService, request: Request) -> Answer:
    """``/``: redirect to the dashboard."""
    return redirect_ui(service, request)


def redirect_ui(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/ui``: redirect to ``/ui/``, because the page has relative addresses."""
    request.query()
    return Answer(308, headers=(("Location", f"{request.prefix}/ui/"),))


def read_page(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/ui/``: the dashboard's page."""
    return _file(request, "index.html")


def read_script(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/ui/app.js``: the dashboard's script."""
    return _file(request, _SCRIPT)


def read_style(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
    """``/ui/style.css``: the dashboard's style."""
    return _file(request, "style.css")


def module_reader(name: str) -> Callable[[HttpService, Request], Answer]:
    """Make the endpoint of one of `MODULES`."""

    def read_module(service: HttpService, request: Request) -> Answer:  # noqa: ARG001 - an endpoint takes both
        """``/ui/NAME.js``: a module of the dashboard's script."""
        return _file(request, name)

    return read_module


def _file(request: Request, name: str) -> Answer:
    body, media_type = _FILES[name]
    request.query()
    request.check_accept(media_type)
    return Answer(200, body, f"{media_type}; charset=utf-8", _SAFE)
