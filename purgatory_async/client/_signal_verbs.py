"""The verb of signals one after another, as a conversation (see `_talk`)."""

from collections.abc import Mapping
from typing import Final

from purgatory_async.client import _documents as documents
from purgatory_async.client._signals import SignalReader
from purgatory_async.client._talk import Request, Response, Talk, path, understood
from purgatory_async.client._verbs import Verbs, wait_for

_NO_CONTENT: Final = 204


class SignalVerbs(Verbs):
    """Verbs under one policy."""

    def more_signals(self, reader: SignalReader) -> Talk[None]:
        """Poll until a signal came after the reader's ``since``, or may be missing."""

        def ask(held: float) -> Request:
            """Request them once."""
            names = (*(("key", key) for key in reader.keys), *(("prefix", each) for each in reader.prefixes))
            query = (*names, ("since", reader.since), *wait_for(held))
            return Request("GET", path("wait"), query=query, held=held, twice_is_once=True)

        def empty(answer: Response) -> bool:
            """Whether nothing came; then the next request begins where this one has looked."""
            if answer.status != _NO_CONTENT:
                return False
            reader.looked(understood(answer, lambda _: _next(answer.headers)))
            return True

        answer = yield from self.poll(ask, empty, None)
        reader.came(*understood(answer, documents.followed))


def _next(headers: Mapping[str, str]) -> str:
    """Return the next ``since``, which an empty answer has in its headers."""
    return headers.get("x-purgatory-next") or "{x-purgatory-epoch}-{x-purgatory-index}".format_map(headers)
