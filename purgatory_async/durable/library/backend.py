"""All verbs, carried out in this process."""

from purgatory_async.durable.library.operations import Operations


class InProcess(Operations):
    """Implements `Backend` on a state of this process; see its bases."""
