"""What queries say of a page of a list."""

from typing import Final

from purgatory_async.durable.verbs.pages import MAX_LIMIT
from purgatory_async.service.api.query_string import Query

DEFAULT_LIMIT: Final = 100


def limit_of(query: Query) -> int:
    """Return how many elements a page has at most.

    Raises:
        Problem: ``bad-parameter``.
    """
    return query.integer("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
